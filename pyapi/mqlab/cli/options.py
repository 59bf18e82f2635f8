"""Options that mean the same on every command, and how they are read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mqlab.errors import UsageError

__all__ = [
    "experiment_argument",
    "json_option",
    "kernel_option",
    "measuring_options",
    "output_options",
    "parse_settings",
    "print_json",
    "repeating_options",
    "say",
    "store_option",
    "whole_number",
]

F = TypeVar("F", bound=Callable[..., Any])


def whole_number(
    low: int, high: int
) -> Callable[[click.Context, click.Parameter, str | int | None], int | None]:
    """A callback that reads a whole number in a range and refuses all else with the range."""

    def read(_ctx: click.Context, _param: click.Parameter, value: str | int | None) -> int | None:
        if value is None or isinstance(value, int):
            return value
        if re.fullmatch(r"[+-]?[0-9]{1,30}", value) is None or not low <= int(value) <= high:
            raise click.BadParameter(f"{value!r} is not allowed: a whole number from {low} to {high}")
        return int(value)

    return read


def _complete_experiment(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    from mqlab.discovery import find_experiments

    return [CompletionItem(e.id, help=e.title) for e in find_experiments() if e.id.startswith(typed)]


def _complete_target(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    from mqlab.targets import target_help

    return [CompletionItem(name, help=text) for name, text in target_help().items() if name.startswith(typed)]


def experiment_argument(many: bool = False) -> Callable[[F], F]:
    """The id of an experiment, or the path of a Python file that holds one."""
    if many:
        return click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=_complete_experiment)
    return click.argument("id_", metavar="ID", shell_complete=_complete_experiment)


def _filled(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuses an empty word: an unset variable of a script would else choose the default."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty; leave the option away for the default")
    return value


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
store_option = click.option(
    "--store",
    metavar="PATH|URL",
    callback=_filled,
    help="The store; by default $MQLAB_STORE or a file in the user's data directory.",
)


_RUNS = click.option(
    "--runs", callback=whole_number(1, 10_000), help="Runs of each variant; the target has a default."
)
_SEED = click.option(
    "--seed", callback=whole_number(0, 2**62), default="1", show_default=True, help="Seed of the first run."
)
_SET = click.option(
    "--set", "settings", metavar="PARAM=VALUE", multiple=True, help="Set a parameter; `show` lists them."
)
_LABEL = click.option("--label", default="", help="A name to find the result by in the store.")
kernel_option = click.option(
    "--kernel",
    metavar="KERNEL",
    callback=_filled,
    help="For vm: the kernel without patches, as debian:7.3-cloud, source:7.3 or tree:PATH@REF.",
)


def repeating_options(function: F) -> F:
    """--runs, --seed, --set, --label, --store."""
    for option in reversed((_RUNS, _SEED, _SET, _LABEL, store_option)):
        function = option(function)
    return function


def measuring_options(function: F) -> F:
    """--target, --kernel, --thread-files, --profile, and those of repeating_options()."""
    options = (
        click.option(
            "--target",
            metavar="NAME",
            callback=_filled,
            shell_complete=_complete_target,
            help="sim (default), native, vm.",
        ),
        kernel_option,
        click.option(
            "--thread-files",
            metavar="DIR",
            callback=_filled,
            help="Folder with the thread files: figures are checked against them, and for vm kernels are "
            "built with their patches.",
        ),
        repeating_options,
        click.option(
            "--profile", default="published", show_default=True, help="Costs of the sim: a name or a file."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def output_options(function: F) -> F:
    """--out, --no-files, --json."""
    options = (
        click.option(
            "--out", default="out", show_default=True, metavar="DIR", help="Folder for table, plot and data."
        ),
        click.option("--no-files", is_flag=True, help="Write no files, only print and store."),
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE pairs; the values are checked where the experiment is known."""
    parsed: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {setting!r} is no PARAM=VALUE", "write for instance --set hz=250")
        parsed[name.strip()] = value.strip()
    return parsed


def print_json(document: Any) -> None:
    """The one JSON document of a command."""
    sys.stdout.write(json.dumps(document, allow_nan=False, indent=2) + "\n")


def say(text: str) -> None:
    """A remark for the person at the terminal, on stderr."""
    sys.stderr.write(text + "\n")
