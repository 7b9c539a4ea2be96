"""Sizes that find mistakes in custom operations, whose meaning is unknown: from their size expressions, the shapes of
the kernel file, the limits that it gives, and the extents among an instance's parameters.

Sizes of a kernel file may belong together in ways that it does not say. So what its shapes have in common is kept: a
size that is another two's product or sum, one that is small beside another, and the values of what is no extent of a
tensor. Everything else may be anything that `[operation.limits]` allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from math import lcm

from ckwatch.model.kernels import Operation, ParameterValue, SizeLimits
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensor_values import ContentKind
from ckwatch.model.tensors import DTYPES, INT32_MAX, evaluate_size, is_atom, names_in, parse_size
from ckwatch.workspace.shapes import beyond_limits, elements_spanned, overlapping_stride, values_misfit

USUAL_BLOCK = 256
"""Threads of a block, where no parameter says how many."""

ESSENTIAL_ELEMENTS = 1 << 17
MOST_ELEMENTS = 1 << 20
"""Of all tensors of a problem that is derived: what is executed in about a second."""

LARGE_ELEMENTS = 1 << 19
SMALL = 64
"""A size that is never larger is a small one: it stays beside larger ones as it is in the shapes of the kernel file."""

PADDING = 32
LARGE_PADDING = (1 << 16) + PADDING
FAR_ELEMENTS = 5 << 29
FAR_BYTES = 5 << 30
"""Beyond 2^31 elements and 2^32 bytes by a quarter."""

_EXTENT_WORDS = re.compile(
    r"block|tile|thread|wave|warp|chunk|rows|cols|column|vec|per|unroll|size|edge", re.IGNORECASE
)
_VECTOR_WORDS = re.compile(r"vec|per_?thread|unroll|items", re.IGNORECASE)
USUAL_STEP = 8
"""Elements that a thread takes at once, where no parameter says how many."""

LARGEST_STEP = 64
_ODD = (5, 3, 7, 11, 1, 9, 13)
"""Elements beyond whole blocks, one for each size in turn, so that no two are alike."""


@dataclass(frozen=True, slots=True)
class CustomSizes:
    """Sizes to verify on. `gaps`: rows have gaps, which are filled; `dense`: the same sizes without them, where they
    are too large for that."""

    name: str
    sizes: Mapping[str, int]
    essential: bool = False
    gaps: bool = False
    dense: Mapping[str, int] | None = None


@dataclass(slots=True)
class _Roles:
    """The sizes of an operation by their uses. `extents` are varied, `strides` follow from them, everything else stays
    as it is. `steps`: what sizes are multiples of by the expressions they stand in."""

    extents: list[str] = field(default_factory=list)
    strides: list[str] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)


def derived_sizes(
    operation: Operation, parameters: Mapping[str, ParameterValue], shapes: Sequence[Mapping[str, int]]
) -> list[CustomSizes]:
    """Return sizes to verify a custom operation on, essential ones first; those that are not possible are left out.

    `shapes` are those of the kernel file; without any, each size is taken to be free.
    """
    return _Deriver(operation, parameters, shapes).found()


def drawn_sizes(
    operation: Operation,
    parameters: Mapping[str, ParameterValue],
    shapes: Sequence[Mapping[str, int]],
    draw: Callable[[int, int], int],
) -> dict[str, int] | None:
    """Return sizes that are drawn, each by `draw` from the least to the greatest one; as of `derived_sizes`. None where
    none are possible."""
    return _Deriver(operation, parameters, shapes).drawn(draw)


class _Deriver:
    def __init__(
        self, operation: Operation, parameters: Mapping[str, ParameterValue], shapes: Sequence[Mapping[str, int]]
    ) -> None:
        self._operation = operation
        self._shapes = shapes
        self._roles = _roles_of(operation, shapes)
        self._blocks = {name: _blocks(name, parameters) for name in self._roles.extents}
        self._tied = _ties(self._roles.extents, shapes)
        self._free = [name for name in self._roles.extents if name not in self._tied]
        self._overlapping = {
            one.name for one in operation.tensors for shape in shapes if overlapping_stride(one, shape) is not None
        }
        self._below = _small_sizes(self._roles.extents, shapes)
        self._step = _step(parameters)

    def found(self) -> list[CustomSizes]:
        if not self._free and not self._roles.strides:
            return []
        kept: dict[tuple[object, ...], CustomSizes] = {}
        for one in (*self._essential(), *self._thorough()):
            key = (tuple(sorted(one.sizes.items())), one.gaps, one.dense is not None)
            kept.setdefault(key, one)
        return list(kept.values())

    def drawn(self, draw: Callable[[int, int], int]) -> dict[str, int] | None:
        def value(size: str, at: int) -> int:
            ragged = self._ragged(size, at)
            return draw(1, ragged) if ragged < self._blocks[size][-1] else draw(1, 2 * ragged)

        return self._sizes(value, ESSENTIAL_ELEMENTS) if self._free else None

    def _essential(self) -> Iterator[CustomSizes]:
        for name, value in (
            ("ragged", self._ragged),
            ("one beyond the block", lambda size, _: self._blocks[size][-1] + 1),
            ("less than a block", lambda size, at: self._blocks[size][0] // 2 - 1 - at),
            ("least sizes", lambda _size, _at: 0),
            (f"multiples of {self._step}", lambda _, at: self._step * (2 + at % 5)),
        ):
            yield from self._made(name, value, essential=True)
        ragged = self._sizes(self._ragged, ESSENTIAL_ELEMENTS)
        if ragged is not None:
            yield from self._with_gaps("padded rows", ragged, PADDING, essential=True)
        for size in self._free:
            if self._limits(size).least == "0":
                yield from self._made(f"{size} = 0", self._ragged, essential=True, fixed={size: 0})
        if not self._shapes:
            yield from self._made("typical", lambda size, _: 2 * self._blocks[size][-1], essential=True)

    def _thorough(self) -> Iterator[CustomSizes]:
        yield from self._made("odd sizes", lambda _, at: (61, 37, 31, 29, 23, 19, 17)[at % 7])
        yield from self._made("whole blocks", lambda size, _: self._blocks[size][-1])
        yield from self._made("small", lambda _, at: 2 + at % 3)
        for size in self._free:
            least = self._snapped(size, 0, {})
            yield from self._made(f"{size} = {least}", self._ragged, fixed={size: least})
            for block in self._blocks[size]:
                for value in (block - 1, block, block + 1, 2 * block, 3 * block - 1):
                    fixed = self._snapped(size, value, {})
                    yield from self._made(f"{size} = {fixed}", self._ragged, fixed={size: fixed})
        yield from self._large()
        yield from self._reduced()
        sizes = self._sizes(self._ragged, ESSENTIAL_ELEMENTS)
        if sizes is None:
            return
        yield from self._with_gaps(
            "large strides", self._sizes(lambda _, at: 2 + at % 3, 1 << 10) or sizes, LARGE_PADDING
        )
        for stride in self._roles.strides:
            yield from self._with_gaps(f"{stride} alone with gaps", sizes, PADDING, only=stride)
        far = self._far(sizes)
        if far is not None:
            yield far

    def _large(self) -> Iterator[CustomSizes]:
        """As many whole blocks and some elements as can be executed in a moment."""
        best = None
        for blocks in (2, 4, 8, 16, 32, 64, 128):
            wanted = {size: blocks * self._blocks[size][0] + _ODD[at % 7] for at, size in enumerate(self._free)}
            sizes = self._completed(wanted, {})
            if sizes is None or self._elements(sizes) > LARGE_ELEMENTS:
                break
            best = sizes
        if best is not None:
            yield CustomSizes("large", best)

    def _reduced(self) -> Iterator[CustomSizes]:
        """The shapes that are too large to be executed whole, with sizes that leave the same remainders."""
        for shape in self._shapes:
            wanted = {size: shape[size] for size in self._free}
            sizes = self._completed(wanted, {})
            for size in self._free * 4:
                if sizes is None or self._elements(sizes) <= MOST_ELEMENTS:
                    break
                steps, rest = divmod(wanted[size], self._step)
                wanted[size] = max(steps // 4, min(steps, 2)) * self._step + rest
                sizes = self._completed(wanted, {})
            if sizes is not None and sizes != shape and self._elements(sizes) <= MOST_ELEMENTS:
                yield CustomSizes(f"{'x'.join(str(shape[size]) for size in self._free)} reduced", sizes)

    def _ragged(self, size: str, at: int) -> int:
        """Whole blocks and some elements, about as many as the shapes have; of a small size nearly what it is there."""
        given = [shape[size] for shape in self._shapes]
        block = self._blocks[size][-1]
        if given and max(given) <= SMALL and max(given) < block:
            return max(given) - 1 if max(given) > 2 else max(given) + 1
        return block + _ODD[at % len(_ODD)]

    def _made(
        self,
        name: str,
        value: Callable[[str, int], int],
        *,
        essential: bool = False,
        fixed: Mapping[str, int] | None = None,
    ) -> Iterator[CustomSizes]:
        sizes = self._sizes(value, ESSENTIAL_ELEMENTS if essential else MOST_ELEMENTS, fixed or {})
        if sizes is not None and all(sizes[size] == given for size, given in (fixed or {}).items()):
            yield CustomSizes(name, sizes, essential)

    def _sizes(
        self, value: Callable[[str, int], int], most_elements: int, fixed: Mapping[str, int] | None = None
    ) -> dict[str, int] | None:
        """Sizes of these values, as far as limits allow; the first ones are reduced until tensors have so many elements
        at most, since blocks lie along the last."""
        wanted = {size: value(size, at) for at, size in enumerate(self._free)}
        reducible = [size for size in self._free if size not in (fixed or {})]
        for size in (*reducible[:-1] * 3, *reducible[-1:] * 3, ""):
            sizes = self._completed(wanted, fixed or {})
            if sizes is None or self._elements(sizes) <= most_elements:
                return sizes
            if size:
                wanted[size] = max(1, wanted[size] // 6) | 1
        return None

    def _completed(self, wanted: Mapping[str, int], fixed: Mapping[str, int]) -> dict[str, int] | None:
        """All sizes, from those that are free; None where they are not possible."""
        sizes = {name: self._usual(name) for name in self._operation.size_arguments}
        for size in self._free:
            sizes[size] = fixed.get(size, self._snapped(size, wanted[size], sizes))
        for size in self._free:  # limits may name sizes behind them
            least = min((sizes[other] for other in self._below.get(size, ())), default=INT32_MAX)
            if fixed.get(size, 0) > least:
                return None
            sizes[size] = fixed.get(size, self._snapped(size, min(wanted[size], least), sizes))
        for size, (operator, first, second) in self._tied.items():
            sizes[size] = sizes[first] * sizes[second] if operator == "*" else sizes[first] + sizes[second]
        for size in self._roles.strides:
            sizes[size] = _least_stride(self._operation, size, sizes)
        return sizes if self._is_possible(sizes) else None

    def _usual(self, size: str) -> int:
        if self._shapes:
            return self._shapes[0][size]
        return self._snapped(size, 1, {})

    def _limits(self, size: str) -> SizeLimits:
        return self._operation.limits.get(size, SizeLimits())

    def _snapped(self, size: str, value: int, sizes: Mapping[str, int]) -> int:
        """The nearest value that limits allow, rounded up to a multiple; at least 1 where it is not asked for less."""
        limits = self._limits(size)
        step = lcm(limits.multiple, self._roles.steps.get(size, 1))
        least, greatest = 1, INT32_MAX
        try:
            least = max(1, evaluate_size(limits.least, sizes)) if limits.least is not None else 1
            greatest = evaluate_size(limits.greatest, sizes) if limits.greatest is not None else INT32_MAX
        except ValueError:  # it names a size that has no value yet
            pass
        found = -(-max(value, least) // step) * step
        return max(greatest // step * step, -(-least // step) * step) if found > greatest else found

    def _is_possible(self, sizes: Mapping[str, int]) -> bool:
        try:
            if any(True for _ in beyond_limits(self._operation, sizes)):
                return False
            needed: dict[str, int] = {}
            for tensor in self._operation.tensors:
                elements = elements_spanned(tensor, sizes)
                if needed.setdefault(tensor.buffer, elements) != elements or values_misfit(tensor, sizes):
                    return False
                if tensor.name not in self._overlapping and overlapping_stride(tensor, sizes) is not None:
                    return False
        except ValueError:
            return False
        return all(0 <= value <= INT32_MAX for value in sizes.values())

    def _elements(self, sizes: Mapping[str, int]) -> int:
        return sum(elements_spanned(tensor, sizes) for tensor in self._operation.tensors)

    def _with_gaps(
        self, name: str, sizes: Mapping[str, int], padding: int, *, only: str = "", essential: bool = False
    ) -> Iterator[CustomSizes]:
        """The same sizes with strides that leave gaps, all or the one that is named."""
        if not self._roles.strides:
            return
        found = dict(sizes)
        for stride in reversed(self._roles.strides):
            least = _least_stride(self._operation, stride, found)
            found[stride] = self._snapped(stride, least + padding * (only in ("", stride)), found)
        most = MOST_ELEMENTS * 16
        if found != sizes and self._is_possible(found) and self._elements(found) <= most:
            yield CustomSizes(name, found, essential, gaps=True)

    def _far(self, sizes: Mapping[str, int]) -> CustomSizes | None:
        """Rows so far apart that offsets pass 32 bits, where a stride can be that large."""
        found = dict(sizes)
        buffers = [tensor.buffer for tensor in self._operation.tensors]
        if len(set(buffers)) < len(buffers):
            return None
        for tensor in self._operation.tensors:
            axes = [axis for axis in zip(tensor.sizes, tensor.strides, strict=True) if axis[1] in self._roles.strides]
            if not axes:
                continue
            size, stride = max(axes, key=lambda axis: sizes[axis[1]])
            rows = evaluate_size(size, sizes) - 1
            wanted = max(FAR_ELEMENTS, FAR_BYTES // DTYPES[tensor.dtype].size_bytes)
            step = self._limits(stride).multiple
            needed = rows and min((wanted // rows // 64 + 1) * 64 + PADDING, INT32_MAX // 64 * 64) // step * step
            found[stride] = max(found[stride], needed or 0)
        if found == sizes or not self._is_possible(found):
            return None
        return CustomSizes("offsets beyond 32 bits", found, dense=sizes)


def _roles_of(operation: Operation, shapes: Sequence[Mapping[str, int]]) -> _Roles:
    found = _Roles()
    in_sizes = {name for tensor in operation.tensors for size in tensor.sizes for name in names_in(size)}
    in_strides = {stride for tensor in operation.tensors for stride in tensor.strides if is_atom(stride)}
    fixed = {name for tensor in operation.tensors for size in tensor.sizes for name in _fixed_in(size)}
    for tensor in operation.tensors:
        if tensor.values is not None and tensor.values.kind is ContentKind.FILE:
            fixed |= {name for size in tensor.sizes for name in names_in(size)}
        for size in tensor.sizes:
            for name, step in _steps_in(size):
                found.steps[name] = lcm(found.steps.get(name, 1), step)
    bounds = {name for one in operation.tensors for text in _bounds_of(one.values) for name in names_in(text)}
    for name in operation.size_arguments:
        if name in fixed:
            continue
        if name in in_sizes or (name in bounds and name not in in_strides):
            steps = found.steps.get(name, 1)
            if all(shape[name] % steps == 0 for shape in shapes):
                found.extents.append(name)
        elif name in in_strides and all(shape[name] >= _least_stride(operation, name, shape) for shape in shapes):
            found.strides.append(name)
    found.strides.sort(key=lambda name: -_innermost(operation, name))
    return found


def _bounds_of(values: object) -> Sequence[str]:
    return [text.removeprefix("-") for text in getattr(values, "bounds", ())]


def _steps_in(size: str) -> Iterator[tuple[str, int]]:
    """Names that are divided by a number, and the number."""
    for name, number in re.findall(r"([A-Za-z_]\w*)\s*/\s*(\d+)", size):
        if int(number) > 1:
            yield name, int(number)


def _fixed_in(size: str) -> Iterator[str]:
    """Names of an expression that divides by a name, or takes a remainder: only its author knows what they may be."""
    if parse_size(size) is not None and ("%" in size or re.search(r"/\s*[A-Za-z_(]", size)):
        yield from names_in(size)


def _innermost(operation: Operation, stride: str) -> int:
    """The place of the axis, of all that have this stride, that is the farthest from the first."""
    return max((tensor.strides.index(stride) for tensor in operation.tensors if stride in tensor.strides), default=0)


def _least_stride(operation: Operation, stride: str, sizes: Mapping[str, int]) -> int:
    """The least value of a stride with which an axis does not run into those of smaller strides."""
    least = 1
    for tensor in operation.tensors:
        if stride not in tensor.strides:
            continue
        at = tensor.strides.index(stride)
        order = list(range(len(tensor.sizes)))
        if tensor.layout == "col" and len(order) >= 2:
            order[-1], order[-2] = order[-2], order[-1]
        inside = order[order.index(at) + 1 :]
        try:
            extent = 1 + sum(
                (evaluate_size(tensor.sizes[axis], sizes) - 1) * evaluate_size(tensor.strides[axis], sizes)
                for axis in inside
            )
        except ValueError:
            continue
        least = max(least, extent)
    return least


def _blocks(size: str, parameters: Mapping[str, ParameterValue]) -> list[int]:
    """Extents among the parameters that may be a block's along a size, ascending: those that name it, else all; and the
    threads' times what each has."""
    numbers = {
        name: value
        for name, value in parameters.items()
        if type(value) is int and 2 <= value <= 4096 and _EXTENT_WORDS.search(name)
    }
    own = {
        name: value
        for name, value in numbers.items()
        if re.search(rf"(^|[^A-Za-z]){size}([^A-Za-z]|$)", name) or re.search(rf"^{size}(?=[A-Z])|{size}$", name)
    }
    chosen = own or numbers
    vectors = [value for name, value in chosen.items() if _VECTOR_WORDS.search(name)]
    plain = [value for name, value in chosen.items() if not _VECTOR_WORDS.search(name)]
    if not plain:
        return [USUAL_BLOCK]
    largest = max(plain)
    found = {largest, min(plain)}
    if vectors and largest * max(vectors) <= 1 << 13:
        found.add(largest * max(vectors))
    return sorted(found)


def _step(parameters: Mapping[str, ParameterValue]) -> int:
    """A multiple of what a thread takes at once, by the parameters whose names say such a number."""
    small = [value for name, value in parameters.items() if type(value) is int and _VECTOR_WORDS.search(name)]
    step = lcm(*(value for value in small if 2 <= value <= LARGEST_STEP)) if small else 1
    return step if 2 <= step <= LARGEST_STEP else USUAL_STEP


def _ties(extents: Sequence[str], shapes: Sequence[Mapping[str, int]]) -> dict[str, tuple[str, str, str]]:
    """Sizes that are the product of two others in each shape, or, of several, their sum."""
    found: dict[str, tuple[str, str, str]] = {}
    for name in extents:
        others = [other for other in extents if other != name and other not in found]
        for first, second in combinations(others, 2):
            if any(name in found.get(other, ()) for other in (first, second)):
                continue
            values = [(shape[name], shape[first], shape[second]) for shape in shapes]
            if values and all(whole == one * two and min(one, two) > 1 for whole, one, two in values):
                found.setdefault(name, ("*", first, second))
            elif len(set(values)) > 1 and all(whole == one + two for whole, one, two in values):
                found.setdefault(name, ("+", first, second))
    tied = set(found)
    return {name: tie for name, tie in found.items() if tied.isdisjoint(tie[1:])}


def _small_sizes(extents: Sequence[str], shapes: Sequence[Mapping[str, int]]) -> dict[str, list[str]]:
    """By small sizes, those that are at least twice as large in each shape."""
    if not shapes:
        return {}
    return {
        name: larger
        for name in extents
        if max(shape[name] for shape in shapes) <= SMALL
        and (
            larger := [one for one in extents if one != name and all(2 * shape[name] <= shape[one] for shape in shapes)]
        )
    }
