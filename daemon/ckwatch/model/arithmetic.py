"""Integer arithmetic as C++ has it: `/` truncates toward zero, and `%` takes the dividend's sign."""

from __future__ import annotations

import ast

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


def apply_operator(operator: ast.operator, left: int, right: int) -> int:
    """The value of one of `+ - * / %` in a tree of Python's parser. Raises `ZeroDivisorError`."""
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return divide(left, right)
        case ast.Mod():
            return remainder(left, right)
    raise ValueError(ast.dump(operator))
