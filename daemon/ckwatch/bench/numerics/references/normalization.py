"""RMSNorm and LayerNorm of rows, with what is added before and how they are quantised."""

from __future__ import annotations

import numpy as np

from ckwatch.bench.numerics.references.given import Given, IntArray, RowReference
from ckwatch.bench.numerics.storage import Doubles
from ckwatch.bench.numerics.tolerance import range_of


def expected(given: Given, role: str, rows: IntArray) -> Doubles:
    """Rows of the output with a role, in f64."""
    x = given.read("x", rows)
    if given.has("bias"):
        x = x + given.read("bias")
    if given.has("residual"):
        x = x + given.read("residual", rows)
    if role == "sum":
        return x
    mean: Doubles = x.mean(axis=1, keepdims=True)
    if role == "mean":
        return mean
    is_layer = given.options["norm"] == "layer"
    centered = x - mean if is_layer else x
    inverse: Doubles = 1 / np.sqrt(
        np.mean(centered * centered, axis=1, keepdims=True) + float(str(given.options["epsilon"]))
    )
    if role == "inverse":
        return inverse
    y: Doubles = centered * inverse * given.read("gamma")
    if is_layer:
        y = y + given.read("beta")
    if role == "unquantized" or not given.has("y_scale"):
        return y
    if given.has("smooth"):
        y = y * given.read("smooth")
    scale: Doubles = np.abs(y).max(axis=1, keepdims=True) / range_of(given.dtype("y"), given.fnuz)[1]
    if role == "y_scale":
        return scale
    # a row of zeros has no scale: whatever a kernel writes of it is right
    quantised: Doubles = np.divide(y, scale, out=np.full_like(y, np.nan), where=scale > 0)
    return quantised


NORMALIZATION = RowReference(expected=expected)
