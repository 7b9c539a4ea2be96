"""Rows that fail are all named, and none keeps the others from being tried."""

from __future__ import annotations

import pytest

from helpers.each_row import each_row


def test_all_rows_that_fail_are_named() -> None:
    tried = []

    @each_row(("number", "word"), [(1, "a"), pytest.param(2, "b"), (3, "c")])
    def odd(number: int, word: str) -> None:
        tried.append(word)
        if number == 3:
            pytest.fail("three")
        assert number % 2 == 0

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows") as caught:
        odd()
    assert tried == ["a", "b", "c"]
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [["in the row number=1, word='a'"], ["in the row number=3, word='c'"]]


def test_a_table_without_rows_fails() -> None:
    empty: list[int] = []
    for rows in (empty, list[int]):
        with pytest.raises(AssertionError, match="no rows"):
            each_row("number", rows)(pytest.fail)()


def test_rows_are_made_when_the_test_runs() -> None:
    made, tried = [], []

    def rows() -> list[int]:
        made.append(1)
        return [1, 2]

    @each_row("number", rows)
    def test(number: int) -> None:
        tried.append(number)

    assert not made
    test()
    assert (made, tried) == ([1], [1, 2])
