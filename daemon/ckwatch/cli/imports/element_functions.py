"""Operations on elements, as CK's programs write them in C++ → the same in NumPy.

A functor's `operator()(e, c, d0, …)` with assignments of arithmetic, casts and calls of other functors is translated
word by word, in double precision; anything else is not, so that nothing is guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ckwatch.cli.imports.source_text import elements, one_line
from ckwatch.headers.masked_text import closing, masked
from ckwatch.model.lazy_dataclass import dataclass

_FUNCTIONS: Mapping[str, str] = {
    "exp": "np.exp", "expf": "np.exp", "__expf": "np.exp", "log": "np.log", "sqrt": "np.sqrt", "tanh": "np.tanh",
    "abs": "np.abs", "fabs": "np.abs", "max": "np.maximum", "min": "np.minimum", "fmaxf": "np.maximum",
    "fminf": "np.minimum", "pow": "np.power",
}  # fmt: skip
_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Attribute, ast.Name, ast.Constant, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.USub, ast.UAdd, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
)
_CAST = re.compile(r"\b(?:(?:ck::)?type_convert|static_cast)\s*<")
_CONSTRUCTION = re.compile(r"\b(?:(?:ck::)?(?:half_t|bhalf_t|float|double))\s*(?=[({])")
_NUMBER = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)[fF]?\b")
_ASSIGNMENT = re.compile(
    r"(?:(?:const|constexpr|auto|float|double|int|[\w:]*\w+_t|[A-Z]\w*)\s+)*(?P<name>\w+)\s*(?P<operator>[-+*/]?)=(?!=)(?P<value>.*)"
)
_CALL = re.compile(
    r"(?P<name>[\w:]+)\s*\{\s*\}\s*(?:\.\s*(?:template\s+)?operator\s*\(\s*\)\s*(?:<[^()]*>)?)?\s*\((?P<arguments>.*)\)"
)


_EMPTY = re.compile(r"(?:float|double|[\w:]+_t|[A-Z]\w*) \w+")


class UntranslatableError(ValueError):
    """C++ that is not translated; the message is the part of it."""


@dataclass(slots=True)
class ElementFunctions:
    """Functions of a Python module, by the names of functors. `source` gives the C++ of one, None for an unknown one.

    `values` are the numbers with which a functor is constructed.
    """

    source: Callable[[str], str | None]
    values: Mapping[str, Sequence[float]]
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, operands: int) -> str:
        """Translate a functor of so many operands, and return its function's name. Raises UntranslatableError."""
        short = name.rpartition("::")[2]
        if short in self.texts:
            return short
        text = self.source(name)
        if text is None:
            raise UntranslatableError(name)
        code = masked(text)
        found = {one for one in (self._translated(code, at, operands) for at in _operators(code)) if one is not None}
        members = self._members(code, short)
        if not found:
            raise UntranslatableError(name)
        parameters, lines = min(found, key=lambda one: (len(one[1]), one))
        used = [one for one in self._declared_members(code) if re.search(rf"\b{one}\b", lines)]
        if not members.keys() >= set(used):
            raise UntranslatableError(f"{name}, which the program constructs with values that are not written out")
        constants = "".join(f"    {one} = {members[one]!r}\n" for one in used)
        texts = [f"def {short}({', '.join(names)}):\n{constants}{body}" for names, body in sorted(found)]
        if len({self._sample(one, short, operands) for one in texts}) > 1:
            raise UntranslatableError(f"{name}, which differs by the types of its operands")
        self.texts[short] = f"def {short}({', '.join(parameters)}):\n{constants}{lines}"
        return short

    def _sample(self, text: str, name: str, operands: int) -> bytes:
        """The results of a function for a few numbers: overloads may be written differently and be the same."""
        import numpy as np

        module: dict[str, Any] = {"np": np}
        with np.errstate(all="ignore"):
            exec("\n".join((*self.texts.values(), text)), module)  # noqa: S102 (arithmetic alone)
            values = np.linspace(-3.3, 2.9, 64 * operands).reshape(operands, 64)
            return np.round(np.asarray(module[name](*values), dtype=float), 9).tobytes()

    def _members(self, code: str, name: str) -> dict[str, float]:
        given = self.values.get(name) or ()
        made = re.search(rf"\b{name}\s*\(([^()]+)\)\s*:\s*((?:\w+\s*[({{][^(){{}}]*[)}}][\s,]*)+)\{{", code)
        if made is None:
            return dict(zip(self._declared_members(code), given, strict=False))
        order = [one.split("=")[0].split()[-1].lstrip("&") for one in elements(made[1])]
        usual = [one.partition("=")[2].strip().rstrip("fF") for one in elements(made[1])]
        found = {name: float(one) for name, one in zip(order, usual, strict=True) if re.fullmatch(r"[\d.+-]+", one)}
        found |= dict(zip(order, given, strict=False))
        members = re.findall(r"(\w+)\s*[({]\s*(\w+)\s*[)}]", made[2])
        return {member: found[parameter] for member, parameter in members if parameter in found}

    @staticmethod
    def _declared_members(code: str) -> list[str]:
        outside = code[code.find("{") + 1 :]
        while (fewer := re.sub(r"\{[^{}]*\}", "", outside)) != outside:
            outside = fewer
        return re.findall(r"\b(?:float|double|int|[\w:]+_t|[A-Z]\w*)\s+(\w+)\s*(?:=[^;()]*)?;", outside)

    def _translated(self, code: str, start: int, operands: int) -> tuple[tuple[str, ...], str] | None:
        """The parameters and the lines of an `operator()`; None for one of another count, and for a declaration."""
        end = closing(code, start)
        names = [one.split()[-1].lstrip("&") for one in elements(code[start + 1 : end])]
        brace = re.compile(r"[\w\s]*\{").match(code, end + 1)
        if len(names) != operands + 1 or brace is None:
            return None
        body = code[brace.end() : closing(code, brace.end() - 1)]
        known = {*names[1:], *self._declared_members(code)}
        lines = []
        for statement in (one_line(one) for one in body.split(";")):
            if (
                not statement
                or statement.startswith(("static_assert", "(void)", "using "))
                or _EMPTY.fullmatch(statement)
            ):
                continue
            lines.append(self._statement(statement, known))
        if names[0] not in known:
            raise UntranslatableError(one_line(body))
        return tuple(names[1:]), "".join(f"    {line}\n" for line in (*lines, f"return {names[0]}"))

    def _statement(self, statement: str, known: set[str]) -> str:
        called = _CALL.fullmatch(statement)
        if called is not None:
            given = elements(called["arguments"])
            function = self.add(called["name"], len(given) - 1)
            inputs = ", ".join(_expression(one, known) for one in given[1:])
            known.add(given[0])
            return f"{given[0]} = {function}({inputs})"
        found = _ASSIGNMENT.fullmatch(statement)
        if found is None:
            raise UntranslatableError(statement)
        value = _expression(found["value"], known)
        known.add(found["name"])
        return f"{found['name']} {found['operator']}= {value}"


def _operators(code: str) -> list[int]:
    return [found.end() - 1 for found in re.finditer(r"\boperator\s*\(\s*\)\s*(?:<(?:[^<>]|<[^<>]*>)*>)?\s*\(", code)]


def _expression(text: str, known: set[str]) -> str:
    """An expression in Python. Raises UntranslatableError."""
    plain = _without_casts(one_line(text))
    plain = _NUMBER.sub(r"\1", plain)
    plain = re.sub(r"\b(?:std|ck|math)::", "", re.sub(r"\bck::math::", "", plain))
    plain = re.sub(r"\b(\w+)\s*\(", lambda one: f"{_FUNCTIONS[one[1]]}(" if one[1] in _FUNCTIONS else one[0], plain)
    python = _chosen(plain)
    try:
        tree = ast.parse(python, mode="eval")
    except SyntaxError:
        raise UntranslatableError(text) from None
    for node in ast.walk(tree):
        if not isinstance(node, _NODES) or (isinstance(node, ast.Name) and node.id not in (*known, "np")):
            raise UntranslatableError(text)
    return ast.unparse(tree)


def _without_casts(text: str) -> str:
    while (found := _CAST.search(text)) is not None:
        end = closing(text, found.end() - 1)
        if end < 0:
            raise UntranslatableError(text)
        text = text[: found.start()] + text[end + 1 :].lstrip()
    while (found := _CONSTRUCTION.search(text)) is not None:
        end = closing(text, found.end())
        if end < 0:
            raise UntranslatableError(text)
        text = f"{text[: found.start()]}({text[found.end() + 1 : end]}){text[end + 1 :]}"
    return text


def _chosen(text: str) -> str:
    """The text with `np.where` for `? :`, from the inside."""
    out, at = "", 0
    while at < len(text):
        if text[at] == "(" and (end := closing(text, at)) > 0:
            inside = ", ".join(_chosen(one) for one in elements(text[at + 1 : end]))
            out += f"({inside})"
            at = end + 1
        else:
            out += text[at]
            at += 1
    question = _outside(out, "?")
    if question < 0:
        return out
    colon = _outside(out[question:], ":")
    if colon < 0:
        raise UntranslatableError(text)
    condition, yes, no = out[:question], out[question + 1 : question + colon], out[question + colon + 1 :]
    return f"np.where({condition}, {yes}, {_chosen(no)})"


def _outside(text: str, character: str) -> int:
    depth = 0
    for at, one in enumerate(text):
        depth += (one == "(") - (one == ")")
        if one == character and not depth:
            return at
    return -1
