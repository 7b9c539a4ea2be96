"""Reads a failed `static_assert` in a header as a condition with values.

Clang says `static assertion failed due to requirement '128 % (32 * 3) == 0': Invalid tuning param!`: the failing
conjunct after substitution. The header says `(MPerBlock % (MPerXdl * MXdlPerWave) == 0) && …`: all conjuncts, with
names. Matching the two gives the condition, its names and their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ckwatch.checks import cpp_expression
from ckwatch.checks.clang_output import ClangMessage, ClangRange, code_point_column
from ckwatch.checks.places import ReadLine
from ckwatch.model.lazy_dataclass import dataclass

FAILED = re.compile(
    r"static (?:assertion|_assert) failed(?: due to requirement '(?P<requirement>.*?)'(?=: |$))?(?:: (?P<why>.*))?$"
)
_EVALUATES = re.compile(r"expression evaluates to '(?P<values>.*)'")
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">": "<=", "<=": ">", ">=": "<"}

_VALUES = (
    (re.compile(r"\b(?:ck::)?integral_constant<int, (-?\d+)>\{\}"), r"\1"),
    (re.compile(r"\b(?:ck::)?ThisThreadBlock<(\d+)(?:, \w+)*>::GetNumOfThread\(\)"), r"\1"),
)
_ELEMENT = re.compile(r"\b(?:const )?(?:ck::)?Sequence<([\d, ]+)>::At\((\d+)\)")

_SIZES: Mapping[str, str] = {
    **dict.fromkeys(("char", "int8_t", "uint8_t", "ck::f8_t", "ck::bf8_t"), "1"),
    **dict.fromkeys(("short", "int16_t", "_Float16", "__half", "__bf16", "half", "unsigned short"), "2"),
    **dict.fromkeys(("float", "int", "unsigned int", "int32_t"), "4"),
    **dict.fromkeys(("double", "long", "int64_t"), "8"),
}
"""Sizes of types in bytes, by their names in clang's messages."""

_KEYWORD = "static_assert"

READABLE = 60
"""Longest side of a comparison that is shown although it holds more than numbers, in characters."""

LINES_BEFORE = 12
"""How far above the reported place `static_assert(` is looked for: clang points at the failing conjunct."""

LINES_OF_STATEMENT = 80
"""How many lines of a header a statement may take."""


@dataclass(frozen=True, slots=True)
class FailedRequirement:
    """A condition that did not hold.

    `symbolic` are its tokens as the header writes them, `substituted` as clang prints them with values, `reduced` the
    same with CK's constants read as numbers, `bindings` the values of its names, `evaluated` the two sides as clang
    worked them out ("" when it did not say), `why` the assertion's own message.
    """

    symbolic: tuple[str, ...]
    substituted: tuple[str, ...]
    reduced: tuple[str, ...]
    bindings: Mapping[str, tuple[str, ...]]
    evaluated: str
    why: str

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the condition, in order, without repeats."""
        return tuple(dict.fromkeys(token for token in self.symbolic if re.match(r"[A-Za-z_]", token)))

    def outcome(self, shown: tuple[str, ...]) -> str:
        """Return the text shown after the condition: `128 % (32 * 3) = 32`. `shown` is `symbolic` in better names."""
        sides = cpp_expression.comparison(self.reduced)
        if sides is None:
            return "false"
        left, operator, right = sides
        symbols = cpp_expression.comparison(shown)
        left_text = _side_text(left, symbols[0] if symbols else left)
        right_text = _side_text(right, symbols[2] if symbols else right)
        if left_text is not None and right_text is not None:
            return left_text if len(right) == 1 else f"{left_text}, {right_text}"
        compared = cpp_expression.comparison(cpp_expression.tokens_of(self.evaluated))
        if compared is not None and len(right) == 1 and len(cpp_expression.spelled(left)) <= READABLE:
            return f"{cpp_expression.spelled(left)} = {cpp_expression.spelled(compared[0])}"
        if compared is not None:
            return (
                f"{cpp_expression.spelled(compared[0])} {_NEGATED[compared[1]]} {cpp_expression.spelled(compared[2])}"
            )
        return f"{cpp_expression.spelled(left)} {_NEGATED[operator]} {cpp_expression.spelled(right)}"

    def holds_with(self, values: Mapping[str, int]) -> bool | None:
        """Return True if the condition holds with `values` for its names; None if that cannot be determined."""
        known = {name: int(bound[0]) for name, bound in self.bindings.items() if len(bound) == 1 and bound[0].isdigit()}
        compared = cpp_expression.comparison(cpp_expression.tokens_of(self.evaluated))
        sides = cpp_expression.comparison(self.symbolic)
        if compared is not None and sides is not None:
            for side, value in ((sides[0], compared[0]), (sides[2], compared[2])):
                if len(side) == 1 and len(value) == 1 and value[0].isdigit():
                    known.setdefault(side[0], int(value[0]))
        try:
            return bool(cpp_expression.evaluate(self._with_sizes(), {**known, **values}))
        except cpp_expression.NotArithmeticError:
            return None

    def _with_sizes(self) -> tuple[str, ...]:
        """The condition with `sizeof(T)` as a number and `static_cast<int>(X)` as `(X)`."""
        out: list[str] = []
        at = 0
        while at < len(self.symbolic):
            piece = self.symbolic[at : at + 4]
            if piece[:2] == ("sizeof", "(") and piece[3:] == (")",):
                same = len(self.symbolic) == len(self.substituted)
                bound = (self.substituted[at + 2],) if same else self.bindings.get(piece[2], (piece[2],))
                out.append(_SIZES.get(" ".join(bound), piece[0]))
                at += 4
            elif piece[:2] == ("static_cast", "<") and piece[3:] == (">",):
                at += 4
            else:
                out.append(piece[0])
                at += 1
        return tuple(out)


def read_requirement(message: ClangMessage, read_line: ReadLine) -> FailedRequirement | None:
    """The condition behind a failed static assertion; None when `message` is something else."""
    match = FAILED.match(message.text)
    if match is None:
        return None
    text = match["requirement"] or ""
    substituted = _tidied(cpp_expression.tokens_of(_VALUES[0][0].sub(_VALUES[0][1], text)))
    evaluated = (found["values"] for note in message.notes if (found := _EVALUATES.match(note.text)))
    written = _written(message, read_line)
    symbolic, bindings = _conjunct(written, substituted)
    if not symbolic:
        return None
    reduced = _tidied(cpp_expression.tokens_of(_reduced(text))) if text else symbolic
    return FailedRequirement(
        symbolic, substituted or symbolic, reduced, bindings, next(evaluated, ""), match["why"] or ""
    )


def _reduced(text: str) -> str:
    """`const ck::Sequence<1, 4, 8>::At(2) % 3` → `8 % 3`; what is no constant of CK stays."""
    for pattern, replacement in _VALUES:
        text = pattern.sub(replacement, text)

    def element(match: re.Match[str]) -> str:
        numbers = match[1].split(",")
        index = int(match[2])
        return numbers[index].strip() if index < len(numbers) else match[0]

    return _ELEMENT.sub(element, text)


def _tidied(tokens: Sequence[str]) -> tuple[str, ...]:
    """`tokens` without parentheses around a single name or number, and with `Number<X>{}` as `X`."""
    out: list[str] = []
    at = 0
    while at < len(tokens):
        if tuple(tokens[at : at + 2]) == ("Number", "<") and tuple(tokens[at + 3 : at + 6]) == (">", "{", "}"):
            out.append(tokens[at + 2])
            at += 6
        elif (
            tokens[at] == "("
            and tuple(tokens[at + 2 : at + 3]) == (")",)
            and re.match(r"\w", tokens[at + 1])
            and not (out and re.match(r"[\w>]", out[-1]))
        ):
            out.append(tokens[at + 1])
            at += 3
        else:
            out.append(tokens[at])
            at += 1
    return tuple(out)


def _side_text(substituted: tuple[str, ...], symbolic: tuple[str, ...]) -> str | None:
    """`128 % (32 * 3) = 32`, `KPerThread = 4`, a literal alone; None when it is not plain arithmetic."""
    try:
        value = cpp_expression.evaluate(substituted)
    except cpp_expression.NotArithmeticError:
        return None
    text = cpp_expression.spelled(substituted)
    if text == str(value):
        return f"{cpp_expression.spelled(symbolic)} = {value}" if substituted != symbolic else text
    return f"{text} = {value}"


def _conjunct(
    written: tuple[str, ...], substituted: tuple[str, ...]
) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """The conjunct of the header's condition that clang means: the one that matches, else the most similar one."""
    terms = [_tidied(term) for term in cpp_expression.conjuncts(written)] if written else []
    if not substituted:
        return (terms[0] if len(terms) == 1 else written), {}
    for term in terms:
        bound = cpp_expression.unify(term, substituted)
        if bound is not None:
            return term, {name: value for name, value in bound.items() if value != (name,)}
    if not terms:
        return substituted, {}
    wanted = set(substituted)
    best = max(terms, key=lambda term: len(wanted & set(term)) / len(wanted | set(term)))
    return best, {}


def _written(message: ClangMessage, read_line: ReadLine) -> tuple[str, ...]:
    """The tokens of the failing condition as the header has them, () when it cannot be read.

    Clang underlines the failing conjunct; without that, it is the whole condition of the assertion around the place.
    """
    if message.position is None:
        return ()
    for found in message.ranges:
        if found.start == message.position:
            return cpp_expression.unwrapped(cpp_expression.tokens_of(_text_in(message.path, found, read_line)))
    line = message.position.line - 1
    for first in range(line, max(line - LINES_BEFORE, 0) - 1, -1):
        text = read_line(message.path, first)
        if text is None:
            return ()
        end = message.position.column + len(_KEYWORD) if first == line else len(text)
        at = text.rfind(_KEYWORD, 0, end)
        if at >= 0:
            return _condition(cpp_expression.tokens_of(statement(message.path, first, read_line)[at:]))
    return ()


def _text_in(path: str, found: ClangRange, read_line: ReadLine) -> str:
    lines = []
    for number in range(found.start.line - 1, min(found.end.line, found.start.line + LINES_OF_STATEMENT)):
        line = read_line(path, number)
        if line is None:
            return ""
        first = code_point_column(line, found.start.column) if number == found.start.line - 1 else 0
        last = code_point_column(line, found.end.column) if number == found.end.line - 1 else len(line)
        lines.append(line[first:last])
    return "\n".join(lines)


def _condition(tokens: tuple[str, ...]) -> tuple[str, ...]:
    if tokens[1:2] != ("(",):
        return ()
    end = cpp_expression.matching(tokens, 1)
    arguments = cpp_expression.split_at(tokens[2 : end if end > 0 else len(tokens)], (",",))
    if len(arguments) > 1 and arguments[-1][0][:1] and arguments[-1][0][0].startswith('"'):
        arguments = arguments[:-1]
    condition: tuple[str, ...] = ()
    for part, separator in arguments:
        condition = (*condition, *part, *((separator,) if separator else ()))
    return condition[:-1] if condition[-1:] == (",",) else condition


def statement(path: str, line: int, read_line: ReadLine) -> str:
    """The header's text from the zero-based `line` to the `;` that ends its first statement, "" when unreadable."""
    lines: list[str] = []
    depth = 0
    for number in range(line, line + LINES_OF_STATEMENT):
        text = read_line(path, number)
        if text is None:
            break
        lines.append(text)
        code = re.sub(r"//.*|\"(?:[^\"\\]|\\.)*\"", "", text)
        depth += sum(code.count(char) for char in "([{") - sum(code.count(char) for char in ")]}")
        if ";" in code and depth <= 0:
            break
    return "\n".join(lines)
