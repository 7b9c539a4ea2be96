"""Diagnostics of a timing: wrong results, and regressions against the previous artifact and the baseline."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from anyio import to_thread

from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport
from ckwatch.engine.comparison import (
    BASELINE,
    LIBRARY,
    PREVIOUS,
    compare_interleaved_results,
    compare_results,
    compare_with_contestant,
    floor_of,
)
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.timings_to_wire import record_to_wire
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.kernels import Shape, Unit
from ckwatch.model.roofline import CacheState
from ckwatch.model.timings import Comparison, Timing

MeasureInterleaved = Callable[[TimingRecord, TimingRecord], Awaitable[BenchmarkReport | None]]
"""Measures two records' artifacts in turns, the first one's first."""

CLOSE_RATIO = 0.05
"""Medians that differ by less than this part are measured in turns before one is called faster."""

RECORDS_SEARCHED = 50
"""How many records of a unit and shape are searched for one of the previous artifact."""


class RegressionCheck:
    """Compares records with what the history has."""

    def __init__(self, history: HistoryRecorder) -> None:
        self._history = history

    async def check(
        self, unit: Unit, shape: Shape, record: TimingRecord, regression: float, again: MeasureInterleaved | None
    ) -> tuple[tuple[Timing, ...], tuple[Diagnostic, ...]]:
        """The record as it is shown, and what is wrong or has become slower by more than `regression`.

        When the previous artifact is nearly as fast, both are measured in turns, if `again` is given.
        """
        rows = await to_thread.run_sync(record_to_wire, record, record.artifact_key)
        if record.failure is not None:
            return tuple(rows), (failure_diagnostic(unit, shape, record.failure),)
        before, baseline = await to_thread.run_sync(self._others, record)
        compared = [(row, await to_thread.run_sync(_comparisons, record, row, before, baseline)) for row in rows]
        if again is not None and before is not None and any(_is_close(found) for _, found in compared):
            report = await again(record, before)
            if report is not None and len(report.measured) == 2:
                compared = [(row, await to_thread.run_sync(_decided, report, row, found)) for row, found in compared]
        shown = tuple(replace(row, comparisons=found) for row, found in compared)
        slower = tuple(
            slower_diagnostic(unit, shape, row, one)
            for row, found in compared
            for one in found
            if one.against != LIBRARY and one.verdict == "SLOW" and one.ratio > 1 + regression
        )
        return shown, slower

    def _others(self, record: TimingRecord) -> tuple[TimingRecord | None, TimingRecord | None]:
        """The record of the previous artifact on the same device, and that of the baseline."""
        timings = self._history.timings
        if timings is None:
            return None, None
        try:
            past = timings.of_unit(record.unit, record.shape, RECORDS_SEARCHED)
            baseline = timings.baseline(record.unit)
        except HistoryError:
            return None, None
        earlier = [one for one in past if one.taken_at <= record.taken_at]
        return _first_like(record, earlier), _first_like(record, baseline)


def _first_like(record: TimingRecord, others: Sequence[TimingRecord]) -> TimingRecord | None:
    """The first of other code on the same problem and device."""
    for one in others:
        same = one.shape == record.shape and one.problem == record.problem and one.place == record.place
        if same and one.report is not None and one.benchmark_key != record.benchmark_key:
            return one
    return None


def _comparisons(
    record: TimingRecord, row: Timing, before: TimingRecord | None, baseline: TimingRecord | None
) -> tuple[Comparison, ...]:
    cache = CacheState(row.cache)
    others = ((before, PREVIOUS), (baseline, BASELINE))
    found = [
        compare_results(record.measured, other.measured, cache, name, floor_us=floor_of(record.report, other.report))
        for other, name in others
        if other is not None
    ]
    return tuple(one for one in (*found, compare_with_contestant(record, LIBRARY, cache)) if one is not None)


def _is_close(found: Sequence[Comparison]) -> bool:
    """Return True if measuring in turns may decide what two measurements apart do not: a small difference, or one that
    clocks explain."""
    previous = (one for one in found if one.against == PREVIOUS)
    return any(
        one.verdict == "UNSURE" or (one.verdict != "SAME" and abs(one.ratio - 1) <= CLOSE_RATIO) for one in previous
    )


def _decided(report: BenchmarkReport, row: Timing, found: tuple[Comparison, ...]) -> tuple[Comparison, ...]:
    """The comparisons, the one with the previous artifact replaced by what both in turns have shown."""
    cache = CacheState(row.cache)
    ours, theirs = report.measured
    samples = ours.of(cache)
    decided = (
        None
        if samples is None
        else compare_interleaved_results(ours, theirs, cache, PREVIOUS, samples.blocks, floor_us=floor_of(report))
    )
    return tuple(decided if one.against == PREVIOUS and decided is not None else one for one in found)


def failure_diagnostic(unit: Unit, shape: Shape, failure: BenchmarkFailure) -> Diagnostic:
    """The error that a benchmark has found in a kernel, at its instance."""
    where = "" if failure.device is None else f" on {failure.device.label}"
    hint = f"; {failure.hint}" if failure.hint else ""
    return Diagnostic(
        Severity.ERROR,
        Source.BENCHMARK,
        f"benchmark/{failure.kind.name.lower().replace('_', '-')}",
        f"shape {shape.name}{where}: {failure.message}{hint}",
        unit.instance.span,
        related=(Related("the shape", shape.span),),
        detail=failure.detail,
    )


def slower_diagnostic(unit: Unit, shape: Shape, row: Timing, found: Comparison) -> Diagnostic:
    """A kernel that has become slower."""
    than = "the baseline" if found.against == BASELINE else "before"
    times = f"{found.other_median_us:.1f} → {row.median_us:.1f} µs, {row.cache} cache, {row.place}"
    return Diagnostic(
        Severity.WARNING,
        Source.BENCHMARK,
        "benchmark/slower",
        f"shape {shape.name}: {100 * (found.ratio - 1):.1f} % slower than {than} ({times})",
        unit.instance.span,
        related=(Related("the shape", shape.span),),
    )
