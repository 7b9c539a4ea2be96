"""Norms of rows: their tensors, what is computed, and the sizes to verify on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.normalization_case import EVERYTHING, kernel_file, unit_of
from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue, Shape
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.shapes import with_defaults

SHAPE = "M = 7\nN = 24\nx_stride = 32"


def test_the_least(tmp_path: Path) -> None:
    kernel = unit_of(tmp_path, "rms", "", SHAPE).kernel
    assert kernel.operation.size_arguments == ("M", "N", "x_stride", "y_stride")
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert {one.name: one.elements for one in found.buffers} == {"X": 6 * 32 + 24, "Gamma": 24, "Y": 7 * 24}
    assert found.rows is not None
    assert (found.rows.reference, found.rows.depth) == ("normalization", 24)
    assert found.flops == 2 * 2 * 7 * 24


@pytest.mark.parametrize(
    ("norm", "names"),
    [
        ("rms", "X Residual Gamma SmoothScale Y ResidualOut YScale YUnquantized InvRms"),
        ("layer", "X Residual XBias Gamma Beta SmoothScale Y ResidualOut YScale Mean InvStd"),
    ],
)
def test_everything(tmp_path: Path, norm: str, names: str) -> None:
    kernel = unit_of(tmp_path, norm, EVERYTHING[norm], SHAPE).kernel
    assert kernel.operation.size_arguments == ("M", "N", "x_stride", "xr_stride", "y_stride", "yr_stride")
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert " ".join(one.name for one in found.buffers) == names
    assert {one.name for one in found.buffers if one.scale} == {"SmoothScale"}
    assert found.buffer("YScale").elements == 7
    assert found.rows is not None
    assert found.rows.view("y_scale").sizes == (7, 1)


def test_a_sum_that_is_not_written(tmp_path: Path) -> None:
    operation = unit_of(tmp_path, "layer", "residual = true\nstore_residual = false\n").kernel.operation
    assert [name for name, _ in operation.outputs] == ["Y"]
    assert operation.settings["store_residual"] is False


@pytest.mark.parametrize(
    ("norm", "more", "message"),
    [
        ("rms", "bias = true\n", '`bias` is of norm = "layer": Composable Kernel\'s RMSNorm has none'),
        (
            "rms",
            "store_residual = false\n",
            "`store_residual` is about the sum with a residual: write `residual = true`",
        ),
        ("rms", 'quantize = { dtype = "f16" }\n', "Y is quantised to i8 or f8, not to f16"),
        ("layer", 'quantize = { dtype = "i8", keep = true }\n', "Composable Kernel's LayerNorm writes Y once"),
        ("rms", "epsilon = 0.0\n", "`epsilon`"),
    ],
)
def test_mistakes(tmp_path: Path, norm: str, more: str, message: str) -> None:
    (tmp_path / "ckwatch.toml").write_text("")
    (tmp_path / "norm.kernel.toml").write_text(kernel_file(norm, more))
    (found,) = load_workspace(tmp_path).diagnostics
    assert message in found.message


@pytest.mark.parametrize("dtype", ["f32", "f8"])
def test_types_that_composable_kernel_lacks(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "ckwatch.toml").write_text("")
    (tmp_path / "norm.kernel.toml").write_text(kernel_file("rms").replace('"f16"', f'"{dtype}"'))
    (found,) = load_workspace(tmp_path).diagnostics
    assert found.message == f"normalization has X in f16 or bf16, not in {dtype}"


def test_an_unknown_norm(tmp_path: Path) -> None:
    (tmp_path / "ckwatch.toml").write_text("")
    (tmp_path / "norm.kernel.toml").write_text(kernel_file("rms").replace('norm = "rms"', 'norm = "group"'))
    (found,) = load_workspace(tmp_path).diagnostics
    assert found.message == "unknown norm `group`; known: rms, layer"


def test_rows_do_not_overlap(tmp_path: Path) -> None:
    (tmp_path / "ckwatch.toml").write_text("")
    (tmp_path / "norm.kernel.toml").write_text(kernel_file("rms", shape="M = 2\nN = 8\ny_stride = 7"))
    (found,) = load_workspace(tmp_path).diagnostics
    assert (found.code, found.message) == (
        "kernel-file/out-of-range",
        "`y_stride` must be at least 8: Y is M × N, layout row",
    )


INSTANCES: list[dict[str, ParameterValue]] = [
    {},
    {"Vector_N": 1},
    {"kTwoPass": True},
    {"kPadN": False},
    {"ThreadPerBlock_M": 1, "ThreadPerBlock_N": 256, "Repeat_N": 1, "Vector_N": 8},
    {"ThreadPerBlock_M": 64, "ThreadPerBlock_N": 4, "Repeat_N": 1, "Vector_N": 1},
]


@pytest.mark.parametrize("parameters", INSTANCES)
def test_what_is_verified_is_supported_and_varied(tmp_path: Path, parameters: dict[str, ParameterValue]) -> None:
    unit = unit_of(tmp_path, "rms", **parameters)
    verified_sizes = KINDS["normalization"].verified_sizes
    assert verified_sizes is not None
    found = verified_sizes(unit.kernel.operation, unit.instance.parameters)
    columns = set()
    for name, sizes in found.items():
        shape = Shape(name, with_defaults(unit.kernel.operation, sizes), {}, unit.instance.span)
        problem = problem_of(unit.kernel.operation, shape, "gfx942")
        assert unsupported_reason(unit.instance.parameters, problem) == ""
        columns.add(sizes["N"])
    if parameters.get("kPadN") is not False:
        assert len(found) >= 12
        assert len(columns) >= 4
    if parameters.get("Vector_N") == 1:
        assert any(size % 2 for size in columns)
