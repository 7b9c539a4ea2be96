"""The GEMM that the self-test gives the vendor's library."""

from __future__ import annotations

from ckwatch.model.contractions import matrix_view
from ckwatch.model.kernel_problem import Buffer, Gemm, KernelProblem, TensorView
from ckwatch.model.tensors import DTYPES


def library_problem(kind: str, m: int, n: int, k: int) -> KernelProblem:
    """Y = X · W with f32 sums, X and Y row-major, W column-major."""
    dtype = "f32" if kind == "cpu" else "f16"  # what each library multiplies fastest and everywhere
    views = (
        TensorView(buffer="X", sizes=(m, k), strides=(k, 1)),
        TensorView(buffer="W", sizes=(k, n), strides=(1, k)),
        TensorView(buffer="Y", sizes=(m, n), strides=(n, 1)),
    )
    x, w, y = (matrix_view(view.buffer, _pair(view.sizes), _pair(view.strides)) for view in views)
    return KernelProblem(
        buffers=(
            Buffer(name="X", dtype=dtype, elements=m * k),
            Buffer(name="W", dtype=dtype, elements=k * n),
            Buffer(name="Y", dtype=dtype, elements=m * n, output=True),
        ),
        views=views,
        arguments=(),
        computed=Gemm(x=x, w=w, y=y, accumulator="f32"),
        flops=2 * m * n * k,
        bytes_moved=DTYPES[dtype].bytes_for(m * k + k * n + m * n),
    )


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    first, second = values
    return first, second
