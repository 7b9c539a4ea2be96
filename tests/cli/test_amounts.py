"""Amounts in words."""

from __future__ import annotations

import pytest

from ckwatch.cli.amounts import count, duration, elapsed, memory


@pytest.mark.parametrize(
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
    assert [count(number, "unit") for number in (0, 1, 2)] == ["0 units", "1 unit", "2 units"]
