"""Brackets and lists of C++ without a compiler."""

from __future__ import annotations

import pytest

from ckwatch.headers.masked_text import closing, masked, split_list


def test_what_is_no_code_is_blank() -> None:
    text = "f('x', \"(\", 1'000); /* { */ g(); // (\n#define A \\\n 1 /* to the end\n"
    assert masked(text) == "f(   ,    , 1'000);         g();     \n#define A  \n 1              \n"


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("(a, (b), c) + d", 10),
        ("{ ( }", 4),
        ("((a)", -1),
        ("<A<int>, (b > c), {1, 2}>(d)", 24),
        ("<a <= b, c->d>(e)", 13),
        ("<<<grid, block>>>(x)", 16),
        ("< b) > c", -1),
        ("< b; c > d", -1),
        ("<< b > c", -1),
    ],
)
def test_the_bracket_that_closes(code: str, end: int) -> None:
    assert closing(code, 0) == end


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (" ", []),
        (" a<b, c>(1, 2) , x < y, z ", ["a<b, c>(1, 2)", "x < y", "z"]),
        ("LAUNCH, k<<<grid, block>>>(x, y)", ["LAUNCH", "k<<<grid, block>>>(x, y)"]),
        ("a << b, c >> d", ["a << b", "c >> d"]),
        (", {1, 2}", ["", "{1, 2}"]),
    ],
)
def test_the_elements_of_a_list(code: str, expected: list[str]) -> None:
    around = f"f({code})"
    bounds = [*split_list(around, 2, len(around) - 1)]
    assert [around[start:end] for start, end in bounds] == expected
