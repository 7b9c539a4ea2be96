"""Ranks the instances of a kernel on each shape, and says why others have no rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import KERNEL_FAILURES, ContestantResult
from ckwatch.engine.queries.comparison import LIBRARY, compare_results, floor_of, other_device
from ckwatch.engine.timings_to_wire import record_to_wire, summarize_samples
from ckwatch.model.roofline import CacheState
from ckwatch.model.sol_score import sol_score
from ckwatch.wire.benchmarks import RankedTiming, Timing

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
    return [
        row
        for shape in shapes
        for arch in archs
        for row in _rank_on_shape(
            shape,
            [record for record in mine if record.shape == shape],
            {unit: key for unit, key in present.items() if unit.rpartition("@")[2] == arch},
            refused,
            cache,
            baseline_of,
        )
    ]


def _rank_on_shape(
    shape: str,
    records: list[TimingRecord],
    present: Mapping[str, str | None],
    refused: Mapping[str, str],
    cache: CacheState,
    baseline_of: Callable[[str], Sequence[TimingRecord]],
) -> Iterator[RankedTiming]:
    records = sorted((one for one in records if one.unit in present), key=lambda one: -one.id)
    newest = next((one for one in records if _timing(one, present, cache) is not None), None)
    placed: list[tuple[Timing, TimingRecord]] = []
    left: list[RankedTiming] = []
    for unit in present:
        own = [one for one in records if one.unit == unit]
        alike = [one for one in own if newest is not None and _is_comparable(one, newest)]
        good = next((one for one in alike if one.report is not None), None)
        if good is not None and newest is not None:
            # of the same code, that on the device of the newest
            same = (one for one in alike if one.report is not None and one.artifact_key == good.artifact_key)
            good = next((one for one in same if one.place == newest.place), good)
        timing = None if good is None else _timing(good, present, cache)
        # a failure comes first only where no timing came after it
        failed = own[0] if own and own[0].failure is not None else None
        faulty = failed is not None and failed.failure is not None and failed.failure.kind in KERNEL_FAILURES
        if unit in refused or faulty or good is None or timing is None:
            shown = next(iter(record_to_wire(failed, present[unit])), None) if failed is not None else None
            why = refused.get(unit) or _why_not(own, failed, newest)
            left.append(
                RankedTiming(unit=unit, instance=_instance(unit), shape=shape, rank=None, timing=shown, why_not=why)
            )
        else:
            placed.append((timing, good))
    placed.sort(key=lambda one: one[0].median_us)
    library_us = next((found for _, one in placed if (found := _median_us(one.measured_of(LIBRARY), cache))), None)
    devices = tuple(dict.fromkeys(timing.place for timing, _ in sorted(placed, key=lambda one: one[0].place)))
    for rank, (timing, record) in enumerate(placed, 1):
        if rank > 1:
            best = placed[0][1]
            floor_us = floor_of(record.report, best.report)
            elsewhere = other_device(record, best)
            against = compare_results(
                record.measured, best.measured, cache, best.instance, floor_us=floor_us, other_device=elsewhere
            )
            timing = timing.model_copy(update={"comparisons": () if against is None else (against,)})
        baseline, baseline_us = "library", library_us
        if baseline_us is None:
            baseline, baseline_us = "baseline", _baseline_us(record, baseline_of(timing.unit), cache)
        known = baseline_us is not None and timing.bound_us is not None
        score = sol_score(timing.median_us, baseline_us or 0.0, timing.bound_us or 0.0) if known else None
        yield RankedTiming(
            unit=timing.unit,
            instance=timing.instance,
            shape=shape,
            rank=rank,
            timing=timing,
            sol_score=score,
            sol_baseline=baseline if score is not None else "",
            sol_baseline_us=baseline_us if score is not None else None,
            devices=devices if len({one.place for _, one in placed}) > 1 else (),
        )
    yield from left


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
