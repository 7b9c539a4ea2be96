"""Compares a unit's timings with those of another unit, its previous artifact, a baseline, or the vendor's library.

Only like is compared with like: the same shape with the same sizes, the same cache state, and the same device, or one
of the same product, which the comparison then names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ckwatch.bench.history.timings import TimingRecord, Timings
from ckwatch.bench.report import BenchmarkReport, ContestantResult
from ckwatch.bench.stats.comparison import DECIDING_PAIRS, THRESHOLD, compare, compare_interleaved
from ckwatch.bench.stats.noise_floor import step_us
from ckwatch.bench.stats.summary import median
from ckwatch.engine.timings_to_wire import record_to_wire, summarize_samples
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import CacheState
from ckwatch.model.timings import Comparison
from ckwatch.wire.benchmarks import Compared

PREVIOUS = "previous"
BASELINE = "baseline"
LIBRARY = "library"
"""Names accepted in place of a unit, `baseline:NAME` too."""


def compare_results(
    ours: ContestantResult | None,
    theirs: ContestantResult | None,
    cache: CacheState,
    against: str,
    *,
    threshold: float = THRESHOLD,
    floor_us: float = 0.0,
    other_device: str = "",
) -> Comparison | None:
    """Two measurements with this cache state by their intervals, as of such that were taken apart; None where one of
    them has no samples. `floor_us` is the noise floor of their devices' events (`floor_of`), `other_device` that of
    theirs where it is not ours."""
    samples = None if ours is None else ours.of(cache)
    others = None if theirs is None else theirs.of(cache)
    mine, other = summarize_samples(samples), summarize_samples(others)
    if samples is None or others is None or mine is None or other is None:
        return None
    clocks = [median(one.clocks_mhz) if one.clocks_mhz else 0.0 for one in (samples, others)]
    found = compare(
        mine,
        other,
        threshold=threshold,
        floor_us=max(floor_us, step_us(samples.times_us), step_us(others.times_us)),
        clock_ratio=clocks[0] / clocks[1] if min(clocks) > 0 else 1.0,
    )
    return Comparison(
        verdict=found.verdict.value, ratio=found.ratio, against=against, other_median_us=other.median_us,
        other_device=other_device,
    )  # fmt: skip


def compare_interleaved_results(
    ours: ContestantResult,
    theirs: ContestantResult,
    cache: CacheState,
    against: str,
    blocks: int,
    *,
    threshold: float = THRESHOLD,
    floor_us: float = 0.0,
) -> Comparison | None:
    """Two contestants of one report that had `blocks` turns each, turn by turn; with too few turns, as
    `compare_results`. None without samples."""
    mine, other = ours.of(cache), theirs.of(cache)
    known = summarize_samples(other)
    if mine is None or other is None or known is None or summarize_samples(mine) is None:
        return None
    if min(blocks, len(mine.times_us), len(other.times_us)) < 2 * DECIDING_PAIRS:
        return compare_results(ours, theirs, cache, against, threshold=threshold, floor_us=floor_us)
    floor_us = max(floor_us, step_us(mine.times_us), step_us(other.times_us))
    found = compare_interleaved(mine.times_us, other.times_us, blocks, threshold=threshold, floor_us=floor_us)
    return Comparison(
        verdict=found.verdict.value, ratio=found.ratio, against=against, other_median_us=known.median_us,
        interleaved=True,
    )  # fmt: skip


def compare_with_contestant(
    record: TimingRecord, contestant: str, cache: CacheState, *, threshold: float = THRESHOLD
) -> Comparison | None:
    """A unit against another contestant of its report, such as the library: turn by turn where they had turns in
    common. None where the report has no such contestant, or no samples of it."""
    ours, theirs = record.measured, record.measured_of(contestant)
    if ours is None or theirs is None:
        return None
    turns = {0 if samples is None else samples.blocks for samples in (ours.of(cache), theirs.of(cache))}
    blocks = min(turns) if len(turns) == 1 else 1
    return compare_interleaved_results(
        ours, theirs, cache, contestant, blocks, threshold=threshold, floor_us=floor_of(record.report)
    )


def floor_of(*reports: BenchmarkReport | None) -> float:
    """The noise floor of reports' events, in microseconds: the highest; 0 where none is known."""
    known = (report.noise_floor for report in reports if report is not None)
    return max((floor.us for floor in known if floor is not None), default=0.0)


def other_device(ours: TimingRecord, theirs: TimingRecord) -> str:
    """Return the other device as it is shown; empty if it is our device."""
    return "" if theirs.device is None or theirs.place == ours.place else theirs.device.label


def compare_timings(
    timings: Timings, unit: str, against: str, shape: str | None = None, *, present: Mapping[str, str | None]
) -> list[Compared]:
    """The latest timings of `unit` against those of another unit, or against `previous`, `baseline`, `baseline:NAME`
    (without a name the one that was set last), `library`. `present`: the keys of the units' present artifacts. Raises
    CkwatchError where one of the two has no timings at all, HistoryError where they cannot be read."""
    ours = [one for one in timings.latest(unit) if one.report is not None and shape in (None, one.shape)]
    if not ours:
        where = "" if shape is None else f" on the shape '{shape}'"
        raise CkwatchError(f"'{unit}' has no timings{where}", "`ckwatch bench` takes them")
    return [row for side in _pairs(timings, unit, against, ours) for row in _rows(side, present)]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A record of ours, the one that it is to be compared with, and if there is none, why. The library has no record:
    it is in ours, and there is no reason why not."""

    ours: TimingRecord
    theirs: str
    other: TimingRecord | None
    why_not: str = ""


def _pairs(timings: Timings, unit: str, against: str, ours: Sequence[TimingRecord]) -> list[_Pair]:
    """Return the counterpart of each of ours. Raises CkwatchError if there is none of that kind at all."""
    kind, _, name = against.partition(":")
    if against == PREVIOUS:
        before = [(one, timings.previous(one)) for one in ours]
        if not any(other for _, other in before):
            raise CkwatchError(f"'{unit}' has timings of one artifact only", "`ckwatch history` lists them")
        return [_Pair(one, PREVIOUS, other, "" if other else "no other artifact was timed") for one, other in before]
    if against == LIBRARY:
        if not any(one.measured_of(LIBRARY) for one in ours):
            raise CkwatchError(f"no library was timed beside '{unit}'", "`library = true` under [bench], and a GEMM")
        why = "no library was timed beside it"
        return [_Pair(one, LIBRARY, None, "" if one.measured_of(LIBRARY) else why) for one in ours]
    if kind == BASELINE:
        others, title = baseline_timings(timings, unit, against), f"{BASELINE} {name}" if name else BASELINE
    else:
        others, title = [one for one in timings.latest(against) if one.report is not None], against
        if not others:
            raise CkwatchError(f"'{against}' has no timings", "`ckwatch bench` takes them")
    return [_pair_with(one, title, others) for one in ours]


def baseline_timings(timings: Timings, unit: str, named: str) -> list[TimingRecord]:
    """The timings that `baseline`, the one that was set last, or `baseline:NAME` has of a unit. Raises CkwatchError
    where there are none."""
    name = named.partition(":")[2]
    found = timings.baseline(unit, name or None)
    if not found:
        which = f"the baseline '{name}'" if name else "any baseline"
        raise CkwatchError(f"'{unit}' has no timings in {which}", "`ckwatch baseline set NAME` sets one")
    return found


def _pair_with(ours: TimingRecord, theirs: str, others: Iterable[TimingRecord]) -> _Pair:
    """The record among `others` that was taken like ours: on our device, else on one of the same product."""
    why = f"{theirs} has no timing on this shape"
    for other in sorted(others, key=lambda one: one.place != ours.place):
        if other.shape != ours.shape:
            continue
        if (other.sizes, other.runtime) != (ours.sizes, ours.runtime):
            why = f"{theirs} was timed when the shape had other sizes"
        elif other.product != ours.product:
            why = f"{theirs} was timed on another device"
        elif other.id == ours.id:
            why = f"{theirs} has this very timing: nothing was measured since"
        else:
            return _Pair(ours, theirs, other)
    return _Pair(ours, theirs, None, why)


def _rows(side: _Pair, present: Mapping[str, str | None]) -> Iterator[Compared]:
    theirs = {}
    if side.other is not None:
        theirs = {one.cache: one for one in record_to_wire(side.other, present.get(side.other.unit))}
    for timing in record_to_wire(side.ours, present.get(side.ours.unit)):
        if not timing.cache:  # it failed
            continue
        if side.other is None:
            found = compare_with_contestant(side.ours, side.theirs, CacheState(timing.cache))
        else:
            found = compare_results(
                side.ours.measured,
                side.other.measured,
                CacheState(timing.cache),
                side.theirs,
                floor_us=floor_of(side.ours.report, side.other.report),
                other_device=other_device(side.ours, side.other),
            )
        why = side.why_not or f"{side.theirs} was not timed with a {timing.cache} cache"
        yield Compared(
            shape=timing.shape, cache=timing.cache, ours=timing.unit, theirs=side.theirs, timing=timing,
            other=theirs.get(timing.cache), comparison=found, why_not="" if found is not None else why,
        )  # fmt: skip
