"""How far predictions were off, where there is a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log
from statistics import fmean, median


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A prediction and the measurement of the same artifact on the same shape, in microseconds; both above 0."""

    unit: str
    shape: str
    device: str
    predicted_us: float
    measured_us: float
    bound_us: float | None = None

    @property
    def ratio(self) -> float:
        """Measured over predicted: above 1 the prediction was too good."""
        return self.measured_us / self.predicted_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """`ratio` is the median of measured over predicted; `off` the geometric mean of how far each lies from that ratio
    (1.1: by 10 % up or down); `order` the part of all pairs of one shape and device that the predictions put in the
    order of the measurements, None without such a pair. `below_bound`: measured below the bound, so that the bound or
    the timing is wrong."""

    pairs: tuple[Pair, ...]
    ratio: float
    off: float
    order: float | None
    below_bound: tuple[Pair, ...]


def calibrate(pairs: Iterable[Pair]) -> Calibration | None:
    """The pairs, the worst first, and what they say together; None for none."""
    found = tuple(pairs)
    if not found:
        return None
    middle = median(pair.ratio for pair in found)
    distances = [abs(log(pair.ratio / middle)) for pair in found]
    return Calibration(
        pairs=tuple(sorted(found, key=lambda pair: (-abs(log(pair.ratio)), pair.unit, pair.shape))),
        ratio=middle,
        off=exp(fmean(distances)),
        order=_order(found),
        below_bound=tuple(pair for pair in found if pair.bound_us is not None and pair.measured_us < pair.bound_us),
    )


def _order(pairs: Sequence[Pair]) -> float | None:
    right = total = 0
    for one, other in combinations(pairs, 2):
        if (one.shape, one.device) != (other.shape, other.device) or one.measured_us == other.measured_us:
            continue
        total += 1
        right += (one.predicted_us - other.predicted_us) * (one.measured_us - other.measured_us) > 0
    return right / total if total else None
