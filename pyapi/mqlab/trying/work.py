"""Tries a series: builds the kernel without and with it, boots both, measures what it touches, and judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from mqlab.errors import UnsupportedError
from mqlab.kernels.apply import PatchFailedError
from mqlab.kernels.build import Build, BuildFailedError, build_kernel, find_source
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.kernel import Kernel
from mqlab.kernels.request import KernelRequest
from mqlab.measuring import OpenedStore, Wanted, measure
from mqlab.model import Experiment
from mqlab.parameters import Scalar
from mqlab.progress import build_progress, run_progress
from mqlab.result import Result
from mqlab.store import Store
from mqlab.telling import tell
from mqlab.trying.cases import check_settings, trial_experiment
from mqlab.trying.rows import Rows
from mqlab.trying.series import Series, read_series
from mqlab.trying.target import GuardedTarget, TrialKernels, make_target, told_shortly
from mqlab.trying.touched import Pick, pick_for
from mqlab.trying.trial import BASE, SERIES, Finding, FindingKind, Trial, series_title

__all__ = ["DEFAULT_MARGIN", "Trying", "try_series"]

# A few per cent come and go with where code lies in memory, even where every run is exact.
DEFAULT_MARGIN = 0.02
_FLOOR_RUNS = 2

Say = Callable[[str], None]


def try_series(
    file: str | Path,
    commits: str = "",
    *,
    source: str = "source:7.3",
    numbers: Sequence[int] | None = None,
    config: str | Path | None = None,
    experiments: Sequence[str] | None = None,
    per_patch: bool = False,
    full: bool = False,
    margin: float = DEFAULT_MARGIN,
    runs: int | None = None,
    seed: int = 1,
    params: Mapping[str, Scalar] | None = None,
    label: str = "",
    store: Store | str | bool | None = None,
    say: Say = tell,
) -> Trial:
    """Tries the series in `file` (a thread, mbox, patch), or the `commits` BASE..HEAD of the git tree `file`.

    A series that does not apply, build, boot or run clean is an outcome (see Trial.findings), no exception.
    `source` is the kernel that patches of a file are put on, as source:VERSION or tree:PATH@REF. `per_patch`
    measures after each patch; `full` takes the published sizes instead of small ones; `runs` is asked for
    where figures are not exact, or for several seeds.
    """
    series = read_series(file, commits, source, numbers, Path(config) if config else None)
    picks = pick_for(series.patches, experiments)
    for pick in picks:
        say(f"{pick.experiment.id}: {pick.reason()}")
    trying = Trying(series, picks, per_patch, margin, Wanted(runs, seed, label=label, keep_going=True), say)
    trying.prepare(dict(params or {}), full)
    if trying.build():
        with OpenedStore(store) as kept:
            trying.measure(kept)
    return trying.trial()


@dataclass
class Trying:
    """One series on its way from patches to a Trial."""

    series: Series
    picks: list[Pick]
    per_patch: bool = False
    margin: float = DEFAULT_MARGIN
    wanted: Wanted = field(default_factory=Wanted)
    say: Say = tell
    experiments: list[Experiment] = field(default_factory=list)
    kernels: TrialKernels = field(default_factory=TrialKernels)
    findings: list[Finding] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    floors: list[Result] = field(default_factory=list)
    exact: dict[tuple[str, str], bool] = field(default_factory=dict)
    version: str = ""
    partial: bool = False

    def sides(self) -> dict[str, tuple[int, ...]]:
        """What is compared, with the numbers of its patches: base first, the whole series last."""
        numbers = tuple(patch.number for patch in self.series.patches)
        steps = range(1, len(numbers)) if self.per_patch else range(0)
        return {BASE: (), **{f"patch {n}": numbers[:n] for n in steps}, SERIES: numbers}

    def prepare(self, settings: dict[str, Scalar], full: bool) -> None:
        """Chooses the cases."""
        check_settings([pick.experiment for pick in self.picks], settings)
        made = [trial_experiment(pick.experiment, self.sides(), settings, full) for pick in self.picks]
        self.experiments = [experiment for experiment in made if experiment is not None]
        if not self.experiments:
            raise UnsupportedError("no guest can do any case of the chosen experiments", "choose others")

    def fragments(self) -> list[str]:
        """The kinds of kernel that the cases want."""
        found = [case.guest.fragment for e in self.experiments for case in e.cases if case.guest is not None]
        return list(dict.fromkeys(found))

    # ---- building ----

    def build(self) -> bool:
        """Builds every kernel; whether base and the series are there to be measured."""
        cache = KernelCache()
        self.version = find_source(self.series.source, cache, self.say).version
        for fragment in self.fragments():
            for side, numbers in self.sides().items():
                request = self.series.request(fragment, len(numbers))
                kernel = self._build_one(request, side, cache)
                if kernel is not None:
                    self.kernels.found[fragment, side] = kernel
                elif side in (BASE, SERIES):
                    return False
        return True

    def _build_one(self, request: KernelRequest, side: str, cache: KernelCache) -> Kernel | None:
        try:
            if side == BASE:  # a series that does not apply is told before base is built, which may take long
                whole = self.series.request(request.fragment, len(self.series.patches))
                Build(whole, find_source(whole.source, cache, self.say), cache, self.say).check_patches()
            with build_progress(f"building {side}") as progress:
                return build_kernel(request, cache=cache, say=self.say, progress=progress)
        except PatchFailedError as error:
            self._find("does not apply", SERIES if side == BASE else side, error.message, error.rejected)
        except BuildFailedError as error:
            kind: FindingKind = "base does not build" if side == BASE else "does not build"
            self._find(kind, side, f"make stopped; the whole log is {error.log}", "\n".join(error.lines))
        return None

    def _find(
        self, kind: FindingKind, side: str, what: str, evidence: str, where: tuple[str, str] = ("", "")
    ) -> None:
        self.findings.append(Finding(kind, side, what.splitlines()[0], evidence, *where))

    # ---- measuring ----

    def measure(self, store: Store | None) -> None:
        """Every case on every side that was built, then the noise floor of what changed a little."""
        built = {side for _, side in self.kernels.found}
        with closing(make_target(self.kernels)) as inner:
            target = GuardedTarget(inner)
            for experiment in self.experiments:
                for case in experiment.cases:
                    self.exact[experiment.id, case.id] = target.manner(case).deterministic
                there = replace(experiment, variants=tuple(v for v in experiment.variants if v.id in built))
                self.results.append(self._run(there, target, store, self.wanted))
                if self.partial:
                    break
            self._judge_breaks(target.broken)
            if not self.partial and self.wanted.runs is None:
                self._measure_floors(target, store)

    def _run(
        self, experiment: Experiment, target: GuardedTarget, store: Store | None, wanted: Wanted
    ) -> Result:
        with run_progress(experiment.id) as progress:
            result, _ = measure(experiment, target, replace(wanted, progress=progress), store)
        self.partial |= result.partial
        return result

    def _measure_floors(self, target: GuardedTarget, store: Store | None) -> None:
        """Exact figures of base with other seeds, where the difference is so small that it may be chance."""
        small = self._judged().small_changes()
        wanted = replace(self.wanted, runs=_FLOOR_RUNS, seed=self.wanted.seed + 1)
        for experiment in self.experiments:
            cases = tuple(case for case in experiment.cases if (experiment.id, case.id) in small)
            if cases and not self.partial:
                self.say(f"{experiment.id}: small changes; base is measured with {_FLOOR_RUNS} more seeds")
                base = replace(experiment, variants=(experiment.variant(BASE),), cases=cases)
                self.floors.append(self._run(base, target, store, wanted))

    def _judge_breaks(self, broken: Mapping[tuple[str, str, str], Exception]) -> None:
        """A kernel that broke is a finding; what base does too is not the series' fault."""
        for (experiment, case, side), error in broken.items():
            message = told_shortly(error)
            evidence = str(error)
            boots = "the kernel's own start" not in message
            if side == BASE:
                kind: FindingKind = "base breaks" if boots else "base does not boot"
            elif (experiment, case, BASE) in broken:
                continue
            else:
                kind = "breaks" if boots else "does not boot"
            self._find(kind, side, f"{experiment}, {case}: {message}", evidence, (experiment, case))

    # ---- the outcome ----

    def _judged(self) -> Rows:
        return Rows(self.results, self.floors, tuple(self.sides()), self.margin, self.exact, self.findings)

    def trial(self) -> Trial:
        series = self.series
        version = f", {self.version}" if self.version else ""
        kernels = {side: kernel for (_, side), kernel in reversed(self.kernels.found.items())}
        return Trial(
            series_title(series.patches),
            f"{series.source}{version}",
            tuple(series.patches),
            tuple(self.sides()),
            self.margin,
            kernels,
            tuple(self.picks),
            tuple(self._judged().all()),
            tuple(self.findings),
            tuple(self.results),
            self.partial,
        )
