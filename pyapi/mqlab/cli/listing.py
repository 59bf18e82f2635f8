"""mqlab list, mqlab show, mqlab completion."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

import click

from mqlab.cli.options import experiment_argument, json_option, print_json
from mqlab.model import Case, Experiment
from mqlab.published import Range, Row, Side, load_thread

__all__ = ["completion_command", "list_command", "show_command"]


@click.command("list")
@click.option("--experiments", "file", metavar="FILE", help="A Python file with further experiments.")
@json_option
def list_command(file: str | None, as_json: bool) -> None:
    """List the experiments."""
    from mqlab.discovery import find_experiments

    found = find_experiments(file)
    if as_json:
        print_json({"schema": "mqlab.list/1", "experiments": [_summary(e) for e in found]})
        return
    for experiment in found:
        counts = (
            f"{len(experiment.variants)} variants, {len(experiment.cases)} cases, {len(experiment.rows)} rows"
        )
        click.echo(f"{experiment.id:<18}{experiment.title} ({counts})")


def _summary(experiment: Experiment) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "title": experiment.title,
        "question": experiment.question,
        "variants": [{"id": v.id, "title": v.title} for v in experiment.variants],
        "cases": [{"id": c.id, "title": c.title, "params": dict(c.params)} for c in experiment.cases],
        "metrics": [{"name": m.name, "unit": m.unit, "direction": m.direction} for m in experiment.metrics],
    }


@click.command("show")
@experiment_argument()
@click.option("--parameters", is_flag=True, help="Which rows a 10 % change of each cost of the sim moves.")
@click.option(
    "--profile", default="published", show_default=True, help="The costs to look at: a name or a file."
)
@json_option
def show_command(id_: str, parameters: bool, profile: str, as_json: bool) -> None:
    """Show an experiment: its question, variants, cases, metrics, parameters and published rows."""
    from mqlab.discovery import find_experiment

    experiment = find_experiment(id_)
    if parameters:
        from mqlab.cli.parameters import show_parameters

        show_parameters(experiment, profile, as_json)
    elif as_json:
        print_json(_document(experiment))
    else:
        click.echo(_text(experiment))


def _document(experiment: Experiment) -> dict[str, Any]:
    thread = load_thread(experiment.thread) if experiment.thread else None
    return {
        "schema": "mqlab.show/1",
        **experiment.to_dict(),
        "parameters": [
            {"name": p.name, "help": p.help, "unit": p.unit, "allowed": p.allowed()}
            for p in experiment.parameters
        ],
        "published": None
        if thread is None
        else {
            "subject": thread.subject,
            "date": thread.date.isoformat(),
            "kernel": thread.kernel,
            "machine": thread.machine,
            "notes": list(thread.notes),
            "rows": [_row_document(row) for row in thread.rows],
        },
    }


def _row_document(row: Row) -> dict[str, Any]:
    def side(value: Side) -> Any:
        return {"low": value.low, "high": value.high} if isinstance(value, Range) else value

    return {
        "id": row.id,
        "kind": row.kind,
        "condition": row.condition,
        "metric": row.metric,
        "unit": row.unit,
        "direction": row.direction,
        "before": side(row.before),
        "after": side(row.after),
        "conditions": dict(row.conditions),
        "where": row.where,
        "also": list(row.also),
        "remarks": list(row.remarks),
        "measured_by": row.measured_by,
        "expect": {name: str(bounds) for name, bounds in row.expect.items()},
    }


def _text(experiment: Experiment) -> str:
    lines = [f"{experiment.id}: {experiment.title}", "", *_wrap(experiment.question, 2), "", "Variants"]
    for variant in experiment.variants:
        policies = ", ".join(f"{name}={value}" for name, value in variant.policies.items())
        lines += _item(variant.id, f"{variant.title} ({policies})" if policies else variant.title)
    lines += ["", "Cases"]
    for case in experiment.cases:
        params = ", ".join(f"{name}={value}" for name, value in case.params.items())
        lines += _item(case.id, f"{case.title or case.workload} ({params})")
        lines += _wrap(_on_kernel(case), 26)
    lines += ["", "Metrics"]
    lines += [
        line for m in experiment.metrics for line in _item(m.name, f"{m.unit}, {m.direction} is better")
    ]
    if experiment.parameters:
        lines += ["", "Parameters (--set NAME=VALUE)"]
        lines += [line for p in experiment.parameters for line in _item(p.name, f"{p.help}: {p.allowed()}")]
    if experiment.thread:
        lines += _published_text(experiment.thread)
    return "\n".join(lines)


def _on_kernel(case: Case) -> str:
    """How the case is done on a real kernel, or why it is not."""
    guest = case.guest
    if guest is None:
        return f"no real kernel: {case.guest_reason}" if case.guest_reason else ""
    kind = "" if guest.fragment == "base" else f", kernel {guest.fragment}"
    devices = f", {', '.join(guest.devices)}" if guest.devices else ""
    clock = "deterministic" if guest.clock == "deterministic" else f"real time ({guest.why_real})"
    return f"real kernel: {guest.workload}{kind}{devices}, {clock}"


def _published_text(id_: str) -> list[str]:
    thread = load_thread(id_)
    lines = [
        "",
        f"Published: {thread.subject} ({thread.date.isoformat()}), {thread.kernel}; {thread.machine}",
    ]
    for row in thread.rows:
        lines += _item(row.id, f"{row.condition}: {_figures(row)}")
        lines += _wrap(f"in {row.where}", 6)
        lines += [line for remark in row.remarks for line in _wrap(f"note: {remark}", 6)]
    lines += ["", "Where the thread is silent or odd"]
    return [*lines, *(line for note in thread.notes for line in _wrap(note, 2))]


def _figures(row: Row) -> str:
    def side(value: Side) -> str:
        if value is None:
            return "?"
        return f"{value.low:.10g}-{value.high:.10g}" if isinstance(value, Range) else f"{value:.10g}"

    parts = (
        [f"{side(row.before)} -> {side(row.after)} {row.unit}"] if row.before or row.after is not None else []
    )
    parts += [f"{name} {bounds}" for name, bounds in row.expect.items()]
    parts += [f"measured by {row.measured_by}"] if row.measured_by else []
    return "; ".join(parts)


def _width() -> int:
    """Of the terminal, within what is still read well; 100 where there is none."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 50), 120)


def _item(name: str, text: str) -> list[str]:
    return textwrap.wrap(f"  {name:<24}{text}", _width(), subsequent_indent=" " * 26, break_on_hyphens=False)


def _wrap(text: str, indent: int) -> list[str]:
    pad = " " * indent
    return textwrap.wrap(text, _width(), initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell: `eval "$(mqlab completion bash)"`."""
    from click.shell_completion import get_completion_class

    from mqlab.cli.program import cli

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(cli, {}, "mqlab", "_MQLAB_COMPLETE").source())
