"""Rows in columns."""

from __future__ import annotations

import pytest

from ckwatch.cli.output import aligned


@pytest.mark.parametrize(
    ("rows", "right", "expected"),
    [
        ([], frozenset(), []),
        ([["a", "1"], ["bcd", "23"]], frozenset({1}), ["a     1", "bcd  23"]),
        ([["a", ""], ["bcd", "x", "more"], []], frozenset(), ["a", "bcd  x  more", ""]),
        ([["a", "", "b"], ["c"], ["d", "", ""]], frozenset(), ["a  b", "c", "d"]),
        ([["größe", "x"], ["寸", "y"]], frozenset(), ["größe  x", "寸     y"]),
    ],
)
def test_columns(rows: list[list[str]], right: frozenset[int], expected: list[str]) -> None:
    assert aligned(rows, right) == expected
