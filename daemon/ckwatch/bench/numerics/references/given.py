"""The arguments of a reference, and its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ckwatch.bench.numerics.storage import Doubles, Storage, tensor_elements, widen
from ckwatch.model.kernel_problem import ComputedRows, KernelProblem
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.row_computations import OptionValue

IntArray = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


class Given:
    """The inputs of a problem that is computed row by row, by their roles.

    `sizes`, `options` and `steps` are those of its `RowComputation`. Raises ValueError for a problem that is none.
    """

    def __init__(self, problem: KernelProblem, inputs: Mapping[str, Storage]) -> None:
        if problem.rows is None:
            raise ValueError("what the kernel computes is not known row by row")
        self._problem = problem
        self._rows: ComputedRows = problem.rows
        self._views = dict(self._rows.tensors)
        self._inputs = inputs
        self.sizes: Mapping[str, int] = dict(self._rows.sizes)
        self.options: Mapping[str, OptionValue] = dict(self._rows.options)
        self.steps = self._rows.steps
        self.fnuz = self._rows.fnuz

    def has(self, role: str) -> bool:
        """Return True if there is a tensor with this role."""
        return role in self._views

    def shape(self, role: str) -> tuple[int, ...]:
        """The sizes of the tensor, outermost first. Raises KeyError."""
        return self._views[role].sizes

    def dtype(self, role: str) -> str:
        return self._problem.buffer(self._views[role].buffer).dtype

    def read(self, role: str, *index: Any) -> Doubles:
        """The elements of an input at an index as numpy has them, widened. Raises KeyError and IndexError."""
        return widen(np.ascontiguousarray(self._stored(role)[index]), self.dtype(role), self.fnuz)

    def integers(self, role: str, *index: Any) -> IntArray:
        """The elements of an input of integers. Raises KeyError and IndexError."""
        return np.asarray(self._stored(role)[index], np.int64)

    def _stored(self, role: str) -> npt.NDArray[Any]:
        view = self._views[role]
        return tensor_elements(self._inputs[view.buffer], view)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReference:
    """How rows of outputs follow from the inputs.

    `expected` gives the values of some rows of the output with a role, rows × columns, in f64; NaN where any value is
    right. `left_out`: which rows of an output the kernel need not write, one flag per row; without it there are none.
    `contents`: integers that mean something, as offsets and routing do, by role and from a seed; of what is given they
    may use sizes, options, shapes and roles alone. All other inputs are random.
    """

    expected: Callable[[Given, str, IntArray], Doubles]
    left_out: Callable[[Given, str], Booleans] | None = None
    contents: Callable[[Given, int], Mapping[str, IntArray]] | None = None
