"""Which kernel a variant is: an image as it is, or one built from source with the thread's patches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from mqlab.errors import UnsupportedError
from mqlab.kernels.find import find_kernel
from mqlab.kernels.kernel import Kernel, config_value
from mqlab.kernels.patch_file import PatchSelection
from mqlab.kernels.request import KernelRequest, parse_request
from mqlab.records import RunSpec
from mqlab.telling import tell

__all__ = ["GuestKernels"]

# What is fetched when nobody names a kernel, by the kind that a case asks for.
_FETCHED: Mapping[str, str] = {"base": "debian:7.3-cloud", "rt": "debian:7.3-rt"}
_SOURCE = "source:7.3"
_GIVE_FILES = "give --thread-files DIR (the folder with the thread files); the kernel is then built"
_GIVE_SOURCE = "give --kernel source:7.3 or tree:PATH@REF, which patches can be put on"


def _never() -> bool:
    return False


class _Progress:
    """Says each tenth of a build, and ends it by KeyboardInterrupt when it is cancelled."""

    def __init__(self, say: Callable[[str], None], is_cancelled: Callable[[], bool]) -> None:
        self._say = say
        self._is_cancelled = is_cancelled
        self._said = 0

    def __call__(self, done: int, expected: int, _name: str) -> None:
        if self._is_cancelled():
            raise KeyboardInterrupt
        tenths = 10 * done // max(expected, 1)
        if tenths > self._said:
            self._said = tenths
            self._say(f"built {done} of {expected} objects")


class GuestKernels:
    """Finds, fetches or builds the kernel of each variant, each of them once.

    `kernel` names the one that variants without patches are (by default $MQLAB_KERNEL, then with
    `thread_files` the source of 7.3, else Debian's newest 7.3). `kernels` overrules by variant ("patch-1",
    or "tags-srcu/patch-1"). `cancellation` gives what tells whether a build that begins now is to end; a
    later one goes on where it stopped. Safe for several threads: one works, the others wait.
    """

    def __init__(
        self,
        kernel: str | None = None,
        thread_files: Path | None = None,
        kernels: Mapping[str, str] | None = None,
        say: Callable[[str], None] = tell,
        cancellation: Callable[[], Callable[[], bool]] = lambda: _never,
    ) -> None:
        self._cancellation = cancellation
        self._kernel = kernel or os.environ.get("MQLAB_KERNEL") or (_SOURCE if thread_files else "")
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
                spec.kernel_reason or f"no kernel is {spec.variant}: it is a variant of the engine alone",
                "measure it with --target sim",
            )
        if _can_be_built(self._kernel):
            return self._request(spec).text()
        if spec.patches:
            raise self._no_patches(spec)
        kind = spec.fragment or "base"
        if not self._kernel and kind not in _FETCHED:
            raise UnsupportedError(f"no package has a kernel of the kind {kind}", _GIVE_SOURCE)
        return self._kernel or _FETCHED[kind]

    def for_spec(self, spec: RunSpec) -> Kernel:
        """The kernel on disk, of the kind that the spec asks for."""
        is_cancelled = self._cancellation()
        source = self.source_of(spec)
        with self._lock:
            if source not in self._found:
                progress = _Progress(self._say, is_cancelled)
                self._found[source] = find_kernel(source, say=self._say, progress=progress)
            kernel = self._found[source]
        _check_kind(kernel, spec)
        return kernel

    def _request(self, spec: RunSpec) -> KernelRequest:
        base = parse_request(self._kernel)
        if spec.fragment and base.fragment == "base":
            base = replace(base, fragment=spec.fragment)
        if not spec.patches:
            return base
        if self._thread_files is None:
            raise self._no_patches(spec)
        return replace(base, patches=PatchSelection(self._file_of(spec), spec.patches))

    def _file_of(self, spec: RunSpec) -> Path:
        assert self._thread_files is not None
        path = self._thread_files / f"{spec.thread}.txt"
        if not path.is_file():
            raise UnsupportedError(
                f"there is no {path}, which would hold {_named(spec.patches or ())} of {spec.variant}",
                "name the folder with the thread files, each called THREAD.txt",
            )
        return path.absolute()

    def _no_patches(self, spec: RunSpec) -> UnsupportedError:
        what = (
            f"{spec.variant} is the kernel with {_named(spec.patches or ())} of the thread {spec.thread}"
            if spec.thread
            else f"{spec.variant} is a patched kernel"
        )
        if self._thread_files is None:
            return UnsupportedError(what, _GIVE_FILES)
        return UnsupportedError(f"{what}, and {self._kernel} is a finished image", _GIVE_SOURCE)


def _can_be_built(source: str) -> bool:
    return source.startswith(("source:", "tree:"))


def _check_kind(kernel: Kernel, spec: RunSpec) -> None:
    """An image that the user named may be of another kind than the case is about."""
    config = kernel.config_text()
    if not config or not spec.fragment:
        return
    has_rt = config_value(config, "PREEMPT_RT") == "y"
    if has_rt != ("rt" in spec.fragment.split("+")):
        wanted = "a normal one" if has_rt else "PREEMPT_RT"
        raise UnsupportedError(
            f"the kernel {kernel.release} is {'PREEMPT_RT' if has_rt else 'a normal one'}, {spec.case} with "
            f"{spec.variant} wants {wanted}",
            "leave --kernel away, or give a source, which is built as it is wanted",
        )


def _named(patches: tuple[int, ...]) -> str:
    numbers = ", ".join(str(number) for number in patches)
    return f"patch {numbers}" if len(patches) == 1 else f"patches {numbers}"
