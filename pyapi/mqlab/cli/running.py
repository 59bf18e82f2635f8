"""mqlab run, mqlab reproduce."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqlab.cli.options import (
    experiment_argument,
    measuring_options,
    output_options,
    parse_settings,
    print_json,
    say,
)
from mqlab.errors import UsageError
from mqlab.guest import KERNEL_TARGET

if TYPE_CHECKING:
    from mqlab.reproduction import Reproduction
    from mqlab.result import Result

__all__ = ["reproduce_command", "run_command"]

EXIT_STRICT = 1
EXIT_NOTHING = 3
EXIT_CANNOT = 4
EXIT_INTERRUPTED = 130


def _output_folder(out: str, no_files: bool) -> Path | None:
    """Where files go, checked before anything is measured; None when none are wanted."""
    from mqlab import export

    if no_files:
        return None
    export.prepare_folder(Path(out))
    return Path(out)


@click.command("run")
@experiment_argument()
@click.option(
    "--variant", "variants", multiple=True, metavar="ID", help="Only this variant; may be repeated."
)
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case; may be repeated.")
@measuring_options
@output_options
@click.option("--strict", is_flag=True, help="Exit status 1 when a case was skipped.")
def run_command(
    id_: str,
    variants: tuple[str, ...],
    cases: tuple[str, ...],
    target: str | None,
    settings: tuple[str, ...],
    out: str,
    no_files: bool,
    as_json: bool,
    strict: bool,
    **options: Any,
) -> None:
    """Run an experiment: an id, a Python file, or FILE:ID."""
    from mqlab import api
    from mqlab.reproducing import beside_sim

    folder = _output_folder(out, no_files)
    chosen = {"params": parse_settings(settings), "variants": variants or None, "cases": cases or None}
    try:
        result = api.run(id_, target=target, **{**options, **chosen})
    except api.Interrupted as interrupted:
        _show_result(interrupted.result, as_json, folder)
        click.get_current_context().exit(EXIT_INTERRUPTED)
    beside = beside_sim(result, seed=options["seed"], store=options["store"])
    _show_result(result, as_json, folder, beside)
    click.get_current_context().exit(_run_status(result, strict))


def _run_status(result: Result, strict: bool) -> int:
    if any(len(values) for run in result.runs for values in run.samples.values()):
        return EXIT_STRICT if strict and result.skips else 0
    return EXIT_CANNOT if result.skips else EXIT_NOTHING


def _show_result(result: Any, as_json: bool, folder: Path | None, beside: Any = None) -> None:
    from mqlab import export

    if not as_json:
        click.echo(result.table(), nl=False)
        if beside is not None:
            click.echo("\n" + beside.table(), nl=False)
    if folder is not None and result.runs:
        _say_where(export.write_result(result, folder))
    if as_json:  # last: where a file cannot be written, the error is the one document
        document = result.to_dict()
        if beside is not None:
            document["beside"] = beside.to_dict()
        print_json(document)
    if result.partial:
        say("interrupted: what was measured until then is kept and marked partial")


@click.command("reproduce")
@experiment_argument(many=True)
@measuring_options
@output_options
@click.option("--strict", is_flag=True, help="Exit status 1 when a row is off or skipped.")
@click.option(
    "--dry-run", is_flag=True, help="For vm: what would be fetched, built and booted, and how long."
)
def reproduce_command(
    ids: tuple[str, ...],
    target: str | None,
    settings: tuple[str, ...],
    out: str,
    no_files: bool,
    as_json: bool,
    strict: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Measure every published row of the threads and show it beside the published figure."""
    from mqlab import api, export

    if dry_run:
        _foresee(ids, target, parse_settings(settings), as_json, options)
        return
    folder = _output_folder(out, no_files)
    files: list[Path] = []

    def show(part: Reproduction) -> None:
        if not as_json:
            click.echo(part.table())
        # An early Ctrl-C has nothing to show: the files of an earlier, whole one stay.
        if folder is not None and (any(result.runs for result in part.results) or not part.partial):
            files.extend(export.write_reproduction(part, folder))

    status = None
    try:
        reproduction = api.reproduce(
            list(ids) or None,
            target=target or "sim",
            params=parse_settings(settings),
            on_thread=show,
            **options,
        )
    except api.Interrupted as interrupted:
        reproduction = interrupted.result
        status = EXIT_INTERRUPTED
    if as_json:
        print_json(reproduction.to_dict())
    else:
        for remark in reproduction.remarks:
            click.echo(remark)
        click.echo(_summary(reproduction))
    _say_where(files)
    if status == EXIT_INTERRUPTED:
        say("interrupted: what was measured until then is kept and marked partial")
    click.get_current_context().exit(_reproduce_status(reproduction, strict) if status is None else status)


def _foresee(
    ids: tuple[str, ...], target: str | None, params: dict[str, str], as_json: bool, options: dict[str, Any]
) -> None:
    from mqlab.foreseeing import forecast

    if target != KERNEL_TARGET:
        raise UsageError("--dry-run is about kernels to fetch, build and boot", "give --target vm with it")
    taken = {name: options[name] for name in ("kernel", "thread_files", "runs")}
    found = forecast(list(ids) or None, params=params, **taken)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(found.table(), nl=False)


def _summary(reproduction: Reproduction) -> str:
    counts = {s: sum(r.status == s for r in reproduction.rows) for s in ("met", "off", "half", "skipped")}
    shown = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
    return f"{len(reproduction.rows)} published rows: {shown}"


def _reproduce_status(reproduction: Reproduction, strict: bool) -> int:
    if not any(row.measured for row in reproduction.rows):
        return EXIT_CANNOT if any(result.skips for result in reproduction.results) else EXIT_NOTHING
    missed = any(row.status in ("off", "skipped") for row in reproduction.rows)
    return EXIT_STRICT if strict and missed else 0


def _say_where(files: Sequence[Path]) -> None:
    if files:
        say(f"wrote {len(files)} files to {files[0].parent.resolve()}: {', '.join(f.name for f in files)}")
