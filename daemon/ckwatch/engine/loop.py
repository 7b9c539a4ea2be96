"""The event loop: the only caller of `step`.

Events come through one inbox. Each effect that is work runs as a task, in the handler that one table names for its
type, and ends in exactly one event.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

from ckwatch.checks.refused_shapes import ShapeRefusals
from ckwatch.compile.store.entries import LostArtifactError
from ckwatch.core import events
from ckwatch.core.effects import Cancel, Changed, Continue, Effect, Notify, UpdateWatches, WorkEffect
from ckwatch.core.state import COMPILING, State
from ckwatch.core.step import start, step
from ckwatch.engine.change_feed import ChangeFeed
from ckwatch.engine.file_diagnostics import DiagnosedFiles
from ckwatch.model.errors import CkwatchError
from ckwatch.model.topics import Topic
from ckwatch.system.memory import capacity_bytes

log = logging.getLogger(__name__)

INBOX_SIZE = 1000
MEMORY_INTERVAL_S = 2.0
TIME_SLICE_S = 0.004
"""How long steps may follow one another before other tasks get the event loop."""

Handlers = Mapping[type[WorkEffect], Callable[[Any], Awaitable[events.AnyEvent]]]
"""By the type of the effect, what performs it. A CkwatchError that it raises becomes a `WorkAborted`."""


class EngineLoop:
    """Feeds events to the core and performs its effects.

    `on_notify` gets the notifications of each step, `on_files_changed` is called before a step that takes in changes of
    files, `on_follow` when the set of watched files changes, and
    `on_unit_removed` when a unit is removed.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.feed = ChangeFeed()
        self.diagnosed = DiagnosedFiles()
        self.shape_refusals = ShapeRefusals()
        self.on_notify: Callable[[list[Notify]], None] = lambda _notifications: None
        self.on_files_changed: Callable[[], None] = lambda: None
        self.on_follow: Callable[[], None] = lambda: None
        self.on_unit_removed: Callable[[events.UnitKey], None] = lambda _key: None
        self.longest_step_s = 0.0
        self._handlers: Handlers = {}
        # A stream of anyio takes a turn of the event loop for each event.
        self._inbox: deque[events.AnyEvent] = deque()
        self._news = anyio.Event()
        self._room = anyio.Event()
        self._compiling = anyio.Event()
        """Set while compilers run or wait."""
        self._cancel_scopes: dict[int, CancelScope] = {}
        self._tasks: TaskGroup | None = None

    async def post(self, event: events.AnyEvent) -> None:
        """Put an event into the inbox; waits while it is full."""
        while len(self._inbox) >= INBOX_SIZE:
            await self._room.wait()
        self.post_soon(event)

    def post_soon(self, event: events.AnyEvent) -> None:
        """Put in an event that only informs: it is dropped when the inbox is full."""
        if len(self._inbox) < INBOX_SIZE:
            self._inbox.append(event)
            self._news.set()

    async def run(self, handlers: Handlers) -> None:
        """Run until cancelled; all work is stopped before this returns."""
        self._handlers = handlers
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._measure_memory)
            self._perform(start(self.state))
            began = time.monotonic()
            continued = False
            while True:
                if not self._inbox and continued:
                    continued = False
                    self._inbox.append(events.Continued())
                    await anyio.lowlevel.checkpoint()
                    began = time.monotonic()
                elif not self._inbox:
                    self._news = anyio.Event()
                    await self._news.wait()
                    began = time.monotonic()
                elif time.monotonic() - began > TIME_SLICE_S:
                    await anyio.lowlevel.checkpoint()
                    began = time.monotonic()
                continued = self._step(self._next()) or continued

    def _next(self) -> events.AnyEvent:
        if len(self._inbox) == INBOX_SIZE:
            self._room.set()
            self._room = anyio.Event()
        return self._inbox.popleft()

    def _step(self, event: events.AnyEvent) -> bool:
        """Take one step; whether the core asks to continue."""
        event = event if event.at else replace(event, at=time.time())
        began = time.perf_counter()
        if isinstance(event, events.FilesChanged):
            self.on_files_changed()
        effects = step(self.state, event)
        if self.state.compile_queue:
            self._compiling.set()
        self.longest_step_s = max(self.longest_step_s, time.perf_counter() - began)
        return self._perform(effects)

    def _perform(self, effects: tuple[Effect, ...]) -> bool:
        assert self._tasks is not None  # noqa: S101  # only `run` gets here
        continued = False
        notifications: list[Notify] = []
        for effect in effects:
            match effect:
                case Changed(scope, topic):
                    self._mark(scope, topic)
                case Cancel(work):
                    running = self._cancel_scopes.get(work.number)
                    if running is not None:
                        running.cancel()
                case Notify():
                    notifications.append(effect)
                case UpdateWatches():
                    self.on_follow()
                case Continue():
                    continued = True
                case _:
                    if effect.work.kind in COMPILING:
                        self._compiling.set()
                    cancel_scope = self._cancel_scopes[effect.work.number] = CancelScope()
                    self._tasks.start_soon(self._work, effect, cancel_scope)
        self.on_notify(notifications)
        return continued

    def _mark(self, scope: str, topic: Topic) -> None:
        key = events.UnitKey(scope, topic.name)
        if topic.kind == "unit":
            unit = self.state.find(key)
            self.diagnosed.update(key, unit.published_files if unit is not None else frozenset())
            if unit is None:
                self.on_unit_removed(key)
        if scope != events.MAIN and scope not in self.state.views:
            self.diagnosed.update(key, frozenset())
        self.feed.mark(scope, topic)

    async def _work(self, effect: WorkEffect, scope: CancelScope) -> None:
        """Perform an effect; it ends in exactly one event, whatever happens."""
        work = effect.work
        event: events.AnyEvent = events.WorkAborted(work)
        try:
            with scope:
                event = await self._handlers[type(effect)](effect)
        except LostArtifactError as error:
            log.warning("%s of %s: %s; it is built again", work.kind, work.key, error)
            await self.post(events.ArtifactsLost(frozenset({error.artifact})))
            event = events.WorkAborted(work, str(error))
        except CkwatchError as error:
            event = events.WorkAborted(work, str(error))
        except Exception as error:
            log.exception("%s of %s broke down", work.kind, work.key)
            event = events.WorkAborted(work, f"{type(error).__name__}: {error}")
        del self._cancel_scopes[work.number]
        await self.post(event)

    async def _measure_memory(self) -> None:
        """Report the free memory while compilers run or wait."""
        while True:
            await self._compiling.wait()
            capacity = await to_thread.run_sync(capacity_bytes)
            if capacity is not None:
                self.post_soon(events.MemoryMeasured(capacity))
            await anyio.sleep(MEMORY_INTERVAL_S)
            if not self.state.compile_queue and all(work.kind not in COMPILING for work in self.state.running.values()):
                self._compiling = anyio.Event()
