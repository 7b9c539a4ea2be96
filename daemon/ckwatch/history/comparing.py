"""A unit's timings against others that are kept: of another unit, of its previous artifact, of a baseline, of the
vendor's library.

Only what is alike is compared: the same shape with the same sizes, the same device, the same cache state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


def compared(
    timings: Timings, unit: str, against: str, shape: str | None = None, *, present: Mapping[str, str | None]
) -> list[Compared]:
    """The latest timings of `unit` against those of another unit, or against `previous`, `baseline`, `baseline:NAME`
    (without a name the one that was set last), `library`. `present`: the keys of the units' present artifacts.

    Raises CkwatchError where one of the two has no timings at all, HistoryError where they cannot be read.
    """
    ours = [one for one in timings.latest(unit) if one.report is not None and shape in (None, one.shape)]
    if not ours:
        raise CkwatchError(f"'{unit}' has no timings{_on(shape)}", "`ckwatch bench` takes them")
    sides = list(_sides(timings, unit, against, ours))
    if not any(side.found for side in sides):
        raise CkwatchError(*_nothing(unit, against, shape))
    return [row for side in sides for row in _rows(side, present)]


@dataclass(frozen=True, slots=True)
class _Side:
    """A record of ours, what is to be compared with it, and if there is nothing, why."""

    ours: TimingRecord
    theirs: str
    other: TimingRecord | None
    contestant: Measured | None
    why_not: str = ""

    @property
    def found(self) -> bool:
        return self.contestant is not None


def _sides(timings: Timings, unit: str, against: str, ours: Iterable[TimingRecord]) -> Iterator[_Side]:
    kind, _, name = against.partition(":")
    if against == PREVIOUS:
        for one in ours:
            before = timings.previous(one)
            why = "" if before is not None else "no other artifact was timed before"
            yield _Side(one, PREVIOUS, before, None if before is None else before.measured, why)
    elif against == LIBRARY:
        for one in ours:
            every = () if one.report is None else one.report.measured
            library = next((other for other in every if other.contestant.startswith(LIBRARY)), None)
            yield _Side(
                one, LIBRARY if library is None else library.contestant, None, library,
                "" if library is not None else "no library was timed beside it",
            )  # fmt: skip
    elif kind == BASELINE:
        named = f"{BASELINE} {name}" if name else BASELINE
        yield from (_like(one, named, timings.baseline(unit, name or None)) for one in ours)
    else:
        others = [one for one in timings.latest(against) if one.report is not None]
        yield from (_like(one, against, others) for one in ours)


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
        else:
            return _Side(ours, theirs, other, other.measured)
    return _Side(ours, theirs, None, None, why)


def _rows(side: _Side, present: Mapping[str, str | None]) -> Iterator[Compared]:
    theirs = {}
    if side.other is not None:
        theirs = {one.cache: one for one in wire_timings(side.other, present.get(side.other.unit))}
    for timing in wire_timings(side.ours, present.get(side.ours.unit)):
        found = _found(side, Cache(timing.cache))
        why = side.why_not or f"{side.theirs} was not timed with a {timing.cache} cache"
        yield Compared(
            shape=timing.shape, cache=timing.cache, ours=timing.unit, theirs=side.theirs, timing=timing,
            other=theirs.get(timing.cache), comparison=found, why_not="" if found is not None else why,
        )  # fmt: skip


def _found(side: _Side, cache: Cache) -> Comparison | None:
    """Turn by turn where both are of one report."""
    ours, theirs = side.ours.measured, side.contestant
    if side.other is not None or ours is None or theirs is None:
        return comparison(ours, theirs, cache, side.theirs)
    turns = {0 if samples is None else samples.blocks for samples in (ours.of(cache), theirs.of(cache))}
    return interleaved(ours, theirs, cache, side.theirs, min(turns) if len(turns) == 1 else 1)


def _nothing(unit: str, against: str, shape: str | None) -> tuple[str, str]:
    kind, _, name = against.partition(":")
    if against == PREVIOUS:
        return f"'{unit}' has timings of one artifact only{_on(shape)}", "`ckwatch history` lists them"
    if against == LIBRARY:
        return f"no library was timed beside '{unit}'{_on(shape)}", "`library = true` under [bench] in ckwatch.toml"
    if kind == BASELINE:
        named = f"the baseline '{name}' has" if name else "there is no baseline that has"
        return f"{named} no timings of '{unit}'{_on(shape)}", "`ckwatch baseline set NAME` sets one"
    return f"'{against}' has no timings like those of '{unit}'{_on(shape)}", "`ckwatch bench` takes them"


def _on(shape: str | None) -> str:
    return "" if shape is None else f" on the shape '{shape}'"
