"""The event loop: the only caller of `step`. Events come through one inbox; each effect that is work becomes a task."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.lowlevel
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.store.entries import LostArtifactError
from ckwatch.core.effects import (
    Analyze,
    Cancel,
    Changed,
    Check,
    Compile,
    Continue,
    Effect,
    Load,
    LookUp,
    Measure,
    Notify,
    Record,
    Render,
    Scan,
    UpdateWatches,
)
from ckwatch.core.events import (
    MAIN,
    AnalyzeFinished,
    AnyEvent,
    ArtifactsLost,
    Continued,
    LoadFinished,
    MeasureFinished,
    MemoryMeasured,
    RecordFinished,
    UnitKey,
    WorkAborted,
)
from ckwatch.core.state import State
from ckwatch.core.step import start, step
from ckwatch.engine.change_feed import ChangeFeed
from ckwatch.engine.file_diagnostics import DiagnosedFiles
from ckwatch.engine.handlers.compile import WorkHandlers
from ckwatch.engine.memory import capacity_bytes
from ckwatch.model.errors import CkwatchError

log = logging.getLogger(__name__)

INBOX_SIZE = 1000
MEMORY_INTERVAL_S = 2.0
LOAD_DELAY_S = 0.3
"""How long a load that is not urgent waits."""
TIME_SLICE_S = 0.004
"""So long may steps follow one another before others have their turn on the event loop."""

WorkEffect = Load | Scan | Render | LookUp | Check | Compile | Analyze | Measure | Record
"""Effects that run as tasks."""

RecordHandler = Callable[[State, Record], Awaitable[str | None]]
AnalyzeHandler = Callable[[Analyze], Awaitable[AnalyzeFinished]]
MeasureHandler = Callable[[Measure], Awaitable[MeasureFinished]]


class EngineLoop:
    """Runs the machine.

    `on_stepped` gets what each step tells, `on_follow` is called when other files are to be watched, `analyze`
    looks into code objects, `measure` times units.
    """

    def __init__(
        self, state: State, workshop: Callable[[Callable[[AnyEvent], None]], WorkHandlers], record: RecordHandler
    ) -> None:
        self.state = state
        self.feed = ChangeFeed()
        self.diagnosed = DiagnosedFiles()
        self.workshop = workshop(self.post_soon)
        self.on_stepped: Callable[[list[Notify]], None] = lambda _tells: None
        self.on_follow: Callable[[], None] = lambda: None
        self.analyze: AnalyzeHandler = _cannot_analyze
        self.measure: MeasureHandler = _cannot_measure
        self.longest_step_s = 0.0
        self._record = record
        self._send, self._inbox = anyio.create_memory_object_stream[AnyEvent](INBOX_SIZE)
        self._scopes: dict[int, CancelScope] = {}
        self._tasks: TaskGroup | None = None

    async def post(self, event: AnyEvent) -> None:
        """Put an event into the inbox; waits while it is full."""
        await self._send.send(event)

    def post_soon(self, event: AnyEvent) -> None:
        """Put in an event that informs only: it is dropped when the inbox is full."""
        with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._send.send_nowait(event)

    def close(self) -> None:
        """Take no more events; after `run` has ended."""
        self._send.close()
        self._inbox.close()

    async def run(self) -> None:
        """Until cancelled; whatever runs then is stopped before it returns."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._measure_memory)
            self._perform(start(self.state))
            began = time.monotonic()
            continued = False
            while True:
                if continued and not self._inbox.statistics().current_buffer_used:
                    event: AnyEvent = Continued(at=time.time())
                    continued = False
                    await anyio.lowlevel.checkpoint()
                    began = time.monotonic()
                else:
                    if time.monotonic() - began > TIME_SLICE_S or not self._inbox.statistics().current_buffer_used:
                        await anyio.lowlevel.checkpoint()
                        event = await self._inbox.receive()
                        began = time.monotonic()
                    else:
                        event = self._inbox.receive_nowait()
                continued = self._step(event) or continued

    def _step(self, event: AnyEvent) -> bool:
        """Take one step; whether the machine asks to go on."""
        began = time.perf_counter()
        effects = step(self.state, event)
        self.longest_step_s = max(self.longest_step_s, time.perf_counter() - began)
        return self._perform(effects)

    def _perform(self, effects: tuple[Effect, ...]) -> bool:
        assert self._tasks is not None  # noqa: S101  # only `run` gets here
        continued = False
        tells: list[Notify] = []
        for effect in effects:
            match effect:
                case Changed(scope, topic):
                    self._mark(scope, topic)
                case Load() | Scan() | Render() | LookUp() | Check() | Compile() | Analyze() | Measure() | Record():
                    cancel_scope = self._scopes[effect.work.number] = CancelScope()
                    self._tasks.start_soon(self._work, effect, cancel_scope)
                case Cancel(work):
                    running = self._scopes.get(work.number)
                    if running is not None:
                        running.cancel()
                case Notify():
                    tells.append(effect)
                case UpdateWatches():
                    self.on_follow()
                case Continue():
                    continued = True
        self.on_stepped(tells)
        return continued

    def _mark(self, scope: str, topic: str) -> None:
        kind, _, name = topic.partition("/")
        if kind == "unit":
            key = UnitKey(scope, name)
            unit = self.state.find(key)
            self.diagnosed.update(key, unit.shown if unit is not None else frozenset())
            if unit is None:
                self.workshop.texts.drop(key)
        if scope != MAIN and scope not in self.state.scopes:
            self.diagnosed.update(UnitKey(scope, name), frozenset())
        self.feed.mark(scope, topic)

    async def _work(self, effect: WorkEffect, scope: CancelScope) -> None:
        """Do a piece of work; exactly one event comes of it, whatever happens."""
        work = effect.work
        event: AnyEvent = WorkAborted(work, at=time.time())
        try:
            with scope:
                event = await self._done(effect)
        except LostArtifactError as error:
            log.warning("%s of %s: %s; it is built again", work.kind, work.key, error)
            await self._send.send(ArtifactsLost(frozenset({error.artifact}), at=time.time()))
            event = WorkAborted(work, str(error), at=time.time())
        except CkwatchError as error:
            event = WorkAborted(work, str(error), at=time.time())
        except Exception as error:
            log.exception("%s of %s broke down", work.kind, work.key)
            event = WorkAborted(work, f"{type(error).__name__}: {error}", at=time.time())
        del self._scopes[work.number]
        await self._send.send(event)
        if isinstance(effect, Render):
            await self.workshop.finish(effect)

    async def _done(self, effect: WorkEffect) -> AnyEvent:
        match effect:
            case Load():
                return await self._load(effect)
            case Scan():
                known, disputed = self.state.graph.known_digests()
                return await self.workshop.scan(effect, known, disputed)
            case Render():
                return await self.workshop.render(effect)
            case LookUp():
                return await self.workshop.look_up(effect)
            case Check():
                return await self.workshop.check(effect)
            case Compile():
                return await self.workshop.compile(effect)
            case Analyze():
                return await self.analyze(effect)
            case Measure():
                return await self.measure(effect)
            case Record():
                return RecordFinished(effect.work, await self._record(self.state, effect), at=time.time())

    async def _load(self, effect: Load) -> LoadFinished:
        if not effect.urgent:
            await anyio.sleep(LOAD_DELAY_S)
        try:
            return await self.workshop.load(effect)
        except CkwatchError as error:
            return LoadFinished(effect.work, None, str(error), at=time.time())

    async def _measure_memory(self) -> None:
        """Tell the machine of the memory while compilers run or wait."""
        while True:
            if self.state.compile_queue or any(
                work.kind in ("check", "compile") for work in self.state.running.values()
            ):
                capacity = await to_thread.run_sync(capacity_bytes)
                if capacity is not None:
                    self.post_soon(MemoryMeasured(capacity, at=time.time()))
            await anyio.sleep(MEMORY_INTERVAL_S)


async def _cannot_analyze(effect: Analyze) -> AnalyzeFinished:
    return AnalyzeFinished(effect.work, None, at=time.time())


async def _cannot_measure(effect: Measure) -> MeasureFinished:
    return MeasureFinished(effect.work, None, "this daemon times nothing", at=time.time())
