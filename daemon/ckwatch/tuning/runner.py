"""Tuning: the best instance of a kernel for each shape, in as few compiles and measurements as possible.

`Plan` says what is evaluated next. Instances are built beside each other, and those that are built are timed, on each
device one at a time, as in a race: briefly, and given up when they are certainly slower than the best. What is found is
written to a journal before anything else is done with it, so that a run that is killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from glob import escape
from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from ckwatch.bench.report import KERNEL_FAILURES, FailureKind
from ckwatch.model.errors import LOST_ERRORS, CkwatchError, plain_errors
from ckwatch.tuning.builds import Build, Builds, OverlaidInstances, ProcessorTurns
from ckwatch.tuning.client import RETRY_S, TRIES, TextOverlay, TuningClient
from ckwatch.tuning.dispatch import DispatchSet, dispatch_set
from ckwatch.tuning.journal import TuningJournal, parameters_text
from ckwatch.tuning.plan import WAIT, Evaluation, Plan, TuningOptions, TuningStep
from ckwatch.tuning.results import (
    INTERVAL_ERRORS,
    BestInstance,
    EvaluatedPoint,
    EvaluationStatus,
    KnownResult,
    ShapeResult,
    TuningRecord,
    TuningRun,
)
from ckwatch.tuning.space import Parameters, Point
from ckwatch.tuning.tuned_kernel import TunedKernel, problem_text
from ckwatch.tuning.winners import best_shapes, write_winners

if TYPE_CHECKING:
    from ckwatch.model.timings import Timing
    from ckwatch.tuning.client import TuningClient
    from ckwatch.wire.benchmarks import Device
    from ckwatch.wire.state import Unit

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
"""The status of an instance whose measurement failed, by the kind of the failure."""


class Measurements:
    """The devices of a run, and timings on them."""

    def __init__(self, client: TuningClient, devices: Sequence[Device], retry_s: float) -> None:
        self._client = client
        self._retry_s = retry_s
        self._free = deque(devices)
        self._turns = anyio.Semaphore(len(devices))

    @asynccontextmanager
    async def device(self) -> AsyncIterator[Device]:
        """A device that nothing else of this run is timed on meanwhile."""
        async with self._turns:
            device = self._free.popleft()
            try:
                yield device
            finally:
                self._free.append(device)

    async def result(self, unit: str, shape: str, device: Device, limit_us: float | None) -> ShapeResult:
        """Time a unit on a shape. Raises CkwatchError where the machine, not the kernel, is why that fails."""
        why = ""
        for attempt in range(TRIES):
            if attempt:
                await anyio.sleep(self._retry_s)
            racing = self._client.bench(
                escape(unit), shapes=[shape], device=device.address, race=True, limit_us=limit_us
            )
            try:
                async with racing as lines:
                    async for line in lines:
                        if line.event == "timing" and line.timing is not None:
                            if line.timing.failure is None or line.timing.failure in STATUS_OF:
                                return shape_result(line.timing, shape)
                            why = line.timing.message
                        elif line.event == "skipped":
                            why = line.text
            except LOST_ERRORS as error:
                why = error.message
        raise CkwatchError(f"'{unit}' could not be timed on {device.label}: {why}")


def shape_result(timing: Timing, shape: str) -> ShapeResult:
    """Convert a timing to an instance's result; its interval holds the true median with a probability of 95 %."""
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


class JournaledRun:
    """A run in the journal: `run` as it was when it began, or went on."""

    def __init__(self, journal: TuningJournal, run: TuningRun) -> None:
        self.run = run
        self._journal = journal
        self._begun = time.monotonic()
        self._due = anyio.Event()

    def begin(self, tuned: TunedKernel, *, anew: bool) -> tuple[list[KnownResult], list[EvaluatedPoint]]:
        """Begin, or go on with a run of this name that was interrupted: all that is known of the kernel, and the run's
        points. Blocks."""
        run = self.run
        space = [[axis.parameter, *map(str, axis.values)] for axis in tuned.space.axes]
        problems = [problem_text(shape) for shape in tuned.shapes]
        parts = (run.kernel, run.arch, run.strategy, run.seed, space, problems, run.device)
        name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        self.run, points = self._journal.begin(name, run, tuned.coverage, anew=anew)
        self._begun = time.monotonic() - self.run.seconds
        return self._journal.rows(run.kernel, run.device), points

    @property
    def seconds(self) -> float:
        """How long the run has gone on, before it was killed too."""
        return time.monotonic() - self._begun

    async def add(self, parameters: Parameters, artifact: str, problem: str, result: ShapeResult) -> None:
        """Keep a result; it is safe when this returns."""
        known = KnownResult(parameters, artifact or parameters_text(parameters), problem, result, time.time())
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._journal.add, self.run.kernel, self.run.device, known)

    def note(self) -> None:
        """Tell `follow` that the plan has something new."""
        self._due.set()

    async def follow(self, plan: Plan) -> None:
        """Keep points as they are evaluated: those that settle during a write go into the next one."""
        while True:
            await self._due.wait()
            self._due = anyio.Event()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._journal.keep, self.progress(plan), plan.evaluated.unwritten())

    async def leave(self, plan: Plan, ended: str, error: str) -> None:
        """Keep how the run has ended, or was interrupted."""
        run, points = self.progress(plan, ended, error), plan.evaluated.unwritten()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._journal.leave, run, points, plan.evaluated.outdated() if ended else [])

    def progress(self, plan: Plan, ended: str = "", error: str = "") -> TuningRun:
        """How far the run is."""
        progress = plan.progress(self.run, ended)
        return replace(progress, last_active=time.time(), seconds=self.seconds, error=error)


class Evaluated(NamedTuple):
    """The result of an evaluation; `known` from an earlier run, else on `device` if it was measured."""

    result: ShapeResult
    device: str = ""
    known: bool = False


class Evaluator:
    """Builds and times what the plan says."""

    def __init__(
        self,
        client: TuningClient,
        plan: Plan,
        tuned: TunedKernel,
        overlay: TextOverlay,
        devices: Sequence[Device],
        journaled: JournaledRun,
        retry_s: float,
    ) -> None:
        self._plan = plan
        self._tuned = tuned
        self._journaled = journaled
        self._turns = ProcessorTurns(on_processor=tuned.on_processor)
        self._instances = OverlaidInstances(overlay, tuned)
        self.builds = Builds(client, tuned, self._instances, self._turns, jobs=plan.jobs, retry_s=retry_s)
        self._measurements = Measurements(client, devices, retry_s)

    async def evaluate(self, evaluation: Evaluation) -> Evaluated:
        """Evaluate a point on a shape, unless an earlier run has."""
        if (refused := self._plan.refusal(evaluation)) is not None:
            return Evaluated(refused)
        build, outcome = await self._built(evaluation.point)
        if (known := _taken_over(evaluation, outcome)) is not None:
            return known
        if isinstance(outcome, ShapeResult):
            return Evaluated(outcome)
        async with build.turn, self._turns.measurement():
            return await self._measured(evaluation, outcome)

    async def take_over(self, evaluation: Evaluation) -> Evaluated | None:
        """Build an instance, and return what an earlier run has found of it, if that counts now."""
        _, outcome = await self._built(evaluation.point)
        return _taken_over(evaluation, outcome)

    async def _built(self, point: Point) -> tuple[Build, Unit | ShapeResult]:
        build, outcome, is_new = await self.builds.of(point)
        if is_new and isinstance(outcome, ShapeResult) and outcome.status is EvaluationStatus.COMPILE_ABORTED:
            await self._journaled.add(self._tuned.space.parameters(point) or {}, "", "", outcome)
        return build, outcome

    async def _measured(self, evaluation: Evaluation, unit: Unit) -> Evaluated:
        shape, point = evaluation.shape, evaluation.point
        async with self._instances.having(point), self._measurements.device() as device:
            result = await self._measurements.result(unit.id, shape, device, self._plan.limit_us(shape))
        parameters = self._tuned.space.parameters(point) or {}
        await self._journaled.add(parameters, unit.key or "", self._plan.problem(shape), result)
        return Evaluated(result, device.label)


def _taken_over(evaluation: Evaluation, outcome: Unit | ShapeResult) -> Evaluated | None:
    """Return an earlier run's result if it belongs to what the instance compiles to now."""
    if evaluation.known is None:
        return None
    if isinstance(outcome, ShapeResult):
        return Evaluated(outcome, known=True)
    if evaluation.known.artifact != outcome.key:
        return None
    return Evaluated(replace(evaluation.known.result, shape=evaluation.shape), known=True)


class Tuning:
    """A run. Iterate over it to see each result as it settles; it has ended when the iteration ends.

    `record` is what was found so far. Leaving the context of `Client.tune` ends the run at once, with what it has.
    """

    def __init__(
        self,
        client: TuningClient,
        tuned: TunedKernel,
        options: TuningOptions,
        devices: Sequence[Device],
        journal: TuningJournal,
        overlay: TextOverlay,
        *,
        seeds: Mapping[str, Sequence[Point]] | None = None,
        again: bool = False,
        retry_s: float = RETRY_S,
    ) -> None:
        self.tuned = tuned
        self.options = options
        self.devices = tuple(devices)
        self._begin = partial(self._begun, again=again)
        self._plan = Plan(tuned, options, seeds or {}, devices=len(devices), processors=len(os.sched_getaffinity(0)))
        self._journaled = JournaledRun(journal, run_of(tuned, options, devices))
        self._evaluator = Evaluator(client, self._plan, tuned, overlay, devices, self._journaled, retry_s)
        self._turn = anyio.Lock()
        self._changed = anyio.Event()
        self._send, self._receive = anyio.create_memory_object_stream[TuningStep](math.inf)

    def __aiter__(self) -> AsyncIterator[TuningStep]:
        return self._receive

    @property
    def id(self) -> int:
        """The run's number, as in `TuningRun.id`, once it has begun."""
        return self._journaled.run.id

    @property
    def ended(self) -> str:
        """Why the run has ended; empty while it goes on."""
        return self._plan.ended

    @property
    def seconds(self) -> float:
        """How long the run has gone on, before it was killed too."""
        return self._journaled.seconds

    @property
    def measured(self) -> int:
        """Results that were measured, by this run and earlier ones that it goes on from."""
        return self._plan.measured

    @property
    def compiles(self) -> int:
        """Instances that a compiler was asked for in this run."""
        return self._evaluator.builds.compiles

    @property
    def record(self) -> TuningRecord:
        """The results so far."""
        points = sorted(self._plan.evaluated.points.values(), key=lambda point: point.order)
        return TuningRecord(
            run=self._journaled.progress(self._plan, self.ended), points=tuple(points), coverage=self.tuned.coverage
        )

    def best(self, shape: str) -> BestInstance | None:
        """The fastest instance on a shape so far."""
        return self.record.best(shape)

    def dispatch_set(self) -> DispatchSet | None:
        """The fewest instances of which one is within 2 % of the best on every shape, each with its best `kBatch`; None
        before anything is timed."""
        record = self.record
        every = record.times()
        times = {shape.name: every[shape.name] for shape, _ in best_shapes(self.tuned, record)}
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
        return await to_thread.run_sync(lambda: write_winners(self.tuned, self.record, self.dispatch_set()))

    def close(self) -> None:
        """Give up what was not iterated over; the run is over."""
        self._send.close()
        self._receive.close()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Search until all searches have ended, or the budget has. Raises CkwatchError when the machine cannot."""
        try:
            recalled = await to_thread.run_sync(self._begin)
            ended = problem = ""
            try:
                self._evaluator.builds.give_up(recalled)
                task_status.started()
                async with plain_errors(), anyio.create_task_group() as tasks:
                    tasks.start_soon(self._journaled.follow, self._plan)
                    await self._search_within_budget()
                    tasks.cancel_scope.cancel()
                ended = self.ended
            except CkwatchError as error:
                problem = error.message
                raise
            finally:
                await self._journaled.leave(self._plan, ended, problem)
        finally:
            self._send.close()

    def _begun(self, *, again: bool) -> Mapping[Point, KnownResult]:
        return self._plan.recall(*self._journaled.begin(self.tuned, anew=again))

    async def _search_within_budget(self) -> None:
        left_s = math.inf if self.options.budget_s is None else self.options.budget_s - self.seconds
        with anyio.move_on_after(max(0.0, left_s)) as budget:
            await self._search()
        if budget.cancelled_caught:
            for known in self._plan.take_over_rest():
                await self._take_over(known)
            self._plan.ended = "the budget is used up"

    async def _search(self) -> None:
        steps = self._plan.steps()
        async with plain_errors(), anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                async with self._turn:
                    step = await to_thread.run_sync(next, steps, None)
                if step is None:
                    return
                if step == WAIT:
                    await self._changed.wait()
                elif isinstance(step, Evaluation):
                    tasks.start_soon(self._evaluate, step)
                else:
                    await self._take_over(step)

    async def _evaluate(self, evaluation: Evaluation) -> None:
        found = await self._evaluator.evaluate(evaluation)
        async with self._turn:
            self._plan.finish()
            self._settle(evaluation.point, found)

    async def _take_over(self, evaluations: Sequence[Evaluation]) -> None:
        async with plain_errors(), anyio.create_task_group() as tasks:
            for evaluation in evaluations:
                tasks.start_soon(self._evaluator.take_over, evaluation)
        for evaluation in evaluations:
            found = await self._evaluator.take_over(evaluation)
            async with self._turn:
                if found is not None and not self._plan.is_settled(evaluation):
                    self._settle(evaluation.point, found)

    def _settle(self, point: Point, found: Evaluated) -> None:
        """Take a result, which the journal has, into the plan, whose turn this is."""
        steps = self._plan.settle(point, found.result, self.seconds, device=found.device, known=found.known)
        self._journaled.note()
        self._changed.set()
        for step in steps:
            self._send.send_nowait(step)


def run_of(tuned: TunedKernel, options: TuningOptions, devices: Sequence[Device]) -> TuningRun:
    """The run that begins now, without a number."""
    now = time.time()
    return TuningRun(
        id=0,
        kernel=tuned.kernel.name,
        arch=tuned.arch,
        device=devices[0].description,
        devices=tuple(device.label for device in devices),
        problems={shape.name: {**shape.sizes, **shape.runtime} for shape in tuned.shapes},
        resumable=not tuned.is_listed,
        began_at=now,
        last_active=now,
        **asdict(options),
    )
