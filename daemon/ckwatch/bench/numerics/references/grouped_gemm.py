"""Products of groups of rows, each with a W of its own.

Roles: `x` M×K, `w` G×K×N, `offsets` the row behind each group, `scale_x` one value or one per row, `scale_w` one value
or G×N, `bias` G×N, `y` M×N. Options: `alpha`, `beta`, `activation`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ckwatch.bench.numerics.activations import ACTIVATIONS
from ckwatch.bench.numerics.references.given import Booleans, Given, IntArray, RowReference
from ckwatch.bench.numerics.storage import Doubles

_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407
_LEAST = 8
"""Of weights from 0 to 31 those below it count as 0: a quarter of the groups has no rows."""


def expected(given: Given, _role: str, rows: IntArray) -> Doubles:
    """The rows of `y`; NaN for those that belong to no group."""
    groups = np.searchsorted(given.integers("offsets"), rows, side="right")
    found = np.full((rows.size, given.shape("y")[1]), np.nan)
    activation = ACTIVATIONS[str(given.options["activation"])]
    for group in np.unique(groups):
        if group >= given.shape("offsets")[0]:
            continue
        at = groups == group
        values = given.read("x", rows[at]) @ given.read("w", int(group))
        if given.has("scale_x"):
            scale = given.read("scale_x")
            values *= scale if scale.size == 1 else scale[rows[at], np.newaxis]
        if given.has("scale_w"):
            values *= given.read("scale_w") if given.shape("scale_w") == (1,) else given.read("scale_w", int(group))
        values *= float(_number(given, "alpha"))
        if given.has("bias"):
            values += float(_number(given, "beta")) * given.read("bias", int(group))
        found[at] = activation(values)
    return found


def left_out(given: Given, _role: str) -> Booleans:
    """The rows that belong to no group."""
    last = int(given.integers("offsets", -1))
    found: Booleans = np.arange(given.shape("y")[0]) >= last
    return found


def contents(given: Given, seed: int) -> Mapping[str, IntArray]:
    """Where uneven groups end, some of them without rows; the last one ends with X."""
    (groups,), rows = given.shape("offsets"), given.shape("x")[0]
    weights = [_weight(seed, group) for group in range(groups)]
    total = np.cumsum(weights if any(weights) else [1] * groups)
    return {"offsets": rows * total.astype(np.int64) // int(total[-1])}


def _weight(seed: int, group: int) -> int:
    mixed = ((seed + 1) * _MULTIPLIER + group * _INCREMENT) % (1 << 64)
    weight = (mixed ^ (mixed >> 29)) * _MULTIPLIER % (1 << 64) >> 59
    return weight if weight >= _LEAST else 0


def _number(given: Given, name: str) -> float:
    value = given.options[name]
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} is no number")
    return value


GROUPED_GEMM = RowReference(expected=expected, left_out=left_out, contents=contents)
