"""A prompt in a guest, on the user's own terminal.

The guest holds busybox and the modules of the block layer, which modprobe finds; it ends with the shell.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mqlab.errors import SystemCallError, UnsupportedError, UsageError
from mqlab.kernels.kernel import Kernel
from mqlab.vm import cpio
from mqlab.vm.accel import choose_accelerator
from mqlab.vm.busybox import find_busybox
from mqlab.vm.initramfs import agent_path, build, spec_document
from mqlab.vm.modules import dependencies, load_order, module_files
from mqlab.vm.qemu import Machine, find_qemu

__all__ = ["open_shell", "shell_entries"]

# Of a stock kernel's thousands, what somebody looks for who looks at the block layer; all else would make the
# guest slow to start.
_WANTED = re.compile(r"/(block|drivers/(block|nvme|scsi|virtio|md|target)|fs/(ext4|xfs|btrfs)|io_uring)/")
_APPLETS_FOLDERS = ("bin", "sbin", "etc", "root", "usr")


def _modules_folder(kernel: Kernel) -> list[cpio.Entry]:
    """/lib/modules as modprobe reads it, with the dependencies worked out here."""
    if kernel.modules is None:
        return []
    names = [name for name, path in module_files(kernel.modules).items() if _WANTED.search(path.as_posix())]
    modules = load_order(kernel.modules, names)
    needs = dependencies(modules)
    lines = [f"{m.name}.ko: {' '.join(f'{n}.ko' for n in needs[m.name])}".rstrip() + "\n" for m in modules]
    root = f"lib/modules/{kernel.modules.name}"
    return [
        *(cpio.directory(folder) for folder in ("lib", "lib/modules", root)),
        *(cpio.file(f"{root}/{module.name}.ko", module.content) for module in modules),
        cpio.file(f"{root}/modules.dep", "".join(lines).encode()),
    ]


def _applets(busybox: Path) -> list[cpio.Entry]:
    listed = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True, timeout=60)
    return [cpio.link(f"bin/{name}", "busybox") for name in listed.stdout.split() if name != "busybox"]


def shell_entries(kernel: Kernel, busybox: Path) -> list[cpio.Entry]:
    """What a prompt needs in the initramfs beside the agent."""
    return [
        *(cpio.directory(folder) for folder in _APPLETS_FOLDERS),
        cpio.file("bin/busybox", busybox.read_bytes(), executable=True),
        *_applets(busybox),
        *_modules_folder(kernel),
    ]


def _shell_spec(command: str) -> dict[str, Any]:
    size = shutil.get_terminal_size()
    spec = {"program": "/bin/sh", "term": os.environ.get("TERM", "linux"), "command": command}
    return spec | {"rows": size.lines, "columns": size.columns}


def open_shell(
    kernel: Kernel, machine: Machine, *, command: str = "", say: Callable[[str], None] = lambda _line: None
) -> None:
    """Boots the kernel with this process's terminal as its console, and comes back when its shell has ended.

    With `command` the shell runs that and ends. In real time KVM is taken where it runs a guest.
    """
    if not command and not sys.stdin.isatty():
        raise UsageError("a prompt needs a terminal, and stdin is none", "run it in one, or give --command")
    qemu, agent = find_qemu(), agent_path().read_bytes()
    if machine.clock == "real":
        machine = replace(machine, accel=choose_accelerator(qemu, kernel.image, agent, say=say).accel)
    document = spec_document([], kernel_args=machine.kernel_args) | {"shell": _shell_spec(command)}
    initramfs = build(agent, document, extra=shell_entries(kernel, find_busybox(say)))
    say(f"starting {kernel.version} on {machine.cpus} CPUs ({machine.accel}); `exit` ends the guest")
    with tempfile.TemporaryDirectory(prefix="mqlab-vm-") as folder:
        path = Path(folder) / "initramfs"
        path.write_bytes(initramfs)
        words = [str(qemu.program), *machine.options(kernel.image, path, None)]
        # Without a terminal nothing is typed; QEMU must not take what is meant for somebody else.
        stdin = None if sys.stdin.isatty() else subprocess.DEVNULL
        try:
            done = subprocess.run(words, stdin=stdin, check=False)
        except OSError as error:
            raise UnsupportedError(f"starting {qemu.program} was answered with: {error}") from error
    if done.returncode != 0:
        raise SystemCallError(f"QEMU ended with status {done.returncode}", "see what it said above")
