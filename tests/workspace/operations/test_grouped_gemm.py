"""Groups of rows with a W each: their tensors, what is computed, and the sizes to verify on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Kernel, ParameterValue, Shape
from ckwatch.model.text import span
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.operations.grouped_gemm import verified_sizes
from ckwatch.workspace.shapes import with_defaults
from helpers.workspaces import INSTANCE, OPERATION, TOP, workspace

GROUPED = OPERATION.replace('"gemm"', '"grouped_gemm"')
TILE: dict[str, ParameterValue] = {
    "TileM": 64, "TileN": 64, "TileK": 32, "WarpM": 2, "WarpN": 2, "WarpK": 1,
    "WarpTileM": 32, "WarpTileN": 32, "WarpTileK": 16, "kPadM": True, "kPadN": True, "kPadK": True,
    "Pipeline": "CompV3", "Scheduler": "Intrawave", "Epilogue": "CShuffle",
}  # fmt: skip


def loaded(root: Path, more: str = "", shape: str = "G = 3\nM = 7\nN = 6\nK = 8", operation: str = GROUPED) -> Kernel:
    found = workspace(root, {"k.kernel.toml": TOP + operation + more + INSTANCE + f"\n[[shape]]\n{shape}\n"})
    assert found.diagnostics == ()
    return found.kernels[0]


def test_the_matrices_of_groups_lie_behind_one_another(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, "bias = { dtype = 'f32' }\nactivation = 'silu'\n")
    assert kernel.operation.size_arguments == ("G", "M", "N", "K", "LDA", "LDB", "LDC")
    assert kernel.operation.runtime_arguments == ()
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    sizes = {buffer.name: buffer.elements for buffer in found.buffers}
    assert sizes == {"X": 7 * 8, "W": 3 * 6 * 8, "Offsets": 3, "Bias": 3 * 6, "Y": 7 * 6}
    assert found.flops == 2 * 7 * 6 * 8
    assert found.rows is not None
    assert (found.rows.reference, found.rows.depth) == ("grouped_gemm", 8 + 2 + 16)
    assert [(step.kind, step.operand, step.activation) for step in found.rows.steps] == [
        ("add", "bias", "none"),
        ("activation", None, "silu"),
    ]
    assert found.rows.view("w").strides == (48, 1, 8)


CHAIN = """
epilogue = ["bias", "silu", "gate", "factor", "residual"]
alpha = 2.0
[operation.residual]
factor = 0.5
[operation.operands.gate]
does = "multiply"
per = "element"
dtype = "f16"
layout = "col"
[operation.operands.factor]
does = "multiply"
per = "column"
dtype = "f32"
"""


def test_a_chain_has_operands_of_all_rows_and_of_each_group(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, CHAIN, "G = 3\nM = 7\nN = 6\nK = 8\nLD_Residual = 9")
    assert kernel.operation.size_arguments[-2:] == ("LD_gate", "LD_Residual")
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    names = ("Bias", "gate", "factor", "Residual")
    assert [found.buffer(name).elements for name in names] == [18, 42, 18, 6 * 9 + 6]
    assert [argument.name for argument in found.arguments][:7] == ["X", "W", "Offsets", *names]
    assert found.rows is not None
    assert [(step.kind, step.operand, step.factor) for step in found.rows.steps] == [
        ("multiply", None, 2.0),
        ("add", "bias", 1.0),
        ("activation", None, 1.0),
        ("multiply", "operand_gate", 1.0),
        ("multiply", "operand_factor", 1.0),
        ("add", "operand_Residual", 0.5),
    ]
    per = {"bias": "column", "operand_gate": "element", "operand_factor": "column", "operand_Residual": "element"}
    assert dict(dict(found.rows.options)["per"]) == per  # type: ignore[arg-type]  # pairs


def test_gaps_in_w_move_the_next_group(tmp_path: Path) -> None:
    row = GROUPED.replace('layout = "col"', 'layout = "row"')
    kernel = loaded(tmp_path, "", "G = 3\nM = 7\nN = 6\nK = 8\nLDB = 10", row)
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert found.rows is not None
    assert found.rows.view("w").strides == (80, 10, 1)
    assert found.buffer("W").elements == 2 * 80 + 7 * 10 + 6


@pytest.mark.parametrize(("per", "sizes"), [("row", (7, 18)), ("tensor", (1, 1))])
def test_scales(tmp_path: Path, per: str, sizes: tuple[int, int]) -> None:
    kernel = loaded(tmp_path, f"scale_a = {{ per = '{per}' }}\nscale_b = {{ per = '{per}' }}\n")
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert tuple(found.buffer(name).elements for name in ("inv_scale_x", "inv_scale_w")) == sizes
    assert found.buffer("inv_scale_x").scale


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('a = { dtype = "f16", layout = "row" }', 'a = { dtype = "f16", layout = "col" }', "dimension-mismatch"),
        ('c = { dtype = "f16", layout = "row" }', 'c = { dtype = "f16", layout = "col" }', "dimension-mismatch"),
        ('b = { dtype = "f16", layout = "col" }', 'b = { same_as = "a" }', "dimension-mismatch"),
        ('b = { dtype = "f16", layout = "col" }', "b = {}", "missing-key"),
        ("[operation]\n", "[operation]\nscale_a = {}\n", "inconsistent-scale"),
        ("[operation]\n", "[operation]\nsplit_k = true\n", "unknown-key"),
        ("[operation]\n", "[operation]\nepilogue = ['gat']\n", "unknown-step"),
        ("[operation]\n", "[operation]\nepilogue = ['residual']\nresidual = { same_as = 'a' }\n", "dimension-mismatch"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, code: str) -> None:
    assert old in GROUPED
    found = workspace(tmp_path, {"k.kernel.toml": TOP + GROUPED.replace(old, new) + INSTANCE})
    assert [one.code for one in found.diagnostics] == [f"kernel-file/{code}"]


def test_there_are_enough_problems_to_verify_on(tmp_path: Path) -> None:
    operation = loaded(tmp_path).operation
    assert KINDS["grouped_gemm"].verified_sizes is verified_sizes
    found = verified_sizes(operation, TILE)
    shapes = {
        name: Shape(name, with_defaults(operation, sizes), {}, span("k.kernel.toml", 0, 0, 0, 1))
        for name, sizes in found.items()
    }
    problems = {name: problem_of(operation, shape, "gfx942") for name, shape in shapes.items()}
    assert all((problem.flops or 0) // 2 <= 1 << 24 for problem in problems.values())
    refused = [name for name, problem in problems.items() if unsupported_reason(TILE, problem)]
    assert refused == ["odd sizes"]
    assert len(problems) >= 20
    assert {"G": 65, "M": 199, "N": 32, "K": 32} in found.values()


def test_any_tile_has_sizes(tmp_path: Path) -> None:
    operation = loaded(tmp_path).operation
    for parameters in ({}, {**TILE, "TileM": 16, "TileN": 16, "TileK": 16}, {**TILE, "TileM": 256, "TileN": 256}):
        assert all(size >= 1 for sizes in verified_sizes(operation, parameters).values() for size in sizes.values())
