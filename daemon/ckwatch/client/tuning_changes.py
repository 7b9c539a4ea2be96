"""When something of the tuning runs of a workspace changes, in whatever process."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.client.events import ClosingIterator
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.system.processes import ProcessHandle

if TYPE_CHECKING:  # numpy comes with it
    from ckwatch.tuning.journal import RunActivity, TuningJournal


class TuningChanges(ClosingIterator):
    """An iterator that gives None at once, and then whenever a tuning run has changed, begun or ended.

    What changes while its user is busy is one change. A loop that may be left early should close it, best as a context:
    `async with client.tuning_changes() as changes`. It may be waited for with a time limit; nothing is lost.
    """

    def __init__(self, tasks: TaskGroup, root: Path) -> None:
        self._tasks = tasks
        self._root = root
        self._scope: anyio.CancelScope | None = None
        self._closed = False
        self._changed: anyio.Event | None = None
        self._error: CkwatchError | None = None

    def close(self) -> None:
        """End it, also for a task that waits for the next change."""
        self._closed = True
        self._notify()
        if self._scope is not None:
            self._scope.cancel()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def __anext__(self) -> None:
        """Return at the next change. Raises CkwatchError when the journal cannot be read or watched."""
        if not self._closed:
            if self._changed is None:
                self._changed, self._scope = anyio.Event(), anyio.CancelScope()
                self._tasks.start_soon(self._follow, self._scope)
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        if self._closed:
            raise StopAsyncIteration
        self._changed = anyio.Event()

    async def _follow(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._watch()
        except CkwatchError as error:
            self._error = error
        except OSError as error:
            self._error = CkwatchError(f"tuning runs cannot be watched: {error.strerror or error}")
        finally:
            self.close()

    async def _watch(self) -> None:
        for module in ("tuning.journal", "engine.watch.notify"):
            await to_thread.run_sync(import_module, f"ckwatch.{module}")  # too slow for an event loop
        from ckwatch.engine.watch.notify import watchfiles_process
        from ckwatch.tuning.journal import TuningJournal

        path = await to_thread.run_sync(self._prepared)
        journal = TuningJournal(path)
        try:
            watching = watchfiles_process([str(path.parent)], False)
            async with plain_errors(), watching as hints, anyio.create_task_group() as tasks:
                seen = SeenRuns(journal, tasks, self._notify)
                await seen.look()
                self._notify()
                async for paths in hints:
                    if any(Path(hint).name.startswith(path.stem) for hint in paths):
                        await seen.look()
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(journal.close)

    def _prepared(self) -> Path:
        """The journal's path, in a folder that is there."""
        from ckwatch.tuning.journal import journal_path

        path = journal_path(self._root)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.parent.resolve() / path.name


class SeenRuns:
    """The known state of the runs; `tasks` wait for the processes that run some.

    The journal stays open in between: whoever opens it, and closes it as the last one, changes files beside it.
    """

    def __init__(self, journal: TuningJournal, tasks: TaskGroup, notify: Callable[[], None]) -> None:
        self._journal = journal
        self._tasks = tasks
        self._notify = notify
        self._turn = anyio.Lock()
        self._known: dict[int, RunActivity] = {}
        self._processes = {os.getpid()}

    async def look(self) -> None:
        """Tell of what has changed."""
        async with self._turn:
            found = await to_thread.run_sync(self._journal.activity)
            if found != self._known:
                self._known = found
                self._notify()
            for process in {one.pid for one in found.values() if one.running} - self._processes:
                self._processes.add(process)
                self._tasks.start_soon(self._wait_for_end, process)

    async def _wait_for_end(self, process: int) -> None:
        """A process that is killed changes no file, and its runs go on no more."""
        with suppress(OSError):  # it has ended meanwhile, or cannot be seen from here: then it is not waited for again
            with ProcessHandle(process) as handle:
                await anyio.wait_readable(handle)
            self._processes.discard(process)
        await self.look()
