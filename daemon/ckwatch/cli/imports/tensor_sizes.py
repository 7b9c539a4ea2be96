"""Sizes and strides of a kernel's tensors, from the indices with which it reaches them, else from a comment.

An index such as `(b * rows + r) * n + i` with `i < n` is that of a tensor with the sizes blocks, rows, n; with the
factors `stride_b` and `stride_r` it has strides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from ckwatch.cli.imports.hip_kernels import HipKernel
from ckwatch.cli.imports.hip_types import element_type
from ckwatch.cli.imports.index_ranges import IndexRanges, UnknownRangeError, end_of
from ckwatch.cli.imports.polynomials import Polynomial
from ckwatch.cli.imports.program_facts import is_same_count
from ckwatch.cli.imports.source_text import elements, one_line
from ckwatch.headers.masked_text import closing
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import names_in, parse_size

_DEPTH = 4
_LOADS = re.compile(r"\b(?:\w*(?:LDG|ldg)|__builtin_nontemporal_load|__ldcs|__ldcg|atomic\w+)\s*\(\s*&?$")
_ALIAS = re.compile(
    r"\s*(?:(?:const|constexpr|static)\s+)*(?P<type>auto|[A-Za-z_][\w:]*(?:<[^;=]*>)?)(?:\s+const)?\s*(?P<star>\*)?\s*"
    r"(?:const\s+)?(?:\w*(?:restrict|RESTRICT)\w*\s+)?(?P<name>\w+)\s*=\s*(?P<value>.*)",
    re.DOTALL,
)
_CAST = re.compile(
    r"(?:\(\s*(?:const\s+)?(?P<old>[\w:]+(?:<[^;()]*>)?)(?:\s+const)?\s*\*\s*(?:const\s*)?(?:\w*restrict\w*\s*)?\)"
    r"|reinterpret_cast\s*<\s*(?:const\s+)?(?P<new>[\w:]+(?:<[^;()]*>)?)(?:\s+const)?\s*\*[^<>()]*>)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TensorSizes:
    """Sizes from the outermost, and strides where they are arguments; `source` says from which text they follow.
    `multiples` are numbers of which a size must be a multiple."""

    sizes: tuple[str, ...]
    strides: tuple[str, ...] = ()
    source: str = ""
    multiples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reach:
    """An index, in elements of the tensor, and where it stands."""

    index: Polynomial
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class IndexedBody:
    """A kernel's body with what bounds its indices. `line` is where it begins; `names` are the sizes in whose terms the
    answer is."""

    body: str
    line: int
    ranges: IndexRanges
    names: frozenset[str]

    def sizes_of(self, name: str, type_: str, lanes: int = 1) -> TensorSizes | None:
        """Sizes of the tensor behind a pointer to elements of a C++ type, each so many of the tensor's; None where the
        indices do not tell them."""
        try:
            reaches = list(self._reaches(name, type_, Polynomial.of(0), lanes, 0, 0))
            return self._sized(reaches) if reaches else None
        except UnknownRangeError:
            return None

    def values_in(self, name: str) -> dict[str, str]:
        """Inputs whose values are indices of the tensor behind a pointer, and the elements between two such values."""
        aliases = re.findall(rf"\*\s*(?:const\s+)?(?:\w+\s+)?(\w+)\s*=\s*{re.escape(name)}\s*;", self.body)
        found: dict[str, str] = {}
        for one in re.finditer(rf"(?<![\w.])(?:{'|'.join((re.escape(name), *aliases))})\s*(\[|\+(?!=))", self.body):
            last = closing(self.body, one.start(1)) if one[1] == "[" else self.body.find(";", one.end())
            try:
                index = self._index(self.body[one.end() : last], one.start(), 1)
            except UnknownRangeError:
                continue
            for value in (value for value in index.names if value.endswith("[]")):
                if (factor := index.coefficient_of(value)) is not None:
                    found.setdefault(value[1:-2], str(factor))
        return found

    def _reaches(
        self, name: str, type_: str, offset: Polynomial, lanes: int, begin: int, depth: int
    ) -> Iterator[_Reach]:
        if depth > _DEPTH:
            raise UnknownRangeError(name)
        for found in re.finditer(rf"(?<![\w.])(?<!->){re.escape(name)}\b(?!\s*::)", self.body[begin:]):
            start, end = begin + found.start(), begin + found.end()
            behind = self.body[end:].lstrip()
            if behind.startswith("+="):
                value = self.body[self.body.index("+=", end) + 2 : self.body.find(";", end)]
                offset += self._index(value, start, lanes)
                if self._is_in_loop(start):
                    raise UnknownRangeError(name)
            elif behind.startswith("["):
                yield self._element(start, end, offset, lanes)
            elif not re.match(r"[!=]=\s*(?:nullptr|NULL|0)\b", behind):
                yield from self._alias(start, end, type_, offset, lanes, depth)

    def _element(self, start: int, end: int, offset: Polynomial, lanes: int) -> _Reach:
        opening = self.body.index("[", end)
        last = closing(self.body, opening)
        before = self.body[:start].rstrip()
        if before.endswith("&") and not before.endswith("&&") and not _LOADS.search(before):
            raise UnknownRangeError(before[-20:])
        index = offset + self._index(self.body[opening + 1 : last], start, lanes)
        if lanes > 1:
            self.ranges.extents[f"@lanes{lanes}"] = Polynomial.of(lanes)
            index += Polynomial.of(f"@lanes{lanes}")
        return _Reach(index, start, one_line(self.body[start : last + 1]))

    def _index(self, text: str, at: int, lanes: int) -> Polynomial:
        return self.ranges.value(text, at) * Polynomial.of(lanes)

    def _is_in_loop(self, at: int) -> bool:
        for found in re.finditer(r"\b(?:for|while)\s*\(", self.body[:at]):
            end = closing(self.body, found.end() - 1)
            opened = re.compile(r"\s*\{").match(self.body, end + 1)
            last = closing(self.body, opened.end() - 1) if opened else self.body.find(";", end)
            if at < last:
                return True
        return False

    def _alias(self, start: int, end: int, type_: str, offset: Polynomial, lanes: int, depth: int) -> Iterator[_Reach]:
        """Indices of the pointer that a statement makes from this one."""
        begin = max(self.body.rfind(character, 0, start) for character in ";{}") + 1
        last = self.body.find(";", end)
        made = _ALIAS.fullmatch(self.body[begin:last])
        if made is None:
            raise UnknownRangeError(self.body[begin:last])
        value = made["value"].strip()
        inner = type_
        if cast := _CAST.match(value):
            inner, value = cast["old"] or cast["new"], value[cast.end() :]
        while value.startswith("(") and closing(value, 0) == len(value) - 1:
            value = value[1:-1].strip()
        moved = re.fullmatch(r"&?\s*\w+\s*(?:\+\s*(.*)|\[(.*)\])?", value, re.DOTALL)
        if moved is None or ("&" in value) != (moved[2] is not None):
            raise UnknownRangeError(value)
        added = moved[1] or moved[2]
        if added is not None:
            offset += self._index(added, start, lanes)
        yield from self._reaches(made["name"], inner, offset, lanes * _lanes(inner, type_), last, depth + 1)

    def _sized(self, reaches: Sequence[_Reach]) -> TensorSizes:
        extents = self.ranges.extents
        furthest = reaches[0]
        for one in reaches[1:]:
            more = _extent(one.index, extents) - _extent(furthest.index, extents)
            if more.terms and more.is_least:
                furthest = one
            elif not (-more).is_least:
                raise UnknownRangeError(one.text)
        sizes, strides = _dimensions(furthest.index, extents)
        multiples: dict[str, int] = {}
        words = tuple(self._whole(one, multiples) for one in sizes)
        apart = tuple(str(one) for one in strides)
        for text in (*words, *apart):
            if parse_size(text) is None or not set(names_in(text)) <= self.names:
                raise UnknownRangeError(text)
        line = self.line + self.body.count("\n", 0, furthest.at)
        return TensorSizes(words, apart, f"`{furthest.text}` in line {line}", multiples)

    def _whole(self, size: Polynomial, multiples: dict[str, int]) -> str:
        """The size without a division that its factor undoes, which leaves a size that is a multiple."""

        found = Polynomial({})
        for names, coefficient in size.terms.items():
            divided = next((re.fullmatch(r"\((\w+) / (\d+)\)", name) for name in names if "/" in name), None)
            if divided is None or coefficient % int(divided[2]):
                found += Polynomial({names: coefficient})
                continue
            multiples[divided[1]] = int(divided[2])
            others = list(names)
            others.remove(divided[0])
            found += Polynomial({tuple(sorted((*others, divided[1]))): coefficient // int(divided[2])})
        return str(found)


def _lanes(inner: str, outer: str) -> int:
    """The elements of a tensor in an element of a pointer that was cast."""
    if inner in (outer, "auto"):
        return 1
    made, of = element_type(inner), element_type(outer)
    if made is None or of is None or made.dtype != of.dtype or made.lanes % of.lanes:
        raise UnknownRangeError(inner)
    return made.lanes // of.lanes


def _extent(index: Polynomial, extents: Mapping[str, Polynomial]) -> Polynomial:
    """One more than the greatest value."""
    one = Polynomial.of(1)
    return index.replaced(lambda name: extents[name] - one if name in extents else Polynomial.of(name)) + one


def _dimensions(index: Polynomial, extents: Mapping[str, Polynomial]) -> tuple[list[Polynomial], list[Polynomial]]:
    """Sizes of the tensor that an index reaches, and strides where it has some that do not follow from the sizes."""
    left: dict[str, Polynomial] = {}
    for name in dict.fromkeys(one for names in index.terms for one in names if one.startswith("@")):
        factor = index.coefficient_of(name)
        if factor is None or any(one.startswith("@") for one in factor.names) or not factor.is_least:
            raise UnknownRangeError(str(index))
        left[name] = factor
    beyond = index.without(left)
    if not beyond.is_least:
        raise UnknownRangeError(str(index))
    innermost = next((one for one, factor in left.items() if factor.number == 1), None)
    inside = beyond + (extents[innermost] if innermost is not None else Polynomial.of(1))
    left.pop(innermost or "", None)
    sizes: list[Polynomial] = [] if inside.number == 1 else [inside]
    is_part = inside.number is not None and (innermost is None or innermost.startswith("@lanes"))
    while (outer := next((one for one, factor in left.items() if factor == inside), None)) is not None:
        inside *= extents[outer]
        sizes = [inside] if is_part else [extents[outer], *sizes]
        is_part = False
        del left[outer]
    return _with_strides(sizes or [Polynomial.of(1)], left, extents)


def _with_strides(
    sizes: list[Polynomial], left: Mapping[str, Polynomial], extents: Mapping[str, Polynomial]
) -> tuple[list[Polynomial], list[Polynomial]]:
    if not left:
        return sizes, []
    strides: list[Polynomial] = []
    inside = Polynomial.of(1)
    for one in reversed(sizes):
        strides.insert(0, inside)
        inside *= one
    outer = sorted(left.items(), key=lambda one: one[0].count("%"))  # what is left of a division lies further in
    if any(len(factor.terms) != 1 or len(factor.names) != 1 or factor.factor != 1 for _, factor in outer):
        raise UnknownRangeError("a stride")
    return [*(extents[name] for name, _ in outer), *sizes], [*(factor for _, factor in outer), *strides]


def commented_sizes(note: str, name: str, names: Collection[str], rest: str | None) -> TensorSizes | None:
    """Sizes of a tensor from a comment such as `[rows, 2 * n]`, best in terms of known names; `rest` is `...`."""
    found: list[tuple[int, TensorSizes]] = []
    for one in re.finditer(r"\[((?:[^\[\]()]|\([^()]*\))*)\]", note):
        sizes = [_size_in_words(size, rest) for size in elements(one[1])]
        if not sizes or any(size is None or parse_size(size) is None for size in sizes):
            continue
        known = tuple(size for size in sizes if size is not None)
        unknown = {word for size in known for word in names_in(size)} - set(names)
        own = [_stride_of(size, names) for size in known[1:-1]]
        strides: tuple[str, ...] = ()
        if len(known) > 1 and (f"{name}_stride" in names or any(own)):
            packed = [" * ".join(_grouped(size) for size in known[at + 1 :]) for at in range(len(known) - 1)]
            outer = f"{name}_stride" if f"{name}_stride" in names else packed[0]
            strides = (outer, *(stride or packed[at] for at, stride in enumerate(own, 1)), "1")
        halves = (re.fullmatch(r"(\w+) / (\d+)", size) for size in known)
        multiples = {one[1]: int(one[2]) for one in halves if one is not None}
        found.append((len(unknown), TensorSizes(known, strides, f"the comment {one[0]}", multiples)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _stride_of(size: str, names: Collection[str]) -> str | None:
    """The argument that is the stride of an axis by its name: `head_stride` of `num_kv_heads`."""
    return next((one for one in names if one.endswith("_stride") and re.search(rf"(?:^|_){one[:-7]}s?$", size)), None)


def _size_in_words(text: str, rest: str | None) -> str | None:
    return rest if text in ("...", "*") else one_line(re.sub(r"\s*/+\s*", " / ", text))


def axis_of(sizes: Sequence[str], strides: Sequence[str], step: str) -> str | None:
    """The axis along which two elements of a tensor are a number of elements apart, as `index` names it."""
    for axis, size in enumerate(sizes):
        apart = strides[axis] == step if strides else is_same_count(sizes[axis + 1 :], step)
        if apart and size != "1":
            return "rows" if not axis else "columns" if axis == len(sizes) - 1 else f"axis {axis}"
    return None


def _grouped(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def indexed_body(
    kernel: HipKernel,
    values: Mapping[str, str | int],
    launch: tuple[str, str],
    names: Collection[str],
    inputs: Collection[str] = (),
) -> IndexedBody:
    """The body of a kernel. `values` are names of sizes, or numbers, by the names in the body; `launch` is the grid and
    the block in terms of `names`, the sizes; `inputs` are pointers to integers whose values may be indices."""
    known = {name: Polynomial.of(value) for name, value in values.items()}
    grid, block = (_extents(text, names) for text in launch)
    ranges = IndexRanges(kernel.body, known, grid, block, inputs)
    return IndexedBody(kernel.body, kernel.body_line, ranges, frozenset((*names, *map(end_of, inputs))))


def _extents(text: str, names: Collection[str]) -> list[Polynomial | None]:
    """The three extents of a grid or a block; None for those that are no sizes."""
    ranges = IndexRanges("", {name: Polynomial.of(name) for name in names}, [None] * 3, [None] * 3)
    found: list[Polynomial | None] = []
    for one in [*elements(text), "1", "1"][:3]:
        try:
            found.append(ranges.value(one, 0))
        except UnknownRangeError:
            found.append(None)
    return found
