"""Builds and timings in progress: what commands started and what the daemon does by itself, shown and cancellable."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import anyio
from lsprotocol import types

from ckwatch.client.events import UnitInBrief
from ckwatch.model.delays import PROGRESS
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures.freshness import AT_WORK
from ckwatch_lsp.protocol.server import client_token
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics


class TaskProgress:
    """The progress of one task. Nothing waits for the editor: a task that ends before the editor shows it is not shown.

    `cancel` is called when the user wants it to end. `endless`: the amount of work is unknown.
    """

    def __init__(self, session: Session, title: str, cancel: Callable[[], None], *, endless: bool = False) -> None:
        self._session = session
        self._title = title
        self._cancel = cancel
        given = client_token.get()
        client_token.set(None)  # the first progress of a command has it
        self._token: str | int = secrets.token_hex(8) if given is None else given
        self._announced = given is not None
        self._message: str | None = None
        self._percentage = None if endless else 0
        self._shown = False
        self._ended = False
        if session.capabilities.progress or self._announced:
            session.start(self._begin)

    def report(self, message: str, done: int, total: int) -> None:
        """`done` of `total` is done; `message` is next."""
        percentage = self._percentage
        if percentage is not None:
            percentage = min(100, 100 * done // total) if total else 0
        if (message, percentage) == (self._message, self._percentage):
            return
        self._message, self._percentage = message, percentage
        if self._shown:
            value = types.WorkDoneProgressReport(message=message, percentage=percentage, cancellable=True)
            self._session.editor.report_progress(self._token, value)

    def end(self) -> None:
        """The task is done."""
        self._ended = True
        if self._shown:
            self._shown = False
            self._session.editor.report_progress(self._token, types.WorkDoneProgressEnd())

    async def _begin(self) -> None:
        if not (self._announced or await self._session.editor.create_progress(str(self._token))) or self._ended:
            return
        self._shown = True
        begin = types.WorkDoneProgressBegin(
            self._title, cancellable=True, message=self._message, percentage=self._percentage
        )
        self._session.editor.begin_progress(self._token, begin, self._cancelled)

    def _cancelled(self) -> None:
        if not self._ended:
            self._cancel()


class RunningTask:
    """A build, timing or search that a command started."""

    def __init__(
        self, session: Session, title: str, folder: WorkspaceFolder, units: Sequence[Unit], *, endless: bool
    ) -> None:
        self.folder = folder
        self.units = frozenset(unit.id for unit in units)
        self.scope = anyio.CancelScope()
        self.progress = TaskProgress(session, title, self.scope.cancel, endless=endless)
        self.report = self.progress.report

    @property
    def cancelled(self) -> bool:
        """True if the user ended it early."""
        return self.scope.cancel_called


class RunningTasks:
    """The tasks that commands started and that have not ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks: list[RunningTask] = []

    @contextmanager
    def begin(
        self, title: str, folder: WorkspaceFolder, units: Sequence[Unit], *, endless: bool = False
    ) -> Iterator[RunningTask]:
        """The task runs as long as the context is open. Cancelling it leaves the context."""
        task = RunningTask(self._session, title, folder, units, endless=endless)
        self._tasks.append(task)
        try:
            with task.scope:
                yield task
        finally:
            self._tasks.remove(task)
            task.progress.end()

    def covers(self, folder: WorkspaceFolder, unit: str) -> bool:
        """Return True if one of them is about this unit."""
        return any(task.folder is folder and unit in task.units for task in self._tasks)

    def cancel(self, folder: WorkspaceFolder, units: frozenset[str]) -> None:
        """Cancel the tasks that work on no other units."""
        for task in self._tasks:
            if task.folder is folder and task.units and task.units <= units:
                task.scope.cancel()


def title_of(what: str, units: Sequence[Unit]) -> str:
    """`Timing gemm_f16/v3`, `Building 12 units of gemm_f16`."""
    if len(units) == 1:
        return f"{what} {units[0].kernel}/{units[0].instance}"
    kernels = {unit.kernel for unit in units}
    return f"{what} {len(units)} units of {' and '.join(sorted(kernels)) if len(kernels) < 3 else 'several kernels'}"


class _BusyPeriod:
    """Units that are worked on (in the order in which they came), and those that were since the last quiet moment."""

    def __init__(self) -> None:
        self.working: dict[str, None] = {}
        self.seen: set[str] = set()
        self.progress: TaskProgress | None = None


class DaemonProgress(SessionListener):
    """Shows what the daemon works on by itself. What a command works on is part of the command's own progress."""

    def __init__(self, session: Session, tasks: RunningTasks) -> None:
        self._session = session
        self._tasks = tasks
        self._periods: dict[WorkspaceFolder, _BusyPeriod] = {}
        self._debouncer = Debouncer(session.start, self._show, PROGRESS)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Units have begun or settled."""
        if not self._session.capabilities.progress:
            return
        found = self._periods.setdefault(folder, _BusyPeriod())
        for name in topics.named("unit"):
            unit = folder.units.brief(name)
            if unit is not None and is_worked_on(unit) and not self._tasks.covers(folder, name):
                found.working[name] = None
                found.seen.add(name)
            else:
                found.working.pop(name, None)
        if folder.connection is not ConnectionState.READY:
            found.working.clear()
        if found.working or found.progress is not None:
            self._debouncer()
        else:
            found.seen.clear()

    async def _show(self) -> None:
        for folder, found in self._periods.items():
            if not found.working:
                if found.progress is not None:
                    found.progress.end()
                    found.progress = None
                found.seen.clear()
                continue
            if found.progress is None:
                title = "ckwatch" if len(self._periods) == 1 else f"ckwatch, {folder.root.name}"
                found.progress = TaskProgress(self._session, title, partial(self._session.start, self._cancel, folder))
            settled = len(found.seen) - len(found.working)
            first = folder.units[next(iter(found.working))]
            timing = "" if first.phase in AT_WORK else "timing "
            message = f"{settled + 1} of {len(found.seen)}: {timing}{first.kernel}/{first.instance}"
            found.progress.report(message, settled, len(found.seen))

    async def _cancel(self, folder: WorkspaceFolder) -> None:
        present = [unit for unit in self._periods[folder].working if unit in folder.units]
        if present:
            with suppress(CkwatchError):  # one of them has gone, or the daemon
                await folder.ready.cancel(*present)


def is_worked_on(unit: UnitInBrief | Unit) -> bool:
    """Return True if a compiler or a device is, or will soon be, at work on it."""
    return unit.phase in AT_WORK or unit.measuring is not None
