"""Emulated devices of a guest, from the short strings that an experiment declares.

    nvme:queues=4                       an NVMe controller with one namespace
    virtio-scsi:queues=8,disks=2        a SCSI host with disks
    virtio-blk:queues=4,depth=128       a virtio disk

Behind each disk is QEMU's null-co: reads give zeroes, writes vanish, each after `latency_us`. What the guest
calls the disks is the guest's affair. QEMU serves these devices in the host's time, so a guest that has one
cannot have a deterministic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mqlab.errors import UsageError
from mqlab.parameters import did_you_mean

__all__ = ["Device", "device_options", "parse_device"]

_MIB = 1 << 20
_NS_PER_US = 1000
# Of each option: its default (0: QEMU's own) and the most that is allowed.
_DISK_OPTIONS = {"size_mib": (1024, 1 << 24), "latency_us": (0, 10_000_000)}
_OPTIONS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "nvme": {"queues": (0, 2047), **_DISK_OPTIONS},
    "virtio-scsi": {"queues": (0, 1024), "depth": (0, 1024), "disks": (1, 256), **_DISK_OPTIONS},
    "virtio-blk": {"queues": (0, 1024), "depth": (0, 1024), **_DISK_OPTIONS},
}


@dataclass(frozen=True)
class Device:
    """One device: what it is and all of its options."""

    kind: str
    options: Mapping[str, int]


def _parse_option(kind: str, text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    known = _OPTIONS[kind]
    if name not in known:
        raise UsageError(f"a {kind} device has no option {name!r}", did_you_mean(name, list(known)))
    most = known[name][1]
    if not equals or not value.isascii() or not value.isdigit() or not int(value) <= most:
        raise UsageError(f"{kind}: {text!r} is not allowed", f"give {name} as a whole number up to {most}")
    return name, int(value)


def parse_device(text: str) -> Device:
    """The device that `text` names; UsageError says what is wrong with it."""
    kind, _, rest = text.partition(":")
    if kind not in _OPTIONS:
        raise UsageError(f"{kind!r} is no emulated device", did_you_mean(kind, list(_OPTIONS)))
    given = dict(_parse_option(kind, part) for part in rest.split(",") if part)
    return Device(kind, {name: given.get(name, default) for name, (default, _most) in _OPTIONS[kind].items()})


def _with(head: str, options: Mapping[str, int]) -> str:
    """QEMU's form; what is 0 is left to QEMU."""
    return ",".join((head, *(f"{name}={value}" for name, value in options.items() if value)))


def _backing(name: str, device: Device) -> list[str]:
    size = device.options["size_mib"] * _MIB
    head = f"driver=null-co,node-name={name},read-zeroes=on,size={size}"
    return ["-blockdev", _with(head, {"latency-ns": device.options["latency_us"] * _NS_PER_US})]


def _nvme(name: str, device: Device) -> Iterator[str]:
    queues = device.options["queues"]
    # An interrupt of its own for each queue, and one for the admin queue.
    own = {"max_ioqpairs": queues, "msix_qsize": queues + 1} if queues else {}
    yield from _backing(name, device)
    yield from ("-device", _with(f"nvme,drive={name},serial={name}", own))


def _virtio_scsi(name: str, device: Device) -> Iterator[str]:
    own = {"num_queues": device.options["queues"], "virtqueue_size": device.options["depth"]}
    yield from ("-device", _with(f"virtio-scsi-pci,id={name}", own))
    for disk in range(device.options["disks"]):
        backing = f"{name}-{disk}"
        yield from _backing(backing, device)
        yield from ("-device", f"scsi-hd,bus={name}.0,scsi-id={disk},drive={backing}")


def _virtio_blk(name: str, device: Device) -> Iterator[str]:
    own = {"num-queues": device.options["queues"], "queue-size": device.options["depth"]}
    yield from _backing(name, device)
    yield from ("-device", _with(f"virtio-blk-pci,drive={name}", own))


_MAKERS: Mapping[str, Callable[[str, Device], Iterator[str]]] = {
    "nvme": _nvme,
    "virtio-scsi": _virtio_scsi,
    "virtio-blk": _virtio_blk,
}


def device_options(devices: Sequence[str]) -> list[str]:
    """QEMU's options for the devices, in their order."""
    parsed = [parse_device(text) for text in devices]
    return [
        option
        for index, device in enumerate(parsed)
        for option in _MAKERS[device.kind](f"mqlab{index}", device)
    ]
