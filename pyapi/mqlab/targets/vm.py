"""The target vm: a workload of the agent in a real kernel, booted for each run under QEMU.

One run is one boot: what ran before in a guest would change a deterministic figure. In deterministic mode the
guest's time counts instructions, so the same spec gives the same samples, every nanosecond of them, however
busy this machine is. A case that this mode cannot hold truly runs in real time, and alone.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from mqlab.errors import SystemCallError, TimeoutError_, UnsupportedError, UsageError
from mqlab.guest import Guest
from mqlab.kernels.kernel import Kernel
from mqlab.model import Case
from mqlab.parameters import Scalar
from mqlab.records import RunSamples, RunSpec
from mqlab.targets.base import Basis, Manner
from mqlab.targets.guest_counts import count_counters, count_samples
from mqlab.targets.guest_kernels import GuestKernels
from mqlab.targets.guest_samples import metric_samples
from mqlab.telling import tell
from mqlab.vm.accel import Choice, choose_accelerator
from mqlab.vm.boot import GuestReport
from mqlab.vm.guest import GuestRun, GuestSetup
from mqlab.vm.initramfs import agent_path
from mqlab.vm.qemu import Accelerator, Machine, Qemu, find_qemu

__all__ = ["VmTarget", "raise_job_error"]

_DETERMINISTIC = "deterministic guest clock, 1 ns an instruction"
_REAL_TIME = "real time"
_REAL_TIME_RUNS = 4
_BASE_LIMIT_S = 600.0
_LIMIT_S_PER_DEVICE = 0.5


class VmTarget:
    """Each run is one boot of the kernel that its variant is; GuestKernels says which."""

    name: ClassVar[str] = "vm"
    clock: ClassVar[str] = _DETERMINISTIC
    basis: ClassVar[Basis] = "measured"
    deterministic: ClassVar[bool] = True
    workers: ClassVar[int] = 2
    default_runs: ClassVar[int] = 1
    uses_profile: ClassVar[bool] = False

    def __init__(
        self,
        kernel: str | None = None,
        thread_files: str | Path | None = None,
        kernels: Mapping[str, str] | None = None,
    ) -> None:
        files = Path(thread_files) if thread_files else None
        self.kernels = GuestKernels(kernel, files, kernels, cancellation=self.cancellation)
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._turns = _Turns()

    def manner(self, case: Case) -> Manner:
        """Real time with enough runs for a test where the guest demands it, else one exact run."""
        if case.guest is not None and case.guest.clock == "real":
            return Manner(_REAL_TIME, False, _REAL_TIME_RUNS)
        runs = case.guest.runs if case.guest is not None else 0
        return Manner(_DETERMINISTIC, True, runs or self.default_runs)

    def run(self, spec: RunSpec) -> RunSamples:
        guest = _guest_of(spec)
        cancelled = self._cancelled
        setup, job, emulated = self.set_up(spec)
        with self._turns.alone() if guest.clock == "real" else self._turns.shared():
            done = setup.boot([job], is_cancelled=cancelled.is_set)
        if emulated:
            done = replace(done, notes=(*done.notes, f"emulated: {emulated}"))
        return _samples(spec, guest, done, setup.kernel, self._fingerprint(setup))

    def set_up(self, spec: RunSpec) -> tuple[GuestSetup, dict[str, Any], str]:
        """The guest that does a run, its job, and why it is emulated where it might not have to be."""
        guest = _guest_of(spec)
        qemu, agent = self.prepare()
        kernel = self.kernels.for_spec(spec)
        choice = self._choose(guest, kernel, qemu, agent)
        setup = GuestSetup(
            qemu,
            _machine(spec, guest, choice.accel),
            kernel,
            agent,
            guest.modules,
            limit_s=_BASE_LIMIT_S + _LIMIT_S_PER_DEVICE * float(spec.params.get("devices", 0)),
        )
        return setup, _job(spec, guest), choice.reason

    def _choose(self, guest: Guest, kernel: Kernel, qemu: Qemu, agent: bytes) -> Choice:
        """A deterministic clock is emulation's own; in real time KVM is taken where it runs a guest."""
        if guest.clock != "real":
            return Choice("tcg")
        with self._lock:
            return choose_accelerator(qemu, kernel.image, agent, say=tell)

    def prepare(self) -> tuple[Qemu, bytes]:
        """Emulator and agent, found once; UnsupportedError says what is missing."""
        with self._lock:
            return self._qemu, self._agent

    def cancellation(self) -> Callable[[], bool]:
        """Tells the runs that begin now whether they are to end."""
        return self._cancelled.is_set

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
    def _agent(self) -> bytes:
        return agent_path().read_bytes()

    def _fingerprint(self, setup: GuestSetup) -> dict[str, Scalar]:
        kernel = setup.kernel
        return {
            "target": self.name,
            "kernel": kernel.release,
            "kernel_version": kernel.version,
            "kernel_config": kernel.config_hash(),
            "kernel_compiler": kernel.compiler,
            "patches": " ".join(kernel.patch_ids),
            "hz": kernel.hz() or 0,
            "qemu": setup.qemu.version,
            "agent": hashlib.sha256(setup.agent).hexdigest()[:12],
            **setup.machine.facts(),
        }


class _Turns:
    """Guests in deterministic mode run side by side; one in real time has the machine for itself."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._shared += 1
        try:
            yield
        finally:
            with self._changed:
                self._shared -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._shared)
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


def _guest_of(spec: RunSpec) -> Guest:
    if spec.guest is None:
        raise UnsupportedError(
            spec.kernel_reason or f"the agent of a guest has no workload for {spec.workload}",
            "measure it with --target sim",
        )
    return spec.guest


def _machine(spec: RunSpec, guest: Guest, accel: Accelerator) -> Machine:
    return Machine(
        cpus=guest.cpus_for(spec.params),
        memory_mib=guest.memory_mib,
        clock=guest.clock,
        seed=spec.seed,
        kernel_args=guest.kernel_args,
        devices=guest.devices,
        accel=accel,
    )


def _job(spec: RunSpec, guest: Guest) -> dict[str, Any]:
    params = guest.workload_params(spec.params)
    return {"workload": guest.workload, "spec": {"target": "device", "seed": spec.seed, "params": params}}


def raise_job_error(error: Mapping[str, Any], report: GuestReport) -> None:
    """A job's failure in the guest as the exception of its kind."""
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
    spec: RunSpec, guest: Guest, done: GuestRun, kernel: Kernel, fingerprint: Mapping[str, Scalar]
) -> RunSamples:
    report = done.report
    job = report.result["jobs"][0]
    if not job["ok"]:
        raise_job_error(job["error"], report)
    quiet = report.result["quiet"]
    notes = [*job["notes"], *done.notes]
    counts = done.counts.jobs[0] if done.counts and done.counts.jobs else None
    if not quiet["quiet"]:
        notes.append(
            f"the guest was not quiet: {1 - quiet['idle_share']:.0%} of its CPUs' time was used before"
        )
    hz = kernel.hz()
    if hz is not None and spec.params.get("hz", hz) != hz:
        notes.append(f"{kernel.release} is built for HZ {hz}; the case asks for {spec.params['hz']}")
    machine = report.result["machine"]
    conditions: dict[str, Scalar] = {"kernel": machine["release"], "cpus": machine["cpus"]}
    if hz is not None:
        conditions["hz"] = hz
    return RunSamples(
        metric_samples(guest, job["samples"] | count_samples(guest, job["counters"], counts)),
        {**job["counters"], **count_counters(guest, counts), "quiet_wait_ns": quiet["waited_ns"]},
        tuple(notes),
        conditions,
        fingerprint,
        report.dmesg,
    )
