"""The watcher: what may have changed in, batches of changed paths out.

    watchfiles ── hints ─┐
    scans, when due ─────┼─► _look   compares with the snapshot, in a thread ──► changes ──► _deliver   batches
    follow ──────────────┘      └──► _cover   watches the folders that are needed

Events of the library are hints only: the paths are compared with what is known of them. What it keeps to itself (an
overflow of the kernel's queue, what happened in a folder before it was watched, a mount) is found by a scan of
everything that is watched, which is made

- when a process of the library has begun, as nothing is known of what happened before, or has ended by itself;
- when so many paths were reported that the kernel may have dropped events, before the batch is delivered;
- after the machine was suspended;
- every 10 to 50 seconds, depending on what it costs; and each half second instead where folders cannot be watched.

A batch waits for the look that its events made necessary.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from ckwatch.engine.watch.batch import Batch, PendingChanges
from ckwatch.engine.watch.notify import Notify, describe_shortage, watchfiles_process
from ckwatch.engine.watch.snapshot import Coverage, Differences, Hints, Identities, Snapshot, WatchRequest
from ckwatch.model.errors import plain_errors


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

    folders: Identities = field(default_factory=dict)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    began_s: float = -math.inf
    problem: OSError | None = None
    """Why there is none."""

    def covers(self, needed: Identities) -> bool:
        """Whether there are events of all these folders, or there can be none."""
        return self.problem is not None or needed.items() <= self.folders.items()


class Watcher:
    """Follows folders with everything in them, and single files; hands over what changed in batches.

    `deliver` is awaited for one batch at a time; what happens meanwhile is merged into the next. `on_problem` gets a
    message and a hint when folders have to be polled because they cannot be watched, and (None, None) when that is
    over. A file must be quiet for `step_ms` before a small change is reported. `poll` watches nothing, and scans
    instead.
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
        self._stopping = False
        self._problem: str | None = None
        self._gathered = anyio.Event()
        self._wakeup = anyio.Event()
        self._looked = anyio.Event()
        self._cover_wanted = anyio.Event()
        self._begin()

    def _begin(self) -> None:
        self._snapshot = Snapshot(self._step_s, lambda: self._stopping)
        self._instances = {True: _Instance(), False: _Instance()}
        """By whether they watch folders with everything in them."""
        self._needed = Coverage()
        self._hints: dict[str, bool] = {}
        self._hinted = 0
        """Paths that the library has reported since the last scan for their number."""
        self._later: list[tuple[float, set[str]]] = []
        """New folders, and when to compare them again."""
        self._scan_wanted = False
        self._scan_due_s = math.inf
        self._looking = False

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
        self._stopping = False
        if self._ran:
            self._gather(Differences(set(self._request.folders), lost=True))
        self._ran = True
        try:
            async with plain_errors(), anyio.create_task_group() as tasks:
                for task in (self._stop_threads, self._look, self._deliver, self._check):
                    tasks.start_soon(task)
                if not self._poll_only:
                    await self._cover(tasks)
        finally:
            self._begin()
            self._done = -1

    async def _stop_threads(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._stopping = True

    # When to look at the disk

    async def _look(self) -> None:
        while True:
            await self._next_look()
            self._looking = True
            asked, request = self._asked, self._request
            hints, self._hints = self._hints, {}
            began_s = anyio.current_time()
            scan = self._scan_wanted or began_s >= self._scan_due_s
            expect_none = scan and not self._scan_wanted and not self._polls()
            self._scan_wanted = False
            found, needed = await anyio.to_thread.run_sync(self._compare, request, hints, scan, expect_none)
            if scan or self._scan_due_s == math.inf:
                now_s = anyio.current_time()
                self._scan_due_s = now_s + self._delays.scan_pause_s(now_s - began_s, poll=self._polls())
            self._gather(found)
            self._cover_needed(needed, renew=found.renew)
            self._looking = False
            if self._is_covered() and not self._scan_wanted:
                self._done = asked
            self._report()
            looked, self._looked = self._looked, anyio.Event()
            looked.set()

    async def _next_look(self) -> None:
        """Wait for hints, another request, or a scan that is due."""
        while True:
            now_s = anyio.current_time()
            for due_s, places in self._later:
                if due_s <= now_s:
                    self._hints = {**dict.fromkeys(places, False), **self._hints}
            self._later = [entry for entry in self._later if entry[0] > now_s]
            if self._hints or self._scan_wanted or self._request != self._snapshot.request or now_s >= self._scan_due_s:
                return
            if self._asked != self._done and self._is_covered():
                return
            next_s = min((due_s for due_s, _ in self._later), default=math.inf)
            with anyio.CancelScope(deadline=min(self._scan_due_s, next_s)):
                await self._wakeup.wait()
            self._wakeup = anyio.Event()

    def _compare(
        self, request: WatchRequest, hints: Hints, scan: bool, expect_none: bool
    ) -> tuple[Differences, Coverage]:
        """In a worker thread. `expect_none`: the library should have reported what the scan finds."""
        found = self._snapshot.follow(request) if request != self._snapshot.request else Differences()
        if hints:
            found.add(self._snapshot.look(hints))
        if scan:
            missed = self._snapshot.scan()
            missed.renew |= expect_none and bool(missed.paths - missed.young)
            found.add(missed)
        return found, self._snapshot.needed()

    async def _check(self) -> None:
        suspended_s = self._suspended_s()
        while True:
            await anyio.sleep(self._delays.check_s)
            before_s, suspended_s = suspended_s, self._suspended_s()
            if suspended_s - before_s > SUSPENDED_S:
                self._scan()
            needed = self._needed
            if self._done == self._asked and await anyio.to_thread.run_sync(needed.is_outdated):
                self._scan()

    def _scan(self) -> None:
        self._scan_wanted = True
        self._wakeup.set()

    def _polls(self) -> bool:
        return self._poll_only or any(instance.problem is not None for instance in self._instances.values())

    # Where hints come from

    def _cover_needed(self, needed: Coverage, *, renew: bool) -> None:
        self._needed = needed
        if renew:
            for instance in self._instances.values():
                instance.folders = {}
        if any(needed.of(recursive) != instance.folders for recursive, instance in self._instances.items()):
            self._cover_wanted.set()

    def _is_covered(self) -> bool:
        return self._poll_only or all(
            instance.covers(self._needed.of(recursive)) for recursive, instance in self._instances.items()
        )

    async def _cover(self, tasks: TaskGroup) -> None:
        """Have the library watch what is needed. The old process of two ends when the new one has begun."""
        while True:
            await self._cover_wanted.wait()
            self._cover_wanted = anyio.Event()
            due_s = math.inf
            for recursive, instance in self._instances.items():
                pause_s = self._delays.restart_s if instance.problem is None else self._delays.retry_s
                if self._needed.of(recursive) == instance.folders:
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
        new = _Instance(self._needed.of(recursive), began_s=anyio.current_time())
        if new.folders:
            try:
                await tasks.start(self._follow_hints, recursive, new)
            except PermissionError:
                new.folders = {}
                self._snapshot.one_by_one = True  # see Snapshot.needed, which the scan below asks again
            except FileNotFoundError:
                new.folders = {}  # it went since the last look
            except OSError as error:
                new.folders, new.problem = {}, error
        self._instances[recursive] = new
        old.scope.cancel()
        self._scan()

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
                        for path, gone in hints.items():
                            if self._looking or self._snapshot.concerns(path):
                                self._hints[path] = gone or self._hints.get(path, False)
                        if self._hinted >= OVERFLOW_PATHS:
                            self._hinted = 0
                            self._scan_wanted = True
                        if self._hints or self._scan_wanted:
                            self._wakeup.set()
        except OSError as error:
            if not begun:
                raise
            instance.folders, instance.problem = {}, error if error.errno != errno.EIO else None
            self._cover_wanted.set()
            self._scan()

    def _report(self) -> None:
        """Tell of a problem once when it comes, and once when it is over."""
        problems = [instance.problem for instance in self._instances.values() if instance.problem is not None]
        message, hint = describe_shortage(problems[0]) if problems else (None, None)
        if message != self._problem:
            self._problem = message
            self._on_problem(message, hint)

    # What has changed

    def _gather(self, found: Differences) -> None:
        now_s = anyio.current_time()
        age_s = max(0.0, (time.time_ns() - found.newest_ns) / 1e9) if found.newest_ns else 0.0
        self._gathering.add(found.paths, now_s - min(age_s, self._step_s), lost=found.lost)
        self._gathering.young |= found.young
        if found.new_folders:
            self._later.append((now_s + self._delays.new_folder_s, found.new_folders))
        if self._gathering:
            self._gathered.set()

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
                    continue
                if self._gathering.young:
                    self._hints.update(dict.fromkeys(self._gathering.young - self._hints.keys(), False))
                    self._gathering.young = set()
                    self._wakeup.set()
                hold_s = min(hold_s, now_s + self._delays.hold_s)
                if now_s < hold_s and (self._looking or self._scan_wanted or self._hints):
                    with anyio.CancelScope(deadline=hold_s):
                        await self._looked.wait()
                else:
                    hold_s = math.inf
                    await self._deliver_batch(self._gathering.take(anyio.current_time()))
