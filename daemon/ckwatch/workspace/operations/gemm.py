"""`[operation]` of kind `gemm`: Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias).

X is M×K, W K×N and Y M×N. Names, order and sizes of the arguments are those of PyTorch Inductor's ROCm backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from ckwatch.model.contractions import Contraction, MatrixAxes
from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.tables import (
    ACCUMULATOR,
    DTYPE,
    INPUT_REORDER,
    TEMPLATE_SETTINGS,
    Activation,
    Dtype,
    Factor,
    Identifier,
    OperandTable,
    OperationTable,
    OutputTable,
    Scaling,
    accumulator_for,
    buffer_owners,
    input_order,
    number_of,
    template_settings,
)
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.toml_document import KeyPath

ABOUT = "Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias)"

INPUTS = ("X", "W", "inv_scale_x", "inv_scale_w", "Bias")
SIZES = ("M", "N", "K", "LDA", "LDB", "LDC", "LDD")
RUNTIME = ("kBatch",)
LEADING = {"LDA": "X", "LDB": "W", "LDC": "Y", "LDD": "Bias"}
"""The tensor of each leading dimension."""

SHAPE_DOCS = {
    "M": "rows of X and Y",
    "N": "columns of W and Y",
    "K": "columns of X, rows of W",
    "LDA": "leading dimension of X; by default without gaps",
    "LDB": "leading dimension of W; by default without gaps",
    "LDC": "leading dimension of Y; by default without gaps",
    "LDD": "leading dimension of a full Bias; 0 repeats one row",
    "kBatch": "slices of K that are multiplied side by side",
}


class BiasTable(OperandTable):
    """`bias`."""

    full: bool = Field(False, description="an M×N matrix instead of a vector")


class ScaleTable(OperationTable):
    """`scale_a` or `scale_b`."""

    dtype: Dtype = Field("f32", description=DTYPE)
    per: Scaling = Field(
        "tensor",
        description="one value (`tensor`), or one per row of X and one per column of W (`row`); equal for both scales",
    )


_SCALES = "scales of X and W, both or none"


class MatrixProductTable(OperationTable):
    """What the kinds of matrix products have in common."""

    a: OperandTable = Field(description="X, M×K")
    b: OperandTable = Field(description="W, K×N")
    c: OutputTable = Field(description="Y, M×N")
    accumulator: Dtype | None = Field(None, description=ACCUMULATOR)
    bias: BiasTable | None = Field(
        None, description="one value per column of Y (`row`), per row of Y (`col`), or with `full` an M×N matrix"
    )
    scale_a: ScaleTable | None = Field(None, description=_SCALES)
    scale_b: ScaleTable | None = Field(None, description=_SCALES)
    alpha: Factor = Field(1.0, description="factor of the product")
    beta: Factor = Field(1.0, description="factor of the bias")
    activation: Activation = Field("none", description="applied to the sum")
    split_k: bool | None = Field(
        None, description="whether kBatch may be above 1; by default true if a shape has such a kBatch"
    )
    settings: dict[Identifier, Any] = Field({}, description=TEMPLATE_SETTINGS)
    input_reorder: list[int] | None = Field(None, description=INPUT_REORDER)


class GemmTable(MatrixProductTable):
    """`[operation]` of kind `gemm`."""

    kind: Literal["gemm"] = Field(description=f"`gemm`: {ABOUT}")


def read_gemm(problems: Problems, table: GemmTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    given = product_tensors(problems, table)
    settings = product_settings(problems, table)
    return None if given is None else gemm_operation(given, accumulator_of(table, given), settings)


def gemm_operation(
    tensors: Mapping[str, Tensor | None], accumulator: str, settings: Mapping[str, ParameterValue]
) -> Operation:
    """A GEMM of these tensors: `INPUTS`, and `Y`."""
    return product_operation("gemm", tensors, accumulator, settings, SIZES)


def product_operation(
    kind: str,
    tensors: Mapping[str, Tensor | None],
    accumulator: str,
    settings: Mapping[str, ParameterValue],
    sizes: tuple[str, ...],
    batch_strides: Mapping[str, str] | None = None,
) -> Operation:
    """A matrix product of these tensors, whose size arguments are `sizes`. `batch_strides`: those between matrices that
    are arguments, by their tensors."""
    return Operation(
        kind=kind,
        inputs=tuple((name, tensors[name]) for name in INPUTS),
        outputs=(("Y", _present(tensors, "Y")),),
        accumulator=accumulator,
        size_arguments=sizes,
        runtime_arguments=RUNTIME,
        runtime_types=dict.fromkeys(RUNTIME, "int32_t"),
        settings=settings,
        size_defaults={
            **{name: _least_leading(tensors[of]) for name, of in LEADING.items()},
            **{name: _least_batch_stride(tensors[of]) for of, name in (batch_strides or {}).items()},
        },
        contraction=_contraction(tensors, settings),
    )


def product_tensors(problems: Problems, table: MatrixProductTable) -> dict[str, Tensor | None] | None:
    """The matrices of a product without batches, `INPUTS` and `Y`; None where a dtype is missing."""
    operands: dict[str, OperandTable] = {"a": table.a, "b": table.b}
    if table.bias is not None:
        operands["bias"] = table.bias
    places: dict[str, KeyPath] = {name: ("operation", name) for name in operands}
    sources = buffer_owners(problems, {name: operand.same_as for name, operand in operands.items()}, places)
    dtypes: dict[str, str] = {}
    layouts: dict[str, str] = {}
    for name, operand in operands.items():
        source = operands[sources[name]]
        if source.dtype is None:
            if source is operand and operand.same_as is None:
                problems.at_value(("operation", name), "missing-key", f"`dtype` is missing in [operation.{name}]")
            continue
        if operand.dtype not in (None, source.dtype):
            message = f"`{name}` is the same buffer as `{sources[name]}`, whose dtype is {source.dtype}"
            problems.at_value(("operation", name, "dtype"), "dtype-mismatch", message)
        dtypes[name] = source.dtype
        layouts[name] = operand.layout or source.layout or "row"
    if len(dtypes) < len(operands):
        return None
    buffers = {"a": "X", "b": "W", "bias": "Bias"}
    matrix = {"a": ("X", "M", "K", "LDA"), "b": ("W", "K", "N", "LDB")}
    tensors: dict[str, Tensor | None] = dict.fromkeys(INPUTS)
    for key, (name, rows, columns, leading) in matrix.items():
        tensors[name] = _matrix(name, dtypes[key], layouts[key], rows, columns, leading, buffers[sources[key]])
    for name, scale, size in (("inv_scale_x", table.scale_a, "M"), ("inv_scale_w", table.scale_b, "N")):
        if scale is not None:
            tensors[name] = Tensor(name, scale.dtype, "row", (size if scale.per == "row" else "1",), ("1",), name)
    if table.bias is not None:
        dtype, layout, buffer = dtypes["bias"], layouts["bias"], buffers[sources["bias"]]
        if table.bias.full:
            tensors["Bias"] = _matrix("Bias", dtype, layout, "M", "N", "LDD", buffer)
        else:
            tensors["Bias"] = Tensor("Bias", dtype, layout, ("N" if layout == "row" else "M",), ("1",), buffer)
    tensors["Y"] = _matrix("Y", table.c.dtype, table.c.layout, "M", "N", "LDC", "Y")
    return tensors


def product_settings(problems: Problems, table: MatrixProductTable) -> dict[str, ParameterValue]:
    """What templates find in `operation.settings`."""
    settings: dict[str, ParameterValue] = {
        "activation": table.activation,
        "alpha": table.alpha,
        "beta": table.beta,
        "scaling": _scaling(problems, table),
        "split_k": bool(table.split_k),
    }
    settings |= template_settings(problems, table.settings, reserved=settings)
    order = input_order(problems, table.input_reorder, INPUTS)
    if order is not None:
        settings["input_reorder"] = order
    return settings


def accumulator_of(table: MatrixProductTable, tensors: Mapping[str, Tensor | None]) -> str:
    """The type of sums: what the table says, or the usual one of its operands."""
    x = tensors["X"]
    return table.accumulator or accumulator_for("" if x is None else x.dtype)


def product_sizes(operation: Operation, m: int, n: int, k: int) -> dict[str, int]:
    """Sizes of a product; equal ones where operands share a buffer, which must have one size."""
    buffers = [tensor.buffer for tensor in operation.tensors]
    if len(set(buffers)) < len(buffers):
        n = k = m
    return {"M": m, "N": n, "K": k}


def _matrix(name: str, dtype: str, layout: str, rows: str, columns: str, leading: str, buffer: str) -> Tensor:
    strides = (leading, "1") if layout == "row" else ("1", leading)
    return Tensor(name, dtype, layout, (rows, columns), strides, buffer)


def _least_leading(tensor: Tensor | None) -> str:
    """The leading dimension of a matrix without gaps; 0 for a vector and for none."""
    if tensor is None or len(tensor.sizes) < 2:
        return "0"
    return tensor.sizes[-1 if tensor.layout == "row" else -2]


def _least_batch_stride(tensor: Tensor | None) -> str:
    """The stride between matrices that lie behind one another."""
    if tensor is None or len(tensor.sizes) < 3:
        return "0"
    lines, leading = (-2, -2) if tensor.layout == "row" else (-1, -1)
    return f"{tensor.sizes[lines]} * {tensor.strides[leading]}"


def _contraction(tensors: Mapping[str, Tensor | None], settings: Mapping[str, ParameterValue]) -> Contraction:
    x, w, y = (_axes(_present(tensors, name)) for name in ("X", "W", "Y"))

    def repeated(name: str, rows: str, columns: str) -> MatrixAxes | None:
        """A tensor with an element for each row, for each column, or for all."""
        if tensors[name] is None:
            return None
        return MatrixAxes(
            tensor=name,
            batch=tuple((size, "0") for size, _ in y.batch),
            rows=((y.rows[0][0], rows),),
            columns=((y.columns[0][0], columns),),
        )

    def scale(name: str, rows: str, columns: str) -> MatrixAxes | None:
        tensor = tensors[name]
        one = tensor is not None and all(size == "1" for size in tensor.sizes)
        return repeated(name, *("0", "0") if one else (rows, columns))

    bias = tensors["Bias"]
    added = None
    if bias is not None:
        vector = ("0", "1") if bias.layout == "row" else ("1", "0")
        added = repeated("Bias", *vector) if len(bias.sizes) < 2 else _axes(bias)
    return Contraction(
        x=x,
        w=w,
        y=y,
        scale_x=scale("inv_scale_x", "1", "0"),
        scale_w=scale("inv_scale_w", "0", "1"),
        bias=added,
        alpha=number_of(settings, "alpha", 1.0),
        beta=number_of(settings, "beta", 1.0),
        activation=str(settings.get("activation", "none")),
    )


def _present(tensors: Mapping[str, Tensor | None], name: str) -> Tensor:
    """A tensor that every product has. Raises KeyError."""
    tensor = tensors[name]
    if tensor is None:
        raise KeyError(name)
    return tensor


def _axes(tensor: Tensor) -> MatrixAxes:
    """The last two axes are rows and columns, those before them tell the matrix."""
    axes = tuple(zip(tensor.sizes, tensor.strides, strict=True))
    return MatrixAxes(tensor=tensor.name, batch=axes[:-2], rows=axes[-2:-1], columns=axes[-1:])


def _scaling(problems: Problems, table: MatrixProductTable) -> str:
    given = {"scale_a": table.scale_a, "scale_b": table.scale_b}
    if table.scale_a is None and table.scale_b is None:
        return "none"
    for name, other in (("scale_a", "scale_b"), ("scale_b", "scale_a")):
        if given[name] is None:
            message = f"`{other}` needs `{name}`: a product is scaled by both or by none"
            problems.at_key(("operation", other), "inconsistent-scale", message)
    for key in ("per", "dtype"):
        first, second = getattr(table.scale_a, key, None), getattr(table.scale_b, key, None)
        if table.scale_a and table.scale_b and first != second:
            place = ("operation", "scale_b", key)
            message = f'`{key}` of scale_b is "{second}" and that of scale_a "{first}"; they must be equal'
            problems.at_value(place, "inconsistent-scale", message)
    chosen = table.scale_a or table.scale_b
    return chosen.per if chosen else "none"


GEMM = OperationKind(
    name="gemm",
    about=ABOUT,
    table=GemmTable,
    read=read_gemm,
    shape_docs=SHAPE_DOCS,
    tensors=(*INPUTS, "Y"),
    outline=Operation(
        kind="gemm",
        inputs=(),
        outputs=(),
        accumulator="f32",
        size_arguments=SIZES,
        runtime_arguments=RUNTIME,
        size_defaults=dict.fromkeys(LEADING, "0"),
    ),
    may_be_zero=frozenset({"LDD"}),
    sizes_for=product_sizes,
)
