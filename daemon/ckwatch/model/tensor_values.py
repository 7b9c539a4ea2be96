"""Meaning of an input's values: how they are made, and why that cannot be for some dtypes and sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import DTYPES, evaluate_size


class ContentKind(StrEnum):
    """Ways to make values. `index`: integers of a range; `file`: those of a NumPy file."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    CONSTANT = "constant"
    PROBABILITIES = "probabilities"
    PERMUTATION = "permutation"
    SORTED = "sorted"
    MASK = "mask"
    INDEX = "index"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorValues:
    """Values of a tensor. `numbers`: mean and deviation, least and greatest value, or the constant. `bounds`: size
    expressions of a range of integers, the upper one exclusive, of which an index, a permutation or sorted values are;
    evaluated they are `numbers`. `file`: a NumPy file's path, `digest` the SHA-256 of its content.
    """

    kind: ContentKind
    numbers: tuple[int | float, ...] = ()
    bounds: tuple[str, ...] = ()
    file: str = ""
    digest: str = ""

    def on(self, sizes: Mapping[str, int]) -> TensorValues:
        """Return the same with a range's bounds as numbers. Raises ValueError for a name without value."""
        if not self.bounds:
            return self
        first, behind = (_bound(text, sizes) for text in self.bounds)
        return replace(self, numbers=(first, behind), bounds=())

    @property
    def in_range(self) -> bool:
        """Return True if values are integers of a range."""
        return self.kind is ContentKind.INDEX or bool(
            self.kind in (ContentKind.PERMUTATION, ContentKind.SORTED) and (self.bounds or self.numbers)
        )


def _bound(text: str, sizes: Mapping[str, int]) -> int:
    return -evaluate_size(text[1:], sizes) if text.startswith("-") else evaluate_size(text, sizes)


INTEGER_LIMITS = {name: dtype.limits for name, dtype in DTYPES.items() if dtype.limits is not None}
"""The least and the greatest value of each integer dtype."""

_LARGEST = {"f16": 65504.0, "bf16": 3.39e38, "f32": 3.4028234e38, "f8": 240.0, "bf8": 57344.0, "f4": 6.0}
"""The largest value of floats, of all archs; that of f64 is Python's own."""


def is_integer_dtype(dtype: str) -> bool:
    """Return True if elements are whole numbers."""
    return dtype in INTEGER_LIMITS


def dtype_limits(dtype: str) -> tuple[int | float, int | float]:
    """Return the least and the greatest value of a dtype."""
    if dtype in INTEGER_LIMITS:
        return INTEGER_LIMITS[dtype]
    if dtype == "e8m0":
        return 2.0**-127, 2.0**127
    largest = _LARGEST.get(dtype, math.inf)
    return -largest, largest


def misfit(values: TensorValues, dtype: str) -> str:
    """Why a tensor of this dtype cannot have such values, whatever its sizes; empty where it can."""
    kind, integers = values.kind, is_integer_dtype(dtype)
    least, greatest = dtype_limits(dtype)
    if values.in_range or kind is ContentKind.PERMUTATION:
        what = "indices" if values.in_range else "a permutation"
        if not integers or dtype == "bool":
            known = ", ".join(name for name in INTEGER_LIMITS if name != "bool")
            return f"{what} must be integers, and {dtype} is not one of {known}"
    if kind is ContentKind.PROBABILITIES and (integers or dtype in ("e8m0", "f4")):
        return f"probabilities lie between 0 and 1, and {dtype} has no such values"
    if kind is ContentKind.MASK and dtype == "e8m0":
        return "a mask holds 0 and 1, and e8m0 has no 0"
    if kind in (ContentKind.CONSTANT, ContentKind.UNIFORM):
        for number in values.numbers:
            if not least <= number <= greatest:
                ends = f"{least} to {greatest}" if integers else f"{least:g} to {greatest:g}"
                return f"{number:g} is out of the range of {dtype}, {ends}"
            if integers and number != int(number):
                return f"{number:g} is not an integer, and {dtype} holds integers"
    return ""


def misfit_on(values: TensorValues, dtype: str, sizes: Sequence[int]) -> str:
    """Why a tensor of this dtype and these sizes cannot have such values, whose bounds are numbers; empty where it can.

    Assumes that `misfit` is empty.
    """
    least, greatest = dtype_limits(dtype)
    last = sizes[-1] if sizes else 1
    if values.in_range:
        first, behind = values.numbers
        if first >= behind:
            return f"the range [{first}, {behind}] is empty: its upper bound is exclusive"
        if first < least or behind - 1 > greatest:
            return f"the range [{first}, {behind}] does not fit into {dtype}, which holds {least} to {greatest}"
        if values.kind is ContentKind.PERMUTATION and last > behind - first:
            return f"no {last:,} different values are in the range [{first}, {behind}]"
    elif values.kind is ContentKind.PERMUTATION and last - 1 > greatest:
        return f"a permutation of 0 to {last - 1:,} does not fit into {dtype}, which holds {least} to {greatest}"
    return ""
