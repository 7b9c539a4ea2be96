"""A kernel's call on one shape: its arguments, its buffers, and what it must compute.

Arguments have the order that `def_kernel` declares (`ckwatch.render.hooks`): inputs in the order of `input_reorder`,
outputs, sizes, runtime arguments. Absent inputs are dropped. A buffer that is passed twice is one argument, under the
name that comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from math import gcd

from ckwatch.model.contractions import EpilogueStep, MatrixAxes, MatrixView, evaluated
from ckwatch.model.kernels import Operation, OutputComparison, ParameterValue, Shape, Tensor, is_integers
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.row_computations import OptionValue, RowComputation
from ckwatch.model.tensor_values import TensorValues
from ckwatch.model.tensors import DTYPES, evaluate_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory that is passed to the kernel: `elements` of the dtype `dtype` (a key of `ckwatch.model.tensors.DTYPES`),
    gaps that leading dimensions leave included. `output`: the kernel writes it; `scale`: it holds scales. `values`:
    the content before a launch, None for the usual one. `in_out`: an output that the kernel reads, too; `partial`: an
    output of which it may leave elements."""

    name: str
    dtype: str
    elements: int
    output: bool = False
    scale: bool = False
    values: TensorValues | None = None
    in_out: bool = False
    partial: bool = False

    @property
    def given(self) -> bool:
        """Return True if its content before a launch means something: that of inputs, and some outputs'."""
        return not self.output or self.in_out or self.partial

    @property
    def size_bytes(self) -> int:
        """The size in memory."""
        return DTYPES[self.dtype].bytes_for(self.elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorView:
    """A tensor in a buffer; `strides` in elements, 0 where a value counts for a whole row or column."""

    buffer: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelArgument:
    """An argument of the C function before `workspace_size`: a pointer to `buffer`, or `value` as the type `c_type`; a
    pointer type without a buffer is a null pointer."""

    name: str
    c_type: str
    buffer: str | None = None
    value: int | float | bool | None = None

    @property
    def is_null(self) -> bool:
        """Return True if it is a null pointer, for a tensor that is not there."""
        return self.buffer is None and self.c_type.endswith("*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """A contraction (`ckwatch.model.contractions`) with its sizes: `x` and `x_scale` M×K, `w` and `w_scale` K×N,
    everything else M×N, each for as many matrices as `y` has. `fnuz`: 8-bit floats are those of gfx90a and gfx942."""

    x: MatrixView
    w: MatrixView
    y: MatrixView
    accumulator: str
    x_scale: MatrixView | None = None
    w_scale: MatrixView | None = None
    steps: tuple[EpilogueStep[MatrixView], ...] = ()
    fnuz: bool = False

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        (m, k), n = self.x.sizes, self.w.sizes[1]
        return self.y.matrices * m * n * k


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedRows:
    """A `RowComputation` with its sizes: `tensors` by their roles. `fnuz`: as that of a `Gemm`."""

    reference: str
    tensors: tuple[tuple[str, TensorView], ...]
    sizes: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, OptionValue], ...]
    macs: int
    depth: int
    compute: str
    accumulator: str
    fnuz: bool
    steps: tuple[EpilogueStep[str], ...] = ()

    def view(self, role: str) -> TensorView:
        """The tensor that has a role. Raises KeyError."""
        return dict(self.tensors)[role]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOutput:
    """An output of a reference. `rtol`, `atol`, `ulp`, `nan`: as those of an `OutputComparison`; `depth` counts the
    roundings behind an element, None where that is not said."""

    name: str
    view: TensorView
    rtol: float | None = None
    atol: float | None = None
    ulp: float | None = None
    depth: int | None = None
    nan: bool = False

    @property
    def is_stated(self) -> bool:
        """Return True if the kernel file says how far a result may be off."""
        return any(one is not None for one in (self.rtol, self.atol, self.ulp))


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledReference:
    """A user's reference with its arguments: the tensors `inputs` by name (None: absent), and the kernel's scalars, of
    which `sizes` are the sizes; `parameters` are those of the instance that it takes. `digest` is that of the
    `PythonReference`, `problem` why it cannot be called. `fnuz`: as that of a `Gemm`."""

    digest: str
    name: str
    inputs: tuple[tuple[str, TensorView | None], ...]
    outputs: tuple[ReferenceOutput, ...]
    sizes: tuple[str, ...]
    accumulator: str
    fnuz: bool
    problem: str = ""
    parameters: tuple[tuple[str, ParameterValue], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProblem:
    """A kernel's call on one shape. `computed`: what it must compute; None where that is not known. `reference`: the
    user's own, which results are compared with instead. Without both numerics are not verified.

    `flops` counts a multiply-add as two, None where it is not known; `bytes_moved` is each buffer's content once,
    without what a convolution's steps skip. `arch` is that of the kernel.
    """

    buffers: tuple[Buffer, ...]
    views: tuple[TensorView, ...]
    arguments: tuple[KernelArgument, ...]
    computed: Gemm | ComputedRows | None
    flops: int | None
    bytes_moved: int
    reference: CalledReference | None = None
    arch: str = field(default="", compare=False)

    @property
    def is_compared(self) -> bool:
        """Return True if results are compared with a reference."""
        return self.reference is not None or self.computed is not None

    @property
    def gemm(self) -> Gemm | None:
        """The product to compute, if it is a contraction."""
        return self.computed if isinstance(self.computed, Gemm) else None

    @property
    def rows(self) -> ComputedRows | None:
        """The rows to compute, if it is computed row by row."""
        return self.computed if isinstance(self.computed, ComputedRows) else None

    @property
    def fnuz(self) -> bool | None:
        """True if 8-bit floats are those of gfx90a and gfx942; None if the computation is unknown."""
        known = self.computed or self.reference
        return None if known is None else known.fnuz

    def buffer(self, name: str) -> Buffer:
        """The buffer of this name. Raises KeyError."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    @property
    def intensity(self) -> float | None:
        """Floating-point operations for each byte moved; None where they are not known, or none is moved."""
        return self.flops / self.bytes_moved if self.flops and self.bytes_moved else None

    @property
    def bytes_allocated(self) -> int:
        """Bytes of all buffers, gaps included; what the workspace and cache flushing need comes on top."""
        return sum(buffer.size_bytes for buffer in self.buffers)


FNUZ_ARCHS = frozenset({"gfx90a", "gfx940", "gfx941", "gfx942"})
"""Archs whose 8-bit floats are the fnuz forms (bias one higher, no infinity, 0x80 is NaN); elsewhere OCP's."""


def is_fnuz(arch: str) -> bool:
    """Return True if 8-bit floats of `arch` (`gfx942`, `gfx942:sramecc+`, `sm_90`, …) are the fnuz forms."""
    return arch.partition(":")[0] in FNUZ_ARCHS


def problem_of(operation: Operation, shape: Shape, arch: str, null: frozenset[str] = frozenset()) -> KernelProblem:
    """The call of a kernel of `operation`, compiled for `arch`, on one shape. Pointers to the buffers `null` are null.

    Of an operation without a computation neither what it computes nor its flops are known. Raises ValueError for a size
    that has no positive value or a negative stride, and KeyError for a size or runtime argument that the shape does not
    give; a kernel file that was loaded has neither.
    """
    inputs = [tensor for _, tensor in operation.inputs if tensor is not None]
    outputs = [tensor for _, tensor in operation.outputs]
    arguments = [_pointer(tensor, {one.buffer for one in outputs}, null) for _, tensor in pointer_arguments(operation)]
    tensors = {tensor.name: tensor for tensor in (*inputs, *outputs) if tensor.buffer not in null}
    views = {name: _view(tensor, shape.sizes) for name, tensor in tensors.items()}
    written = {tensor.buffer for tensor in outputs}
    arguments += [
        KernelArgument(name=name, c_type="int32_t", value=shape.sizes[name]) for name in operation.size_arguments
    ]
    arguments += [
        KernelArgument(name=name, c_type=operation.runtime_types.get(name, "int32_t"), value=shape.runtime[name])
        for name in operation.runtime_arguments
    ]
    gemm = gemm_of(operation, tensors, shape.sizes, arch)
    computed = gemm if operation.rows is None else _computed_rows(operation.rows, views, operation, shape.sizes, arch)
    scales = {tensors[name].buffer for name in scale_tensors(operation)}
    buffers = tuple(
        Buffer(
            name=name,
            dtype=next(tensor.dtype for tensor in tensors.values() if tensor.buffer == name),
            elements=max(_extent(view) for view in views.values() if view.buffer == name),
            output=name in written,
            scale=name in scales,
            values=_values(tensors, name, shape.sizes),
            in_out=any(tensor.in_out for tensor in outputs if tensor.buffer == name),
            partial=any(tensor.partial for tensor in outputs if tensor.buffer == name),
        )
        for name in dict.fromkeys(tensor.buffer for tensor in tensors.values())
    )
    return KernelProblem(
        buffers=buffers,
        views=tuple(views.values()),
        arguments=tuple(arguments),
        computed=computed,
        arch=arch,
        flops=None if computed is None else 2 * computed.macs,
        bytes_moved=sum(
            DTYPES[buffer.dtype].bytes_for(
                _touched(
                    gemm,
                    buffer.name,
                    distinct_elements(buffer.elements, (view for view in views.values() if view.buffer == buffer.name)),
                )
            )
            for buffer in buffers
        ),
        reference=_called_reference(operation, views, shape.sizes, arch),
    )


def _called_reference(
    operation: Operation, views: Mapping[str, TensorView], sizes: Mapping[str, int], arch: str
) -> CalledReference | None:
    declared = operation.reference
    if declared is None:
        return None
    outputs = []
    for _, tensor in operation.outputs:
        how = operation.comparisons.get(tensor.name, OutputComparison())
        depth = None if how.reduction is None else evaluate_size(how.reduction, sizes)
        outputs.append(
            ReferenceOutput(
                name=tensor.name,
                view=views[tensor.name],
                rtol=how.rtol,
                atol=how.atol,
                ulp=how.ulp,
                depth=depth,
                nan=how.nan,
            )
        )
    return CalledReference(
        digest=declared.digest,
        name=declared.name,
        inputs=tuple((name, None if tensor is None else views.get(tensor.name)) for name, tensor in operation.inputs),
        outputs=tuple(outputs),
        sizes=operation.size_arguments,
        accumulator=operation.accumulator,
        fnuz=is_fnuz(arch),
        problem=declared.problem,
        parameters=operation.reference_parameters,
    )


def _values(tensors: Mapping[str, Tensor], buffer: str, sizes: Mapping[str, int]) -> TensorValues | None:
    found = (tensor.values for tensor in tensors.values() if tensor.buffer == buffer and tensor.values is not None)
    values = next(found, None)
    return None if values is None else replace(values.on(sizes), file="")


def scale_tensors(operation: Operation) -> tuple[str, ...]:
    """The tensors of an operation that hold scales."""
    if operation.contraction is not None:
        return operation.contraction.scales
    rows = operation.rows
    return () if rows is None else tuple(name for role, name in rows.tensors.items() if role in rows.scales)


def _touched(gemm: Gemm | None, buffer: str, elements: int) -> int:
    """How many of a buffer's elements are read or written; at most, where steps skip some of a convolution's input."""
    if gemm is None or gemm.x.buffer != buffer:
        return elements
    for window in gemm.x.windows:
        (outputs, _), (taps, _) = gemm.x.rows[window.row_axis], gemm.x.columns[window.column_axis]
        step = gcd(window.row_step, window.column_step) if taps > 1 else window.row_step
        elements = elements * min(window.size, outputs * taps, -(-window.size // step)) // window.size
    return elements


def dense_runs(view: TensorView) -> tuple[tuple[int, int], ...]:
    """(stride, size) of the axes that memory sees, the smallest stride first. Views of the same elements have the same.

    Axes of one element and repeated ones (stride 0) are left out, and axes that continue one another are one.
    """
    axes = sorted((stride, size) for stride, size in zip(view.strides, view.sizes, strict=True) if stride and size > 1)
    runs: list[tuple[int, int]] = []
    for stride, size in axes:
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] * size)
        else:
            runs.append((stride, size))
    return tuple(runs)


def distinct_elements(elements: int, views: Iterable[TensorView]) -> int:
    """How many of a buffer's `elements` its views cover; at most, where views overlap in part."""
    covered = 0
    for runs in {dense_runs(view) for view in views}:
        count = 1
        for _, size in runs:
            count *= size
        covered += min(count, sum((size - 1) * stride for stride, size in runs) + 1)
    return min(covered, elements)


def pointer_arguments(operation: Operation) -> list[tuple[str, Tensor]]:
    """The tensors that are arguments, in the C function's order; of those that are one buffer the first."""
    order = operation.settings.get("input_reorder")
    indices = order if is_integers(order) else range(len(operation.inputs))
    found: dict[str, tuple[str, Tensor]] = {}
    for name, tensor in (*(operation.inputs[index] for index in indices), *operation.outputs):
        if tensor is not None:
            found.setdefault(tensor.buffer, (name, tensor))
    return list(found.values())


def _pointer(tensor: Tensor, written: set[str], null: frozenset[str]) -> KernelArgument:
    constant = "" if tensor.buffer in written else "const "
    c_type = f"{constant}{DTYPES[tensor.dtype].abi_type}*"
    return KernelArgument(name=tensor.name, c_type=c_type, buffer=None if tensor.buffer in null else tensor.buffer)


def _view(tensor: Tensor, sizes: Mapping[str, int]) -> TensorView:
    view = TensorView(
        buffer=tensor.buffer,
        sizes=tuple(evaluate_size(size, sizes) for size in tensor.sizes),
        strides=tuple(evaluate_size(stride, sizes) for stride in tensor.strides),
    )
    if any(size < (0 if tensor.may_be_empty else 1) for size in view.sizes) or any(
        stride < 0 for stride in view.strides
    ):
        raise ValueError(f"{tensor.name} has no size here: sizes {view.sizes}, strides {view.strides}")
    return view


def _extent(view: TensorView) -> int:
    if 0 in view.sizes:
        return 0
    return sum((size - 1) * stride for size, stride in zip(view.sizes, view.strides, strict=True)) + 1


def gemm_of(operation: Operation, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], arch: str) -> Gemm | None:
    """Return the product that an operation computes on one shape, None where it is none; `tensors` by their names."""
    declared = operation.contraction
    if declared is None:
        return None

    def view(axes: MatrixAxes) -> MatrixView:
        return evaluated(axes, tensors[axes.tensor].buffer, sizes)

    def view_or_none(axes: MatrixAxes | None) -> MatrixView | None:
        return None if axes is None else view(axes)

    return Gemm(
        x=view(declared.x),
        w=view(declared.w),
        y=view(declared.y),
        accumulator=operation.accumulator,
        x_scale=view_or_none(declared.x_scale),
        w_scale=view_or_none(declared.w_scale),
        steps=tuple(step.with_operand(view_or_none(step.operand)) for step in declared.steps),
        fnuz=is_fnuz(arch),
    )


def _computed_rows(
    declared: RowComputation, views: Mapping[str, TensorView], operation: Operation, sizes: Mapping[str, int], arch: str
) -> ComputedRows:
    return ComputedRows(
        reference=declared.reference,
        tensors=tuple((role, views[name]) for role, name in declared.tensors.items()),
        sizes=tuple((name, evaluate_size(text, sizes)) for name, text in declared.sizes.items()),
        options=tuple(declared.options.items()),
        macs=evaluate_size(declared.macs, sizes),
        depth=evaluate_size(declared.depth, sizes),
        compute=declared.compute,
        accumulator=operation.accumulator,
        fnuz=is_fnuz(arch),
        steps=declared.steps,
    )
