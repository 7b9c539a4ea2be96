"""Sums of products over indices, as matrices: a GEMM, a batch of them, a convolution.

`Y[b, m, n] = steps(Σ_k (x_scale · X)[b, m, k] · (w_scale · W)[b, k, n])`, where the steps of an epilogue multiply, add
or apply an activation, one after the other. Each of b, m, n and k runs through one axis or several, the last one
fastest, so that a convolution is a GEMM whose m is (image, row, column), and whose k is (filter row, filter column,
channel). An operation declares it in size expressions (`MatrixAxes`), a problem has their values (`MatrixView`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Generic, Literal, TypeVar

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import evaluate_size

AxisExpressions = tuple[tuple[str, str], ...]
"""Size and stride of each axis, as expressions of size arguments; the stride 0 repeats."""

Axes = tuple[tuple[int, int], ...]
"""Size and stride of each axis, in elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowExpressions:
    """A `Window` in size expressions."""

    row_axis: int
    column_axis: int
    row_step: str
    column_step: str
    before: str
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixAxes:
    """How the tensor `tensor` is a batch of matrices: the axes of each index, and `windows` where it is padded.

    `offset` is the element at which all indices are 0.
    """

    tensor: str
    rows: AxisExpressions
    columns: AxisExpressions
    batch: AxisExpressions = ()
    offset: str = "0"
    windows: tuple[WindowExpressions, ...] = ()


OperandT = TypeVar("OperandT")
OtherT = TypeVar("OtherT")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpilogueStep(Generic[OperandT]):
    """A step applied to a value: `multiply` by `factor` · `operand`, `add` that, or apply an `activation`.

    `operand` (`MatrixAxes`, or evaluated a `MatrixView`; by name where it is no contraction) has the indices of the
    output; None counts as 1. `scale`: it holds scales, and may be absent (null) when the kernel is called, which counts
    as 1.
    """

    kind: Literal["multiply", "add", "activation"]
    operand: OperandT | None = None
    factor: float = 1.0
    activation: str = "none"
    scale: bool = False

    def with_operand(self, operand: OtherT | None) -> EpilogueStep[OtherT]:
        """The same step with another operand, or with the same in other terms."""
        return EpilogueStep(
            kind=self.kind, operand=operand, factor=self.factor, activation=self.activation, scale=self.scale
        )

    @property
    def roundings(self) -> int:
        """How often a value is rounded in it."""
        match self.kind:
            case "multiply":
                return (self.operand is not None) + (self.factor != 1)
            case "add":
                return 2
            case "activation":
                return 16 * (self.activation not in EXACT_ACTIVATIONS)


EXACT_ACTIVATIONS = frozenset({"none", "relu"})
"""Activations that round nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """The computation of an operation, in size expressions. Operands of the `steps` have the indices of `y`; `x_scale`
    has those of `x` and `w_scale` those of `w`: a scale per block of them."""

    x: MatrixAxes
    w: MatrixAxes
    y: MatrixAxes
    x_scale: MatrixAxes | None = None
    w_scale: MatrixAxes | None = None
    steps: tuple[EpilogueStep[MatrixAxes], ...] = ()

    @property
    def scales(self) -> tuple[str, ...]:
        """The tensors that hold scales."""
        blocks = tuple(axes.tensor for axes in (self.x_scale, self.w_scale) if axes is not None)
        return blocks + self.nullable_scales

    @property
    def nullable_scales(self) -> tuple[str, ...]:
        """The tensors that hold scales and may be null."""
        return tuple(step.operand.tensor for step in self.steps if step.scale and step.operand is not None)


def usual_steps(
    *,
    scales: tuple[OperandT | None, ...] = (),
    alpha: float = 1.0,
    bias: OperandT | None = None,
    beta: float = 1.0,
    activation: str = "none",
) -> tuple[EpilogueStep[OperandT], ...]:
    """`activation(alpha · (scales · value) + beta · bias)`."""
    steps: list[EpilogueStep[OperandT]] = [
        EpilogueStep(kind="multiply", operand=scale, scale=True) for scale in scales if scale is not None
    ]
    if alpha != 1:
        steps.append(EpilogueStep(kind="multiply", factor=alpha))
    if bias is not None:
        steps.append(EpilogueStep(kind="add", operand=bias, factor=beta))
    if activation != "none":
        steps.append(EpilogueStep(kind="activation", activation=activation))
    return tuple(steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A coordinate of a padded tensor: index of the row axis · `row_step` + index of the column axis · `column_step` -
    `before`. Elements whose coordinate is outside of 0 … `size` - 1 count as 0 and are not there."""

    row_axis: int
    column_axis: int
    row_step: int
    column_step: int
    before: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """A batch of matrices in `buffer`; see `MatrixAxes`."""

    buffer: str
    rows: Axes
    columns: Axes
    batch: Axes = ()
    offset: int = 0
    windows: tuple[Window, ...] = ()

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns of each matrix."""
        return prod(size for size, _ in self.rows), prod(size for size, _ in self.columns)

    @property
    def matrices(self) -> int:
        """How many matrices there are."""
        return prod(size for size, _ in self.batch)

    @property
    def strides(self) -> tuple[int, int] | None:
        """Between rows and between columns, of one matrix with one axis each; None for everything else."""
        if len(self.rows) > 1 or len(self.columns) > 1 or self.matrices > 1 or self.windows or self.offset:
            return None
        return self.rows[0][1], self.columns[0][1]


def matrix_view(buffer: str, sizes: tuple[int, int], strides: tuple[int, int]) -> MatrixView:
    """One matrix with one axis each way."""
    return MatrixView(buffer=buffer, rows=((sizes[0], strides[0]),), columns=((sizes[1], strides[1]),))


def evaluated(axes: MatrixAxes, buffer: str, sizes: Mapping[str, int]) -> MatrixView:
    """The view that these sizes give. Raises ValueError."""

    def values(expressions: AxisExpressions) -> Axes:
        return tuple((evaluate_size(size, sizes), evaluate_size(stride, sizes)) for size, stride in expressions)

    return MatrixView(
        buffer=buffer,
        rows=values(axes.rows),
        columns=values(axes.columns),
        batch=values(axes.batch),
        offset=evaluate_size(axes.offset, sizes),
        windows=tuple(
            Window(
                row_axis=window.row_axis,
                column_axis=window.column_axis,
                row_step=evaluate_size(window.row_step, sizes),
                column_step=evaluate_size(window.column_step, sizes),
                before=evaluate_size(window.before, sizes),
                size=evaluate_size(window.size, sizes),
            )
            for window in axes.windows
        ),
    )
