"""Timings as points below a roof: rates over arithmetic intensity, and the roof as far as their bounds show it.

Each timing has its own bound, and the bounds of several shapes on one device lie on one roof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ckwatch.model.amounts import tflops
from ckwatch.model.lazy_dataclass import dataclass

ON_THE_ROOF = 0.005
"""Bounds that differ by less than this part are the same."""

End = tuple[float, float]
"""An intensity, and a rate in TFLOP/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """A timing: `intensity` in FLOP per byte, what it reached and what its bound allows in TFLOP/s."""

    shape: str
    cache: str
    intensity: float
    tflops: float
    bound_tflops: float | None
    instance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The slope (TB/s) and the flat part (TFLOP/s), each None where the points do not show it."""

    bandwidth_tbs: float | None
    peak_tflops: float | None

    @property
    def ridge(self) -> float | None:
        """The intensity where the two meet, FLOP per byte."""
        if self.bandwidth_tbs is None or self.peak_tflops is None:
            return None
        return self.peak_tflops / self.bandwidth_tbs

    def lines(self, low: float, high: float) -> list[tuple[str, tuple[End, End]]]:
        """The parts that are known, between two intensities: the name of each, and its ends."""
        found = []
        ridge = None if self.ridge is None else min(max(self.ridge, low), high)
        if (slope := self.bandwidth_tbs) is not None:
            name = f"{slope:.3g} TB/s" if slope >= 1 else f"{1e3 * slope:.3g} GB/s"
            end = high if ridge is None else ridge
            found.append((name, ((low, low * slope), (end, end * slope))))
        if (peak := self.peak_tflops) is not None:
            found.append((tflops(peak), ((low if ridge is None else ridge, peak), (high, peak))))
        return found

    def limit_of(self, point: RooflinePoint) -> Literal["matrix", "memory", ""]:
        """Return the limit behind the point's bound; empty if that is not shown, as with a hot cache."""
        if point.bound_tflops is None or point.cache != "cold":
            return ""
        if self.peak_tflops is not None and point.bound_tflops >= self.peak_tflops * (1 - ON_THE_ROOF):
            return "matrix"
        slope = self.bandwidth_tbs
        on_it = slope is not None and point.bound_tflops >= slope * point.intensity * (1 - ON_THE_ROOF)
        return "memory" if on_it else ""


def roofline_point(
    *,
    shape: str,
    cache: str,
    median_us: float,
    tflops: float | None,
    gbps: float | None,
    bound_us: float | None,
    instance: str = "",
) -> RooflinePoint | None:
    """The point of a timing; None where its floating-point operations or its bytes are not known."""
    if not tflops or not gbps:
        return None
    return RooflinePoint(
        shape=shape,
        instance=instance,
        cache=cache,
        intensity=1000 * tflops / gbps,
        tflops=tflops,
        bound_tflops=tflops * median_us / bound_us if bound_us else None,
    )


def roof_of(points: Sequence[RooflinePoint]) -> Roofline:
    """The roof above points of a cold cache, whose bounds lie on it: those on the slope have the highest bound per
    intensity in common, those on the flat part the highest bound. One bound alone does not show which it lies on."""
    bounds = [
        (point.intensity, point.bound_tflops)
        for point in points
        if point.bound_tflops is not None and point.cache == "cold"
    ]
    if not bounds:
        return Roofline(bandwidth_tbs=None, peak_tflops=None)
    peak = max(bound for _, bound in bounds)
    bandwidth = max(bound / intensity for intensity, bound in bounds)
    flat = {intensity for intensity, bound in bounds if bound >= peak * (1 - ON_THE_ROOF)}
    slope = {intensity for intensity, bound in bounds if bound / intensity >= bandwidth * (1 - ON_THE_ROOF)}
    # two points of different intensity on it, or one below the other part, make a line
    return Roofline(
        bandwidth_tbs=bandwidth if _spread(slope) or slope - flat else None,
        peak_tflops=peak if _spread(flat) or flat - slope else None,
    )


def _spread(intensities: set[float]) -> bool:
    return bool(intensities) and max(intensities) > min(intensities) * (1 + 2 * ON_THE_ROOF)
