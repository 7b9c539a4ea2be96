"""Reads C++ integer constant expressions: tokens, conjunctions, values.

Enough to read `(MPerBlock % (MPerXdl * MXdlPerWave) == 0) && …` from a header, to match it with the same expression
after substitution (`128 % (32 * 3) == 0`), and to work out its left-hand side. Division and remainder truncate
toward zero as in C++ ([expr.mul]); arithmetic is not reduced to 64 bits, as no tile comes near.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from ckwatch.model.arithmetic import ZeroDivisorError, divide, remainder

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F']+[uUlL]*|\d[\d']*[uUlL]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<operator><=>|::|->|&&|\|\||==|!=|<=|>=|<<|.))",
    re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPENING = {"(": ")", "[": "]", "{": "}"}
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_SPELLED = {"and": "&&", "or": "||", "not": "!"}


class NotArithmeticError(ValueError):
    """The expression holds something other than integers and operators on them."""


def tokens_of(text: str) -> tuple[str, ...]:
    """C++ tokens of `text` without comments and white space; `>>` is two tokens, as it may close two templates."""
    found = []
    for match in _TOKEN.finditer(_COMMENT.sub(" ", text)):
        lexeme = match.group().strip()
        if lexeme:
            found.append(_SPELLED.get(lexeme, lexeme))
    return tuple(found)


def spelled(tokens: Sequence[str]) -> str:
    """Tokens as one readable line."""
    binary = {*COMPARISONS, "&&", "||", "+", "*", "/", "%", "?", "="}
    out = ""
    previous = ""
    template = 0
    for at, lexeme in enumerate(tokens):
        if lexeme == "<" and re.match(r"[A-Za-z_]", previous) and _closes_template(tokens, at):
            template += 1
            out += lexeme
        elif lexeme == ">" and template:
            template -= 1
            out += lexeme
        elif lexeme == ",":
            out += ", "
        elif lexeme in binary or (lexeme == "-" and previous not in ("", "(", ",") and previous not in binary):
            out = f"{out.rstrip()} {lexeme} "
        elif re.match(r"\w", lexeme) and re.match(r"\w+$", previous):
            out += f" {lexeme}"
        else:
            out += lexeme
        previous = lexeme
    return out.strip()


def _closes_template(tokens: Sequence[str], start: int) -> bool:
    """Return True if the `<` at `start` opens template arguments: a `>` closes it before any logical operator."""
    depth = 0
    for lexeme in tokens[start:]:
        if lexeme in ("&&", "||", ";"):
            return False
        if lexeme == "<":
            depth += 1
        elif lexeme == ">":
            depth -= 1
            if depth == 0:
                return True
    return False


def matching(tokens: Sequence[str], start: int) -> int:
    """The index of the bracket that closes the one at `start`; -1 when there is none."""
    depth = 0
    for at in range(start, len(tokens)):
        if tokens[at] in _OPENING:
            depth += 1
        elif tokens[at] in _OPENING.values():
            depth -= 1
            if depth == 0:
                return at
    return -1


def unwrapped(tokens: Sequence[str]) -> tuple[str, ...]:
    """`tokens` without parentheses around the whole."""
    while len(tokens) > 2 and tokens[0] == "(" and matching(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tuple(tokens)


def split_at(tokens: Sequence[str], separators: Sequence[str]) -> list[tuple[tuple[str, ...], str]]:
    """The parts between `separators` outside brackets, each with the separator that follows it ("" at the end)."""
    parts = []
    depth = 0
    start = 0
    for at, lexeme in enumerate(tokens):
        if lexeme in _OPENING:
            depth += 1
        elif lexeme in _OPENING.values():
            depth -= 1
        elif depth == 0 and lexeme in separators and not (lexeme in "<>" and _in_template(tokens, at)):
            parts.append((tuple(tokens[start:at]), lexeme))
            start = at + 1
    parts.append((tuple(tokens[start:]), ""))
    return parts


def _in_template(tokens: Sequence[str], at: int) -> bool:
    """Return True if the angle bracket at `at` belongs to template arguments rather than to a comparison."""
    if tokens[at] == "<":
        return at > 0 and re.match(r"[A-Za-z_]", tokens[at - 1]) is not None and _closes_template(tokens, at)
    return any(
        tokens[start] == "<"
        and start > 0
        and re.match(r"[A-Za-z_]", tokens[start - 1])
        and _closes_at(tokens, start, at)
        for start in range(at)
    )


def _closes_at(tokens: Sequence[str], start: int, end: int) -> bool:
    depth = 0
    for at in range(start, end + 1):
        depth += (tokens[at] == "<") - (tokens[at] == ">")
        if depth == 0:
            return at == end
    return False


def conjuncts(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """The terms of a conjunction, unwrapped; one term when there is no `&&`."""
    whole = unwrapped(tokens)
    parts = split_at(whole, ("&&",))
    if len(parts) == 1:
        return [whole]
    return [term for part, _ in parts for term in conjuncts(part)]


def comparison(tokens: Sequence[str]) -> tuple[tuple[str, ...], str, tuple[str, ...]] | None:
    """Left-hand side, operator and right-hand side of a comparison; None when it is something else."""
    whole = unwrapped(tokens)
    if len(split_at(whole, ("&&", "||", "?"))) > 1:
        return None
    for operators in (("==", "!="), ("<", ">", "<=", ">=")):
        parts = split_at(whole, operators)
        if len(parts) == 2:
            return parts[0][0], parts[0][1], parts[1][0]
        if len(parts) > 2:
            return None
    return None


def unify(pattern: Sequence[str], value: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
    """Bindings of the names in `pattern` that turn it into `value`, None when nothing does.

    A name matches itself, one literal, one negative literal, or one type with its template arguments
    (`const ck::Sequence<1, 4, 8>`), and always the same.
    """
    return _unify(tuple(pattern), tuple(value), 0, 0, {})


def _unify(
    pattern: tuple[str, ...], value: tuple[str, ...], at: int, to: int, bound: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]] | None:
    while at < len(pattern) and to < len(value):
        name = pattern[at]
        if re.match(r"[A-Za-z_]", name) and name not in ("true", "false"):
            for end in _operand_ends(value, to, name):
                taken = value[to:end]
                if bound.get(name, taken) != taken:
                    continue
                found = _unify(pattern, value, at + 1, end, {**bound, name: taken})
                if found is not None:
                    return found
            return None
        if name != value[to]:
            return None
        at += 1
        to += 1
    return bound if at == len(pattern) and to == len(value) else None


def _operand_ends(value: tuple[str, ...], start: int, name: str) -> list[int]:
    """Return the possible ends of an operand that `name` may stand for and that begins at `start`."""
    first = value[start]
    if first == name or re.match(r"\d|true$|false$", first):
        return [start + 1]
    if first == "-" and value[start + 1 : start + 2] and value[start + 1].isdigit():
        return [start + 2]
    at = start + (first == "const")
    while value[at + 1 : at + 2] == ("::",):
        at += 2
    if value[at + 1 : at + 2] != ("<",) or not re.match(r"[A-Za-z_]", value[at]):
        return []
    depth = 0
    for end in range(at + 1, len(value)):
        depth += (value[end] == "<") - (value[end] == ">")
        if depth == 0:
            return [end + 1]
    return []


def evaluate(tokens: Sequence[str], names: Mapping[str, int] | None = None) -> int:
    """The value of an integer expression; comparisons and logic give 0 or 1. Raises `NotArithmeticError` for names that
    are not in `names`, calls, division by zero and anything malformed."""
    joined: list[str] = []
    for lexeme in tokens:
        if lexeme == ">" and joined[-1:] == [">"]:
            joined[-1] = ">>"
        else:
            joined.append(lexeme)
    rest = joined[::-1]
    value = _ternary(rest, names or {})
    if rest:
        raise NotArithmeticError(spelled(tokens))
    return value


def _take(rest: list[str], expected: str) -> None:
    if not rest or rest.pop() != expected:
        raise NotArithmeticError(f"expected {expected!r}")


def _ternary(rest: list[str], names: Mapping[str, int]) -> int:
    """The value of the expression at the end of `rest`, which is the other way round and gets shorter."""
    condition = _binary(rest, names, 0)
    if rest[-1:] != ["?"]:
        return condition
    rest.pop()
    yes = _ternary(rest, names)
    _take(rest, ":")
    no = _ternary(rest, names)
    return yes if condition else no


def _binary(rest: list[str], names: Mapping[str, int], lowest: int) -> int:
    left = _unary(rest, names)
    while rest and rest[-1] in _OPERATORS and _OPERATORS[rest[-1]][0] >= lowest:
        symbol = rest.pop()
        level, apply = _OPERATORS[symbol]
        right = _binary(rest, names, level + 1)
        if symbol in ("<<", ">>") and not 0 <= right < 64:
            raise NotArithmeticError("shift out of range")
        try:
            left = int(apply(left, right))
        except ZeroDivisorError as error:
            raise NotArithmeticError(str(error)) from None
    return left


def _unary(rest: list[str], names: Mapping[str, int]) -> int:
    lexeme = rest.pop() if rest else ""
    if lexeme in _PREFIXES:
        return int(_PREFIXES[lexeme](_unary(rest, names)))
    if lexeme == "(":
        value = _ternary(rest, names)
        _take(rest, ")")
        return value
    if lexeme in ("true", "false"):
        return int(lexeme == "true")
    if lexeme in names and (not rest or rest[-1] not in ("::", "<", "(", "{", ".")):
        return names[lexeme]
    if re.match(r"\d", lexeme):
        return int(lexeme.replace("'", "").rstrip("uUlL"), 0) if lexeme.strip("0") else 0
    raise NotArithmeticError(lexeme)


_PREFIXES: Mapping[str, Callable[[int], int]] = {
    "-": operator.neg, "+": operator.pos, "!": operator.not_, "~": operator.invert,
}  # fmt: skip
_OPERATORS: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (0, lambda left, right: left != 0 or right != 0), "&&": (1, lambda left, right: left != 0 and right != 0),
    "|": (2, operator.or_), "^": (3, operator.xor), "&": (4, operator.and_), "==": (5, operator.eq),
    "!=": (5, operator.ne), "<": (6, operator.lt), ">": (6, operator.gt), "<=": (6, operator.le),
    ">=": (6, operator.ge), "<<": (7, operator.lshift), ">>": (7, operator.rshift), "+": (8, operator.add),
    "-": (8, operator.sub), "*": (9, operator.mul), "/": (9, divide), "%": (9, remainder),
}  # fmt: skip
"""By operator, how tightly it binds, and what it does."""
