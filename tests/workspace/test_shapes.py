"""Shapes that are named, and those that a GEMM's edges are verified on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cases.gemm_case import GemmCase, GemmRun, Size
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Kernel, Shape
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.shapes import alternative_shapes, find_shape, find_shapes, ragged_shapes
from helpers.each_row import each_row
from helpers.units import place


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


EXAMPLES = Path(__file__).parents[2] / "examples"


def kernel_of(example: str, name: str) -> Kernel:
    return next(kernel for kernel in load_workspace(EXAMPLES / example).kernels if kernel.name == name)


GEMM = kernel_of("cpp", "gemm_bf16_split_k")
CUSTOM = """
template = "t.hip.j2"
[operation]
kind = "custom"
sizes = ["N"]
runtime = { scale = "float", turns = "int32_t" }
[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["N"]
[[shape]]
N = 64
scale = 2.5
turns = 3
[[instance]]
name = "a"
"""


@pytest.mark.parametrize(
    ("text", "name", "sizes"),
    [
        ("wide K", "wide K", {"M": 64, "N": 96, "K": 65536}),
        ("M=64,N=96,K=65536,kBatch=8", "wide K", {"M": 64}),
        ("M=64,N=96,K=65536", "M=64,N=96,K=65536", {"LDA": 65536}),
        ("K=7 N=5, M=3", "M=3,N=5,K=7", {"M": 3, "N": 5, "K": 7, "LDC": 5}),
        ("M = 3, N= 5 ,K =7", "M=3,N=5,K=7", {"M": 3, "N": 5, "K": 7}),
        ("3x5x7", "M=3,N=5,K=7", {"M": 3, "N": 5, "K": 7}),
        ("M=3,N=5,K=7,LDA=7,kBatch=1", "M=3,N=5,K=7", {"LDA": 7}),
        ("M=3,N=5,K=7,LDA=9,kBatch=2,", "M=3,N=5,K=7,LDA=9,kBatch=2", {"LDA": 9}),
    ],
)
def test_a_shape_is_named_or_written_as_sizes(text: str, name: str, sizes: dict[str, int]) -> None:
    found = find_shape(GEMM, text)
    assert found.name == name
    assert sizes.items() <= found.sizes.items()
    assert find_shape(GEMM, found.name) == found, "its name means it again"


@each_row(
    ("text", "message"),
    [
        ("wide", "'gemm_bf16_split_k' has no shape 'wide'"),
        ("", "'gemm_bf16_split_k' has no shape ''"),
        ("=", "'=' is not a size of gemm_bf16_split_k"),
        ("m=3,N=5,K=7", "'m=3' is not a size of gemm_bf16_split_k"),
        ("M=3,N=5", "'M=3,N=5' does not say K"),
        ("M=3,N=5,K=7,M=3", "'M=3,N=5,K=7,M=3' says M twice"),
        ("M=,N=5,K=7", "'M=' is not a size of gemm_bf16_split_k: M must be a positive integer that fits int32_t"),
        ("M,N=5,K=7", "'M' is not a size of gemm_bf16_split_k: M must be a positive integer that fits int32_t"),
        ("M=3.5,N=5,K=7", "'M=3.5' is not a size of gemm_bf16_split_k: M must be a positive integer that fits int32_t"),
        ("M=-3,N=5,K=7", "'M=-3' is not a size of gemm_bf16_split_k: M must be a positive integer that fits int32_t"),
        (
            "M=true,N=5,K=7",
            "'M=true' is not a size of gemm_bf16_split_k: M must be a positive integer that fits int32_t",
        ),
        ("M=٣,N=5,K=7", "'M=٣' is not a size of gemm_bf16_split_k: M must be a positive integer that fits int32_t"),
        ("3x5", "'gemm_bf16_split_k' has no shape '3x5'"),
        ("3x5xk", "'gemm_bf16_split_k' has no shape '3x5xk'"),
        ("0x5x7", "`M` must be at least 1"),
        ("M=0,N=5,K=7", "`M` must be at least 1"),
        ("M=2147483648,N=5,K=7", "`M` does not fit into int32_t"),
        (f"M={'9' * 900},N=5,K=7", "`M` does not fit into int32_t"),
        (f"M={'9' * 9000},N=5,K=7", "M must be a positive integer that fits int32_t"),
        ("M=3,N=5,K=7,LDA=6", "`LDA` must be at least 7"),
        ("M=3,N=5,K=7,kBatch=0", "`kBatch` must be at least 1"),
        ("M=3,N=5,K=7,kBatch=1.5", "`kBatch` is of type int32_t"),
    ],
)
def test_a_mistake_names_the_sizes(text: str, message: str) -> None:
    with pytest.raises(CkwatchError, match=re.escape(message)) as raised:
        find_shape(GEMM, text)
    assert raised.value.hint is not None
    assert "M=…,N=…,K=…" in raised.value.hint or "its sizes are M, N, K, and optionally LDA" in raised.value.hint


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("wide K", ["wide K"]),
        ("M=3,N=5,K=7,kBatch=1/2", ["M=3,N=5,K=7", "M=3,N=5,K=7,kBatch=2"]),
        ("M=3/4,N=5,K=7,kBatch=2/4", [f"M={m},N=5,K=7,kBatch={k}" for m in (3, 4) for k in (2, 4)]),
        ("wide K,kBatch=1/8", ["M=64,N=96,K=65536", "wide K"]),
        ("wide K,kBatch=2", ["M=64,N=96,K=65536,kBatch=2"]),
        ("wide K,M=1/2", ["M=1,N=96,K=65536,kBatch=8", "M=2,N=96,K=65536,kBatch=8"]),
    ],
)
def test_values_of_a_shape_may_have_alternatives(text: str, names: list[str]) -> None:
    assert [shape.name for shape in alternative_shapes(GEMM, text)] == names


@pytest.mark.parametrize("text", ["wide", "M=3,N=5,K=7,kBatch=1/", "M=3,N=5,K=7,kBatch=1//2", "M=3,N=5,kBatch=1/2"])
def test_a_mistake_in_alternatives_is_one_in_a_shape(text: str) -> None:
    with pytest.raises(CkwatchError, match=r"has no shape|must be a number|does not say K") as raised:
        alternative_shapes(GEMM, text)
    assert raised.value.hint


@pytest.mark.parametrize(
    "example", ["attention", "convolution", "grouped_gemm", "moe", "normalization", "batched_gemm"]
)
def test_every_shape_of_every_kind_can_be_written_as_sizes(example: str) -> None:
    for kernel in load_workspace(EXAMPLES / example).kernels:
        for shape in kernel.shapes:
            text = ",".join(f"{name}={value}" for name, value in {**shape.sizes, **shape.runtime}.items())
            assert find_shape(kernel, text) == shape
            bare = replace(kernel, shapes=())
            assert find_shape(bare, find_shape(bare, text).name).sizes == shape.sizes


def test_numbers_of_groups_may_have_alternatives() -> None:
    kernel = load_workspace(EXAMPLES / "grouped_gemm").kernels[0]
    shape = kernel.shapes[0]
    few, many = alternative_shapes(kernel, f"{shape.name},G=2/16")
    assert (few.sizes, many.sizes) == ({**shape.sizes, "G": 2}, {**shape.sizes, "G": 16})


def test_runtime_arguments_of_ones_own_operation(tmp_path: Path) -> None:
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/t.hip.j2").write_text("")
    (tmp_path / "k.kernel.toml").write_text(CUSTOM)
    workspace = load_workspace(tmp_path)
    assert not [error.message for error in workspace.errors]
    (kernel,) = workspace.kernels
    assert find_shape(kernel, "N=64").name == "64", "as in the file's first shape where not said"
    found = find_shape(kernel, "N=32,scale=0.5,turns=4")
    assert (found.name, found.sizes, found.runtime) == (
        "N=32,scale=0.5,turns=4",
        {"N": 32},
        {"scale": 0.5, "turns": 4},
    )
    with pytest.raises(CkwatchError, match="`turns` is of type int32_t"):
        find_shape(kernel, "N=32,turns=0.5")


def test_of_several_kernels_one_must_have_the_shape() -> None:
    other = kernel_of("normalization", "layernorm_bf16_residual_i8")
    found = find_shapes([GEMM, other], ["M=3,N=5,K=7", "M=3,N=5"])
    assert {name: list(shapes) for name, shapes in found.items()} == {
        GEMM.name: ["M=3,N=5,K=7"],
        other.name: ["M=3,N=5"],
    }
    with pytest.raises(CkwatchError, match="'Q=3' is not a size of gemm_bf16_split_k"):
        find_shapes([GEMM, other], ["Q=3"])
    with pytest.raises(CkwatchError, match="none of these units has a shape 'tall'"):
        find_shapes([GEMM, other], ["tall"])
