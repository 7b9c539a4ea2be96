"""Builds and timings in progress: what commands started and what the daemon does by itself, shown and cancellable."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch.model.errors import CkwatchError
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures.freshness import AT_WORK
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer

_log = logging.getLogger(__name__)


class TaskProgress:
    """One piece of work. Nothing waits for the editor: what it has not begun to show when the work ends is not shown.

    `cancel` is called when the user wants it to end.
    """

    def __init__(self, server: CkwatchServer, title: str, cancel: Callable[[], None]) -> None:
        self._server = server
        self._title = title
        self._cancel = cancel
        self._token = secrets.token_hex(8)
        self._message: str | None = None
        self._percentage = 0
        self._shown = False
        self._ended = False
        if server.session.abilities.progress:
            server.session.start(self._begin)

    def report(self, message: str, done: int, total: int) -> None:
        """`done` of `total` is done, and it goes on with `message`."""
        percentage = min(100, 100 * done // total) if total else 0
        if (message, percentage) == (self._message, self._percentage):
            return
        self._message, self._percentage = message, percentage
        if self._shown:
            self._send(types.WorkDoneProgressReport(message=message, percentage=percentage, cancellable=True))

    def end(self) -> None:
        """It is over."""
        self._ended = True
        if self._shown:
            self._shown = False
            self._send(types.WorkDoneProgressEnd())
            self._server.protocol.progress.tokens.pop(self._token, None)

    async def _begin(self) -> None:
        try:
            await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(self._token))
        except JsonRpcException as error:
            _log.info("the editor shows no progress: %s", error)
            return
        if self._ended:
            return
        future: Future[None] = Future()
        future.add_done_callback(self._cancelled)
        self._server.protocol.progress.tokens[self._token] = future
        self._shown = True
        begin = types.WorkDoneProgressBegin(
            self._title, cancellable=True, message=self._message, percentage=self._percentage
        )
        self._send(begin)

    def _cancelled(self, future: Future[None]) -> None:
        if future.cancelled() and not self._ended:
            self._cancel()

    def _send(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        self._server.progress(types.ProgressParams(self._token, value))


class RunningTask:
    """One of them. `cancelled`: somebody wanted it to end."""

    def __init__(self, folder: WorkspaceFolder, units: Sequence[Unit], report: Callable[[str, int, int], None]) -> None:
        self.folder = folder
        self.units = frozenset(unit.id for unit in units)
        self.report = report
        self.scope = anyio.CancelScope()

    @property
    def cancelled(self) -> bool:
        """Whether it was ended early."""
        return self.scope.cancel_called


class RunningTasks:
    """All that go on."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._works: list[RunningTask] = []

    @contextmanager
    def begin(self, title: str, folder: WorkspaceFolder, units: Sequence[Unit]) -> Iterator[RunningTask]:
        """The work goes on as long as the context is open, or until somebody cancels it: then the context is left."""
        scope_of: list[anyio.CancelScope] = []
        progress = TaskProgress(self._server, title, lambda: scope_of[0].cancel())
        work = RunningTask(folder, units, progress.report)
        scope_of.append(work.scope)
        self._works.append(work)
        try:
            with work.scope:
                yield work
        finally:
            self._works.remove(work)
            progress.end()

    def covers(self, folder: WorkspaceFolder, unit: str) -> bool:
        """Whether one of them is about this unit."""
        return any(work.folder is folder and unit in work.units for work in self._works)

    def cancel(self, folder: WorkspaceFolder, units: frozenset[str]) -> None:
        """End those that are about none but these units."""
        for work in self._works:
            if work.folder is folder and work.units <= units:
                work.scope.cancel()


def title_of(what: str, units: Sequence[Unit]) -> str:
    """`Timing gemm_f16/v3`, `Building 12 units of gemm_f16`."""
    if len(units) == 1:
        return f"{what} {units[0].kernel}/{units[0].instance}"
    kernels = {unit.kernel for unit in units}
    return f"{what} {len(units)} units of {' and '.join(sorted(kernels)) if len(kernels) < 3 else 'several kernels'}"


AFTER_S = 0.2
"""Work that takes less is not shown."""


class _BusyPeriod:
    """Units that are worked on (in the order in which they came), and those that were since the last quiet moment."""

    def __init__(self) -> None:
        self.working: dict[str, None] = {}
        self.seen: set[str] = set()
        self.progress: TaskProgress | None = None


class DaemonProgress(SessionListener):
    """Units that a command works on are left to the command's own progress."""

    def __init__(self, server: CkwatchServer, works: RunningTasks) -> None:
        self._server = server
        self._session = server.session
        self._works = works
        self._rounds: dict[WorkspaceFolder, _BusyPeriod] = {}
        self._soon = Debouncer(self._session, self._show, AFTER_S)

    def told(self, folder: WorkspaceFolder, topics: frozenset[str]) -> None:
        """Units have begun or settled."""
        if not self._session.abilities.progress:
            return
        found = self._rounds.setdefault(folder, _BusyPeriod())
        for topic in topics:
            kind, _, name = topic.partition("/")
            if kind != "unit":
                continue
            unit = folder.units.get(name)
            if unit is not None and is_worked_on(unit) and not self._works.covers(folder, name):
                found.working[name] = None
                found.seen.add(name)
            else:
                found.working.pop(name, None)
        if folder.standing is not ConnectionState.READY:
            found.working.clear()
        if found.working or found.progress is not None:
            self._soon()
        else:
            found.seen.clear()

    async def _show(self) -> None:
        for folder, found in self._rounds.items():
            if not found.working:
                if found.progress is not None:
                    found.progress.end()
                    found.progress = None
                found.seen.clear()
                continue
            if found.progress is None:
                title = "ckwatch" if len(self._rounds) == 1 else f"ckwatch, {folder.root.name}"
                found.progress = TaskProgress(self._server, title, partial(self._cancel, folder))
            settled = len(found.seen) - len(found.working)
            first = folder.units[next(iter(found.working))]
            timing = "" if first.phase in AT_WORK else "timing "
            message = f"{settled + 1} of {len(found.seen)}: {timing}{first.kernel}/{first.instance}"
            found.progress.report(message, settled, len(found.seen))

    def _cancel(self, folder: WorkspaceFolder) -> None:
        found = self._rounds.get(folder)
        if found is not None and found.working:
            self._session.start(self._cancel_units, folder, tuple(found.working))

    async def _cancel_units(self, folder: WorkspaceFolder, units: tuple[str, ...]) -> None:
        present = [unit for unit in units if unit in folder.units]
        if present:
            try:
                await folder.ready.cancel(*present)
            except CkwatchError:
                return  # one of them has gone, or the daemon


def is_worked_on(unit: Unit) -> bool:
    """Whether a compiler or a device is, or will soon be, at work on it."""
    return unit.phase in AT_WORK or unit.measuring is not None
