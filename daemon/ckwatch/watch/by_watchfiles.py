"""The watcher on top of the `watchfiles` library: for systems without inotify, or by choice.

It decides what `Watcher` decides and tells the same batches. Events come from two instances of `watchfiles.awatch`, one
for folders with everything in them, one for single folders outside of those. A folder is polled until an instance
covers it (see `covering`), so that starting another one loses nothing; the old one ends after the new one has begun.

What it cannot do, other than the watcher on inotify:

- Be idle: each instance wakes up every `STEP_MS`, and a save is told one to two steps later than by inotify.
- Be quick to start: the constructor walks all folders, hidden and skipped ones as well, on the event loop and with the
  interpreter's lock (a quarter of a second for 10,000 folders). The folders of newly followed files have to wait until
  the last start is `RESTART_S` ago, and are polled so long.
- Say that events were lost: the library keeps an overflow of the kernel's queue to itself. `complete` is false only
  for roots that came back and for errors of the library.
- Wait for a writer that still has the file open: a file that is written slowly may be told twice. So may what happens
  in a new folder, or while an instance takes over from another; for so long, changes in a folder that was moved away
  are told by its old name.
- Stand a link to a folder that is deleted or led elsewhere: it drops the watch of the folder behind it, whatever other
  names that has. So all is polled then until a new instance has begun.
- Tell names that are no UTF-8: they end the instance, which counts as everything having changed, and until it is
  tried again (`RETRY_S`) all is polled.
- Notice at once that a folder above a watched one was renamed: a check finds out, within `CHECK_S`.

Limits (`fs.inotify.*`) are reported as usual. What cannot be watched is polled by `Polling`, as with `poll`, not by the
library's own polling, which compares times in whole seconds and misses the second save of one.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from watchfiles import Change, awatch

from ckwatch.errors import plain_errors
from ckwatch.watch.batch import Batch
from ckwatch.watch.covering import Cover, CoveredLooker, Folders, translate
from ckwatch.watch.happening import APPEARED, CHANGED, VANISHED
from ckwatch.watch.looking import Look
from ckwatch.watch.watcher import Watcher

STEP_MS = 30
"""How often an instance wakes up. Measured for two of them: at 20 ms 0.5 % of a processor, a save told in 50 ms; at
40 ms 0.2 % and 100 ms. Ending takes as long."""

GROUP_MS = 200
"""Changes without a pause are taken from the library after so long; the gathering waits for the quiet."""

CHECK_S = 2.0
"""As `watcher.CHECK_S`. More often, as there are no events of the folders above; waiting costs more than that."""

RESTART_S = 1.0
"""Instances are replaced at most so often."""

RETRY_S = 5.0
"""When the library could not watch all, it is tried again at most so often."""

SEASON_S = 0.5
"""A new folder is polled for so long: the library may not have got to it when it is told of it."""

_BITS = {Change.added: APPEARED, Change.modified: CHANGED, Change.deleted: VANISHED}
_NUMBER = re.compile(r"\(os error (\d+)\)")


class WatchfilesWatcher(Watcher):
    """As `Watcher`, with what this module says that it cannot do. `poll` uses watchfiles for nothing."""

    def __init__(
        self,
        deliver: Callable[[Batch], Awaitable[None]],
        on_problem: Callable[[str | None, str | None], None],
        *,
        step_ms: int = 20,
        poll: bool = False,
    ) -> None:
        super().__init__(deliver, on_problem, step_ms=step_ms, poll=poll)
        # It logs each change, and a log file in a watched folder would be a change again.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        self._covered = self._looker = CoveredLooker(self._polling, lambda: self._stopping)
        self._tasks: TaskGroup | None = None
        self._stops: dict[bool, anyio.Event] = {}
        """How to end each instance, by whether it is the one for folders with everything in them."""
        self._retiring: set[anyio.Event] = set()
        self._covered_s = -math.inf
        self._uncovered = anyio.Event()

    async def run(self) -> None:
        """Watch until cancelled. Raises what `deliver` raises. Run again, it tells that everything may have changed."""
        try:
            await super().run()
        finally:
            self._tasks = None
            self._stops.clear()
            self._retiring.clear()
            self._covered = self._looker = CoveredLooker(self._polling, lambda: self._stopping)
            self._covered_s = -math.inf

    def _open(self, tasks: TaskGroup) -> None:
        if self._tasks is None and not self._poll_only:
            self._tasks = tasks
            tasks.start_soon(self._promote)
        self._covered.due = self._polling.watched()  # the check asks to try again

    async def _stop_threads(self) -> None:
        try:
            await super()._stop_threads()
        finally:
            for stop in (*self._stops.values(), *self._retiring):
                stop.set()

    def _check_s(self) -> float:
        return CHECK_S

    def _lose(self, gone: set[str], changed: set[str]) -> None:
        super()._lose(gone, changed)
        self._covered.lose(gone)

    async def _install(self, look: Look) -> None:
        await super()._install(look)
        if self._poll_only:
            return
        pause_s = RESTART_S if self._covered.shortage is None else RETRY_S
        if self._covered.wanted != self._covered.cover and anyio.current_time() >= self._covered_s + pause_s:
            await self._cover()
            self._take(await anyio.to_thread.run_sync(self._covered.promote, self._polling.watched()))
            self._report()
        if self._polling.watched():
            self._uncovered.set()

    async def _promote(self) -> None:
        """Have folders polled no more that are covered, and uncovered ones covered."""
        while True:
            await self._uncovered.wait()
            self._uncovered = anyio.Event()
            due = self._polling.watched()
            await anyio.sleep(max(SEASON_S, self._covered_s + RESTART_S - anyio.current_time()))
            if self._covered.shortage is None:  # else the check tries again, less often
                self._covered.due = due
                self._chore.promote = True
                self._to_do.set()

    async def _cover(self) -> None:
        """Start the instances that are needed now, and end the others."""
        covered, wanted = self._covered, self._covered.wanted
        covered.shortage = None
        trees = await self._replace(wanted.trees, covered.cover.trees, everything=True)
        singles = await self._replace(wanted.singles, covered.cover.singles, everything=False)
        covered.cover = Cover(trees, singles)
        covered.cover.lose(covered.lost)
        self._covered_s = anyio.current_time()

    async def _replace(self, wanted: Folders, present: Folders, *, everything: bool) -> Folders:
        if wanted == present or self._tasks is None:
            return present
        before = self._stops.pop(everything, None)
        try:
            if wanted:
                stop = self._stops[everything] = anyio.Event()
                await self._tasks.start(self._follow_changes, list(wanted), everything, stop)
        except PermissionError:
            self._covered.one_by_one = True
            self._chore.everything = True
            return {}
        except FileNotFoundError:
            return {}  # gone since the look: polling tells
        except OSError as error:
            self._covered.shortage = error
            return {}
        finally:
            if before is not None:
                self._retiring.add(before)
                self._tasks.start_soon(self._retire, before)
        return dict(wanted)

    async def _retire(self, stop: anyio.Event) -> None:
        """End an instance once it has told what it knew when its successor began: it would keep that to itself."""
        await anyio.sleep((GROUP_MS + 2 * STEP_MS) / 1000)
        stop.set()
        self._retiring.discard(stop)

    async def _follow_changes(
        self, folders: list[str], everything: bool, stop: anyio.Event, *, task_status: TaskStatus[None]
    ) -> None:
        """One instance, until it is stopped. Raises OSError when it cannot begin; what goes wrong later is handled."""
        begun = False

        async def begin() -> None:
            nonlocal begun
            await anyio.lowlevel.checkpoint()
            begun = True
            task_status.started()

        changes = awatch(
            *folders,
            watch_filter=None,
            debounce=GROUP_MS,
            step=STEP_MS,
            stop_event=stop,
            force_polling=False,
            recursive=everything,
            ignore_permission_denied=False,
        )
        try:
            async with plain_errors(), anyio.create_task_group() as tasks, aclosing(changes), plain_errors():
                tasks.start_soon(begin)  # gets its turn when this task waits for the first time, the instance made
                async for group in changes:
                    said: dict[str, int] = {}
                    for change, path in group:
                        said[path] = said.get(path, 0) | _BITS[change]
                    reading = await anyio.to_thread.run_sync(translate, said, self._seen)
                    if any(f"{folder}/{name}" in self._seen.tree.links for folder, name, _ in reading.happenings):
                        self._covered.lose(set(self._covered.cover.trees))
                    self._take(reading)
        except (OSError, RuntimeError) as error:
            if not begun:
                raise _plain(error) from error
            if self._stops.get(everything) is stop:
                self._break(everything, _plain(error))

    def _break(self, everything: bool, error: OSError) -> None:
        """An instance has ended by itself: poll what it covered, and look at everything again."""
        self._stops.pop(everything, None)
        if everything:
            self._covered.cover.trees.clear()
        else:
            self._covered.cover.singles.clear()
        self._covered.shortage = error
        self._covered_s = anyio.current_time()
        self._chore.everything = True
        self._chore.again.update(self._seen.following.resolutions)
        self._gather(self._seen.wanted.folders, lost=True)
        self._to_do.set()


def _plain(error: OSError | RuntimeError) -> OSError:
    """The library's errors say what they are in words only."""
    text = str(error)
    if isinstance(error, FileNotFoundError | PermissionError):
        return error
    found = _NUMBER.search(text)
    number = int(found[1]) if found else errno.ENOSPC if "watch limit" in text else errno.EIO
    return OSError(number, os.strerror(number) if found or number != errno.EIO else text)
