"""Inputs of a standalone runner: options with their defaults, tensors, and the numbers of its tolerance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases.gemm_case import GemmCase
from cases.given_runner_case import given_unit
from ckwatch.bench.numerics.tolerance import tolerance_of
from ckwatch.engine.queries.runner import runner_unit
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue, Shape, Unit
from references.naive_kernels import BATCHED_GEMM, CONVOLUTION, naive_unit


def parameters(unit: Unit) -> dict[str, ParameterValue]:
    return dict(runner_unit(unit, "symbol").instance.parameters)


def defaults(unit: Unit) -> dict[str, ParameterValue]:
    operation, values = unit.kernel.operation, parameters(unit)["defaults"]
    assert isinstance(values, tuple)
    return dict(zip((*operation.size_arguments, *operation.runtime_arguments), values, strict=True))


def test_defaults_are_those_of_the_first_shape(tmp_path: Path) -> None:
    batched = naive_unit(tmp_path, BATCHED_GEMM + "LDA = 40\nBatchStrideA = 800\nBatchStrideB = 0\nkBatch = 2\n")
    assert defaults(batched) == {
        "B": 3, "M": 20, "N": 17, "K": 33, "LDA": 40, "LDB": -1, "LDC": -1, "LDD": -1, "BatchStrideA": -1,
        "BatchStrideB": 0, "BatchStrideC": -1, "BatchStrideD": -1, "kBatch": 2,
    }  # fmt: skip


def test_sizes_that_differ_from_the_usual_ones_are_defaults(tmp_path: Path) -> None:
    found = defaults(naive_unit(tmp_path, CONVOLUTION))
    assert [found[f"{name}_{axis}"] for name in ("ConvolutionStrides", "LeftPads") for axis in (0, 1)] == [-1, 2, 2, -1]
    assert "kBatch" not in found


def test_without_shapes_sizes_are_usual_ones(tmp_path: Path) -> None:
    unit = GemmCase().unit("cpp/gemm_blocked.cpp.j2", {})
    assert list(defaults(unit).values()) == [1024, 1024, 1024, -1, -1, -1, -1, 1]
    unit = naive_unit(tmp_path, CONVOLUTION[: CONVOLUTION.index("[[shape]]")])
    assert defaults(unit)["NInChannels"] == 2048


def test_arguments_and_buffers() -> None:
    case = GemmCase(bias="row", scale_a="row", scale_b="row", input_reorder=(4, 0, 1, 2, 3), same_buffer=True)
    found = parameters(case.unit("cpp/gemm_blocked.cpp.j2", {}))
    assert found["pointers"] == ("Bias", "X", "inv_scale_x", "inv_scale_w", "Y")
    assert found["buffers"] == ("X", "inv_scale_x", "inv_scale_w", "Bias", "Y")
    assert found["scales"] == ("inv_scale_x", "inv_scale_w")
    assert found["least"] == (1, 1, 1, 0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("case", "lowest", "highest", "infinite_beyond"),
    [
        (GemmCase(bias="row", activation="gelu"), "-INFINITY", "INFINITY", "65504.0"),
        (GemmCase("f8", "bf16", "f8"), "-240.0", "240.0", "INFINITY"),
        (GemmCase("i8", "i8", "i8", accumulator="i32", alpha=0.5), "-128.0", "127.0", "INFINITY"),
        (GemmCase("i8", "i8", "i32", accumulator="i32"), "-2147483648.0", "2147483647.0", "INFINITY"),
    ],
)
def test_the_tolerance_is_that_of_timings(case: GemmCase, lowest: str, highest: str, infinite_beyond: str) -> None:
    unit = case.unit("cpp/gemm_blocked.cpp.j2", {})
    found = parameters(unit)
    assert (found["lowest_output"], found["highest_output"]) == (lowest, highest)
    assert found["infinite_beyond"] == infinite_beyond
    sizes = dict.fromkeys(unit.kernel.operation.size_arguments, 64)
    shape = Shape("", sizes, {"kBatch": 1}, unit.instance.span)
    tolerance = tolerance_of(problem_of(unit.kernel.operation, shape, unit.arch))
    assert float(str(found["tolerance_floor"])) == tolerance.floor
    accumulator, compute, output, epilogue, roundings = (
        int(str(found[name]))
        for name in (
            "mantissa_accumulator", "mantissa_compute", "mantissa_output", "mantissa_epilogue", "epilogue_roundings",
        )
    )  # fmt: skip
    half_ulp = {bits: 0.5 * 2.0**-bits if bits else 0.0 for bits in (accumulator, compute, output, epilogue)}
    products = half_ulp[accumulator] * 64 + half_ulp[accumulator or epilogue] * roundings
    assert max(products, half_ulp[compute] if output else 0.0, half_ulp[output]) == tolerance.relative


def test_operations_and_languages_without_a_runner() -> None:
    unit = GemmCase().unit("cutlass/gemm_universal.cu.j2", {})
    with pytest.raises(CkwatchError, match=r"is a \.cu template: there is no standalone runner for it"):
        runner_unit(unit, "symbol")
    operation = replace(unit.kernel.operation, kind="custom", computation=None)
    with pytest.raises(CkwatchError, match="'kernel' is a custom operation: what it computes is not known"):
        runner_unit(replace(unit, kernel=replace(unit.kernel, operation=operation)), "symbol")


def test_the_buffers_of_a_reference_in_python(tmp_path: Path) -> None:
    unit = given_unit(tmp_path)
    assert parameters(unit) == {
        "symbol": "symbol",
        "reference": "reference.py:rows",
        "buffers": ("X", "Index", "Y", "Sum", "Count"),
        "dtypes": ("f32", "u32", "f32", "f32", "u64"),
        "written": ("Y", "Sum", "Count"),
        "pointers": ("X", "Index", "Y", "Sum", "Count"),
        "pointed_to": ("X", "Index", "Y", "Sum", "Count"),
    }
    with pytest.raises(CkwatchError, match="'k' has no shape for its runner"):
        runner_unit(replace(unit, kernel=replace(unit.kernel, shapes=())), "symbol")
