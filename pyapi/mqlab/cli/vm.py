"""mqlab vm: boot a kernel again and again, or look around in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mqlab.cli.kernel import complete_kernel
from mqlab.cli.options import experiment_argument, json_option, parse_settings, print_json
from mqlab.telling import tell

if TYPE_CHECKING:
    from mqlab.repeating import Repetition

__all__ = ["vm_group"]

_DIFFERS = 1
_DEFAULT_KERNEL = "debian:7.3-cloud"


@click.group("vm")
def vm_group() -> None:
    """Guests under QEMU: repeat a boot and compare its every nanosecond, or get a prompt in one."""


@vm_group.command("repeat")
@experiment_argument()
@click.option(
    "--kernel",
    metavar="KERNEL",
    shell_complete=complete_kernel,
    help="What to boot; `kernel` tells the forms.",
)
@click.option("--boots", type=click.IntRange(2, 1000), default=3, show_default=True)
@click.option("--case", metavar="ID", help="By default the first case that a guest does.")
@click.option("--variant", metavar="ID", help="What the kernel stands for; by default the first variant.")
@click.option("--seed", type=click.IntRange(0, 2**62), default=1, show_default=True)
@click.option(
    "--set", "settings", metavar="PARAM=VALUE", multiple=True, help="Set a parameter; `show` lists them."
)
@click.option(
    "--vary",
    metavar="seed,address",
    default="",
    help="Change this from boot to boot, and report how far the figures spread.",
)
@json_option
def repeat_command(
    id_: str,
    kernel: str | None,
    boots: int,
    case: str | None,
    variant: str | None,
    seed: int,
    settings: tuple[str, ...],
    vary: str,
    as_json: bool,
) -> None:
    """Boot a kernel several times and compare every raw sample and the guest's instruction counts.

    Exit status 1 when boots that should be the same differ.
    """
    from mqlab.progress import progress_bar
    from mqlab.repeating import repeat

    with progress_bar(True, f"{id_}: boots") as shown:
        repetition = repeat(
            id_,
            kernel=kernel,
            boots=boots,
            case=case,
            variant=variant,
            seed=seed,
            params=parse_settings(settings),
            vary=[word.strip() for word in vary.split(",") if word.strip()],
            progress=shown,
        )
    if as_json:
        print_json(repetition.to_dict())
    else:
        _show(repetition)
    if not repetition.varied and not repetition.identical:
        click.get_current_context().exit(_DIFFERS)


def _show(repetition: Repetition) -> None:
    machine = repetition.machine
    click.echo(
        f"{repetition.experiment}, {repetition.case}, {repetition.variant}: {len(repetition.boots)} boots of "
        f"{repetition.kernel} on {machine['cpus']} CPUs, {machine['clock']} clock"
    )
    if repetition.varied:
        _show_spread(repetition)
    else:
        _show_sameness(repetition)
    for note in repetition.notes:
        click.echo(f"  {note}")


def _show_sameness(repetition: Repetition) -> None:
    click.echo(f"  samples a boot: {repetition.samples}; differing in some boot: {repetition.differing}")
    counts = {boot.instructions for boot in repetition.boots}
    if None in counts:
        click.echo("  instructions were not counted")
    elif len(counts) == 1:
        click.echo(f"  instructions of a whole boot: {counts.pop()}, the same in all")
    else:
        click.echo(f"  instructions of a whole boot differ: {', '.join(str(n) for n in counts)}")
    click.echo("  identical" if repetition.identical else "  NOT identical")


def _show_spread(repetition: Repetition) -> None:
    click.echo(f"  varied: {', '.join(repetition.varied)}; medians over the boots")
    width = max(len(spread.metric) for spread in repetition.spreads())
    for spread in repetition.spreads():
        relative = f"{spread.relative:.2%}" if spread.relative is not None else "-"
        click.echo(f"  {spread.metric:<{width}}  {spread.low:>16.0f} - {spread.high:<16.0f} {relative:>8}")
    if len(repetition.text_addresses()) > 1:
        click.echo(f"  the kernel's code began at {', '.join(repetition.text_addresses())}")


@vm_group.command("shell")
@click.option(
    "--kernel",
    metavar="KERNEL",
    shell_complete=complete_kernel,
    help="By default $MQLAB_KERNEL, or Debian's 7.3.",
)
@click.option("--cpus", type=click.IntRange(1, 255), default=2, show_default=True)
@click.option("--memory", type=click.IntRange(64, 1 << 20), default=1024, show_default=True, metavar="MIB")
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    help="nvme, virtio-scsi:queues=8, virtio-blk; repeats.",
)
@click.option(
    "--arg", "arguments", multiple=True, metavar="ARG", help="For the kernel's command line; repeats."
)
@click.option("--deterministic", is_flag=True, help="The guest's clock counts instructions.")
@click.option("--command", "-c", default="", help="Run this in the guest and end.")
def shell_command(
    kernel: str | None,
    cpus: int,
    memory: int,
    devices: tuple[str, ...],
    arguments: tuple[str, ...],
    deterministic: bool,
    command: str,
) -> None:
    """Get a prompt in a guest; `exit` ends it, and Ctrl-C goes to it.

    busybox is there, and modprobe finds the modules of the block layer.
    """
    import os

    from mqlab.kernels.find import find_kernel
    from mqlab.vm.qemu import Machine
    from mqlab.vm.shell import open_shell

    machine = Machine(
        cpus=cpus,
        memory_mib=memory,
        clock="deterministic" if deterministic else "real",
        kernel_args=arguments,
        devices=devices,
    )
    chosen = kernel or os.environ.get("MQLAB_KERNEL") or _DEFAULT_KERNEL
    open_shell(find_kernel(chosen, say=tell), machine, command=command, say=tell)
