"""Instances for other tensors than those of their operation: found before any compiler, at the parameter's value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ckwatch.checks.operands import operand_mismatches
from ckwatch.model.kernels import Operation
from ckwatch.workspace.operations.grouped_convolution import convolution_operation
from helpers.units import gemm, unit

LAYOUTS = {"X": "NHWGC", "W": "GKYXC", "Y": "NHWGK"}


def convolution() -> Operation:
    return convolution_operation(2, dict.fromkeys("XWY", "f16"), LAYOUTS, None, "f32", {"dimensions": 2})


def found(operation: Operation, **parameters: Any) -> list[tuple[str, str]]:
    made = unit("k.hip.j2", operation, **parameters)
    diagnostics = operand_mismatches(made, parameters).values()
    assert all(one.span in made.instance.spans.values() for one in diagnostics)
    return [(one.code.removeprefix("kernel-file/"), one.message.partition(": the")[0]) for one in diagnostics]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("a_element_dtype", "BF16", ("dtype-mismatch", "`a_element_dtype` is BF16, and X of the operation is F16")),
        ("ADataType", "ck::bhalf_t", ("dtype-mismatch", "`ADataType` is ck::bhalf_t, and X of the operation is F16")),
        ("datatype_b", "F8", ("dtype-mismatch", "`datatype_b` is F8, and W of the operation is F16")),
        ("c_element_dtype", "F32", ("dtype-mismatch", "`c_element_dtype` is F32, and Y of the operation is F16")),
        ("a_layout", "Col", ("layout-mismatch", "`a_layout` is Col, and X of the operation is Row")),
        ("BLayout", "Row", ("layout-mismatch", "`BLayout` is Row, and W of the operation is Col")),
        ("layout_c", "ColumnMajor", ("layout-mismatch", "`layout_c` is ColumnMajor, and Y of the operation is Row")),
    ],
)
def test_a_product(name: str, value: str, expected: tuple[str, str]) -> None:
    assert found(gemm(), **{name: value}) == [expected]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("a_layout", "NGCHW", ("layout-mismatch", "`a_layout` is NGCHW, and X of the operation is NHWGC")),
        ("BLayout", "GKCYX", ("layout-mismatch", "`BLayout` is GKCYX, and W of the operation is GKYXC")),
        ("e_layout", "NGKHW", ("layout-mismatch", "`e_layout` is NGKHW, and Y of the operation is NHWGK")),
        ("EDataType", "F32", ("dtype-mismatch", "`EDataType` is F32, and Y of the operation is F16")),
        ("n_dim_spatial", 3, ("dimension-mismatch", "`n_dim_spatial` is 3, and the operation has 2 dimensions")),
        ("NDimSpatial", 1, ("dimension-mismatch", "`NDimSpatial` is 1, and the operation has 2 dimensions")),
    ],
)
def test_a_convolution(name: str, value: Any, expected: tuple[str, str]) -> None:
    assert found(convolution(), **{name: value}) == [expected]


@pytest.mark.parametrize(
    "parameters",
    [
        {"a_layout": "Row", "b_layout": "Col", "c_layout": "Row", "a_element_dtype": "F16", "CDataType": "half_t"},
        {"a_layout": "MyLayout", "a_element_dtype": "my_type", "ADataType": 16},
        {"c_shuffle_dtype": "F32", "acc_dtype": "F32", "ds_layouts": ("Col",), "a_compute_dtype": "F8"},
        {"n_dim_spatial": 2},
    ],
)
def test_what_fits_and_what_is_not_known(parameters: dict[str, Any]) -> None:
    assert found(gemm(), **parameters) == []


def test_a_convolution_that_fits() -> None:
    layouts = {"a_layout": "NHWGC", "b_layout": "GKYXC", "e_layout": "NHWGK", "n_dim_spatial": 2}
    assert found(convolution(), **layouts, e_element_dtype="F16") == []


def test_an_operation_of_which_nothing_is_known_says_nothing() -> None:
    assert found(replace(gemm(), kind="custom", computation=None), a_layout="Col") == []


def test_parameters_that_no_template_reads_are_another_mistake() -> None:
    assert operand_mismatches(unit("k.hip.j2", a_layout="Col"), {"MPerBlock"}) == {}
