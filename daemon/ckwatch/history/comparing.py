"""A unit's timings against others that are kept: of another unit, of its previous artifact, of a baseline, of the
vendor's library.

Only what is alike is compared: the same shape with the same sizes, the same device, the same cache state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ckwatch.errors import CkwatchError
from ckwatch.history.summaries import summary_of, wire_timings
from ckwatch.history.timing_record import TimingRecord
from ckwatch.history.timings import Timings
from ckwatch.stats import compare, compare_interleaved
from ckwatch.stats.comparison import MINIMUM_PAIRS, THRESHOLD
from ckwatch.timing.job import Cache
from ckwatch.timing.report import Measured
from ckwatch.wire.compared import Compared
from ckwatch.wire.timings import Comparison

PREVIOUS = "previous"
BASELINE = "baseline"
LIBRARY = "library"
"""What may be named in place of a unit, `baseline:NAME` too."""


def comparison(
    ours: Measured | None, theirs: Measured | None, cache: Cache, against: str, *, threshold: float = THRESHOLD
) -> Comparison | None:
    """Two measurements with this cache state by their intervals, as of such that were taken apart; None where one of
    them has no samples."""
    mine = None if ours is None else summary_of(ours.of(cache))
    other = None if theirs is None else summary_of(theirs.of(cache))
    if mine is None or other is None:
        return None
    found = compare(mine, other, threshold=threshold)
    return Comparison(verdict=found.verdict.value, ratio=found.ratio, against=against, other_median_us=other.median_us)


def interleaved(
    ours: Measured, theirs: Measured, cache: Cache, against: str, blocks: int, *, threshold: float = THRESHOLD
) -> Comparison | None:
    """Two contestants of one report that had `blocks` turns each, turn by turn. With too few turns to tell anything by
    them it is `comparison`; None without samples."""
    mine, other = ours.of(cache), theirs.of(cache)
    known = summary_of(other)
    if mine is None or other is None or known is None or summary_of(mine) is None:
        return None
    if min(blocks, len(mine.times_us), len(other.times_us)) < 2 * MINIMUM_PAIRS:
        return comparison(ours, theirs, cache, against, threshold=threshold)
    found = compare_interleaved(mine.times_us, other.times_us, blocks, threshold=threshold)
    return Comparison(
        verdict=found.verdict.value, ratio=found.ratio, against=against, other_median_us=known.median_us,
        interleaved=True,
    )  # fmt: skip


def beside(record: TimingRecord, contestant: str, cache: Cache, *, threshold: float = THRESHOLD) -> Comparison | None:
    """A unit against another contestant of its report, such as the library: turn by turn where they had turns in
    common. None where the report has no such contestant, or no samples of it."""
    ours, theirs = record.measured, record.measured_of(contestant)
    if ours is None or theirs is None:
        return None
    turns = {0 if samples is None else samples.blocks for samples in (ours.of(cache), theirs.of(cache))}
    blocks = min(turns) if len(turns) == 1 else 1
    return interleaved(ours, theirs, cache, contestant, blocks, threshold=threshold)


def compared(
    timings: Timings, unit: str, against: str, shape: str | None = None, *, present: Mapping[str, str | None]
) -> list[Compared]:
    """The latest timings of `unit` against those of another unit, or against `previous`, `baseline`, `baseline:NAME`
    (without a name the one that was set last), `library`. `present`: the keys of the units' present artifacts.

    Raises CkwatchError where one of the two has no timings at all, HistoryError where they cannot be read.
    """
    ours = [one for one in timings.latest(unit) if one.report is not None and shape in (None, one.shape)]
    if not ours:
        where = "" if shape is None else f" on the shape '{shape}'"
        raise CkwatchError(f"'{unit}' has no timings{where}", "`ckwatch bench` takes them")
    return [row for side in _sides(timings, unit, against, ours) for row in _rows(side, present)]


@dataclass(frozen=True, slots=True)
class _Side:
    """A record of ours, the one that it is to be compared with, and if there is none, why. The library has no record:
    it is in ours, and there is no reason why not."""

    ours: TimingRecord
    theirs: str
    other: TimingRecord | None
    why_not: str = ""


def _sides(timings: Timings, unit: str, against: str, ours: Sequence[TimingRecord]) -> list[_Side]:
    """What each of ours is compared with. Raises CkwatchError where there is nothing of that kind at all."""
    kind, _, name = against.partition(":")
    if against == PREVIOUS:
        before = [(one, timings.previous(one)) for one in ours]
        if not any(other for _, other in before):
            raise CkwatchError(f"'{unit}' has timings of one artifact only", "`ckwatch history` lists them")
        return [_Side(one, PREVIOUS, other, "" if other else "no other artifact was timed") for one, other in before]
    if against == LIBRARY:
        if not any(one.measured_of(LIBRARY) for one in ours):
            raise CkwatchError(f"no library was timed beside '{unit}'", "`library = true` under [bench], and a GEMM")
        why = "no library was timed beside it"
        return [_Side(one, LIBRARY, None, "" if one.measured_of(LIBRARY) else why) for one in ours]
    if kind == BASELINE:
        others, title = timings.baseline(unit, name or None), f"{BASELINE} {name}" if name else BASELINE
        if not others:
            which = f"the baseline '{name}'" if name else "any baseline"
            raise CkwatchError(f"'{unit}' has no timings in {which}", "`ckwatch baseline set NAME` sets one")
    else:
        others, title = [one for one in timings.latest(against) if one.report is not None], against
        if not others:
            raise CkwatchError(f"'{against}' has no timings", "`ckwatch bench` takes them")
    return [_like(one, title, others) for one in ours]


def _like(ours: TimingRecord, theirs: str, others: Iterable[TimingRecord]) -> _Side:
    """The record among `others` that was taken like ours."""
    why = f"{theirs} has no timing on this shape"
    for other in others:
        if other.shape != ours.shape:
            continue
        if (other.sizes, other.runtime) != (ours.sizes, ours.runtime):
            why = f"{theirs} was timed when the shape had other sizes"
        elif other.place != ours.place:
            why = f"{theirs} was timed on another device"
        elif other.id == ours.id:
            why = f"{theirs} has this very timing: nothing was measured since"
        else:
            return _Side(ours, theirs, other)
    return _Side(ours, theirs, None, why)


def _rows(side: _Side, present: Mapping[str, str | None]) -> Iterator[Compared]:
    theirs = {}
    if side.other is not None:
        theirs = {one.cache: one for one in wire_timings(side.other, present.get(side.other.unit))}
    for timing in wire_timings(side.ours, present.get(side.ours.unit)):
        if side.other is None:
            found = beside(side.ours, side.theirs, Cache(timing.cache))
        else:
            found = comparison(side.ours.measured, side.other.measured, Cache(timing.cache), side.theirs)
        why = side.why_not or f"{side.theirs} was not timed with a {timing.cache} cache"
        yield Compared(
            shape=timing.shape, cache=timing.cache, ours=timing.unit, theirs=side.theirs, timing=timing,
            other=theirs.get(timing.cache), comparison=found, why_not="" if found is not None else why,
        )  # fmt: skip
