"""A program in a terminal that nobody sees: tmux in control mode, read as screen text.

tmux says when the program has written something, so a screen is waited for without asking again and again.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.editors.patience import PATIENCE_S, ask_until

COLUMNS, ROWS = 160, 48


class ScreenTimeoutError(AssertionError):
    """An expected text did not appear; the message ends with the screen as it is."""


class Terminal:
    """`command` in a tmux session of its own, as long as the context is open."""

    def __init__(
        self,
        tmux: str,
        command: Sequence[str],
        *,
        directory: Path,
        env: Mapping[str, str],
        columns: int = COLUMNS,
        rows: int = ROWS,
    ) -> None:
        self._tmux, self._columns, self._rows = tmux, columns, rows
        self._folder = tempfile.TemporaryDirectory(prefix="ckwatch-tmux-")
        socket = str(Path(self._folder.name, "socket"))
        self._server = [tmux, "-S", socket, "-f", os.devnull]
        self._start = ["new-session", "-x", str(columns), "-y", str(rows), "-c", str(directory), "--", *command]
        self._env = {**env, "TERM": "screen-256color", "LC_ALL": "C.UTF-8"}
        self._env.pop("TMUX", None)
        self._unread = b""

    def __enter__(self) -> Self:
        self._client = subprocess.Popen(
            [*self._server, "-C", *self._start],
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._line(time.monotonic() + PATIENCE_S, "tmux")
            self._answer("set-option -g destroy-unattached on")  # whatever happens to us
            self._answer(f"refresh-client -C {self._columns}x{self._rows}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        programs = self._ask("list-panes", "-a", "-F", "#{pane_pid}")
        self._ask("kill-server")
        for program in programs.split():  # Emacs may go on without its terminal
            with suppress(ProcessLookupError):
                os.killpg(int(program), signal.SIGKILL)
        assert self._client.stdin is not None  # noqa: S101 - opened with pipes
        assert self._client.stdout is not None  # noqa: S101
        with suppress(BrokenPipeError):
            self._client.stdin.close()
        self._client.wait(PATIENCE_S)
        self._client.stdout.close()
        self._folder.cleanup()

    def _ask(self, *command: str) -> str:
        """Output of tmux; nothing if it has gone."""
        asked = [*self._server, *command]
        return subprocess.run(
            asked, env=self._env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        ).stdout

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names: `Escape`, `C-x`, `Enter`."""
        self._answer("send-keys -- " + " ".join(f"'{name}'" for name in names))

    def type(self, text: str) -> None:
        """Type text as it stands, without the Enter key."""
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        self._answer(f'send-keys -l -- "{quoted}"')

    def screen(self) -> str:
        """The text on the screen, spaces at the ends of lines removed."""
        return "\n".join(line.rstrip() for line in self._answer("capture-pane -p")).rstrip()

    def styled(self) -> str:
        """The same with colours and attributes as escape sequences, all cells of a line."""
        return "\n".join(self._answer("capture-pane -e -N -p"))

    def wait_for(self, pattern: str, *, timeout_s: float = PATIENCE_S, absent: bool = False) -> str:
        """The first screen in which the regular expression is found (with `absent`: is not found any more).

        Raises `ScreenTimeoutError` with the last screen.
        """
        still = "is still there" if absent else "did not come"
        return self.wait_until(
            lambda screen: bool(re.search(pattern, screen, re.MULTILINE)) is not absent,
            f"{pattern!r} {still}",
            timeout_s=timeout_s,
        )

    def wait_until(self, holds: Callable[[str], bool], missing: str, *, timeout_s: float = PATIENCE_S) -> str:
        """The first screen of which `holds` is true: a program draws its screen bit by bit.

        Raises `ScreenTimeoutError` with the last screen below `missing`.
        """
        end = time.monotonic() + timeout_s
        while not holds(screen := self.screen()):
            try:
                while not self._line(end, missing).startswith((b"%output", b"%extended-output")):
                    continue
            except ScreenTimeoutError:
                raise ScreenTimeoutError(f"{missing}:\n{screen}") from None
        return screen

    def ask_until(self, ask: Callable[[], object], pattern: str) -> str:
        """The first screen in which the regular expression is found; `ask` is called until then."""
        return ask_until(ask, lambda pause_s: self.wait_for(pattern, timeout_s=pause_s))

    def _answer(self, command: str) -> list[str]:
        """Output of a command of tmux. Output of the program that comes meanwhile is not lost: the screen has it."""
        assert self._client.stdin is not None  # noqa: S101 - opened with pipes
        self._client.stdin.write(command.encode() + b"\n")
        self._client.stdin.flush()
        end = time.monotonic() + PATIENCE_S
        while True:
            # Blocks with flag 1 answer what this client has sent; others come from tmux itself.
            while not re.fullmatch(rb"%begin \d+ \d+ 1", self._line(end, command)):
                continue
            lines: list[str] = []
            while not re.fullmatch(rb"%(end|error) \d+ \d+ 1", line := self._line(end, command)):
                lines.append(line.decode(errors="replace"))
            if line.startswith(b"%error"):
                raise AssertionError(f"tmux: {command}: {' '.join(lines)}")
            return lines

    def _line(self, end: float, what: str) -> bytes:
        assert self._client.stdout is not None  # noqa: S101 - opened with pipes
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._client.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise ScreenTimeoutError(f"{what}: nothing more came from tmux")
            more = os.read(self._client.stdout.fileno(), 1 << 16)
            if not more:
                raise ScreenTimeoutError(f"{what}: the terminal has ended")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.removesuffix(b"\r")
