"""A GEMM as BLAS libraries take it: column-major matrices, each plain or transposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ckwatch.model.contractions import MatrixView
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BlasMatrix:
    """A column-major matrix in `buffer`, as it is stored: `rows` × `columns`, `stride` elements from one column to the
    next; `transposed`: its transpose is what is multiplied."""

    buffer: str
    dtype: str
    rows: int
    columns: int
    stride: int
    transposed: bool


@dataclass(frozen=True, slots=True)
class BlasGemm:
    """`c` (m × n) = op(`a`) (m × k) · op(`b`) (k × n)."""

    m: int
    n: int
    k: int
    a: BlasMatrix
    b: BlasMatrix
    c: BlasMatrix
    accumulator: str
    fnuz: bool


def blas_gemm(problem: KernelProblem) -> BlasGemm | None:
    """The multiplication alone, without scales, bias and activation. None where there is none, or no call of BLAS for
    it: an operand without a contiguous index, several matrices, a convolution."""
    gemm = problem.gemm
    if gemm is None or gemm.y.strides is None:
        return None
    # Row-major Y = X·W is column-major Yᵀ = Wᵀ·Xᵀ.
    swapped = gemm.y.strides[1] == 1 and gemm.y.strides[0] >= gemm.y.sizes[1]
    left, right, result = (
        (_flipped(gemm.w), _flipped(gemm.x), _flipped(gemm.y)) if swapped else (gemm.x, gemm.w, gemm.y)
    )
    dtypes = {buffer.name: buffer.dtype for buffer in problem.buffers}
    a, b, c = (_matrix(view, dtypes) for view in (left, right, result))
    if a is None or b is None or c is None or c.transposed:
        return None
    return BlasGemm(
        m=result.sizes[0],
        n=result.sizes[1],
        k=left.sizes[1],
        a=a,
        b=b,
        c=c,
        accumulator=gemm.accumulator,
        fnuz=gemm.fnuz,
    )


def _flipped(view: MatrixView) -> MatrixView:
    return replace(view, rows=view.columns, columns=view.rows)


def _matrix(view: MatrixView, dtypes: Mapping[str, str]) -> BlasMatrix | None:
    if view.strides is None:
        return None
    (rows, columns), (down, right) = view.sizes, view.strides
    dtype = dtypes[view.buffer]
    if down == 1 and right >= rows:
        return BlasMatrix(view.buffer, dtype, rows, columns, right, transposed=False)
    if right == 1 and down >= columns:
        return BlasMatrix(view.buffer, dtype, columns, rows, down, transposed=True)
    return None
