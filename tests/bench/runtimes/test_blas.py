"""Layouts of a problem as BLAS takes them, multiplied as BLAS would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases.hip_scenarios import matrix, multiplication
from ckwatch.bench.runtimes.blas import BlasMatrix, blas_gemm
from ckwatch.model.contractions import MatrixView, matrix_view
from ckwatch.model.kernel_problem import Gemm, KernelProblem

LAYOUTS = [(x, w, y) for x in (True, False) for w in (True, False) for y in (True, False)]


@pytest.mark.parametrize(("x_rows", "w_rows", "y_rows"), LAYOUTS)
def test_the_call_computes_the_problem(x_rows: bool, w_rows: bool, y_rows: bool) -> None:
    problem, arrays = multiplication(x_rows, w_rows, y_rows, "f64")
    call = blas_gemm(problem)
    assert call is not None
    a, b = (operand(arrays[one.buffer], one) for one in (call.a, call.b))
    assert (a.shape, b.shape) == ((call.m, call.k), (call.k, call.n))
    stored(arrays["Y"], call.c)[:] = a @ b
    x, w, y = (matrix(arrays[view.buffer], view) for view in problem.views)
    assert (y == x @ w).all()


def stored(storage: Any, one: BlasMatrix) -> Any:
    strides = (storage.itemsize, one.stride * storage.itemsize)
    return np.lib.stride_tricks.as_strided(storage, (one.rows, one.columns), strides)


def operand(storage: Any, one: BlasMatrix) -> Any:
    return stored(storage, one).T if one.transposed else stored(storage, one)


def test_a_vector_is_a_matrix() -> None:
    views = {
        "x": matrix_view("X", (1, 8), (8, 1)),
        "w": matrix_view("W", (8, 1), (1, 1)),
        "y": matrix_view("Y", (1, 1), (1, 1)),
    }
    call = blas_gemm(with_views(views))
    assert call is not None
    assert (call.m, call.n, call.k) == (1, 1, 8)
    for one in (call.a, call.b, call.c):
        assert one.stride >= one.rows


@pytest.mark.parametrize(
    ("name", "strides"),
    [("x", (16, 2)), ("w", (0, 0)), ("y", (7, 2))],
)
def test_an_operand_that_blas_cannot_take(name: str, strides: tuple[int, int]) -> None:
    problem, _ = multiplication(True, True, True, "f32")
    gemm = problem.gemm
    assert gemm is not None
    views = {"x": gemm.x, "w": gemm.w, "y": gemm.y}
    views[name] = matrix_view(views[name].buffer, views[name].sizes, strides)
    assert blas_gemm(with_views(views)) is None


def test_what_is_no_gemm_has_no_call() -> None:
    assert (
        blas_gemm(KernelProblem(buffers=(), views=(), arguments=(), computed=None, flops=None, bytes_moved=0)) is None
    )


def with_views(views: dict[str, MatrixView]) -> KernelProblem:
    problem, _ = multiplication(True, True, True, "f32")
    return KernelProblem(
        buffers=problem.buffers,
        views=(),
        arguments=(),
        computed=Gemm(x=views["x"], w=views["w"], y=views["y"], accumulator="f32"),
        flops=None,
        bytes_moved=0,
    )
