"""What building a kernel would fetch, build and cost, found out without doing any of it."""

from __future__ import annotations

from dataclasses import dataclass

from mqlab.kernels.apply import apply_patches
from mqlab.kernels.build import Build, count_patches
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.estimate import Effort, base_effort, patched_effort
from mqlab.kernels.kernel import Kernel
from mqlab.kernels.request import KernelRequest
from mqlab.kernels.sources import find_debian_source, find_git_source
from mqlab.kernels.tools import require_tools

__all__ = ["BuildPlan", "BuildStep", "plan_build"]

_FETCH_S = 120.0


@dataclass(frozen=True)
class BuildStep:
    """One thing to do. `objects` is 0 for what compiles nothing."""

    what: str
    objects: int
    seconds: float


@dataclass(frozen=True)
class BuildPlan:
    """The steps to a kernel; none where it is there already."""

    kernel: Kernel | None
    steps: tuple[BuildStep, ...]
    remarks: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


def plan_build(request: KernelRequest, cache: KernelCache | None = None) -> BuildPlan:
    """Raises what build_kernel() would, as far as that is seen beforehand, as a patch that does not apply."""
    cache = cache or KernelCache()
    remarks: list[str] = []
    source = _source(request, cache, remarks)
    if source is None:
        return _plan_from_nothing(request, cache)
    build = Build(request, source, cache)
    known = build.cached()
    if known is not None:
        return BuildPlan(known, (), ())
    require_tools()
    steps: list[BuildStep] = []
    if not build.has_base():
        effort = base_effort(cache, request.fragment, request.config is not None)
        steps.append(_step(f"build {source.text} {source.version} ({request.fragment})", effort))
    if build.patches:
        titles = ", ".join(p.title() for p in build.patches)
        what = f"build it with {count_patches(build.patches)}: {titles}"
        if build.has_base():
            applied = apply_patches(build.folder.base, build.patches)
            remarks += applied.remarks
            steps.append(_step(what, patched_effort(cache, build.folder.base, applied.files)))
        else:
            steps.append(BuildStep(what, 0, 0.0))
            remarks.append(
                "how much the patches make to be compiled is known once the unpatched tree is built"
            )
    return BuildPlan(None, tuple(steps), tuple(remarks))


def _source(request: KernelRequest, cache: KernelCache, remarks: list[str]):  # type: ignore[no-untyped-def]
    form, _, rest = request.source.partition(":")
    if form == "tree":
        return find_git_source(rest, remarks.append)
    return find_debian_source(rest, cache, remarks.append, fetch=False)


def _plan_from_nothing(request: KernelRequest, cache: KernelCache) -> BuildPlan:
    require_tools()
    effort = base_effort(cache, request.fragment, request.config is not None)
    steps = [
        BuildStep(f"fetch linux-{request.source.replace(':', '-')}, about 160 MB", 0, _FETCH_S),
        _step(f"build it ({request.fragment})", effort),
    ]
    if request.patches is not None:
        steps.append(BuildStep(f"build it with {count_patches(request.patches.patches())}", 0, 0.0))
    return BuildPlan(None, tuple(steps), ("the time for patches is known once the unpatched tree is built",))


def _step(what: str, effort: Effort) -> BuildStep:
    return BuildStep(what, effort.objects, effort.seconds)
