"""The arithmetic language of rules and definitions.

A condition must be read by a person, evaluated, and shown again with values in place of names
(`MPerBlock % (MPerXDL * MXdlPerWave) == 0` → `128 % (32 * 3) = 32`). One text serves all three. The language is
integer arithmetic as C++ constant expressions have it: `/` truncates toward zero, `%` takes the dividend's sign, and
a zero divisor is an error, as it is for the compiler. There are comparisons, `and`, `or`, `not`, subscripts,
tuple literals, `in`, and the functions of `FUNCTIONS`. Python's parser reads it, nothing is ever
passed to `eval`, and only ckwatch's own tables are written in it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any

from ckwatch.model.arithmetic import OPERATORS, ZeroDivisorError
from ckwatch.model.lazy_dataclass import dataclass

Value = int | str | tuple[int, ...] | tuple[str, ...]
"""Booleans are the integers 0 and 1; texts are names of types, layouts and enumerators."""

Lookup = Callable[[str], Value]
"""The value of a name. Raises UnknownValueError."""


class UnknownValueError(Exception):
    """A name has no value that can be computed with, so nothing can be said about the expression."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def integers(lookup: Lookup, *names: str) -> tuple[int, ...]:
    """The values of names that stand for numbers. Raises UnknownValueError where one does not."""
    values = tuple(lookup(name) for name in names)
    if not all(isinstance(value, int) for value in values):
        raise UnknownValueError(names[0])
    return tuple(int(value) for value in values)  # type: ignore[arg-type]


def _is_permutation(values: tuple[int, ...]) -> int:
    return sorted(values) == list(range(len(values)))


FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "lcm": math.lcm,
    "product": math.prod,
    "size": len,
    "is_permutation": _is_permutation,
}

_COMPARISONS: Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", lambda left, right: left == right),
    ast.NotEq: ("!=", lambda left, right: left != right),
    ast.Lt: ("<", lambda left, right: left < right),
    ast.LtE: ("<=", lambda left, right: left <= right),
    ast.Gt: (">", lambda left, right: left > right),
    ast.GtE: (">=", lambda left, right: left >= right),
    ast.In: ("in", lambda left, right: left in right),
    ast.NotIn: ("not in", lambda left, right: left not in right),
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A text that can be parsed, and the names in it, in the order in which they appear.

    Its tree is not kept, and what evaluates it is made when it is first needed: a process evaluates few of the rules.
    """

    text: str
    names: tuple[str, ...]
    _evaluator: Callable[[Lookup], Any] | None = field(default=None, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def value(self, lookup: Lookup) -> Value:
        """The value, with names resolved by `lookup`. Raises `UnknownValueError` when the outcome hangs on a name
        without a value, and `ZeroDivisorError`."""
        evaluator = self._evaluator
        if evaluator is None:
            evaluator = _compiled(_parse(self.text))
            object.__setattr__(self, "_evaluator", evaluator)
        found: Value = evaluator(lookup)
        return found

    def holds(self, lookup: Lookup) -> bool:
        """The value as a truth value; raises as `value` does."""
        return bool(self.value(lookup))

    def names_behind(self, lookup: Lookup) -> tuple[str, ...]:
        """The names that the value hangs on, in their order: those of branches that are taken, of operands that decide,
        and of the terms of a maximum that break the condition by themselves, or are it."""
        tree = _parse(self.text)
        found = {*_names_behind(tree, tree, lookup)}
        return tuple(name for name in self.names if name in found)

    def substituted(self, lookup: Lookup) -> str:
        """The text with values in place of names; a name without a value stays."""
        return _substitute(self.text, _parse(self.text), lookup)

    def outcome(self, lookup: Lookup) -> str:
        """Return the text shown after the condition: `128 % (32 * 3) = 32`; for `a == b`, both sides with values."""
        tree = _parse(self.text)
        if not isinstance(tree, ast.Compare):
            return self.substituted(lookup)
        left = self._side(tree.left, lookup)
        right = tree.comparators[0]
        if _is_literal(right):
            return left
        return f"{left}, {self._side(right, lookup)}"

    def _side(self, node: ast.expr, lookup: Lookup) -> str:
        text = _substitute(self._source(node), _parse(self._source(node)), lookup)
        try:
            value = _shown(_compiled(node)(lookup))
        except ZeroDivisorError:
            return f"{text} divides by zero"
        except UnknownValueError:
            return text
        if text == value:
            return f"{self._source(node)} = {value}" if not _is_literal(node) else value
        return f"{text} = {value}"

    def _source(self, node: ast.expr) -> str:
        return ast.get_source_segment(self.text, node) or self.text


@cache
def parse(text: str) -> Expression:
    """Read an expression; equal texts share one. Raises `ValueError` for what the language does not have."""
    nodes = list(ast.walk(_parse(text)))
    for node in nodes:
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"{type(node).__name__} is not part of the language: {text}")
        if isinstance(node, ast.Compare) and len(node.ops) != 1:
            raise ValueError(f"chained comparison: {text}")
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise ValueError(f"unknown function: {text}")
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    found = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in called]
    found.sort(key=lambda node: node.col_offset)
    return Expression(text, tuple(dict.fromkeys(node.id for node in found)))


_ALLOWED = (
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div,
    ast.Mod, ast.Compare, *_COMPARISONS, ast.IfExp, ast.Call, ast.Name, ast.Load, ast.Constant, ast.Subscript,
    ast.Tuple,
)  # fmt: skip


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{error.msg}: {text}") from error


def _compiled(node: ast.expr) -> Callable[[Lookup], Any]:
    """Compile a tree into a function: rules are evaluated tens of thousands of times, and a walk of the tree is
    slow."""
    match node:
        case ast.Constant(value=value):
            return lambda _: value
        case ast.Name(id=name):
            return lambda lookup: lookup(name)
        case ast.Tuple(elts=elements):
            parts = [_compiled(element) for element in elements]
            return lambda lookup: tuple(part(lookup) for part in parts)
        case ast.Subscript(value=base, slice=position):
            return _element(ast.unparse(node), _compiled(base), _compiled(position))
        case ast.BoolOp(op=operator, values=operands):
            return _connection(isinstance(operator, ast.And), [_compiled(operand) for operand in operands])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            negated = _compiled(operand)
            return lambda lookup: not negated(lookup)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _compiled(operand)
            return lambda lookup: -positive(lookup)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            asked, then, otherwise = _compiled(test), _compiled(body), _compiled(orelse)
            return lambda lookup: then(lookup) if asked(lookup) else otherwise(lookup)
        case ast.Compare(left=left, ops=[compared], comparators=[right]):
            compare, first, second = _COMPARISONS[type(compared)][1], _compiled(left), _compiled(right)
            return lambda lookup: compare(first(lookup), second(lookup))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            function, given = FUNCTIONS[name], [_compiled(argument) for argument in arguments]
            return lambda lookup: function(*(argument(lookup) for argument in given))
        case ast.BinOp(left=left, op=operator, right=right):
            return _arithmetic(OPERATORS[type(operator)], _compiled(left), _compiled(right))
    raise ValueError(ast.dump(node))


def _element(text: str, base: Callable[[Lookup], Any], position: Callable[[Lookup], Any]) -> Callable[[Lookup], Any]:
    def evaluate(lookup: Lookup) -> Any:
        values, index = base(lookup), position(lookup)
        if not isinstance(values, tuple) or not 0 <= index < len(values):
            raise UnknownValueError(text)
        return values[index]

    return evaluate


def _arithmetic(
    apply: Callable[[int, int], int], left: Callable[[Lookup], Any], right: Callable[[Lookup], Any]
) -> Callable[[Lookup], int]:
    def evaluate(lookup: Lookup) -> int:
        first, second = left(lookup), right(lookup)
        if not isinstance(first, int) or not isinstance(second, int):  # a type's name where a number is expected
            raise UnknownValueError(str(first if not isinstance(first, int) else second))
        return apply(first, second)

    return evaluate


def _connection(conjunction: bool, operands: Sequence[Callable[[Lookup], Any]]) -> Callable[[Lookup], bool]:
    """`and` and `or`; an operand without a value matters only when the others leave the outcome open."""

    def evaluate(lookup: Lookup) -> bool:
        unknown: UnknownValueError | None = None
        for operand in operands:
            try:
                if bool(operand(lookup)) != conjunction:
                    return not conjunction
            except UnknownValueError as error:
                unknown = error
        if unknown is not None:
            raise unknown
        return conjunction

    return evaluate


def _names_behind(node: ast.expr, tree: ast.expr, lookup: Lookup) -> Iterator[str]:
    parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    match node:
        case ast.Name(id=name):
            yield name
        case ast.IfExp(test=test, body=body, orelse=orelse):
            taken = _value_or_none(test, lookup)
            parts = parts if taken is None else [test, body if taken else orelse]
        case ast.BoolOp(op=operator, values=operands):
            deciding = [
                part for part in operands if _value_or_none(part, lookup) in (not isinstance(operator, ast.And), None)
            ]
            parts = list(deciding or operands)
        case ast.Call(func=ast.Name(id=name), args=terms):
            chosen = (
                terms if name not in ("max", "min") else [one for one in terms if _decides(one, node, tree, lookup)]
            )
            parts = list(chosen or terms)
    for part in parts:
        yield from _names_behind(part, tree, lookup)


def _decides(term: ast.expr, of: ast.Call, tree: ast.expr, lookup: Lookup) -> bool:
    """Return True if a term of a maximum or minimum breaks a comparison by itself; elsewhere, if it is the maximum."""
    if not isinstance(tree, ast.Compare):
        return _value_or_none(term, lookup) in (_value_or_none(of, lookup), None)
    alone = _parse(ast.unparse(tree).replace(ast.unparse(of), f"({ast.unparse(term)})"))
    return not _value_or_none(alone, lookup)


def _value_or_none(node: ast.expr, lookup: Lookup) -> Any:
    try:
        return _compiled(node)(lookup)
    except (UnknownValueError, ZeroDivisorError):
        return None


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Tuple) and all(map(_is_literal, node.elts)))


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        elements = ", ".join(str(element) for element in value)
        return f"S<{elements}>" if all(isinstance(element, int) for element in value) else f"({elements})"
    return str(int(value)) if isinstance(value, bool) else str(value)


def _substitute(text: str, tree: ast.expr, lookup: Lookup) -> str:
    """Replace names, and subscripts of names, by their values. Texts are one line of ASCII."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    replacements: dict[tuple[int, int], str] = {}
    covered: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in covered or id(node) in called:
            continue
        if isinstance(node, ast.Subscript):
            covered.update(id(inner) for inner in ast.walk(node) if inner is not node)
        elif not isinstance(node, ast.Name):
            continue
        try:
            value = _shown(_compiled(node)(lookup))
        except (UnknownValueError, ZeroDivisorError):
            continue
        replacements[(node.col_offset, node.end_col_offset or node.col_offset)] = value
    for (start, end), value in sorted(replacements.items(), reverse=True):
        text = text[:start] + value + text[end:]
    return text
