"""The decision which of two kernels is faster.

Two measurements taken apart are compared by their intervals [minimum, third quartile], as `nvbench-compare-robust`
does: only intervals that do not touch, by a threshold, decide. What drifted between the two is then part of the
difference, so that a small one is not proof: `close` asks for another measurement in which both take turns.

Those are compared by pairs. In a round ABBA each block of A has a neighbour of B; a clock that drifts at an
even rate makes A look slower in one pair of four blocks by as much as it makes B in the other, so that their mean is
free of it. What is left is a handful of independent ratios, whose centre and interval are those of Wilcoxon's signed
rank test (Hodges and Lehmann's estimate), since a stall may hit a whole block. What a place in a round does is in them
with either sign, as often as with the other, since half of the rounds are BAAB, which ones by lot
(`ckwatch.bench.sampling.rounds`): of equals the test's signs are as random as it takes them to be.

Both have a noise floor (`ckwatch.bench.stats.noise_floor`): no difference below it is FAST or SLOW. And of measurements
that were taken apart at different clocks, none that the clocks alone explain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from ckwatch.bench.stats.summary import TimeSummary, median, quantile
from ckwatch.model.lazy_dataclass import dataclass


class SpeedVerdict(StrEnum):
    """How ours is against theirs; UNSURE: the samples do not tell."""

    FAST = "FAST"
    SLOW = "SLOW"
    SAME = "SAME"
    UNSURE = "UNSURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedComparison:
    """`ratio` is our time over theirs. `close`: a measurement in which both take turns may decide otherwise."""

    verdict: SpeedVerdict
    ratio: float
    close: bool


THRESHOLD = 0.005
"""Differences up to this part are none."""

CLEAR = 0.05
"""Differences above this part do not come from a clock that drifted between two measurements."""

NORMAL_95 = 1.959964
"""Deviations of a normal distribution that enclose 95 %."""

NORMAL_999 = 3.290527
"""The same of 99.9 %: what FAST and SLOW need, so that of a thousand comparisons of equals at most one is either."""

DECIDING_PAIRS = 11
"""With fewer values Wilcoxon's test has no interval of 99.9 %: the widest has 1 - 2 / 2 ** n."""

DECIDING_SAMPLES = 10
"""Of each side, for intervals: of fewer equals more than one in 1,000 have intervals that do not touch, by chance."""


def compare(
    ours: TimeSummary,
    theirs: TimeSummary,
    *,
    threshold: float = THRESHOLD,
    floor_us: float = 0.0,
    clock_ratio: float = 1.0,
) -> SpeedComparison:
    """Compare two measurements that were taken apart.

    FAST and SLOW: of at least 10 samples each the intervals are disjoint by `threshold`, and the medians differ by more
    than the noise floor, `floor_us`, and by more than the clocks do (`clock_ratio`: ours over theirs). SAME: the
    medians differ by no more than `threshold` or the floor, and are known well enough to say so.
    """
    ratio = _ratio(ours.median_us, theirs.median_us)
    threshold = max(threshold, floor_us / theirs.median_us)
    explained = max(clock_ratio, 1 / clock_ratio) * (1 + threshold)
    enough = min(ours.count, theirs.count) >= DECIDING_SAMPLES
    close = not enough or abs(ratio - 1) <= max(CLEAR, explained - 1)
    if enough and ours.q3_us < theirs.minimum_us * (1 - threshold) and ratio < 1 / explained:
        return SpeedComparison(verdict=SpeedVerdict.FAST, ratio=ratio, close=close)
    if enough and ours.minimum_us > theirs.q3_us * (1 + threshold) and ratio > explained:
        return SpeedComparison(verdict=SpeedVerdict.SLOW, ratio=ratio, close=close)
    uncertainty = math.hypot(ours.relative_error, theirs.relative_error)
    if abs(ratio - 1) <= threshold and uncertainty <= 2 * threshold:
        return SpeedComparison(verdict=SpeedVerdict.SAME, ratio=ratio, close=False)
    return SpeedComparison(verdict=SpeedVerdict.UNSURE, ratio=ratio, close=True)


def compare_interleaved(
    ours: Sequence[float],
    theirs: Sequence[float],
    blocks: int,
    *,
    threshold: float = THRESHOLD,
    floor_us: float = 0.0,
) -> SpeedComparison:
    """Compare times that were taken in turns: `blocks` blocks of each, in rounds ABBA and BAAB.

    Each series is its blocks one after the other, of equal length as far as that goes; the n-th block of ours is paired
    with the n-th of theirs. At least 22 blocks are needed to decide anything; 24 of 10 samples tell 2 % at 1 % noise.

    FAST and SLOW: the interval of 99.9 % of the ratio lies beyond `threshold`, and beyond the noise floor, `floor_us`.
    SAME: the ratio does not, and the interval of 95 % rules out twice that. Raises ValueError for fewer samples than
    blocks.
    """
    if blocks < 1 or len(ours) < blocks or len(theirs) < blocks:
        raise ValueError(f"{len(ours)} and {len(theirs)} samples are not {blocks} blocks")
    logs = [
        math.log(_ratio(mine, other))
        for mine, other in zip(_block_medians(ours, blocks), _block_medians(theirs, blocks), strict=True)
    ]
    # two pairs are a round; a pair that is left over has the drift in it
    pairs = [(first + second) / 2 for first, second in zip(logs[::2], logs[1::2], strict=False)]
    low, centre, high = centre_and_interval(pairs if len(pairs) > 1 else logs)
    least, _, most = centre_and_interval(pairs if len(pairs) > 1 else logs, NORMAL_999)
    ratio = math.exp(centre)
    limit = math.log1p(max(threshold, floor_us / median(theirs)))
    if len(pairs) < DECIDING_PAIRS:
        return SpeedComparison(verdict=SpeedVerdict.UNSURE, ratio=ratio, close=True)
    if least > limit:
        return SpeedComparison(verdict=SpeedVerdict.SLOW, ratio=ratio, close=False)
    if most < -limit:
        return SpeedComparison(verdict=SpeedVerdict.FAST, ratio=ratio, close=False)
    if abs(centre) <= limit and -2 * limit < low and high < 2 * limit:
        return SpeedComparison(verdict=SpeedVerdict.SAME, ratio=ratio, close=False)
    return SpeedComparison(verdict=SpeedVerdict.UNSURE, ratio=ratio, close=True)


def centre_and_interval(values: Sequence[float], deviations: float = NORMAL_95) -> tuple[float, float, float]:
    """(low, centre, high): the median of the means of all pairs, each value with itself too, and its interval, of 95 %
    unless another number of `deviations` is given.

    The interval's ranks are those of the signed rank test in its normal approximation: from 6 values on the exact ones,
    or one further out. Raises ValueError for no values.
    """
    means = sorted((first + second) / 2 for at, first in enumerate(values) for second in values[at:])
    count = len(values)
    deviation = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    rank = max(0, math.floor(count * (count + 1) / 4 - deviations * deviation - 0.5))
    if not means:
        raise ValueError("no values")
    return means[rank], quantile(means, 0.5), means[-1 - rank]


def _block_medians(times_us: Sequence[float], blocks: int) -> list[float]:
    edges = [len(times_us) * at // blocks for at in range(blocks + 1)]
    return [median(times_us[begin:end]) for begin, end in pairwise(edges)]


def _ratio(ours_us: float, theirs_us: float) -> float:
    if ours_us <= 0 or theirs_us <= 0:
        raise ValueError("times are above 0")
    return ours_us / theirs_us
