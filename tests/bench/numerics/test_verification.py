"""Verdicts on a kernel's results: right ones pass, every kind of wrong one is named.

The right results are computed here from the tests' own codecs (`gemm_case`), not from the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cases.gemm_case import ACTIVATIONS as EXPECTED_ACTIVATIONS
from cases.gemm_case import GemmCase, GemmRun, Size
from ckwatch.bench.numerics.activations import ACTIVATIONS
from ckwatch.bench.numerics.comparison import WrongResultError
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.storage import narrow, poison, poison_element, tensor_elements
from ckwatch.bench.numerics.tolerance import tolerance_of
from ckwatch.bench.numerics.verification import (
    Reference,
    check_written,
    sampled_lines,
)
from ckwatch.bench.report import FailureKind
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Shape
from ckwatch.workspace.operations.tables import ACTIVATIONS as KNOWN_ACTIVATIONS
from helpers.each_row import each_row
from helpers.units import place

Doubles = npt.NDArray[np.float64]
GUARD = 64
WRONG, UNWRITTEN, OUT_OF_BOUNDS = FailureKind.WRONG, FailureKind.UNWRITTEN, FailureKind.OUT_OF_BOUNDS


@dataclass
class Trial:
    """A case on a shape with its inputs, the reference, and a result that a kernel could have written."""

    case: GemmCase
    size: Size
    full_check_macs: int = 1 << 29

    def __post_init__(self) -> None:
        self.run = GemmRun(self.case, self.size, seed=3)
        sizes = {name: value for name, value in self.run.arguments.items() if name != "kBatch"}
        shape = Shape("s", sizes, {"kBatch": self.size.kBatch}, place())
        self.problem = problem_of(self.case.operation(), shape, self.case.arch)
        assert self.problem.gemm is not None
        self.gemm = self.problem.gemm
        self.y = next(view for view in self.problem.views if view.buffer == "Y")
        self.reference = Reference(self.problem, self.run.buffers, self.full_check_macs)

    def result(self, epilogue: GemmCase | None = None, product: Doubles | None = None) -> Any:
        """Y as stored, poisoned beside, with a guard; of another epilogue or product where one is given."""
        return self.stored(EXPECTED_ACTIVATIONS[(epilogue or self.case).activation](self.before(epilogue, product)))

    def before(self, epilogue: GemmCase | None = None, product: Doubles | None = None) -> Doubles:
        """Return the input of the activation."""
        case, run = epilogue or self.case, self.run
        before = run.x @ run.w if product is None else product
        if case.scale_a or case.scale_b:
            before = before * run.scales
        return case.alpha * before + (case.beta * run.bias if case.bias else 0)

    def stored(self, values: Doubles) -> Any:
        y = poison(self.problem.buffer("Y"), self.case.fnuz, GUARD)
        tensor_elements(y, self.y)[...] = narrow(values, self.case.c, self.case.fnuz)
        return y

    def fails(self, y: Any) -> WrongResultError:
        with pytest.raises(WrongResultError) as caught:
            self.reference.check({"Y": y})
        return caught.value


CASES = {
    "f16": GemmCase(),
    "f16 col": GemmCase(layouts="col row col"),
    "bf16 everything": GemmCase("bf16", "bf16", "bf16", bias="full row", bias_dtype="bf16", scale_a="row", scale_b="row",
        alpha=0.5, beta=2.0, activation="gelu"),
    "f8": GemmCase("f8", "f8", "f16"),
    "f8 ocp": GemmCase("f8", "bf8", "f8", arch="gfx950"),
    "bf8": GemmCase("bf8", "f8", "bf8", scale_a="tensor", scale_b="tensor"),
    "f8 saturates": GemmCase("f16", "f16", "f8", alpha=100.0),
    "f32": GemmCase("f32", "f32", "f32", bias="col", bias_dtype="f32", activation="silu"),
    "f64": GemmCase("f64", "f64", "f64", accumulator="f64", bias="row", bias_dtype="f64"),
    "i8": GemmCase("i8", "i8", "i32", accumulator="i32"),
    "i8 scaled": GemmCase("i8", "i8", "i8", accumulator="i32", scale_a="row", scale_b="row", alpha=0.02),
    "i8 to f16": GemmCase("i8", "i8", "f16", accumulator="i32", scale_a="tensor", scale_b="tensor", bias="full col"),
    "i32": GemmCase("i32", "i32", "i32", accumulator="i32"),
    "mixed": GemmCase("f16", "f8", "f32", activation="tanh"),
    "one buffer": GemmCase(same_buffer=True),
    "f16 overflows": GemmCase(alpha=1e5),
    "f16 tiny": GemmCase(alpha=1e-7),
    "repeated bias": GemmCase(bias="full row", activation="relu"),
}  # fmt: skip
UNSUITED = ("one buffer", "f8 saturates", "f16 overflows")
"""Not for a shape with M != N, or without a value that is larger than all others."""

SIZES = (Size(1, 1, 1), Size(33, 17, 70), Size(32, 48, 64, padding=5))


@each_row("size", SIZES)
@each_row("name", CASES)
def test_right_results_pass(name: str, size: Size) -> None:
    case = CASES[name]
    if case.same_buffer:
        size = replace(size, N=size.M)
    trial = Trial(case, replace(size, ldd_zero=name == "repeated bias"))
    checked = trial.reference.check({"Y": trial.result()})
    assert checked.compared == size.M * size.N
    assert 0 <= checked.worst_error <= 1
    assert trial.reference.is_full


@pytest.mark.parametrize("name", ["f16", "f32", "bf16 everything"])
def test_accumulating_in_f32_passes(name: str) -> None:
    trial = Trial(CASES[name], Size(64, 48, 2000))
    x, w = trial.run.x.astype(np.float32), trial.run.w.astype(np.float32)
    total = np.zeros((64, 48), np.float32)
    for k in range(2000):
        total += x[:, k : k + 1] * w[k : k + 1]
    trial.reference.check({"Y": trial.result(product=total.astype(np.float64))})


def test_accumulating_in_f64_one_by_one_passes() -> None:
    trial = Trial(CASES["f64"], Size(20, 24, 1000))
    total = np.zeros((20, 24))
    for k in range(1000):
        total += trial.run.x[:, k : k + 1] * trial.run.w[k : k + 1]
    trial.reference.check({"Y": trial.result(product=total)})


@each_row("name", [name for name in CASES if name not in UNSUITED])
@each_row("at", [(0, 0), (31, 47), (12, 30)])
def test_one_wrong_element_is_found(name: str, at: tuple[int, int]) -> None:
    trial = Trial(CASES[name], Size(32, 48, 64, padding=3))
    y = trial.result()
    values = tensor_elements(y, trial.y)
    expected = EXPECTED_ACTIVATIONS[trial.case.activation](trial.before())
    largest = np.abs(expected).max()
    values[at] = narrow(np.array([-2 * largest if expected[at] > 0 else 2 * largest]), trial.case.c, trial.case.fnuz)[0]
    error = trial.fails(y)
    assert error.kind is WRONG
    assert error.message == "1 of 1,536 elements of Y are wrong"
    assert f"Y[{at[0]}, {at[1]}] is " in error.detail
    assert f"rows {at[0]} to {at[0]}, columns {at[1]} to {at[1]}" in error.detail


EPILOGUE = CASES["bf16 everything"]
ONE_DIFFERENCE: dict[str, dict[str, Any]] = {
    "no scale": {"scale_a": None, "scale_b": None},
    "no bias": {"bias": None},
    "another alpha": {"alpha": 1.0},
    "another beta": {"beta": 1.0},
    "no activation": {"activation": "none"},
    "another activation": {"activation": "relu"},
}


@pytest.mark.parametrize("difference", ONE_DIFFERENCE)
def test_another_epilogue_is_wrong(difference: str) -> None:
    trial = Trial(EPILOGUE, Size(32, 48, 64))
    trial.reference.check({"Y": trial.result()})
    assert trial.fails(trial.result(replace(EPILOGUE, **ONE_DIFFERENCE[difference]))).kind is WRONG


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8", "bf8"])
def test_a_slice_of_k_that_is_left_out_is_wrong(dtype: str) -> None:
    trial = Trial(GemmCase(dtype, dtype, "bf16"), Size(64, 64, 1024))
    x = trial.run.x.copy()
    x[:, 1024 - 64 :] = 0
    trial.reference.check({"Y": trial.result()})
    error = trial.fails(trial.result(product=x @ trial.run.w))
    assert error.kind is WRONG


@pytest.mark.parametrize("case", [GemmCase("f8", "f8", "f16"), GemmCase("bf8", "bf8", "f32")], ids=str)
def test_what_each_element_s_tolerance_allows_all_of_them_may_not_use(case: GemmCase) -> None:
    trial = Trial(case, Size(64, 64, 512))
    expected = trial.run.x @ trial.run.w
    checked = trial.reference.check({"Y": trial.stored(expected)})
    off = expected + 0.9 * checked.atol * np.where(np.indices(expected.shape).sum(axis=0) % 2, 1, -1)
    error = trial.fails(trial.stored(off))
    assert (error.kind, error.message) == (WRONG, "the elements of Y are too far from the reference, all in all")
    assert "root mean square" in error.detail


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (lambda expected: expected * 0, "all elements of Y are 0"),
        (lambda expected: expected * 3, "about 3 times the reference"),
        (lambda expected: -expected, "about -1 times the reference"),
    ],
)
def test_what_it_is_instead_is_said(values: Callable[[Any], Any], said: str) -> None:
    trial = Trial(GemmCase(), Size(64, 64, 64))
    error = trial.fails(trial.stored(values(trial.run.x @ trial.run.w)))
    assert said in error.detail


def test_a_transposed_result_is_wrong_without_a_guess() -> None:
    trial = Trial(GemmCase(), Size(64, 64, 64))
    error = trial.fails(trial.stored((trial.run.x @ trial.run.w).T))
    assert "times the reference" not in error.detail
    assert error.detail.count("Y[") == 6


FLOATS = ["f16", "bf16", "f32", "f64", "f8", "bf8"]


@each_row("dtype", FLOATS)
@each_row("layout", ["row", "col"])
@each_row("arch", ["gfx942", "gfx950"])
def test_elements_that_were_not_written(dtype: str, layout: str, arch: str) -> None:
    trial = Trial(GemmCase(c=dtype, layouts=f"row col {layout}", arch=arch), Size(32, 48, 64, padding=3))
    y, poisoned = trial.result(), poison(trial.problem.buffer("Y"), trial.case.fnuz, GUARD)
    values, before = (tensor_elements(elements, trial.y) for elements in (y, poisoned))
    values[16:, 40:] = before[16:, 40:]
    error = trial.fails(y)
    assert (error.kind, error.message) == (UNWRITTEN, "the kernel left 128 of 1,536 elements of Y unwritten")
    assert "Y[16, 40], Y[" in error.detail


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_run_that_wrote_nothing(dtype: str) -> None:
    trial = Trial(GemmCase(c=dtype), Size(8, 8, 8))
    assert trial.fails(poison(trial.problem.buffer("Y"), trial.case.fnuz)).kind is UNWRITTEN


def test_integers_that_were_not_written_are_wrong() -> None:
    trial = Trial(CASES["i8"], Size(8, 8, 64))
    assert trial.fails(poison(trial.problem.buffer("Y"), False)).kind is WRONG


@pytest.mark.parametrize(("dtype", "arch"), [("f16", "gfx950"), ("f32", "gfx950"), ("f8", "gfx950"), ("f8", "gfx942")])
def test_nan_with_the_bits_of_the_poison_is_told_from_what_is_unwritten(dtype: str, arch: str) -> None:
    trial = Trial(GemmCase(c=dtype, arch=arch), Size(8, 8, 8))
    first, again = trial.result(), trial.result()
    again[-GUARD:] = poison_element(dtype, trial.case.fnuz, second=True)
    first[9] = poison_element(dtype, trial.case.fnuz)
    again[9] = first[9]
    with pytest.raises(WrongResultError, match="1 of 64 elements of Y are NaN"):
        trial.reference.check({"Y": first}, {"Y": again})
    again[9] = poison_element(dtype, trial.case.fnuz, second=True)
    with pytest.raises(WrongResultError, match="left 1 of 64 elements of Y unwritten"):
        trial.reference.check({"Y": first}, {"Y": again})


def test_an_integer_that_is_unwritten() -> None:
    trial = Trial(CASES["i32"], Size(8, 8, 8))
    first, again = trial.result(), trial.result()
    again[-GUARD:] = poison_element("i32", fnuz=False, second=True)
    trial.reference.check({"Y": first}, {"Y": again})
    first[9], again[9] = first[-1], again[-1]
    with pytest.raises(WrongResultError, match="left 1 of 64 elements of Y unwritten"):
        trial.reference.check({"Y": first}, {"Y": again})


@pytest.mark.parametrize(("dtype", "nan"), [("f16", 0x7E00), ("bf16", 0x7FC0), ("f8", 0x7F)])
def test_nan_that_was_computed(dtype: str, nan: int) -> None:
    trial = Trial(GemmCase(c=dtype, arch="gfx950"), Size(8, 8, 8))
    y = trial.result()
    y[[10, 11]] = nan
    error = trial.fails(y)
    assert (error.kind, error.message) == (WRONG, "2 of 64 elements of Y are NaN")
    assert error.detail.startswith("Y[1, 2], Y[1, 3]; inputs hold NaN only")


@each_row("dtype", [*FLOATS, "i32"])
@each_row("layout", ["row", "col"])
def test_a_gap_that_was_written(dtype: str, layout: str) -> None:
    operands = ("i8", "i8", "i32", "i32") if dtype == "i32" else ("f16", "f16", dtype, "f32")
    a, b, c, accumulator = operands
    trial = Trial(GemmCase(a, b, c, accumulator=accumulator, layouts=f"row col {layout}"), Size(8, 8, 16, padding=2))
    y = trial.result()
    y[[8, 19]] = 0
    error = trial.fails(y)
    assert error.kind is OUT_OF_BOUNDS
    assert error.message.startswith("the kernel wrote 2 elements beside Y")
    assert ("Y[0, 8], Y[1, 9]" if layout == "row" else "Y[8, 0], Y[9, 1]") in error.detail


@pytest.mark.parametrize("dtype", ["f16", "f32", "f8"])
@pytest.mark.parametrize("at", [0, GUARD - 1])
def test_what_lies_behind_the_output(dtype: str, at: int) -> None:
    trial = Trial(GemmCase(c=dtype), Size(8, 8, 16))
    y = trial.result()
    y[64 + at] = 0
    error = trial.fails(y)
    assert (error.kind, error.message) == (OUT_OF_BOUNDS, "the kernel wrote 1 elements behind the end of Y")
    assert f"is {at + 1:,} behind its last" in error.detail


def test_too_large_for_the_output_is_its_infinity_or_its_largest_value() -> None:
    trial = Trial(CASES["f16 overflows"], Size(32, 48, 64))
    expected = 1e5 * (trial.run.x @ trial.run.w)
    assert (np.abs(expected) > 65504).any()
    trial.reference.check({"Y": trial.stored(expected)})
    trial.reference.check({"Y": trial.stored(np.clip(expected, -65504, 65504))})
    assert trial.fails(trial.stored(-expected)).kind is WRONG


@each_row("seed", range(4))
@each_row(("m", "n", "k"), [(700, 900, 64), (3, 5000, 64), (5000, 1, 64), (90, 80, 4000)])
def test_of_a_large_output_a_sample_is_compared(m: int, n: int, k: int, seed: int) -> None:
    case, macs = GemmCase(layouts="row row row"), 1 << 18
    trial = Trial(case, Size(m, n, k), full_check_macs=macs)
    lines = sampled_lines(trial.gemm, macs, seed)
    for indices, count in ((lines.rows, m), (lines.columns, n)):
        assert {0, min(1, count - 1), count - 1, max(count - 2, 0)} <= set(indices.tolist())
        assert (np.diff(indices) > 0).all()
        assert indices[-1] < count
    assert 0.7 * macs < lines.rows.size * lines.columns.size * k < 4 * macs
    assert not trial.reference.is_full
    assert "sampled rows and columns" in trial.reference.description
    checked = trial.reference.check({"Y": trial.result()})
    assert checked.compared < m * n


def test_a_wrong_tile_of_a_large_output_is_in_the_sample() -> None:
    trial = Trial(GemmCase(), Size(512, 512, 64), full_check_macs=1 << 20)
    expected = trial.run.x @ trial.run.w
    for row in range(0, 512, 64):
        for column in range(0, 512, 64):
            values = expected.copy()
            values[row : row + 64, column : column + 64] *= 2
            assert trial.fails(trial.stored(values)).kind is WRONG


def test_a_part_that_was_written_is_compared() -> None:
    trial = Trial(CASES["f16"], Size(33, 17, 70))
    written = np.zeros((33, 17), np.bool_)
    written[8:16, :9] = True
    reference = Reference(trial.problem, trial.run.buffers, written=written.ravel())
    values = trial.before()
    values[~written] = 1e4
    checked = reference.check_part({"Y": trial.stored(values)})
    assert checked.compared == 72
    for wrong in (1e4, np.nan):
        values[9, 3] = wrong
        with pytest.raises(WrongResultError, match="1 of 72 compared elements of Y are wrong"):
            reference.check_part({"Y": trial.stored(values)})


def test_what_is_unwritten_beyond_the_sample_is_found() -> None:
    trial = Trial(GemmCase(), Size(512, 512, 64), full_check_macs=1 << 20)
    missing = next(row for row in range(512) if row not in trial.reference._lines.rows)
    y = trial.result()
    y[missing * 512] = 0xFFFF
    assert trial.fails(y).kind is UNWRITTEN


@pytest.mark.parametrize(
    ("case", "k", "relative", "floor"),
    [
        (GemmCase(), 64, 2.0**-11, 2.0**-25),
        (GemmCase(), 16384, 2.0**-24 * 16384, 2.0**-25),
        (GemmCase("f8", "f8", "f16"), 64, 2.0**-4, 2.0**-25),
        (GemmCase("f8", "bf8", "bf16"), 64, 2.0**-3, 2.0**-134),
        (GemmCase("f32", "f32", "f32", bias="row", activation="gelu", scale_a="row", scale_b="row", alpha=2.0), 10, 2.0**-24 * 31, 2.0**-150),
        (GemmCase("f64", "f64", "f64", accumulator="f64"), 100, 2.0**-53 * 100, 0.0),
        (GemmCase("i8", "i8", "i32", accumulator="i32"), 100, 0.0, 0.0),
        (GemmCase("i8", "i8", "i8", accumulator="i32", alpha=0.1), 100, 2.0**-24, 1.0),
        (GemmCase("f16", "f16", "i8"), 16, 2.0**-20, 1.0),
    ],
)  # fmt: skip
def test_tolerances_are_ck_s(case: GemmCase, k: int, relative: float, floor: float) -> None:
    found = tolerance_of(Trial(case, Size(4, 4, k)).problem)
    assert (found.relative, found.floor) == (relative, floor)


def test_activations_are_those_of_kernel_files() -> None:
    assert set(ACTIVATIONS) == set(KNOWN_ACTIVATIONS)
    values = np.array([-1000.0, -3.0, -0.5, 0.0, 0.5, 3.0, 1000.0])
    for name, function in ACTIVATIONS.items():
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(function(values), EXPECTED_ACTIVATIONS[name](values), rtol=1e-14, atol=1e-300)


def test_generated_inputs_go_into_the_reference() -> None:
    problem = Trial(EPILOGUE, Size(16, 16, 32, padding=1)).problem
    reference = Reference(problem, make_inputs(problem, 1))
    assert reference.is_full
    assert np.isfinite(reference._comparison.expected).all()


def custom(problem: KernelProblem) -> KernelProblem:
    return replace(problem, computed=None, flops=None)


def test_of_a_custom_kernel_only_the_places_are_checked() -> None:
    trial = Trial(GemmCase(), Size(8, 8, 16, padding=2))
    problem, y = custom(trial.problem), trial.result()
    y[3] = 0xFFFF
    check_written(problem, {"Y": y}, fnuz=False)
    with pytest.raises(WrongResultError) as caught:
        check_written(problem, {"Y": poison(problem.buffer("Y"), False)}, fnuz=False)
    assert caught.value.kind is UNWRITTEN
    y[8] = 0
    with pytest.raises(WrongResultError) as caught:
        check_written(problem, {"Y": y}, fnuz=False)
    assert caught.value.kind is OUT_OF_BOUNDS
    with pytest.raises(ValueError, match="not known"):
        Reference(problem, trial.run.buffers)
