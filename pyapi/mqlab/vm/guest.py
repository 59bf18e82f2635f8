"""One boot for some jobs of the agent: from a kernel and what is to run in it to samples and exact counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mqlab.errors import UnsupportedError
from mqlab.kernels.kernel import Kernel
from mqlab.vm.boot import GuestReport, boot_guest
from mqlab.vm.counter import Counter, find_counter
from mqlab.vm.counts import BootCounts, parse_counts
from mqlab.vm.initramfs import GUEST_LIMIT_S, build, spec_document
from mqlab.vm.modules import Module, load_order
from mqlab.vm.qemu import Machine, Qemu
from mqlab.vm.symbols import Symbols, known_symbols, parse_told, remember_symbols

__all__ = ["GuestRun", "GuestSetup"]

_NO_SYMBOLS = Symbols((), ())


def _never() -> bool:
    return False


@dataclass(frozen=True)
class GuestRun:
    """What a boot gave. `counts` is None where instructions were not counted; `notes` say why."""

    report: GuestReport
    counts: BootCounts | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class GuestSetup:
    """A kernel in a machine, with the agent and the modules that its jobs want; each boot() is a fresh start.

    `counting` asks for exact counts of instructions and calls, which need a deterministic clock; they change
    no sample. `limit_s` is of the emulator's CPU time, `guest_limit_s` of the guest's own.
    """

    qemu: Qemu
    machine: Machine
    kernel: Kernel
    agent: bytes
    modules: tuple[str, ...] = ()
    counting: bool = True
    limit_s: float = 600.0
    guest_limit_s: float = GUEST_LIMIT_S

    def boot(
        self,
        jobs: Sequence[Mapping[str, Any]],
        *,
        quiet: Mapping[str, Any] | None = None,
        by_function: bool = True,
        on_stage: Callable[[str], None] | None = None,
        is_cancelled: Callable[[], bool] = _never,
    ) -> GuestRun:
        """Runs jobs, {"workload": NAME, "spec": {...}} each; without `by_function` only sums are counted.

        So it is too where the layout is not the fixed one, since functions then lie elsewhere.
        """
        counter, notes = self._counter()
        named = counter is not None and by_function and not self.machine.layout
        symbols = known_symbols(self.kernel.image, self._loaded) if named else _NO_SYMBOLS
        document = spec_document(
            jobs,
            self._loaded,
            kernel_args=self.machine.kernel_args,
            quiet=quiet,
            limit_s=self.guest_limit_s,
            symbols=symbols is None,
        )
        report = boot_guest(
            self.qemu,
            self.machine,
            self.kernel.image,
            build(self.agent, document, self._loaded, layout=self.machine.layout),
            limit_s=self.limit_s,
            counter=counter,
            on_stage=on_stage,
            is_cancelled=is_cancelled,
        )
        if report.counted is None:
            return GuestRun(report, None, (*report.notes, *notes))
        if symbols is None:
            symbols = self._learn(report)
        return GuestRun(report, parse_counts(report.counted, symbols), (*report.notes, *notes))

    @cached_property
    def _loaded(self) -> tuple[Module, ...]:
        return tuple(load_order(self.kernel.modules, list(self.modules))) if self.kernel.modules else ()

    def _counter(self) -> tuple[Counter | None, tuple[str, ...]]:
        if not self.counting:
            return None, ()
        if self.machine.clock != "deterministic":
            return None, ("instructions are not counted: that needs a deterministic clock",)
        try:
            return find_counter(self.qemu), ()
        except UnsupportedError as error:
            return None, (f"instructions are not counted: {error}",)

    def _learn(self, report: GuestReport) -> Symbols:
        told = report.symbols_told or ""
        if told:
            remember_symbols(self.kernel.image, self._loaded, told)
        return parse_told(told)

    def with_machine(self, **changes: Any) -> GuestSetup:
        """The same guest in another machine."""
        return replace(self, machine=replace(self.machine, **changes))
