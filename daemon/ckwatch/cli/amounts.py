"""Amounts as people say them."""

from __future__ import annotations

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
