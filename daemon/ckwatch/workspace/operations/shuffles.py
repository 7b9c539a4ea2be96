"""Operands that lie in memory as matrix instructions read them: weights, and the scales of microscaled blocks.

Both are what is made of a matrix once, ahead of all calls: `preshuffled` in `[operation.b]`, `scale_a` and `scale_b`.
"""

from __future__ import annotations

from dataclasses import replace

from ckwatch.model.contractions import MatrixAxes
from ckwatch.model.kernels import Tensor

LANES = 64
PACKED = 2
"""Tiles of the matrix instruction, along either side, whose scales lie in one word."""

SHUFFLED_WEIGHTS, SHUFFLED_SCALES = 4, 6
"""How many axes the tensors have."""


def preshuffled_weights(matrix: Tensor, columns: int, rows: int) -> Tensor:
    """W in blocks of `columns` columns and `rows` rows: `w[n0][k0][n][k]`, where n0 and k0 count blocks."""
    n0, k0 = (f"({name} + {block - 1}) / {block}" for name, block in (("N", columns), ("K", rows)))
    return replace(
        matrix,
        layout="col",
        sizes=(n0, k0, str(columns), str(rows)),
        strides=(f"{k0} * {columns * rows}", str(columns * rows), str(rows), "1"),
    )


def preshuffled_scales(scale: Tensor, size: str, instruction: int, depth: int) -> Tensor:
    """Scales of rows of X or columns of W (`size` of them), each of `depth` elements along K, for matrix instructions
    of `instruction` rows or columns: `scale[m0][k0][k1][m1][k2][m2]`, where m is (m0·2 + m2)·instruction + m1, and k
    is (k0·2 + k2)·lanes + k1, counted in blocks."""
    lanes = LANES // instruction
    across, along = PACKED * instruction, PACKED * lanes * depth
    words = LANES * PACKED * PACKED
    m0, k0 = f"({size} + {across - 1}) / {across}", f"(K + {along - 1}) / {along}"
    return replace(
        scale,
        layout="row",
        sizes=(m0, k0, str(lanes), str(instruction), str(PACKED), str(PACKED)),
        strides=(f"{k0} * {words}", str(words), str(instruction * PACKED * PACKED), str(PACKED * PACKED), "2", "1"),
    )


def axes_of_weights(tensor: Tensor) -> MatrixAxes:
    """Shuffled weights as a matrix of K × N."""
    n0, k0, n, k = zip(tensor.sizes, tensor.strides, strict=True)
    return MatrixAxes(tensor=tensor.name, rows=(k0, k), columns=(n0, n))


def axes_of_scales(tensor: Tensor, depth: int, *, of_x: bool) -> MatrixAxes:
    """Shuffled scales with the indices of X or W."""
    m0, k0, k1, m1, k2, m2 = zip(tensor.sizes, tensor.strides, strict=True)
    across, along = (m0, m2, m1), (k0, k2, k1, (str(depth), "0"))
    return MatrixAxes(tensor=tensor.name, rows=across if of_x else along, columns=along if of_x else across)
