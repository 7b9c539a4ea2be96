"""Products of groups of rows, each with a W of its own.

Roles: `x` M×K, `w` G×K×N, `offsets` the row behind each group, `y` M×N, and the operands of the steps. The option `per`
says of each what has a value: `tensor`, `row`, `column` (G×N: for each group) or `element`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ckwatch.bench.numerics.activations import ACTIVATIONS
from ckwatch.bench.numerics.references.given import Booleans, Given, IntArray, RowReference
from ckwatch.bench.numerics.storage import Doubles
from ckwatch.model.row_computations import OptionValue

_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407
_LEAST = 8
"""Of weights from 0 to 31 those below it count as 0: a quarter of the groups has no rows."""


def expected(given: Given, _role: str, rows: IntArray) -> Doubles:
    """The rows of `y`; NaN for those that belong to no group."""
    groups = np.searchsorted(given.integers("offsets"), rows, side="right")
    found = np.full((rows.size, given.shape("y")[1]), np.nan)
    for group in np.unique(groups):
        if group >= given.shape("offsets")[0]:
            continue
        at = groups == group
        values = given.read("x", rows[at]) @ given.read("w", int(group))
        for step in given.steps:
            if step.kind == "activation":
                values = ACTIVATIONS[step.activation](values)
                continue
            operand = step.factor * (
                1.0 if step.operand is None else _operand(given, step.operand, int(group), rows[at])
            )
            values = values * operand if step.kind == "multiply" else values + operand
        found[at] = values
    return found


def _operand(given: Given, role: str, group: int, rows: IntArray) -> Doubles:
    """An operand's values for some rows of a group, as they are broadcast over rows × columns."""
    match dict(_pairs(given.options["per"]))[role]:
        case "tensor":
            return given.read(role)
        case "row":
            return given.read(role, rows)[:, np.newaxis]
        case "column":
            return given.read(role, group)
        case _:
            return given.read(role, rows)


def _pairs(value: OptionValue) -> list[tuple[str, str]]:
    pairs = value if isinstance(value, tuple) else ()
    return [(str(pair[0]), str(pair[1])) for pair in pairs if isinstance(pair, tuple)]


def left_out(given: Given, _role: str) -> Booleans:
    """The rows that belong to no group."""
    last = int(given.integers("offsets", -1))
    found: Booleans = np.arange(given.shape("y")[0]) >= last
    return found


def contents(given: Given, seed: int) -> Mapping[str, IntArray]:
    """Return the ends of uneven groups, some of them without rows; the last one ends with X."""
    (groups,), rows = given.shape("offsets"), given.shape("x")[0]
    weights = [_weight(seed, group) for group in range(groups)]
    total = np.cumsum(weights if any(weights) else [1] * groups)
    return {"offsets": rows * total.astype(np.int64) // int(total[-1])}


def _weight(seed: int, group: int) -> int:
    mixed = ((seed + 1) * _MULTIPLIER + group * _INCREMENT) % (1 << 64)
    weight = (mixed ^ (mixed >> 29)) * _MULTIPLIER % (1 << 64) >> 59
    return weight if weight >= _LEAST else 0


GROUPED_GEMM = RowReference(expected=expected, left_out=left_out, contents=contents)
