"""Greatest values of the names in a kernel's indices, from its guards, loops and launch.

`if (i >= n) return;`, `if (i < n) …`, `for (…; i < n; …)` and `i < n ? …` bound a name; other names are the value that
they are declared with, in terms of `blockIdx` and `threadIdx`. What is not plain raises: nothing is guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from keyword import kwlist

from ckwatch.cli.imports.polynomials import Polynomial
from ckwatch.headers.masked_text import closing

_DEPTH = 24
_CAST = re.compile(
    r"\(\s*(?:const\s+)?(?:unsigned\s+)?(?:u?int(?:\d+_t)?|size_t|long(?:\s+long)?|unsigned|short|ptrdiff_t)\s*\)"
    r"|\bstatic_cast\s*<[^<>]*>(?=\s*\()|\b(?:u?int\d+_t|size_t|int|unsigned|long)(?=\s*\()"
)
_LITERAL = re.compile(r"\b(\d+)(?:[uU]?[lL]{0,2}|[lL]{1,2}[uU])\b")
_PYTHON_WORD = re.compile(rf"\b({'|'.join(kwlist)})\b")
_ESCAPE = "__of_c"
"""Behind names that are no names in Python."""

_LOAD = re.compile(r"\(*(?:\(\w+\))?\s*(\w+)\s*\[[^\[\]]*\]\)*")
_HEADER = re.compile(r"\b(for|while|if)\s*(?:constexpr\s*)?\(")
_NAME = r"[A-Za-z_]\w*(?:\.[xyz])?"


class UnknownRangeError(ValueError):
    """An index that the text does not bound."""


class IndexRanges:
    """The indices of a kernel's body. `values` are sizes and numbers by the body's names; `grid` and `block` are
    extents, None where they are unknown; `inputs` are pointers to integers whose values may be indices.

    Names of the polynomials that begin with `@` run from 0 to the extent in `extents`, which is left out. `@p[]` is a
    value of the input p, below `end_of(p)` where nothing bounds it.
    """

    def __init__(
        self,
        body: str,
        values: Mapping[str, Polynomial],
        grid: Sequence[Polynomial | None],
        block: Sequence[Polynomial | None],
        inputs: Collection[str] = (),
    ) -> None:
        self._body = body
        self._values = values
        self._inputs = inputs
        self._quotients: dict[str, tuple[Polynomial, Polynomial]] = {}
        self._grid, self._block = grid, block
        self.extents: dict[str, Polynomial] = {}

    def value(self, text: str, at: int, depth: int = 0) -> Polynomial:
        """An expression at an offset of the body. Raises UnknownRangeError."""
        plain = _PYTHON_WORD.sub(r"\1" + _ESCAPE, _LITERAL.sub(r"\1", _CAST.sub("", text)).strip())
        try:
            tree = ast.parse(plain.replace("\n", " "), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise UnknownRangeError(text) from None
        return self._evaluated(tree, at, depth + 1)

    def _evaluated(self, node: ast.expr, at: int, depth: int) -> Polynomial:
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return Polynomial.of(number)
            case ast.Name(id=name):
                return self._name(name.removesuffix(_ESCAPE), at, depth)
            case ast.Attribute(value=ast.Name(id=name), attr=part):
                return self._name(f"{name}.{part}", at, depth)
            case ast.Subscript(value=ast.Name(id=name)) if of := self._input(name.removesuffix(_ESCAPE)):
                return self._value_of(of, Polynomial.of(end_of(of)))
            case ast.BinOp(left=left, op=operator, right=right):
                return self._operation(self._evaluated(left, at, depth), operator, self._evaluated(right, at, depth))
            case _:
                raise UnknownRangeError(ast.unparse(node))

    def _input(self, name: str) -> str | None:
        """The input behind a pointer's name."""
        aliased = re.search(rf"\*\s*(?:const\s+)?(?:\w+\s+)?{name}\s*=\s*(\w+)\s*;", self._body)
        name = name if name in self._inputs or aliased is None else aliased[1]
        return name if name in self._inputs else None

    def _value_of(self, name: str, end: Polynomial) -> Polynomial:
        self.extents[f"@{name}[]"] = end
        return Polynomial.of(f"@{name}[]")

    def _operation(self, left: Polynomial, operator: ast.operator, right: Polynomial) -> Polynomial:
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return self._difference(left, right)
            case ast.Mult():
                return left * right
            case ast.LShift() if right.number is not None and 0 <= right.number < 32:
                return left * Polynomial.of(1 << right.number)
            case ast.RShift() if right.number is not None and 0 <= right.number < 32:
                return self._quotient(left, Polynomial.of(1 << right.number))
            case ast.Div():
                return self._quotient(left, right)
            case ast.Mod():
                return self._remainder(left, right)
            case _:
                raise UnknownRangeError("an operator")

    def _quotient(self, left: Polynomial, right: Polynomial) -> Polynomial:
        if not right.terms or any(name.startswith("@") for name in right.names):
            raise UnknownRangeError("a division")
        found = left.divided(right)
        if found is not None:
            return found
        if not any(name.startswith("@") for name in left.names):
            return Polynomial.of(f"({_factor(left)} / {_factor(right)})")
        if (scaled := _scaled_value(left)) is not None:  # a row has a whole number of elements
            return Polynomial.of(scaled[0]) * Polynomial.of(f"({_factor(scaled[1])} / {_factor(right)})")
        whole = self._extent_of_one(left)
        extent = whole.divided(right) or Polynomial.of(f"(({whole} - 1) / {_factor(right)} + 1)")
        self._quotients[f"@{left}/{right}".replace("@@", "@")] = (left, right)
        return self._range(f"{left}/{right}", extent)

    def _difference(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """`i - i / n * n` is `i % n`."""
        for name, (index, divisor) in self._quotients.items():
            if right == Polynomial.of(name) * divisor and not (index - left).terms:
                return self._range(f"{index}%{divisor}", divisor)
        return left - right

    def _remainder(self, left: Polynomial, right: Polynomial) -> Polynomial:
        if any(name.startswith("@") for name in right.names):
            raise UnknownRangeError("a remainder")
        if not any(name.startswith("@") for name in left.names):
            return Polynomial.of(f"({_factor(left)} % {_factor(right)})")
        if self._extent_of_one(left).divided(right) is None:
            raise UnknownRangeError("a remainder")
        return self._range(f"{left}%{right}", right)

    def _extent_of_one(self, index: Polynomial) -> Polynomial:
        if len(index.terms) == 1:
            ((names, coefficient),) = index.terms.items()
            if coefficient == 1 and len(names) == 1:
                return self.extents[names[0]]
        raise UnknownRangeError("a division of a sum")

    def _range(self, name: str, extent: Polynomial) -> Polynomial:
        if extent.number == 1:
            return Polynomial.of(0)
        name = name if name.startswith("@") else f"@{name}"
        if self.extents.setdefault(name, extent) != extent:
            name = f"{name}<{extent}"
            self.extents[name] = extent
        return Polynomial.of(name)

    def _name(self, name: str, at: int, depth: int) -> Polynomial:
        if depth > _DEPTH:
            raise UnknownRangeError(name)
        if name in self._values:
            return self._values[name]
        if (built_in := self._built_in(name)) is not None:
            return built_in
        declared = self._declared(name, at)
        bound = self._bound(name, at, depth)
        if bound is None:
            if declared is None or self._is_changed(name, declared[0]):
                raise UnknownRangeError(name)
            return self.value(declared[1], declared[0], depth)
        given = _LOAD.fullmatch(declared[1].strip()) if declared is not None else None
        if given is not None and (of := self._input(given[1])) is not None:
            return self._value_of(of, bound)
        step = self._step(declared, depth)
        return Polynomial.of(step) * self._range(name, self._quotient(bound, Polynomial.of(step)))

    def _step(self, declared: tuple[int, str] | None, depth: int) -> int:
        """The number of which a bounded name is always a multiple."""
        if declared is None:
            return 1
        try:
            return self.value(declared[1], declared[0], depth).factor or 1
        except UnknownRangeError:
            product = re.match(r"(\d+)\s*\*\s*(?=\()", declared[1])
            is_whole = product is not None and closing(declared[1], product.end()) == len(declared[1].rstrip()) - 1
            return int(product[1]) if product is not None and is_whole else 1

    def _built_in(self, name: str) -> Polynomial | None:
        kind, _, axis = name.partition(".")
        if kind not in ("blockIdx", "threadIdx", "gridDim", "blockDim") or axis not in ("x", "y", "z"):
            return None
        extent = (self._grid if kind in ("blockIdx", "gridDim") else self._block)["xyz".index(axis)]
        if kind in ("gridDim", "blockDim"):
            return Polynomial.of(f"?{name}") if extent is None else extent
        if extent is None:
            raise UnknownRangeError(name)
        return self._range(name, extent)

    def _declared(self, name: str, at: int) -> tuple[int, str] | None:
        """The last declaration whose scope holds an offset: its own offset and the initial value."""
        pattern = (
            rf"(?:^|[;{{}}(])\s*(?:(?:const|constexpr|static|volatile)\s+)*[A-Za-z_][\w:]*(?:\s+(?:int|long|const))*"
            rf"\s*&?\s*\b{re.escape(name)}\s*=(?!=)\s*([^;,]+|[^;]*\([^;]*\)[^;]*);"
        )
        found = [one for one in re.finditer(pattern, self._body[:at]) if self._is_in_scope(one.end(), at)]
        return (found[-1].start(1), found[-1][1]) if found else None

    def _is_in_scope(self, start: int, at: int) -> bool:
        depth = 0
        for character in self._body[start:at]:
            depth += (character == "{") - (character == "}")
            if depth < 0:
                return False
        return True

    def _is_changed(self, name: str, start: int, end: int | None = None) -> bool:
        pattern = rf"(?<![\w.]){re.escape(name)}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*{re.escape(name)}\b"
        return re.search(rf"{pattern}|\b{re.escape(name)}\s*(?:\+\+|--)", self._body[start:end]) is not None

    def _bound(self, name: str, at: int, depth: int) -> Polynomial | None:
        """The bound that a name is less than at an offset; the nearest condition counts."""
        found: tuple[int, str, int] | None = None
        for where, condition, negated, end in self._conditions(at):
            for part in re.split(r"\|\|" if negated else r"&&", condition):
                text = _limit(name, part.strip(" ()\n"), negated=negated) if "?" not in part else None
                if text is not None and (found is None or where >= found[0]):
                    found = (where, text, end)
        if found is None:
            return None
        if self._is_changed(name, found[2], at):
            raise UnknownRangeError(name)
        bound = self.value(found[1], found[0], depth)
        if any(one.startswith("@") for one in bound.names):
            raise UnknownRangeError(found[1])
        return bound

    def _conditions(self, at: int) -> Iterator[tuple[int, str, bool, int]]:
        """Conditions that hold at an offset, and those after which the function or loop goes on only if they do not."""
        body = self._body
        for found in _HEADER.finditer(body, 0, at):
            end = closing(body, found.end() - 1)
            if end < 0 or end >= at:
                continue
            inside = body[found.end() : end]
            parts = inside.split(";")
            condition = parts[1] if found[1] == "for" and len(parts) == 3 else inside
            last = _statement_end(body, end + 1)
            if at < last:
                yield found.start(), condition, False, end
            elif (
                found[1] == "if"
                and "&&" not in condition
                and re.match(r"[\s{]*(?:return|continue|break)\s*;", body[end + 1 : last])
                and self._is_in_scope(last, at)
            ):
                yield found.start(), condition, True, end
        statement = max(body.rfind(character, 0, at) for character in ";{}") + 1
        for chosen in re.finditer(r"(?:=|\(|^|\breturn)\s*([^=;?()]*[<>][^=;?]*)\?(?!=)", body[statement:at]):
            if ":" not in body[statement + chosen.end() : at].replace("::", ""):
                yield statement + chosen.start(1), chosen[1], False, at


def _statement_end(body: str, at: int) -> int:
    """The end of the statement that begins at an offset."""
    while at < len(body) and body[at].isspace():
        at += 1
    if at < len(body) and body[at] == "{":
        return closing(body, at) + 1 or len(body)
    header = _HEADER.match(body, at)
    if header is not None and (end := closing(body, header.end() - 1)) > 0:
        return _statement_end(body, end + 1)
    return body.find(";", at) + 1 or len(body)


def _limit(name: str, condition: str, *, negated: bool) -> str | None:
    """The bound that the name is less than, where the condition, or its opposite, says so."""
    below = ("<", "<=") if not negated else (">=", ">")
    for operator, over in ((below[0], ""), (below[1], " + 1")):
        found = re.fullmatch(rf"{re.escape(name)}\s*{operator}(?![=<>])\s*([^<>=]+(?:>>[^<>=]+)?)", condition)
        if found:
            return f"({found[1]}){over}"
        mirrored = operator.translate({ord("<"): ">", ord(">"): "<"})
        found = re.fullmatch(rf"([^<>=]+?)\s*{mirrored}(?![=<>])\s*{re.escape(name)}", condition)
        if found:
            return f"({found[1]}){over}"
    return None


def end_of(name: str) -> str:
    """The name of the size that values of an input are less than."""
    return f"{name}_end"


def _scaled_value(one: Polynomial) -> tuple[str, Polynomial] | None:
    """A value of an input and the sizes that it is multiplied with."""
    value = next((name for name in one.names if name.endswith("[]")), None)
    factor = one.coefficient_of(value) if value is not None and len(one.terms) == 1 else None
    return (value, factor) if value is not None and factor is not None and factor.number is None else None


def _factor(one: Polynomial) -> str:
    text = str(one)
    return text if re.fullmatch(r"\w+|\([^()]*\)", text) else f"({text})"
