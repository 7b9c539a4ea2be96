"""Where a tensor's elements lie in its buffer, and what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from ckwatch.timing.problem import Buffer, Problem, View

Mask = npt.NDArray[np.bool_]


def placed(elements: npt.NDArray[Any], view: View) -> npt.NDArray[Any]:
    """A tensor as a view of its buffer's elements, without a copy; where it repeats elements they are the same memory.

    Raises ValueError where it would reach outside of them.
    """
    axes = list(zip(view.sizes, view.strides, strict=True))
    if any(size < 1 or stride < 0 for size, stride in axes):
        raise ValueError(f"{view.buffer} has sizes {view.sizes} and strides {view.strides}")
    extent = sum((size - 1) * stride for size, stride in axes) + 1
    if extent > elements.size:
        raise ValueError(f"{view.buffer} has {elements.size} elements, its tensor reaches to {extent}")
    bytes_each = elements.itemsize
    return as_strided(elements, view.sizes, [stride * bytes_each for stride in view.strides])


def gap_mask(problem: Problem, buffer: Buffer) -> Mask | None:
    """Which of a buffer's elements no tensor uses, as leading dimensions leave them; None where there are none."""
    views = [view for view in problem.views if view.buffer == buffer.name]
    if any(_is_dense(view, buffer.elements) for view in views):
        return None
    gaps = np.ones(buffer.elements, np.bool_)
    for view in views:
        placed(gaps, view)[...] = False
    return gaps if gaps.any() else None


def chosen(count: int, wanted: int, seed: int) -> npt.NDArray[np.intp]:
    """All of 0 … count - 1, or about `wanted` of them, both edges among them; ascending."""
    if wanted >= count:
        return np.arange(count)
    edges = np.array([0, 1, count - 2, count - 1]) % count
    inside = np.random.default_rng(seed).choice(count, size=max(wanted - 4, 0), replace=False)
    return np.unique(np.concatenate((edges, inside)))


def _is_dense(view: View, elements: int) -> bool:
    axes: Sequence[tuple[int, int]] = sorted(zip(view.strides, view.sizes, strict=True))
    reached = 1
    for stride, size in axes:
        if size > 1 and stride > 0:
            if stride != reached:
                return False
            reached *= size
    return reached == elements
