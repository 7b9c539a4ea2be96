"""The roofline as timings show it: each has its own bound, and bounds of several shapes lie on one roof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.timings import Timing

ON_THE_ROOF = 0.005
"""Bounds that differ by less than this part are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A timing: `intensity` in FLOP per byte, what it reached and what its bound allows in TFLOP/s."""

    shape: str
    cache: str
    intensity: float
    tflops: float
    bound_tflops: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """The slope (TB/s) and the flat part (TFLOP/s), each None where the points do not show it."""

    bandwidth_tbs: float | None
    peak_tflops: float | None

    @property
    def ridge(self) -> float | None:
        """The intensity where the two meet, FLOP per byte."""
        if self.bandwidth_tbs is None or self.peak_tflops is None:
            return None
        return self.peak_tflops / self.bandwidth_tbs


def points_of(timings: Iterable[Timing]) -> list[Point]:
    """A point for each timing whose floating-point operations and bytes are known."""
    return [
        Point(
            shape=timing.shape,
            cache=timing.cache,
            intensity=1000 * timing.tflops / timing.gbps,
            tflops=timing.tflops,
            bound_tflops=timing.tflops * timing.median_us / timing.bound_us if timing.bound_us else None,
        )
        for timing in timings
        if timing.failure is None and timing.tflops and timing.gbps
    ]


def roof_of(points: Sequence[Point]) -> Roof:
    """The roof above points of a cold cache, whose bounds lie on it: those on the slope have the highest bound per
    intensity in common, those on the flat part the highest bound. One bound alone does not tell which it lies on."""
    bounds = [
        (point.intensity, point.bound_tflops)
        for point in points
        if point.bound_tflops is not None and point.cache == "cold"
    ]
    if not bounds:
        return Roof(bandwidth_tbs=None, peak_tflops=None)
    peak = max(bound for _, bound in bounds)
    bandwidth = max(bound / intensity for intensity, bound in bounds)
    flat = {intensity for intensity, bound in bounds if bound >= peak * (1 - ON_THE_ROOF)}
    slope = {intensity for intensity, bound in bounds if bound / intensity >= bandwidth * (1 - ON_THE_ROOF)}
    # two points of different intensity on it, or one below the other part, make a line
    return Roof(
        bandwidth_tbs=bandwidth if _spread(slope) or slope - flat else None,
        peak_tflops=peak if _spread(flat) or flat - slope else None,
    )


def _spread(intensities: set[float]) -> bool:
    return bool(intensities) and max(intensities) > min(intensities) * (1 + 2 * ON_THE_ROOF)
