"""What an experiment is: a question with variants, cases and metrics. All plain, immutable data.

Nothing here knows where a workload runs or how its samples are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

from mqlab.errors import UsageError
from mqlab.guest import Guest, GuestRow
from mqlab.parameters import Parameter, Scalar, apply_settings, did_you_mean

__all__ = [
    "Case",
    "Curve",
    "Direction",
    "Experiment",
    "Guest",
    "GuestRow",
    "Metric",
    "RowMap",
    "Variant",
    "experiment",
]

Direction = Literal["lower", "higher"]
STATISTICS = ("p50", "p90", "p99", "median", "mean", "sum", "min", "max")


@dataclass(frozen=True, slots=True)
class Metric:
    """One kind of sample that a workload returns. `direction` says which way is better."""

    name: str
    unit: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the things compared: policies of the same code.

    `patches` are the thread's patches (1 is the first) that make a real kernel this variant, () the kernel
    without any; None is a variant that no kernel is, and `kernel_reason` says why. `fragment` stands for the
    case's where the variant is another kind of kernel.
    """

    id: str
    title: str
    policies: Mapping[str, Scalar]
    patches: tuple[int, ...] | None = None
    kernel_reason: str = ""
    fragment: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One point of the parameter grid. `params` is all that the workload is given.

    `variants` names those that make sense here; empty means all of the experiment. `guest` says how it is
    done on a real kernel; without, `guest_reason` says why it is not. `changed` names the parameters that the
    user has set to something else than the experiment does.
    """

    id: str
    workload: str
    params: Mapping[str, Scalar]
    title: str = ""
    variants: tuple[str, ...] = ()
    guest: Guest | None = None
    guest_reason: str = ""
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowMap:
    """How one published row is measured: a statistic of a metric, in a case, of two variants.

    `after_case` and `after_metric` are given where the two sides differ in more than the variant. A side
    that is left empty ("") is not measured. `finding` says what was found out about a row that the sim
    misses; it is printed only while the row is off. `guest` tells what is other on a real kernel; `counts`
    are metrics of the same sides that are shown beside it where they were measured.
    """

    row: str
    case: str
    metric: str
    before: str
    after: str
    statistic: str = "p50"
    after_case: str = ""
    finding: str = ""
    guest: GuestRow | None = None
    counts: tuple[str, ...] = ()

    def on_kernel(self) -> RowMap:
        """The same row as it is measured on a real kernel."""
        there = self.guest
        if there is None:
            return self
        return replace(
            self,
            case=there.case or self.case,
            after_case="" if there.case else self.after_case,
            metric=there.metric or self.metric,
            before=there.before or self.before,
            after=there.after or self.after,
            statistic=there.statistic or self.statistic,
        )


@dataclass(frozen=True, slots=True)
class Curve:
    """Cases drawn as a line over one of their parameters, with what a real kernel showed beside it.

    `reference` holds (x, before, after) points and `source` says where they come from.
    """

    title: str
    parameter: str
    metric: str
    cases: tuple[str, ...]
    before: str
    after: str
    reference: tuple[tuple[float, float, float], ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A question with variants, cases and metrics; `rows` say which published figures it reproduces.

    The first variant is what the others are compared with. `thread` names the file in results/published.
    `code` says which kernel code it exercises, as patterns of paths and functions: "block/genhd.c", or
    "block/blk-mq.c:blk_mq_free_*,blk_mq_exit_*"; `mqlab try` picks experiments by it.
    """

    id: str
    title: str
    variants: tuple[Variant, ...]
    cases: tuple[Case, ...]
    metrics: tuple[Metric, ...]
    question: str = ""
    parameters: tuple[Parameter, ...] = ()
    rows: tuple[RowMap, ...] = ()
    curves: tuple[Curve, ...] = ()
    thread: str = ""
    code: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    def variant(self, id_: str) -> Variant:
        return _find(self.variants, id_, f"variant of {self.id}")

    def case(self, id_: str) -> Case:
        return _find(self.cases, id_, f"case of {self.id}")

    def metric(self, name: str) -> Metric:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise UsageError(
            f"{self.id} has no metric {name!r}", did_you_mean(name, [m.name for m in self.metrics])
        )

    def variants_of(self, case: Case) -> tuple[Variant, ...]:
        """The variants that run in `case`, in the experiment's order."""
        return tuple(v for v in self.variants if not case.variants or v.id in case.variants)

    def with_settings(self, settings: Mapping[str, Scalar]) -> Experiment:
        """The same experiment with the user's settings in every case that takes them."""
        checked = apply_settings(self.parameters, settings)
        for name in checked:
            if not any(name in case.params for case in self.cases):
                raise UsageError(
                    f"no case of {self.id} takes {name}", "see `mqlab show` for the cases' parameters"
                )
        return replace(self, cases=tuple(_with_settings(case, checked) for case in self.cases))

    def selected(
        self, variants: Sequence[str] | None = None, cases: Sequence[str] | None = None
    ) -> Experiment:
        """The same experiment with only some of its variants and cases, in its own order."""
        variants = (variants,) if isinstance(variants, str) else variants
        cases = (cases,) if isinstance(cases, str) else cases
        wanted_variants = {self.variant(v).id for v in variants} if variants is not None else None
        wanted_cases = {self.case(c).id for c in cases} if cases is not None else None
        chosen = tuple(v for v in self.variants if wanted_variants is None or v.id in wanted_variants)
        kept = tuple(
            replace(
                c, variants=tuple(v for v in c.variants if wanted_variants is None or v in wanted_variants)
            )
            for c in self.cases
            if (wanted_cases is None or c.id in wanted_cases)
            and (not c.variants or wanted_variants is None or wanted_variants & set(c.variants))
        )
        if not chosen or not kept:
            raise UsageError(f"no case of {self.id} runs what was chosen", f"see `mqlab show {self.id}`")
        ids = {c.id for c in kept}
        names = {v.id for v in chosen}
        rows = tuple(_within(r, ids, names) for r in self.rows if _is_within(r, ids, names))
        curves = tuple(c for c in self.curves if set(c.cases) <= ids and {c.before, c.after} <= names)
        return replace(self, variants=chosen, cases=kept, rows=rows, curves=curves)

    def with_cases(self, cases: tuple[Case, ...]) -> Experiment:
        """With these cases alone; a row keeps its place on a real kernel if that is among them."""
        ids = {case.id for case in cases}
        names = {variant.id for variant in self.variants}
        return replace(self, cases=cases, rows=tuple(_within(row, ids, names) for row in self.rows))

    def on_kernel(self) -> Experiment:
        """The same experiment with its rows as they are measured on a real kernel."""
        return replace(self, rows=tuple(row.on_kernel() for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Experiment:
        """What to_dict() gave, also after a round through JSON (which knows no tuples)."""
        fields = dict(data)
        fields["variants"] = tuple(_variant(v) for v in data["variants"])
        fields["cases"] = tuple(_case(c) for c in data["cases"])
        fields["metrics"] = tuple(Metric(**m) for m in data["metrics"])
        fields["parameters"] = tuple(
            Parameter(**{**p, "choices": tuple(p["choices"])}) for p in data["parameters"]
        )
        fields["rows"] = tuple(_row_map(r) for r in data["rows"])
        fields["curves"] = tuple(
            Curve(**{**c, "cases": tuple(c["cases"]), "reference": tuple(tuple(p) for p in c["reference"])})
            for c in data["curves"]
        )
        fields["code"] = tuple(data.get("code", ()))
        return Experiment(**fields)


def _with_settings(case: Case, settings: Mapping[str, Scalar]) -> Case:
    own = {name: value for name, value in settings.items() if name in case.params}
    changed = (name for name, value in own.items() if value != case.params[name])
    changed_ = tuple(dict.fromkeys((*case.changed, *changed)))
    return replace(case, params={**case.params, **own}, changed=changed_)


def _is_within(row: RowMap, cases: set[str], variants: set[str]) -> bool:
    sides = {row.before, row.after} - {""}
    return row.case in cases and (row.after_case or row.case) in cases and sides <= variants


def _within(row: RowMap, cases: set[str], variants: set[str]) -> RowMap:
    """The row without its place on a real kernel where that was not chosen."""
    if _is_within(row.on_kernel(), cases, variants):
        return row
    return replace(row, guest=GuestRow(reason="its case on a real kernel was not chosen"))


def _variant(data: Mapping[str, Any]) -> Variant:
    patches = data.get("patches")
    return Variant(**{**data, "patches": tuple(patches) if patches is not None else None})


def _case(data: Mapping[str, Any]) -> Case:
    guest = data.get("guest")
    return Case(
        **{
            **data,
            "variants": tuple(data["variants"]),
            "guest": Guest.from_dict(guest) if guest else None,
            "changed": tuple(data.get("changed", ())),
        }
    )


def _row_map(data: Mapping[str, Any]) -> RowMap:
    guest = data.get("guest")
    read = {"counts": tuple(data.get("counts", ())), "guest": GuestRow(**guest) if guest else None}
    return RowMap(**{**data, **read})


_Named = TypeVar("_Named", Variant, Case)


def _find(items: Sequence[_Named], id_: str, what: str) -> _Named:
    for item in items:
        if item.id == id_:
            return item
    raise UsageError(f"no {what} is called {id_!r}", did_you_mean(id_, [i.id for i in items]))


def _check(experiment_: Experiment) -> None:
    """Refuses a definition that contradicts itself, with the name of what is wrong."""
    where = f"experiment {experiment_.id!r}"
    if not experiment_.variants or not experiment_.cases or not experiment_.metrics:
        raise UsageError(f"{where} lacks variants, cases or metrics", "give at least one of each")
    for what, names in (
        ("variant", [v.id for v in experiment_.variants]),
        ("case", [c.id for c in experiment_.cases]),
        ("metric", [m.name for m in experiment_.metrics]),
        ("parameter", [p.name for p in experiment_.parameters]),
        ("row", [r.row for r in experiment_.rows]),
    ):
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise UsageError(f"{where} has more than one {what} {twice[0]!r}", "give each its own name")
    variants = {v.id for v in experiment_.variants}
    cases = {c.id for c in experiment_.cases}
    for metric in experiment_.metrics:
        if metric.direction not in ("lower", "higher"):
            raise UsageError(f"{where}: metric {metric.name!r} has no direction", "say lower or higher")
    for case in experiment_.cases:
        unknown = set(case.variants) - variants
        if unknown:
            raise UsageError(f"{where}: case {case.id!r} names unknown variants", ", ".join(sorted(unknown)))
        _check_guest(case, where)
    metrics = [m.name for m in experiment_.metrics]
    for row in (*experiment_.rows, *(r.on_kernel() for r in experiment_.rows)):
        if row.metric not in metrics or set(row.counts) - set(metrics):
            raise UsageError(
                f"{where}: row {row.row!r} names an unknown metric", did_you_mean(row.metric, metrics)
            )
        if row.case not in cases or (row.after_case or row.case) not in cases:
            raise UsageError(
                f"{where}: row {row.row!r} names an unknown case", did_you_mean(row.case, sorted(cases))
            )
        if {row.before, row.after} - {""} - variants or row.statistic not in STATISTICS:
            raise UsageError(f"{where}: row {row.row!r} names an unknown variant or statistic")
        if not row.before and not row.after:
            raise UsageError(f"{where}: row {row.row!r} measures no side", "name a variant before or after")
    for curve in experiment_.curves:
        if set(curve.cases) - cases or {curve.before, curve.after} - variants:
            raise UsageError(f"{where}: curve {curve.title!r} names an unknown case or variant")


def _check_guest(case: Case, where: str) -> None:
    guest = case.guest
    if guest is None:
        return
    missing = [name for name in guest.takes if name not in case.params]
    if missing:
        raise UsageError(
            f"{where}: case {case.id!r} hands {missing[0]!r} to a guest and has no such parameter",
            "give the case that parameter, or put it into the guest's params",
        )
    if guest.clock == "real" and not guest.why_real:
        raise UsageError(f"{where}: case {case.id!r} is in real time and does not say why", "add why_real")
    if guest.devices and guest.clock != "real":
        raise UsageError(
            f"{where}: case {case.id!r} has emulated devices, which run in the host's time",
            'give its guest clock="real"',
        )


def experiment(function: Callable[[], Experiment]) -> Experiment:
    """Turns a function that returns an Experiment into that experiment; its docstring is the question.

    `mqlab run FILE` finds what is decorated so in a file, and mqlab.run() takes it as it is.
    """
    made = function()
    if not isinstance(made, Experiment):
        raise UsageError(
            f"{function.__module__}.{function.__name__}() returned {type(made).__name__}, no Experiment",
            "return mqlab.Experiment(...)",
        )
    if not made.question and function.__doc__:
        made = replace(made, question=" ".join(function.__doc__.split()))
    return made
