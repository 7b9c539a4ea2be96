"""A row of bars for values in their order."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """The last `width` values, the least as the lowest bar, the greatest as the highest; equal ones halfway."""
    shown = values[-width:]
    if not shown:
        return ""
    least, most = min(shown), max(shown)
    if most <= least:
        return BARS[3] * len(shown)
    scale = (len(BARS) - 1) / (most - least)
    return "".join(BARS[round((value - least) * scale)] for value in shown)
