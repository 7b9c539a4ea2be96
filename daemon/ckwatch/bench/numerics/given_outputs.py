"""Compares outputs with those of a user's reference, which are given as arrays.

An output has the values of the reference within its tolerance (`tolerance_of_output`); integers of the reference are
exact unless the kernel file says otherwise. An infinity must be the same infinity, and NaN, where it is allowed, NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.comparison import SHOWN, ExpectedOutput, OutputCheck, WrongResultError, span_text
from ckwatch.bench.numerics.storage import Mask, Storage, tensor_elements, widen
from ckwatch.bench.numerics.tolerance import INTEGERS, tolerance_of_output
from ckwatch.bench.numerics.verification import check_written
from ckwatch.bench.report import FailureKind
from ckwatch.model.kernel_problem import KernelProblem, ReferenceOutput

GivenArrays = Mapping[str, npt.NDArray[Any]]
"""By the names of outputs: float64, or integers where the reference is exact."""


class _Output:
    def __init__(self, problem: KernelProblem, output: ReferenceOutput, values: npt.NDArray[Any], fnuz: bool) -> None:
        self.view = output.view
        self.buffer = problem.buffer(output.view.buffer)
        self._fnuz = fnuz
        expected = values.astype(np.float64)
        self._nan = np.isnan(expected)
        tolerance = tolerance_of_output(problem, output)
        is_exact = self.buffer.dtype in INTEGERS and values.dtype.kind in "iub" and not output.is_stated
        self._exact = values if is_exact else None
        magnitude = np.where(np.isfinite(expected), np.abs(expected), 0.0)
        self._comparison = ExpectedOutput(self.buffer.name, self.buffer.dtype, expected, magnitude, tolerance, fnuz)

    def compare(self, outputs: Mapping[str, Storage], written: Mapping[str, Mask] | None) -> OutputCheck:
        """Raises WrongResultError."""
        mask = None if written is None else self._of(written).astype(np.bool_)
        if self._exact is not None:
            return self._compare_exactly(self._of(outputs), self._exact, mask)
        found = widen(self._of(outputs), self.buffer.dtype, self._fnuz)
        numbers = self._nan & ~np.isnan(found) & (True if mask is None else mask)
        if numbers.any():
            first = int(np.flatnonzero(numbers)[0])
            raise WrongResultError(
                FailureKind.WRONG,
                f"{np.count_nonzero(numbers):,} of {numbers.size:,} elements of {self.buffer.name} are numbers and "
                "must be NaN",
                f"{self._name_of(first)} is {found.flat[first]:.9g}, reference nan",
            )
        return self._comparison.check(found, mask, whole=mask is None, span=self._span_of, name_of=self._name_of)

    def _compare_exactly(self, found: Storage, expected: npt.NDArray[Any], mask: Mask | None) -> OutputCheck:
        """Integers, of which doubles and nine digits do not have all. Raises WrongResultError."""
        wrong = (found != expected) if mask is None else (found != expected) & mask
        if wrong.any():
            shown = (
                f"{self._name_of(at)} is {found.flat[at]}, reference {expected.flat[at]}"
                for at in np.flatnonzero(wrong)[:SHOWN].tolist()
            )
            raise WrongResultError(
                FailureKind.WRONG,
                f"{np.count_nonzero(wrong):,} of {wrong.size:,} elements of {self.buffer.name} are wrong",
                "\n".join(("integers must be equal", f"wrong are {self._span_of(wrong)}", *shown)),
            )
        return OutputCheck(
            compared=wrong.size if mask is None else int(np.count_nonzero(mask)), worst_error=0.0, rtol=0.0, atol=0.0
        )

    def _of(self, elements: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.ascontiguousarray(tensor_elements(elements[self.buffer.name], self.view)).reshape(self.view.sizes)

    def _span_of(self, wrong: Mask) -> str:
        places = np.nonzero(wrong)
        if len(places) == 1:
            return f"elements {span_text(places[0])}"
        return ", ".join(f"axis {axis}: {span_text(at)}" for axis, at in enumerate(places))

    def _name_of(self, place: int) -> str:
        index = np.unravel_index(place, self.view.sizes) if self.view.sizes else ()
        return f"{self.buffer.name}[{', '.join(map(str, map(int, index)))}]"


class GivenReference:
    """The outputs of a user's reference on one problem. Raises ValueError for a problem without one."""

    def __init__(self, problem: KernelProblem, values: GivenArrays, written: Mapping[str, Mask] | None = None) -> None:
        reference = problem.reference
        if reference is None:
            raise ValueError("there is no reference")
        self._problem = problem
        self._fnuz = reference.fnuz
        self._name = reference.name
        self._written = written
        self._outputs = [_Output(problem, one, values[one.name], reference.fnuz) for one in reference.outputs]

    @property
    def is_full(self) -> bool:
        """Return True: every element is compared."""
        return True

    @property
    def optional(self) -> Mapping[str, Mask]:
        """Elements that need not be written: none."""
        return {}

    @property
    def description(self) -> str:
        return f"{self._name}, every element"

    def check(self, outputs: Mapping[str, Storage], again: Mapping[str, Storage] | None = None) -> OutputCheck:
        """Compare the outputs of one run on poisoned memory. Raises WrongResultError."""
        check_written(self._problem, outputs, self._fnuz, again, optional=self.optional)
        return self._compare(outputs, None)

    def check_part(self, outputs: Mapping[str, Storage]) -> OutputCheck:
        """Compare the elements that were `written` alone. Raises WrongResultError."""
        return self._compare(outputs, self._written)

    def _compare(self, outputs: Mapping[str, Storage], written: Mapping[str, Mask] | None) -> OutputCheck:
        return OutputCheck.of_all([output.compare(outputs, written) for output in self._outputs])
