"""Diagnostics of what a compiler prints, reported while it still runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.checks.compiler.sources import CompilerInputs
from ckwatch.checks.places import ReadLine
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.rendered_unit import live_diagnostics
from ckwatch.core.effects import Check, Compile, LookUp
from ckwatch.core.events import AnyEvent, CompilerOutput
from ckwatch.model.delays import COMPILER_MESSAGES, COMPILER_REPORTS
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import plain_errors
from ckwatch.render.outcome import Rendered
from ckwatch.system.user_files import read_file

PlaceLog = Callable[[str], tuple[Diagnostic, ...]]
"""Makes diagnostics of a compiler's log. Blocks; call from a worker thread."""

PostEvent = Callable[[AnyEvent], None]


class LiveDiagnostics:
    """Gathers the lines of both passes, and calls `report` with the diagnostics in them and that of a slow compile
    whenever these change."""

    def __init__(
        self,
        place: PlaceLog,
        report: Callable[[tuple[Diagnostic, ...]], None],
        *,
        coalesce_s: float = COMPILER_MESSAGES.seconds,
        interval_s: float = COMPILER_REPORTS.seconds,
    ) -> None:
        self._place = place
        self._report = report
        self._coalesce_s = coalesce_s
        self._interval_s = interval_s
        self._lines: dict[PassSide | None, list[str]] = {}
        self._early: set[PassSide | None] = set()
        self._new_error: anyio.Event | None = None
        self._tasks: TaskGroup | None = None
        self._reported: tuple[Diagnostic, ...] = ()
        self._slow: tuple[Diagnostic, ...] = ()

    def add_line(self, side: PassSide | None, line: str, *, early: bool = False) -> None:
        """A line that a pass printed. Those that are `early` go with the first that is not."""
        if side in self._early and not early:
            self._early.discard(side)
            del self._lines[side]
        if early:
            self._early.add(side)
        self._lines.setdefault(side, []).append(line)
        if "error: " in line:
            self._note_error()

    def add_slow(self, found: Diagnostic) -> None:
        """The compile runs far longer than usual; in place of what was said of that before."""
        self._slow = (found,)
        self._note_error()

    def _note_error(self) -> None:
        if self._new_error is not None:
            self._new_error.set()
        elif self._tasks is not None:  # most compiles have nothing to report, and need no task
            self._new_error = anyio.Event()
            self._new_error.set()
            self._tasks.start_soon(self._run, self._new_error)

    @asynccontextmanager
    async def reporting(self) -> AsyncIterator[Self]:
        """Report while the body runs."""
        async with plain_errors(), anyio.create_task_group() as self._tasks:
            yield self
            if self._new_error is not None:
                self._tasks.cancel_scope.cancel()

    async def _run(self, new_error: anyio.Event) -> None:
        while True:
            await new_error.wait()
            await anyio.sleep(self._coalesce_s)
            new_error = self._new_error = anyio.Event()
            sides = sorted(self._lines.items(), key=lambda one: one[0] is PassSide.DEVICE)
            log = "".join(f"{line}\n" for _, lines in sides for line in lines)
            found = (*(await to_thread.run_sync(self._place, log) if log else ()), *self._slow)
            if found and found != self._reported:
                self._reported = found
                self._report(found)
            await anyio.sleep(self._interval_s)


def reporting_to(effect: Check | Compile, place: PlaceLog, post: PostEvent) -> LiveDiagnostics:
    """Return what posts what the effect's compiler prints, as diagnostics."""
    return LiveDiagnostics(place, lambda found: post(CompilerOutput(effect.work, found)))


def placing(
    effect: LookUp | Check | Compile, text: Rendered, header_warnings: bool, inputs: Callable[[], CompilerInputs]
) -> PlaceLog:
    """Return a function that makes diagnostics of a log of the effect's compiler."""
    read_line = line_reader(effect.overlays)

    def place(log: str) -> tuple[Diagnostic, ...]:
        return live_diagnostics(effect.unit, text, log, read_line, header_warnings=header_warnings, inputs=inputs())

    return place


def line_reader(overlays: Mapping[str, str]) -> ReadLine:
    """Reads lines to place the messages of one result; each file once."""
    files: dict[str, list[str]] = {}

    def read_line(path: str, line: int) -> str | None:
        lines = files.get(path)
        if lines is None:
            text = overlays.get(path)
            if text is None:
                with suppress(OSError):
                    text = read_file(path).decode("utf-8-sig", "replace")
            lines = [] if text is None else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            files[path] = lines
        return lines[line] if 0 <= line < len(lines) else None

    return read_line
