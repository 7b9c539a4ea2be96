"""The bars of `ckwatch best`: each median with its interval."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ckwatch.cli.best import Bar, bars
from helpers.each_row import each_row


def bar(value: float, low: float | None = None, high: float | None = None) -> Bar:
    return Bar(value=value, low=value if low is None else low, high=value if high is None else high)


@each_row(
    ("rows", "width", "expected"),
    [
        ([], 10, []),
        ([bar(10.0), bar(5.0)], 10, ["██████████", "█████"]),
        ([bar(10.0), bar(5.5)], 10, ["██████████", "█████▌"]),
        ([bar(10.0), None], 10, ["██████████", ""]),
        ([bar(8.0, 6.0, 10.0), bar(4.0)], 10, ["██████├─┼┤", "████"]),
        ([bar(2.0, 1.0, 10.0)], 10, ["█├┼──────┤"]),
        ([bar(1.5, 1.0, 10.0)], 10, ["█├───────┤"]),
        ([bar(0.0)], 10, [""]),
        ([bar(1.0)], 0, [""]),
        ([bar(math.inf)], 10, [""]),
    ],
)
def test_bars(rows: list[Bar | None], width: int, expected: list[str]) -> None:
    assert bars(rows, width) == expected


def test_bars_in_ascii() -> None:
    assert bars([bar(8.0, 6.0, 10.0), bar(4.5)], 10, ascii_only=True) == ["######|-+|", "####"]


@given(
    st.lists(
        st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=3, max_size=3).map(sorted), min_size=1, max_size=8
    ),
    st.integers(1, 60),
    st.booleans(),
)
def test_bars_fit_and_longer_is_longer(rows: list[list[float]], width: int, ascii_only: bool) -> None:
    given_bars = [Bar(low=low, value=value, high=high) for low, value, high in rows]
    lines = bars(given_bars, width, ascii_only=ascii_only)
    assert all(len(line) <= width for line in lines)
    longest = max(range(len(rows)), key=lambda at: given_bars[at].high)
    assert len(lines[longest]) >= max(len(line) for line in lines) - 1
