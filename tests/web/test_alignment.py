"""Instructions of two kernels, side by side."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ckwatch_web.alignment import AlignedPair, align, without_registers


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("v_mfma_f32_32x32x8_f16 v[50:65], v[98:99], a[2:3], 0", "v_mfma_f32_32x32x8_f16 v×16, v×2, a×2, 0"),
        ("ds_read_b128 v[0:3], v134 offset:8192", "ds_read_b128 v×4, v offset:8192"),
        ("s_waitcnt vmcnt(5) lgkmcnt(0)", "s_waitcnt vmcnt(5) lgkmcnt(0)"),
        ("s_cbranch_scc1 B12", "s_cbranch_scc1 label"),
        ("v_cmp_gt_i32_e64 s[14:15], s26, v177", "v_cmp_gt_i32_e64 s×2, s, v"),
    ],
)
def test_registers_say_nothing(instruction: str, expected: str) -> None:
    assert without_registers(instruction) == expected


def changes(ours: list[str], theirs: list[str]) -> list[tuple[str, str, str]]:
    return [
        ("" if one.ours is None else ours[one.ours], one.change, "" if one.theirs is None else theirs[one.theirs])
        for one in align(ours, theirs)
    ]


def test_other_constants_differ_and_other_registers_do_not() -> None:
    assert changes(["v_add v1, v2", "s_waitcnt vmcnt(5)"], ["v_add v7, v8", "s_waitcnt vmcnt(7)"]) == [
        ("v_add v1, v2", "", "v_add v7, v8"),
        ("s_waitcnt vmcnt(5)", "≠", "s_waitcnt vmcnt(7)"),
    ]


def test_what_one_of_them_has_more_has_no_partner() -> None:
    assert changes(["a", "b", "c"], ["a", "x", "y", "c", "d"]) == [
        ("a", "", "a"), ("b", "≠", "x"), ("", "+", "y"), ("c", "", "c"), ("", "+", "d"),
    ]  # fmt: skip
    assert changes(["a", "b"], ["a"]) == [("a", "", "a"), ("b", "−", "")]
    assert align([], []) == []
    assert align(["a"], []) == [AlignedPair(0, None, "−")]


@pytest.mark.parametrize("size", [50, 6000])
def test_all_instructions_of_both_are_there_in_their_order(size: int) -> None:
    chosen = random.Random(size)  # noqa: S311  # the same each time
    words = [f"v_op{number} v1, {number}" for number in range(12)]
    ours = [chosen.choice(words) for _ in range(size)]
    theirs = [one for one in ours if chosen.random() > 0.1]
    pairs = align(ours, theirs)
    assert [one.ours for one in pairs if one.ours is not None] == [*range(len(ours))]
    assert [one.theirs for one in pairs if one.theirs is not None] == [*range(len(theirs))]
    matched = [one for one in pairs if one.change == ""]
    assert len(matched) > 0.8 * len(theirs)
    assert all(ours[one.ours or 0] == theirs[one.theirs or 0] for one in matched)
    assert all(one.ours < other.ours for one, other in pairwise(matched) if one.ours is not None and other.ours)
