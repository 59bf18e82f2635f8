"""mqlab try: one command for a developer with a series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqlab.cli.kernel import complete_kernel
from mqlab.cli.options import json_option, parse_settings, print_json, say, store_option

if TYPE_CHECKING:
    from mqlab.trying import TrialPlan

__all__ = ["try_command"]


def _percent(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """`2` or `2%` as 0.02."""
    if value is None:
        return None
    try:
        share = float(value.removesuffix("%")) / 100
    except ValueError:
        raise click.BadParameter(f"{value!r} is no percentage, as in 2 or 0.5") from None
    if not 0 <= share < 10:
        raise click.BadParameter("a margin is from 0 to 1000 per cent")
    return share


@click.command("try")
@click.argument("file", metavar="FILE|TREE", type=click.Path(path_type=Path))
@click.argument("commits", metavar="[BASE..HEAD]", default="")
@click.option(
    "--kernel",
    "source",
    metavar="SOURCE",
    default="source:7.3",
    show_default=True,
    shell_complete=complete_kernel,
    help="What the patches of a file are put on: source:VERSION or tree:PATH@REF.",
)
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="A configuration of yours.")
@click.option("--numbers", metavar="N-M", help="Which patches of the file; by default all that it posts.")
@click.option("--experiments", metavar="ID,ID", help="By default those whose code it touches.")
@click.option("--per-patch", is_flag=True, help="Measure after each patch, not only before and after all.")
@click.option("--full", is_flag=True, help="Published sizes and all cases instead of small ones.")
@click.option("--margin", metavar="PERCENT", callback=_percent, help="What does not count as a change. [2]")
@click.option("--runs", type=click.IntRange(1, 1000), help="Runs a side; more than one means other seeds.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the first run.")
@click.option("--set", "settings", metavar="PARAM=VALUE", multiple=True, help="Set a parameter of the cases.")
@click.option("--label", default="", help="A name to find the results by in the store.")
@store_option
@click.option("--dry-run", is_flag=True, help="Say what would be built and booted, and how long it takes.")
@json_option
def try_command(
    file: Path,
    commits: str,
    numbers: str | None,
    experiments: str | None,
    margin: float | None,
    settings: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Try a series: build the kernel without and with it, boot both, measure what it touches.

    FILE is a thread, an mbox or a patch; or name a git TREE and its commits BASE..HEAD. Ends with a table for
    the commit message, a verdict, and exit status 0, 1 (it regresses, or does not build, boot or run clean),
    2 (it does not apply) or 4 (the unpatched kernel itself does not build or boot).
    """
    from mqlab.kernels.patch_file import parse_numbers
    from mqlab.trying import DEFAULT_MARGIN, plan_trial, try_series

    options["numbers"] = parse_numbers(numbers) if numbers else None
    options["experiments"] = [id_.strip() for id_ in experiments.split(",")] if experiments else None
    options["params"] = parse_settings(settings)
    if dry_run:
        for name in ("seed", "label", "store"):
            options.pop(name)
        _show_plan(plan_trial(file, commits, **options), as_json)
        return
    trial = try_series(file, commits, margin=DEFAULT_MARGIN if margin is None else margin, **options)
    if as_json:
        print_json(trial.to_dict())
    else:
        click.echo(trial.table(), nl=False)
        if trial.evidence():
            click.echo("\n" + trial.evidence(), nl=False)
    if trial.partial:
        say("interrupted: what was measured until then is kept and marked partial")
    click.get_current_context().exit(trial.exit_status)


def _show_plan(plan: TrialPlan, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "schema": "mqlab.try_plan/1",
                "picked": [{"experiment": p.experiment.id, "reason": p.reason()} for p in plan.picks],
                "builds": [{"what": what, "seconds": round(seconds)} for what, seconds in plan.builds],
                "boots": [{"what": what, "boots": boots} for what, boots in plan.boots],
                "seconds": round(plan.seconds),
                "remarks": list(plan.remarks),
            }
        )
        return
    for pick in plan.picks:
        click.echo(f"{pick.experiment.id}: {pick.reason()}")
    for what, seconds in plan.builds:
        click.echo(f"{what}: " + (f"about {_duration(seconds)}" if seconds else "how long is not known yet"))
    for what, boots in plan.boots:
        click.echo(f"{boots} boots: {what}")
    for remark in plan.remarks:
        click.echo(f"note: {remark}")
    click.echo(f"all in about {_duration(plan.seconds)}")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
