"""Tokens, conjunctions, matching and values of C++ integer expressions."""

from __future__ import annotations

import pytest

from ckwatch.checks.cpp_expression import NotArithmeticError, comparison, conjuncts, evaluate, spelled, tokens_of, unify
from helpers.each_row import each_row


@each_row(
    ("text", "value"),
    [
        ("128 % (32 * 3)", 32),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 % -2", 1),
        ("2 + 3 * 4 - 1", 13),
        ("(2 + 3) * 4", 20),
        ("10 - 4 - 3", 3),
        ("1 << 4 >> 1", 8),
        ("0x40 == 64", 1),
        ("1'024u", 1024),
        ("!0 && 3 > 2", 1),
        ("false || true", 1),
        ("1 ? 5 : 6", 5),
        ("0 ? 5 : 1 ? 7 : 8", 7),
        ("~0 & 6 | 1", 7),
        ("6 ^ 3", 5),
        ("a % b", 2),
        ("4 <= 3", 0),
        ("not 0 and 1", 1),
    ],
)
def test_evaluate(text: str, value: int) -> None:
    assert evaluate(tokens_of(text), {"a": 8, "b": 3}) == value


@each_row("text", ["", "x", "1 / 0", "f(3)", "a::b", "1 +", "(1", "1 2", "1 << 99", "a.b"])
def test_what_is_not_arithmetic(text: str) -> None:
    with pytest.raises(NotArithmeticError):
        evaluate(tokens_of(text), {"a": 1})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a % (b * c) == 0) && (d % (e)) == 0", ["a % (b * c) == 0", "(d % (e)) == 0"]),
        ("(a == 0 && (b == 0 && c))", ["a == 0", "b == 0", "c"]),
        ("a == 0 || b", ["a == 0 || b"]),
        ("is_same<A, B>{} and x", ["is_same<A, B>{}", "x"]),
        ("a /* && b */ == 1 // && c", ["a == 1"]),
    ],
)
def test_conjuncts(text: str, expected: list[str]) -> None:
    assert [spelled(term) for term in conjuncts(tokens_of(text))] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a % 3 == 0", ("a % 3", "==", "0")),
        ("(T::f() >= d.g())", ("T::f()", ">=", "d.g()")),
        ("x < 3", ("x", "<", "3")),
        ("S<1, 4>::At(2) % 3 != 0", ("S<1, 4>::At(2) % 3", "!=", "0")),
        ("is_same<A, B>{}", None),
        ("a == 0 && b == 0", None),
    ],
)
def test_comparison(text: str, expected: tuple[str, str, str] | None) -> None:
    found = comparison(tokens_of(text))
    assert (None if found is None else (spelled(found[0]), found[1], spelled(found[2]))) == expected


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("M % (X * W) == 0", "128 % (32 * 3) == 0", {"M": "128", "X": "32", "W": "3"}),
        ("M % M == 0", "8 % 8 == 0", {"M": "8"}),
        ("M % M == 0", "8 % 9 == 0", None),
        ("M > 0", "-1 > 0", {"M": "-1"}),
        ("n == f.g()", "n == f.g()", {"n": "n", "f": "f", "g": "g"}),
        ("L::At(D) % V == 0", "const ck::Sequence<1, 4, 8>::At(2) % 3 == 0", {"L": "const ck::Sequence<1, 4, 8>", "At": "At", "D": "2", "V": "3"}),
        ("M % N == 0", "8 / 3 == 0", None),
        ("M", "f(3)", None),
    ],
)  # fmt: skip
def test_unify(pattern: str, value: str, expected: dict[str, str] | None) -> None:
    found = unify(tokens_of(pattern), tokens_of(value))
    assert (None if found is None else {name: spelled(bound) for name, bound in found.items()}) == expected
