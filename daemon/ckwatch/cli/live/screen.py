"""A terminal that shows lines, and the keys pressed there.

Only lines that changed are sent, so that it is quiet over a slow connection. The terminal is given back as it was,
however the program ends, and while it is suspended.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import anyio
from rich.console import Console
from rich.text import Text

_CLEAR = "\x1b[2J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_BEGIN_UPDATE, _END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
"""Between them a terminal that knows it shows nothing halfway; others pass over it."""

_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|\x1b|[^\x1b]")
_KEYS = {
    b"q": "quit", b"Q": "quit", b"\x04": "quit",
    b"j": "down", b"\x1b[B": "down", b"\x1bOB": "down", b"k": "up", b"\x1b[A": "up", b"\x1bOA": "up",
    b"g": "first", b"\x1b[H": "first", b"\x1bOH": "first", b"\x0c": "redraw",
    b"r": "rebuild", b"f": "failed", b"d": "details", b"/": "filter", b"\x1b": "escape",
}  # fmt: skip


_EDITING = {b"\x1b": "escape", b"\r": "enter", b"\n": "enter", b"\x7f": "erase", b"\x08": "erase", b"\x04": "escape"}


class Screen:
    """A terminal to write to, while the `shown` context is open, and to read keys from if `stdin` is one.

    `console` knows its colours.
    """

    def __init__(self, console: Console, stdin: TextIO, stdout: TextIO) -> None:
        self._console = console
        self._out = stdout.fileno()
        self._in = stdin.fileno() if stdin.isatty() else None
        self._before: list[Any] | None = None
        self._shown: list[str] | None = None
        self._size = (0, 0)

    @property
    def has_keys(self) -> bool:
        """True if keys can be read."""
        return self._in is not None

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._out)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The terminal is ours."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def draw(self, lines: Sequence[Text], size: tuple[int, int]) -> None:
        """Show these lines on a terminal of `size`, and nothing else. Raises OSError when the terminal has gone."""
        frame = [self._ansi(line) for line in lines[: size[1]]]
        frame += [""] * (size[1] - len(frame))
        whole = self._shown is None or size != self._size
        before = [None] * len(frame) if whole or self._shown is None else self._shown
        changed = [f"\x1b[{row + 1};1H\x1b[2K{line}" for row, line in enumerate(frame) if whole or line != before[row]]
        if changed:
            self._write(f"{_BEGIN_UPDATE}{_CLEAR if whole else ''}{''.join(changed)}{_END_UPDATE}")
        self._shown, self._size = frame, size

    def redraw(self) -> None:
        """Send everything the next time."""
        self._shown = None

    async def keys(self, typing: Callable[[], bool] = lambda: False) -> AsyncIterator[str]:
        """Names of the keys that mean something; ends when there is no terminal any more. While somebody is `typing` a
        text: characters as they are, `escape`, `enter` and `erase`."""
        if self._in is None:
            return
        while True:
            await anyio.wait_readable(self._in)
            try:
                data = os.read(self._in, 1024)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            for key in _KEY.findall(data):
                if typing():
                    if key in _EDITING:
                        yield _EDITING[key]
                    elif len(key) == 1 and 0x20 < key[0] < 0x7F:
                        yield key.decode()
                elif key in _KEYS:
                    yield _KEYS[key]

    async def signals(self, wake: Callable[[], None]) -> None:
        """Follow the terminal's size, and give it back while the program is suspended (Ctrl-Z)."""
        with anyio.open_signal_receiver(signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT) as signals:
            async for number in signals:
                if number == signal.SIGTSTP:
                    self._leave()
                    os.kill(os.getpid(), signal.SIGSTOP)  # noqa: TID251  # Ctrl-Z stops the command itself
                elif number == signal.SIGCONT and self._before is None:
                    self._enter()
                wake()

    def _enter(self) -> None:
        if self._in is not None:
            self._before = termios.tcgetattr(self._in)
            tty.setcbreak(self._in, termios.TCSADRAIN)
        self._shown = None
        self._write(_ENTER)

    def _leave(self) -> None:
        with suppress(OSError):
            self._write(_LEAVE)
        if self._in is not None and self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)
            self._before = None

    def _ansi(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True, highlight=False)
        return captured.get()

    def _write(self, text: str) -> None:
        data = memoryview(text.encode(self._console.encoding, "replace"))
        while data:
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:
                select.select([], [self._out], [])
