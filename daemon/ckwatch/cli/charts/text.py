"""Charts of characters: a line of the last medians, bars with their intervals.

Each function has an ASCII form for terminals that know nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVELS, ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-=*#%@"
EIGHTHS, ASCII_EIGHTHS = " ▏▎▍▌▋▊▉█", "       ##"
GAP = " "

FLAT = 0.02
"""A series that varies less than this part of its middle is drawn as if it varied so much: noise is to look like
noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value and the interval that it may have; all are at least 0 and `low` ≤ `value` ≤ `high`."""

    value: float
    low: float
    high: float


def sparkline(values: Sequence[float | None], *, ascii_only: bool = False) -> str:
    """A character for each value, higher for a larger one; a gap for None and for what is no finite number."""
    levels = ASCII_LEVELS if ascii_only else LEVELS
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return GAP * len(values)
    low, high = min(known), max(known)
    room = FLAT * abs(low + high) / 2
    if high - low < room:
        low, high = (low + high - room) / 2, (low + high + room) / 2
    steps = len(levels) - 1

    def level(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return GAP
        return levels[round((value - low) / (high - low) * steps) if high > low else steps // 2]

    return "".join(level(value) for value in values)


def bars(rows: Sequence[Bar | None], width: int, *, ascii_only: bool = False) -> list[str]:
    """A bar for each row, at most `width` characters long; the largest `high` fills it.

    The bar reaches to the value. Where the interval is wider than two characters it is at the bar's end: `████├─┼──┤`.
    """
    largest = max((row.high for row in rows if row is not None), default=0.0)
    if largest <= 0 or not math.isfinite(largest) or width < 1:
        return [""] * len(rows)
    return ["" if row is None else _bar(row, width, width / largest, ascii_only) for row in rows]


def _bar(row: Bar, width: int, scale: float, ascii_only: bool) -> str:
    eighths = ASCII_EIGHTHS if ascii_only else EIGHTHS
    low, high = int(row.low * scale), min(math.ceil(row.high * scale), width)
    if high - low > 2:
        left, line, middle, right = "|-+|" if ascii_only else "├─┼┤"
        interval = [left, *line * (high - low - 2), right]
        at = int(row.value * scale) - low
        if 0 < at < len(interval) - 1:
            interval[at] = middle
        return eighths[-1] * low + "".join(interval)
    whole, rest = divmod(min(round(row.value * scale * 8), 8 * width), 8)
    return (eighths[-1] * whole + eighths[rest]).rstrip()
