"""A git tree that builds like a kernel, in a second: the same targets, the same notes for make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mqlab.kernels.build import KernelRequest, PatchSelection, build_kernel
from mqlab.kernels.cache import KernelCache
from mqlab.kernels.kernel import Kernel

MAKEFILE = """\
KERNELVERSION = 9.9
OBJS = block/one.o block/two.o block/three.o
IMAGE = arch/x86/boot/bzImage
bzImage: $(IMAGE)
allnoconfig:
\t@echo 'CONFIG_HZ=100' > .config
olddefconfig:
\t@grep -v '^#' .config | grep -v 'CONFIG_REFUSED' | tac | sort -t= -k1,1 -us > .config.new
\t@mv .config.new .config
$(IMAGE): $(OBJS)
\t@mkdir -p arch/x86/boot include/config
\t@echo '  LD      $@'
\t@ld -r -o $@ $(OBJS)
\t@nm $@ > System.map
\t@echo '9.9.0' > include/config/kernel.release
%.o: %.c
\t@echo '  CC      $@'
\t@sleep $${SMALL_KERNEL_DELAY:-0}
\t@gcc -Iinclude -Iblock -Wall -MMD -MF $@.d -c -o $@ $<
\t@{ echo 'savedcmd_$@ := gcc'; echo 'deps_$@ := \\'; sed 's/^.*://' $@.d; } > $(dir $@).$(notdir $@).cmd
-include $(OBJS:.o=.o.d)
"""
MERGE = '#!/bin/sh\nshift\nout=$1; shift\ncat "$@" >> "$out"\n'
HEADER = "#define NUMBER 1\n"
SOURCE = """\
#include "number.h"

int {name}(void);

int {name}(void)
{{
\treturn NUMBER;
}}
"""


def run_git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    who = ["-c", "user.name=x", "-c", "user.email=x@y"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.strip()


def make_small_kernel(folder: Path) -> Path:
    """A repository with one commit, tagged v1."""
    for name, text in {
        "Makefile": MAKEFILE,
        "scripts/kconfig/merge_config.sh": MERGE,
        "include/number.h": HEADER,
        "block/two.h": "int two(void);\n",
        **{f"block/{name}.c": SOURCE.format(name=name) for name in ("one", "two", "three")},
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "scripts/kconfig/merge_config.sh").chmod(0o755)
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "first")
    run_git(folder, "tag", "v1")
    return folder


def write_patch(
    path: Path, name: str, old: str, new: str, at: int, context: tuple[list[str], list[str]]
) -> Path:
    """One hunk that makes `old`, line `at`, into `new`; context are the lines before and after."""
    before, after = context
    body = [*(f" {line}" for line in before), f"-{old}", *(f"+{line}" for line in new.splitlines())]
    body += [f" {line}" for line in after]
    n_old = len(before) + 1 + len(after)
    n_new = n_old - 1 + len(new.splitlines())
    start = at - len(before)
    text = f"--- a/{name}\n+++ b/{name}\n@@ -{start},{n_old} +{start},{n_new} @@\n" + "\n".join(body) + "\n"
    path.write_text(text)
    return path


def change_return(path: Path, unit: str, value: str) -> Path:
    """A patch on what a source file of the small kernel returns."""
    context = ([f"int {unit}(void)", "{"], ["}"])
    return write_patch(path, f"block/{unit}.c", "\treturn NUMBER;", f"\treturn {value};", 7, context)


def change_number(path: Path, value: int) -> Path:
    """A patch on the header that every source file includes."""
    return write_patch(path, "include/number.h", "#define NUMBER 1", f"#define NUMBER {value}", 1, ([], []))


class Watch:
    """Counts what is compiled."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.said: list[str] = []

    def progress(self, _done: int, _planned: int, what: str) -> None:
        self.made.append(what)

    def objects(self) -> list[str]:
        return sorted(name for name in self.made if name.endswith(".o"))


def build(
    repository: Path,
    cache: KernelCache,
    watch: Watch | None = None,
    patches: Path | None = None,
    **more: object,
) -> Kernel:
    watch = watch or Watch()
    selection = PatchSelection(patches) if patches is not None else None
    request = KernelRequest(f"tree:{repository}@v1", patches=selection, **more)  # type: ignore[arg-type]
    return build_kernel(request, cache=cache, say=watch.said.append, progress=watch.progress)


def symbols(kernel: Kernel) -> bytes:
    return kernel.image.read_bytes()
