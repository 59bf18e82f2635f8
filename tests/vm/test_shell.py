"""A prompt in a real guest, typed into through a terminal of our own."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time

import pytest

from mqlab.errors import UnsupportedError
from mqlab.targets.guest_kernels import GuestKernels
from mqlab.vm.busybox import find_busybox
from mqlab.vm.qemu import find_qemu

PROMPT = b"mqlab# "
LIMIT_S = 500
KERNEL = os.environ.get("MQLAB_KERNEL") or "debian:7.3-cloud"


class Terminal:
    """`mqlab vm shell` on a pseudo terminal."""

    def __init__(self, *words: str) -> None:
        self.pid, self._line = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-m", "mqlab", "vm", "shell", *words])

    def read_until(self, text: bytes) -> str:
        seen, end_s = b"", time.monotonic() + LIMIT_S
        while text not in seen:
            assert time.monotonic() < end_s, seen.decode(errors="replace")
            if select.select([self._line], [], [], 1)[0]:
                seen += os.read(self._line, 4096)
        return seen.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._line, text.encode())

    def close(self) -> int:
        """Its exit status; ended if it does not end."""
        end_s = time.monotonic() + 60
        while time.monotonic() < end_s:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.1)
        os.kill(self.pid, signal.SIGKILL)
        return -1


@pytest.mark.slow
def test_a_command_is_typed_interrupted_and_the_guest_left() -> None:
    try:
        find_qemu()
        find_busybox()
        GuestKernels(KERNEL)
    except UnsupportedError as error:
        pytest.skip(str(error))
    terminal = Terminal("--kernel", KERNEL, "--memory", "1024", "--device", "virtio-blk")
    terminal.read_until(PROMPT)
    terminal.type("echo $((6*7))-ok; modprobe ublk_drv; ls /dev/ublk-control\n")
    said = terminal.read_until(PROMPT)
    assert "42-ok" in said
    assert "\n/dev/ublk-control" in said.replace("\r", "")
    terminal.type("sleep 1000\n")
    time.sleep(1)
    terminal.type("\x03")
    terminal.read_until(PROMPT)
    terminal.type("exit\n")
    assert terminal.close() == 0
