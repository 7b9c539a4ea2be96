"""Verifies the outputs of a kernel that computes row by row against its reference.

The references are those of `ckwatch.bench.numerics.references`, the tolerance is that of a contraction
(`ckwatch.bench.numerics.verification`) with the length of the computation's sums. Beyond `full_check_macs` a sample of
each output's rows is compared, the first and last among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from operator import mul

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.comparison import ExpectedOutput, OutputCheck, span_text
from ckwatch.bench.numerics.references import REFERENCES, Given
from ckwatch.bench.numerics.storage import Mask, Storage, sample_indices, tensor_elements, widen
from ckwatch.bench.numerics.tolerance import tolerance_of_rows
from ckwatch.bench.numerics.verification import MAXIMUM_COMPARED, Reference, check_written
from ckwatch.model.kernel_problem import ComputedRows, KernelProblem, TensorView


class _Output:
    """The right values of some rows of an output."""

    def __init__(
        self, problem: KernelProblem, rows: ComputedRows, role: str, given: Given, indices: npt.NDArray[np.int64]
    ) -> None:
        reference = REFERENCES[rows.reference]
        self.view = rows.view(role)
        self.buffer = problem.buffer(self.view.buffer)
        self.indices = indices
        self.columns = self.view.sizes[-1]
        expected = reference.expected(given, role, indices).reshape(indices.size, self.columns)
        self.comparison = ExpectedOutput(
            self.buffer.name,
            self.buffer.dtype,
            expected,
            np.abs(expected),
            tolerance_of_rows(rows, self.buffer.dtype),
            rows.fnuz,
        )
        self.is_full = indices.size == row_count(self.view)
        self.optional = np.zeros(self.view.sizes, np.bool_)
        by_row = self.optional.reshape(-1, self.columns)
        if reference.left_out is not None:
            by_row[reference.left_out(given, role)] = True
        by_row[indices] |= np.isnan(expected)

    def of_rows(self, tensor: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The compared rows of the output."""
        at = np.unravel_index(self.indices, self.view.sizes[:-1]) if len(self.view.sizes) > 1 else ()
        return np.ascontiguousarray(tensor[at]).reshape(self.indices.size, self.columns)

    def compare(self, outputs: Mapping[str, Storage], written: Mapping[str, Mask] | None, *, fnuz: bool) -> OutputCheck:
        """Raises WrongResultError."""
        found = widen(self.of_rows(tensor_elements(outputs[self.buffer.name], self.view)), self.buffer.dtype, fnuz)
        mask = None
        if written is not None:
            mask = self.of_rows(tensor_elements(written[self.buffer.name], self.view)).astype(np.bool_)
        return self.comparison.check(
            *(found, mask), whole=self.is_full, span=self._span_of, name_of=self._name_of, offset_of=self._offset_of
        )

    def _span_of(self, wrong: Mask) -> str:
        rows, columns = np.nonzero(wrong)
        return f"rows {span_text(self.indices[rows])}, columns {span_text(columns)}"

    def _index_of(self, place: int) -> tuple[int, ...]:
        row, column = divmod(place, self.columns)
        index = np.unravel_index(int(self.indices[row]), self.view.sizes[:-1]) if len(self.view.sizes) > 1 else ()
        return (*map(int, index), column)

    def _name_of(self, place: int) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self._index_of(place)))}]"

    def _offset_of(self, place: int) -> int:
        return sum(map(mul, self._index_of(place), self.view.strides))


class RowsReference:
    """The right values of all outputs that are computed row by row, or of a sample of their rows.

    Arguments, methods and errors are those of `ckwatch.bench.numerics.verification.Reference`; `written` has those of
    each output.
    """

    def __init__(
        self,
        problem: KernelProblem,
        inputs: Mapping[str, Storage],
        full_check_macs: int = 1 << 29,
        seed: int = 0,
        written: Mapping[str, Mask] | None = None,
    ) -> None:
        if problem.rows is None:
            raise ValueError("what the kernel computes is not known row by row")
        self._problem = problem
        self._rows = problem.rows
        self._written = written
        given = Given(problem, inputs)
        written_buffers = {buffer.name for buffer in problem.buffers if buffer.output}
        self._outputs = [
            _Output(problem, self._rows, role, given, self._sampled(view, full_check_macs, seed))
            for role, view in self._rows.tensors
            if view.buffer in written_buffers
        ]

    def _sampled(self, view: TensorView, full_check_macs: int, seed: int) -> npt.NDArray[np.int64]:
        rows = row_count(view)
        each = max(1, self._rows.macs // rows)
        return sample_indices(rows, max(1, min(full_check_macs // each, MAXIMUM_COMPARED // view.sizes[-1])), seed)

    @property
    def is_full(self) -> bool:
        return all(output.is_full for output in self._outputs)

    @property
    def optional(self) -> Mapping[str, Mask]:
        """By buffer, which elements of an output the kernel need not write."""
        return {output.buffer.name: output.optional for output in self._outputs}

    @property
    def description(self) -> str:
        part = "every element" if self.is_full else f"{sum(one.indices.size for one in self._outputs):,} sampled rows"
        return f"numpy on the host, f64, {part}"

    def check(self, outputs: Mapping[str, Storage], again: Mapping[str, Storage] | None = None) -> OutputCheck:
        """Compare the outputs of one run on poisoned memory. Raises WrongResultError."""
        check_written(self._problem, outputs, self._rows.fnuz, again, optional=self.optional)
        return self._compare(outputs, None)

    def check_part(self, outputs: Mapping[str, Storage]) -> OutputCheck:
        """Compare the elements that were `written` alone. Raises WrongResultError."""
        return self._compare(outputs, self._written)

    def _compare(self, outputs: Mapping[str, Storage], written: Mapping[str, Mask] | None) -> OutputCheck:
        return OutputCheck.of_all([output.compare(outputs, written, fnuz=self._rows.fnuz) for output in self._outputs])


def row_count(view: TensorView) -> int:
    return prod(view.sizes[:-1])


def reference_of(
    problem: KernelProblem,
    inputs: Mapping[str, Storage],
    full_check_macs: int = 1 << 29,
    seed: int = 0,
    written: Mapping[str, Mask] | None = None,
) -> Reference | RowsReference | None:
    """The reference of a problem; None where it is not known what the kernel computes."""
    if problem.rows is not None:
        return RowsReference(problem, inputs, full_check_macs, seed, written)
    if problem.gemm is None:
        return None
    of_output = None if written is None else written[problem.gemm.y.buffer]
    return Reference(problem, inputs, full_check_macs, seed, of_output)
