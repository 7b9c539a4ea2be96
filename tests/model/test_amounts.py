"""Amounts as text."""

from __future__ import annotations

import math

import pytest

from ckwatch.model.amounts import (
    change,
    count,
    digits,
    duration,
    elapsed,
    memory,
    short_commit,
    sparkline,
    tflops,
    time_of,
)
from helpers.each_row import each_row


@each_row(
    ("seconds", "words"),
    [
        (0, "0.00 s"), (0.044, "0.04 s"), (0.12, "0.1 s"), (23.44, "23.4 s"), (59.94, "59.9 s"), (59.96, "1 min"),
        (60, "1 min"), (125, "2 min 5 s"), (3599.7, "1 h"), (3600, "1 h"), (12_000, "3 h 20 min"), (86_400, "1 d"),
        (352_800, "4 d 2 h"),
    ],
)  # fmt: skip
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (7.4, "7 s"), (59.4, "59 s"), (59.6, "1 min"), (125, "2 min 5 s")]
)
def test_elapsed(seconds: float, words: str) -> None:
    assert elapsed(seconds) == words


@pytest.mark.parametrize(("size", "words"), [(54_400_000, "54 MB"), (1_240_000_000, "1.2 GB")])
def test_memory(size: int, words: str) -> None:
    assert memory(size) == words


def test_count() -> None:
    assert (count(1, "access", "accesses"), count(2, "access", "accesses")) == ("1 access", "2 accesses")
    assert [count(number, "unit") for number in (0, 1, 2)] == ["0 units", "1 unit", "2 units"]


@each_row(
    ("microseconds", "expected"),
    [
        (0.0, "0.000 µs"),
        (0.01234, "0.012 µs"),
        (1.23456, "1.235 µs"),
        (9.9996, "10.00 µs"),
        (12.345, "12.35 µs"),
        (99.996, "100.0 µs"),
        (123.456, "123.5 µs"),
        (999.94, "999.9 µs"),
        (999.96, "1.000 ms"),
        (1000.0, "1.000 ms"),
        (123_456.0, "123.5 ms"),
        (999_960.0, "1.000 s"),
        (2_500_000.0, "2.500 s"),
        (3.6e9, "3600 s"),
    ],
)
def test_times(microseconds: float, expected: str) -> None:
    assert time_of(microseconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.00"),
        (1.234, "1.23"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (1234.5, "1234"),
    ],
)
def test_three_digits(value: float, expected: str) -> None:
    assert digits(value, 3) == expected


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(413.04, "413.0 TFLOP/s"), (0.99996, "1.000 TFLOP/s"), (0.9, "900.0 GFLOP/s"), (0.0123, "12.30 GFLOP/s")],
)
def test_rates(rate: float, expected: str) -> None:
    assert tflops(rate) == expected


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1.021, "+2.1 %"), (0.979, "−2.1 %"), (0.9999, "+0.0 %"), (3.0, "+200 %"), (0.0, "−100 %"), (1e9, "+9999 %")],
)
def test_changes(ratio: float, expected: str) -> None:
    assert change(ratio) == expected


@pytest.mark.parametrize(
    ("commit", "expected"),
    [(None, ""), ("", ""), ("0123456789abcdef", "0123456789"), ("0123456789abcdef-dirty", "0123456789-dirty")],
)
def test_commits(commit: str | None, expected: str) -> None:
    assert short_commit(commit) == expected


@each_row(
    ("values", "expected"),
    [
        ([], ""),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "▁▂▃▄▅▆▇█"),
        ([8.0, 1.0], "█▁"),
        ([1.0, None, 8.0], "▁ █"),
        ([1.0, math.nan, 8.0, math.inf], "▁ █ "),
        ([None, None], "  "),
        ([5.0], "▅"),
        ([5.0, 5.0], "▅▅"),
        ([0.0, 0.0], "▄▄"),
        # noise of a tenth of a per cent is not a mountain range
        ([100.0, 100.1, 99.9, 100.0], "▅▅▄▅"),
        # a tenth of the time is
        ([100.0, 110.0], "▁█"),
    ],
)
def test_sparkline(values: list[float | None], expected: str) -> None:
    assert sparkline(values) == expected


def test_sparkline_in_ascii() -> None:
    line = sparkline([1.0, 4.5, None, 8.0], ascii_only=True)
    assert (line.isascii(), line[0], line[-1], line[2]) == (True, "_", "@", " ")
