"""Benchmarks that clients follow, and questions about timings, rankings and baselines.

A benchmark builds its units first, then times them, and reports each timing as soon as it is taken.
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field, fields
from functools import partial

import anyio
from anyio import to_thread

from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.timings import Timings
from ckwatch.bench.job import Race
from ckwatch.bench.probes.processor_roof import processor_roof
from ckwatch.bench.report import BenchmarkFailure
from ckwatch.compile.store.artifacts import default_folder
from ckwatch.core.events import MAIN, AnalyzeRequested, MeasureRequested, WarningChanged, WorkKind
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.comparison import compare_timings
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.measure import MeasureRunner
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.engine.queries.following import CHANGED, NOT_BUILT, REMOVED, SKIPPED, FollowedRequest, FollowedWork
from ckwatch.engine.queries.ranking import rank_units
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.timings_to_wire import record_details_to_wire, record_to_wire
from ckwatch.engine.to_wire import unit_timings_to_wire
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import CacheState, ProcessorRoof
from ckwatch.model.timings import CacheName, Timing
from ckwatch.model.unit_patterns import unknown_kernel
from ckwatch.wire.benchmarks import Baseline, BenchLine, Compared, Device, Devices, RankedTiming, TimingDetail
from ckwatch.workspace.shapes import find_shape, find_shapes


@dataclass(slots=True, kw_only=True)
class _FollowedBenchmark(FollowedRequest[BenchLine]):
    """`shapes`: their names by kernels, None for all; `left`: by unit, the shapes that are not reported yet; `known`:
    the measurements that there were before."""

    shapes: Mapping[str, Iterable[str]] | None
    device: str | None
    race: Race | None
    flush_instructions: bool
    left: dict[str, dict[str, None]] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)


class FollowedBenchmarks(FollowedWork[_FollowedBenchmark]):
    """The benchmarks that are followed now."""

    kind = WorkKind.MEASURE

    def __init__(self, loop: EngineLoop, builds: FollowedBuilds, measure: MeasureRunner) -> None:
        super().__init__(loop, builds)
        measure.on_stage = self._stage
        measure.on_warning = lambda text: loop.post_soon(WarningChanged("device", text))

    @asynccontextmanager
    async def bench(
        self,
        patterns: Sequence[str] | None,
        shapes: Sequence[str] | None,
        *,
        device: str | None = None,
        force: bool = False,
        race: Race | None = None,
        flush_instructions: bool = False,
        scope: str = MAIN,
    ) -> AsyncIterator[AsyncIterator[BenchLine]]:
        """The lines of a benchmark; leaving the context before `done` cancels what nothing else wants. Raises
        UnknownUnitError when a pattern means no unit, CkwatchError when a shape is one of no unit."""
        async with self._builds.build(scope, patterns, force=False, check_only=False) as lines:
            units = [seen.unit for seen in self._loop.state.meant(scope, patterns)]
            wanted = None if shapes is None else find_shapes((unit.kernel for unit in units), shapes)
            one = _FollowedBenchmark(
                scope=scope, force=force, done=BenchLine(event="done"), shapes=wanted, device=device, race=race,
                flush_instructions=flush_instructions,
            )  # fmt: skip
            start = BenchLine(event="start", shapes=sum(len(shapes_of(unit, wanted)) for unit in units))
            async with self._following(one, lines, start) as found:
                yield found

    async def _built(self, benchmark: _FollowedBenchmark, name: str, problem: str | None) -> None:
        unit = self._loop.state.seen(benchmark.scope, name)
        wanted = {} if unit is None else shapes_of(unit.unit, benchmark.shapes)
        if unit is None or problem is not None or unit.outcome != "built":
            skipped = unit is not None and unit.outcome is Outcome.SKIPPED
            text = problem or (SKIPPED if skipped else NOT_BUILT)
            benchmark.report(BenchLine(event="skipped", unit=name, shapes=len(wanted), text=text))
            return
        if not wanted:
            text = (
                "its kernel file has no [[shape]] to time it on"
                if not unit.unit.kernel.shapes
                else "it has none of these shapes"
            )
            benchmark.report(BenchLine(event="skipped", unit=name, text=text))
            return
        benchmark.pending[name] = number = next(self._numbers)
        benchmark.known.update(row.id for row in unit_timings_to_wire(unit))
        benchmark.left[name] = wanted
        what = (number, (name,), tuple(wanted), benchmark.force, benchmark.device, benchmark.race, benchmark.scope)
        flush = benchmark.flush_instructions
        await self._loop.post(MeasureRequested(*what, flush_instructions=flush))

    def _report_done(self, benchmark: _FollowedBenchmark, name: str, number: int) -> None:
        if self._loop.state.measure_requests < number:
            return
        unit, left = self._loop.state.seen(benchmark.scope, name), benchmark.left[name]
        for shape in list(left):
            if unit is None or shape not in unit.timing.requested:
                del left[shape]
                self._report_shape(benchmark, name, unit, shape)
        if not left:
            del benchmark.pending[name]

    def _report_shape(self, benchmark: _FollowedBenchmark, name: str, unit: UnitState | None, shape: str) -> None:
        rows = [] if unit is None else [row for row in unit_timings_to_wire(unit) if row.shape == shape]
        fresh = [row for row in rows if row.standing == "fresh"]
        for row in fresh:
            known = row.id in benchmark.known
            benchmark.report(BenchLine(event="timing", unit=name, shape=shape, timing=row, known=known))
        if not fresh or (benchmark.force and all(row.id in benchmark.known for row in fresh)):
            why = REMOVED if unit is None else unit.timing.untimed_because or CHANGED
            benchmark.report(BenchLine(event="skipped", unit=name, shape=shape, text=why))

    def _stage(self, unit: str, shape: str, stage: str) -> None:
        for benchmark in self._waiting_for(unit):
            if shape not in benchmark.left[unit]:
                continue
            if (unit, shape) not in benchmark.begun:
                benchmark.begun.add((unit, shape))
                benchmark.report(BenchLine(event="began", unit=unit, shape=shape))
            benchmark.report(BenchLine(event="stage", unit=unit, shape=shape, text=stage))


def shapes_of(unit: Unit, wanted: Mapping[str, Iterable[str]] | None) -> dict[str, None]:
    """The names of the unit's shapes, of those that are `wanted` of its kernel; None for all. An ordered set."""
    if wanted is not None:
        return dict.fromkeys(wanted.get(unit.kernel.name, ()))
    return dict.fromkeys(one.name for one in unit.kernel.shapes)


NOT_UNITS = ("previous", "library", "baseline")
"""Values that a unit may be compared with besides units; `baseline:NAME` too."""


UNITS_AT_ONCE = 50
"""Units that one event names."""


@dataclass(eq=False)
class BenchmarkQueries:
    """Timings of the workspace as it is on disk."""

    _loop: EngineLoop
    _followed: FollowedBenchmarks
    _measure: MeasureRunner
    _history: HistoryRecorder
    _lookup: UnitLookup
    _tools: BuildTools
    _roof_lock: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    @property
    def _state(self) -> State:
        return self._loop.state

    async def devices(self, *, again: bool) -> Devices:
        """Return the devices that units can be timed on. Raises CkwatchError when the worker cannot be asked."""
        found = await self._measure.devices(again=again)
        if isinstance(found, BenchmarkFailure):
            raise CkwatchError(found.message, found.hint or None)
        launcher = self._measure.settings.launcher
        return Devices(
            devices=tuple(
                Device(**{field.name: getattr(one, field.name) for field in fields(Device)}) for one in found.devices
            ),
            absent={one.kind: f"{one.why}\n{one.hint}" if one.hint else one.why for one in found.absent},
            host=" ".join(launcher) if launcher else socket.gethostname(),
        )

    def bench(
        self,
        patterns: Sequence[str] | None,
        shapes: Sequence[str] | None,
        *,
        device: str | None,
        force: bool,
        race: bool = False,
        limit_us: float | None = None,
        flush_instructions: bool = False,
        scope: str = MAIN,
    ) -> AbstractAsyncContextManager[AsyncIterator[BenchLine]]:
        """The lines of a benchmark, as `FollowedBenchmarks.bench`."""
        return self._followed.bench(
            patterns,
            shapes,
            device=device,
            force=force,
            race=Race(limit_us=limit_us) if race else None,
            flush_instructions=flush_instructions,
            scope=scope,
        )

    async def timings(self, unit: str, shape: str | None, limit: int) -> list[Timing]:
        """Past timings, newest first; those of a removed unit too. Raises UnknownUnitError, HistoryError."""
        unit = await self._lookup.id_of(MAIN, unit)
        timings = self._timings()
        shape = None if shape is None else await self._name_of(unit, shape)
        records = await to_thread.run_sync(timings.of_unit, unit, shape, limit)
        if not records and unit not in self._state.main.members:
            raise await self._lookup.unknown(MAIN, unit)
        present = self._present([unit])[unit]
        return await to_thread.run_sync(lambda: [row for one in records for row in record_to_wire(one, present)])

    async def _name_of(self, unit: str, shape: str) -> str:
        """The name of the shape that is meant; that of one that the kernel file no longer has, if it was timed."""
        known = self._state.main.members.get(unit)
        try:
            return shape if known is None else find_shape(known.kernel, shape).name
        except CkwatchError:
            if await to_thread.run_sync(self._timings().of_unit, unit, shape, 1):
                return shape
            raise

    async def timing(self, number: int) -> list[TimingDetail]:
        """A measurement with its samples, one for each cache state. Raises CkwatchError for an unknown number."""
        record = await to_thread.run_sync(self._timings().one, number)
        if record is None:
            raise CkwatchError(f"there is no measurement {number}", "`ckwatch history UNIT --json` shows the numbers")
        present = self._present([record.unit])[record.unit]
        return await to_thread.run_sync(record_details_to_wire, record, present)

    async def best(self, kernel: str, shape: str | None, cache: CacheName | None = None) -> list[RankedTiming]:
        """A kernel's instances by time with this cache, by default cold where the workspace times so. Raises
        UnknownUnitError for an unknown kernel, CkwatchError for a shape."""
        kernels = {one.kernel.name: one for one in self._state.main.kernels.values()}
        known = kernels.get(kernel)
        if known is None:
            raise unknown_kernel(kernels, kernel)
        shape = None if shape is None else find_shape(known.kernel, shape).name
        units = [unit.id for unit in known.units]
        await self._lookup.looked_up(unit for name in units if (unit := self._state.main.units.get(name)) is not None)
        records = await to_thread.run_sync(self._timings().of_kernel, kernel, shape)
        present, refused = self._present(units), self._refused(units)
        usual = CacheState.COLD if CacheState.COLD in self._measure.settings.caches else CacheState.HOT
        chosen = usual if cache is None else CacheState(cache)
        return await to_thread.run_sync(rank_units, records, present, refused, chosen, self._timings().baseline)

    async def compare(self, unit: str, against: str, shape: str | None) -> list[Compared]:
        """A unit's timings against another unit's, `previous`, `library`, `baseline` or `baseline:NAME`. Raises
        UnknownUnitError, and CkwatchError where there is nothing to compare."""
        ours = await self._one(unit)
        others = against.partition(":")[0] in NOT_UNITS
        theirs = against if others else await self._one(against)
        present = self._present([ours] if others else [ours, theirs])
        timings = self._timings()
        shape = None if shape is None else await self._name_of(ours, shape)
        return await to_thread.run_sync(lambda: compare_timings(timings, ours, theirs, shape, present=present))

    async def processor_roof(self) -> ProcessorRoof:
        """The roof of the processor that host kernels are timed on. Raises CkwatchError."""
        store = self._tools.store
        folder = default_folder() if store is None else store.folder
        measure = partial(processor_roof, folder, self._measure.settings.threads)
        async with self._roof_lock:
            return await to_thread.run_sync(measure)

    async def set_baseline(self, name: str, patterns: Sequence[str] | None) -> list[str]:
        """Set a baseline to the latest timings of units; those that have any. Raises UnknownUnitError, CkwatchError."""
        names = await self._lookup.names(MAIN, patterns)
        timings, at = self._timings(), time.time()
        found = await to_thread.run_sync(lambda: [unit for unit in names if timings.set_baseline(unit, name, at) > 0])
        if not found:
            raise CkwatchError("none of these units has been timed", "`ckwatch bench` takes timings")
        await self._compare_again(found)
        return found

    async def baselines(self) -> list[Baseline]:
        """All baselines, the one that was set last first."""
        return await to_thread.run_sync(self._timings().baselines)

    async def remove_baseline(self, name: str) -> int:
        """Remove a baseline; the number of its units. Raises CkwatchError when there is none of this name."""
        units = await to_thread.run_sync(self._timings().units_of_baseline, name)
        count = await to_thread.run_sync(self._timings().remove_baseline, name)
        if not count:
            raise CkwatchError(f"there is no baseline '{name}'", "`ckwatch baseline list` lists them")
        await self._compare_again(units)
        return count

    async def _compare_again(self, units: Sequence[str]) -> None:
        """Compare the figures of these units with their new baseline."""
        for first in range(0, len(units), UNITS_AT_ONCE):
            some = tuple(units[first : first + UNITS_AT_ONCE])
            await self._loop.post(AnalyzeRequested(MAIN, some, again=True))

    def _timings(self) -> Timings:
        timings = self._history.timings
        if timings is None:
            raise HistoryError(self._history.problem or "the history cannot be used")
        return timings

    def _present(self, units: Sequence[str]) -> dict[str, str | None]:
        """The present artifact of each unit."""
        return {name: _present_artifact(self._state.main.units.get(name)) for name in units}

    def _refused(self, units: Sequence[str]) -> dict[str, str]:
        """Why units have no artifact."""
        reasons = {}
        for name in units:
            unit = self._state.main.units.get(name)
            if unit is not None and unit.outcome is Outcome.SKIPPED:
                reasons[name] = SKIPPED
            elif unit is not None and unit.outcome is Outcome.FAILED:
                errors = [one.message for one in unit.diagnostics if one.severity is Severity.ERROR]
                reasons[name] = errors[0] if errors else "it does not compile"
        return reasons

    async def _one(self, pattern: str) -> str:
        """The one unit that a pattern names."""
        names = await self._lookup.names(MAIN, (pattern,))
        if len(names) != 1:
            listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            raise CkwatchError(f"'{pattern}' names {len(names)} units", f"name one of them: {listed}")
        return names[0]


def _present_artifact(unit: UnitState | None) -> str | None:
    built = None if unit is None else unit.built
    return None if built is None else built.artifact
