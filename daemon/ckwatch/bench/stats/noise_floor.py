"""The noise floor: differences of times below it are none of the kernels'.

Three things make it: the resolution of the device's events, as a pair of events tells times apart; the jitter of what
is between two events when nothing is; and the steps that the samples themselves have, where a timer is coarser than it
says.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ckwatch.bench.stats.summary import median, quantile

_EQUAL_US = 2e-4
"""Times that differ by less are equal: a float of milliseconds keeps no more of some milliseconds."""

_NEAR = 1.1
"""Steps are looked for among times up to this factor from the median: a stall is no step of the timer."""

_SHARE = 0.25
"""A step counts where so many of the samples are repetitions of another: noise does not repeat itself."""


def resolution_us(times_us: Sequence[float]) -> float:
    """The least difference that times have; 0 where all are equal."""
    values = sorted({round(value, 4) for value in times_us})
    return min((high - low for low, high in itertools.pairwise(values) if high - low > _EQUAL_US), default=0.0)


def jitter_us(empty_us: Sequence[float]) -> float:
    """Distance of the quartiles of times with nothing in them. Raises ValueError for none."""
    ascending = sorted(empty_us)
    if not ascending:
        raise ValueError("no times")
    return quantile(ascending, 0.75) - quantile(ascending, 0.25)


def step_us(times_us: Sequence[float]) -> float:
    """The step of the timer that samples show: the least difference of those near the median, where most are
    repetitions of others; 0 where they are not. Raises ValueError for no samples."""
    middle = median(times_us)
    near = [round(value, 4) for value in times_us if middle / _NEAR <= value <= middle * _NEAR]
    distinct = len(set(near))
    if len(near) < 8 or distinct > (1 - _SHARE) * len(near):
        return 0.0
    return resolution_us(near)
