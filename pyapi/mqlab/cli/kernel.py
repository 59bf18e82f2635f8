"""mqlab kernel: fetch, build, list, show, remove and prune the kernels that experiments boot."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mqlab.cli.options import json_option, print_json
from mqlab.telling import tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqlab.kernels.build import Progress
    from mqlab.kernels.kernel import Kernel
    from mqlab.kernels.manage import CacheItem
    from mqlab.kernels.plan import BuildPlan
    from mqlab.kernels.request import KernelRequest

__all__ = ["complete_kernel", "kernel_group"]

_MIB = 1 << 20


def complete_kernel(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of kernels in the cache, and the other forms."""
    from mqlab.kernels.cache import KernelCache

    forms = ["debian:", "source:", "tree:", "installed:", "image:"]
    return [CompletionItem(name) for name in [*KernelCache().names(), *forms] if name.startswith(typed)]


@click.group("kernel")
def kernel_group() -> None:
    """Fetch, build, list and remove the kernels that experiments boot.

    A kernel is named by one word: debian:7.3-cloud (a package), source:7.3 (Debian's source, built),
    tree:PATH@REF (your own git tree, built), installed:RELEASE, image:PATH, or a name that `list` shows. What
    is built takes a fragment (source:7.3+rt) and patches (source:7.3,series.mbox#1-2).
    """


@kernel_group.command("fetch")
@click.argument("source", metavar="KERNEL", shell_complete=complete_kernel)
@click.option("--refresh", is_flag=True, help="Ask the mirror for a newer point release.")
@json_option
def fetch_command(source: str, refresh: bool, as_json: bool) -> None:
    """Get a kernel into the cache: fetch a package, or build what has to be built."""
    from mqlab.kernels.find import find_kernel

    with _watched("kernel") as progress:
        kernel = find_kernel(source, say=tell, progress=progress, refresh=refresh)
    _show(kernel, as_json)


@kernel_group.command("build")
@click.argument("source", metavar="SOURCE", default="source:7.3")
@click.option("--fragment", metavar="NAME|FILE", help="base (default), rt, debug, rt+debug, or a file.")
@click.option("--config", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--patches", metavar="FILE", type=click.Path(path_type=Path), help="A thread, mbox or patch.")
@click.option("--numbers", metavar="N-M", help="Which of its patches; by default all that it posts.")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Compilers at a time; by default one a CPU.")
@click.option("--refresh", is_flag=True, help="Ask the mirror for a newer point release.")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched and built, and how long it takes.")
@json_option
def build_command(
    source: str,
    fragment: str | None,
    config: Path | None,
    patches: Path | None,
    numbers: str | None,
    jobs: int | None,
    refresh: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Build a kernel from SOURCE: source:VERSION (Debian's) or tree:PATH@REF.

    With --config the fragment stands on a configuration of yours, otherwise on one that has nothing else.
    """
    from mqlab.kernels.build import build_kernel

    request = _request(source, fragment, config, patches, numbers)
    if dry_run:
        from mqlab.kernels.plan import plan_build

        _show_plan(plan_build(request), request, as_json)
        return
    with _watched("building") as progress:
        kernel = build_kernel(request, say=tell, progress=progress, jobs=jobs, refresh=refresh)
    _show(kernel, as_json)


def _request(
    source: str, fragment: str | None, config: Path | None, patches: Path | None, numbers: str | None
) -> KernelRequest:
    from dataclasses import replace

    from mqlab.errors import UsageError
    from mqlab.kernels.patch_file import PatchSelection, parse_numbers
    from mqlab.kernels.request import parse_request

    request = parse_request(source)
    if fragment is not None:
        request = replace(request, fragment=fragment)
    if numbers is not None and patches is None:
        raise UsageError(
            "--numbers says which patches of a file, but no file was given", "add --patches FILE"
        )
    if patches is not None:
        chosen = parse_numbers(numbers) if numbers is not None else None
        request = replace(request, patches=PatchSelection(patches, chosen))
    return replace(request, config=config)


@kernel_group.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List the kernels in the cache, then the trees and sources that they were built from."""
    from mqlab.kernels.manage import list_items, list_kernels

    kernels, items = list_kernels(), list_items()
    sizes = {item.name: item for item in items if item.kind == "kernel"}
    if as_json:
        document = [_document(kernel) | _item_fields(sizes[kernel.name]) for kernel in kernels]
        rest = [_item_document(item) for item in items if item.kind != "kernel"]
        print_json({"schema": "mqlab.kernels/1", "kernels": document, "rest": rest})
        return
    width = max((len(item.name) for item in items), default=0) + 2
    for kernel in kernels:
        told = f"HZ {kernel.hz() or '?'}, {_size(sizes[kernel.name].size_bytes)}"
        if kernel.patches:
            told += f", {len(kernel.patches)} patch{'es' * (len(kernel.patches) > 1)}"
        click.echo(f"{kernel.name:<{width}}{kernel.version}, {told}")
    for item in items:
        if item.kind != "kernel":
            about = f" ({item.about()})" if item.about() else ""
            click.echo(f"{item.name:<{width}}{item.kind}{about}, {_size(item.size_bytes)}")
    if not items:
        click.echo("the cache holds no kernel; `mqlab kernel fetch debian:7.3-cloud` gets one")


@kernel_group.command("show")
@click.argument("name", metavar="KERNEL", shell_complete=complete_kernel)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show a kernel: version, HZ, configuration, compiler, patches, size."""
    from mqlab.kernels.find import find_kernel

    if name.startswith(("source:", "tree:")):
        _refuse_unbuilt(name)
    _show(find_kernel(name, say=tell), as_json)


def _refuse_unbuilt(name: str) -> None:
    """Showing builds nothing."""
    from mqlab.errors import UnsupportedError
    from mqlab.kernels.plan import plan_build
    from mqlab.kernels.request import parse_request

    if plan_build(parse_request(name)).kernel is None:
        raise UnsupportedError(f"{name} is not built yet", f"mqlab kernel build {name}")


@kernel_group.command("remove")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_kernel)
@json_option
def remove_command(names: tuple[str, ...], as_json: bool) -> None:
    """Remove kernels, trees or sources by the names that `list` shows."""
    from mqlab.kernels.manage import remove_kernels

    _show_removed(remove_kernels(names), as_json)


@kernel_group.command("prune")
@click.option("--max-size", metavar="SIZE", required=True, help="What may stay, as in 10G.")
@json_option
def prune_command(max_size: str, as_json: bool) -> None:
    """Remove what was not used for longest until all is at most SIZE."""
    from mqlab.kernels.manage import parse_size, prune_cache

    _show_removed(prune_cache(parse_size(max_size)), as_json)


@contextmanager
def _watched(title: str) -> Iterator[Progress]:
    """A bar in a terminal, else a line every now and then."""
    from mqlab.progress import build_progress

    with build_progress(title) as progress:
        yield progress


def _document(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "source": kernel.source,
        "release": kernel.release,
        "version": kernel.version,
        "hz": kernel.hz(),
        "image": str(kernel.image),
        "config": str(kernel.config) if kernel.config else None,
        "config_hash": kernel.config_hash(),
        "fragment": kernel.fragment,
        "compiler": kernel.compiler,
        "patches": [{"id": p.id, "title": p.title, "files": list(p.files)} for p in kernel.patches],
        "modules": str(kernel.modules) if kernel.modules else None,
        "made": kernel.made or None,
    }


def _item_fields(item: CacheItem) -> dict[str, Any]:
    return {"size_bytes": item.size_bytes, "used": item.used.isoformat(timespec="seconds")}


def _item_document(item: CacheItem) -> dict[str, Any]:
    return {"kind": item.kind, "name": item.name, "about": item.about(), **_item_fields(item)}


def _size(size_bytes: int) -> str:
    mib = size_bytes / _MIB
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.1f} MiB"


def _show(kernel: Kernel, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "mqlab.kernel/1", **_document(kernel)})
        return
    image = f"{kernel.image} ({_size(kernel.image.stat().st_size)})"
    lines = {
        "name": kernel.name,
        "source": kernel.source,
        "version": f"{kernel.release}, {kernel.version}",
        "HZ": str(kernel.hz() or "unknown"),
        "configuration": f"{kernel.config_hash()} ({kernel.fragment})"
        if kernel.fragment
        else kernel.config_hash(),
        "compiler": kernel.compiler,
        "image": image,
        "modules": str(kernel.modules or ""),
        "made": kernel.made,
    }
    for name, text in lines.items():
        if text:
            click.echo(f"{name + ':':<15}{text}")
    for patch in kernel.patches:
        click.echo(f"{'patch:':<15}{patch.id} {patch.title} ({', '.join(patch.files)})")


def _show_plan(plan: BuildPlan, request: KernelRequest, as_json: bool) -> None:
    if as_json:
        steps = [{"what": s.what, "objects": s.objects, "seconds": round(s.seconds)} for s in plan.steps]
        kernel = _document(plan.kernel) if plan.kernel is not None else None
        print_json(
            {
                "schema": "mqlab.build_plan/1",
                "kernel": kernel,
                "steps": steps,
                "seconds": round(plan.seconds),
                "remarks": list(plan.remarks),
            }
        )
        return
    if plan.kernel is not None:
        click.echo(f"{request.text()} is there: {plan.kernel.name}")
    for step in plan.steps:
        objects = f", {step.objects} objects" if step.objects else ""
        took = f"about {_duration(step.seconds)}{objects}" if step.seconds else "how long is not known yet"
        click.echo(f"{step.what}: {took}")
    for remark in plan.remarks:
        click.echo(f"note: {remark}")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def _show_removed(items: list[CacheItem], as_json: bool) -> None:
    if as_json:
        print_json({"removed": [_item_document(item) for item in items]})
        return
    for item in items:
        click.echo(f"removed {item.name}, {_size(item.size_bytes)}")
    if not items:
        click.echo("nothing to remove")
