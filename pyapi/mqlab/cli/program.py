"""The group of commands, and how errors become exit statuses."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from mqlab.cli import across, kernel, listing, running, storing, stressing, trying, vm
from mqlab.errors import MqlabError

__all__ = ["cli", "main"]

EXIT_DONE: Final = 0
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
_OF_KIND: Final = {
    "usage": EXIT_USAGE,
    "store": EXIT_USAGE,
    "unsupported": 4,
    "system": 4,
    "timeout": 4,
    "violation": 1,
    "build": 1,
    "internal": 3,
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="mqlab")
def cli() -> None:
    """Measures what a change to the Linux block layer does, and says whether the difference is real.

    Exit status: 0 done, 1 a regression (with --strict also rows that are off or skipped), 2 usage or
    unreadable input, 3 nothing was measured, 4 the environment cannot do it, 130 interrupted.
    """


for command in (
    listing.list_command,
    listing.show_command,
    running.run_command,
    running.reproduce_command,
    across.matrix_command,
    stressing.stress_command,
    trying.try_command,
    kernel.kernel_group,
    vm.vm_group,
    storing.store_group,
    listing.completion_command,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits with its status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(given, as_json="--json" in given))


def _run(arguments: list[str], as_json: bool) -> int:
    try:
        status = cli.main(arguments, prog_name="mqlab", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else EXIT_DONE
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"see `{context.command_path if context else 'mqlab'} --help`"
        return _fail("usage", error.format_message(), hint, as_json, EXIT_USAGE)
    except MqlabError as error:
        return _fail(error.kind, error.message, error.remedy, as_json, _OF_KIND.get(error.kind, EXIT_USAGE))
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", "interrupted", "", as_json, EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader went away (`mqlab list | head`): nobody is left to be told.
        _give_up_output()
        return EXIT_DONE
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else f"output: {error.strerror}"
        return _fail("system", what, "see that it can be written", as_json, _OF_KIND["system"])
    except Exception as error:
        # Python's own status would be 1, a regression.
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}"
        return _fail("internal", message, "report it with the traceback", as_json, _OF_KIND["internal"])


def _fail(kind: str, message: str, remedy: str, as_json: bool, status: int) -> int:
    if as_json:
        error = {"kind": kind, "message": message, "remedy": remedy}
        try:
            sys.stdout.write(json.dumps({"error": error}) + "\n")
            sys.stdout.flush()
            return status
        except OSError:
            pass  # stdout takes nothing: stderr is what is left
    sys.stderr.write(f"mqlab: {message}\n" + (f"  {remedy}\n" if remedy else ""))
    try:
        sys.stdout.flush()
    except OSError:
        _give_up_output()
    return status


def _give_up_output() -> None:
    """What stdout still holds goes nowhere, lest the interpreter fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
