"""`[operation]` of a kernel file: what a kernel computes, and from that the tensors and arguments of its C function.

A GEMM is Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias) with X M×K, W K×N and Y M×N. Names,
order and sizes of the arguments are those of PyTorch Inductor's ROCm backend. For a template that is no GEMM, `custom`
lists tensors and sizes one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckwatch.config.custom_operation import read_custom
from ckwatch.config.document import KeyPath
from ckwatch.config.mistakes import Mistakes, listed
from ckwatch.config.operation_tables import CustomTable, GemmTable, OperandTable
from ckwatch.config.tensors import buffer_owners, input_order, template_settings
from ckwatch.model.kernel import Operation, ParameterValue, Tensor
from ckwatch.model.text import Span

GEMM_INPUTS = ("X", "W", "inv_scale_x", "inv_scale_w", "Bias")
GEMM_SIZES = ("M", "N", "K", "LDA", "LDB", "LDC", "LDD")
GEMM_RUNTIME = ("kBatch",)

GEMM_OUTLINE = Operation(
    kind="gemm",
    inputs=(),
    outputs=(),
    accumulator="f32",
    size_arguments=GEMM_SIZES,
    runtime_arguments=GEMM_RUNTIME,
)
"""What is known of a GEMM whose `[operation]` has mistakes: the arguments that its shapes may give."""

TABLES: dict[str, type[GemmTable | CustomTable]] = {"gemm": GemmTable, "custom": CustomTable}


def read_operation(mistakes: Mistakes, values: Any, elsewhere: Mapping[str, str]) -> Operation | None:
    """The operation that `[operation]` describes, or None and its mistakes."""
    base: KeyPath = ("operation",)
    if not isinstance(values, dict):
        mistakes.wrong_type(base, "a table", values)
        return None
    kind = values.get("kind")
    if kind is None:
        mistakes.at_value(base, "missing-key", f"`kind` is missing in [operation]; known: {listed(TABLES)}")
        return None
    if not isinstance(kind, str):
        mistakes.wrong_type((*base, "kind"), "a string", kind)
        return None
    if kind not in TABLES:
        what = f"unknown operation kind `{kind}`"
        mistakes.unknown_name((*base, "kind"), "unknown-kind", what, kind, TABLES)
        return None
    table = mistakes.validated(TABLES[kind], values, base, elsewhere=elsewhere)
    before = mistakes.errors_found
    operation = None
    if isinstance(table, GemmTable):
        operation = _gemm(mistakes, table)
    elif isinstance(table, CustomTable):
        operation = read_custom(mistakes, table)
    return operation if mistakes.errors_found == before else None


def operation_spans(mistakes: Mistakes, values: Mapping[str, Any]) -> dict[str, Span]:
    """Places of the operation's values by dotted key: `a`, `a.dtype`, `activation`, `input.0.dtype`."""
    spans = {}
    waiting: list[tuple[KeyPath, Any]] = [((key,), value) for key, value in values.items()]
    while waiting:
        path, value = waiting.pop(0)
        spans[".".join(map(str, path))] = mistakes.document.span_of(("operation", *path))
        if isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, index), inner) for index, inner in enumerate(value) if isinstance(inner, dict)]
    return spans


def _gemm(mistakes: Mistakes, table: GemmTable) -> Operation | None:
    operands: dict[str, OperandTable] = {"a": table.a, "b": table.b}
    if table.bias is not None:
        operands["bias"] = table.bias
    places: dict[str, KeyPath] = {name: ("operation", name) for name in operands}
    sources = buffer_owners(mistakes, {name: operand.same_as for name, operand in operands.items()}, places)
    dtypes: dict[str, str] = {}
    layouts: dict[str, str] = {}
    for name, operand in operands.items():
        source = operands[sources[name]]
        if source.dtype is None:
            if source is operand and operand.same_as is None:
                mistakes.at_value(("operation", name), "missing-key", f"`dtype` is missing in [operation.{name}]")
            continue
        if operand.dtype not in (None, source.dtype):
            message = f"`{name}` is the same buffer as `{sources[name]}`, whose dtype is {source.dtype}"
            mistakes.at_value(("operation", name, "dtype"), "dtype-mismatch", message)
        dtypes[name] = source.dtype
        layouts[name] = operand.layout or source.layout or "row"
    scaling = _scaling(mistakes, table)
    settings: dict[str, ParameterValue] = {
        "activation": table.activation,
        "alpha": table.alpha,
        "beta": table.beta,
        "scaling": scaling,
        "split_k": bool(table.split_k),
    }
    settings |= template_settings(mistakes, table.settings, reserved=settings)
    order = input_order(mistakes, table.input_reorder, GEMM_INPUTS)
    if order is not None:
        settings["input_reorder"] = order
    if len(dtypes) < len(operands):
        return None
    buffers = {"a": "X", "b": "W", "bias": "Bias"}
    matrix = {"a": ("X", "M", "K", "LDA"), "b": ("W", "K", "N", "LDB")}
    tensors: dict[str, Tensor | None] = dict.fromkeys(GEMM_INPUTS)
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
    result = _matrix("Y", table.c.dtype, table.c.layout, "M", "N", "LDC", "Y")
    return Operation(
        kind="gemm",
        inputs=tuple(tensors.items()),
        outputs=(("Y", result),),
        accumulator=table.accumulator or {"i8": "i32", "f64": "f64"}.get(dtypes["a"], "f32"),
        size_arguments=GEMM_SIZES,
        runtime_arguments=GEMM_RUNTIME,
        runtime_types=dict.fromkeys(GEMM_RUNTIME, "int32_t"),
        settings=settings,
    )


def _matrix(name: str, dtype: str, layout: str, rows: str, columns: str, leading: str, buffer: str) -> Tensor:
    strides = (leading, "1") if layout == "row" else ("1", leading)
    return Tensor(name, dtype, layout, (rows, columns), strides, buffer)


def _scaling(mistakes: Mistakes, table: GemmTable) -> str:
    given = {"scale_a": table.scale_a, "scale_b": table.scale_b}
    if table.scale_a is None and table.scale_b is None:
        return "none"
    for name, other in (("scale_a", "scale_b"), ("scale_b", "scale_a")):
        if given[name] is None:
            message = f"`{other}` needs `{name}`: a product is scaled by both or by none"
            mistakes.at_key(("operation", other), "inconsistent-scale", message)
    for key in ("per", "dtype"):
        first, second = getattr(table.scale_a, key, None), getattr(table.scale_b, key, None)
        if table.scale_a and table.scale_b and first != second:
            place = ("operation", "scale_b", key)
            message = f'`{key}` of scale_b is "{second}" and that of scale_a "{first}"; they must be equal'
            mistakes.at_value(place, "inconsistent-scale", message)
    chosen = table.scale_a or table.scale_b
    return chosen.per if chosen else "none"
