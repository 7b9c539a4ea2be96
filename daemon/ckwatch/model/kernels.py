"""Kernels and their units: operation, tensors, shapes, instances, and how a unit ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from sys import intern
from typing import TYPE_CHECKING

from ckwatch.model.contractions import Contraction
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_values import ParameterElement as ParameterElement
from ckwatch.model.parameter_values import ParameterValue as ParameterValue
from ckwatch.model.python_references import PythonReference
from ckwatch.model.row_computations import RowComputation
from ckwatch.model.tensor_values import TensorValues
from ckwatch.model.text import Span

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_integers(value: object) -> TypeIs[tuple[int, ...]]:
    """Return True if a parameter is an array of integers; an array without elements is one, too."""
    return isinstance(value, tuple) and all(isinstance(element, int) for element in value)


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """A tensor's layout in PyTorch Inductor's terms."""

    dtype: str
    size: tuple[str, ...]
    stride: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument of the kernel's C function.

    `name` is the C argument's name (`X`, `W`, `Bias`, `Y`), `dtype` a key of `ckwatch.model.tensors.DTYPES`, `layout`
    `row` or `col`, `sizes` and `strides` the names of the size arguments or literal expressions, outermost first
    (`("M", "K")`, `("LDA", "1")`). `buffer` tells two arguments that are one buffer from two buffers: equal
    buffers are one argument. `values`: those of an input, or of an output before a launch, None for the usual ones.
    `in_out`: an output that is read, too; `partial`: an output of which the kernel may leave elements; `optional`: an
    input that may be a null pointer; `may_be_empty`: sizes may be 0.
    """

    name: str
    dtype: str
    layout: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...]
    buffer: str
    values: TensorValues | None = None
    in_out: bool = False
    partial: bool = False
    optional: bool = False
    may_be_empty: bool = False

    # As the nodes of PyTorch Inductor are asked by its templates.

    def get_name(self) -> str:
        """The name."""
        return self.name

    def get_dtype(self) -> str:
        """The element type: `f16`."""
        return self.dtype

    def get_size(self) -> tuple[str, ...]:
        """The sizes, outermost first."""
        return self.sizes

    def get_stride(self) -> tuple[str, ...]:
        """The strides, outermost first."""
        return self.strides

    def get_layout(self) -> TensorLayout:
        """`dtype`, `size` and `stride`."""
        return TensorLayout(self.dtype, self.sizes, self.strides)


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """How an output is compared with its reference. `rtol`, `atol` and `ulp` are the error that it may have; without
    any of them it follows from the output's dtype and `reduction`, an expression for the length of the longest sum
    behind an element. `nan`: the reference may say that an element is NaN."""

    rtol: float | None = None
    atol: float | None = None
    ulp: float | None = None
    reduction: str | None = None
    nan: bool = False


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """The values that a size may have: from `least` to `greatest`, expressions of sizes, in steps of `multiple`."""

    least: str | None = None
    greatest: str | None = None
    multiple: int = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """The computation of a kernel, apart from how.

    `inputs` and `outputs` stand in the order of the template's names; an absent input is None. `settings` holds the
    keys of the kernel file's `[operation]` table that are no tensors (`activation`, `alpha`, …). `size_arguments` are
    the names of the C function's `int32_t` sizes and `runtime_arguments` those of its runtime arguments, whose C types
    are `runtime_types` (`int32_t` where not given); `runtime_values` are those to try. `size_defaults` are expressions
    for sizes that a shape need not give, which are also the least that they may be. `limits`: what sizes may be, by
    name. `computation`: what it computes, None where that is not known. `reference`: the user's own, which counts
    instead; `comparisons`: how outputs are compared with it, by their names. `reference_parameters`: those parameters
    of an instance that it takes.
    """

    kind: str
    inputs: tuple[tuple[str, Tensor | None], ...]
    outputs: tuple[tuple[str, Tensor], ...]
    accumulator: str
    size_arguments: tuple[str, ...]
    runtime_arguments: tuple[str, ...]
    runtime_types: Mapping[str, str] = field(default_factory=dict)
    runtime_values: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)
    settings: Mapping[str, ParameterValue] = field(default_factory=dict)
    size_defaults: Mapping[str, str] = field(default_factory=dict)
    computation: Contraction | RowComputation | None = None
    reference: PythonReference | None = None
    reference_parameters: tuple[tuple[str, ParameterValue], ...] = ()
    comparisons: Mapping[str, OutputComparison] = field(default_factory=dict)
    limits: Mapping[str, SizeLimits] = field(default_factory=dict)

    @property
    def contraction(self) -> Contraction | None:
        """The contraction that it computes, if it is one."""
        return self.computation if isinstance(self.computation, Contraction) else None

    @property
    def rows(self) -> RowComputation | None:
        """The row computation, if it is computed row by row."""
        return self.computation if isinstance(self.computation, RowComputation) else None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that there are, inputs first."""
        return tuple(tensor for _, tensor in (*self.inputs, *self.outputs) if tensor is not None)


def every_input(order: Sequence[int], inputs: int) -> Sequence[int]:
    """An order of inputs with the index of each: PyTorch Inductor writes that of X, W, Bias for the five of a GEMM."""
    return (4, 0, 1, 2, 3) if inputs == 5 and tuple(order) == (2, 0, 1) else order


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes to time the kernel on, and values of its runtime arguments (`kBatch`).

    `sizes` holds a value for each of the operation's size arguments: also `LDA` and its kin, worked out from the
    layouts where the file does not give them.
    """

    name: str
    sizes: Mapping[str, int]
    runtime: Mapping[str, int | float]
    span: Span


@dataclass(frozen=True, slots=True)
class SweepOrigin:
    """A search of `combinations` instances: those that an instance rule refuses are skipped, and are no errors.

    `derived` are the parameters that it works out from others: where their values stand are expressions.
    """

    name: str
    combinations: int
    derived: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Instance:
    """One set of template parameters. `spans` gives the place of each parameter's value in the kernel file.

    `sweep` is the one that makes it, None for an instance that is written out.
    """

    name: str
    parameters: Mapping[str, ParameterValue]
    span: Span
    spans: Mapping[str, Span]
    sweep: SweepOrigin | None = None

    def is_derived(self, parameter: str) -> bool:
        """Return True if an expression stands at the parameter's place instead of its value."""
        return self.sweep is not None and parameter in self.sweep.derived


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel file. `operation_spans` gives the places of the operation's keys (`a.dtype`, `activation`).

    `arch_spans` gives those of the archs that the file names, `flag_spans` those of `flags`, and `key_spans` those of
    parameters' keys, by the places of their values.
    """

    name: str
    path: str
    template: str
    template_span: Span
    operation: Operation
    operation_spans: Mapping[str, Span]
    shapes: tuple[Shape, ...]
    instances: tuple[Instance, ...]
    archs: tuple[str, ...]
    flags: tuple[str, ...] = ()
    arch_spans: Mapping[str, Span] = field(default_factory=dict)
    flag_spans: tuple[Span, ...] = ()
    key_spans: Mapping[Span, Span] = field(default_factory=dict)

    def key_span(self, instance: Instance, parameter: str) -> Span:
        """Return the place of the parameter's key; the instance's name if the file does not say."""
        value = instance.spans.get(parameter, instance.span)
        return self.key_spans.get(value, value)


@dataclass(frozen=True, slots=True)
class Unit:
    """Template × operation × instance × arch: what is rendered and compiled once."""

    kernel: Kernel
    instance: Instance
    arch: str

    @property
    def id(self) -> str:
        """`KERNEL/INSTANCE@ARCH`, unique in a workspace."""
        return intern(f"{self.kernel.name}/{self.instance.name}@{self.arch}")  # tables of all units have it

    @property
    def operation(self) -> Operation:
        """The kernel's operation, with those parameters of the instance that its reference takes."""
        operation, parameters = self.kernel.operation, self.instance.parameters
        takes = () if operation.reference is None else operation.reference.takes
        named = tuple((name, parameters[name]) for name in takes if name in parameters)
        return replace(operation, reference_parameters=named) if named else operation


class Outcome(StrEnum):
    """The outcome of a unit. `faulted`: the host or the compiler failed, nothing was learned of the kernel.

    `skipped`: its sweep makes it, and an instance rule refuses it.
    """

    CHECKED = "checked"
    BUILT = "built"
    FAILED = "failed"
    SKIPPED = "skipped"
    FAULTED = "faulted"


def units_of(kernel: Kernel, archs: Sequence[str]) -> tuple[Unit, ...]:
    """The units of `kernel` for `archs`, instance by instance."""
    return tuple(Unit(kernel, instance, arch) for instance in kernel.instances for arch in archs)


_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


def value_in_name(value: object) -> str:
    """How a swept value stands in an instance's name: `128`, `4x64x1`, `v3`, `true`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    return _NOT_IN_NAMES.sub("-", str(value))
