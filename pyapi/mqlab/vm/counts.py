"""Exact counts of what a guest's kernel executed inside of the measured windows, by function.

The plugin writes them as text:

    mqlab.counts/1
    boot KERNEL OTHER           instructions of the whole boot; early code of the kernel is among the other
    job WINDOWS USER            begins a job: its windows, instructions of user code in them
    ADDRESS INSTRUCTIONS RUNS   a block of kernel code: where, of how many instructions, how often executed

A block that begins where a function begins is a call of it. Counts are blind to caches: they say what was
done, not how long it took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mqlab.errors import InternalError
from mqlab.vm.symbols import Symbols

__all__ = ["BootCounts", "Counts", "FunctionCount", "parse_counts"]

_FORMAT = "mqlab.counts/1"
_UNKNOWN = "(unknown)"


class FunctionCount(NamedTuple):
    """How often a function was called, and how many instructions of its own were executed."""

    calls: int
    instructions: int


@dataclass(frozen=True)
class Counts:
    """Of one job, over all of its windows: instructions in all, of user code, by function of the kernel."""

    windows: int
    total_instructions: int
    user_instructions: int
    functions: Mapping[str, FunctionCount]

    @property
    def kernel_instructions(self) -> int:
        return self.total_instructions - self.user_instructions

    def calls(self, function: str) -> int:
        """Of a function by its name; one that was never executed has 0."""
        return self.functions[function].calls if function in self.functions else 0

    def top(self, count: int) -> list[tuple[str, FunctionCount]]:
        """The functions with the most instructions of their own."""
        ranked = sorted(self.functions.items(), key=lambda item: (-item[1].instructions, item[0]))
        return ranked[:count]

    def metrics(self, operations: int, functions: Sequence[str] = ()) -> dict[str, float]:
        """Of one operation: `instructions_per_op`, and `calls_per_op:NAME` of the functions given."""
        per_op = {"instructions_per_op": self.total_instructions / operations}
        return per_op | {f"calls_per_op:{name}": self.calls(name) / operations for name in functions}


@dataclass(frozen=True)
class BootCounts:
    """Of a whole boot, from the first instruction until the agent was done, and of each of its jobs."""

    total_instructions: int
    jobs: tuple[Counts, ...]


def _counts(head: list[str], blocks: list[tuple[int, int, int]], symbols: Symbols) -> Counts:
    windows, user = int(head[1]), int(head[2])
    calls: dict[str, int] = {}
    instructions: dict[str, int] = {}
    for address, length, runs in blocks:
        name, begin = symbols.at(address) or (_UNKNOWN, -1)
        instructions[name] = instructions.get(name, 0) + length * runs
        calls[name] = calls.get(name, 0) + (runs if address == begin else 0)
    functions = {name: FunctionCount(calls[name], instructions[name]) for name in instructions}
    return Counts(windows, user + sum(instructions.values()), user, functions)


def parse_counts(text: str, symbols: Symbols) -> BootCounts:
    """What the plugin wrote, its blocks folded into functions."""
    lines = [line.split() for line in text.splitlines()]
    if len(lines) < 2 or lines[0] != [_FORMAT] or lines[1][0] != "boot":
        raise InternalError("the counts of the guest's instructions are no such document", "report it")
    jobs: list[tuple[list[str], list[tuple[int, int, int]]]] = []
    for words in lines[2:]:
        if words[0] == "job":
            jobs.append((words, []))
        else:
            jobs[-1][1].append((int(words[0], 16), int(words[1]), int(words[2])))
    return BootCounts(
        int(lines[1][1]) + int(lines[1][2]), tuple(_counts(head, blocks, symbols) for head, blocks in jobs)
    )
