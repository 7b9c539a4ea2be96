"""The GEMM of CK Tile: the arguments of its C function, and which Bias it has."""

from __future__ import annotations

from pathlib import Path

from ckwatch.model.kernel_problem import problem_of
from helpers.workspaces import INSTANCE, OPERATION, TOP, unmarked, workspace

TILE = OPERATION.replace('"gemm"', '"ck_tile_gemm"')
SHAPE = "\n[[shape]]\nM = 4\nN = 6\nK = 8\n"


def test_there_is_no_leading_dimension_of_a_bias(tmp_path: Path) -> None:
    found = workspace(tmp_path, {"k.kernel.toml": TOP + TILE + "bias = { dtype = 'f32' }\n" + INSTANCE + SHAPE})
    assert found.diagnostics == ()
    (kernel,) = found.kernels
    problem = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    names = [argument.name for argument in problem.arguments]
    assert names == ["X", "W", "Bias", "Y", "M", "N", "K", "LDA", "LDB", "LDC", "kBatch"]
    assert problem.flops == 2 * 4 * 6 * 8
    assert problem.gemm is not None
    assert [step.kind for step in problem.gemm.steps] == ["add"]


def test_a_full_bias_is_refused_at_its_place(tmp_path: Path) -> None:
    bias = 'bias = { dtype = "f16", full = «true» }\n'
    text, place = unmarked(TOP + TILE + bias + INSTANCE, str(tmp_path / "k.kernel.toml"))
    (found,) = workspace(tmp_path, {"k.kernel.toml": text}).diagnostics
    assert (found.span, found.code) == (place, "kernel-file/dimension-mismatch")
    assert found.message.endswith('use kind = "gemm"')


def test_a_shape_may_not_have_it_either(tmp_path: Path) -> None:
    (found,) = workspace(tmp_path, {"k.kernel.toml": TOP + TILE + INSTANCE + SHAPE + "LDD = 6\n"}).diagnostics
    assert "`LDD`" in found.message
