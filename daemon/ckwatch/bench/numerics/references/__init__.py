"""References of what is computed row by row (`ckwatch.model.row_computations`), in f64.

Each is a module that makes a `RowReference`; a row in `REFERENCES` makes it known everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.bench.numerics.references.attention import ATTENTION
from ckwatch.bench.numerics.references.given import Given, RowReference
from ckwatch.bench.numerics.references.grouped_gemm import GROUPED_GEMM
from ckwatch.bench.numerics.references.moe_gemm import MOE_GEMM
from ckwatch.bench.numerics.references.normalization import NORMALIZATION

__all__ = ["REFERENCES", "Given", "RowReference"]

REFERENCES: Mapping[str, RowReference] = {
    "attention": ATTENTION,
    "grouped_gemm": GROUPED_GEMM,
    "moe_gemm": MOE_GEMM,
    "normalization": NORMALIZATION,
}
"""By the names that operations have for them."""
