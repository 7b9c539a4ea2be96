"""`epilogue` of `[operation]`: its steps, the tensors and arguments that they bring, and what is wrong with a chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.exported.description import formula
from ckwatch.model.contractions import EpilogueStep
from ckwatch.model.kernels import Operation, Tensor
from ckwatch.workspace.operations import KINDS
from helpers.workspaces import INSTANCE, OPERATION, TOP, unmarked, workspace

SCALES = 'scale_a = { per = "row" }\nscale_b = { per = "row" }\n'
GATE = '[operation.operands.gate]\ndoes = "multiply"\nper = "element"\ndtype = "f16"\n'
CONVOLUTION = """
[operation]
kind = "grouped_convolution"
a = { dtype = "bf16" }
b = { dtype = "bf16" }
c = { dtype = "bf16" }
"""


def of_kind(kind: str, extra: str) -> str:
    return OPERATION.replace('kind = "gemm"', f'kind = "{kind}"') + extra


def read(root: Path, operation: str, shape: str = "") -> Operation:
    found = workspace(root, {"k.kernel.toml": TOP + operation + INSTANCE + shape})
    assert [one.message for one in found.diagnostics] == []
    return found.kernels[0].operation


def words(operation: Operation) -> list[str]:
    """Each step as `multiply by 2.0 W`, `add Bias`, `gelu`."""
    assert operation.contraction is not None
    found = []
    for step in operation.contraction.steps:
        factor = f" {step.factor}" if step.factor != 1 else ""
        operand = f" {step.operand.tensor}" if step.operand is not None else ""
        found.append(step.activation if step.kind == "activation" else step.kind + factor + operand)
    return found


def test_steps_in_their_order(tmp_path: Path) -> None:
    operation = read(tmp_path, OPERATION + 'epilogue = ["bias", "gelu", "residual"]\n')
    assert words(operation) == ["add Bias", "gelu", "add Residual"]
    assert dict(operation.inputs)["Bias"] == Tensor("Bias", "f16", "row", ("N",), ("1",), "Bias")
    assert operation.inputs[5:] == (
        ("Residual", Tensor("Residual", "f16", "row", ("M", "N"), ("LD_Residual", "1"), "Residual")),
    )
    assert operation.size_arguments == ("M", "N", "K", "LDA", "LDB", "LDC", "LDD", "LD_Residual")
    assert operation.size_defaults["LD_Residual"] == "N"
    assert operation.settings["epilogue"] == ("bias", "gelu", "residual")
    assert formula(operation) == "Y = gelu(X · W + Bias) + Residual"


def test_without_the_key_everything_is_as_it_was(tmp_path: Path) -> None:
    operation = read(tmp_path, OPERATION + SCALES + 'alpha = 0.5\nbias = { dtype = "f32" }\nactivation = "silu"\n')
    assert words(operation) == [
        "multiply inv_scale_x", "multiply inv_scale_w", "multiply 0.5", "add Bias", "silu"
    ]  # fmt: skip
    assert len(operation.inputs) == 5
    assert "epilogue" not in operation.settings


def test_scales_and_factors(tmp_path: Path) -> None:
    extra = SCALES + 'alpha = 0.5\nbeta = 2\nresidual = { factor = 3, dtype = "f32", layout = "col" }\n'
    operation = read(tmp_path, OPERATION + extra + 'epilogue = ["scale_b", "silu", "bias", "silu", "residual"]\n')
    assert words(operation) == [
        "multiply inv_scale_x", "multiply 0.5", "multiply inv_scale_w", "silu", "add 2.0 Bias", "silu", "add 3.0 Residual"
    ]  # fmt: skip
    assert operation.contraction is not None
    assert [step.scale for step in operation.contraction.steps[:3]] == [True, False, True]
    assert operation.inputs[5][1] == Tensor("Residual", "f32", "col", ("M", "N"), ("1", "LD_Residual"), "Residual")
    assert formula(operation).endswith(" + 2.0 * Bias) + 3.0 * Residual")


@pytest.mark.parametrize(
    ("per", "tensor", "strides"),
    [
        ("tensor", Tensor("gate", "f32", "row", ("1",), ("1",), "gate"), ("0", "0")),
        ("row", Tensor("gate", "f32", "col", ("M",), ("1",), "gate"), ("1", "0")),
        ("column", Tensor("gate", "f32", "row", ("N",), ("1",), "gate"), ("0", "1")),
        ("element", Tensor("gate", "f32", "row", ("M", "N"), ("LD_gate", "1"), "gate"), ("LD_gate", "1")),
    ],
)
def test_operands_of_ones_own(tmp_path: Path, per: str, tensor: Tensor, strides: tuple[str, str]) -> None:
    table = GATE.replace('"element"', f'"{per}"').replace('"f16"', '"f32"') + "factor = 0.5\n"
    operation = read(tmp_path, OPERATION + 'epilogue = ["relu", "gate"]\n' + table)
    assert operation.inputs[5:] == (("gate", tensor),)
    assert words(operation) == ["relu", "multiply 0.5 gate"]
    assert operation.contraction is not None
    operand = operation.contraction.steps[1].operand
    assert operand is not None
    assert (operand.rows, operand.columns) == ((("M", strides[0]),), (("N", strides[1]),))
    assert ("LD_gate" in operation.size_arguments) == (per == "element")


def test_a_residual_that_is_another_input(tmp_path: Path) -> None:
    operation = read(tmp_path, OPERATION + 'residual = { same_as = "a" }\nepilogue = ["residual"]\n')
    assert operation.inputs[5][1] == Tensor("Residual", "f16", "row", ("M", "N"), ("LD_Residual", "1"), "X")


def test_of_a_batch_each_has_a_matrix(tmp_path: Path) -> None:
    extra = of_kind("batched_gemm", 'epilogue = ["bias", "gate", "residual"]\n')
    operation = read(tmp_path / "packed", extra + GATE)
    assert operation.inputs[5][1] == Tensor(
        "gate", "f16", "row", ("B", "M", "N"), ("M * LD_gate", "LD_gate", "1"), "gate"
    )
    assert operation.size_arguments == ("B", "M", "N", "K", "LDA", "LDB", "LDC", "LDD", "LD_gate", "LD_Residual")
    operation = read(tmp_path / "strided", extra + "batch_strides = true\n" + GATE)
    assert operation.size_arguments[-6:] == (
        "BatchStrideA", "BatchStrideB", "BatchStrideC", "BatchStrideD", "BatchStride_gate", "BatchStride_Residual"
    )  # fmt: skip
    assert dict(operation.inputs)["Residual"] == Tensor(
        "Residual", "f16", "row", ("B", "M", "N"), ("BatchStride_Residual", "LD_Residual", "1"), "Residual"
    )
    kind = KINDS["batched_gemm"]
    assert kind.is_free_stride("BatchStride_gate")
    assert not kind.is_free_stride("LD_gate")
    assert "epilogue" in kind.shape_doc("LD_gate")
    assert kind.shape_doc("LD_gate") != kind.shape_doc("BatchStride_gate")
    assert kind.special_sizes is not None
    assert "one Residual for all matrices" in kind.special_sizes(operation, 4, 6, 8)


def test_one_residual_may_serve_a_batch(tmp_path: Path) -> None:
    extra = of_kind("batched_gemm", 'epilogue = ["residual"]\nbatch_strides = true\n')
    shape = "[[shape]]\nB = 3\nM = 8\nN = 8\nK = 8\nBatchStride_Residual = 0\nLD_Residual = 9\n"
    found = workspace(tmp_path, {"k.kernel.toml": TOP + extra + INSTANCE + shape})
    assert found.diagnostics == ()
    assert found.kernels[0].shapes[0].sizes["BatchStride_Residual"] == 0


def test_ck_tile_has_a_leading_dimension_for_what_chains_read(tmp_path: Path) -> None:
    operation = read(tmp_path, of_kind("ck_tile_gemm", 'epilogue = ["bias", "residual"]\n'))
    assert operation.size_arguments == ("M", "N", "K", "LDA", "LDB", "LDC", "LD_Residual")


def test_convolutions_have_channels(tmp_path: Path) -> None:
    table = '[operation.operands.scale]\ndoes = "multiply"\nper = "channel"\ndtype = "f32"\n'
    extra = 'epilogue = ["scale", "bias", "residual", "relu"]\nbeta = 2\n'
    operation = read(tmp_path, CONVOLUTION + extra + table)
    assert words(operation) == ["multiply scale", "add 2.0 Bias", "add Residual", "relu"]
    assert dict(operation.inputs)["Bias"] == Tensor("Bias", "bf16", "row", ("NOutChannels",), ("1",), "Bias")
    assert dict(operation.inputs)["scale"] == Tensor("scale", "f32", "row", ("NOutChannels",), ("1",), "scale")
    (_, result), residual = operation.outputs[0], dict(operation.inputs)["Residual"]
    assert residual is not None
    assert (residual.sizes, residual.strides, residual.layout) == (result.sizes, result.strides, result.layout)
    assert operation.contraction is not None
    y, steps = operation.contraction.y, operation.contraction.steps
    assert steps[2] == EpilogueStep(kind="add", operand=steps[2].operand)
    operand = steps[2].operand
    assert operand is not None
    assert (operand.batch, operand.rows, operand.columns) == (y.batch, y.rows, y.columns)
    assert operation.size_arguments == read(tmp_path / "plain", CONVOLUTION).size_arguments


def test_one_value_of_a_convolution(tmp_path: Path) -> None:
    table = '[operation.operands.shift]\ndoes = "add"\nper = "tensor"\ndtype = "f32"\n'
    operation = read(tmp_path, CONVOLUTION + 'epilogue = ["shift"]\n' + table)
    assert operation.contraction is not None
    operand = operation.contraction.steps[0].operand
    assert operand is not None
    assert {stride for _, stride in (*operand.batch, *operand.rows, *operand.columns)} == {"0"}


@pytest.mark.parametrize(
    ("extra", "code", "message"),
    [
        ('epilogue = ["bias", «"gleu"»]\n', "unknown-step", "did you mean `gelu`"),
        ('epilogue = [«"none"»]\n', "unknown-step", "not a step"),
        ('epilogue = [«"scale_a"»]\n', "inconsistent-epilogue", "[operation.scale_a]"),
        ('epilogue = ["bias", "relu", «"bias"»]\n', "inconsistent-epilogue", "used once"),
        ('«activation» = "gelu"\nepilogue = ["bias"]\n', "inconsistent-epilogue", "word of `epilogue`"),
        ('«bias» = { dtype = "f16" }\nepilogue = ["gelu"]\n', "inconsistent-epilogue", "add it to `epilogue`"),
        ('«residual» = { dtype = "f16" }\n', "inconsistent-epilogue", 'add `epilogue = ["residual"]`'),
        (
            'epilogue = ["relu"]\n[operation.operands.«gate»]\ndoes = "add"\nper = "row"\ndtype = "f16"\n',
            "inconsistent-epilogue",
            "add it to `epilogue`",
        ),
        (
            'epilogue = ["W"]\n[operation.operands.«W»]\ndoes = "add"\nper = "row"\ndtype = "f16"\n',
            "reserved-name",
            "call the operand differently",
        ),
        (
            'epilogue = ["gelu"]\n[operation.operands.«gelu»]\ndoes = "add"\nper = "row"\ndtype = "f16"\n',
            "reserved-name",
            "is a step itself",
        ),
    ],
)
def test_mistakes_are_marked_where_they_are(tmp_path: Path, extra: str, code: str, message: str) -> None:
    text, place = unmarked(TOP + OPERATION + extra + INSTANCE, str(tmp_path / "k.kernel.toml"))
    (found,) = workspace(tmp_path, {"k.kernel.toml": text}).diagnostics
    assert (found.code, found.span) == (f"kernel-file/{code}", place)
    assert message in found.message
