"""Facts of a program about a kernel that it launches: what it allocates, values of sizes, and what they may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from math import prod

from ckwatch.cli.imports.hip_kernels import HipKernel, Launch
from ckwatch.cli.imports.hip_types import element_type, is_size, runtime_type
from ckwatch.cli.imports.host_code import CAST, HostCode, MemoryContent, evaluated, without_suffixes
from ckwatch.cli.imports.source_text import one_line
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import DTYPES, evaluate_size, names_in, parse_size

_DEPTH = 12
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?!\s*[(.:])")
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*([^()]*?)\s*\)")
_LENGTH = re.compile(r"\b(\w+)\s*\.\s*size\s*\(\s*\)")
_BYTES = "bytes_of_"
_MANY_DIVISORS = 5040
_LITERAL = re.compile(r"(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFhH]?|true|false")


@dataclass(frozen=True, slots=True)
class AllocatedElements:
    """The elements behind a pointer as a size expression, and their C++ type; the line that allocates them. `content`
    is what they hold at the launch."""

    line: int
    elements: str
    type: str
    content: MemoryContent = MemoryContent.UNKNOWN


@dataclass(slots=True)
class ProgramFacts:
    """By the kernel's arguments, or the names of sizes that only the launch has. `sizes` are the latter, `values` what
    sizes and runtime arguments are when the program is run without arguments; `loops` says of which a loop counts."""

    tensors: dict[str, AllocatedElements] = field(default_factory=dict)
    sizes: dict[str, None] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    loops: dict[str, str] = field(default_factory=dict)
    limits: dict[str, dict[str, str]] = field(default_factory=dict)
    checked_at: dict[str, int] = field(default_factory=dict)
    loop_lines: dict[str, int] = field(default_factory=dict)


def program_facts(host: HostCode, kernel: HipKernel, launch: Launch) -> ProgramFacts:
    """Read what the function of a launch says of the kernel's arguments."""
    return _Reader(host, kernel, launch).facts


class _UnknownSizeError(ValueError):
    """An expression that no sizes say."""


class _Reader:
    def __init__(self, host: HostCode, kernel: HipKernel, launch: Launch) -> None:
        self._host = host
        self.facts = ProgramFacts()
        self._types: dict[str, str] = {}
        given = [
            (one, CAST.sub("", text).strip(" ()"))
            for one, text in zip(kernel.parameters, launch.arguments, strict=False)
        ]
        self._passed = {
            text: one.name
            for one, text in reversed(given)
            if not one.pointers and is_size(one.type) and re.fullmatch(r"[A-Za-z_]\w*", text)
        }
        self._taken = {one.name for one in kernel.parameters}
        for one, text in given:
            if one.pointers == 1:
                self._add_tensor(one.name, text)
        for one, text in given:
            if not one.pointers and is_size(one.type):
                self._add_value(one.name, text)
            elif not one.pointers and runtime_type(one.type) is not None:
                self._add_runtime(one.name, text)
        for name in self.facts.sizes:
            if (number := host.number(name)) is not None:
                self.facts.values[name] = str(number)
        self._add_multiples()

    def _add_tensor(self, name: str, pointer: str) -> None:
        allocation = self._host.allocation(pointer) if re.fullmatch(r"[A-Za-z_]\w*", pointer) else None
        if allocation is None:
            return
        before = dict(self.facts.sizes)
        self._types = {}
        try:
            found = self._elements(self._in_terms(allocation.bytes, 0))
        except _UnknownSizeError:
            found = None
        if found is None or len(names_in(found[0])) > 8:
            self.facts.sizes = before
        else:
            self.facts.tensors[name] = AllocatedElements(allocation.line, *found, self._host.content(pointer))

    def _elements(self, text: str) -> tuple[str, str] | None:
        """Bytes without the size of an element, and the element's type: `4` bytes where that is not said."""
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return None
        types = set(self._types.values())
        if not types:
            return ast.unparse(_folded(tree)), "char"
        without = _without_factor(tree)
        if without is None or len(types) > 1:
            return None
        text = ast.unparse(_folded(without))
        return (text, types.pop()) if parse_size(text) is not None and _BYTES not in text else None

    def _in_terms(self, text: str, depth: int) -> str:
        """The text in terms of sizes, with names in place of `sizeof`. Raises _UnknownSizeError."""
        text = CAST.sub("", one_line(text))
        text = _SIZEOF.sub(self._size_of, text)
        text = _LENGTH.sub(lambda found: f"({self._host.elements_of(found[1]) or found[0]})", text)
        sized = _NAME.sub(lambda found: self._name(found[0], depth), without_suffixes(_SIZEOF.sub(self._size_of, text)))
        if parse_size(sized) is None:
            number = evaluated(sized)
            if number is None:
                raise _UnknownSizeError
            return str(number)
        return sized

    def _size_of(self, found: re.Match[str]) -> str:
        name = f"{_BYTES}{len(self._types)}"
        self._types[name] = found[1]
        return name

    def _name(self, name: str, depth: int) -> str:
        if name.startswith(_BYTES):
            return name
        if name in self._passed:
            return self._passed[name]
        if self._host.loop(name) is not None or depth > _DEPTH:
            raise _UnknownSizeError
        before, types = dict(self.facts.sizes), dict(self._types)
        defined = self._host.definition(name)
        declared = self._host.declares_integer(name)
        if defined is None and not declared:
            defined = self._host.constant(name)
        if defined is not None:
            try:
                return f"({self._in_terms(defined, depth + 1)})"
            except _UnknownSizeError:
                self.facts.sizes, self._types = before, types
        if not declared or name in self._taken or self._depends_on_passed(name, 0):
            raise _UnknownSizeError
        self.facts.sizes[name] = None
        return name

    def _depends_on_passed(self, name: str, depth: int) -> bool:
        """Return True where a value that the kernel gets decides that of a name: two sizes could not agree."""
        defined = self._host.definition(name) or ""
        names = set(re.findall(r"[A-Za-z_]\w*", defined))
        return depth < _DEPTH and any(
            one in self._passed or self._depends_on_passed(one, depth + 1) for one in names if one != name
        )

    def _add_value(self, name: str, text: str) -> None:
        loop = self._host.loop(text)
        number = self._host.number(text if loop is None else loop.first)
        if number is not None:
            self.facts.values[name] = str(number)
        if loop is None:
            return
        self.facts.loops[name] = f"loop in line {loop.line}: {loop.condition}"
        self.facts.loop_lines[name] = loop.line
        bound = re.fullmatch(rf"{re.escape(text)}\s*(<=?)\s*([^;]+)", loop.condition)
        before = dict(self.facts.sizes)
        try:
            most = self._in_terms(bound[2], 0) if bound else ""
        except _UnknownSizeError:
            most = ""
        if most and self.facts.sizes == before and name not in names_in(most):
            most = ast.unparse(
                _folded(ast.parse(f"({most}) - 1" if bound and bound[1] == "<" else most, mode="eval").body)
            )
            self.facts.limits.setdefault(name, {})["max"] = most
        self.facts.sizes = before

    def _add_runtime(self, name: str, text: str) -> None:
        if (literal := _LITERAL.fullmatch(text) or _LITERAL.fullmatch(self._host.scalar(text) or "")) is not None:
            self.facts.values[name] = literal[1] or literal[0]

    def _add_multiples(self) -> None:
        for host_name, of, line in self._host.multiples():
            name = self._passed.get(host_name, host_name)
            step = self._host.number(of)
            if step is None or step < 2 or (name not in self.facts.sizes and host_name not in self._passed):
                continue
            known = self.facts.limits.setdefault(name, {})
            known["multiple"] = str(max(step, int(known.get("multiple", 1))))
            self.facts.checked_at[name] = line


def renamed_facts(facts: ProgramFacts, argument: Callable[[str], str], renamed: Callable[[str], str]) -> ProgramFacts:
    """The facts with other names: `argument` renames one, `renamed` all in a text."""
    return ProgramFacts(
        {name: replace(one, elements=renamed(one.elements)) for name, one in facts.tensors.items()},
        {argument(name): None for name in facts.sizes},
        {argument(name): value for name, value in facts.values.items()},
        {argument(name): loop for name, loop in facts.loops.items()},
        {argument(name): {key: renamed(text) for key, text in one.items()} for name, one in facts.limits.items()},
        {argument(name): line for name, line in facts.checked_at.items()},
        {argument(name): line for name, line in facts.loop_lines.items()},
    )


def elements_in(allocated: AllocatedElements, type_of: Callable[[str], str], own_type: str, dtype: str) -> str | None:
    """The elements of a dtype behind a pointer to `own_type`; None where their sizes are not known. `type_of` gives a
    C++ type by its plain name."""
    spelled = own_type if allocated.type.startswith("*") else allocated.type
    one = element_type(type_of(spelled))
    if one is None or dtype not in DTYPES:
        return None
    times, rest = divmod(one.lanes * DTYPES[one.dtype].size_bytes, DTYPES[dtype].size_bytes)
    if rest or not times:
        return None
    is_plain = re.fullmatch(r"\w+", allocated.elements) is not None
    return (
        allocated.elements
        if times == 1
        else f"{allocated.elements if is_plain else f'({allocated.elements})'} * {times}"
    )


def is_same_count(sizes: Sequence[str], count: str) -> bool:
    """Return True if the product of sizes is a number of elements, for any values of their names."""
    names = {name for text in (*sizes, count) for name in names_in(text)}
    for seed in (7, 11, 13):
        values = {name: _MANY_DIVISORS * (seed + 2 * at) for at, name in enumerate(sorted(names))}
        try:
            if prod(evaluate_size(text, values) for text in sizes) != evaluate_size(count, values):
                return False
        except ValueError:
            return False
    return True


def _without_factor(node: ast.expr) -> ast.expr | None:
    """The expression without its one factor that stands for bytes; None where it is none."""
    match node:
        case ast.Name(id=name) if name.startswith(_BYTES):
            return ast.Constant(1)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            if (inside := _without_factor(left)) is not None:
                return _product(inside, right)
            if (inside := _without_factor(right)) is not None:
                return _product(left, inside)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            first, second = _without_factor(left), _without_factor(right)
            if first is not None and second is not None:
                return ast.BinOp(first, operator, second)
    return None


def _folded(node: ast.expr) -> ast.expr:
    """The expression with its constant parts worked out."""
    if not isinstance(node, ast.BinOp):
        return node
    left, right = _folded(node.left), _folded(node.right)
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        value = evaluated(ast.unparse(ast.BinOp(left, node.op, right)))
        return ast.BinOp(left, node.op, right) if value is None or value < 0 else ast.Constant(value)
    return ast.BinOp(left, node.op, right)


def _product(left: ast.expr, right: ast.expr) -> ast.expr:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ast.Constant) and one.value == 1:
            return other
    return ast.BinOp(left, ast.Mult(), right)
