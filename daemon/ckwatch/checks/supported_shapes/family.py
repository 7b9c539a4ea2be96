"""Rules about the shapes that a family of kernels supports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ckwatch.model.contractions import MatrixView
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.kernels import Operation, ParameterValue
from ckwatch.model.lazy_dataclass import dataclass

Parameters = Mapping[str, ParameterValue]


class Refusal(NamedTuple):
    """Why an instance does not support a problem, and what to write instead, empty where that is not known."""

    reason: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRules:
    """The shapes that the instances of a family support. `describes`: whether an instance with these parameters is of
    the family. `refusals`: why it does not support a problem, none if it does; in doubt it does. `splits_k`: whether
    the kernel of an operation may have a kBatch above 1. `needs_whole`: why all workgroups of an instance are needed
    for a part of the result, empty where one launch computes it from the inputs. `special_sizes`: by what they are
    called, products of M × N × K that only an instance with these parameters computes in its own way."""

    describes: Callable[[Parameters], bool]
    refusals: Callable[[Parameters, KernelProblem], Iterator[Refusal]]
    splits_k: Callable[[Operation], bool]
    needs_whole: Callable[[Parameters, KernelProblem], str] = lambda _parameters, _problem: ""
    special_sizes: Callable[[Parameters], Mapping[str, tuple[int, int, int]]] = lambda _: {}


def slices_of(problem: KernelProblem) -> int:
    """Into how many slices K is cut: `kBatch`."""
    for argument in problem.arguments:
        if argument.name == "kBatch" and argument.value is not None:
            return max(1, int(argument.value))
    return 1


def contiguous_axis(view: MatrixView) -> int | None:
    """The axis along which the elements lie side by side; None where both or none might be."""
    return contiguous(view.rows[-1][1], view.columns[-1][1])


def contiguous(rows: int, columns: int) -> int | None:
    """The same for the strides of a matrix."""
    return None if (rows == 1) == (columns == 1) else 0 if rows == 1 else 1


def sizes_near(name: str, size: int, step: int) -> str:
    """The multiples of `step` on both sides of a size."""
    below = size // step * step
    return f"{name} = {below} or {below + step}" if below else f"{name} = {step}"
