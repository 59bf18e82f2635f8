"""Messages of the agent between and inside kernel messages."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mqlab.vm.frames import parse_console

Sender = Callable[..., list[str]]


def test_messages_are_told_from_other_text(sent: Sender) -> None:
    lines = [
        "[    0.1] booting",
        *sent("stage", 0, {"stage": "init"}),
        "[    2.0] random: crng init done",
        *sent("result", 1, {"jobs": [1, 2, 3]}),
    ]
    console = parse_console("\r\n".join(lines).encode())
    assert console.messages == (("stage", {"stage": "init"}), ("result", {"jobs": [1, 2, 3]}))
    assert console.text == "[    0.1] booting\n[    2.0] random: crng init done"
    assert console.damaged == ()
    assert console.last("result") == {"jobs": [1, 2, 3]}
    assert console.last("dmesg") is None


def test_a_message_sent_once_and_cut_is_known_to_be_damaged(sent: Sender) -> None:
    lines = sent("result", 0, {"a": "bcdefgh"})
    cut = lines[0][:20] + "[    3.0] oh\r\n" + lines[0][20:]
    console = parse_console("\r\n".join([cut, *lines[1:]]).encode())
    assert console.messages == ()
    assert console.damaged == ("result",)


def test_a_kernel_message_before_a_frame_on_one_line_harms_neither(sent: Sender) -> None:
    [line] = sent("stage", 0, 1)
    console = parse_console(f"[    3.0] no newline{line}".encode())
    assert console.last("stage") == 1
    assert console.text == "[    3.0] no newline"


def test_an_empty_or_binary_console_has_no_messages() -> None:
    assert parse_console(b"").messages == ()
    assert parse_console(bytes(range(256)) * 4).messages == ()


@given(data=st.data(), samples=st.lists(st.integers(0, 10**12), max_size=30))
def test_one_cut_line_of_two_copies_loses_nothing(
    sent: Sender, data: st.DataObject, samples: list[int]
) -> None:
    lines = sent("result", 3, samples, copies=2)
    victim = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[victim])))
    lines[victim] = lines[victim][:at] + "[   12.345678] a kernel message\r\n" + lines[victim][at:]
    console = parse_console("\r\n".join(lines).encode())
    assert console.last("result") == samples
