"""The watcher: what may have changed in, batches of changed paths out.

    watchfiles ── hints ─┐
    comparisons, if due ─┼─► _look   names what hints are about, in a thread ──► changes ──► _deliver   batches
    follow ──────────────┘      └──► _cover   watches the folders that are needed

Events of the library are hints only: whoever gets a batch compares the files with what was read of them. What the
library keeps to itself (an overflow of the kernel's queue, what happened in a folder before it was watched, a mount) is
found by a comparison of everything, which an incomplete batch asks for. It is made

- when a process of the library has begun, as nothing is known of what happened before, or has ended by itself;
- when so many paths were reported that the kernel may have dropped events;
- after the machine was suspended;
- every 10 to 50 seconds, depending on what it costs; and each half second instead where folders cannot be watched.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import field

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from ckwatch.engine.watch.batch import LARGE_BATCH, Batch, PendingChanges, is_temporary
from ckwatch.engine.watch.notify import Notify, describe_shortage, watchfiles_process
from ckwatch.engine.watch.notify_process import CLOSED, GONE
from ckwatch.engine.watch.places import Hints, Identities, LookedAt, WatchedPlaces, WatchRequest, newest_change_ns
from ckwatch.model.errors import plain_errors
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WatchDelays:
    """How long the watcher waits, in seconds."""

    scan_share: float = 1000.0
    """A scan of everything is made once in so many times what the last one took: 0.1 % of a core …"""
    shortest_scan_s: float = 10.0
    longest_scan_s: float = 50.0
    """… but within these, so that whatever the library never reports is noticed within a minute."""
    poll_s: float = 0.5
    poll_share: float = 20.0
    """The same where folders cannot be watched. There is no upper bound."""
    check_s: float = 5.0
    """How often it is checked whether the machine was suspended, and whether watched folders were replaced."""
    new_folder_s: float = 0.5
    """A new folder is compared again after so long: the library may not have watched it at once."""
    restart_s: float = 1.0
    """The library is begun anew for other folders at most so often."""
    retry_s: float = 10.0
    """It is tried again so long after it could not watch some folders."""
    hold_s: float = 2.0
    """A batch waits at most this long for a look at the disk."""

    def scan_pause_s(self, took_s: float, *, poll: bool) -> float:
        """How long after a scan that took so long the next one begins."""
        if poll:
            return max(self.poll_s, self.poll_share * took_s)
        return min(max(self.shortest_scan_s, self.scan_share * took_s), self.longest_scan_s)


SUSPENDED_S = 1.0
"""More than this between two clocks, of which one stops while the machine is suspended, is no inaccuracy."""

OVERFLOW_PATHS = 4096
"""The queue of the kernel has 16,384 events (`fs.inotify.max_queued_events`), and a file that is written makes up to
four: made, opened, written, closed. Whenever so many paths have been reported, events may have been dropped."""


def suspended_s() -> float:
    """For how long the machine has been suspended, plus a constant; constant where the system does not say."""
    if hasattr(time, "CLOCK_BOOTTIME"):  # Linux
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    if hasattr(time, "CLOCK_UPTIME_RAW"):  # macOS, whose CLOCK_MONOTONIC goes on
        return time.clock_gettime(time.CLOCK_MONOTONIC) - time.clock_gettime(time.CLOCK_UPTIME_RAW)
    return 0.0


@dataclass(slots=True)
class _Instance:
    """A process of the library."""

    folders: Identities = field(default_factory=dict[str, tuple[int, int]])
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    began_s: float = -math.inf
    problem: OSError | None = None
    """Why there is none."""

    def covers(self, needed: Identities) -> bool:
        """Return True if there are events of all these folders, or there can be none."""
        return self.problem is not None or needed.items() <= self.folders.items()


class Watcher:
    """Follows folders with everything in them, and single files; hands over what changed in batches.

    `deliver` is awaited for one batch at a time; what happens meanwhile is merged into the next. `on_problem` gets a
    message and a hint when folders have to be polled because they cannot be watched, and (None, None) when that is
    over. A file must be quiet for `step_ms` before a small change is reported, unless it is known to be closed. `poll`
    watches nothing, and has everything compared instead.
    """

    def __init__(
        self,
        deliver: Callable[[Batch], Awaitable[None]],
        on_problem: Callable[[str | None, str | None], None],
        *,
        step_ms: int = 20,
        poll: bool = False,
        notify: Notify = watchfiles_process,
        delays: WatchDelays = WatchDelays(),
        suspended_s: Callable[[], float] = suspended_s,
    ) -> None:
        self._deliver_batch = deliver
        self._on_problem = on_problem
        self._step_s = step_ms / 1000
        self._poll_only = poll
        self._notify = notify
        self._delays = delays
        self._suspended_s = suspended_s
        self._gathering = PendingChanges(self._step_s)
        self._request = WatchRequest()
        self._asked = 0
        self._done = 0
        self._ran = False
        self._problem: str | None = None
        self._gathered = anyio.Event()
        self._wakeup = anyio.Event()
        self._looked = anyio.Event()
        self._cover_wanted = anyio.Event()
        self._begin()

    def _begin(self) -> None:
        self._places = WatchedPlaces(WatchRequest())
        self._one_by_one = False
        self._instances = {True: _Instance(), False: _Instance()}
        """By whether they watch folders with everything in them."""
        self._hints: dict[str, int] = {}
        self._hinted = 0
        """Paths that the library has reported since the last comparison for their number."""
        self._later: list[tuple[float, set[str]]] = []
        """New folders, and when to report them again."""
        self._again: set[str] = set()
        """Those that are reported again now."""
        self._looking = False
        self._survey_wanted = False
        self._survey_due = False
        """One is wanted where a folder has other entries."""
        self._survey_s = 0.0
        """How long the last survey took."""
        self._compare_due_s = math.inf

    def follow(self, folders: Iterable[str], files: Iterable[str]) -> None:
        """Replace what is watched. Absolute paths without `..`; they need not exist.

        `folders` are watched with everything in them, except folders that `ckwatch.workspace` does not enter either.
        `files` are followed wherever they are. What is watched already stays so without a gap. What changed before
        `settled` returns is for the caller to find: first follow, then settle, then compare with what was read.
        """
        request = WatchRequest(frozenset(folders), frozenset(files))
        if request != self._request:
            self._request = request
            self._asked += 1
            self._wakeup.set()

    async def settled(self) -> None:
        """Return when all that was passed to `follow` so far is watched: what changes from now on is reported."""
        asked = self._asked
        while self._done < asked:
            await self._looked.wait()

    async def run(self) -> None:
        """Watch until cancelled. Raises what `deliver` raises. Run again, it reports that all may have changed."""
        if self._ran:
            self._gather(LookedAt(set(self._request.folders), lost=True), self._step_s)
        self._ran = True
        self._compared(0.0)
        try:
            async with plain_errors(), anyio.create_task_group() as tasks:
                for task in (self._look, self._deliver, self._check):
                    tasks.start_soon(task)
                if not self._poll_only:
                    await self._cover(tasks)
        finally:
            self._begin()
            self._done = -1

    # When to look at the disk

    async def _look(self) -> None:
        while True:
            await self._next_look()
            asked, request = self._asked, self._request
            hints, self._hints = self._hints, {}
            again, self._again = self._again, set()
            survey, self._survey_wanted = self._survey_wanted, False
            due, self._survey_due = self._survey_due, False
            self._looking = True
            began_s = anyio.current_time()
            places, found, age_s = await anyio.to_thread.run_sync(
                _examine, self._places, request, hints, survey, due, self._one_by_one, abandon_on_cancel=True
            )
            if places is not self._places:
                self._places, self._survey_s = places, anyio.current_time() - began_s
                self._cover_wanted.set()
            if found.renew:
                for instance in self._instances.values():
                    instance.folders = {}
                self._cover_wanted.set()
            self._looking = False
            found.new_folders -= again
            self._gather(found, age_s)
            if self._is_covered() and not self._survey_wanted:
                self._done = asked
            self._report()
            looked, self._looked = self._looked, anyio.Event()
            looked.set()

    async def _next_look(self) -> None:
        """Wait for hints, another request, or a comparison that is due."""
        while True:
            now_s = anyio.current_time()
            for due_s, places in self._later:
                if due_s <= now_s:
                    self._again |= places - self._hints.keys()
                    self._hints = {**dict.fromkeys(places, 0), **self._hints}
            self._later = [entry for entry in self._later if entry[0] > now_s]
            if now_s >= self._compare_due_s:
                self._compare_due_s = math.inf
                self._gather(LookedAt(lost=True), 0.0)
                self._survey_due = True
            if self._hints or self._survey_wanted or self._survey_due or self._request != self._places.request:
                return
            if self._asked != self._done and self._is_covered():
                return
            next_s = min((due_s for due_s, _ in self._later), default=math.inf)
            with anyio.CancelScope(deadline=min(self._compare_due_s, next_s)):
                await self._wakeup.wait()
            self._wakeup = anyio.Event()

    async def _check(self) -> None:
        suspended_s = self._suspended_s()
        while True:
            await anyio.sleep(self._delays.check_s)
            before_s, suspended_s = suspended_s, self._suspended_s()
            outdated = self._places.is_outdated
            if suspended_s - before_s > SUSPENDED_S or (
                self._done == self._asked and await anyio.to_thread.run_sync(outdated, abandon_on_cancel=True)
            ):
                self._compare()

    def _compare(self) -> None:
        """Survey the places, and have everything compared."""
        self._gather(LookedAt(lost=True), 0.0)
        self._survey()

    def _survey(self) -> None:
        self._survey_wanted = True
        self._wakeup.set()

    def _compared(self, took_s: float) -> None:
        pause_s = self._delays.scan_pause_s(self._survey_s + took_s, poll=self._polls())
        self._compare_due_s = anyio.current_time() + pause_s
        self._wakeup.set()

    def _polls(self) -> bool:
        return self._poll_only or any(instance.problem is not None for instance in self._instances.values())

    # Where hints come from

    def _is_covered(self) -> bool:
        return self._poll_only or all(
            instance.covers(self._places.needed[recursive]) for recursive, instance in self._instances.items()
        )

    async def _cover(self, tasks: TaskGroup) -> None:
        """Have the library watch what is needed. The old process of two ends when the new one has begun."""
        while True:
            await self._cover_wanted.wait()
            self._cover_wanted = anyio.Event()
            due_s = math.inf
            for recursive, instance in self._instances.items():
                pause_s = self._delays.restart_s if instance.problem is None else self._delays.retry_s
                if self._places.needed[recursive] == instance.folders:
                    continue
                if anyio.current_time() < instance.began_s + pause_s:
                    due_s = min(due_s, instance.began_s + pause_s)
                else:
                    await self._replace(tasks, recursive, instance)
            if due_s < math.inf:
                with anyio.CancelScope(deadline=due_s):
                    await self._cover_wanted.wait()
                self._cover_wanted.set()

    async def _replace(self, tasks: TaskGroup, recursive: bool, old: _Instance) -> None:
        new = _Instance(self._places.needed[recursive], began_s=anyio.current_time())
        if new.folders:
            try:
                await tasks.start(self._follow_hints, recursive, new)
            except PermissionError:
                new.folders = {}
                self._one_by_one = True  # the survey below finds which
            except FileNotFoundError:
                new.folders = {}  # it went since the last look
            except OSError as error:
                new.folders, new.problem = {}, error
        self._instances[recursive] = new
        old.scope.cancel()
        if old.began_s > -math.inf or new.problem is not None or self._done == self._asked:
            self._compare()  # the old process may have kept something to itself
        else:
            self._survey()  # whoever asked compares once it is settled

    async def _follow_hints(self, recursive: bool, instance: _Instance, *, task_status: TaskStatus[None]) -> None:
        """Run a process of the library until it is replaced. Raises OSError when it cannot begin."""
        begun = False
        try:
            with instance.scope:
                async with self._notify(instance.folders, recursive) as batches:
                    begun = True
                    task_status.started()
                    async for hints in batches:
                        self._hinted += len(hints)
                        for path, hint in hints.items():
                            if self._places.concerns(path):
                                self._hints[path] = hint | (self._hints.get(path, 0) & GONE)
                        if self._hinted >= OVERFLOW_PATHS:
                            self._hinted = 0
                            self._compare()
                        if self._hints:
                            self._wakeup.set()
        except OSError as error:
            if not begun:
                raise
            instance.folders, instance.problem = {}, error if error.errno != errno.EIO else None
            self._cover_wanted.set()
            self._compare()

    def _report(self) -> None:
        """Tell of a problem once when it comes, and once when it is over."""
        problems = [instance.problem for instance in self._instances.values() if instance.problem is not None]
        message, hint = describe_shortage(problems[0]) if problems else (None, None)
        if message != self._problem:
            self._problem = message
            self._on_problem(message, hint)

    # What has changed

    def _gather(self, found: LookedAt, age_s: float) -> None:
        now_s = anyio.current_time()
        self._gathering.add(found.paths, now_s - min(age_s, self._step_s), lost=found.lost)
        self._gathering.young |= bool(found.paths) and age_s < self._step_s
        if found.new_folders:
            self._later.append((now_s + self._delays.new_folder_s, found.new_folders))
        if self._gathering:
            self._gathered.set()

    async def _deliver(self) -> None:
        while True:
            await self._gathered.wait()
            self._gathered = anyio.Event()
            while self._gathering:
                now_s = anyio.current_time()
                due_s = self._gathering.due_s()
                if now_s < due_s:
                    await anyio.sleep(due_s - now_s)
                elif (self._looking or self._hints) and now_s < self._gathering.first_s + self._delays.hold_s:
                    with anyio.CancelScope(deadline=self._gathering.first_s + self._delays.hold_s):
                        await self._looked.wait()
                elif self._gathering.young:
                    self._gathering.young = False
                    paths = frozenset(self._gathering.paths)
                    age_s = await anyio.to_thread.run_sync(_age_s, paths, 0, abandon_on_cancel=True)
                    self._gathering.add(paths, now_s - min(age_s, self._step_s))
                    self._gathering.young = age_s < self._step_s
                else:
                    batch = self._gathering.take(now_s)
                    await self._deliver_batch(batch)
                    if not batch.complete:
                        self._compared(anyio.current_time() - now_s)


def _examine(
    places: WatchedPlaces, request: WatchRequest, hints: Hints, survey: bool, due: bool, one_by_one: bool
) -> tuple[WatchedPlaces, LookedAt, float]:
    """Name what hints are about; survey the places if that is needed, or `due` and they may differ. How many seconds
    ago something changed last."""
    found = places.look(hints)
    survey |= found.moved or (due and places.may_differ())
    if survey or request != places.request:
        before, places = places, WatchedPlaces(request, one_by_one=one_by_one, before=None if survey else places)
        places.compare(before, found)
    open_yet = any(not hint & CLOSED and not is_temporary(os.path.basename(path)) for path, hint in hints.items())  # noqa: PTH119
    return places, found, _age_s(found.paths, time.time_ns()) if open_yet or not hints else math.inf


def _age_s(paths: AbstractSet[str], missing_ns: int) -> float:
    """How long ago one of a few files changed last; that of many is of no interest."""
    return (time.time_ns() - newest_change_ns(paths, missing_ns)) / 1e9 if len(paths) <= LARGE_BATCH else math.inf
