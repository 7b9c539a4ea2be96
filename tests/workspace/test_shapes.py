"""Shapes that a GEMM's edges are verified on."""

from __future__ import annotations

import pytest

from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Shape
from ckwatch.workspace.shapes import ragged_shapes
from gemm_case import GemmCase, GemmRun, Size
from units import place


def shape_of(case: GemmCase) -> Shape:
    arguments = GemmRun(case, Size(32, 32, 32), seed=1).arguments
    sizes = {name: value for name, value in arguments.items() if name != "kBatch"}
    return Shape("s", sizes, {"kBatch": 4}, place())


@pytest.mark.parametrize(
    "case",
    [
        GemmCase(),
        GemmCase(layouts="col col col"),
        GemmCase(bias="full row"),
        GemmCase(bias="row"),
        GemmCase(same_buffer=True),
    ],
)
def test_no_tile_divides_a_ragged_shape(case: GemmCase) -> None:
    operation = case.operation()
    shapes = ragged_shapes(operation, shape_of(case))
    for shape in shapes:
        problem = problem_of(operation, shape, "gfx942")
        assert problem.gemm is not None
        assert all(size % 32 for size in problem.gemm.y.sizes)
        assert {argument.name: argument.value for argument in problem.arguments}["kBatch"] == 4
        assert problem.bytes_moved == problem.bytes_allocated, "without gaps"
    assert all(size % 2 for size in (shapes[0].sizes[name] for name in "MNK"))
