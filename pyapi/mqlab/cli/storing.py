"""mqlab store: what is kept."""

from __future__ import annotations

import click

from mqlab.cli.options import json_option, print_json, store_option

__all__ = ["store_group"]


@click.group("store")
def store_group() -> None:
    """What was measured and kept."""


@store_group.command("info")
@store_option
@json_option
def info_command(store: str | None, as_json: bool) -> None:
    """Where the store is and how much it holds."""
    from mqlab.api import open_store

    with open_store(store) as opened:
        info = opened.info()
    if as_json:
        print_json({"url": info.url, "schema": info.schema, "runs": info.runs, "samples": info.samples})
    else:
        click.echo(f"{info.url}: schema {info.schema}, {info.runs} runs, {info.samples} samples")


@store_group.command("list")
@store_option
@json_option
def list_command(store: str | None, as_json: bool) -> None:
    """The results in the store, oldest first."""
    from mqlab.api import open_store

    with open_store(store) as opened:
        results = opened.results()
    if as_json:
        rows = [
            {
                "id": r.id,
                "created": r.created.isoformat(),
                "experiment": r.experiment,
                "target": r.target,
                "label": r.label,
                "runs": r.runs,
                "partial": r.partial,
            }
            for r in results
        ]
        print_json({"results": rows})
        return
    for r in results:
        marks = f" {r.label}" * bool(r.label) + " (partial)" * r.partial
        click.echo(
            f"{r.id:>6}  {r.created:%Y-%m-%d %H:%M}  {r.experiment:<18}{r.target:<8}{r.runs:>4} runs{marks}"
        )


@store_group.command("check")
@store_option
@json_option
def check_command(store: str | None, as_json: bool) -> None:
    """Read everything and name what is damaged; exit status 2 if anything is."""
    from mqlab.api import open_store

    with open_store(store) as opened:
        damaged = opened.damaged()
        count = len(opened.results())
    if as_json:
        print_json({"results": count, "damaged": list(damaged)})
    else:
        for line in damaged:
            click.echo(line)
        click.echo(f"{count} results, {len(damaged)} damaged")
    click.get_current_context().exit(2 if damaged else 0)
