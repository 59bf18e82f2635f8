"""Which kernel a variant is: an image as it is, or one built from source with the thread's patches."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from mqlab.errors import UnsupportedError
from mqlab.kernels.find import find_kernel
from mqlab.kernels.kernel import Kernel
from mqlab.records import RunSpec

__all__ = ["GuestKernels"]

# What is fetched when nobody names a kernel, by the kind that a case asks for.
_FETCHED: Mapping[str, str] = {"base": "debian:7.3-cloud", "rt": "debian:7.3-rt"}
_GIVE_FILES = "give --thread-files DIR (the folder with the thread files); the kernel is then built"


def _tell(line: str) -> None:
    print(f"mqlab: {line}", file=sys.stderr, flush=True)


class GuestKernels:
    """Finds, fetches or builds the kernel of each variant, each of them once.

    `kernel` names the one that variants without patches are (by default $MQLAB_KERNEL, then Debian's newest
    7.3, or with `thread_files` its source). `kernels` overrules by variant ("patch-1", or
    "tags-srcu/patch-1"). Safe for several threads: one works, the others wait.
    """

    def __init__(
        self,
        kernel: str | None = None,
        thread_files: Path | None = None,
        kernels: Mapping[str, str] | None = None,
        say: Callable[[str], None] = _tell,
    ) -> None:
        self._kernel = kernel or os.environ.get("MQLAB_KERNEL") or None
        self._thread_files = thread_files
        self._kernels = dict(kernels or {})
        self._say = say
        self._lock = threading.Lock()
        self._found: dict[str, Kernel] = {}

    def source_of(self, spec: RunSpec) -> str:
        """What the spec's variant is as a kernel; UnsupportedError says why it is none that can be had."""
        given = self._kernels.get(f"{spec.experiment}/{spec.variant}") or self._kernels.get(spec.variant)
        if given:
            return given
        if spec.patches is None:
            raise UnsupportedError(
                f"no kernel is {spec.variant}: {spec.kernel_reason or 'it is a variant of the engine alone'}",
                "measure it with --target sim",
            )
        if spec.patches:
            raise UnsupportedError(
                f"{spec.variant} is the kernel with {_named(spec.patches)} of the thread {spec.thread}",
                _GIVE_FILES,
            )
        if self._kernel:
            return self._kernel
        kind = spec.fragment or "base"
        if kind not in _FETCHED:
            raise UnsupportedError(f"no package has a kernel of the kind {kind}", "name one with --kernel")
        return _FETCHED[kind]

    def for_spec(self, spec: RunSpec) -> Kernel:
        """The kernel on disk."""
        source = self.source_of(spec)
        with self._lock:
            if source not in self._found:
                self._found[source] = find_kernel(source, say=self._say)
            return self._found[source]


def _named(patches: tuple[int, ...]) -> str:
    numbers = ", ".join(str(number) for number in patches)
    return f"patch {numbers}" if len(patches) == 1 else f"patches {numbers}"
