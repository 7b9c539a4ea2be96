"""From an operation and a shape to the kernel's call."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from cases.gemm_case import GemmCase
from ckwatch.model.contractions import EpilogueStep, matrix_view
from ckwatch.model.kernel_problem import TensorView, dense_runs, distinct_elements, is_fnuz, problem_of
from ckwatch.model.kernels import Operation, Shape, is_integers
from ckwatch.render.hooks import KernelHooks
from helpers.units import gemm, place, tensor


def shape(m: int = 4, n: int = 6, k: int = 8, **changes: int) -> Shape:
    """Leading dimensions are those of a row / col / row GEMM without gaps where they are not given."""
    sizes = {"M": m, "N": n, "K": k, "LDA": k, "LDB": k, "LDC": n, "LDD": 0} | changes
    runtime: dict[str, int | float] = {"kBatch": sizes.pop("kBatch", 1)}
    return Shape("s", sizes, runtime, place())


CASES = {
    "plain": GemmCase(),
    "bias": GemmCase(bias="row", activation="relu", alpha=2.0, beta=0.5),
    "everything": GemmCase(a="f8", b="bf8", c="bf16", bias="full col", scale_a="row", scale_b="row"),
    "reordered": GemmCase(bias="row", scale_a="tensor", scale_b="tensor", input_reorder=(4, 1, 0, 2, 3)),
    "one buffer": GemmCase(layouts="row row row", same_buffer=True),
    "one buffer, W first": GemmCase(layouts="row row row", same_buffer=True, input_reorder=(1, 0, 2, 3, 4)),
    "i8": GemmCase(a="i8", b="i8", c="i32", accumulator="i32"),
}


@pytest.mark.parametrize("name", CASES)
def test_arguments_are_those_of_the_declared_function(name: str) -> None:
    operation = CASES[name].operation()
    hooks = KernelHooks(operation, {}, "hip", str)
    order = operation.settings.get("input_reorder")
    declared = hooks.def_kernel(
        [tensor for _, tensor in operation.inputs],
        [tensor for _, tensor in operation.outputs],
        input_reorder=order if is_integers(order) else None,
    )
    problem = problem_of(operation, shape(8, 8, 8, LDD=8), "gfx942")
    ours = [f"{argument.c_type} {argument.name}" for argument in problem.arguments]
    inner = re.search(r"\((.*)\)", declared)
    assert inner is not None
    assert ours == inner[1].split(", ")[:-3]


def test_sizes_and_runtime_arguments_have_their_values() -> None:
    problem = problem_of(gemm(runtime_types={"kBatch": "int64_t"}), shape(4, 6, 8, LDA=12, kBatch=3), "gfx942")
    values = {argument.name: (argument.c_type, argument.value) for argument in problem.arguments if not argument.buffer}
    assert values == {
        "M": ("int32_t", 4),
        "N": ("int32_t", 6),
        "K": ("int32_t", 8),
        "LDA": ("int32_t", 12),
        "LDB": ("int32_t", 8),
        "LDC": ("int32_t", 6),
        "LDD": ("int32_t", 0),
        "kBatch": ("int64_t", 3),
    }


def test_buffers_reach_from_the_first_element_to_the_last() -> None:
    problem = problem_of(gemm(), shape(4, 6, 8, LDA=10, LDB=16, LDC=7), "gfx942")
    assert [(buffer.name, buffer.dtype, buffer.elements, buffer.output) for buffer in problem.buffers] == [
        ("X", "f16", 3 * 10 + 8, False),
        ("W", "f16", 5 * 16 + 8, False),
        ("Y", "f16", 3 * 7 + 6, True),
    ]
    assert problem.flops == 2 * 4 * 6 * 8
    assert problem.bytes_moved == 2 * (4 * 8 + 8 * 6 + 4 * 6)
    assert problem.intensity == problem.flops / problem.bytes_moved
    assert replace(problem, flops=None).intensity is None


def test_a_gemm_s_operands_are_views_of_its_shape() -> None:
    case = GemmCase(layouts="col row col", bias="row", scale_a="row", scale_b="tensor", activation="gelu", alpha=0.5)
    found = problem_of(case.operation(), shape(4, 6, 8, LDA=4, LDB=6, LDC=5), "gfx942").gemm
    assert found is not None
    assert found.x == matrix_view("X", (4, 8), (1, 4))
    assert found.w == matrix_view("W", (8, 6), (6, 1))
    assert found.y == matrix_view("Y", (4, 6), (1, 5))
    assert found.steps == (
        EpilogueStep(kind="multiply", operand=matrix_view("inv_scale_x", (4, 6), (1, 0)), scale=True),
        EpilogueStep(kind="multiply", operand=matrix_view("inv_scale_w", (4, 6), (0, 0)), scale=True),
        EpilogueStep(kind="multiply", factor=0.5),
        EpilogueStep(kind="add", operand=matrix_view("Bias", (4, 6), (0, 1))),
        EpilogueStep(kind="activation", activation="gelu"),
    )
    assert (found.accumulator, found.fnuz) == ("f32", True)


@pytest.mark.parametrize(
    ("bias", "leading", "strides", "elements"),
    [
        ("row", 0, (0, 1), 6),
        ("col", 0, (1, 0), 4),
        ("full row", 7, (7, 1), 3 * 7 + 6),
        ("full col", 5, (1, 5), 5 * 5 + 4),
        ("full row", 0, (0, 1), 6),
        ("full col", 0, (1, 0), 4),
    ],
)
def test_biases(bias: str, leading: int, strides: tuple[int, int], elements: int) -> None:
    problem = problem_of(GemmCase(bias=bias).operation(), shape(4, 6, 8, LDD=leading), "gfx942")
    assert problem.gemm is not None
    assert problem.gemm.steps == (EpilogueStep(kind="add", operand=matrix_view("Bias", (4, 6), strides)),)
    assert problem.buffer("Bias").elements == elements


def test_a_buffer_that_is_given_twice_is_counted_once() -> None:
    case = GemmCase(layouts="row col row", same_buffer=True)
    problem = problem_of(case.operation(), shape(4, 4, 8), "gfx942")
    assert [buffer.name for buffer in problem.buffers] == ["X", "Y"]
    assert problem.bytes_moved == 2 * (4 * 8 + 4 * 4)


def test_of_a_custom_operation_only_the_call_is_known() -> None:
    operation = Operation(
        kind="custom",
        inputs=(("In", tensor("In", "f32", sizes=("B", "2 * C"), strides=("2 * C", "1"))), ("None", None)),
        outputs=(("Out", tensor("Out", "f32", sizes=("B",), strides=("1",))),),
        accumulator="f32",
        size_arguments=("B", "C"),
        runtime_arguments=("scale", "fast"),
        runtime_types={"scale": "float", "fast": "bool"},
    )
    problem = problem_of(operation, Shape("s", {"B": 3, "C": 5}, {"scale": 0.5, "fast": True}, place()), "sm_90")
    assert (problem.gemm, problem.flops) == (None, None)
    assert [(argument.c_type, argument.value) for argument in problem.arguments] == [
        ("const float*", None),
        ("float*", None),
        ("int32_t", 3),
        ("int32_t", 5),
        ("float", 0.5),
        ("bool", True),
    ]
    assert problem.bytes_moved == 4 * (3 * 10 + 3)


@pytest.mark.parametrize(
    ("sizes", "strides", "runs"),
    [
        ((4, 8), (8, 1), ((1, 32),)),
        ((8, 4), (1, 8), ((1, 32),)),
        ((4, 8), (10, 1), ((1, 8), (10, 4))),
        ((4, 8), (0, 1), ((1, 8),)),
        ((1, 8), (99, 1), ((1, 8),)),
        ((1,), (1,), ()),
        ((2, 3, 4), (12, 4, 1), ((1, 24),)),
    ],
)
def test_dense_runs(sizes: tuple[int, ...], strides: tuple[int, ...], runs: Any) -> None:
    assert dense_runs(TensorView(buffer="X", sizes=sizes, strides=strides)) == runs


@pytest.mark.parametrize(
    ("views", "elements", "count"),
    [
        ([((4, 8), (10, 1))], 38, 32),
        ([((4, 8), (8, 1)), ((8, 4), (4, 1))], 32, 32),
        ([((3, 4), (1, 1))], 6, 6),
        ([((4, 8), (10, 1)), ((4,), (1,))], 38, 36),
        ([((4, 8), (8, 1)), ((4,), (1,))], 32, 32),
    ],
)
def test_distinct_elements(views: Any, elements: int, count: int) -> None:
    found = [TensorView(buffer="X", sizes=sizes, strides=strides) for sizes, strides in views]
    assert distinct_elements(elements, found) == count


@pytest.mark.parametrize(("arch", "fnuz"), [("gfx942", True), ("gfx90a:sramecc+:xnack-", True), ("gfx950", False), ("sm_90", False), ("x86-64", False)])  # fmt: skip
def test_fnuz(arch: str, fnuz: bool) -> None:
    assert is_fnuz(arch) is fnuz


def test_a_shape_without_size_is_refused() -> None:
    with pytest.raises(ValueError, match="X has no size here"):
        problem_of(gemm(), shape(0, 6, 8), "gfx942")
