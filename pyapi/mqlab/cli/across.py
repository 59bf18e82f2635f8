"""mqlab matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mqlab.cli.options import (
    experiment_argument,
    output_options,
    parse_settings,
    print_json,
    repeating_options,
    say,
)
from mqlab.errors import UsageError

__all__ = ["matrix_command"]

EXIT_CANNOT = 4


@click.command("matrix")
@experiment_argument()
@click.option(
    "--kernels",
    required=True,
    metavar="K,K,...",
    help="The kernels, as debian:6.12-cloud,debian:7.3-cloud; each as --kernel of run takes it.",
)
@click.option("--case", metavar="ID", help="The case; by default the first that a guest does.")
@click.option("--metric", metavar="NAME", help="The metric; by default the first of the case.")
@click.option("--variant", metavar="ID", help="The variant; by default the kernel as it is.")
@click.option("--statistic", default="p50", show_default=True, help="Of the samples of a run.")
@repeating_options
@output_options
def matrix_command(
    id_: str,
    kernels: str,
    settings: tuple[str, ...],
    out: str,
    no_files: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure one metric on several kernels and show it by version, in the order of release."""
    from mqlab import export
    from mqlab.across import matrix

    if not no_files:
        export.prepare_folder(Path(out))
    names = [name.strip() for name in kernels.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--kernels {kernels!r} names no kernel", "write debian:6.12-cloud,debian:7.3-cloud")
    found = matrix(id_, names, params=parse_settings(settings), **options)
    if not as_json:
        click.echo(found.table(), nl=False)
    if not no_files:
        files = export.write_matrix(found, Path(out))
        say(f"wrote {len(files)} files to {files[0].parent.resolve()}: {', '.join(f.name for f in files)}")
    if as_json:
        print_json(found.to_dict())
    click.get_current_context().exit(0 if any(p.values for p in found.points) else EXIT_CANNOT)
