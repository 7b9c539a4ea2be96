"""Tuning: the best instance of a kernel for each shape, in as few compiles and measurements as possible.

A strategy proposes points for each shape. Instances are built beside each other, and those that are built are timed,
on each device one at a time, as in a race: briefly, and given up when they are certainly slower than the best. What is
found is written to a journal before anything else is done with it, so that a run that is killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ckwatch.bench.report import KERNEL_FAILURES, FailureKind
from ckwatch.client.errors import LOST_ERRORS
from ckwatch.client.sweep import Parameters, instance_tables
from ckwatch.client.tuning_files import write_winners
from ckwatch.client.tuning_journal import JournalRow, TuningJournal, parameters_text
from ckwatch.client.tuning_plan import TuningPlan, make_plan
from ckwatch.client.tuning_runs import journal_path
from ckwatch.model.devices import can_run, devices_for
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.targets import DEVICE_KINDS, Language, language_of
from ckwatch.prediction.predict import target_of_device
from ckwatch.tuning.dispatch import DispatchSet, dispatch_set
from ckwatch.tuning.results import (
    INTERVAL_ERRORS,
    TIMED,
    BestInstance,
    EvaluatedPoint,
    EvaluationStatus,
    RunBest,
    ShapeResult,
    TuningRecord,
    TuningRun,
)
from ckwatch.tuning.space import Point
from ckwatch.tuning.strategies import STRATEGIES, Search

if TYPE_CHECKING:
    from ckwatch.client.builds import BuildResult
    from ckwatch.client.overlays import Overlay
    from ckwatch.wire.benchmarks import BenchLine, Device, Devices, RankedTiming, Timing
    from ckwatch.wire.imported_timings import ImportedTiming
    from ckwatch.wire.state import Unit

PATIENCE = 40
"""A shape's search ends after so many evaluations that have brought nothing."""

GAIN = 0.005
"""A part by which a time must be shorter to count as better."""

CLEARLY_WORSE = 1.05
"""An instance is given up when it is certainly slower than the upper end of the best one's interval by this factor:
those that may be within some percent of the best are measured, since a dispatcher chooses among them."""

SLOW_COMPILE = 4.0
"""A compile is given up that takes so many times the median of the others, and at least SLOW_COMPILE_S."""

SLOW_COMPILE_S = 60.0
COMPILES_KNOWN = 5
"""Compiles that must have ended before one can be slow."""

TRIES = 3
"""How often what the daemon or the machine failed to do is tried."""

RETRY_S = 1.0
KNOWN_SEEDS = 3
"""So many of the best known instances on a shape begin a search."""

OVERLAY_SPARE = 32
"""Instances that are done with and stay in the overlay, before it is written anew."""

FINAL_SHAPES = 24
"""With up to so many shapes, the best instances of each are timed on the others, for the smallest set."""

STATUS_OF: Mapping[str, EvaluationStatus] = {
    **{kind.value: EvaluationStatus.CRASHED for kind in KERNEL_FAILURES},
    **{
        kind.value: EvaluationStatus.WRONG
        for kind in (
            *(FailureKind.WRONG, FailureKind.UNWRITTEN, FailureKind.OUT_OF_BOUNDS, FailureKind.NONDETERMINISTIC),
            FailureKind.IMPOSSIBLE,
        )
    },
    FailureKind.HUNG.value: EvaluationStatus.HUNG,
    FailureKind.REFUSED.value: EvaluationStatus.REFUSED,
    FailureKind.LOCAL_MEMORY.value: EvaluationStatus.REFUSED,
}
"""What a failed measurement says of an instance, by the kind of the failure."""


@dataclass(frozen=True, slots=True)
class TuningStep:
    """Something that has happened: `point` has a new result, which is the `best` on its shape so far, or not.

    `known`: it was measured by an earlier run. `measured`: how many results were measured so far, known ones too.
    """

    point: EvaluatedPoint
    result: ShapeResult
    best: bool
    known: bool
    measured: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """How to tune. `measurements` and `budget_s` end the run with the best so far; `patience`: evaluations of a shape
    that bring nothing, after which its search ends. `racing`: give up what is clearly worse. `jobs`: compiles at a
    time."""

    strategy: str = "local"
    seed: int = 0
    budget_s: float | None = None
    measurements: int | None = None
    patience: int | None = PATIENCE
    racing: bool = True
    jobs: int | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise CkwatchError(f"there is no strategy '{self.strategy}'", f"there are {', '.join(STRATEGIES)}")


@dataclass(slots=True)
class _Build:
    """An instance that is being built, or was. `failed` says why it cannot be timed. `turn`: the daemon times a unit on
    one shape at a time, so that a device that waited for its turn would have nothing to do."""

    done: anyio.Event = field(default_factory=anyio.Event)
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    unit: Unit | None = None
    failed: ShapeResult | None = None


class _Turns:
    """On the processor, compilers and measurements take turns: the daemon ends a measurement for a compiler.

    Builds begin when no measurement runs or waits, and measurements when no build runs.
    """

    def __init__(self) -> None:
        self._changed = anyio.Condition()
        self._building = self._measuring = 0

    @asynccontextmanager
    async def build(self) -> AsyncIterator[None]:
        """As long as it is open, nothing is measured."""
        async with self._changed:
            while self._measuring:
                await self._changed.wait()
            self._building += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changed:
                    self._building -= 1
                    self._changed.notify_all()

    @asynccontextmanager
    async def measurement(self) -> AsyncIterator[None]:
        """As long as it is open, nothing is built."""
        self._measuring += 1
        try:
            async with self._changed:
                while self._building:
                    await self._changed.wait()
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changed:
                    self._measuring -= 1
                    self._changed.notify_all()


@dataclass(slots=True)
class _ShapeSearch:
    """The search for one shape. `offered` are points that were good on other shapes."""

    name: str
    problem: str
    search: Search
    proposals: Iterator[Point | None]
    offered: deque[Point] = field(default_factory=deque)
    arrived: deque[tuple[Point, float]] = field(default_factory=deque)
    """Costs that the strategy, which runs in a thread, does not know yet."""
    asked: set[Point] = field(default_factory=set)
    results: dict[Point, ShapeResult] = field(default_factory=dict)
    best: tuple[float, Point] | None = None
    recalled: dict[Point, JournalRow] = field(default_factory=dict)
    """What earlier runs have found of points that this one has not proposed yet."""
    idle: int = 0
    """Evaluations since the last gain."""
    over: bool = False

    def proposal(self) -> Point | None:
        """What the strategy proposes next; for a thread, one at a time."""
        while self.arrived:
            point, cost = self.arrived.popleft()
            self.search.known[point] = cost
        return next(self.proposals, None)

    @property
    def limit_us(self) -> float | None:
        """Above this time an instance is clearly worse than the best."""
        if self.best is None:
            return None
        found = self.results[self.best[1]]
        return CLEARLY_WORSE * (found.high_us or self.best[0])


class TuningClient(Protocol):
    """What a run asks of a `Client`."""

    root: Path

    async def build(self, *patterns: str) -> BuildResult: ...

    def bench(
        self, *patterns: str, shapes: Iterable[str] | None, device: str | None, race: bool, limit_us: float | None
    ) -> AbstractAsyncContextManager[AsyncIterator[BenchLine]]: ...

    def adding_to(self, path: str) -> AbstractAsyncContextManager[Overlay]: ...

    async def devices(self) -> Devices: ...

    async def best(self, kernel: str) -> list[RankedTiming]: ...

    async def imported_timings(self, kernel: str, *, arch: str) -> list[ImportedTiming]: ...


class Tuning:
    """A run. Iterate over it to see each result as it settles; it has ended when the iteration ends.

    `record` is what was found so far. Leaving the context of `Client.tune` ends the run at once, with what it has.
    """

    def __init__(
        self,
        client: TuningClient,
        plan: TuningPlan,
        options: TuningOptions,
        devices: Sequence[Device],
        journal: TuningJournal,
        overlay: Overlay,
        *,
        again: bool = False,
    ) -> None:
        self.plan = plan
        self.options = options
        self.devices = tuple(devices)
        self.ended = ""
        """Why the run has ended; empty while it goes on."""
        self.compiles = 0
        """Instances that a compiler was asked for in this run."""
        self.id = 0
        """The run's number, as in `TuningRun.id`, once it has begun."""
        self._client = client
        self._journal = journal
        self._searches = [self._search(shape.name, dict(shape.sizes), dict(shape.runtime)) for shape in plan.shapes]
        self._builds: dict[Point, _Build] = {}
        self._again = again
        self._points: dict[Point, EvaluatedPoint] = {}
        self._earlier: dict[Point, EvaluatedPoint] = {}
        self._kept: set[int] = set()
        self._last_order = 0
        self._unwritten: dict[int, EvaluatedPoint] = {}
        self._write_due = anyio.Event()
        self._measured = 0
        self._begun = time.monotonic()
        self._before_s = 0.0
        self._compile_s: list[float] = []
        self._changed = anyio.Event()
        self._free: deque[Device] = deque(devices)
        self._device_free = anyio.Condition()
        self._overlay = overlay
        self._overlaid: dict[str, Parameters] = {}
        self._in_use: Counter[str] = Counter()
        self._overlay_order = anyio.Lock()
        jobs = options.jobs or plan.jobs or len(os.sched_getaffinity(0))
        self._compilers = anyio.CapacityLimiter(jobs)
        on_processor = language_of(plan.kernel.template) is Language.CPP
        self._turns = _Turns() if on_processor else None
        self._room = jobs if on_processor else jobs + 2 * len(self.devices)
        self._send: MemoryObjectSendStream[TuningStep]
        self._receive: MemoryObjectReceiveStream[TuningStep]
        self._send, self._receive = anyio.create_memory_object_stream[TuningStep](math.inf)

    def __aiter__(self) -> AsyncIterator[TuningStep]:
        return self._receive

    @property
    def seconds(self) -> float:
        """How long the run has gone on, before it was killed too."""
        return self._before_s + time.monotonic() - self._begun

    @property
    def measured(self) -> int:
        """Results that were measured, by this run and earlier ones that it goes on from."""
        return self._measured

    @property
    def record(self) -> TuningRecord:
        """What was found so far."""
        return TuningRecord(
            kernel=self.plan.kernel.name,
            arch=self.plan.arch,
            strategy=self.options.strategy,
            seed=self.options.seed,
            shapes=tuple(shape.name for shape in self.plan.shapes),
            points=tuple(sorted(self._points.values(), key=lambda point: point.order)),
            space_size=self.plan.space.size,
            budget_s=self.options.budget_s,
            seconds=self.seconds,
            ended=self.ended,
            coverage=self.plan.coverage,
        )

    def best(self, shape: str) -> BestInstance | None:
        """The fastest instance on a shape so far."""
        return self.record.best(shape)

    def dispatch_set(self) -> DispatchSet | None:
        """The fewest instances of which one is within 2 % of the best on every shape; None before anything is timed."""
        times = {shape: own for shape, own in self.record.times().items() if own}
        return dispatch_set(times) if times else None

    async def finish(self) -> TuningRecord:
        """Wait for the end of the run; what it found."""
        async for _ in self:
            pass
        return self.record

    async def write_winners(self) -> list[str]:
        """Append the instances of `dispatch_set` to the kernel file, but for those that it has; their names.

        Also when the run is over. Raises CkwatchError where the file does not take them; it is then as it was.
        """
        return await to_thread.run_sync(lambda: write_winners(self.plan, self.record, self.dispatch_set()))

    # The run.

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Search until all searches have ended, or the budget has. Raises CkwatchError when the machine cannot."""
        try:
            await to_thread.run_sync(self._register)
            ended = problem = ""
            try:
                task_status.started()
                async with plain_errors(), anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write_points)
                    await self._search_within_budget()
                    tasks.cancel_scope.cancel()
                ended = self.ended
            except CkwatchError as error:
                problem = error.message
                raise
            finally:
                with anyio.CancelScope(shield=True):
                    run, points = self._unwritten_progress(ended, problem)
                    await to_thread.run_sync(self._journal.leave, run, points, self._outdated() if ended else [])
        finally:
            self._send.close()

    async def _search_within_budget(self) -> None:
        await self._resume()
        left_s = math.inf if self.options.budget_s is None else self.options.budget_s - self.seconds
        with anyio.move_on_after(max(0.0, left_s)) as budget:
            await self._search_all()
            await self._final_heats()
        if budget.cancelled_caught:
            for search in self._searches:
                await self._take_over_the_rest(search)
            self.ended = "the budget is used up"

    def _register(self) -> None:
        """Begin in the journal, or go on with a run of this name that was interrupted; for a thread."""
        options = asdict(self.options)
        now = time.time()
        run = TuningRun(
            id=0,
            kernel=self.plan.kernel.name,
            arch=self.plan.arch,
            device=self._device_kind,
            devices=tuple(device.label for device in self.devices),
            problems={shape.name: {**shape.sizes, **shape.runtime} for shape in self.plan.shapes},
            resumable=not self.plan.is_listed,
            began_at=now,
            last_active=now,
            **options,
        )
        self._run, points = self._journal.begin(self._run_name(), run, self.plan.coverage, anew=self._again)
        self.id, self._before_s = self._run.id, self._run.seconds
        self._kept = {point.order for point in points}
        self._last_order = max(self._kept, default=0)
        for evaluated in points:
            if (point := self.plan.point_of(evaluated.parameters)) is not None:
                self._earlier[point] = evaluated

    async def _write_points(self) -> None:
        """Keep points as they are evaluated: those that settle during a write go into the next one."""
        while True:
            await self._write_due.wait()
            self._write_due = anyio.Event()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._journal.keep, *self._unwritten_progress())

    def _unwritten_progress(self, ended: str = "", error: str = "") -> tuple[TuningRun, list[EvaluatedPoint]]:
        """The run as it is, and the points that the journal does not have so."""
        points, self._unwritten = list(self._unwritten.values()), {}
        best = {
            search.name: RunBest(self._points[search.best[1]].instance, search.best[0])
            for search in self._searches
            if search.best is not None
        }
        measured, known = self._measured, set(self._points)
        if not ended:  # what was found before an interruption comes back bit by bit
            measured = max(measured, self._run.measured)
            known |= self._earlier.keys()
            for shape, before in self._run.best.items():
                best[shape] = min(before, best.get(shape, before), key=lambda one: one.median_us)
        run = replace(
            self._run,
            last_active=time.time(),
            seconds=self.seconds,
            ended=ended,
            error=error,
            measured=measured,
            points=len(known),
            best=best,
        )
        return run, points

    def _outdated(self) -> list[int]:
        """The numbers of points that the journal has from before an interruption, and that have no results any more."""
        return sorted(self._kept.difference(point.order for point in self._points.values()))

    def close(self) -> None:
        """Give up what was not iterated over; the run is over."""
        self._send.close()
        self._receive.close()

    def _run_name(self) -> str:
        space = [[axis.parameter, *map(str, axis.values)] for axis in self.plan.space.axes]
        shapes = [search.problem for search in self._searches]
        parts = (self.plan.kernel.name, self.plan.arch, self.options.strategy, self.options.seed, space, shapes)
        return hashlib.sha256(json.dumps([*parts, self._device_kind]).encode()).hexdigest()

    @property
    def _device_kind(self) -> str:
        return self.devices[0].description

    def _search(self, shape: str, sizes: dict[str, int], runtime: dict[str, int | float]) -> _ShapeSearch:
        search = Search(
            space=self.plan.space,
            rng=random.Random(f"{self.options.seed} {shape}"),  # noqa: S311  # a search
            predicted=lambda point: self.plan.predicted_us(point, shape),
        )
        return _ShapeSearch(
            name=shape,
            problem=json.dumps([sizes, runtime], sort_keys=True),
            search=search,
            proposals=iter(()),
        )

    def begin(self, seeds: Mapping[str, Sequence[Point]]) -> None:
        """Begin the searches, each with these points."""
        for one in self._searches:
            one.search.seeds = tuple(seeds.get(one.name, ()))
            one.proposals = STRATEGIES[self.options.strategy](one.search)

    async def _resume(self) -> None:
        """Recall what earlier runs have found. The search proposes the same points again, whose results are at hand."""
        rows = await to_thread.run_sync(self._journal.rows, self.plan.kernel.name, self._device_kind)
        for row in rows:
            point = await to_thread.run_sync(self.plan.point_of, row.parameters)
            if point is None:
                continue
            if row.result.status is EvaluationStatus.COMPILE_ABORTED:
                build = self._builds[point] = _Build(failed=row.result)
                build.done.set()
            for search in self._searches:
                if row.problem in ("", search.problem):
                    search.recalled[point] = row

    async def _take_over_the_rest(self, search: _ShapeSearch) -> None:
        """The search goes on beyond what it has proposed before: what else is known of its points counts, too."""
        rest, search.recalled = search.recalled, {}
        async with plain_errors(), anyio.create_task_group() as tasks:
            for point in rest:
                tasks.start_soon(self._built, point)
        for point, row in rest.items():
            if point not in search.results:
                await self._take_over(search, point, row)

    async def _take_over(self, search: _ShapeSearch, point: Point, row: JournalRow) -> bool:
        """Take a result over, if it is of what the instance compiles to now."""
        build = self._builds[point]
        if build.failed is not None:
            await self._failed(point, build.failed, known=True)
            return True
        if build.unit is None or row.artifact != build.unit.key:
            return False
        await self._settle(search, point, replace(row.result, shape=search.name), "", known=True)
        return True

    async def _search_all(self) -> None:
        running = 0

        async def evaluate(search: _ShapeSearch, point: Point) -> None:
            nonlocal running
            try:
                await self._evaluate(search, point)
            finally:
                running -= 1
                self._changed.set()

        async with plain_errors(), anyio.create_task_group() as tasks:
            turn = 0
            while True:
                self._changed = anyio.Event()
                if self._is_spent(running):
                    if not running:
                        break
                    await self._changed.wait()
                    continue
                proposed = None
                for at in range(len(self._searches)):
                    search = self._searches[(turn + at) % len(self._searches)]
                    point = await self._next_point(search) if running < self._room else None
                    if point is not None:
                        proposed, turn = (search, point), turn + at + 1
                        break
                if proposed is not None:
                    search, point = proposed
                    if search.recalled and point not in search.recalled:
                        await self._take_over_the_rest(search)
                    running += 1
                    tasks.start_soon(evaluate, *proposed)
                elif not running:
                    break
                else:
                    await self._changed.wait()
        for search in self._searches:
            await self._take_over_the_rest(search)
        if not self.ended:
            patient = any(search.over for search in self._searches)
            self.ended = "nothing better was found for long" if patient else "everything was looked at"

    def _is_spent(self, running: int) -> bool:
        limit = self.options.measurements
        if limit is not None and self._measured + running >= limit:
            if self._measured >= limit:
                self.ended = "all measurements of the budget are done"
            return True
        return False

    async def _next_point(self, search: _ShapeSearch) -> Point | None:
        """The next point to evaluate for a shape; None where there is none, or none yet."""
        if search.over:
            return None
        patience = self.options.patience
        if patience is not None and search.idle >= patience and not search.offered:
            search.over = True
            return None
        while search.offered:
            point = search.offered.popleft()
            if point not in search.asked and point not in search.results:
                search.asked.add(point)
                return point
        while True:
            point_or_none = await to_thread.run_sync(search.proposal)
            if point_or_none is None:
                return None
            if point_or_none not in search.asked and point_or_none not in search.results:
                search.asked.add(point_or_none)
                return point_or_none

    async def _evaluate(self, search: _ShapeSearch, point: Point) -> None:
        reason = self.plan.unsupported(point, search.name)
        if reason:
            refused = ShapeResult(shape=search.name, status=EvaluationStatus.REFUSED, reason=reason)
            await self._settle(search, point, refused, "")
            return
        row = search.recalled.pop(point, None)  # before anything is waited for: else the rest is taken over with it
        build = await self._built(point)
        if row is not None and await self._take_over(search, point, row):
            return
        if build.failed is not None:
            await self._failed(point, build.failed)
        elif build.unit is not None:
            async with build.turn, self._turns.measurement() if self._turns else nullcontext():
                await self._measure(search, point, build.unit)

    async def _failed(self, point: Point, failed: ShapeResult, *, known: bool = False) -> None:
        """An instance that cannot be built is none for any shape."""
        for other in self._searches:
            if point not in other.results:
                await self._settle(other, point, replace(failed, shape=other.name), "", known=known)

    async def _settle(
        self, search: _ShapeSearch, point: Point, result: ShapeResult, device: str, *, known: bool = False
    ) -> None:
        """Take a result, which the journal has."""
        search.results[point] = result
        search.asked.add(point)
        cost = result.median_us if result.status in TIMED and result.median_us is not None else math.inf
        search.arrived.append((point, cost))
        counted = result.status in TIMED or result.status in (
            *(EvaluationStatus.WRONG, EvaluationStatus.CRASHED, EvaluationStatus.HUNG),
        )
        self._measured += counted
        better = result.status is EvaluationStatus.MEASURED and (search.best is None or cost < search.best[0])
        gained = better and (search.best is None or cost < search.best[0] * (1 - GAIN))
        if better:
            search.best = (cost, point)
            for other in self._searches:
                if other is not search:
                    other.offered.append(point)
        search.idle = 0 if gained else search.idle + 1
        evaluated = self._points.get(point)
        if evaluated is None:
            evaluated = self._evaluated(point, result, device)
        evaluated = replace(evaluated, results=(*evaluated.results, result), device=device or evaluated.device)
        self._points[point] = self._unwritten[evaluated.order] = evaluated
        self._write_due.set()
        self._changed.set()
        await self._send.send(TuningStep(evaluated, result, better, known, self._measured, self.seconds))

    def _evaluated(self, point: Point, result: ShapeResult, device: str) -> EvaluatedPoint:
        """A point with its first result; what was found before an interruption keeps its place."""
        earlier = self._earlier.get(point)
        if earlier is not None and result in earlier.results:
            return replace(earlier, results=())
        if earlier is None:
            self._last_order += 1
        return EvaluatedPoint(
            order=self._last_order if earlier is None else earlier.order,
            seconds=self.seconds,
            instance=self.plan.name_of(point),
            parameters=self.plan.space.parameters(point) or {},
            results=(),
            device=device,
        )

    async def _final_heats(self) -> None:
        """Time the best instances of each shape on the others, so that a dispatcher can do with few of them."""
        if len(self._searches) > FINAL_SHAPES:
            return
        winners = dict.fromkeys(search.best[1] for search in self._searches if search.best is not None)
        async with plain_errors(), anyio.create_task_group() as tasks:
            for search in self._searches:
                for point in winners:
                    limit = self.options.measurements
                    if point not in search.results and (limit is None or self._measured < limit):
                        search.asked.add(point)
                        tasks.start_soon(self._evaluate, search, point)

    # Builds.

    async def _built(self, point: Point) -> _Build:
        """The instance's build, once it has ended."""
        build = self._builds.get(point)
        if build is not None:
            await build.done.wait()
            return build
        build = self._builds[point] = _Build()
        try:
            async with self._turns.build() if self._turns else nullcontext(), self._compilers:
                await self._build(point, build)
        except BaseException:
            del self._builds[point]  # it was not this instance's fault
            raise
        finally:
            build.done.set()
        return build

    async def _build(self, point: Point, build: _Build) -> None:
        name = self.plan.name_of(point)
        unit = f"{self.plan.kernel.name}/{name}@{self.plan.arch}"
        for attempt in range(TRIES):
            begun = time.monotonic()
            try:
                with anyio.CancelScope() as scope:
                    async with plain_errors(), anyio.create_task_group() as tasks, self._overlaying(point, name):
                        tasks.start_soon(self._end_slow_compile, scope, begun)
                        outcome = await self._client.build(escape(unit))
                        tasks.cancel_scope.cancel()
                if scope.cancelled_caught:
                    usual_s = statistics.median(self._compile_s)
                    reason = f"given up after {time.monotonic() - begun:.0f} s: the others took {usual_s:.0f} s"
                    build.failed = ShapeResult(shape="", status=EvaluationStatus.COMPILE_ABORTED, reason=reason)
                    await self._write(point, "", "", build.failed)
                    return
            except LOST_ERRORS:
                if attempt + 1 == TRIES:
                    raise
                await anyio.sleep(RETRY_S)
                continue
            break
        result = next((one for one in outcome.units if one.unit is not None), None)
        found = None if result is None else result.unit
        if result is None or found is None:
            problem = outcome.units[0].problem if outcome.units else "it is not there"
            raise CkwatchError(f"'{unit}' was not built: {problem}", "`ckwatch logs` may say more")
        if found.outcome == "faulted":
            text = error.message if (error := result.first_error) else "the compiler could not be run"
            raise CkwatchError(f"'{unit}' could not be compiled: {text}")
        if not found.from_store and found.seconds and found.outcome in ("built", "failed"):
            self.compiles += 1
            if found.outcome == "built":
                self._compile_s.append(time.monotonic() - begun)
        if found.outcome != "built":
            status = EvaluationStatus.REFUSED if result.skipped else EvaluationStatus.COMPILE_FAILED
            reason = error.message if (error := result.first_error) else str(found.outcome)
            build.failed = ShapeResult(shape="", status=status, reason=reason)
            return
        build.unit = found

    async def _end_slow_compile(self, scope: anyio.CancelScope, begun: float) -> None:
        """End a build that takes far longer than the others have."""
        while True:
            await anyio.sleep(1.0)
            if len(self._compile_s) >= COMPILES_KNOWN:
                limit_s = max(SLOW_COMPILE_S, SLOW_COMPILE * statistics.median(self._compile_s))
                if time.monotonic() - begun > limit_s:
                    scope.cancel()
                    return

    @asynccontextmanager
    async def _overlaying(self, point: Point, name: str) -> AsyncIterator[None]:
        """As long as it is open, this client's view of the kernel file has the instance, as the file may itself."""
        self._in_use[name] += 1
        try:
            if name not in self.plan.present and name not in self._overlaid:
                await self._add_to_overlay(point, name)
            yield
        finally:
            self._in_use[name] -= 1

    async def _add_to_overlay(self, point: Point, name: str) -> None:
        async with self._overlay_order:
            if name in self._overlaid:
                return
            done = [one for one in self._overlaid if not self._in_use[one]]
            if len(done) > OVERLAY_SPARE:
                for one in done[: len(done) - OVERLAY_SPARE // 2]:
                    del self._overlaid[one]
            self._overlaid[name] = self.plan.space.parameters(point) or {}
            text = await to_thread.run_sync(instance_tables, dict(self._overlaid), {})
            await self._overlay.change(text)

    # Measurements.

    async def _measure(self, search: _ShapeSearch, point: Point, unit: Unit) -> None:
        name = self.plan.name_of(point)
        async with self._overlaying(point, name), self._device() as device:
            timing = await self._timing(search, unit.id, device)
        result = shape_result(timing, search.name)
        await self._write(point, unit.key or "", search.problem, result)
        await self._settle(search, point, result, device.label)

    @asynccontextmanager
    async def _device(self) -> AsyncIterator[Device]:
        """A device that has nothing else to do for this run."""
        async with self._device_free:
            while not self._free:
                await self._device_free.wait()
            device = self._free.popleft()
        try:
            yield device
        finally:
            with anyio.CancelScope(shield=True):
                async with self._device_free:
                    self._free.append(device)
                    self._device_free.notify()

    async def _timing(self, search: _ShapeSearch, unit: str, device: Device) -> Timing:
        """A timing, of one cache state. Raises CkwatchError where the machine, not the kernel, is why there is none."""
        why = ""
        for attempt in range(TRIES):
            if attempt:
                await anyio.sleep(RETRY_S)
            limit_us = search.limit_us if self.options.racing else None
            racing = self._client.bench(
                escape(unit), shapes=[search.name], device=device.address, race=True, limit_us=limit_us
            )
            try:
                async with racing as lines:
                    async for line in lines:
                        if line.event == "timing" and line.timing is not None:
                            if line.timing.failure is None or line.timing.failure in STATUS_OF:
                                return line.timing
                            why = line.timing.message
                        elif line.event == "skipped":
                            why = line.text
            except LOST_ERRORS as error:
                why = error.message
        raise CkwatchError(f"'{unit}' could not be timed on {device.label}: {why}")

    async def _write(self, point: Point, artifact: str, problem: str, result: ShapeResult) -> None:
        parameters = self.plan.space.parameters(point) or {}
        row = JournalRow(parameters, artifact or parameters_text(parameters), problem, result, time.time())
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._journal.add, self.plan.kernel.name, self._device_kind, row)


def shape_result(timing: Timing, shape: str) -> ShapeResult:
    """What a timing says of an instance; its interval holds the true median with a probability of 95 %."""
    if timing.failure is not None:
        status = STATUS_OF.get(timing.failure, EvaluationStatus.CRASHED)
        return ShapeResult(shape=shape, status=status, reason=timing.message)
    if not timing.verified:
        return ShapeResult(shape=shape, status=EvaluationStatus.WRONG, reason="its result was not verified")
    away_us = INTERVAL_ERRORS / 2 * timing.relative_error * timing.median_us
    return ShapeResult(
        shape=shape,
        status=EvaluationStatus.DROPPED if timing.given_up else EvaluationStatus.MEASURED,
        median_us=timing.median_us,
        low_us=timing.median_us - away_us,
        high_us=timing.median_us + away_us,
        reason="clearly slower than the best" if timing.given_up else "",
    )


@asynccontextmanager
async def open_tuning(
    client: TuningClient,
    kernel: str,
    options: TuningOptions,
    *,
    shapes: Sequence[str] | None = None,
    arch: str | None = None,
    devices: Sequence[str] = (),
    listed: Mapping[str, Parameters] | None = None,
    again: bool = False,
) -> AsyncIterator[Tuning]:
    """A tuning run, which goes on as long as the context is open and ends with it; see `Client.tune`."""
    found = await client.devices()
    plan = await to_thread.run_sync(
        partial(make_plan, client.root, kernel, arch=arch, shapes=shapes, listed=listed, seed=options.seed)
    )
    chosen = chosen_devices(plan, found, devices)
    plan = replace(plan, target=await to_thread.run_sync(target_of_device, facts_of(chosen[0])))
    journal = TuningJournal(await to_thread.run_sync(journal_path, client.root))
    try:
        if again:
            await to_thread.run_sync(journal.forget, kernel)
        async with client.adding_to(plan.kernel.path) as overlay:
            tuning = Tuning(client, plan, options, chosen, journal, overlay, again=again)
            tuning.begin(await _seeds(client, plan, options.seed))
            with closing(tuning):
                async with plain_errors(), anyio.create_task_group() as tasks:
                    await tasks.start(tuning.run)
                    yield tuning
                    tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(journal.close)


def chosen_devices(plan: TuningPlan, found: Devices, wanted: Sequence[str]) -> tuple[Device, ...]:
    """The devices to measure on, all of one kind: those that are `wanted`, by name or PCI address (of another machine
    behind `HOST/`), `all` for every one like the best, and by default the best. Raises CkwatchError."""
    kind = DEVICE_KINDS[language_of(plan.kernel.template)]
    facts = {facts_of(one): one for one in found.devices}
    by_itself = list(wanted) in ([], ["auto"], ["all"])
    if by_itself:
        there = [facts[one] for one in devices_for(facts, kind, plan.arch)]
    else:
        there = [device for one, device in facts.items() if one.kind == kind and can_run(plan.arch, one)]
    if not there:
        why = found.absent.get(kind) or f"there is {', '.join(one.label for one in found.devices) or 'none'}"
        raise CkwatchError(f"there is no device to time '{plan.kernel.name}' for {plan.arch} on", why)
    if by_itself:
        return tuple(there) if list(wanted) == ["all"] else (there[0],)
    chosen = []
    for name in dict.fromkeys(wanted):
        device = next((one for one in there if facts_of(one).is_called(name)), None)
        if device is None:
            raise CkwatchError(f"there is no device {name}", f"there is {', '.join(one.label for one in there)}")
        chosen.append(device)
    if len({one.description for one in chosen}) > 1:
        kinds = ", ".join(f"{one.label} is a {one.description}" for one in chosen)
        raise CkwatchError("instances are compared on devices of one kind", kinds)
    return tuple(chosen)


def facts_of(device: Device) -> DeviceFacts:
    """The device as its runtime names it."""
    return DeviceFacts(
        name=device.name, description=device.description, arch=device.arch, pci=device.pci, machine=device.machine
    )


async def _seeds(client: TuningClient, plan: TuningPlan, seed: int) -> dict[str, list[Point]]:
    """Where to begin for each shape: what was best here on it and on others, or others have found, then what is
    predicted to be."""
    known: dict[str, list[Point]] = {}
    for ranked in await client.best(plan.kernel.name) if plan.kernel.instances else []:
        if ranked.rank is None or ranked.rank > KNOWN_SEEDS or ranked.timing is None:
            continue
        if (point := plan.point_of(ranked.timing.parameters)) is not None:
            known.setdefault(ranked.shape, []).append(point)
    for imported in await client.imported_timings(plan.kernel.name, arch=plan.arch):
        if imported.parameters and imported.shape:
            like = plan.points_like(imported.parameters)
            known.setdefault(imported.shape, []).extend(like[:KNOWN_SEEDS])
    elsewhere = [point for points in known.values() for point in points[:1]]
    found = {}
    for shape in plan.shapes:
        predicted = await to_thread.run_sync(plan.predicted_best, shape.name, seed)
        found[shape.name] = list(dict.fromkeys([*known.get(shape.name, ()), *elsewhere, *predicted]))
    return found
