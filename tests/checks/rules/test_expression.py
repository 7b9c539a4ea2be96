"""The rules' arithmetic language: values as C++ has them, and the text that shows them."""

from __future__ import annotations

import pytest

from ckwatch.checks.rules.expression import UnknownValueError, Value, parse
from ckwatch.model.arithmetic import ZeroDivisorError
from helpers.each_row import each_row

VALUES: dict[str, Value] = {"M": 128, "X": 32, "W": 3, "zero": 0, "S3": (8, 32, 1), "order": (1, 0, 2), "L": "Row"}


def lookup(name: str) -> Value:
    if name not in VALUES:
        raise UnknownValueError(name)
    return VALUES[name]


@each_row(
    ("text", "expected"),
    [
        ("M % (X * W)", 32),
        ("M / X / W", 1),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("M / X == 4", True),
        ("S3[1] * S3[2]", 32),
        ("S3[order[0]]", 32),
        ("product(S3)", 256),
        ("lcm(4, 6) + max(1, W) - min(M, X)", -17),
        ("is_permutation(order)", True),
        ("is_permutation(S3)", False),
        ("size(S3) == 3 and W in (1, 2)", False),
        ("L == 'Row'", True),
        ("1 if zero else 2", 2),
        ("(M / X, W)", (4, 3)),
        ("W == 3 or nobody == 1", True),
        ("W == 4 and nobody == 1", False),
    ],
)
def test_values(text: str, expected: Value) -> None:
    assert parse(text).value(lookup) == expected


@pytest.mark.parametrize("text", ["M / zero", "M % zero", "zero == 0 and M / zero > 1"])
def test_a_zero_divisor_is_no_value(text: str) -> None:
    with pytest.raises(ZeroDivisorError):
        parse(text).value(lookup)


@pytest.mark.parametrize("text", ["nobody + 1", "W == 3 and nobody == 1", "S3[3]", "S3[0] + L", "L[0]"])
def test_what_cannot_be_known_is_said_so(text: str) -> None:
    with pytest.raises(UnknownValueError):
        parse(text).value(lookup)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M % (X * W) == 0", "128 % (32 * 3) = 32"),
        ("product(S3) <= M", "product(S<8, 32, 1>) = 256, M = 128"),
        ("W in (1, 2)", "W = 3"),
        ("S3[0] % W == 0", "8 % 3 = 2"),
        ("X * W == M / 2", "32 * 3 = 96, 128 / 2 = 64"),
        ("W > 3 and X == 1", "3 > 3 and 32 == 1"),
        ("M % zero == 0", "128 % 0 divides by zero"),
        ("nobody % W == 0", "nobody % 3"),
    ],
)
def test_outcome(text: str, expected: str) -> None:
    assert parse(text).outcome(lookup) == expected


@each_row("text", ["1 <", "a < b < c", "a.b", "f(x)", "(lambda: 1)()", "[1]", "a ** b", "a[0:1]", "f'{a}'", "min(*a)"])
def test_only_the_language_is_read(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (the text is in the message; several reasons)
        parse(text)
