"""Verifies a kernel's outputs: everything is written, nothing beside it, and a GEMM is close enough to its reference.

The reference is computed on the host in f64 from the same rounded inputs; products with an f64 accumulator are summed
in blocks whose sums are added in extended precision, so that the reference is better than what it judges. Beyond
`full_check_macs` a sample of rows × columns is compared, edges among them; unwritten elements and writes beside the
output are looked for everywhere.

How far a right result may be from the reference is CK's rule, `ck/library/utility/check_err.hpp`
(get_relative_threshold, get_absolute_threshold):

    rtol = max(2^-mant_acc · 0.5 · n, max(2^-mant_compute, 2^-mant_out) · 0.5),  atol = rtol · max|reference|

n counts the roundings in the accumulator's precision: K, and those of the epilogue, of which an activation has 16. The
compute type is the operand with the shorter mantissa; integers do not round. atol also gets half of the output's
smallest value, which is what rounding costs near 0.

With 8-bit operands this allows every element of a large GEMM an error of a quarter of what elements usually are. So
the root mean square of all errors is checked too: it must stay within rtol of that of the reference alone, without
atol, which a result that is off by a slice of K, a scale or a bias does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.activations import ACTIVATIONS
from ckwatch.bench.numerics.comparison import SHOWN, ExpectedOutput, OutputCheck, WrongResultError, span_text
from ckwatch.bench.numerics.storage import (
    Doubles,
    Mask,
    Storage,
    gap_mask,
    is_nan,
    matrix_elements,
    matrix_offsets,
    poison_element,
    sample_indices,
    tensor_elements,
    widen,
)
from ckwatch.bench.numerics.tolerance import INTEGERS, tolerance_of
from ckwatch.bench.report import FailureKind
from ckwatch.model.contractions import MatrixView
from ckwatch.model.kernel_problem import Buffer, Gemm, KernelProblem, TensorView
from ckwatch.model.lazy_dataclass import dataclass

CHUNK = 1 << 20


def check_written(
    problem: KernelProblem,
    outputs: Mapping[str, Storage],
    fnuz: bool,
    again: Mapping[str, Storage] | None = None,
    optional: Mapping[str, Mask] | None = None,
) -> None:
    """Look at every element of outputs that were poisoned before the run.

    `outputs` are the stored elements of each output buffer by name; elements behind the buffer's own are a guard.
    `again` are those of another run with the same inputs, on the second poison: what still holds either is unwritten,
    and what differs otherwise is not deterministic. Without it, NaN with the bits of the poison are taken as unwritten.
    `optional`: elements of the output tensors of some buffers, in their shape, that may be left as they are.

    Raises WrongResultError: OUT_OF_BOUNDS where a gap or the guard was written, UNWRITTEN where poison is left in an
    output (if it is not known what is computed: where nothing was written at all), NONDETERMINISTIC, and WRONG where
    NaN was written though it is known what is computed. Raises KeyError for a missing output.
    """
    for buffer in problem.buffers:
        if not buffer.output:
            continue
        gaps = gap_mask(problem, buffer)
        first = outputs[buffer.name]
        second = None if again is None else again[buffer.name]
        _check_out_of_bounds(problem, buffer, first, gaps, poison_element(buffer.dtype, fnuz))
        if second is not None:
            _check_out_of_bounds(problem, buffer, second, gaps, poison_element(buffer.dtype, fnuz, second=True))
        ignored = _ignored(problem, buffer, gaps, None if optional is None else optional.get(buffer.name))
        # what was there before may stay in an output that keeps it
        left = np.arange(0) if buffer.given else _unwritten(buffer, first, second, ignored, fnuz)
        total = buffer.elements - (0 if ignored is None else int(np.count_nonzero(ignored)))
        if total and left.size == total:
            raise WrongResultError(FailureKind.UNWRITTEN, f"the kernel wrote nothing to {buffer.name}")
        if left.size and problem.is_compared:
            raise WrongResultError(
                FailureKind.UNWRITTEN,
                f"the kernel left {left.size:,} of {total:,} elements of {buffer.name} unwritten",
                f"they hold what was there before the run: {_named_indices(problem, buffer, left)}",
            )
        if second is not None:
            _check_deterministic(problem, buffer, first, second, ignored, left)
        if problem.is_compared and not may_be_nan(problem, buffer.name):
            _check_numbers(problem, buffer, first, ignored, fnuz)


def may_be_nan(problem: KernelProblem, buffer: str) -> bool:
    """Return True if a user's reference may say that elements of a buffer are NaN."""
    outputs = () if problem.reference is None else problem.reference.outputs
    return any(one.nan for one in outputs if one.view.buffer == buffer)


def _ignored(problem: KernelProblem, buffer: Buffer, gaps: Mask | None, optional: Mask | None) -> Mask | None:
    """The gaps, and what need not be written."""
    if optional is None or not optional.any():
        return gaps
    ignored = np.zeros(buffer.elements, np.bool_) if gaps is None else gaps.copy()
    view = next(view for view in problem.views if view.buffer == buffer.name)
    tensor_elements(ignored, view)[optional] = True
    return ignored


def index_at(offset: int, view: TensorView) -> tuple[int, ...]:
    """The index whose element lies at an offset of the buffer; of a gap the one it would be with longer lines."""
    index = [0] * len(view.sizes)
    for axis in sorted(range(len(view.sizes)), key=lambda axis: view.strides[axis], reverse=True):
        if view.strides[axis] and view.sizes[axis] > 1:
            index[axis], offset = divmod(offset, view.strides[axis])
    return tuple(index)


def _named_indices(problem: KernelProblem, buffer: Buffer, offsets: npt.NDArray[np.intp]) -> str:
    """`Y[3, 5], Y[3, 6]` for the first of the places at `offsets`."""
    view = next(view for view in problem.views if view.buffer == buffer.name)
    names = [f"{buffer.name}[{', '.join(map(str, index_at(int(at), view)))}]" for at in offsets[:SHOWN]]
    return ", ".join(names) + (", …" if len(offsets) > SHOWN else "")


def _check_out_of_bounds(
    problem: KernelProblem, buffer: Buffer, elements: Storage, gaps: Mask | None, pattern: np.generic
) -> None:
    behind = np.flatnonzero(_differs(elements[buffer.elements :], pattern))
    if behind.size:
        last = buffer.elements - 1
        raise WrongResultError(
            FailureKind.OUT_OF_BOUNDS,
            f"the kernel wrote {behind.size:,} elements behind the end of {buffer.name}",
            f"{buffer.name} has {buffer.elements:,} elements; the first that was written behind it is "
            f"{int(behind[0]) + 1:,} behind its last, the last {int(behind[-1]) + 1:,} (offsets from {last + 1:,})",
        )
    if gaps is None:
        return
    offsets = _offsets(buffer, elements, lambda at, part: _differs(part, pattern) & gaps[at])
    if offsets.size:
        raise WrongResultError(
            FailureKind.OUT_OF_BOUNDS,
            f"the kernel wrote {offsets.size:,} elements beside {buffer.name}, in the gaps that its leading dimension "
            "leaves",
            f"the first, as if lines had no end: {_named_indices(problem, buffer, offsets)}",
        )


def _unwritten(
    buffer: Buffer, first: Storage, second: Storage | None, gaps: Mask | None, fnuz: bool
) -> npt.NDArray[np.intp]:
    """The offsets of elements that still hold the poison, gaps left out."""
    pattern, other = (poison_element(buffer.dtype, fnuz, second=second) for second in (False, True))
    if second is None and buffer.dtype in INTEGERS:
        return np.arange(0)  # every pattern is a result too

    def is_left(at: slice, part: Storage) -> Mask:
        left = ~_differs(part, pattern)
        return left if second is None else left & ~_differs(second[at], other)

    return _offsets(buffer, first, is_left, gaps)


def _check_deterministic(
    problem: KernelProblem,
    buffer: Buffer,
    first: Storage,
    second: Storage,
    gaps: Mask | None,
    left: npt.NDArray[np.intp],
) -> None:
    unequal = _offsets(buffer, first, lambda at, part: _differs(part, second[at]), gaps)
    offsets = np.setdiff1d(unequal, left, assume_unique=True)
    if offsets.size:
        raise WrongResultError(
            FailureKind.NONDETERMINISTIC,
            "the same input gives another result when the kernel runs again",
            f"{buffer.name}: {offsets.size:,} of {buffer.elements:,} elements, "
            f"{_named_indices(problem, buffer, offsets)}; atomic additions, races, and reads of what nothing wrote "
            "do that",
        )


def _check_numbers(problem: KernelProblem, buffer: Buffer, elements: Storage, gaps: Mask | None, fnuz: bool) -> None:
    """WRONG where a result is NaN."""
    if buffer.dtype in INTEGERS:
        return
    offsets = _offsets(buffer, elements, lambda _at, part: is_nan(part, buffer.dtype, fnuz), gaps)
    if offsets.size:
        total = buffer.elements - (0 if gaps is None else int(np.count_nonzero(gaps)))
        raise WrongResultError(
            FailureKind.WRONG,
            f"{offsets.size:,} of {total:,} elements of {buffer.name} are NaN",
            f"{_named_indices(problem, buffer, offsets)}; inputs hold NaN only behind their ends and in the gaps that "
            "leading dimensions leave: the kernel reads those, or memory that nothing wrote",
        )


def _differs(elements: Storage, others: Storage | np.generic) -> Mask:
    """Return a mask of elements whose bits differ from those of `others`, NaN among them."""
    unsigned = np.dtype(f"u{elements.itemsize}")
    different: Mask = elements.view(unsigned) != np.asarray(others).view(unsigned)
    return different


def _offsets(
    buffer: Buffer, elements: Storage, is_found: Callable[[slice, Storage], Mask], left_out: Mask | None = None
) -> npt.NDArray[np.intp]:
    """The offsets of the buffer's elements that `is_found` marks, part by part."""
    found = [np.arange(0)]
    for begin in range(0, buffer.elements, CHUNK):
        at = slice(begin, min(begin + CHUNK, buffer.elements))
        marked = is_found(at, elements[at])
        found.append(begin + np.flatnonzero(marked if left_out is None else marked & ~left_out[at]))
    return np.concatenate(found)


MAXIMUM_COMPARED = 1 << 23
"""Elements that are compared at most, also where K is so small that `full_check_macs` would allow more."""

LEAST_SIDE = 16
"""Rows and columns of a sample at least."""

BLOCK_ELEMENTS = 1 << 23
"""Operand elements that are widened to f64 at once."""

F64_BLOCK = 64
"""Products that an f64 sum takes before it is added in extended precision."""


Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The compared part of a result: these rows and columns of these matrices."""

    matrices: Indices
    rows: Indices
    columns: Indices

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the compared elements."""
        return self.matrices.size, self.rows.size, self.columns.size


class Reference:
    """The right values of a contraction's output, or of a sample of it; made once, then used for every run.

    `inputs` are the stored elements of each buffer that is read (`make_inputs`); they are not kept. `written`: which
    elements of the output's buffer a run has written, if that is not all; lines without any are left out. Raises
    ValueError for a problem whose computation is not known, and KeyError for an unknown activation.
    """

    def __init__(
        self,
        problem: KernelProblem,
        inputs: Mapping[str, Storage],
        full_check_macs: int = 1 << 29,
        seed: int = 0,
        written: Mask | None = None,
    ) -> None:
        if problem.gemm is None:
            raise ValueError("what the kernel computes is not known")
        self._problem = problem
        self._gemm = problem.gemm
        self._y = problem.buffer(self._gemm.y.buffer)
        self._written = written
        self._lines = (
            sampled_lines(self._gemm, full_check_macs, seed) if written is None else _lines_with(self._gemm, written)
        )
        expected = np.empty(self._lines.shape)
        magnitude = np.empty(self._lines.shape)
        for at, matrix in enumerate(self._lines.matrices.tolist()):
            expected[at], magnitude[at] = self._after_steps(self._product(inputs, matrix), inputs, matrix)
        self._comparison = ExpectedOutput(
            self._y.name, self._y.dtype, expected, magnitude, tolerance_of(problem), self._gemm.fnuz
        )

    @property
    def is_full(self) -> bool:
        return self._comparison.expected.shape == (self._gemm.y.matrices, *self._gemm.y.sizes)

    @property
    def optional(self) -> Mapping[str, Mask]:
        """Elements that need not be written: none."""
        return {}

    @property
    def description(self) -> str:
        how = "f64 blocks in extended precision" if self._gemm.accumulator == "f64" else "f64"
        matrices, rows, columns = self._comparison.expected.shape
        part = "every element" if self.is_full else f"{rows:,} × {columns:,} sampled rows and columns"
        if matrices < self._gemm.y.matrices:
            part += f" of {matrices:,} matrices"
        return f"numpy on the host, {how}, {part}"

    def check(self, outputs: Mapping[str, Storage], again: Mapping[str, Storage] | None = None) -> OutputCheck:
        """Compare the outputs of one run on poisoned memory (`poison`); elements behind a buffer's own are a guard.

        `again`: `check_written`. Raises WrongResultError (`check_written`, and WRONG where a value is too far from the
        reference).
        """
        check_written(self._problem, outputs, self._gemm.fnuz, again)
        return self._compare(outputs, None)

    def check_part(self, outputs: Mapping[str, Storage]) -> OutputCheck:
        """Compare the elements that were `written` alone; as `check`."""
        return self._compare(outputs, None if self._written is None else self._compared_of(self._written))

    def _compared_of(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the compared part of the output's elements."""
        lines = self._lines
        found = [
            matrix_elements(elements, self._gemm.y, matrix, lines.rows, lines.columns)
            for matrix in lines.matrices.tolist()
        ]
        return np.stack(found)

    def _compare(self, outputs: Mapping[str, Storage], written: Mask | None) -> OutputCheck:
        found = widen(self._compared_of(outputs[self._y.name]), self._y.dtype, self._gemm.fnuz)
        return self._comparison.check(
            *(found, written), whole=self.is_full, span=self._span_of, name_of=self._name_of, offset_of=self._offset_of
        )

    def _span_of(self, wrong: Mask) -> str:
        lines = self._lines
        matrices, rows, columns = np.nonzero(wrong)
        which = f"matrices {span_text(lines.matrices[matrices])}, " if self._gemm.y.matrices > 1 else ""
        return f"{which}rows {span_text(lines.rows[rows])}, columns {span_text(lines.columns[columns])}"

    def _product(self, inputs: Mapping[str, Storage], matrix: int) -> Doubles:
        gemm, lines = self._gemm, self._lines
        rows, columns, depth = lines.rows.size, lines.columns.size, gemm.x.sizes[1]
        is_f64 = gemm.accumulator == "f64"
        block = min(F64_BLOCK, depth) if is_f64 else max(1, min(depth, BLOCK_ELEMENTS // (rows + columns)))
        total = np.zeros((rows, columns), np.longdouble if is_f64 else np.float64)
        x_dtype, w_dtype = (self._problem.buffer(view.buffer).dtype for view in (gemm.x, gemm.w))
        for begin in range(0, depth, block):
            some = np.arange(begin, min(begin + block, depth))
            x = matrix_elements(inputs[gemm.x.buffer], gemm.x, matrix, lines.rows, some)
            w = matrix_elements(inputs[gemm.w.buffer], gemm.w, matrix, some, lines.columns)
            scaled_x, scaled_w = widen(x, x_dtype, gemm.fnuz), widen(w, w_dtype, gemm.fnuz)
            if gemm.x_scale is not None:
                scaled_x = scaled_x * self._elements(gemm.x_scale, inputs, matrix, lines.rows, some)
            if gemm.w_scale is not None:
                scaled_w = scaled_w * self._elements(gemm.w_scale, inputs, matrix, some, lines.columns)
            total += scaled_x @ scaled_w
        return total.astype(np.float64, copy=False)

    def _after_steps(self, value: Doubles, inputs: Mapping[str, Storage], matrix: int) -> tuple[Doubles, Doubles]:
        """The output, and the largest magnitude that it had before an activation or has."""
        magnitude = np.zeros_like(value)
        for step in self._gemm.steps:
            if step.kind == "activation":
                magnitude = np.maximum(magnitude, np.abs(value))
                value = ACTIVATIONS[step.activation](value)
                continue
            operand = step.factor if step.operand is None else step.factor * self._values(step.operand, inputs, matrix)
            value = value * operand if step.kind == "multiply" else value + operand
        if self._y.dtype in INTEGERS:
            value = np.rint(value)
        return value, np.maximum(magnitude, np.abs(value))

    def _elements(
        self, view: MatrixView, inputs: Mapping[str, Storage], matrix: int, rows: Indices, columns: Indices
    ) -> Doubles:
        stored = matrix_elements(inputs[view.buffer], view, matrix, rows, columns)
        return widen(stored, self._problem.buffer(view.buffer).dtype, self._gemm.fnuz)

    def _values(self, view: MatrixView, inputs: Mapping[str, Storage], matrix: int) -> Doubles:
        """An operand of the result's indices at the compared places, widened once where it repeats itself."""
        once = np.zeros(1, np.intp)
        rows = self._lines.rows if any(stride for _, stride in view.rows) else once
        columns = self._lines.columns if any(stride for _, stride in view.columns) else once
        return self._elements(view, inputs, matrix, rows, columns)

    def _name_of(self, place: int) -> str:
        """`Y[3, 5]`, for a place among what is compared."""
        return _named_indices(self._problem, self._y, np.array([self._offset_of(place)]))

    def _offset_of(self, place: int) -> int:
        lines, y = self._lines, self._gemm.y
        matrix, row, column = np.unravel_index(place, lines.shape)
        rows, columns = lines.rows[row : row + 1], lines.columns[column : column + 1]
        return int(matrix_offsets(y, int(lines.matrices[matrix]), rows, columns).flat[0])


LEAST_MATRICES = 4
"""Matrices of a sample at least."""


def sampled_lines(gemm: Gemm, full_check_macs: int, seed: int) -> Lines:
    """Return the part of the output to compare: all of it, or as much as M·N·K macs of each matrix allow."""
    (rows, columns), matrices = gemm.y.sizes, gemm.y.matrices
    budget = min(full_check_macs // gemm.x.sizes[1], MAXIMUM_COMPARED)
    some = sample_indices(matrices, max(LEAST_MATRICES, budget // (rows * columns)), seed + 2)
    budget //= some.size
    if rows * columns <= budget:
        return Lines(matrices=some, rows=np.arange(rows), columns=np.arange(columns))
    side = max(LEAST_SIDE, math.isqrt(budget))
    fewer = min(side, rows, columns)
    longer = max(side, budget // fewer)
    some_rows, some_columns = (fewer, longer) if rows <= columns else (longer, fewer)
    return Lines(
        matrices=some,
        rows=sample_indices(rows, some_rows, seed),
        columns=sample_indices(columns, some_columns, seed + 1),
    )


def _lines_with(gemm: Gemm, written: Mask) -> Lines:
    """The lines with a written element, of the matrices with one."""
    rows, columns = (np.arange(size) for size in gemm.y.sizes)
    of_rows, of_columns = np.zeros(rows.size, np.bool_), np.zeros(columns.size, np.bool_)
    matrices = []
    for matrix in range(gemm.y.matrices):
        found = matrix_elements(written, gemm.y, matrix, rows, columns)
        if found.any():
            matrices.append(matrix)
            of_rows |= found.any(axis=1)
            of_columns |= found.any(axis=0)
    return Lines(matrices=np.array(matrices, np.intp), rows=np.flatnonzero(of_rows), columns=np.flatnonzero(of_columns))
