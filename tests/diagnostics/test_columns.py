"""Byte columns from one ↔ code-point columns from zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.diagnostics.columns import byte_column, code_point_column


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        ("abc", 1, 0),
        ("abc", 3, 2),
        ("abc", 99, 3),
        ("abc", 0, 0),
        ("\t\tabc", 3, 2),
        ("größe x", 9, 6),
        ("é", 2, 0),
        ("∑x", 4, 1),
        ("😀x", 5, 1),
        ("", 1, 0),
    ],
)
def test_code_point_column(line: str, column: int, expected: int) -> None:
    assert code_point_column(line, column) == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.integers(0, 40))
def test_there_and_back(line: str, column: int) -> None:
    column = min(column, len(line))
    assert code_point_column(line, byte_column(line, column)) == column
