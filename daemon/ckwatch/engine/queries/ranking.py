"""Ranks the instances of a kernel on each shape, and says why others have no rank; the SOL score."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import KERNEL_FAILURES, ContestantResult
from ckwatch.engine.comparison import LIBRARY, compare_results, floor_of, other_device
from ckwatch.engine.timings_to_wire import record_to_wire, summarize_samples
from ckwatch.model.roofline import CacheState
from ckwatch.model.timings import Timing
from ckwatch.wire.benchmarks import RankedTiming

NOT_TIMED = "not timed on this shape"
OTHER_DEVICE = "timed on another device only"
OTHER_SIZES = "timed when the shape had other sizes"


def rank_units(
    records: Iterable[TimingRecord],
    present: Mapping[str, str | None],
    refused: Mapping[str, str],
    cache: CacheState = CacheState.COLD,
    baseline_of: Callable[[str], Sequence[TimingRecord]] = lambda _unit: (),
) -> list[RankedTiming]:
    """The units of a kernel on each shape, by the median with this cache state, then those without a place.

    `records`: what `Timings.of_kernel` gives. `present`: every unit of the kernel with the key of its artifact (None
    where it has none), in the order of the kernel file; others are left out. `refused`: why units cannot be built, by
    unit. `baseline_of`: the records that the user named as a unit's baseline, newest first; asked for where no library
    was timed. Archs are ranked apart. A shape is ranked on one device, that of its newest timing, and on those of the
    same product for units that were not timed there; then the rows name the devices. Each timing is compared with the
    best one.
    """
    mine = [record for record in records if record.unit in present]
    shapes = dict.fromkeys(record.shape for record in sorted(mine, key=lambda record: record.id))
    archs = dict.fromkeys(unit.rpartition("@")[2] for unit in present)
    rows: list[RankedTiming] = []
    for shape, arch in itertools.product(shapes, archs):
        units = {unit: key for unit, key in present.items() if unit.rpartition("@")[2] == arch}
        taken = [one for one in mine if one.shape == shape and one.unit in units]
        placed, unplaced = _place_units(shape, sorted(taken, key=lambda one: -one.id), units, refused, cache)
        rows += _rank_placed(placed, cache, baseline_of) + unplaced
    return rows


class _Placed(NamedTuple):
    """A unit's timing on a shape, and the record that it is from."""

    timing: Timing
    record: TimingRecord


def _place_units(
    shape: str,
    records: Sequence[TimingRecord],
    present: Mapping[str, str | None],
    refused: Mapping[str, str],
    cache: CacheState,
) -> tuple[list[_Placed], list[RankedTiming]]:
    """The units with a timing, the fastest first, and the rows of the others; of `records`, the newest first."""
    newest = next((one for one in records if _timing(one, present, cache) is not None), None)
    placed: list[_Placed] = []
    unplaced: list[RankedTiming] = []
    for unit, key in present.items():
        own = [one for one in records if one.unit == unit]
        failed = own[0] if own and own[0].failure is not None else None  # no timing came after it
        good = _comparable_record(own, newest)
        timing = None if good is None else _timing(good, present, cache)
        if good is not None and timing is not None and unit not in refused and not _is_faulty(failed):
            placed.append(_Placed(timing, good))
            continue
        shown = None if failed is None else next(iter(record_to_wire(failed, key)), None)
        why = refused.get(unit) or _why_not(own, failed, newest)
        row = RankedTiming(unit=unit, instance=_instance(unit), shape=shape, rank=None, timing=shown, why_not=why)
        unplaced.append(row)
    return sorted(placed, key=lambda one: one.timing.median_us), unplaced


def _comparable_record(own: Sequence[TimingRecord], newest: TimingRecord | None) -> TimingRecord | None:
    """The last record of a unit that was taken like `newest`: of the same code, the one on its device."""
    if newest is None:
        return None
    alike = [one for one in own if one.report is not None and _is_comparable(one, newest)]
    same = (one for one in alike if one.artifact_key == alike[0].artifact_key and one.place == newest.place)
    return next(same, alike[0] if alike else None)


def _is_faulty(failed: TimingRecord | None) -> bool:
    return failed is not None and failed.failure is not None and failed.failure.kind in KERNEL_FAILURES


def _rank_placed(
    placed: Sequence[_Placed], cache: CacheState, baseline_of: Callable[[str], Sequence[TimingRecord]]
) -> list[RankedTiming]:
    library = (_median_us(one.record.measured_of(LIBRARY), cache) for one in placed)
    library_us = next((median_us for median_us in library if median_us), None)
    several = len({one.record.place for one in placed}) > 1
    devices = tuple(sorted({one.timing.place for one in placed})) if several else ()
    rows = []
    for rank, (timing, record) in enumerate(placed, 1):
        baseline: Literal["library", "baseline"] = "library"
        baseline_us = library_us
        if baseline_us is None:
            baseline, baseline_us = "baseline", _baseline_us(record, baseline_of(timing.unit), cache)
        score = None
        if baseline_us is not None and timing.bound_us is not None:
            score = sol_score(timing.median_us, baseline_us, timing.bound_us)
        row = RankedTiming(
            unit=timing.unit,
            instance=timing.instance,
            shape=record.shape,
            rank=rank,
            timing=timing if rank == 1 else _against_best(timing, record, placed[0].record, cache),
            sol_score=score,
            sol_baseline=baseline if score is not None else "",
            sol_baseline_us=baseline_us if score is not None else None,
            devices=devices,
        )
        rows.append(row)
    return rows


def _against_best(timing: Timing, record: TimingRecord, best: TimingRecord, cache: CacheState) -> Timing:
    against = compare_results(
        record.measured,
        best.measured,
        cache,
        best.instance,
        floor_us=floor_of(record.report, best.report),
        other_device=other_device(record, best),
    )
    return replace(timing, comparisons=() if against is None else (against,))


def _timing(record: TimingRecord, present: Mapping[str, str | None], cache: CacheState) -> Timing | None:
    timings = record_to_wire(record, present[record.unit]) if record.report is not None else []
    return next((one for one in timings if one.cache == cache.value), None)


def _median_us(result: ContestantResult | None, cache: CacheState) -> float | None:
    summary = None if result is None else summarize_samples(result.of(cache))
    return None if summary is None else summary.median_us


def _baseline_us(record: TimingRecord, baseline: Sequence[TimingRecord], cache: CacheState) -> float | None:
    """The median of the baseline's record that was taken like this one."""
    alike = (one for one in baseline if one.shape == record.shape and one.place == record.place)
    alike = (one for one in alike if _is_comparable(one, record))
    return next((found for one in alike if (found := _median_us(one.measured, cache)) is not None), None)


def _is_comparable(one: TimingRecord, other: TimingRecord) -> bool:
    return (one.product, one.sizes, one.runtime) == (other.product, other.sizes, other.runtime)


def _why_not(own: list[TimingRecord], failed: TimingRecord | None, newest: TimingRecord | None) -> str:
    if failed is not None and failed.failure is not None:
        return failed.failure.message
    good = next((one for one in own if one.report is not None), None)
    if good is None or newest is None or _is_comparable(good, newest):
        return NOT_TIMED
    return OTHER_DEVICE if good.product != newest.product else OTHER_SIZES


def _instance(unit: str) -> str:
    return unit.partition("/")[2].rpartition("@")[0]


def sol_score(time_us: float, baseline_us: float, bound_us: float) -> float | None:
    """The score of NVIDIA's SOL-ExecBench: S = 1 / (1 + (T_k − T_SOL) / (T_b − T_SOL)).

    T_k is the kernel's time, T_b the baseline's, and T_SOL the bound ("speed of light"), all in the same unit. A kernel
    as fast as its baseline has 0.5, one at the bound 1, and one that is twice as far from it as the baseline a third.
    None where it is not defined: the baseline at the bound or below it, the kernel below it.

    Source: "SOL-ExecBench: Speed-of-Light Benchmarking for Real-World GPU Kernels Against Hardware Limits",
    arXiv:2603.19173, section 4.3, and `src/sol_execbench/sol_score.py` of https://github.com/NVIDIA/SOL-ExecBench.
    There the bound is SOLAR's; here it is the roofline's (`ckwatch.model.roofline`).
    """
    if bound_us <= 0 or baseline_us <= bound_us or time_us < bound_us:
        return None
    return 1 / (1 + (time_us - bound_us) / (baseline_us - bound_us))
