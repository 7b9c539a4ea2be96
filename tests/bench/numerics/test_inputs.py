"""A kernel's inputs from a seed."""

from __future__ import annotations

import numpy as np
import pytest

from cases.gemm_case import GemmCase, decode
from ckwatch.bench.numerics.inputs import CHUNK, make_inputs, random_bits
from ckwatch.bench.numerics.storage import gap_mask, storage_type, tensor_elements
from ckwatch.model.kernel_problem import Buffer, KernelProblem, TensorView, problem_of
from ckwatch.model.kernels import Shape
from ckwatch.model.text import span
from helpers.each_row import each_row


def problem(case: GemmCase, m: int = 5, n: int = 7, k: int = 11, padding: int = 0) -> KernelProblem:
    """A case on a shape; each leading dimension leaves `padding` elements."""
    x, w, y = case.layouts.split()
    leading = {"LDA": k if x == "row" else m, "LDB": n if w == "row" else k, "LDC": n if y == "row" else m, "LDD": 0}
    if case.bias is not None and case.bias.startswith("full"):
        leading["LDD"] = n if case.bias.endswith("row") else m
    sizes = {"M": m, "N": n, "K": k} | {key: value + padding if value else 0 for key, value in leading.items()}
    shape = Shape("s", sizes, {"kBatch": 1}, span("/k", 0, 0, 0, 0))
    return problem_of(case.operation(), shape, case.arch)


def runner_bits(seed: int, tensor: int, at: int) -> int:
    """`random_bits` of `runner/runner_main.j2`, word for word."""
    mask = 2**64 - 1
    z = ((seed * 8 + tensor) * 0x9E3779B97F4A7C15 + (at + 1) * 0xD1B54A32D192ED03) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@pytest.mark.parametrize(("seed", "tensor", "begin"), [(1, 1, 0), (2, 5, 1000), (2**62, 3, 2**40), (0, 1, CHUNK)])
def test_bits_are_the_runner_s(seed: int, tensor: int, begin: int) -> None:
    expected = [runner_bits(seed, tensor, begin + at) for at in range(20)]
    assert random_bits(seed, tensor, begin, 20).tolist() == expected


def test_elements_are_the_runner_s() -> None:
    found = make_inputs(problem(GemmCase(a="f32", b="i8", scale_a="row", scale_b="row", bias="row")), seed=3)
    units = {tensor: [(runner_bits(3, tensor, at) >> 11) * 2.0**-53 for at in range(5)] for tensor in (1, 3)}
    assert found["X"][:5].tolist() == [float(np.float32(2 * unit - 1)) for unit in units[1]]
    assert found["W"][:5].tolist() == [runner_bits(3, 2, at) % 11 - 5 for at in range(5)]
    assert found["inv_scale_x"].tolist() == [float(np.float32(0.5 + unit)) for unit in units[3]]
    assert list(found) == ["X", "W", "inv_scale_x", "inv_scale_w", "Bias"]


@each_row("arch", ["gfx942", "gfx950"])
@each_row("dtype", ["f16", "bf16", "f32", "f64", "f8", "bf8", "i8", "i32"])
def test_values_lie_in_their_ranges(dtype: str, arch: str) -> None:
    case = GemmCase(a=dtype, scale_a="row", scale_b="row", scale_dtype="f32", arch=arch)
    found = make_inputs(problem(case, 60, 70, 80), seed=1)
    x = decode(found["X"], dtype, case.fnuz)
    limit = 5 if dtype in ("i8", "i32") else 1
    assert found["X"].dtype == storage_type(dtype)
    assert np.isfinite(x).all()
    assert np.abs(x).max() <= limit
    assert x.min() < -0.9 * limit
    assert x.max() > 0.9 * limit
    assert abs(x.mean()) < 0.1 * limit
    assert 0.5 <= found["inv_scale_x"].min() < 0.6
    assert 1.4 < found["inv_scale_x"].max() <= 1.5


def test_a_seed_gives_the_same_bits_in_any_number_of_chunks() -> None:
    large = problem(GemmCase(), 3, 1, CHUNK)
    first, again, other = (make_inputs(large, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["X"], again["X"])
    assert (first["X"] != other["X"]).mean() > 0.99
    unit = [(runner_bits(1, 1, at) >> 11) * 2.0**-53 for at in (CHUNK - 1, CHUNK, 3 * CHUNK - 1)]
    expected = np.array([2 * value - 1 for value in unit], np.float32).astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(first["X"][[CHUNK - 1, CHUNK, 3 * CHUNK - 1]], expected)


def test_few_distinct_elements_are_repeated() -> None:
    large = problem(GemmCase(), 3, 1, CHUNK + 5)
    usual, found = make_inputs(large, 1)["X"], make_inputs(large, 1, distinct=CHUNK)["X"]
    np.testing.assert_array_equal(found, np.resize(usual[:CHUNK], usual.size))


@each_row("dtype", ["f16", "bf16", "f32", "f64", "f8", "bf8"])
@each_row("layouts", ["row col row", "col row col"])
@each_row("arch", ["gfx942", "gfx950"])
def test_gaps_are_nan(dtype: str, layouts: str, arch: str) -> None:
    case = GemmCase(a=dtype, b=dtype, bias="full row", bias_dtype=dtype, layouts=layouts, arch=arch)
    padded = problem(case, padding=3)
    assert padded.gemm is not None
    for name, elements in make_inputs(padded, 1).items():
        values = decode(elements, dtype, case.fnuz)
        gaps = gap_mask(padded, padded.buffer(name))
        assert gaps is not None
        assert gaps.sum() == elements.size - np.prod(next(v.sizes for v in padded.views if v.buffer == name))
        np.testing.assert_array_equal(np.isnan(values), gaps)


def test_two_tensors_of_one_buffer_share_its_gaps() -> None:
    # X: rows of 11 in lines of 14; W: columns of 11 in lines of 14, more of them
    shared = problem(GemmCase(same_buffer=True), m=4, n=6, padding=3)
    gaps = gap_mask(shared, shared.buffer("X"))
    assert gaps is not None
    np.testing.assert_array_equal(np.flatnonzero(gaps) % 14, [11, 12, 13] * 5)
    assert list(make_inputs(shared, 1)) == ["X"]


def test_without_gaps_there_is_no_mask() -> None:
    dense = problem(GemmCase(layouts="row col col", bias="row"))
    assert [gap_mask(dense, buffer) for buffer in dense.buffers] == [None] * 4


@pytest.mark.parametrize(
    ("sizes", "strides"), [((4, 4), (5, 1)), ((4, 4), (-4, 1)), ((-1, 4), (4, 1)), ((2, 2, 5), (8, 4, 1))]
)
def test_a_tensor_that_reaches_outside_of_its_buffer_is_refused(
    sizes: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="X has"):
        tensor_elements(np.zeros(16), TensorView(buffer="X", sizes=sizes, strides=strides))


def test_of_a_custom_kernel_the_arch_s_floats_are_asked_for() -> None:
    buffer = Buffer(name="In", dtype="f8", elements=4000)
    view = TensorView(buffer="In", sizes=(4000,), strides=(1,))
    custom = KernelProblem(buffers=(buffer,), views=(view,), arguments=(), computed=None, flops=None, bytes_moved=4000)
    ours, ocp = make_inputs(custom, 1, fnuz=True)["In"], make_inputs(custom, 1)["In"]
    assert (ours != ocp).any()
    assert not np.isnan(decode(ours, "f8", True)).any()
    np.testing.assert_allclose(decode(ours, "f8", True), decode(ocp, "f8", False), atol=2**-10)
