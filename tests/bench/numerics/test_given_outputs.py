"""Outputs that are compared with those of a user's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases.reference_case import reference_kernel, reference_problem
from ckwatch.bench.numerics.comparison import OutputCheck, WrongResultError
from ckwatch.bench.numerics.given_outputs import GivenReference
from ckwatch.bench.numerics.storage import Storage, narrow
from ckwatch.bench.numerics.tolerance import tolerance_of_output
from ckwatch.model.kernel_problem import KernelProblem

INTEGERS = '[[operation.output]]\nname = "Most"\ndtype = "i8"\nsizes = ["M"]\n'
VALUES = np.linspace(0.25, 2.0, 15).reshape(3, 5)
ULP = 2.0**-10
"""Of an f16 between 1 and 2."""


def problem_of(root: Path, keys: str = "", dtype: str = "f16") -> KernelProblem:
    return reference_problem(reference_kernel(root, keys=keys, more=INTEGERS, dtype=dtype))


def checked(
    problem: KernelProblem,
    expected: np.ndarray,
    found: np.ndarray,
    most: np.ndarray | None = None,
    found_most: np.ndarray | None = None,
) -> OutputCheck:
    most = np.array([1, 2, 3]) if most is None else most
    stored: dict[str, Storage] = {
        "Y": narrow(found, problem.buffer("Y").dtype, fnuz=True).reshape(-1),
        "Most": (most if found_most is None else found_most).astype(np.int8),
    }
    return GivenReference(problem, {"Y": expected, "Most": most}).check(stored)


def wrong(*arguments: Any) -> str:
    with pytest.raises(WrongResultError) as raised:
        checked(*arguments)
    return f"{raised.value.message}\n{raised.value.detail}"


def at(change: float, place: tuple[int, int] = (1, 2)) -> np.ndarray:
    """VALUES with a change of one element."""
    found = VALUES.copy()
    found[place] += change
    return found


def test_what_is_right_but_for_rounding_is_right(tmp_path: Path) -> None:
    problem = problem_of(tmp_path)
    told = checked(problem, VALUES, VALUES)
    assert told.compared == 18
    assert told.worst_error < 1
    assert GivenReference(problem, {"Y": VALUES, "Most": np.zeros(3)}).description == "reference.py:f, every element"


def test_what_is_wrong_names_the_element(tmp_path: Path) -> None:
    text = wrong(problem_of(tmp_path), VALUES, at(0.1))
    assert "1 of 15 elements of Y are wrong" in text
    assert "Y[1, 2] is 1.22460938, reference 1.125" in text
    assert "axis 0: 1 to 1, axis 1: 2 to 2" in text


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [
        ("rtol = 0.0", 0.5 * ULP),
        ("ulp = 3", 3 * ULP),
        ("atol = 0.01", 0.01),
        ("rtol = 0.02", 0.02 * VALUES[1, 2]),
        ("atol = 0.01\nrtol = 0.02", 0.01 + 0.02 * VALUES[1, 2]),
    ],
)
def test_stated_tolerances_count_beyond_the_rounding_of_the_output(keys: str, allowed: float, tmp_path: Path) -> None:
    problem = problem_of(tmp_path, keys)
    rounded = narrow(VALUES, "f16", fnuz=True).view(np.float16).astype(np.float64)
    found = rounded.copy()
    found[1, 2] += np.floor(allowed / ULP) * ULP
    checked(problem, rounded, found)
    found[1, 2] += 2 * ULP
    assert "Y[1, 2] is" in wrong(problem, rounded, found)


def test_zero_and_the_smallest_values_have_a_last_place_too(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "ulp = 1")
    expected = np.zeros((3, 5))
    checked(problem, expected, np.full((3, 5), 2.0**-24))
    assert "15 of 15" in wrong(problem, expected, np.full((3, 5), 2.0**-22))


@pytest.mark.parametrize("special", [np.inf, -np.inf])
def test_an_infinity_must_be_the_same(special: float, tmp_path: Path) -> None:
    problem = problem_of(tmp_path)
    expected = VALUES.copy()
    expected[0, 0] = special
    checked(problem, expected, expected)
    for other in (1.0, -special):
        found = expected.copy()
        found[0, 0] = other
        assert "1 of 15" in wrong(problem, expected, found)
    assert "1 of 15" in wrong(problem, VALUES, expected)


def test_nan_where_the_reference_says_so(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "nan = true")
    expected = VALUES.copy()
    expected[2, 4] = np.nan
    checked(problem, expected, expected)
    text = wrong(problem, expected, VALUES)
    assert "1 of 15 elements of Y are numbers and must be NaN" in text
    assert "Y[2, 4] is 2, reference nan" in text
    assert "1 of 15 elements of Y are wrong" in wrong(problem, VALUES, expected)


def test_integers_are_exact_and_rounded_floats_may_be_one_off(tmp_path: Path) -> None:
    problem = problem_of(tmp_path)
    exact, off = np.array([1, 2, 3]), np.array([1, 2, 4])
    checked(problem, VALUES, VALUES, exact.astype(np.float64) + 0.4, off)
    assert "1 of 3 elements of Most are wrong" in wrong(problem, VALUES, VALUES, exact, off)
    assert "Most[2] is 4, reference 3" in wrong(problem, VALUES, VALUES, exact, off)


@pytest.mark.parametrize(("dtype", "value"), [("i64", (1 << 62) + 1), ("u64", (1 << 64) - 3)])
def test_integers_have_all_their_digits(dtype: str, value: int, tmp_path: Path) -> None:
    problem = problem_of(tmp_path, dtype=dtype)
    expected = np.full((3, 5), value)
    stored: dict[str, Storage] = {"Y": expected.reshape(-1).copy(), "Most": np.zeros(3, np.int8)}
    reference = GivenReference(problem, {"Y": expected, "Most": np.zeros(3, np.int64)})
    reference.check(stored)
    stored["Y"][7] -= 1
    with pytest.raises(WrongResultError, match="1 of 15 elements of Y are wrong") as raised:
        reference.check(stored)
    assert f"Y[1, 2] is {value - 1}, reference {value}" in raised.value.detail


@pytest.mark.parametrize(
    ("keys", "dtype", "relative"),
    [
        ("", "f16", 2.0**-11),
        ("", "f32", 2.0**-11),  # the operands have ten bits
        ('reduction = "1000 * N * M"', "f32", 2.0**-24 * (15_000 + 32)),
        ("", "bf16", 2.0**-8),
    ],
)
def test_derived_tolerances(keys: str, dtype: str, relative: float, tmp_path: Path) -> None:
    problem = problem_of(tmp_path, keys, dtype)
    assert problem.reference is not None
    assert tolerance_of_output(problem, problem.reference.outputs[0]).relative == relative
