"""mqlab stress."""

from __future__ import annotations

import click

from mqlab.cli.options import json_option, print_json, whole_number

__all__ = ["stress_command"]

EXIT_REPORTED = 1


@click.command("stress")
@click.option(
    "--kernel",
    metavar="KERNEL",
    help="By default source:7.3+debug; with a series as in source:7.3+debug,FILE#1-2.",
)
@click.option(
    "--seconds",
    callback=whole_number(1, 86_400),
    default="600",
    show_default=True,
    help="How long, in real time.",
)
@click.option("--cpus", callback=whole_number(1, 256), default="4", show_default=True, help="Of the guest.")
@click.option(
    "--seed", callback=whole_number(0, 2**62), default="1", show_default=True, help="Of the choices."
)
@json_option
def stress_command(kernel: str | None, seconds: int, cpus: int, seed: int, as_json: bool) -> None:
    """Make devices come and go under load on a kernel with checkers; exit status 1 if it reports a fault."""
    from mqlab.stressing import stress

    report = stress(kernel, seconds=seconds, cpus=cpus, seed=seed)
    if as_json:
        print_json(report.to_dict())
    else:
        click.echo(report.table(), nl=False)
    click.get_current_context().exit(0 if report.clean else EXIT_REPORTED)
