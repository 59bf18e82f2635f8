"""Kernels built from source, with patches or without, kept by what they were made from.

A patched kernel is built in a copy of the tree of the unpatched one, so that it compiles only what its
patches touch. Builds of different kernels may run at the same time, in one process or several.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.apply import Applied, apply_patches
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.errors import BuildFailedError
from mqlab.kernels.estimate import base_effort, patched_effort
from mqlab.kernels.fragments import Fragment, check_taken, load_fragments
from mqlab.kernels.kernel import Kernel, PatchNote
from mqlab.kernels.locks import lock_file
from mqlab.kernels.make import run_make
from mqlab.kernels.patch_file import Patch, PatchSelection
from mqlab.kernels.request import KernelRequest, parse_request
from mqlab.kernels.sources import Source, find_debian_source, find_git_source, short_hash
from mqlab.kernels.tools import Compiler, build_environment, find_compiler, job_count, require_tools
from mqlab.kernels.trees import TreeFolder, WorkTree, building

__all__ = ["BuildFailedError", "KernelRequest", "PatchSelection", "Progress", "build_kernel", "parse_request"]

# Changed whenever the same inputs would give another image.
_RECIPE = "1"
_CONFIG_LIMIT_S = 600.0

Say = Callable[[str], None]
Progress = Callable[[int, int, str], None]  # objects done, objects expected, the one just made


def _silent(_line: str) -> None:
    return


def build_kernel(
    request: KernelRequest | str,
    *,
    cache: KernelCache | None = None,
    say: Say = _silent,
    progress: Progress | None = None,
    jobs: int | None = None,
    refresh: bool = False,
) -> Kernel:
    """The kernel, from the cache where it is there. Ctrl-C or a kill does no harm: the next call goes on.

    `say` gets a line at each step, `progress` each object; `refresh` asks the mirror for a newer source.
    Raises PatchFailedError (with the hunk), BuildFailedError (with the compiler's words) or UnsupportedError.
    """
    wanted = parse_request(request) if isinstance(request, str) else request
    cache = cache or KernelCache()
    build = Build(wanted, find_source(wanted.source, cache, say, refresh=refresh), cache, say, progress, jobs)
    return build.run()


def find_source(text: str, cache: KernelCache, say: Say, *, refresh: bool = False) -> Source:
    """Fetched when it has to be."""
    form, _, rest = text.partition(":")
    if form == "tree":
        return find_git_source(rest, say)
    if form != "source":
        raise UsageError(f"{text!r} names no source", "write source:VERSION or tree:PATH@REF")
    found = find_debian_source(rest, cache, say, refresh=refresh)
    assert found is not None
    return found


@dataclass
class Build:
    """One kernel on its way. Not for several threads; several builds may run at once."""

    request: KernelRequest
    source: Source
    cache: KernelCache
    say: Say = _silent
    progress: Progress | None = None
    jobs: int | None = None

    @cached_property
    def fragments(self) -> list[Fragment]:
        own = ["own"] if self.request.config is not None else []
        return [f for name in own for f in load_fragments(name)[1:]] + load_fragments(self.request.fragment)

    @cached_property
    def patches(self) -> list[Patch]:
        return self.request.patches.patches() if self.request.patches is not None else []

    @cached_property
    def compiler(self) -> Compiler:
        return find_compiler()

    @cached_property
    def _own_config(self) -> str:
        path = self.request.config
        if path is None:
            return ""
        try:
            return path.read_text(errors="replace")
        except OSError as error:
            raise UsageError(f"reading the configuration {path} was answered with: {error}") from error

    @cached_property
    def config_key(self) -> str:
        """Names configuration and compiler."""
        options = [fragment.text() for fragment in self.fragments]
        return short_hash(_RECIPE, self._own_config, *options, self.compiler.version)

    @cached_property
    def base_key(self) -> str:
        """Names source, configuration and compiler."""
        options = [fragment.text() for fragment in self.fragments]
        return short_hash(_RECIPE, self.source.identity, self._own_config, *options, self.compiler.version)

    @cached_property
    def key(self) -> str:
        return short_hash(self.base_key, *(p.id for p in self.patches)) if self.patches else self.base_key

    @cached_property
    def folder(self) -> TreeFolder:
        return TreeFolder(self.cache.trees / self.base_key)

    def cached(self) -> Kernel | None:
        return self.cache.find_key(self.key)

    def has_base(self) -> bool:
        return self.folder.base_facts() is not None and self.folder.base.is_dir()

    def check_patches(self) -> None:
        """Raises PatchFailedError where the patches do not apply; the source is unpacked where it was not."""
        if self.patches and self.cached() is None:
            if not self.folder.base.is_dir():
                with self.folder.hold_base(self.source, self.config_key, self.say):
                    pass
            apply_patches(self.folder.base, self.patches)

    def run(self) -> Kernel:
        with lock_file(self.cache.root / "building" / f"{self.key}.lock", say=self.say, what="this kernel"):
            kernel = self.cached()
            if kernel is None:
                require_tools()
                base = self._build_base()
                kernel = self._build_patched() if self.patches else base
        self.cache.mark_used(kernel.name)
        return replace(kernel, source=self.request.text())

    def _build_base(self) -> Kernel:
        """The tree of the unpatched kernel, and that kernel."""
        base = self._without_patches()
        known = base.cached()
        if self.has_base() and known is not None:
            return known
        self.check_patches()  # told before the unpatched tree is built for minutes
        with self.folder.hold_base(self.source, self.config_key, self.say) as tree:
            facts = self.folder.base_facts()
            if facts is None:
                self._make_base(tree)
            return base.cached() or base._keep(tree)

    def _without_patches(self) -> Build:
        return replace(self, request=self.request.unpatched())

    def _make_base(self, tree: WorkTree) -> None:
        log = self.folder.folder / "base.log"
        log.unlink(missing_ok=True)
        self._configure(tree, log)
        effort = base_effort(self.cache, self.request.fragment, bool(self._own_config))
        self.say(f"building {self.source.text} ({self.request.fragment}): {effort.text()}")
        start = time.monotonic()
        with building(tree):
            made = self._make(tree, log, self.source.text, effort.objects)
        facts = {
            "source": self.source.text,
            "identity": self.source.identity,
            "config_key": self.config_key,
            "version": self.source.version,
            "fragment": self.request.fragment,
            "compiler": self.compiler.version,
            "objects": made,
            "seconds": round(time.monotonic() - start, 1),
        }
        self.folder.finish_base(facts)

    def _build_patched(self) -> Kernel:
        applied = apply_patches(self.folder.base, self.patches)
        for remark in applied.remarks:
            self.say(remark)
        with self.folder.hold_work(self.say) as tree:
            return self._make_patched(tree, applied)

    def _make_patched(self, tree: WorkTree, applied: Applied) -> Kernel:
        effort = patched_effort(self.cache, self.folder.base, applied.files)
        self.say(f"building it with {count_patches(self.patches)}: {effort.text()}")
        self.folder.set_patches(tree, applied)
        log = tree.path.with_name(f"{tree.path.name}.log")
        log.unlink(missing_ok=True)
        what = f"{self.source.text} with {', '.join(patch.title() for patch in self.patches)}"
        with building(tree):
            self._make(tree, log, what, effort.objects)
        return self._keep(tree)

    def _make(self, tree: WorkTree, log: Path, what: str, expected: int) -> int:
        """Makes image and modules; how many objects were compiled. A failed one leaves the tree whole."""
        done = 0

        def count(name: str, compiled: bool) -> None:
            nonlocal done
            done += compiled
            if self.progress is not None:
                self.progress(done, max(expected, done), name)

        targets = ["bzImage", "modules"] if _has_modules(tree.config) else ["bzImage"]
        try:
            run_make(
                tree.path,
                targets,
                what=what,
                log=log,
                compiler=self.compiler,
                jobs=self.jobs or job_count(),
                lock=tree.lock,
                on_step=count,
            )
        except BuildFailedError as error:
            raise BuildFailedError(what, error.lines, self._keep_log(log)) from None
        return done

    def _keep_log(self, log: Path) -> Path:
        """The tree's own log is gone with the next build in it."""
        folder = self.cache.root / "failed"
        folder.mkdir(exist_ok=True)
        return Path(shutil.copy(log, folder / f"{self.key}.log"))

    def _configure(self, tree: WorkTree, log: Path) -> None:
        """As scripts/kconfig wants it: a start, the fragments on top, then what follows from them."""
        if self._own_config:
            tree.config.write_text(self._own_config)
        else:
            self._run_config(tree, ["make", "-s", "allnoconfig"])
        with tempfile.TemporaryDirectory(prefix="mqlab-config-") as folder:
            paths = [Path(folder, f"{n}-{f.name}.config") for n, f in enumerate(self.fragments)]
            for path, fragment in zip(paths, self.fragments, strict=True):
                path.write_text(fragment.text())
            merge = ["scripts/kconfig/merge_config.sh", "-m", ".config", *map(str, paths)]
            self._run_config(tree, merge)
        self._run_config(tree, ["make", "-s", "olddefconfig"])
        for remark in check_taken(self.fragments, tree.config.read_text(errors="replace"), tree.path):
            self.say(remark)

    def _run_config(self, tree: WorkTree, command: list[str]) -> None:
        done = subprocess.run(
            command,
            cwd=tree.path,
            env=build_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CONFIG_LIMIT_S,
            pass_fds=(tree.lock,),
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()[-4:]
            raise UnsupportedError(
                f"configuring {self.source.text} with {command[0]} was answered with: {'; '.join(said)}",
                "see that the tree is a kernel's and the fragment fits it",
            )

    def _keep(self, tree: WorkTree) -> Kernel:
        """Image, configuration and modules go into the cache."""
        with self.cache.locked(), self.cache.staging() as staged:
            shutil.copy2(tree.path / "arch/x86/boot/bzImage", staged / "bzImage")
            shutil.copy2(tree.config, staged / "config")
            shutil.copy2(tree.path / "System.map", staged / "System.map")
            release = (tree.path / "include/config/kernel.release").read_text().strip()
            modules = self._install_modules(tree, staged, release)
            text = self.request.text()
            kernel = Kernel(
                text,
                release,
                self.source.version,
                staged / "bzImage",
                modules,
                staged / "config",
                self.compiler.version,
                self.request.fragment,
                tuple(PatchNote(p.id, p.title(), tuple(p.files())) for p in self.patches),
            )
            return self.cache.keep(self._entry(release), staged, kernel)

    def _install_modules(self, tree: WorkTree, staged: Path, release: str) -> Path | None:
        if not _has_modules(tree.config):
            return None
        targets = ["modules_install", f"INSTALL_MOD_PATH={staged}", "INSTALL_MOD_STRIP=1", "DEPMOD=true"]
        log = self.folder.folder / "modules.log"
        run_make(tree.path, targets, what="its modules", log=log, compiler=self.compiler, lock=tree.lock)
        folder = staged / "lib/modules" / release
        for link in ("build", "source"):
            (folder / link).unlink(missing_ok=True)
        return folder

    def _entry(self, release: str) -> str:
        """What `mqlab kernel list` shows: readable, and ending in the key that it is found by."""
        parts = [release, "-own" if self._own_config else "", f"-{Path(self.request.fragment).stem}"]
        if self.request.patches is not None:
            numbers = self.request.patches.numbers
            stem = self.request.patches.file.name.split(".")[0]
            parts.append(f"+{stem}" + (f".{'.'.join(map(str, numbers))}" if numbers else ""))
        readable = "".join(c if c.isalnum() or c in ".+_-" else "_" for c in "".join(parts))
        return f"{readable}-{self.key}"


def count_patches(patches: Sequence[Patch]) -> str:
    """As a sentence says it."""
    return f"{len(patches)} patch{'es' * (len(patches) != 1)}"


def _has_modules(config: Path) -> bool:
    return "=m\n" in config.read_text(errors="replace")
