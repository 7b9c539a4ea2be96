"""Output of `ckwatch watch` without a terminal: a line for each result, and each message once.

The reader of a pipe may be slow, or go away.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from rich.cells import cell_len
from rich.text import Text

from ckwatch.cli.live.board import Board
from ckwatch.cli.live.view import MARKS, Key, key_of, one_line, reason
from ckwatch.model import diagnostics as model
from ckwatch.model.amounts import count, duration
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.figures_text import AT_WORK, state_of

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.state import Change, Unit


async def write(text: str) -> None:
    """Write all of it, whenever the reader takes it. Raises BrokenPipeError when there is no reader any more, and
    CkwatchError for a disk that is full."""
    if text:
        await to_thread.run_sync(_write_all, text.encode(sys.stdout.encoding, "replace"), abandon_on_cancel=True)


async def reader_gone() -> None:
    """Wait for the end of a pipe's reader, and raise BrokenPipeError then."""
    descriptor = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return
    # nothing can be read there: it is an error that wakes us
    await anyio.wait_readable(descriptor)
    raise BrokenPipeError


def _write_all(data: bytes) -> None:
    descriptor = sys.stdout.fileno()
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CkwatchError(f"standard output cannot be written: {error.strerror}") from None


GATHERED_S = 2.0
"""So long a message may wait for the end of the work, so that it names all units in which it arises."""

Result = tuple[object, ...]


class PlainOutput:
    """The lines that report what is new in `board`."""

    def __init__(self, board: Board, printed: Callable[[model.Diagnostic], Text]) -> None:
        self._board = board
        self._printed = printed
        self._results: dict[str, Result] = {}
        self._printed_keys: dict[Key, None] = {}
        self._seen: dict[Key, float] = {}
        self._started = False
        self._unsummed = False
        self._warnings: dict[str, str] = {}
        self._width = 0

    def after(self, changes: Sequence[Change], now: float) -> list[Text]:
        """Take in the changes, and what is to be printed after them."""
        lines: list[Text] = []
        for change in changes:
            known = change.topic.name in self._board.units
            self._board.note(change, now)
            if change.topic.kind == "unit":
                lines += self._unit(change.topic.name, known=known)
        lines += self._workspace()
        lines += self._messages(now)
        self._unsummed = self._unsummed or bool(lines)
        if self._quiet and (self._unsummed or not self._started):
            lines.append(Text(one_line(self._board)))
            self._started, self._unsummed = True, False
        return lines

    @property
    def waiting(self) -> bool:
        """True if there will be something to print even if nothing changes."""
        return bool(self._seen)

    @property
    def _quiet(self) -> bool:
        workspace = self._board.workspace
        return workspace is not None and workspace.loaded and not workspace.busy and not self._board.busy

    def _unit(self, name: str, *, known: bool) -> list[Text]:
        unit = self._board.units.get(name)
        if unit is None:
            self._results.pop(name, None)
            return [Text(f" removed  {name}")] if known else []
        state = state_of(unit)
        if state in AT_WORK or state == "not built":
            if not known:
                self._results[name] = ()
            return []
        result = (unit.outcome, unit.key, unit.finished_at, unit.errors)  # warnings are printed as messages
        before = self._results.get(name)
        self._results[name] = result
        # what was there before the watcher came, or in the store, is summed up in one line
        old = not known or (not self._started and unit.from_store)
        return [] if before == result or old else [self._line_of(unit, state)]

    def _workspace(self) -> list[Text]:
        workspace = self._board.workspace
        if workspace is None:
            return []
        now = dict(workspace.warnings)
        if workspace.problem:
            now["workspace"] = workspace.problem
        before, self._warnings = self._warnings, now
        return [Text(f"{topic}: {text}", style="yellow") for topic, text in now.items() if before.get(topic) != text]

    def _messages(self, now: float) -> list[Text]:
        present = {key_of(found): found for found in self._board.diagnostics()}
        self._printed_keys = {key: None for key in self._printed_keys if key in present}
        fresh = {key: found for key, found in present.items() if not found.stale and key not in self._printed_keys}
        self._seen = {key: self._seen.get(key, now) for key in fresh}
        due = [key for key, seen in self._seen.items() if self._quiet or now - seen >= GATHERED_S]
        for key in due:
            del self._seen[key]
            self._printed_keys[key] = None
        return [self._printed(fresh[key]) for key in due]

    def _line_of(self, unit: Unit, state: str) -> Text:
        self._width = max(self._width, cell_len(unit.id))
        parts = [
            "from the store" if unit.from_store else duration(unit.seconds) if unit.seconds else "",
            count(unit.errors, "error") if unit.errors else "",
            f"({why})" if (why := reason(unit)) else "",
        ]
        line = Text.assemble((f"{state:>8}", MARKS[state][1]), f"  {unit.id:<{self._width}}")
        for part in filter(None, parts):
            line.append(f"  {part}")
        return line
