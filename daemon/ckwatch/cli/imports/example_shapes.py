"""Values of sizes for a first `[[shape]]`.

Nothing in a source says them, but tensors must not be large, and strides must fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckwatch.model.tensors import evaluate_size, names_in

EXAMPLES = (128, 256, 64)
ELEMENTS = 1 << 22
"""Most elements of a tensor."""


def example_sizes(
    names: Sequence[str], given: Mapping[str, int], tensors: Sequence[Sequence[str]], multiples: Mapping[str, int]
) -> dict[str, int]:
    """A value for each name that is no stride; `tensors` are the sizes of tensors, in expressions of the names."""
    found = {
        name: given.get(name, _multiple(EXAMPLES[number % len(EXAMPLES)], multiples.get(name, 1)))
        for number, name in enumerate(names)
    }
    free = [name for name in names if name not in given]
    inner = {name for one in tensors if one for name in names_in(one[-1])}
    while free and any(_elements(one, found) > ELEMENTS for one in tensors):
        largest = max(free, key=lambda name: (found[name] > multiples.get(name, 1), name not in inner, found[name]))
        smaller = _multiple(found[largest] // 2, multiples.get(largest, 1))
        if smaller >= found[largest]:
            break
        found[largest] = smaller
    return found


def stride_values(tensors: Sequence[tuple[Sequence[str], Sequence[str]]], sizes: Mapping[str, int]) -> dict[str, int]:
    """Values of strides that are names, without gaps, for tensors with sizes and strides."""
    found = dict(sizes)
    for extents, strides in tensors:
        inside = 1
        for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
            if stride.isidentifier() and stride not in sizes:
                found[stride] = max(found.get(stride, 0), inside)
            try:
                inside = max(inside, evaluate_size(stride, found) * evaluate_size(extent, found))
            except ValueError:
                break
    return {name: value for name, value in found.items() if name not in sizes}


def _multiple(value: int, of: int) -> int:
    return max(1, -(-value // of)) * of


def _elements(extents: Sequence[str], sizes: Mapping[str, int]) -> int:
    count = 1
    for one in extents:
        try:
            count *= max(1, evaluate_size(one, sizes))
        except ValueError:
            continue
    return count
