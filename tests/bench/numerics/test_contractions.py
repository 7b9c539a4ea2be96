"""The reference against numpy's einsum, and against a convolution written as loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ckwatch.bench.numerics.comparison import WrongResultError
from ckwatch.bench.numerics.verification import Reference, sampled_lines
from ckwatch.model.contractions import EpilogueStep, MatrixView, Window
from ckwatch.model.kernel_problem import Buffer, Gemm, KernelProblem, TensorView
from helpers.each_row import each_row


def problem_on(gemm: Gemm, views: tuple[TensorView, ...], elements: dict[str, int]) -> KernelProblem:
    buffers = tuple(
        Buffer(name=name, dtype="f32", elements=count, output=name == gemm.y.buffer) for name, count in elements.items()
    )
    return KernelProblem(
        buffers=buffers,
        views=views,
        arguments=(),
        computed=gemm,
        flops=2 * gemm.macs,
        bytes_moved=4 * sum(elements.values()),
    )


def batched(matrices: int, m: int, n: int, k: int, gap: int) -> KernelProblem:
    """Row-major matrices with `gap` elements between them, and a bias that they share."""

    def matrix(buffer: str, rows: int, columns: int) -> MatrixView:
        stride = rows * columns + gap
        return MatrixView(buffer=buffer, batch=((matrices, stride),), rows=((rows, columns),), columns=((columns, 1),))

    x, w, y = matrix("X", m, k), matrix("W", k, n), matrix("Y", m, n)
    bias = MatrixView(buffer="Bias", batch=((matrices, 0),), rows=((m, 0),), columns=((n, 1),))
    views = tuple(
        TensorView(buffer=view.buffer, sizes=(matrices, *view.sizes), strides=(view.batch[0][1], view.rows[0][1], 1))
        for view in (x, w, y)
    )
    elements = {view.buffer: (matrices - 1) * (m_n + gap) + m_n for view, m_n in ((x, m * k), (w, k * n), (y, m * n))}
    return problem_on(
        Gemm(x=x, w=w, y=y, steps=(EpilogueStep(kind="add", operand=bias),), accumulator="f32"),
        views,
        elements | {"Bias": n},
    )


def inputs_of(problem: KernelProblem) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]]:
    random = np.random.default_rng(3)
    return {
        buffer.name: random.uniform(-1, 1, buffer.elements).astype(np.float32)
        for buffer in problem.buffers
        if not buffer.output
    }


def test_each_matrix_of_a_batch_is_compared() -> None:
    matrices, m, n, k, gap = 3, 5, 7, 4, 2
    problem = batched(matrices, m, n, k, gap)
    inputs = inputs_of(problem)

    def tensor(name: str, rows: int, columns: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.float32]]:
        flat = np.append(inputs[name], np.zeros(gap, np.float32)).reshape(matrices, -1)
        return flat[:, : rows * columns].reshape(matrices, rows, columns)

    expected = np.einsum("bmk,bkn->bmn", tensor("X", m, k), tensor("W", k, n)) + inputs["Bias"]
    y = np.full((matrices, m * n + gap), np.float32(np.nan))
    y.view(np.uint32)[...] = 0xFFFFFFFF
    y[:, : m * n] = expected.reshape(matrices, -1)
    reference = Reference(problem, inputs)
    flat = y.reshape(-1)[:-gap].copy()
    assert reference.check({"Y": flat}).compared == matrices * m * n
    flat[m * n + gap + 2 * n + 1] += 1
    with pytest.raises(WrongResultError, match="1 of 105 elements of Y are wrong") as wrong:
        reference.check({"Y": flat})
    assert "wrong are matrices 1 to 1, rows 2 to 2, columns 1 to 1" in wrong.value.detail
    assert "Y[1, 2, 1] is" in wrong.value.detail


def test_of_many_matrices_some_are_compared() -> None:
    gemm = batched(100, 32, 32, 32, 0).gemm
    assert gemm is not None
    lines = sampled_lines(gemm, 1 << 18, seed=1)
    assert {0, 99} <= set(lines.matrices.tolist())
    assert 4 <= lines.matrices.size < 100
    assert (lines.rows.size, lines.columns.size) == (32, 32)


@each_row("stride", [1, 2])
@each_row("dilation", [1, 2])
@each_row("padding", [0, 1, 3])
def test_a_convolution_is_a_contraction(stride: int, dilation: int, padding: int) -> None:
    """NHWGC · GKYXC → NHWGK with one group's channels side by side."""
    images, height, width, groups, channels, filters, y_size, x_size = 2, 9, 7, 2, 3, 4, 3, 2
    out_h = (height + 2 * padding - dilation * (y_size - 1) - 1) // stride + 1
    out_w = (width + 2 * padding - dilation * (x_size - 1) - 1) // stride + 1
    row, image = width * groups * channels, height * width * groups * channels
    pixel = groups * channels
    x = MatrixView(
        buffer="X",
        batch=((groups, channels),),
        rows=((images, image), (out_h, stride * row), (out_w, stride * pixel)),
        columns=((y_size, dilation * row), (x_size, dilation * pixel), (channels, 1)),
        offset=-padding * (row + pixel),
        windows=(
            Window(row_axis=1, column_axis=0, row_step=stride, column_step=dilation, before=padding, size=height),
            Window(row_axis=2, column_axis=1, row_step=stride, column_step=dilation, before=padding, size=width),
        ),
    )
    taps = y_size * x_size * channels
    w = MatrixView(
        buffer="W",
        batch=((groups, filters * taps),),
        rows=((y_size, x_size * channels), (x_size, channels), (channels, 1)),
        columns=((filters, taps),),
    )
    out = groups * filters
    y = MatrixView(
        buffer="Y",
        batch=((groups, filters),),
        rows=((images, out_h * out_w * out), (out_h, out_w * out), (out_w, out)),
        columns=((filters, 1),),
    )
    shape = (images, out_h, out_w, groups, filters)
    strides = (out_h * out_w * out, out_w * out, out, filters, 1)
    elements = {"X": images * image, "W": groups * filters * taps, "Y": images * out_h * out_w * out}
    views = (TensorView(buffer="Y", sizes=shape, strides=strides),)
    problem = problem_on(Gemm(x=x, w=w, y=y, accumulator="f32"), views, elements)
    problem = replace(problem, views=(*views, *(flat(name, elements[name]) for name in "XW")))
    inputs = inputs_of(problem)
    given = inputs["X"].reshape(images, height, width, groups, channels).astype(np.float64)
    padded = np.pad(given, ((0, 0), (padding, padding), (padding, padding), (0, 0), (0, 0)))
    weights = inputs["W"].reshape(groups, filters, y_size, x_size, channels).astype(np.float64)
    expected = np.zeros(shape)
    for h, v, i, j in product(range(out_h), range(out_w), range(y_size), range(x_size)):
        taken = padded[:, h * stride + i * dilation, v * stride + j * dilation]
        expected[:, h, v] += np.einsum("ngc,gfc->ngf", taken, weights[:, :, i, j])
    reference = Reference(problem, inputs)
    assert reference.is_full
    assert problem.flops == 2 * expected.size * taps
    result = expected.astype(np.float32).reshape(-1)
    assert reference.check({"Y": result}).compared == expected.size
    result[5] += 0.01
    with pytest.raises(WrongResultError, match="1 of"):
        reference.check({"Y": result})


def flat(buffer: str, elements: int) -> TensorView:
    return TensorView(buffer=buffer, sizes=(elements,), strides=(1,))
