"""Amounts as text: counts, times, rates, sizes, points in time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400

LEVELS, ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-=*#%@"

FLAT = 0.02
"""A series that varies less than this part of its middle is drawn as if it varied so much: noise is to look like
noise."""


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 unit`, `2 units`; `plural` for nouns that do not just add an `s`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


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
    """The time of something that still runs, by the second: `7 s`, `2 min 5 s`."""
    return f"{seconds:.0f} s" if seconds < _MINUTE_S - 0.5 else duration(round(seconds))


def _two(large: int, small: int, names: tuple[str, str]) -> str:
    return f"{large} {names[0]} {small} {names[1]}" if small else f"{large} {names[0]}"


def timestamp(at: float) -> str:
    """`2026-01-31 14:05:09`, local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def clock(at: float) -> str:
    """`14:05:09`, local time."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def memory(size_bytes: int) -> str:
    """`54 MB`, `1.2 GB`."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"


def size(size_bytes: int) -> str:
    """`48 KiB`, `1000 B`."""
    return f"{size_bytes // 1024} KiB" if size_bytes and size_bytes % 1024 == 0 else f"{size_bytes} B"


def digits(value: float, significant: int = 4) -> str:
    """So many digits, but all of the integer part: `1.235`, `12.35`, `123.5`, `12345`."""
    for whole in range(1, significant):
        places = significant - whole
        if value < 10**whole - 0.5 * 10**-places:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def time_of(microseconds: float) -> str:
    """Four digits: `12.34 µs`, `1.234 ms`, `2.500 s`."""
    for limit, scale, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms")):
        if microseconds < limit - 0.05 * scale:
            return f"{digits(microseconds / scale)} {unit}"
    return f"{digits(microseconds / 1e6)} s"


def tflops(rate: float, significant: int = 4) -> str:
    """`413.0 TFLOP/s`; in GFLOP/s below one."""
    if rate >= 1 - 0.5 * 10**-significant:
        return f"{digits(rate, significant)} TFLOP/s"
    return f"{digits(rate * 1e3, significant)} GFLOP/s"


MINUS = "\u2212"


def change(ratio: float) -> str:
    """`+2.1 %` for what is 1.021 times as much, `−2.1 %` for what is 0.979 times as much."""
    percent = max(min(100 * (ratio - 1), 9999), -100)
    text = f"{percent:+.1f}" if abs(percent) < 99.95 else f"{percent:+.0f}"
    return f"{'+0.0' if text == '-0.0' else text} %".replace("-", MINUS)


def short_commit(commit: str | None) -> str:
    """`1a2b3c4d5e`, with `-dirty` where it is."""
    if not commit:
        return ""
    oid, dash, dirty = commit.partition("-")
    return f"{oid[:10]}{dash}{dirty}"


def sparkline(values: Sequence[float | None], *, ascii_only: bool = False) -> str:
    """A character for each value, higher for a larger one; a blank for None and for what is no finite number."""
    levels = ASCII_LEVELS if ascii_only else LEVELS
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return " " * len(values)
    low, high = min(known), max(known)
    room = FLAT * abs(low + high) / 2
    if high - low < room:
        low, high = (low + high - room) / 2, (low + high + room) / 2
    steps = len(levels) - 1

    def level(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return " "
        return levels[round((value - low) / (high - low) * steps) if high > low else steps // 2]

    return "".join(level(value) for value in values)
