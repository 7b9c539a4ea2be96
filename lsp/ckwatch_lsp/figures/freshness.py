"""Which of a unit's timings is shown, and whether it and the other figures are fresh, stale or being renewed."""

from __future__ import annotations

from typing import Literal

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.timings import Comparison, Timing
from ckwatch.wire.figures_text import comparison_with, shown_timing
from ckwatch.wire.state import Unit

Freshness = Literal["fresh", "stale", "running"]

AT_WORK = frozenset({"queued", "compiling"})
"""Phases after which there may be other figures."""


def failed_timing(unit: Unit, shape: str = "") -> Timing | None:
    """The first failure on `shape`, or on any."""
    return next((each for each in unit.timings if shape in ("", each.shape) and each.failure is not None), None)


def timing_freshness(unit: Unit, timing: Timing) -> Freshness:
    """Running while the unit is compiled or timed again."""
    if timing.standing == "running" or is_running(unit, timing.shape):
        return "running"
    return timing.standing


def figures_freshness(unit: Unit) -> Freshness:
    """That of `unit.figures`."""
    if unit.phase in AT_WORK:
        return "running"
    return "fresh" if unit.figures is not None and unit.figures.standing == "fresh" else "stale"


def is_running(unit: Unit, shape: str = "") -> bool:
    """Return True if something is on its way that may give other figures: of `shape`, or of any."""
    timed = unit.to_measure if not shape else (shape,) if shape in unit.to_measure else ()
    return unit.phase in AT_WORK or bool(timed) or (unit.measuring is not None and shape in ("", unit.measuring))


def change_of(timing: Timing) -> Comparison | None:
    """Against the unit's previous build: what the last edit did."""
    return comparison_with(timing.comparisons, "previous")


@dataclass(frozen=True, slots=True)
class UnitBrief:
    """The part of a unit that is needed to sum up thousands: the timing that is shown, its median in microseconds (0
    without), its standing, and True if something is on its way."""

    unit: Unit
    timing: Timing | None
    median_us: float
    freshness: Freshness
    running: bool


def brief_of(unit: Unit, shape: str = "") -> UnitBrief:
    """The brief of a unit, for `shape` or the first with a timing."""
    timing = shown_timing(unit, shape)
    running = is_running(unit)
    if timing is not None:
        return UnitBrief(unit, timing, timing.median_us, timing_freshness(unit, timing), running)
    return UnitBrief(unit, None, 0.0, figures_freshness(unit), running)
