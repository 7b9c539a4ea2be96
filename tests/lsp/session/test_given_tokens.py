"""Semantic tokens as the difference from those that an editor has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch_lsp.session.given_tokens import TOKENS_KEPT, GivenTokens, changed_tokens

DATA = st.lists(st.integers(0, 3), max_size=12)


@given(DATA, DATA)
def test_the_edit_makes_one_of_the_other(before: list[int], after: list[int]) -> None:
    found = list(before)
    for edit in changed_tokens(before, after):
        found[edit.start : edit.start + edit.delete_count] = edit.data or []
    assert found == after


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], []),
        ([1, 2, 3], [1, 9, 3], [(1, 1, [9])]),
        ([1, 2, 3], [1, 3], [(1, 1, None)]),
        ([], [4], [(0, 0, [4])]),
        ([1, 1], [1, 1, 1], [(2, 0, [1])]),
    ],
)
def test_only_what_differs_is_sent(before: list[int], after: list[int], expected: list[object]) -> None:
    assert [(one.start, one.delete_count, one.data) for one in changed_tokens(before, after)] == expected


def test_old_results_are_forgotten() -> None:
    kept = GivenTokens()
    first = kept.keep("a", [1])
    assert kept.known("a", first) == [1]
    second = kept.keep("a", [2])
    assert (kept.known("a", first), kept.known("a", second)) == (None, [2])
    for at in range(TOKENS_KEPT):
        kept.keep(f"b{at}", [])
    assert kept.known("a", second) is None
