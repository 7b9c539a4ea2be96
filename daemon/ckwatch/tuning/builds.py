"""Instances of a run, built by the daemon from the run's own view of the kernel file."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from glob import escape
from typing import TYPE_CHECKING

import anyio

from ckwatch.model.errors import LOST_ERRORS, CkwatchError, plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.tuning.client import TRIES
from ckwatch.tuning.results import EvaluationStatus, KnownResult, ShapeResult
from ckwatch.tuning.space import Parameters, Point
from ckwatch.tuning.tuned_kernel import TunedKernel
from ckwatch.workspace.toml import instance_table

if TYPE_CHECKING:
    from ckwatch.tuning.client import TextOverlay, TuningClient, TuningUnit
    from ckwatch.wire.state import Unit

SLOW_COMPILE = 4.0
"""A compile is given up that takes so many times the median of the others, and at least SLOW_COMPILE_S."""

SLOW_COMPILE_S = 60.0
COMPILES_KNOWN = 5
"""Compiles that must have ended before one can be slow."""

OVERLAY_SPARE = 32
"""Instances that are done with and stay in the overlay, before it is written anew."""


class ProcessorTurns:
    """On the processor, compilers and measurements take turns: the daemon ends a measurement for a compiler.

    Builds begin when no measurement runs or waits, and measurements when no build runs. Elsewhere nothing waits.
    """

    def __init__(self, *, on_processor: bool) -> None:
        self._on_processor = on_processor
        self._changed = anyio.Condition()
        self._building = self._measuring = 0

    @asynccontextmanager
    async def build(self) -> AsyncIterator[None]:
        """As long as it is open, nothing is measured."""
        async with self._changed:
            while self._on_processor and self._measuring:
                await self._changed.wait()
            self._building += 1
        try:
            yield
        finally:
            self._building -= 1
            await self._notify()

    @asynccontextmanager
    async def measurement(self) -> AsyncIterator[None]:
        """As long as it is open, nothing is built."""
        self._measuring += 1
        try:
            async with self._changed:
                while self._on_processor and self._building:
                    await self._changed.wait()
            yield
        finally:
            self._measuring -= 1
            await self._notify()

    async def _notify(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self._changed:
                self._changed.notify_all()


class OverlaidInstances:
    """The instances that this client's view of the kernel file has beside those of the file."""

    def __init__(self, overlay: TextOverlay, tuned: TunedKernel) -> None:
        self._overlay = overlay
        self._tuned = tuned
        self._written: dict[str, Parameters] = {}
        self._in_use: Counter[str] = Counter()
        self._turn = anyio.Lock()

    @asynccontextmanager
    async def having(self, point: Point) -> AsyncIterator[None]:
        """As long as it is open, the view has the instance, as the file may itself."""
        name = self._tuned.name_of(point)
        self._in_use[name] += 1
        try:
            if name not in self._tuned.present:
                async with self._turn:
                    if name not in self._written:
                        await self._add(name, point)
            yield
        finally:
            self._in_use[name] -= 1

    async def _add(self, name: str, point: Point) -> None:
        done = [one for one in self._written if not self._in_use[one]]
        if len(done) > OVERLAY_SPARE:
            for one in done[: len(done) - OVERLAY_SPARE // 2]:
                del self._written[one]
        self._written[name] = self._tuned.space.parameters(point) or {}
        tables = (f"\n{instance_table(name, own)}" for name, own in self._written.items())
        await self._overlay.change("\n" + "".join(tables))


@dataclass(slots=True)
class Build:
    """An instance that is being built, or was: its unit, or why it cannot be timed. `turn`: the daemon times a unit on
    one shape at a time, so that a device that waited for its turn would have nothing to do."""

    done: anyio.Event = field(default_factory=anyio.Event)
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    outcome: Unit | ShapeResult | None = None


class Builds:
    """Each instance is built once; `jobs` at a time. `compiles`: how many took a compiler in this run."""

    def __init__(
        self,
        client: TuningClient,
        tuned: TunedKernel,
        instances: OverlaidInstances,
        turns: ProcessorTurns,
        *,
        jobs: int,
        retry_s: float,
    ) -> None:
        self.compiles = 0
        self._client = client
        self._retry_s = retry_s
        self._tuned = tuned
        self._instances = instances
        self._turns = turns
        self._compilers = anyio.CapacityLimiter(jobs)
        self._builds: dict[Point, Build] = {}
        self._compile_s: list[float] = []

    def give_up(self, recalled: Mapping[Point, KnownResult]) -> None:
        """Do not build what took earlier runs too long."""
        for point, known in recalled.items():
            if known.result.status is EvaluationStatus.COMPILE_ABORTED:
                build = self._builds[point] = Build(outcome=known.result)
                build.done.set()

    async def of(self, point: Point) -> tuple[Build, Unit | ShapeResult, bool]:
        """The instance's build, once it has ended, how, and whether it did so for this call."""
        while (build := self._builds.get(point)) is not None:
            await build.done.wait()
            if build.outcome is not None:
                return build, build.outcome, False
        build = self._builds[point] = Build()
        try:
            async with self._turns.build(), self._compilers, self._instances.having(point):
                build.outcome = await self._built(self._tuned.unit_of(point))
        except BaseException:
            del self._builds[point]  # it was not this instance's fault
            raise
        finally:
            build.done.set()
        return build, build.outcome, True

    async def _built(self, unit: str) -> Unit | ShapeResult:
        for attempt in range(TRIES):
            begun = time.monotonic()
            try:
                with anyio.CancelScope() as scope:
                    async with plain_errors(), anyio.create_task_group() as tasks:
                        tasks.start_soon(self._end_slow_compile, scope, begun)
                        outcome = await self._client.build(escape(unit))
                        tasks.cancel_scope.cancel()
            except LOST_ERRORS:
                if attempt + 1 == TRIES:
                    raise
                await anyio.sleep(self._retry_s)
                continue
            seconds = time.monotonic() - begun
            if scope.cancelled_caught:
                reason = f"given up after {seconds:.0f} s: the others took {statistics.median(self._compile_s):.0f} s"
                return ShapeResult(shape="", status=EvaluationStatus.COMPILE_ABORTED, reason=reason)
            return self._settled(unit, outcome.units, seconds)
        raise AssertionError("unreachable")

    def _settled(self, unit: str, results: Sequence[TuningUnit], seconds: float) -> Unit | ShapeResult:
        result = next((one for one in results if one.unit is not None), None)
        if result is None or result.unit is None:
            problem = results[0].problem if results else "it is not there"
            raise CkwatchError(f"'{unit}' was not built: {problem}", "`ckwatch logs` may say more")
        found, error = result.unit, result.first_error
        if found.outcome == "faulted":
            text = error.message if error else "the compiler could not be run"
            raise CkwatchError(f"'{unit}' could not be compiled: {text}")
        if not found.from_store and found.seconds and found.outcome in ("built", "failed"):
            self.compiles += 1
            if found.outcome == "built":
                self._compile_s.append(seconds)
        if found.outcome == "built":
            return found
        status = EvaluationStatus.REFUSED if result.skipped else EvaluationStatus.COMPILE_FAILED
        return ShapeResult(shape="", status=status, reason=error.message if error else str(found.outcome))

    async def _end_slow_compile(self, scope: anyio.CancelScope, begun: float) -> None:
        """End a build that takes far longer than the others have."""
        while True:
            await anyio.sleep(1.0)
            if len(self._compile_s) >= COMPILES_KNOWN:
                limit_s = max(SLOW_COMPILE_S, SLOW_COMPILE * statistics.median(self._compile_s))
                if time.monotonic() - begun > limit_s:
                    scope.cancel()
                    return
