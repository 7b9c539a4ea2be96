"""Durations, sizes, timings and figures as text, and rows in columns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ckwatch.wire.figures_text import (
    NO_FIGURES,
    STAND_IN,
    comparison_words,
    error_of,
    interval_of,
    is_figure,
    rate_of,
    time_of,
)

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.benchmarks import Timing
    from ckwatch.wire.state import Figures, Unit

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def duration(seconds: float) -> str:
    """`0.04 s`, `23.4 s`, `2 min 5 s`, `3 h 20 min`, `4 d 2 h`: two units at most, the smaller one only if not zero."""
    if seconds < 10 * _MINUTE_S and round(seconds, 1) < _MINUTE_S:
        return f"{seconds:.2f} s" if seconds < 0.1 else f"{seconds:.1f} s"
    whole = round(seconds)
    for large, small, names in ((_DAY_S, _HOUR_S, ("d", "h")), (_HOUR_S, _MINUTE_S, ("h", "min"))):
        if whole >= large:
            return _two(whole // large, whole % large // small, names)
    return _two(whole // _MINUTE_S, whole % _MINUTE_S, ("min", "s"))


def elapsed(seconds: float) -> str:
    """Time that goes on, by the second: `7 s`, `2 min 5 s`."""
    return f"{seconds:.0f} s" if seconds < _MINUTE_S - 0.5 else duration(round(seconds))


def memory(size_bytes: int) -> str:
    """`54 MB`, `1.2 GB`."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"


def count(number: int, noun: str) -> str:
    """`1 unit`, `2 units`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _two(large: int, small: int, names: tuple[str, str]) -> str:
    return f"{large} {names[0]} {small} {names[1]}" if small else f"{large} {names[0]}"


GAP = "  "


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """A line for each row, its cells as wide as the widest of their column; those of the columns `right` at the right.

    Rows may have different numbers of cells; columns without a word are left out, and no line ends in blanks.
    """
    count = max((len(row) for row in rows), default=0)
    widths = [max((cell_len(row[at]) for row in rows if at < len(row)), default=0) for at in range(count)]

    def padded(at: int, cell: str) -> str:
        blanks = " " * (widths[at] - cell_len(cell))
        return blanks + cell if at in right else cell + blanks

    return [GAP.join(padded(at, cell) for at, cell in enumerate(row) if widths[at]).rstrip() for row in rows]


__all__ = [
    "NO_FIGURES",
    "STAND_IN",
    "VERDICT_STYLES",
    "comparison_words",
    "device_words",
    "figures",
    "interval_of",
    "is_figure",
    "provenance",
    "samples_words",
    "short_commit",
    "time_of",
    "when",
]

VERDICT_STYLES = {"FAST": "green", "SLOW": "red", "SAME": "", "UNSURE": "yellow"}


def figures(timing: Timing) -> list[str]:
    """The cells of a timing that has figures: median, error, interval, rate, part of the roofline's bound."""
    bound = "" if timing.bound_percent is None else f"{timing.bound_percent:.0f} % of bound"
    if timing.observed_percent is not None:
        bound += f" ({timing.observed_percent:.0f} % at {timing.clock_mhz:.0f} MHz)"
    return [time_of(timing.median_us), error_of(timing), interval_of(timing), rate_of(timing), bound]


def provenance(timing: Timing) -> list[str]:
    """The cells that say what was timed: artifact, commit, standing."""
    stale = "" if timing.standing == "fresh" else timing.standing
    return [timing.artifact_key[:12], short_commit(timing.commit), stale]


def short_commit(commit: str | None) -> str:
    """`1a2b3c4d5e`, with `-dirty` where it is."""
    if not commit:
        return ""
    oid, dash, dirty = commit.partition("-")
    return f"{oid[:10]}{dash}{dirty}"


def when(at: float) -> str:
    """`2026-01-31 14:05:09`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def device_words(timing: Timing) -> str:
    """`hip:0, AMD Instinct MI300X, 0000:c1:00.0`."""
    return ", ".join(part for part in (timing.device, timing.device_description, timing.pci or "") if part)


def samples_words(timing: Timing) -> str:
    """`200 samples`, with how many were discarded."""
    discarded = f", {timing.discarded} discarded" if timing.discarded else ""
    return f"{count(timing.samples, 'sample')}{discarded}"


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
