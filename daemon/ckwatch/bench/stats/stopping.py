"""When a measurement has enough samples, and when a warm-up is over.

The rule is nvbench's (`stdrel`): enough when the relative standard error is small, or when the noise itself no longer
changes, so that more samples would only confirm it. Here both are of the median.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Sequence

from ckwatch.bench.job import Precision
from ckwatch.bench.report import StopReason
from ckwatch.bench.stats.summary import median, summarize, summarize_sorted

STEADY_NOISE_MINIMUM = 4
"""Noise is only called steady after this many times the minimum of samples."""

NOISE_TOLERANCE = 0.05
"""Noise is steady when that of the first half, of three quarters and of all samples differ by no more than this."""


class StoppingRule:
    """Looks at samples as they come; `verdict` says whether to go on."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._in_order: list[float] = []
        self._ascending: list[float] = []

    @property
    def count(self) -> int:
        return len(self._in_order)

    def add(self, times_us: Iterable[float]) -> None:
        """More samples, in the order in which they were taken, without those that are discarded."""
        for time_us in times_us:
            self._in_order.append(time_us)
            insort(self._ascending, time_us)

    def verdict(self, elapsed_s: float) -> StopReason | None:
        """Why to stop after `elapsed_s` of measuring this contestant and cache state, or None to go on."""
        precision = self._precision
        if precision.limit_us is not None and self.certainly_above(precision.limit_us):
            return StopReason.SLOWER
        if elapsed_s >= precision.minimum_s and self.count >= max(precision.minimum_samples, 2):
            if summarize_sorted(self._ascending).relative_error <= precision.relative_error:
                return StopReason.PRECISE
            if self._noise_is_steady():
                return StopReason.STEADY_NOISE
        if elapsed_s >= precision.budget_s or self.count >= precision.maximum_samples:
            return StopReason.BUDGET
        return None

    def certainly_above(self, limit_us: float) -> bool:
        """Return True if the true median is above a time, with a certainty of 99.9 %.

        Of n samples, those below the true median are binomial with deviation sqrt(n) / 2, whatever the distribution:
        the sample 3.1 deviations below the middle is not above it but once in a thousand times.
        """
        rank = math.floor(self.count / 2 - 3.1 * math.sqrt(self.count) / 2)
        return rank >= 0 and self._ascending[rank] > limit_us

    def _noise_is_steady(self) -> bool:
        if self.count < STEADY_NOISE_MINIMUM * self._precision.minimum_samples:
            return False
        parts = (self._in_order[: self.count * quarters // 4] for quarters in (2, 3))
        noises = [summarize_sorted(self._ascending).noise, *(summarize(part).noise for part in parts)]
        return max(noises) - min(noises) <= NOISE_TOLERANCE * max(noises)


def is_steady(values: Sequence[float], *, window: int = 10, windows: int = 3, tolerance: float = 0.01) -> bool:
    """Return True if the last `windows` windows of `window` values each agree: their medians within `tolerance` of each
    other.

    `values` are clocks, or times of equal launches where the clock cannot be read. False while there are too few.
    """
    if len(values) < window * windows:
        return False
    last = values[-window * windows :]
    medians = [median(last[at : at + window]) for at in range(0, len(last), window)]
    return max(medians) - min(medians) <= tolerance * max(medians)
