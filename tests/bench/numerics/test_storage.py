"""Stored elements: widened exactly, narrowed to the nearest, as the formats are defined."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from cases import gemm_case
from ckwatch.bench.numerics.storage import (
    in_memory,
    is_nan,
    narrow,
    poison,
    storage_type,
    widen,
)
from ckwatch.bench.numerics.tolerance import INTEGERS, SMALL_FLOATS, half_subnormal
from ckwatch.model.kernel_problem import Buffer
from ckwatch.model.tensors import DTYPES
from helpers.each_row import each_row

SMALL = ("f4", "f8", "bf8", "f16", "bf16")

FORMS = sorted({(dtype, fnuz) for dtype in DTYPES for fnuz in (False, True) if not fnuz or "f8" in dtype})


def decode(codes: np.ndarray, dtype: str, fnuz: bool) -> np.ndarray:
    """The values by the tests' own codec; signalling NaN are converted quietly."""
    with np.errstate(invalid="ignore"):
        return gemm_case.decode(codes, dtype, fnuz)


def every_code(dtype: str) -> np.ndarray:
    """All codes of up to 16 bits, some of more."""
    if DTYPES[dtype].packed > 1:
        return np.arange(16, dtype=np.uint8)
    storage = storage_type(dtype)
    if storage.itemsize <= 2:
        return np.arange(256**storage.itemsize).astype(f"u{storage.itemsize}").view(storage)
    bits = np.random.default_rng(1).integers(0, 2**32, 4096, np.uint32)
    return bits.view(storage)


def floats(dtype: str, fnuz: bool) -> np.ndarray:
    """The finite values of a small float, ascending, each once."""
    values = decode(every_code(dtype), dtype, fnuz)
    return np.unique(values[np.isfinite(values)])


@each_row(("dtype", "fnuz"), FORMS)
def test_widen_is_exact(dtype: str, fnuz: bool) -> None:
    codes = every_code(dtype)
    found, expected = widen(codes, dtype, fnuz), decode(codes, dtype, fnuz)
    assert found.dtype == np.float64
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[finite], expected[finite])
    np.testing.assert_array_equal(is_nan(codes, dtype, fnuz), np.isnan(found))
    assert not np.isfinite(found[~finite]).any()


@each_row(("dtype", "fnuz"), FORMS)
def test_what_was_widened_narrows_to_itself(dtype: str, fnuz: bool) -> None:
    codes = every_code(dtype)
    values = widen(codes, dtype, fnuz)
    kept = ~np.isnan(values) & ~(np.isinf(values) & (dtype == "bf8"))
    if dtype in INTEGERS:
        kept &= (values >= INTEGERS[dtype][0]) & (values <= INTEGERS[dtype][1]) & (np.abs(values) <= 2**53)
    np.testing.assert_array_equal(narrow(values[kept], dtype, fnuz), codes[kept])


@pytest.mark.parametrize(("dtype", "fnuz"), [form for form in FORMS if form[0] in SMALL])
def test_narrow_takes_the_nearest(dtype: str, fnuz: bool) -> None:
    known = floats(dtype, fnuz)
    rng = np.random.default_rng(7)
    values = np.concatenate((rng.uniform(-2, 2, 500), rng.normal(size=500) * 2.0 ** rng.integers(-30, 15, 500)))
    values = values.astype(np.float32).astype(np.float64)
    values = values[np.abs(values) <= known[-1]]
    found = widen(narrow(values, dtype, fnuz), dtype, fnuz)
    for value, narrowed in zip(values.tolist(), found.tolist(), strict=True):
        at = int(np.searchsorted(known, value))
        nearest = min(
            abs(Fraction(candidate) - Fraction(value)) for candidate in known[max(at - 1, 0) : at + 1].tolist()
        )
        assert abs(Fraction(narrowed) - Fraction(value)) == nearest, (value, narrowed)


@pytest.mark.parametrize(("dtype", "fnuz"), [form for form in FORMS if form[0] in SMALL])
def test_the_middle_of_two_goes_to_the_even_one(dtype: str, fnuz: bool) -> None:
    known = floats(dtype, fnuz)
    at = np.random.default_rng(3).integers(0, known.size - 1, 200)
    low, high = known[at], known[at + 1]
    middle = (low + high) / 2
    exact = middle.astype(np.float32).astype(np.float64) == middle
    codes = narrow(middle[exact], dtype, fnuz)
    assert exact.any()
    assert (codes % 2 == 0).all()
    found = widen(codes, dtype, fnuz)
    assert ((found == low[exact]) | (found == high[exact])).all()


@each_row(
    ("dtype", "fnuz", "value", "expected"),
    [
        ("f8", False, 1e9, 448.0),
        ("f8", True, -1e9, -240.0),
        ("bf8", False, np.inf, 57344.0),
        ("bf8", True, -np.inf, -57344.0),
        ("f16", False, 65504.0, 65504.0),
        ("f16", False, 65520.0, np.inf),
        ("bf16", False, -3.4e38, -np.inf),
        ("f32", False, 1e300, np.inf),
        ("i8", False, 127.5, 127.0),
        ("i8", False, -1e9, -128.0),
        ("i8", False, 2.5, 2.0),
        ("i8", False, np.nan, 0.0),
        ("i32", False, 1e12, 2147483647.0),
        ("i32", False, -2147483648.4, -2147483648.0),
        ("f64", False, 1e300, 1e300),
    ],
)
def test_what_is_too_large(dtype: str, fnuz: bool, value: float, expected: float) -> None:
    assert widen(narrow(np.array([value]), dtype, fnuz), dtype, fnuz)[0] == expected


@pytest.mark.parametrize(("dtype", "fnuz"), [form for form in FORMS if form[0] not in {*INTEGERS, "f4"}])
def test_nan_stays_nan(dtype: str, fnuz: bool) -> None:
    assert np.isnan(widen(narrow(np.array([np.nan, -np.nan]), dtype, fnuz), dtype, fnuz)).all()


def test_fnuz_has_no_negative_zero() -> None:
    tiny = np.array([-0.0, -1e-30])
    assert narrow(tiny, "f8", True).tolist() == [0, 0]
    assert narrow(tiny, "f8", False).tolist() == [0x80, 0x80]


@each_row(("dtype", "fnuz"), FORMS)
def test_poison_is_nan_where_there_is_one(dtype: str, fnuz: bool) -> None:
    found = poison(Buffer(name="Y", dtype=dtype, elements=3), fnuz, guard_elements=2)
    assert (found.dtype, found.shape) == (storage_type(dtype), (5,))
    if dtype in INTEGERS or dtype == "f4":
        assert (in_memory(found[:4], dtype) == 0xFF).all()
    else:
        assert np.isnan(widen(found, dtype, fnuz)).all()


@pytest.mark.parametrize(("dtype", "fnuz"), [form for form in FORMS if form[0] in ("f8", "bf8", "f16", "bf16")])
def test_half_of_the_smallest_value(dtype: str, fnuz: bool) -> None:
    known = floats(dtype, fnuz)
    assert half_subnormal(dtype, fnuz) == known[known > 0][0] / 2
    assert {form for form in SMALL_FLOATS if form[0] != "f4"} == {form for form in FORMS if form[0] in ("f8", "bf8")}


def test_elements_of_four_bits_share_bytes() -> None:
    assert in_memory(np.array([1, 2, 3, 15, 8], np.uint8), "f4").tolist() == [0x21, 0xF3, 0x08]
    assert Buffer(name="X", dtype="f4", elements=5).size_bytes == 3
    elements = np.array([1, 2], np.uint16)
    assert np.shares_memory(in_memory(elements, "f16"), elements)
    assert narrow(np.array([np.nan, 5.0, -5.1, -0.0]), "f4", fnuz=False).tolist() == [7, 6, 15, 8]
