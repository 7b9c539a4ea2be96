"""The watcher by the `watchfiles` library: on systems without inotify, or by choice.

It decides what `Watcher` decides and reports the same batches. Events come from two instances of `watchfiles.awatch`,
one for folders with everything in them, one for single folders outside of those. A folder is polled until an instance
covers it (see below), so that starting another one loses nothing; the old one ends after the new one has begun.

What it cannot do, other than the watcher on inotify:

- Be idle: each instance wakes up every `STEP_MS`, and a save is reported one to two steps later than by inotify.
- Be quick to start: the constructor walks all folders, hidden and skipped ones as well, on the event loop and with the
  interpreter's lock (a quarter of a second for 10,000 folders). The folders of newly followed files have to wait until
  the last start is `RESTART_S` ago, and are polled so long.
- Say that events were lost: the library keeps an overflow of the kernel's queue to itself. `complete` is false only
  for roots that came back and for errors of the library.
- Wait for a writer that still has the file open: a file that is written slowly may be reported twice. So may what
  happens in a new folder, or while an instance takes over from another; for so long, changes in a folder that was
  moved away are reported by its old name.
- Stand a link to a folder that is deleted or led elsewhere: it drops the watch of the folder behind it, whatever other
  names that has. So all is polled then until a new instance has begun.
- Tell names that are no UTF-8: they end the instance, which counts as everything having changed, and until it is tried
  again (`RETRY_S`) all is polled.
- Notice at once that a folder above a watched one was renamed: a check finds out, within `CHECK_S`.

Limits (`fs.inotify.*`) are reported as usual. What cannot be watched is polled by `Polling`, as with `poll`, not by
the library's own polling, which compares times in whole seconds and misses the second save of one.

`watchfiles` takes a fixed set of paths: another set is another instance of it, whose constructor walks all folders. So
a folder that matters is polled first, and left to watchfiles only when an instance has covered it for a moment:
nothing that happens before is lost, however long that takes.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from watchfiles import Change, awatch

from ckwatch.engine.watch.batch import Batch
from ckwatch.engine.watch.events import APPEARED, CHANGED, FOLDER, VANISHED, WatchEvent, WatchEvents
from ckwatch.engine.watch.paths import identity, is_below
from ckwatch.engine.watch.polling import FolderPoller
from ckwatch.engine.watch.scan import RescanTask, Scanner, ScanResult, WatchedState, WatchRequest
from ckwatch.engine.watch.watcher import Watcher
from ckwatch.model.errors import plain_errors

FolderIdentities = dict[str, tuple[int, int]]
"""Real paths of folders with (st_dev, st_ino) of each from before it was watched."""


@dataclass(slots=True)
class WatchCoverage:
    """Folders that are watched with everything in them, and single ones outside of those."""

    trees: FolderIdentities = field(default_factory=dict)
    singles: FolderIdentities = field(default_factory=dict)

    def covers(self, folder: str) -> bool:
        """Whether what happens in this folder (a real path) is told. Asks the file system."""
        known = self.singles.get(folder)
        place = folder
        while known is None and (known := self.trees.get(place)) is None:
            place, below = os.path.dirname(place), place  # noqa: PTH120
            if place == below:
                return False
        return identity(place) == known

    def lose(self, gone: set[str]) -> None:
        """Forget what is at or below these places; another folder may be there by now."""
        for folders in (self.trees, self.singles):
            for folder in [folder for folder in folders if is_below(folder, gone)]:
                del folders[folder]


class CoverageScanner(Scanner):
    """Looks at the disk as for inotify, but polls each folder until it is known to be covered."""

    def __init__(self, polling: FolderPoller, stopped: Callable[[], bool]) -> None:
        super().__init__(polling, stopped)
        self.cover = WatchCoverage()
        """What is watched now."""
        self.wanted = WatchCoverage()
        """What was found to be needed by the last look."""
        self.one_by_one = False
        """Whether folders are named one by one, because what is in one of them may not be watched."""
        self.due: frozenset[str] = frozenset()
        """Polled folders that have been covered for long enough, if they are covered at all."""
        self.lost: set[str] = set()
        """Where folders were deleted or moved since the last look began."""
        self._sure: set[str] = set()

    def look(self, before: WatchedState, wanted: WatchRequest, chore: RescanTask) -> ScanResult:
        """Bring what was seen before up to date, and find out what has to be covered for it."""
        self.lost = set()
        look = super().look(before, wanted, chore)
        self.wanted = self._needed(look.seen)
        return look

    def watch(self, folder: str) -> bool:
        """Poll a folder unless it is known to be covered; false when it cannot be read or has vanished."""
        if folder in self._sure and self.cover.covers(folder):
            return True
        self._sure.discard(folder)
        try:
            self._polling.add(folder)
        except OSError:
            return False
        return True

    def lose(self, gone: set[str]) -> None:
        """Rely no more on what is at or below these places."""
        self.lost |= gone
        self.cover.lose(gone)
        self._sure = {folder for folder in self._sure if not is_below(folder, gone)}

    def promote(self, folders: Iterable[str]) -> WatchEvents:
        """Poll the covered ones of these no more, after a last look at them."""
        taken = [folder for folder in folders if self.cover.covers(folder)]
        reading = self._polling.scan(taken, self._stopped)
        self._polling.remove(taken)
        self._sure.update(taken)
        return reading

    def _promote(self) -> WatchEvents:
        return self.promote(self._polling.watched() & self.due)

    def _needed(self, seen: WatchedState) -> WatchCoverage:
        tree = seen.tree
        tops = {root.real for root in tree.roots.values() if root is not None}
        tops.update(target for target in tree.links.values() if target is not None)
        singles = set(seen.following.turns)
        if self.one_by_one:
            singles |= tree.folders
            tops.clear()
        tops = {top for top in tops if top in tree.folders and not is_below(os.path.dirname(top), tops - {top})}  # noqa: PTH120
        # One folder without permission would end the walk over all of them.
        singles = {folder for folder in singles if not is_below(folder, tops) and os.access(folder, os.R_OK)}
        return WatchCoverage(_identified(tops), _identified(singles))


def _identified(folders: set[str]) -> FolderIdentities:
    return {folder: found for folder in folders if (found := identity(folder)) is not None}


def translate_changes(changes: dict[str, int], seen: WatchedState) -> WatchEvents:
    """What happened in the folders that matter. `changes`: paths and the bits of what was said of each.

    The library tells neither the order of changes nor what is a folder, and names places behind links as it came
    across them: all of that is asked of the file system, in a worker thread.
    """
    tree, following = seen.tree, seen.following
    links = set(tree.links)
    real: dict[str, str] = {}
    happenings: list[WatchEvent] = []
    for path, what in changes.items():
        folder, name = os.path.split(path)
        if folder not in real:
            real[folder] = os.path.realpath(folder) if is_below(folder, links) else folder
        folder = real[folder]
        place = f"{folder}/{name}" if folder != "/" else f"/{name}"
        known = place in tree.folders or place in following.turns
        if known or folder in tree.folders or folder in following.turns:
            happenings += _events_of(folder, name, place, what, known=known)
    return WatchEvents(happenings)


def _events_of(folder: str, name: str, place: str, what: int, *, known: bool) -> list[WatchEvent]:
    there = os.path.lexists(place)
    is_folder = there and os.path.isdir(place) and not os.path.islink(place)  # noqa: PTH112, PTH114
    happened: list[WatchEvent] = []
    if known and (what & (APPEARED | VANISHED) or not is_folder):
        happened.append((folder, name, VANISHED | FOLDER))
    if is_folder:
        if not known or what & (APPEARED | VANISHED):
            happened.append((folder, name, FOLDER | (APPEARED if what & (APPEARED | VANISHED) else CHANGED)))
    elif there:
        happened.append((folder, name, what))
    elif not known:
        happened.append((folder, name, VANISHED))
    return happened


WAKEUP_MS = 30
"""How often an instance wakes up. Measured for two of them: at 20 ms 0.5 % of a processor, a save told in 50 ms; at
40 ms 0.2 % and 100 ms. Ending takes as long."""

GROUP_MS = 200
"""Changes without a pause are taken from the library after so long; the gathering waits for the quiet."""

WATCHFILES_CHECK_S = 2.0
"""As `watcher.CHECK_S`. More often, as there are no events of the folders above; waiting costs more than that."""

RESTART_S = 1.0
"""Instances are replaced at most so often."""

RETRY_S = 5.0
"""When the library could not watch all, it is tried again at most so often."""

NEW_FOLDER_POLL_S = 0.5
"""A new folder is polled for so long: the library may not have got to it when it is told of it."""

_BITS = {Change.added: APPEARED, Change.modified: CHANGED, Change.deleted: VANISHED}
_NUMBER = re.compile(r"\(os error (\d+)\)")


class WatchfilesWatcher(Watcher):
    """As `Meanwhile`, with what this module says that it cannot do. `poll` uses watchfiles for nothing."""

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
        self._covered = self._looker = CoverageScanner(self._polling, lambda: self._stopping)
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
            self._covered = self._looker = CoverageScanner(self._polling, lambda: self._stopping)
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
        return WATCHFILES_CHECK_S

    def _lose(self, gone: set[str], changed: set[str]) -> None:
        super()._lose(gone, changed)
        self._covered.lose(gone)

    async def _install(self, look: ScanResult) -> None:
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
            await anyio.sleep(max(NEW_FOLDER_POLL_S, self._covered_s + RESTART_S - anyio.current_time()))
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
        covered.cover = WatchCoverage(trees, singles)
        covered.cover.lose(covered.lost)
        self._covered_s = anyio.current_time()

    async def _replace(
        self, wanted: FolderIdentities, present: FolderIdentities, *, everything: bool
    ) -> FolderIdentities:
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
        await anyio.sleep((GROUP_MS + 2 * WAKEUP_MS) / 1000)
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
            step=WAKEUP_MS,
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
                    reading = await anyio.to_thread.run_sync(translate_changes, said, self._seen)
                    if any(f"{folder}/{name}" in self._seen.tree.links for folder, name, _ in reading.happenings):
                        self._covered.lose(set(self._covered.cover.trees))
                    self._take(reading)
        except (OSError, RuntimeError) as error:
            if not begun:
                raise _as_os_error(error) from error
            if self._stops.get(everything) is stop:
                self._break(everything, _as_os_error(error))

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


def _as_os_error(error: OSError | RuntimeError) -> OSError:
    """The library's errors say what they are in words only."""
    text = str(error)
    if isinstance(error, FileNotFoundError | PermissionError):
        return error
    found = _NUMBER.search(text)
    number = int(found[1]) if found else errno.ENOSPC if "watch limit" in text else errno.EIO
    return OSError(number, os.strerror(number) if found or number != errno.EIO else text)
