"""Scales per block: their tensors, what they are multiplied with, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.kernel_problem import problem_of
from ckwatch.workspace.operations.block_scales import scale_axes
from helpers.workspaces import INSTANCE, OPERATION, TOP, workspace

SHAPE = "\n[[shape]]\nM = 5\nN = 6\nK = 10\n"


def scaled(a: str = "[1, 4]", b: str = "[4, 3]", more: str = "") -> str:
    scales = (f'scale_{name} = {{ per = "block", block = {block} }}\n' for name, block in (("a", a), ("b", b)))
    return TOP + OPERATION + "".join(scales) + more + INSTANCE + SHAPE


def test_a_scale_has_a_value_for_each_block_and_lies_as_its_matrix(tmp_path: Path) -> None:
    (kernel,) = workspace(tmp_path, {"k.kernel.toml": scaled()}).kernels
    operation = kernel.operation
    assert operation.settings["scaling"] == "block"
    assert operation.settings["scale_block"] == (1, 3, 4)
    problem = problem_of(operation, kernel.shapes[0], "gfx942")
    assert {buffer.name: buffer.elements for buffer in problem.buffers if "scale" in buffer.name} == {
        "inv_scale_x": 5 * 3,
        "inv_scale_w": 3 * 2,
    }
    assert all(buffer.scale for buffer in problem.buffers if "scale" in buffer.name)
    gemm = problem.gemm
    assert gemm is not None
    assert gemm.x_scale is not None
    assert gemm.w_scale is not None
    assert (gemm.x_scale.rows, gemm.x_scale.columns) == (((5, 3),), ((3, 1), (4, 0)))
    assert (gemm.w_scale.rows, gemm.w_scale.columns) == (((3, 1), (4, 0)), ((2, 3), (3, 0)))
    assert gemm.steps == ()


def test_the_epilogue_has_its_own_steps(tmp_path: Path) -> None:
    more = 'alpha = 2.0\nbias = { dtype = "f32" }\nactivation = "relu"\n'
    (kernel,) = workspace(tmp_path, {"k.kernel.toml": scaled(more=more)}).kernels
    assert kernel.operation.contraction is not None
    assert [step.kind for step in kernel.operation.contraction.steps] == ["multiply", "add", "activation"]
    assert kernel.operation.contraction.scales == ("inv_scale_x", "inv_scale_w")


def test_a_scale_that_is_none_of_a_block_has_no_axes() -> None:
    assert scale_axes(None, {"scale_block": (1, 3, 4)}, ()) is None


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            scaled(b="[8, 3]"),
            "inconsistent-scale",
            "must be equally deep: those of X have 4 columns, those of W 8 rows",
        ),
        (scaled(a="[4]"), "inconsistent-scale", "must be two sizes"),
        (scaled(a="[0, 4]"), "out-of-range", "block"),
        (scaled().replace(", block = [1, 4]", ""), "missing-key", "`scale_a` is per block: say which"),
        (scaled().replace('"block"', '"row"'), "inconsistent-scale", "`block` of scale_a means nothing"),
        (scaled().replace('"block"', '"row"', 1), "inconsistent-scale", "they must be equal"),
        (scaled().replace('"block"', '"blocks"'), "unknown-scaling", "blocks"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, code: str, words: str) -> None:
    found = workspace(tmp_path, {"k.kernel.toml": text}).diagnostics
    assert any(one.code == f"kernel-file/{code}" and words in one.message for one in found), found
