"""The watcher: events of folders and files in, batches of changed paths out.

Four tasks share the state, all on the event loop:

    _read   the kernel's events ─┐                        ┌─► _deliver   batches, when it is quiet
    _poll   folders without them ├─► _take ──► gathering ─┘
    _check  silent replacements ─┘      └────► task ────────► _tend      scans the disk in a thread, watches more

A batch waits for the scan that its events made necessary: whoever gets a new folder and looks into it finds it watched
already, so that nothing falls between the scan and the watch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, Iterable

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from ckwatch.engine.watch.batch import Batch, PendingChanges, is_temporary
from ckwatch.engine.watch.events import APPEARED, CLOSED, FOLDER, GONE, VANISHED, WRITING, WatchEvents
from ckwatch.engine.watch.inotify import Inotify, describe_shortage
from ckwatch.engine.watch.paths import is_below
from ckwatch.engine.watch.polling import FolderPoller
from ckwatch.engine.watch.scan import RescanTask, Scanner, ScanResult, WatchedState, WatchRequest
from ckwatch.model.errors import plain_errors
from ckwatch.workspace.kernel_globs import is_skipped

POLL_S = 0.5
"""How often folders are polled that cannot be watched; less often when a look at them takes long."""

POLL_SHARE = 20
"""Polling pauses for at least so many times as long as it took."""

CHECK_S = 10.0
"""How often it is checked that names still lead to the folders that are watched, in case that nothing told so (a file
system mounted over one), and that folders are tried to be watched that are polled. Each wakeup costs: 0.02 % of a
processor at this rate."""

HOLD_S = 2.0
"""A batch waits at most this long for a look at the disk."""

REMOVE_AT_ONCE = 500


class Watcher:
    """Follows folders with everything in them, and single files; hands over what changed in batches.

    `deliver` is awaited for one batch at a time; what happens meanwhile is merged into the next. `on_problem` gets a
    message and a hint when folders have to be polled because the kernel has no watch left, and (None, None) when that
    is over. `step_ms` is the quiet after which a small change is told. `poll` uses no kernel events at all.
    """

    def __init__(
        self,
        deliver: Callable[[Batch], Awaitable[None]],
        on_problem: Callable[[str | None, str | None], None],
        *,
        step_ms: int = 20,
        poll: bool = False,
        make_inotify: Callable[[], Inotify] = Inotify,
    ) -> None:
        self._deliver_batch = deliver
        self._on_problem = on_problem
        self._step_s = step_ms / 1000
        self._poll_only = poll
        self._make_inotify = make_inotify
        self._gathering = PendingChanges(self._step_s)
        self._chore = RescanTask()
        self._wanted = WatchRequest()
        self._seen = WatchedState()
        self._asked = 0
        self._done = 0
        self._ran = False
        self._stopping = False
        self._tending = False
        self._problem: str | None = None
        self._polling = FolderPoller()
        self._looker = Scanner(self._polling, lambda: self._stopping)
        self._polled = anyio.Event()
        self._gathered = anyio.Event()
        self._to_do = anyio.Event()
        self._tended = anyio.Event()

    def follow(self, folders: Iterable[str], files: Iterable[str]) -> None:
        """Replace what is watched. Absolute paths without `..`; they need not exist.

        `folders` are watched with everything in them, except folders that `ckwatch.config` does not enter either.
        `files` are followed wherever they are. What is watched already stays so without a gap. What changed before
        `settled` returns is for the caller to find: first follow, then settle, then compare with what was read.
        """
        wanted = WatchRequest(frozenset(folders), frozenset(files))
        if wanted != self._wanted:
            self._wanted = wanted
            self._asked += 1
            self._to_do.set()

    async def settled(self) -> None:
        """Return when all that was passed to `follow` so far is watched: what changes from now on is told."""
        asked = self._asked
        while self._done < asked:
            await self._tended.wait()

    async def run(self) -> None:
        """Watch until cancelled. Raises what `deliver` raises. Run again, it tells that everything may have changed."""
        self._stopping = False
        if self._ran:
            self._gather(self._wanted.folders, lost=True)
            self._to_do.set()
        self._ran = True
        try:
            async with plain_errors(), anyio.create_task_group() as tasks:
                self._open(tasks)
                for task in (self._stop_threads, self._tend, self._deliver, self._poll):
                    tasks.start_soon(task)
                await self._check(tasks)
        finally:
            if self._looker.inotify is not None:
                self._looker.inotify.close()
                self._looker.inotify = None
            self._polling.remove(self._polling.watched())
            self._seen = WatchedState()
            self._done = -1

    # Where events come from

    def _open(self, tasks: TaskGroup) -> None:
        if self._poll_only or self._looker.inotify is not None:
            return
        try:
            self._looker.inotify = self._make_inotify()
        except OSError as error:
            self._looker.shortage = error
        else:
            tasks.start_soon(self._read, self._looker.inotify)

    async def _read(self, inotify: Inotify) -> None:
        while True:
            await inotify.wait()
            while self._take(inotify.read()):
                await anyio.lowlevel.checkpoint()
            # One wakeup for what comes together, and few of them however much happens that is nobody's business.
            await anyio.sleep(self._step_s / 2)

    async def _poll(self) -> None:
        pause_s = POLL_S
        while True:
            await self._polled.wait()
            self._polled = anyio.Event()
            while self._polling.watched():
                await anyio.sleep(pause_s)
                began_s = anyio.current_time()
                self._take(await anyio.to_thread.run_sync(self._polling.scan, None, lambda: self._stopping))
                pause_s = max(POLL_S, POLL_SHARE * (anyio.current_time() - began_s))

    def _check_s(self) -> float:
        return CHECK_S

    async def _check(self, tasks: TaskGroup) -> None:
        while True:
            await anyio.sleep(self._check_s())
            roots, folders = await anyio.to_thread.run_sync(self._looker.stale, self._seen)
            if roots:
                self._chore.everything = True
                self._to_do.set()
            if folders:
                self._take(WatchEvents([(folder, "", GONE) for folder in folders]))
            if not self._poll_only and self._polling.watched():
                self._open(tasks)
                self._chore.promote = True
                self._to_do.set()

    async def _stop_threads(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._stopping = True

    # What they mean

    def _take(self, reading: WatchEvents) -> bool:
        """Sort a reading into what is told and what has to be looked at; false when there was nothing in it."""
        if not reading.happenings and not reading.lost:
            return False
        tree, following = self._seen.tree, self._seen.following
        chore, writing = self._chore, self._gathering.writing
        changed: set[str] = set()
        gone: set[str] = set()
        for folder, name, what in reading.happenings:
            if what & GONE:
                gone.add(folder)
                continue
            place = f"{folder}/{name}" if folder != "/" else f"/{name}"
            followed = following.turns.get(folder, {}).get(name, ())
            for path in followed:
                self._take_turn(path, (folder, name), what, changed)
            aliases = tree.aliases(folder)
            if aliases:
                if what & FOLDER:
                    if not is_skipped(name):
                        changed.update([f"{alias}/{name}" for alias in aliases])
                        if what & APPEARED or place not in tree.folders:
                            chore.newcomers.add(place)
                else:
                    if not is_temporary(name):
                        changed.update([f"{alias}/{name}" for alias in aliases])
                    if what & APPEARED:
                        chore.newcomers.add(place)  # a link to a folder?
                    elif what & (WRITING | CLOSED):
                        chore.newcomers.discard(place)  # no link is written to
                if place in tree.links:
                    chore.everything = True
            if what & FOLDER and what & VANISHED:
                gone.add(place)
            if what & WRITING:
                if followed or (aliases and not is_temporary(name)):
                    writing.add(place)
            elif what & (CLOSED | VANISHED):
                writing.discard(place)
        if gone:
            self._lose(gone, changed)
        if reading.lost:
            chore.everything = True
            chore.again.update(following.resolutions)
        self._gather(changed, lost=reading.lost)
        if chore:
            self._to_do.set()
        return True

    def _take_turn(self, path: str, turn: tuple[str, str], what: int, changed: set[str]) -> None:
        seen = self._seen
        resolution = seen.following.resolutions[path]
        if path in seen.tree.roots or path in seen.tree.links:
            self._chore.everything = True
            self._chore.again.add(path)
        if what & (APPEARED | VANISHED) or not resolution.exists or turn != resolution.turns[-1]:
            self._chore.again.add(path)
        if resolution.exists and path in seen.wanted.files:
            changed.add(path)

    def _lose(self, gone: set[str], changed: set[str]) -> None:
        """Folders were deleted or moved, or are no longer the ones that are watched."""
        seen, chore = self._seen, self._chore
        chore.gone |= gone
        chore.newcomers |= gone  # another may be there already
        followed = seen.following.below(gone)
        chore.again |= followed
        changed |= followed & seen.wanted.files
        if any(root is not None and is_below(root.real, gone) for root in seen.tree.roots.values()):
            chore.everything = True
        for place, target in seen.tree.links.items():
            if target is not None and is_below(target, gone):
                chore.everything = True
                chore.again.add(place)
                parent, name = os.path.split(place)
                changed.update([f"{alias}/{name}" for alias in seen.tree.aliases(parent)])

    def _gather(self, changed: set[str] | frozenset[str], *, lost: bool = False) -> None:
        self._gathering.add(changed, anyio.current_time(), lost=lost)
        if self._gathering:
            self._gathered.set()

    # What is done about them

    async def _tend(self) -> None:
        while True:
            await self._to_do.wait()
            self._to_do = anyio.Event()
            while self._chore or self._done < self._asked:
                self._tending = True
                chore, self._chore = self._chore, RescanTask()
                asked, wanted = self._asked, self._wanted
                look = await anyio.to_thread.run_sync(self._looker.look, self._seen, wanted, chore)
                await self._install(look)
                self._done = asked
                self._tending = False
                tended, self._tended = self._tended, anyio.Event()
                tended.set()

    async def _install(self, look: ScanResult) -> None:
        before, self._seen = self._seen, look.seen
        if look.seen.tree is not before.tree or look.seen.following is not before.following:
            useful = look.seen.folders()
            self._polling.remove(self._polling.watched() - useful)
            if self._looker.inotify is not None:
                useless = list(self._looker.inotify.watched() - useful)
                for start in range(0, len(useless), REMOVE_AT_ONCE):
                    self._looker.inotify.remove(useless[start : start + REMOVE_AT_ONCE])
                    await anyio.lowlevel.checkpoint()
        self._take(look.polled)
        self._gather(look.changed, lost=look.lost)
        self._report()

    def _report(self) -> None:
        """Tell of a problem once when it comes, and once when it is over."""
        problem: str | None = None
        hint: str | None = None
        polled = self._polling.watched()
        if polled:
            self._polled.set()
        if not self._poll_only and polled and self._looker.shortage is not None:
            problem, hint = describe_shortage(self._looker.shortage)
        if problem != self._problem:
            self._problem = problem
            self._on_problem(problem, hint)

    async def _deliver(self) -> None:
        while True:
            await self._gathered.wait()
            self._gathered = anyio.Event()
            hold_s = math.inf
            while self._gathering:
                now_s = anyio.current_time()
                due_s = self._gathering.due_s()
                if now_s < due_s:
                    await anyio.sleep(due_s - now_s)
                elif self._looker.inotify is not None and self._take(self._looker.inotify.read()):
                    await anyio.lowlevel.checkpoint()
                elif (self._chore or self._tending or self._done < self._asked) and now_s < (
                    hold_s := min(hold_s, now_s + HOLD_S)
                ):
                    with anyio.move_on_after(hold_s - now_s):
                        await self._tended.wait()
                else:
                    hold_s = math.inf
                    await self._deliver_batch(self._gathering.take(anyio.current_time()))
