"""What a GEMM must have computed, and whether it did.

The reference is computed on the host in f64 from the same rounded inputs; products with an f64 accumulator are summed
in blocks whose sums are added in extended precision, so that the reference is better than what it judges. Beyond
`full_check_macs` a sample of rows × columns is compared, edges among them; that nothing is left unwritten and nothing
beside the output is written is looked at everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.activation import ACTIVATIONS
from ckwatch.bench.numerics.elements import INTEGERS, LARGEST, SMALL_FLOATS, Doubles, Storage, widen
from ckwatch.bench.numerics.places import chosen, placed
from ckwatch.bench.numerics.tolerance import tolerance_of
from ckwatch.bench.numerics.verdict import SHOWN, Checked, WrongNumerics, check_written
from ckwatch.timing.problem import Gemm, Problem, View
from ckwatch.timing.report import FailureKind

MAXIMUM_COMPARED = 1 << 23
"""Elements that are compared at most, also where K is so small that `full_check_macs` would allow more."""

LEAST_SIDE = 16
"""Rows and columns of a sample at least."""

BLOCK_ELEMENTS = 1 << 23
"""Operand elements that are widened to f64 at once."""

F64_BLOCK = 64
"""Products that an f64 sum takes before it is added in extended precision."""


class Reference:
    """The right values of a GEMM's output, or of a sample of it; made once, then used for every run.

    `inputs` are the stored elements of each buffer that is read (`make_inputs`); they are not kept. Raises ValueError
    for a problem that is no GEMM, and KeyError for an unknown activation.
    """

    def __init__(
        self, problem: Problem, inputs: Mapping[str, Storage], full_check_macs: int = 1 << 29, seed: int = 0
    ) -> None:
        if problem.gemm is None:
            raise ValueError("what the kernel computes is not known")
        self._problem = problem
        self._gemm = problem.gemm
        self._y = problem.buffer(self._gemm.y.buffer)
        self._rows, self._columns = sampled(self._gemm, full_check_macs, seed)
        tolerance = tolerance_of(problem)
        product = self._product(inputs)
        before = self._before_activation(product, inputs)
        after = ACTIVATIONS[self._gemm.activation](before)
        if self._y.dtype in INTEGERS:
            after = np.rint(after)
        magnitude = np.maximum(np.abs(before), np.abs(after))
        self._relative = tolerance.relative
        self._absolute = tolerance.floor + tolerance.relative * float(magnitude.max())
        self._mean_allowed = tolerance.floor + tolerance.relative * _root_mean_square(magnitude)
        self._expected = after

    @property
    def compared(self) -> int:
        """Elements of the output that are compared."""
        return self._expected.size

    @property
    def is_full(self) -> bool:
        """Whether every element is compared."""
        return self._expected.shape == self._gemm.y.sizes

    @property
    def description(self) -> str:
        """How the reference was made, for people."""
        how = "f64 blocks in extended precision" if self._gemm.accumulator == "f64" else "f64"
        rows, columns = self._expected.shape
        part = "every element" if self.is_full else f"{rows:,} × {columns:,} sampled rows and columns"
        return f"numpy on the host, {how}, {part}"

    def check(self, outputs: Mapping[str, Storage]) -> Checked:
        """Compare the outputs of one run on poisoned memory (`poison`); elements behind a buffer's own are a guard.

        Raises WrongNumerics (`check_written`, and WRONG where a value is too far from the reference).
        """
        check_written(self._problem, outputs, self._gemm.fnuz)
        stored = placed(outputs[self._y.name][: self._y.elements], self._gemm.y)
        found = widen(_of_lines(stored, self._rows, self._columns), self._y.dtype, self._gemm.fnuz)
        differences, errors = self._errors(found)
        wrong = errors > 1
        if wrong.any():
            raise self._wrong(found, errors, wrong)
        if (mean := _root_mean_square(differences)) > self._mean_allowed:
            raise WrongNumerics(
                FailureKind.WRONG,
                f"the elements of {self._y.name} are too far from the reference, all in all",
                f"root mean square of the errors {mean:.3g}, allowed {self._mean_allowed:.3g}; no single element is "
                f"beyond its own tolerance ({self._tolerance_text()})" + self._similarity(found),
            )
        return Checked(
            compared=errors.size,
            worst_error=float(errors.max()),
            rtol=self._relative,
            atol=self._absolute,
        )

    def _product(self, inputs: Mapping[str, Storage]) -> Doubles:
        rows, columns, depth = self._rows.size, self._columns.size, self._gemm.x.sizes[1]
        is_f64 = self._gemm.accumulator == "f64"
        block = min(F64_BLOCK, depth) if is_f64 else max(1, min(depth, BLOCK_ELEMENTS // (rows + columns)))
        total = np.zeros((rows, columns), np.longdouble if is_f64 else np.float64)
        x, w = (placed(inputs[view.buffer], view) for view in (self._gemm.x, self._gemm.w))
        x_dtype, w_dtype = (self._problem.buffer(view.buffer).dtype for view in (self._gemm.x, self._gemm.w))
        for begin in range(0, depth, block):
            some = slice(begin, begin + block)
            x_rows = widen(_of_lines(x[:, some], self._rows, None), x_dtype, self._gemm.fnuz)
            w_columns = widen(_of_lines(w[some], None, self._columns), w_dtype, self._gemm.fnuz)
            total += x_rows @ w_columns
        return total.astype(np.float64, copy=False)

    def _before_activation(self, product: Doubles, inputs: Mapping[str, Storage]) -> Doubles:
        gemm = self._gemm
        for scale in (gemm.scale_x, gemm.scale_w):
            if scale is not None:
                product *= self._values(scale, inputs)
        if gemm.alpha != 1:
            product *= gemm.alpha
        if gemm.bias is not None:
            product += gemm.beta * self._values(gemm.bias, inputs)
        return product

    def _values(self, view: View, inputs: Mapping[str, Storage]) -> Doubles:
        """An M×N operand at the compared places, widened once where it repeats itself."""
        stored = placed(inputs[view.buffer], view)
        rows = self._rows if view.strides[0] else np.zeros(1, np.intp)
        columns = self._columns if view.strides[1] else np.zeros(1, np.intp)
        return widen(stored[np.ix_(rows, columns)], self._problem.buffer(view.buffer).dtype, self._gemm.fnuz)

    def _errors(self, found: Doubles) -> tuple[Doubles, Doubles]:
        """|y - reference|, and the same in units of what it may be."""
        low, high = _range_of(self._y.dtype, self._gemm.fnuz)
        expected = self._expected if math.isinf(high) else np.clip(self._expected, low, high)
        equal = found == expected
        if self._y.dtype in LARGEST:
            # too large for the output: its infinity and its largest value are both right
            limit = LARGEST[self._y.dtype]
            equal |= (np.abs(expected) > limit) & (np.abs(found) >= limit) & (found * expected > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            differences = np.where(equal, 0.0, np.abs(found - expected))
            errors = np.where(equal, 0.0, differences / (self._absolute + self._relative * np.abs(expected)))
        return differences, errors

    def _wrong(self, found: Doubles, errors: Doubles, wrong: npt.NDArray[np.bool_]) -> WrongNumerics:
        rows, columns = np.nonzero(wrong)
        worst = np.unravel_index(int(np.argmax(errors)), errors.shape)
        shown = [(int(worst[0]), int(worst[1])), *zip(rows[:SHOWN].tolist(), columns[:SHOWN].tolist(), strict=True)]
        name = self._y.name
        lines = [
            f"tolerance: {self._tolerance_text()}",
            f"wrong are rows {self._span(self._rows[rows])}, columns {self._span(self._columns[columns])}",
            *(
                f"{name}[{self._rows[row]}, {self._columns[column]}] is {found[row, column]:.9g}, "
                f"reference {self._expected[row, column]:.9g}"
                for row, column in dict.fromkeys(shown)
            ),
        ]
        of = "" if self.is_full else " compared"
        return WrongNumerics(
            FailureKind.WRONG,
            f"{rows.size:,} of {errors.size:,}{of} elements of {name} are wrong",
            "\n".join(lines) + self._similarity(found),
        )

    def _tolerance_text(self) -> str:
        return f"{self._absolute:.3g} + {self._relative:.3g} · |reference|"

    def _similarity(self, found: Doubles) -> str:
        """A line about what the result is instead, if that can be said."""
        if not found.any():
            return f"\nall elements of {self._y.name} are 0"
        factor = _common_factor(found, self._expected)
        return "" if factor is None else f"\nthe elements are about {factor:.4g} times the reference"

    @staticmethod
    def _span(indices: npt.NDArray[np.intp]) -> str:
        return f"{int(indices.min()):,} to {int(indices.max()):,}"


def sampled(gemm: Gemm, full_check_macs: int, seed: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The rows and columns of the output that are compared: all of them, or as many as M·N·K macs allow."""
    rows, columns = gemm.y.sizes
    budget = min(full_check_macs // gemm.x.sizes[1], MAXIMUM_COMPARED)
    if rows * columns <= budget:
        return np.arange(rows), np.arange(columns)
    side = max(LEAST_SIDE, math.isqrt(budget))
    fewer = min(side, rows, columns)
    longer = max(side, budget // fewer)
    some_rows, some_columns = (fewer, longer) if rows <= columns else (longer, fewer)
    return chosen(rows, some_rows, seed), chosen(columns, some_columns, seed + 1)


def _of_lines(matrix: Storage, rows: npt.NDArray[np.intp] | None, columns: npt.NDArray[np.intp] | None) -> Storage:
    """Some rows and columns of a matrix; a copy only where not all of them are asked for."""
    if rows is not None and rows.size < matrix.shape[0]:
        matrix = matrix[rows]
    if columns is not None and columns.size < matrix.shape[1]:
        matrix = matrix[:, columns]
    return np.ascontiguousarray(matrix)


def _range_of(dtype: str, fnuz: bool) -> tuple[float, float]:
    """What an output saturates at."""
    if dtype in INTEGERS:
        return INTEGERS[dtype]
    if dtype in ("f8", "bf8"):
        largest = SMALL_FLOATS[dtype, fnuz].largest
        return -largest, largest
    return -math.inf, math.inf


def _root_mean_square(values: Doubles) -> float:
    with np.errstate(over="ignore"):
        return math.sqrt(float(np.mean(np.square(values))))


def _common_factor(found: Doubles, expected: Doubles) -> float | None:
    """What all of `found` are of `expected`, if they are about the same part of it."""
    clear = np.isfinite(found) & (np.abs(expected) > 0.1 * np.abs(expected).max(initial=0.0))
    if np.count_nonzero(clear) < LEAST_SIDE:
        return None
    ratios = found[clear] / expected[clear]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return float(middle) if math.isfinite(middle) and abs(high - low) <= 0.02 * abs(middle) else None
