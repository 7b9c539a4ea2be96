"""Integer arithmetic as C++ has it: `/` truncates toward zero, and `%` takes the dividend's sign."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

INTEGER_LIMIT_BITS = 4096
"""Largest integer that `*` and `**` may make in a template or in a sweep's condition."""


class ZeroDivisorError(ValueError):
    """A division by zero: no constant expression in C++ either."""

    def __init__(self) -> None:
        super().__init__("a division by zero")


def divide(left: int, right: int) -> int:
    """C++ integer division. Raises `ZeroDivisorError`."""
    if right == 0:
        raise ZeroDivisorError
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder(left: int, right: int) -> int:
    """C++ remainder. Raises `ZeroDivisorError`."""
    return left - right * divide(left, right)


OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: divide,
    ast.Mod: remainder,
}
"""`+ - * / %` in a tree of Python's parser; the last two raise `ZeroDivisorError`."""
