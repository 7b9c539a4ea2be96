"""A unit's timings, and what its code object tells, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.cli.timing_words import time_of

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.timings import Timing
    from ckwatch.wire.values import Figures, Unit


def timing_in_words(unit: Unit) -> str:
    """`timing 1024`, or the first shape's time, rate and part of the bound, with how it stands if it is not fresh."""
    if unit.measuring is not None:
        return f"timing {unit.measuring}"
    good = [row for row in unit.timings if row.failure is None]
    if not good:
        return ""
    first = next((row for row in good if row.cache == "cold"), good[0])
    words = [f"{time_of(first.median_us)} ±{100 * first.relative_error:.1f} %"]
    if first.tflops is not None:
        words.append(f"{first.tflops:.3g} TFLOP/s")
    if first.bound_percent is not None:
        words.append(f"{first.bound_percent:.0f} % of the bound")
    if change := _change(first):
        words.append(change)
    more = len({row.shape for row in good}) - 1
    standing = "" if first.standing == "fresh" else ", stale"
    others = f", {more} more" if more else ""
    return f"{' '.join(words)} ({first.shape}{others}{standing})"


def figures_in_words(figures: Figures | None) -> str:
    """`occupancy 2 (VGPR), 194 VGPR, no spills, MFMA 92 % predicted`, with `stale` if it is; empty without figures."""
    if figures is None:
        return ""
    words = [] if figures.occupancy is None else [f"occupancy {figures.occupancy} ({figures.limited_by})"]
    words.append(f"{figures.vgprs} VGPR")
    if figures.agprs:
        words.append(f"{figures.agprs} AGPR")
    spilled = figures.vgpr_spills + figures.sgpr_spills
    words.append(f"{spilled} spilled" if spilled else "no spills")
    if figures.matrix_use is not None:
        words.append(f"MFMA {100 * figures.matrix_use:.0f} % predicted")
    if figures.standing == "stale":
        words.append("stale")
    return ", ".join(words)


def _change(row: Timing) -> str:
    previous = next((one for one in row.comparisons if one.against == "previous"), None)
    if previous is None or previous.verdict not in ("FAST", "SLOW"):
        return ""
    return f"{previous.verdict} {100 * (previous.ratio - 1):+.1f} %"
