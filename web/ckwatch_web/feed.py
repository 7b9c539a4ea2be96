"""The page's knowledge of the workspace: the state of everything according to the daemon's events, kept small.

Units are rows, as the daemon makes them: of each unit and each timing that which is shown among thousands.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import anyio

from ckwatch import CkwatchError, connect
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.topics import WORKSPACE
from ckwatch.wire.alerts import Alert, Standing, alerts
from ckwatch.wire.figures_text import AT_WORK
from ckwatch.wire.rows import UnitRow
from ckwatch.wire.schema import TIMED_LIMIT

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectReceiveStream

    from ckwatch.client import Client
    from ckwatch.client.events import ReadChange
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.state import Workspace

_log = logging.getLogger(__name__)

TIMELINE_S = 600.0
"""How far back the time line goes."""

BATCH = 2000
"""Changes that are taken at a time."""

GATHER_S = 0.1
"""How long changes are gathered: what follows at once is shown at once."""

ALERTS_KEPT = 50

LOOK_S = 1.0
"""How often a daemon is looked for that was stopped."""

RETRY_S = 5.0
"""How long after a failure tuning runs are watched again."""


@dataclass(frozen=True, slots=True)
class QueueSample:
    """How many units were compiled, waited for a compiler, were timed, waited for a device, and were verified, from
    `at` (Unix seconds) on."""

    at: float
    compiling: int
    queued: int
    timing: int
    to_time: int
    verifying: int


@dataclass(slots=True)
class BackgroundJob:
    """Work that goes on in the server, whatever is looked at.

    `subject`: what it is about, which the work says once it knows; `known` is set then, or when it has `ended`.
    `error`: why it ended early.
    """

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    subject: object = None
    error: CkwatchError | None = None
    known: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def running(self) -> bool:
        """True if it goes on."""
        return not self.ended.is_set()


class Feed:
    """The state that all open pages share, followed by `run`. `units` are in the order in which they came."""

    def __init__(self, client: Client, *, look_s: float = LOOK_S, retry_s: float = RETRY_S) -> None:
        self.client = client
        self._look_s, self._retry_s = look_s, retry_s
        self.units: dict[str, UnitRow] = {}
        self.diagnostics: dict[str, tuple[Diagnostic, ...]] = {}
        self.workspace: Workspace | None = None
        self.timeline: deque[QueueSample] = deque()
        self.alerts: deque[Alert] = deque(maxlen=ALERTS_KEPT)
        """Changes for the worse since the page is served, the last ones."""
        self.alerts_seen = 0
        """How many there were in all."""
        self.connected = False
        """True if there is a daemon; if not, everything is as it was when there was one."""
        self.loaded = False
        """True if all units were there once."""
        self.timed = False
        """True if their timings were, too."""
        self.timings_wanted = anyio.Event()
        """Set by whoever needs timings: reading them would hold up the first page."""
        self.kept: dict[Hashable, Any] = {}
        """Values that views keep for all windows, as long as the page is served: slow answers."""
        self.revision = 0
        self.jobs: dict[str, BackgroundJob] = {}
        """The last job by each name, also when it has ended."""
        self.jobs_revision = 0
        self._tuning_revision = 0
        self._follows_tuning = False
        self._tasks: TaskGroup | None = None
        self._changed = anyio.Event()

    @property
    def editors(self) -> int:
        """How many editors are attached that can show a place."""
        return 0 if self.workspace is None else self.workspace.editors

    async def changed(self, after: int) -> int:
        """Wait until something is not as it was at revision `after`; the present revision."""
        while self.revision == after:
            await self._changed.wait()
        return self.revision

    async def run(self) -> None:
        """Follow the daemon, and those that come in its place, until cancelled; jobs end with it."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._read_timings)
            try:
                await self._follow()
            finally:
                self._tasks.cancel_scope.cancel()

    def start(self, name: str, work: Callable[[BackgroundJob], Awaitable[object]]) -> BackgroundJob:
        """Begin a job, which ends with `run`. Raises CkwatchError while one of this name goes on."""
        last = self.jobs.get(name)
        if self._tasks is None or (last is not None and last.running):
            raise CkwatchError(f"{name} goes on already")
        job = self.jobs[name] = BackgroundJob()
        self._tasks.start_soon(self._work, job, work)
        self._note_jobs()
        return job

    async def _work(self, job: BackgroundJob, work: Callable[[BackgroundJob], Awaitable[object]]) -> None:
        try:
            with job.scope:
                await work(job)
        except CkwatchError as error:
            job.error = error
        except Exception:  # noqa: BLE001  # the page goes on
            _log.exception("a job of the page failed")
            job.error = CkwatchError("a mistake in ckwatch; the terminal of `ckwatch web` has the details")
        finally:
            job.known.set()
            job.ended.set()
            self._note_jobs()

    def tell(self, job: BackgroundJob, subject: object) -> None:
        """Describe the subject of a job from its work."""
        job.subject = subject
        job.known.set()
        self._note_jobs()

    def _note_jobs(self) -> None:
        self.jobs_revision += 1
        self._note()

    def follow_tuning(self) -> int:
        """A number that changes with the tuning runs of all processes: once this was asked, they are watched."""
        if not self._follows_tuning and self._tasks is not None:
            self._follows_tuning = True
            self._tasks.start_soon(self._watch_tuning)
        return self._tuning_revision

    async def _watch_tuning(self) -> None:
        problem = ""
        while True:
            try:
                async with self.client.tuning_changes() as changes:
                    async for _ in changes:
                        problem = ""
                        self._note_tuning()
            except CkwatchError as error:
                if error.message != problem:
                    problem = error.message
                    self._note_tuning()
            await anyio.sleep(self._retry_s)

    def _note_tuning(self) -> None:
        self._tuning_revision += 1
        self._note()

    async def _follow(self) -> None:
        while True:
            send, receive = anyio.create_memory_object_stream["ReadChange[UnitRow]"](BATCH * 4)
            async with anyio.create_task_group() as tasks, receive:
                tasks.start_soon(self._take_all, receive.clone())
                async with send:
                    try:
                        async with self.client.events_in_rows() as changes:
                            async for change in changes:
                                try:
                                    send.send_nowait(change)  # a turn of the event loop for each would be a second
                                except anyio.WouldBlock:
                                    await send.send(change)
                    except CkwatchError:
                        pass  # what was lost is looked for
            self.connected = False
            self._note()
            await self._until_there_is_one()

    async def _read_timings(self) -> None:
        """Read the timings of units that came without, once somebody wants them."""
        await self.timings_wanted.wait()
        revision = 0
        while True:
            with suppress(CkwatchError):  # the daemon that comes next is asked
                while self.connected and (some := [row.id for row in self.units.values() if row.untimed][:TIMED_LIMIT]):
                    for row in await self.client.unit_rows(some):
                        before = self.units.get(row.id)
                        if before is not None and before.untimed:  # else it has changed, and came with them
                            self.units[row.id] = row
                            if self.timed:
                                self._compare(before, row)
                if self.connected and self.loaded and not self.timed:
                    self.timed = True
                    self._note()
            revision = await self.changed(revision)

    async def _until_there_is_one(self) -> None:
        """A daemon that was stopped is not started here: only looked for."""
        while True:
            await anyio.sleep(self._look_s)
            try:
                async with connect(self.client.root, start=False, client_name="web"):
                    return
            except CkwatchError:
                continue

    async def _take_all(self, changes: MemoryObjectReceiveStream[ReadChange[UnitRow]]) -> None:
        async with changes:
            async for first in changes:
                batch = [first]
                with suppress(anyio.EndOfStream), anyio.move_on_after(GATHER_S if self.loaded else GATHER_S / 10):
                    while len(batch) < BATCH:
                        try:
                            batch.append(changes.receive_nowait())
                        except anyio.WouldBlock:
                            batch.append(await changes.receive())
                self._take(batch)

    def _take(self, batch: list[ReadChange[UnitRow]]) -> None:
        if not self.connected:  # another daemon tells everything anew, and nothing of what is gone
            self.units, self.diagnostics, self.workspace, self.loaded, self.timed = {}, {}, None, False, False
        news = {change.topic: change.state for change in batch}
        for topic, state in news.items():
            kind, name = topic.kind, topic.name
            if topic == WORKSPACE:
                self.workspace = state  # type: ignore[assignment]  # as the topic says
            elif kind == "unit":
                if isinstance(state, UnitRow):
                    before = self.units.get(name)
                    if before is not None and state.untimed:
                        state = state._replace(timings=before.timings, timed_at=before.timed_at)
                    self._compare(before, state)
                    self.units[name] = state
                else:
                    self.units.pop(name, None)
            elif kind == "file":
                self._take_file(name, state)
        known = self.workspace
        if known is not None and known.loaded and len(self.units) >= known.unit_count:
            self.loaded = True
        self._sample()
        self.connected = True
        self._note()

    def _compare(self, before: UnitRow | None, now: UnitRow) -> None:
        """Keep what is worse than before; not while units and their timings are read for the first time."""
        if not self.loaded or (before is not None and before.untimed and not self.timed):
            return
        for one in alerts(now.id, Standing() if before is None else before.standing, now.standing):
            self.alerts.append(one)
            self.alerts_seen += 1

    def _take_file(self, path: str, state: Any) -> None:
        if state is None or not state.diagnostics:
            self.diagnostics.pop(path, None)
        else:
            self.diagnostics[path] = state.diagnostics

    def _sample(self) -> None:
        phases = Counter(row.phase for row in self.units.values())
        sample = QueueSample(
            at=time.time(),
            compiling=phases["compiling"],
            queued=sum(phases[phase] for phase in AT_WORK) - phases["compiling"],
            timing=sum(1 for row in self.units.values() if row.measuring),
            to_time=sum(row.to_measure for row in self.units.values()),
            verifying=sum(1 for row in self.units.values() if row.verifying),
        )
        if not self.timeline or replace(self.timeline[-1], at=sample.at) != sample:
            self.timeline.append(sample)
        while len(self.timeline) > 1 and self.timeline[1].at < sample.at - TIMELINE_S:
            self.timeline.popleft()

    def _note(self) -> None:
        self.revision += 1
        self._changed.set()
        self._changed = anyio.Event()
