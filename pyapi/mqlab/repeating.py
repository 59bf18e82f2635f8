"""Boots one kernel several times with the same spec, or with one that is varied on purpose.

The first shows that a deterministic guest repeats itself to the last nanosecond and instruction, however busy
this machine is. The second is the opposite, on demand: other seeds and other addresses show how much of a
figure is an accident of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from mqlab.discovery import find_experiment
from mqlab.errors import UnsupportedError, UsageError
from mqlab.model import Experiment
from mqlab.parameters import Scalar, did_you_mean
from mqlab.planning import check_count, make_plan
from mqlab.records import RunSpec
from mqlab.targets.vm import VmTarget, raise_job_error

__all__ = ["VARIED", "BootSample", "Repetition", "Spread", "repeat"]

# What may be varied from boot to boot.
VARIED = ("seed", "address")
_MOST_BOOTS = 1000


@dataclass(frozen=True)
class BootSample:
    """What one boot gave: every sample as the agent took it (nanoseconds where the name says so), and counts.

    `instructions` is of the whole boot and `window_instructions` of what was measured, None where they are
    not counted. `text_address` is where the kernel's code lay, "" where the kernel does not tell.
    """

    seed: int
    layout: int
    samples: Mapping[str, tuple[int, ...]]
    instructions: int | None
    window_instructions: int | None
    text_address: str

    def values(self) -> dict[str, tuple[int, ...]]:
        counted = {"instructions": self.instructions, "window_instructions": self.window_instructions}
        return {**self.samples, **{k: (v,) for k, v in counted.items() if v is not None}}


@dataclass(frozen=True)
class Spread:
    """Over boots: the least and the greatest median of a metric; `relative` is (greatest - least) / least."""

    metric: str
    low: float
    high: float

    @property
    def relative(self) -> float | None:
        return (self.high - self.low) / self.low if self.low else None


@dataclass(frozen=True)
class Repetition:
    """What came of the boots, in their order: samples of a boot, and how many of them differ in some boot."""

    experiment: str
    case: str
    variant: str
    kernel: str
    machine: Mapping[str, Any]
    varied: tuple[str, ...]
    boots: tuple[BootSample, ...]
    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        return sum(len(values) for values in self.boots[0].samples.values())

    @property
    def differing(self) -> int:
        """Of the samples by place: those that are not the same in every boot (or missing in one)."""
        return sum(self._differing(name) for name in self._names() if name in self._sample_names())

    @property
    def identical(self) -> bool:
        """Every sample and every count of instructions is the same in all boots."""
        return not any(self._differing(name) for name in self._names())

    def spreads(self) -> tuple[Spread, ...]:
        """Of each metric's median over the boots."""
        found = []
        for name in self._names():
            medians = [float(median(boot.values()[name])) for boot in self.boots if boot.values().get(name)]
            if medians:
                found.append(Spread(name, min(medians), max(medians)))
        return tuple(found)

    def text_addresses(self) -> tuple[str, ...]:
        """The different places of the kernel's code."""
        return tuple(sorted({boot.text_address for boot in self.boots if boot.text_address}))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": "mqlab.repeat/1",
            "experiment": self.experiment,
            "case": self.case,
            "variant": self.variant,
            "kernel": self.kernel,
            "machine": dict(self.machine),
            "varied": list(self.varied),
            "boots": len(self.boots),
            "samples": self.samples,
            "differing": self.differing,
            "identical": self.identical,
            "instructions": [boot.instructions for boot in self.boots],
            "window_instructions": [boot.window_instructions for boot in self.boots],
            "seeds": [boot.seed for boot in self.boots],
            "text_addresses": [boot.text_address for boot in self.boots],
            "spreads": [
                {"metric": s.metric, "min": s.low, "max": s.high, "relative": s.relative}
                for s in self.spreads()
            ],
            "notes": list(self.notes),
        }

    def _names(self) -> list[str]:
        return sorted({name for boot in self.boots for name in boot.values()})

    def _sample_names(self) -> set[str]:
        return {name for boot in self.boots for name in boot.samples}

    def _differing(self, name: str) -> int:
        series = [boot.values().get(name, ()) for boot in self.boots]
        longest = max(len(values) for values in series)
        return sum(
            len({values[i] if i < len(values) else None for values in series}) > 1 for i in range(longest)
        )


def repeat(
    id: str | Path | Experiment,  # noqa: A002
    *,
    kernel: str | None = None,
    boots: int = 3,
    case: str | None = None,
    variant: str | None = None,
    seed: int = 1,
    params: Mapping[str, Scalar] | None = None,
    vary: Sequence[str] = (),
    progress: Callable[[int, int, str], None] | None = None,
) -> Repetition:
    """Boots `kernel` that many times for one case of an experiment; by default the first that a guest does.

    Nothing changes from boot to boot, or only what `vary` names: "seed" (of the workload and of all that the
    emulator draws) and "address" (where the kernel's code and data lie). The kernel stands for the variant,
    whichever it is; by default it is the first one's.
    """
    unknown = [name for name in vary if name not in VARIED]
    if unknown:
        raise UsageError(f"{unknown[0]!r} cannot be varied", did_you_mean(unknown[0], list(VARIED)))
    check_count("boots", boots, 2, _MOST_BOOTS)
    spec = _spec(find_experiment(id).with_settings(params or {}), case, variant, seed)
    target = VmTarget(kernels={spec.variant: kernel} if kernel else None)
    numbers = [(seed + i if "seed" in vary else seed, i if "address" in vary else 0) for i in range(boots)]
    done = _boot_all(target, spec, numbers, progress)
    setup, _, _ = target.set_up(spec)
    notes = _address_notes(setup.kernel.config_text(), done) if "address" in vary else ()
    return Repetition(
        spec.experiment,
        spec.case,
        spec.variant,
        setup.kernel.version,
        setup.machine.facts(),
        tuple(name for name in VARIED if name in vary),
        done,
        notes,
    )


def _spec(experiment: Experiment, case: str | None, variant: str | None, seed: int) -> RunSpec:
    chosen = experiment.selected([variant] if variant else None, [case] if case else None)
    specs = [planned.spec for planned in make_plan(chosen, "vm", 1, seed, None)]
    able = [spec for spec in specs if spec.guest is not None]
    exact = [spec for spec in able if spec.guest is not None and spec.guest.clock == "deterministic"]
    if not able:
        raise UnsupportedError(
            f"no guest does a case of {experiment.id} that was chosen", "see `mqlab show` for its cases"
        )
    return (exact or able)[0]


def _boot_all(
    target: VmTarget,
    spec: RunSpec,
    numbers: Sequence[tuple[int, int]],
    progress: Callable[[int, int, str], None] | None,
) -> tuple[BootSample, ...]:
    workers = target.workers if spec.guest is not None and spec.guest.clock == "deterministic" else 1
    target.set_up(spec)  # what has to be fetched or built is so once, before the first boot
    with ThreadPoolExecutor(workers) as pool:
        jobs = {pool.submit(_boot, target, spec, *pair): index for index, pair in enumerate(numbers)}
        found: dict[int, BootSample] = {}
        try:
            for job in as_completed(jobs):
                found[jobs[job]] = job.result()
                if progress is not None:
                    progress(len(found), len(numbers), f"boot {jobs[job] + 1}")
        except BaseException:
            target.cancel()
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(found[index] for index in range(len(numbers)))


def _boot(target: VmTarget, spec: RunSpec, seed: int, layout: int) -> BootSample:
    setup, job, _ = target.set_up(replace(spec, seed=seed))
    run = setup.with_machine(layout=layout).boot([job], by_function=False, is_cancelled=target.cancellation())
    outcome = run.report.result["jobs"][0]
    if not outcome["ok"]:
        raise_job_error(outcome["error"], run.report)
    counts = run.counts
    measured = counts.jobs[0] if counts is not None and counts.jobs and counts.jobs[0].windows else None
    return BootSample(
        seed,
        layout,
        {name: tuple(values) for name, values in outcome["samples"].items()},
        counts.total_instructions if counts is not None else None,
        measured.total_instructions if measured is not None else None,
        str(run.report.result["machine"].get("text_address", "")),
    )


def _address_notes(config: str, boots: Sequence[BootSample]) -> tuple[str, ...]:
    if len({boot.text_address for boot in boots if boot.text_address}) > 1:
        return ()
    why = "" if "CONFIG_RANDOMIZE_BASE=y" in config else " (it was built without RANDOMIZE_BASE)"
    return (f"the kernel's code lay at one address in all boots{why}; its data and the agent's stack moved",)
