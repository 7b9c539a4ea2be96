"""The terminal: what is sent to it, which keys mean what, and that it is given back."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

import anyio
import pytest
from rich.console import Console
from rich.text import Text

from ckwatch.cli.live.screen import Screen
from fakes.patience import PATIENCE_S

LEFT = "\x1b[?25h\x1b[?1049l"
"""The terminal is given back: a cursor, and what was there before."""


@dataclass
class Terminal:
    """A terminal of 40 × 3 cells whose other end is `there`."""

    there: int
    here: int
    stdin: TextIO
    stdout: TextIO

    def screen(self, stdin: TextIO | None = None) -> Screen:
        """The screen under test."""
        console = Console(force_terminal=True, color_system="standard", legacy_windows=False)
        return Screen(console, stdin or self.stdin, self.stdout)

    def sent(self, end: str = "\x1b[?2026l") -> str:
        """Return the output since the last call, up to `end`, for which it waits."""
        text = ""
        while not text.endswith(end):
            text += os.read(self.there, 65_536).decode()
        return text

    def echoes(self) -> bool:
        """Return True if it shows what is typed, as terminals do."""
        return bool(termios.tcgetattr(self.here)[3] & termios.ECHO)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    there, here = pty.openpty()
    fcntl.ioctl(here, termios.TIOCSWINSZ, struct.pack("4H", 3, 40, 0, 0))
    with open(here) as stdin, open(here, "w", closefd=False) as stdout:  # noqa: PTH123  # descriptors
        yield Terminal(there, here, stdin, stdout)
    os.close(there)


def test_only_lines_that_changed_are_sent(terminal: Terminal) -> None:
    screen = terminal.screen()
    assert screen.size() == (40, 3)
    with screen.shown():
        assert not terminal.echoes()
        screen.draw([Text("one"), Text("two", style="red")], screen.size())
        first = terminal.sent()
        assert "\x1b[1;1H\x1b[2Kone\x1b[2;1H\x1b[2K\x1b[31mtwo\x1b[0m\x1b[3;1H" in first
        screen.draw([Text("one"), Text("two", style="red")], screen.size())
        screen.draw([Text("one"), Text("2")], screen.size())
        assert terminal.sent() == "\x1b[?2026h\x1b[2;1H\x1b[2K2\x1b[?2026l"
        screen.draw([Text("one"), Text("2")], (30, 2))
        assert "one" in terminal.sent()
    assert terminal.sent(LEFT) == LEFT
    assert terminal.echoes()


def test_it_is_given_back_when_the_program_fails(terminal: Terminal) -> None:
    with pytest.raises(ValueError, match="bug"), terminal.screen().shown():
        raise ValueError("bug")
    assert terminal.echoes()
    assert terminal.sent(LEFT)


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (b"q", ["quit"]),
        (b"jk", ["down", "up"]),
        (b"\x1b[B\x1b[A\x1bOB", ["down", "up", "down"]),
        (b"xyz\x1b[5~\x1b[1;5Bg", ["first"]),
        (b"\x0c\xc3\xbcQ", ["redraw", "quit"]),
        (b"rfd\x1b", ["rebuild", "failed", "details", "escape"]),
    ],
)
async def test_keys(terminal: Terminal, typed: bytes, names: list[str]) -> None:
    screen = terminal.screen()
    found: list[str] = []
    with anyio.fail_after(PATIENCE_S), screen.shown():
        os.write(terminal.there, typed)
        async for key in screen.keys():
            found.append(key)
            if len(found) == len(names):
                break
    assert found == names


async def test_a_text_is_typed_until_it_is_kept(terminal: Terminal) -> None:
    screen = terminal.screen()
    found: list[str] = []
    with anyio.fail_after(PATIENCE_S), screen.shown():
        os.write(terminal.there, b"q/qd\x1b[A\x7f\rq")
        async for key in screen.keys(lambda: "filter" in found and "enter" not in found):
            found.append(key)
            if len(found) == 7:
                break
    assert found == ["quit", "filter", "q", "d", "erase", "enter", "quit"]


def test_without_a_keyboard_there_are_no_keys(terminal: Terminal) -> None:
    with open(os.devnull) as nothing:  # noqa: PTH123  # no path of anybody's
        screen = terminal.screen(nothing)
        with screen.shown():
            assert not screen.has_keys
            assert terminal.echoes()
