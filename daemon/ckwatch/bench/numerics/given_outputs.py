"""Compares outputs with those of a user's reference, which are given as arrays.

An output has the values of the reference within its tolerance (`tolerance_of_output`); integers of the reference are
exact unless the kernel file says otherwise. An infinity must be the same infinity, and NaN, where it is allowed, NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.comparison import (
    SHOWN,
    ExpectedOutput,
    OutputCheck,
    WrongElement,
    WrongResultError,
    span_text,
)
from ckwatch.bench.numerics.storage import Doubles, Mask, Storage, storage_type, tensor_elements, widen
from ckwatch.bench.numerics.tolerance import INTEGERS, range_of, tolerance_of_output
from ckwatch.bench.numerics.verification import check_written
from ckwatch.bench.report import FailureKind
from ckwatch.model.kernel_problem import KernelProblem, ReferenceOutput, TensorView
from ckwatch.model.lazy_dataclass import dataclass

GivenArrays = Mapping[str, npt.NDArray[Any]]
"""By the names of outputs: float64, or integers where the reference is exact."""


@dataclass(frozen=True, slots=True)
class RightOutput:
    """An output's right elements, in the shape of `view`: int64 where integers must be equal (u64 modulo 2^64), else
    float64 within the range of its dtype; `tolerance` as `ExpectedOutput.allowance`."""

    name: str
    view: TensorView
    elements: npt.NDArray[Any]
    tolerance: tuple[float, float, float, float]


class _Output:
    """The values of an output, or of the elements that were `written`."""

    def __init__(
        self,
        problem: KernelProblem,
        output: ReferenceOutput,
        values: npt.NDArray[Any],
        fnuz: bool,
        written: Mapping[str, Mask] | None,
    ) -> None:
        self.view = output.view
        self._name = output.name
        self.buffer = problem.buffer(output.view.buffer)
        self._fnuz = fnuz
        self._places = None if written is None else np.flatnonzero(self._whole(written))
        of_all = None if written is None else _magnitude(values.astype(np.float64))
        values = self._compared(values)
        expected = values.astype(np.float64)
        self._nan = np.isnan(expected)
        is_exact = self.buffer.dtype in INTEGERS and values.dtype.kind in "iub" and not output.is_stated
        self._exact = values if is_exact else None
        self._comparison = ExpectedOutput(
            *(self.buffer.name, self.buffer.dtype, expected, _magnitude(expected)),
            *(tolerance_of_output(problem, output), fnuz, of_all),
        )

    @property
    def right(self) -> RightOutput:
        """The output that a result is compared with."""
        if self._exact is not None:
            bits = self._exact.astype(storage_type(self.buffer.dtype)).astype(np.int64)
            return RightOutput(self._name, self.view, bits, (0.0, 0.0, 0.0, 0.0))
        low, high = range_of(self.buffer.dtype, self._fnuz)
        elements = np.clip(self._comparison.expected, low, high)
        return RightOutput(self._name, self.view, elements, self._comparison.allowance)

    def compare(self, outputs: Mapping[str, Storage]) -> OutputCheck:
        """Raises WrongResultError."""
        stored = self._compared(self._whole(outputs))
        if self._exact is not None:
            return self._compare_exactly(stored, self._exact)
        found = widen(stored, self.buffer.dtype, self._fnuz)
        numbers = self._nan & ~np.isnan(found)
        if numbers.any():
            first = int(np.flatnonzero(numbers)[0])
            text = f"{self._name_of(first)} is {found.flat[first]:.9g}, reference nan"
            raise self._wrong(numbers, "numbers and must be NaN", text, first, text)
        return self._comparison.check(
            *(found, None), whole=self._places is None, span=self._span_of, name_of=self._name_of,
            offset_of=self._offset_of,
        )  # fmt: skip

    def _compare_exactly(self, found: Storage, expected: npt.NDArray[Any]) -> OutputCheck:
        """Integers, of which doubles and nine digits do not have all. Raises WrongResultError."""
        wrong = found != expected
        if wrong.any():
            places = np.flatnonzero(wrong)[:SHOWN].tolist()
            shown = [f"{self._name_of(at)} is {found.flat[at]}, reference {expected.flat[at]}" for at in places]
            detail = "\n".join(("integers must be equal", f"wrong are {self._span_of(wrong)}", *shown))
            raise self._wrong(wrong, "wrong", detail, places[0], shown[0])
        return OutputCheck(compared=wrong.size, worst_error=0.0, rtol=0.0, atol=0.0)

    def _wrong(self, wrong: Mask, what: str, detail: str, first: int, text: str) -> WrongResultError:
        return WrongResultError(
            FailureKind.WRONG,
            f"{np.count_nonzero(wrong):,} of {wrong.size:,} {'' if self._places is None else 'compared '}elements of "
            f"{self.buffer.name} are {what}",
            detail,
            WrongElement(self.buffer.name, self._offset_of(first), text),
        )

    def _whole(self, elements: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.ascontiguousarray(tensor_elements(elements[self.buffer.name], self.view)).reshape(self.view.sizes)

    def _compared(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return elements if self._places is None else elements.reshape(-1)[self._places]

    def _span_of(self, wrong: Mask) -> str:
        flat = np.flatnonzero(wrong)
        places = np.unravel_index(flat if self._places is None else self._places[flat], self.view.sizes or (1,))
        if len(places) == 1:
            return f"elements {span_text(places[0])}"
        return ", ".join(f"axis {axis}: {span_text(at)}" for axis, at in enumerate(places))

    def _index_of(self, place: int) -> tuple[int, ...]:
        at = place if self._places is None else int(self._places[place])
        return tuple(map(int, np.unravel_index(at, self.view.sizes))) if self.view.sizes else ()

    def _name_of(self, place: int) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self._index_of(place)))}]"

    def _offset_of(self, place: int) -> int:
        return sum(map(mul, self._index_of(place), self.view.strides))


def _magnitude(values: Doubles) -> Doubles:
    return np.where(np.isfinite(values), np.abs(values), 0.0)


class GivenReference:
    """The outputs of a user's reference on one problem. Raises ValueError for a problem without one."""

    def __init__(self, problem: KernelProblem, values: GivenArrays, written: Mapping[str, Mask] | None = None) -> None:
        reference = problem.reference
        if reference is None:
            raise ValueError("there is no reference")
        self._problem = problem
        self._fnuz = reference.fnuz
        self._name = reference.name
        self._outputs = [_Output(problem, one, values[one.name], reference.fnuz, written) for one in reference.outputs]

    @property
    def right_outputs(self) -> tuple[RightOutput, ...]:
        """The values that results are compared with, in the order of the outputs."""
        return tuple(output.right for output in self._outputs)

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
        return self._compare(outputs)

    def check_part(self, outputs: Mapping[str, Storage]) -> OutputCheck:
        """Compare the elements that were `written` alone. Raises WrongResultError."""
        return self._compare(outputs)

    def _compare(self, outputs: Mapping[str, Storage]) -> OutputCheck:
        return OutputCheck.of_all([output.compare(outputs) for output in self._outputs])
