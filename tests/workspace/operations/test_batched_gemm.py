"""B matrices at once: their strides, and what is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Kernel
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.shapes import ragged_shapes, with_defaults, wrong_sizes
from helpers.workspaces import INSTANCE, OPERATION, TOP, workspace

BATCHED = OPERATION.replace('"gemm"', '"batched_gemm"')


def loaded(root: Path, more: str, shape: str = "B = 3\nM = 4\nN = 6\nK = 8") -> Kernel:
    text = TOP + BATCHED + more + INSTANCE + f"\n[[shape]]\n{shape}\n"
    found = workspace(root, {"k.kernel.toml": text})
    assert found.diagnostics == ()
    return found.kernels[0]


def problem(root: Path, more: str, shape: str = "B = 3\nM = 4\nN = 6\nK = 8") -> KernelProblem:
    kernel = loaded(root, more, shape)
    return problem_of(kernel.operation, kernel.shapes[0], "gfx942")


def test_matrices_lie_behind_one_another(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, "bias = { dtype = 'f32' }\n")
    assert kernel.operation.size_arguments == ("B", "M", "N", "K", "LDA", "LDB", "LDC", "LDD")
    assert kernel.shapes[0].sizes["LDA"] == 8
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert [buffer.elements for buffer in found.buffers] == [3 * 4 * 8, 3 * 8 * 6, 6, 3 * 4 * 6]
    assert found.flops == 2 * 3 * 4 * 6 * 8
    gemm = found.gemm
    assert gemm is not None
    bias = gemm.steps[0].operand
    assert bias is not None
    assert (gemm.x.batch, gemm.w.batch, bias.batch, gemm.y.batch) == (
        ((3, 32),),
        ((3, 48),),
        ((3, 0),),
        ((3, 24),),
    )


def test_gaps_in_rows_move_the_next_matrix(tmp_path: Path) -> None:
    gemm = problem(tmp_path, "", "B = 3\nM = 4\nN = 6\nK = 8\nLDA = 10\nLDB = 9").gemm
    assert gemm is not None
    assert (gemm.x.batch, gemm.w.batch) == (((3, 40),), ((3, 54),))


def test_strides_between_matrices_can_be_arguments(tmp_path: Path) -> None:
    more = "batch_strides = true\nbias = { dtype = 'f32', full = true }\n"
    kernel = loaded(tmp_path, more, "B = 3\nM = 4\nN = 6\nK = 8\nBatchStrideA = 50\nBatchStrideD = 0")
    assert kernel.operation.size_arguments[-4:] == ("BatchStrideA", "BatchStrideB", "BatchStrideC", "BatchStrideD")
    assert [kernel.shapes[0].sizes[name] for name in kernel.operation.size_arguments[-4:]] == [50, 48, 24, 0]
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert found.buffer("X").elements == 2 * 50 + 32
    assert found.buffer("Bias").elements == 4 * 6


@pytest.mark.parametrize(("key", "least"), [("LDA", 8), ("BatchStrideC", 24)])
def test_a_stride_that_is_too_small(tmp_path: Path, key: str, least: int) -> None:
    text = TOP + BATCHED + "batch_strides = true\n" + INSTANCE
    text += f"\n[[shape]]\nB = 3\nM = 4\nN = 6\nK = 8\n{key} = {least - 1}\n"
    found = workspace(tmp_path, {"k.kernel.toml": text})
    assert [one.code for one in found.diagnostics] == ["kernel-file/out-of-range"]
    assert f"`{key}` must be at least {least}" in found.diagnostics[0].message


def test_ragged_shapes_have_several_matrices(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, "")
    shapes = ragged_shapes(kernel.operation, kernel.shapes[0])
    assert {shape.sizes["B"] for shape in shapes} == {3}
    assert all(problem_of(kernel.operation, shape, "gfx942").gemm for shape in shapes)


WITHIN = "B = 3\nM = 4\nN = 6\nK = 8\nLDA = 24\nBatchStrideA = 8\nLDC = {leading}\nBatchStrideC = 6"


def test_matrices_may_lie_line_by_line_within_each_other(tmp_path: Path) -> None:
    found = problem(tmp_path, "batch_strides = true\n", WITHIN.format(leading=18))
    assert found.gemm is not None
    assert (found.gemm.x.batch, found.gemm.y.batch) == (((3, 8),), ((3, 6),))
    assert [found.buffer(name).elements for name in ("X", "Y")] == [3 * 4 * 8, 3 * 4 * 6]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (WITHIN.format(leading=17), "`LDC` must be at least 18: elements of Y overlap"),
        ("B = 2\nM = 4\nN = 6\nK = 8\nBatchStrideC = 0", "`BatchStrideC` must be at least 24: elements of Y overlap"),
        ("B = 2\nM = 4\nN = 6\nK = 8\nLDC = 5", "`LDC` must be at least 6: Y is B × M × N, layout row"),
    ],
)
def test_elements_of_the_result_do_not_overlap(shape: str, message: str, tmp_path: Path) -> None:
    text = TOP + BATCHED + "batch_strides = true\n" + INSTANCE + f"\n[[shape]]\n{shape}\n"
    assert [one.message for one in workspace(tmp_path, {"k.kernel.toml": text}).diagnostics] == [message]


def test_one_matrix_needs_no_stride(tmp_path: Path) -> None:
    found = problem(tmp_path, "batch_strides = true\n", "B = 1\nM = 4\nN = 6\nK = 8\nBatchStrideC = 0")
    assert found.buffer("Y").elements == 4 * 6


def test_special_sizes_are_right_and_have_each_stride(tmp_path: Path) -> None:
    operation = loaded(tmp_path, "batch_strides = true\nbias = { dtype = 'f32', full = true }\n").operation
    special_sizes = KINDS["batched_gemm"].special_sizes
    assert special_sizes is not None
    found = {name: with_defaults(operation, sizes) for name, sizes in special_sizes(operation, 4, 6, 8).items()}
    assert [list(wrong_sizes(operation, sizes)) for sizes in found.values()] == [[]] * len(found)
    assert [name for name in found if name.startswith("one ")] == [
        *("one matrix", "one X for all matrices", "one W for all matrices", "one Bias for all matrices"),
    ]
    within = found["matrices of W within each other"]
    assert (within["LDB"], within["BatchStrideB"]) == (3 * within["K"], within["K"])


SCALES = """scale_a = { per = "row", batched = true }
scale_b = { per = "row", batched = true }
"""


def test_each_matrix_can_have_scales_of_its_own(tmp_path: Path) -> None:
    found = problem(tmp_path, SCALES)
    sizes = {buffer.name: buffer.elements for buffer in found.buffers}
    assert (sizes["inv_scale_x"], sizes["inv_scale_w"]) == (3 * 4, 3 * 6)
    assert found.gemm is not None
    x, w = (step.operand for step in found.gemm.steps)
    assert x is not None
    assert w is not None
    assert (x.batch, x.rows, x.columns) == (((3, 4),), ((4, 1),), ((6, 0),))
    assert (w.batch, w.rows, w.columns) == (((3, 6),), ((4, 0),), ((6, 1),))


def test_scales_of_each_matrix_are_those_per_row(tmp_path: Path) -> None:
    text = TOP + BATCHED + SCALES.replace("row", "tensor") + INSTANCE
    found = workspace(tmp_path, {"k.kernel.toml": text}).diagnostics
    assert {one.code for one in found} == {"kernel-file/inconsistent-scale"}
