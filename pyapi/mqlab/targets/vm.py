"""The target vm: a workload of the agent in a real kernel, booted for each run under QEMU.

The clock is deterministic: the guest's time counts instructions, so the same spec gives the same samples,
every nanosecond of them, however busy this machine is.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from mqlab.errors import SystemCallError, TimeoutError_, UnsupportedError, UsageError
from mqlab.kernels.find import find_kernel
from mqlab.kernels.kernel import Kernel
from mqlab.parameters import Scalar
from mqlab.records import RunSamples, RunSpec
from mqlab.targets.base import Basis
from mqlab.vm.boot import GuestReport, boot_guest
from mqlab.vm.initramfs import agent_path, build, spec_document
from mqlab.vm.modules import load_order
from mqlab.vm.qemu import Machine, Qemu, find_qemu

__all__ = ["DEFAULT_KERNEL", "VmTarget", "to_milliseconds"]

DEFAULT_KERNEL = "debian:7.3-cloud"

_MEMORY_MIB = 2048
_BASE_LIMIT_S = 600.0
_LIMIT_S_PER_DEVICE = 0.5
_NS_PER_MS = 1e6


def _nothing(_params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {}


def _ublk_mode(params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A started device is stopped and closed before it is deleted, as in the published tables."""
    return {"mode": "life" if params.get("started", 1) else "add_del"}


@dataclass(frozen=True)
class _GuestWorkload:
    """How a case's workload is done in a guest: by which workload of the agent, and with which modules.

    `takes` are the case's parameters that are handed on; `translate` adds what stands for others. What is
    left describes the machine or the model.
    """

    name: str
    modules: tuple[str, ...]
    takes: tuple[str, ...]
    translate: Callable[[Mapping[str, Scalar]], dict[str, Scalar]] = _nothing


_UBLK_PARAMS = ("devices", "threads", "queues", "depth", "mode", "limit_ms")

# By the case's workload.
_WORKLOADS: Mapping[str, _GuestWorkload] = {
    "ublk_delete": _GuestWorkload("ublk_lifecycle", ("ublk_drv",), _UBLK_PARAMS, _ublk_mode),
    "ublk_lifecycle": _GuestWorkload("ublk_lifecycle", ("ublk_drv",), _UBLK_PARAMS),
}

# What a kernel without any of the series does, by policy.
_UNPATCHED: Mapping[str, Scalar] = {
    "tags_srcu": "per_set",
    "tag_set_argument": "kept",
    "ublk_final_put": "under_mutex",
}


def to_milliseconds(samples: Mapping[str, list[int]]) -> dict[str, list[float]]:
    """Samples in nanoseconds (`..._ns`) as milliseconds; round(value * 1e6) gives each nanosecond back."""
    converted: dict[str, list[float]] = {}
    for name, values in samples.items():
        if name.endswith("_ns"):
            converted[f"{name.removesuffix('_ns')}_ms"] = [value / _NS_PER_MS for value in values]
        else:
            converted[name] = [float(value) for value in values]
    return converted


def _tell(line: str) -> None:
    print(f"mqlab: {line}", file=sys.stderr, flush=True)


class VmTarget:
    """Each run is one boot of the kernel that MQLAB_KERNEL names, by default Debian's newest 7.3."""

    name: ClassVar[str] = "vm"
    clock: ClassVar[str] = "deterministic guest clock, 1 ns an instruction"
    basis: ClassVar[Basis] = "measured"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 2
    default_runs: ClassVar[int] = 1
    uses_profile: ClassVar[bool] = False

    def __init__(self, kernel: str | None = None) -> None:
        self._source = kernel or os.environ.get("MQLAB_KERNEL") or DEFAULT_KERNEL
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def run(self, spec: RunSpec) -> RunSamples:
        workload = _guest_workload(spec)
        cancelled = self._cancelled
        qemu, kernel, agent = self.prepare()
        _check_policies(spec, kernel)
        machine = Machine(cpus=_cpus(spec), memory_mib=_MEMORY_MIB, seed=spec.seed)
        modules = load_order(kernel.modules, list(workload.modules)) if kernel.modules else []
        document = spec_document([_job(spec, workload)], modules)
        limit_s = _BASE_LIMIT_S + _LIMIT_S_PER_DEVICE * float(spec.params.get("devices", 0))
        report = boot_guest(
            qemu,
            machine,
            kernel.image,
            build(agent, document, modules),
            limit_s=limit_s,
            is_cancelled=cancelled.is_set,
        )
        return _samples(spec, report, kernel, self._fingerprint(qemu, kernel, agent, machine))

    def prepare(self) -> tuple[Qemu, Kernel, bytes]:
        """Emulator, kernel and agent, found or fetched once; UnsupportedError says what is missing."""
        with self._lock:
            return self._qemu, self._kernel, self._agent

    def cancel(self) -> None:
        self._cancelled.set()
        self._cancelled = threading.Event()

    def close(self) -> None:
        """Guests end with their runs; nothing is held."""
        return

    @cached_property
    def _qemu(self) -> Qemu:
        return find_qemu()

    @cached_property
    def _kernel(self) -> Kernel:
        return find_kernel(self._source, say=_tell)

    @cached_property
    def _agent(self) -> bytes:
        return agent_path().read_bytes()

    def _fingerprint(self, qemu: Qemu, kernel: Kernel, agent: bytes, machine: Machine) -> dict[str, Scalar]:
        return {
            "target": self.name,
            "kernel": kernel.release,
            "kernel_version": kernel.version,
            "kernel_config": kernel.config_hash(),
            "hz": kernel.hz() or 0,
            "qemu": qemu.version,
            "agent": hashlib.sha256(agent).hexdigest()[:12],
            **machine.facts(),
        }


def _guest_workload(spec: RunSpec) -> _GuestWorkload:
    workload = _WORKLOADS.get(spec.workload)
    if workload is None:
        raise UnsupportedError(
            f"the agent of a guest has no workload for {spec.workload}",
            "run this case with --target sim or native",
        )
    return workload


def _is_known(kernel: Kernel) -> bool:
    """Whether _UNPATCHED describes it: the threads are about 7.3."""
    return kernel.release == "7.3" or kernel.release.startswith("7.3.")


def _check_policies(spec: RunSpec, kernel: Kernel) -> None:
    for name, value in spec.policies.items():
        has = _UNPATCHED.get(name)
        if value != has:
            raise UnsupportedError(
                f"the kernel {kernel.release} is unpatched: {name} is {has or 'unknown'} there, not {value}",
                "measure this variant with --target sim",
            )


def _cpus(spec: RunSpec) -> int:
    return int(spec.params.get("cpus", 2))


def _job(spec: RunSpec, workload: _GuestWorkload) -> dict[str, Any]:
    taken = {name: value for name, value in spec.params.items() if name in workload.takes}
    params = {**workload.translate(spec.params), **taken}
    return {"workload": workload.name, "spec": {"target": "device", "seed": spec.seed, "params": params}}


def _raise_job_error(error: Mapping[str, Any], report: GuestReport) -> None:
    message = f"in the guest: {error['message']}"
    refused = [f"{m['path']}: {m['error']}" for m in report.result.get("modules", []) if not m["ok"]]
    if refused:
        message += f" (modules that did not load: {', '.join(refused)})"
    remedy = str(error.get("remedy", ""))
    match error["kind"]:
        case "unsupported":
            raise UnsupportedError(message, remedy)
        case "usage":
            raise UsageError(message, remedy)
        case "timeout":
            raise TimeoutError_(message, remedy)
        case _:
            raise SystemCallError(message, remedy, int(error.get("errno", 0)))


def _samples(
    spec: RunSpec, report: GuestReport, kernel: Kernel, fingerprint: Mapping[str, Scalar]
) -> RunSamples:
    job = report.result["jobs"][0]
    if not job["ok"]:
        _raise_job_error(job["error"], report)
    quiet = report.result["quiet"]
    notes = [*job["notes"]]
    if not quiet["quiet"]:
        notes.append(
            f"the guest was not quiet: {1 - quiet['idle_share']:.0%} of its CPUs' time was used before"
        )
    if spec.policies and not _is_known(kernel):
        notes.append(f"the variants are those of 7.3; {kernel.release} was measured as it is")
    hz = kernel.hz()
    if hz is not None and spec.params.get("hz", hz) != hz:
        notes.append(f"{kernel.release} is built for HZ {hz}; the case asks for {spec.params['hz']}")
    machine = report.result["machine"]
    conditions: dict[str, Scalar] = {"kernel": machine["release"], "cpus": machine["cpus"]}
    if hz is not None:
        conditions["hz"] = hz
    return RunSamples(
        to_milliseconds(job["samples"]),
        {**job["counters"], "quiet_wait_ns": quiet["waited_ns"]},
        tuple(notes),
        conditions,
        fingerprint,
        report.dmesg,
    )
