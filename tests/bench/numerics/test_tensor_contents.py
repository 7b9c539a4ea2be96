"""Contents of tensors that a kernel file gives a meaning."""

from __future__ import annotations

import numpy as np
import pytest

from ckwatch.bench.numerics.inputs import before_launch, make_inputs
from ckwatch.bench.numerics.storage import Storage, tensor_elements, widen
from ckwatch.bench.numerics.tensor_contents import GivenArrayError
from ckwatch.model.kernel_problem import Buffer, KernelProblem, TensorView
from ckwatch.model.tensor_values import INTEGER_LIMITS, ContentKind, TensorValues, misfit, misfit_on


def problem(dtype: str, sizes: tuple[int, ...], values: TensorValues | None, *, gap: int = 0) -> KernelProblem:
    """One tensor of these sizes; its rows have `gap` elements behind them."""
    stride = 1
    strides: list[int] = []
    for at, size in enumerate(reversed(sizes)):
        strides.insert(0, stride)
        stride = stride * size + (gap if at == 0 else 0)
    elements = sum((size - 1) * step for size, step in zip(sizes, strides, strict=True)) + 1
    buffer = Buffer(name="X", dtype=dtype, elements=elements, values=values)
    return KernelProblem(
        buffers=(buffer,),
        views=(TensorView(buffer="X", sizes=sizes, strides=tuple(strides)),),
        arguments=(),
        computed=None,
        flops=None,
        bytes_moved=0,
    )


def made(dtype: str, sizes: tuple[int, ...], values: TensorValues, seed: int = 1, *, gap: int = 0) -> Storage:
    given = problem(dtype, sizes, values, gap=gap)
    return np.array(tensor_elements(make_inputs(given, seed)["X"], given.views[0]))


def of(kind: ContentKind, *numbers: float) -> TensorValues:
    return TensorValues(kind=kind, numbers=numbers)


@pytest.mark.parametrize("dtype", [name for name in INTEGER_LIMITS if name != "bool"])
def test_indices_reach_both_ends_of_their_range(dtype: str) -> None:
    found = made(dtype, (5, 7), of(ContentKind.INDEX, 3, 9))
    assert (found.min(), found.max()) == (3, 8)
    assert not np.array_equal(found, made(dtype, (5, 7), of(ContentKind.INDEX, 3, 9), seed=2))
    assert (made(dtype, (1,), of(ContentKind.INDEX, 0, 1)) == 0).all()


def test_a_range_may_begin_below_0() -> None:
    assert set(made("i32", (200,), of(ContentKind.INDEX, -1, 2)).tolist()) == {-1, 0, 1}


def test_ranges_and_constants_have_all_bits_of_a_dtype() -> None:
    for dtype in ("i64", "u64"):
        least, greatest = INTEGER_LIMITS[dtype]
        found = made(dtype, (50,), of(ContentKind.SORTED, least, greatest + 1))
        assert (found[0], found[-1]) == (least, greatest)
        assert (made(dtype, (2,), of(ContentKind.CONSTANT, greatest)) == greatest).all()
        spread = made(dtype, (9,), of(ContentKind.PERMUTATION, least, greatest + 1))
        assert len(set(spread.tolist())) == 9


def test_permutations_are_of_each_row() -> None:
    found = made("i32", (4, 9), of(ContentKind.PERMUTATION))
    assert np.array_equal(np.sort(found, axis=-1), np.tile(np.arange(9), (4, 1)))
    assert len({tuple(row) for row in found.tolist()}) == 4


@pytest.mark.parametrize("behind", [9, 10, 1 << 40])
def test_indices_of_a_row_may_differ(behind: int) -> None:
    found = made("i64", (3, 9), of(ContentKind.PERMUTATION, 0, behind))
    assert all(len(set(row)) == 9 for row in found.tolist())
    assert 0 <= found.min() <= found.max() < behind


def test_sorted_values_ascend_along_the_last_axis() -> None:
    for dtype, values in (("f32", of(ContentKind.SORTED)), ("i32", of(ContentKind.SORTED, 0, 1000))):
        found = made(dtype, (3, 50), values)
        assert (np.diff(found, axis=-1) >= 0).all()
        assert len(np.unique(found)) > 50


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "f8", "i8", "bool"])
def test_constants_and_masks(dtype: str) -> None:
    assert set(widen(made(dtype, (8,), of(ContentKind.CONSTANT, 1)), dtype, fnuz=False).tolist()) == {1.0}
    assert set(widen(made(dtype, (64,), of(ContentKind.MASK)), dtype, fnuz=False).tolist()) == {0.0, 1.0}


def test_distributions() -> None:
    normal = made("f64", (100, 100), of(ContentKind.NORMAL, 5, 2))
    assert abs(normal.mean() - 5) < 0.1
    assert abs(normal.std() - 2) < 0.1
    uniform = made("f64", (1000,), of(ContentKind.UNIFORM, 2, 3))
    assert 2 <= uniform.min() < 2.1 < 2.9 < uniform.max() < 3
    assert set(made("i8", (100,), of(ContentKind.UNIFORM, 0, 2)).tolist()) == {0, 1, 2}
    shares = made("f64", (3, 40), of(ContentKind.PROBABILITIES))
    assert np.allclose(shares.sum(axis=-1), 1)
    assert shares.min() > 0


def test_values_of_the_least_dtypes_saturate() -> None:
    assert np.isfinite(widen(made("f8", (1000,), of(ContentKind.NORMAL, 0, 1e6)), "f8", fnuz=False)).all()
    assert made("u8", (1000,), of(ContentKind.NORMAL, 200, 50)).max() == 255


def test_gaps_stay_gaps() -> None:
    given = problem("f32", (4, 6), of(ContentKind.CONSTANT, 2), gap=3)
    found = make_inputs(given, 1)["X"]
    assert np.isnan(found).sum() == 9
    assert (tensor_elements(found, given.views[0]) == 2).all()


@pytest.mark.parametrize(("kind", "repeats"), [(ContentKind.NORMAL, True), (ContentKind.SORTED, False)])
def test_independent_elements_repeat_where_few_are_distinct(kind: ContentKind, repeats: bool) -> None:
    given = problem("i32", (4, 6), of(kind, 0, 9), gap=3)
    found = tensor_elements(make_inputs(given, 1, distinct=5)["X"], given.views[0]).reshape(-1)
    assert (found.tolist() == np.resize(found[:5], found.size).tolist()) is repeats


def test_given_arrays_win() -> None:
    given = problem("f16", (2, 3), of(ContentKind.CONSTANT, 2))
    found = make_inputs(given, 1, given={"X": np.arange(6).reshape(2, 3)})["X"]
    assert widen(found, "f16", fnuz=False).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("dtype", "array", "message"),
    [
        ("f32", np.zeros((3, 2)), "X cannot be given: it has the shape 3 × 2, and the tensor has 2 × 3"),
        ("f32", 1.5, "X cannot be given: it has the shape of one number, and the tensor has 2 × 3"),
        ("f32", np.full((2, 3), "a"), "X cannot be given: it is an array of <U1, not of numbers"),
        ("i8", np.full((2, 3), 300), "X cannot be given: it holds 300 to 300, and i8 -128 to 127"),
        ("i8", np.full((2, 3), 0.5), "X cannot be given: it holds values that are not integers, and i8 holds integers"),
        ("i8", np.full((2, 3), np.nan), "X cannot be given: it holds values that are not integers, and i8 holds integers"),
    ],
)  # fmt: skip
def test_arrays_that_cannot_be_given(dtype: str, array: object, message: str) -> None:
    with pytest.raises(GivenArrayError) as error:
        make_inputs(problem(dtype, (2, 3), None), 1, given={"X": array})
    assert str(error.value) == message


def test_outputs_that_keep_what_was_there() -> None:
    buffer = Buffer(name="Y", dtype="f32", elements=9, output=True, in_out=True, values=of(ContentKind.CONSTANT, 7))
    given = problem("f32", (2, 3), None, gap=3)
    given = KernelProblem(
        buffers=(buffer,),
        views=(TensorView(buffer="Y", sizes=(2, 3), strides=(6, 1)),),
        arguments=(),
        computed=None,
        flops=None,
        bytes_moved=0,
    )
    inputs = make_inputs(given, 1)
    first, second = (before_launch(given, buffer, inputs, fnuz=False, second=again) for again in (False, True))
    assert (tensor_elements(first, given.views[0]) == 7).all()
    assert (tensor_elements(second, given.views[0]) == 7).all()
    assert np.isnan(first[3:6]).all()
    assert not np.isnan(second[3:6]).any()
    assert inputs["Y"] is not first


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        (
            of(ContentKind.INDEX, 0, 4),
            "f32",
            "indices must be integers, and f32 is not one of i8, i16, i32, i64, u8, u16, u32, u64",
        ),
        (
            of(ContentKind.PERMUTATION),
            "bool",
            "a permutation must be integers, and bool is not one of i8, i16, i32, i64, u8, u16, u32, u64",
        ),
        (of(ContentKind.PROBABILITIES), "i8", "probabilities lie between 0 and 1, and i8 has no such values"),
        (of(ContentKind.CONSTANT, 70000), "f16", "70000 is out of the range of f16, -65504 to 65504"),
        (of(ContentKind.UNIFORM, 0, 300), "u8", "300 is out of the range of u8, 0 to 255"),
        (of(ContentKind.CONSTANT, 0.5), "i32", "0.5 is not an integer, and i32 holds integers"),
        (of(ContentKind.CONSTANT, -1), "e8m0", "-1 is out of the range of e8m0, 5.87747e-39 to 1.70141e+38"),
        (of(ContentKind.NORMAL), "bf16", ""),
    ],
)
def test_values_that_do_not_fit_a_dtype(values: TensorValues, dtype: str, message: str) -> None:
    assert misfit(values, dtype) == message


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        (of(ContentKind.INDEX, 4, 4), "i32", "the range [4, 4] is empty: its upper bound is exclusive"),
        (of(ContentKind.INDEX, 0, 129), "i8", "the range [0, 129] does not fit into i8, which holds -128 to 127"),
        (of(ContentKind.PERMUTATION, 0, 4), "i32", "no 300 different values are in the range [0, 4]"),
        (of(ContentKind.PERMUTATION), "u8", "a permutation of 0 to 299 does not fit into u8, which holds 0 to 255"),
        (of(ContentKind.INDEX, 0, 128), "i8", ""),
    ],
)
def test_values_that_do_not_fit_their_sizes(values: TensorValues, dtype: str, message: str) -> None:
    assert misfit_on(values, dtype, (2, 300)) == message
