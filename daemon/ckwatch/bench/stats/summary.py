"""Summary statistics of a series of times: median, quartiles, error, noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSummary:
    """Times in microseconds.

    `minimum_us` to `q3_us` is the interval that comparisons use. `relative_error` is the standard error of the median
    as a part of it, `noise` the spread of one sample as a part of the median: what a normal distribution with these
    quartiles has as its relative standard deviation.
    """

    count: int
    median_us: float
    minimum_us: float
    q1_us: float
    q3_us: float
    relative_error: float
    noise: float


QUARTILES_TO_DEVIATION = 1.3489795
"""Distance of the quartiles of a normal distribution in standard deviations."""


def summarize(times_us: Iterable[float]) -> TimeSummary:
    """Summary of at least one time. Raises ValueError for none."""
    return summarize_sorted(sorted(times_us))


def summarize_sorted(times_us: Sequence[float]) -> TimeSummary:
    """The summary of times in ascending order. Raises ValueError for none."""
    if not times_us:
        raise ValueError("no samples")
    q1, middle, q3 = (quantile(times_us, part) for part in (0.25, 0.5, 0.75))
    return TimeSummary(
        count=len(times_us),
        median_us=middle,
        minimum_us=times_us[0],
        q1_us=q1,
        q3_us=q3,
        relative_error=median_error(times_us) / middle if middle > 0 else math.inf,
        noise=(q3 - q1) / QUARTILES_TO_DEVIATION / middle if middle > 0 else math.inf,
    )


def quantile(ascending: Sequence[float], part: float) -> float:
    """The quantile with linear interpolation between neighbours (Hyndman and Fan's type 7, numpy's default)."""
    at = (len(ascending) - 1) * part
    low = math.floor(at)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (at - low)


def median(values: Iterable[float]) -> float:
    """The median of at least one value. Raises ValueError for none."""
    ascending = sorted(values)
    if not ascending:
        raise ValueError("no samples")
    return quantile(ascending, 0.5)


def median_error(ascending: Sequence[float]) -> float:
    """Standard error of the median: a quarter of its interval of 95 %, in the unit of the samples.

    The number of samples below the true median is binomial with deviation sqrt(n) / 2, whatever the distribution, so
    the samples at ranks n / 2 ± sqrt(n), two deviations away, enclose it. Infinite for one sample.
    """
    count = len(ascending)
    if count < 2:
        return math.inf
    away = min(1 / math.sqrt(count), 0.5)
    return 0.25 * (quantile(ascending, 0.5 + away) - quantile(ascending, 0.5 - away))
