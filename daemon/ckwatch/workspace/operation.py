"""`[operation]` of a kernel file: its keys as pydantic models, and the tensors and arguments of the C function.

A GEMM is Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias) with X M×K, W K×N and Y M×N. Names,
order and sizes of the arguments are those of PyTorch Inductor's ROCm backend. For a template that is no GEMM, the kind
`custom` lists tensors, sizes and runtime arguments one by one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ckwatch.model.diagnostics import Related
from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.names import why_too_long
from ckwatch.model.tensors import DTYPES, LAYOUTS, contiguous_strides, names_in, parse_size
from ckwatch.model.text import Span
from ckwatch.workspace.parameters import RESERVED, kind_of
from ckwatch.workspace.problems import (
    Problems,
    describe_value,
    did_you_mean,
    join_names,
    unknown_value_error,
    validator_error,
)
from ckwatch.workspace.toml_document import KeyPath

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")

RUNTIME_TYPES = ("int32_t", "int64_t", "uint32_t", "uint64_t", "size_t", "float", "double", "bool")

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def known_dtype(value: str) -> str:
    """A key of `DTYPES`."""
    if value not in DTYPES:
        raise unknown_value_error("dtype", value, DTYPES)
    return value


def known_layout(value: str) -> str:
    """A key of `LAYOUTS`."""
    if value not in LAYOUTS:
        raise unknown_value_error("layout", value, LAYOUTS)
    return value


def known_activation(value: str) -> str:
    """One of `ACTIVATIONS`."""
    if value not in ACTIVATIONS:
        raise unknown_value_error("activation", value, ACTIVATIONS)
    return value


def known_scaling(value: str) -> str:
    """How many values a scale has."""
    if value not in ("tensor", "row"):
        raise unknown_value_error("scaling", value, ("tensor", "row"))
    return value


def known_runtime_type(value: str) -> str:
    """A C type of a runtime argument."""
    if value not in RUNTIME_TYPES:
        raise unknown_value_error("runtime type", value, RUNTIME_TYPES)
    return value


def c_identifier(value: str) -> str:
    """A name that can be an argument of a C function."""
    if not _IDENTIFIER.fullmatch(value):
        raise validator_error("invalid_name", f"`{value}` is not a C identifier")
    if (reason := why_too_long(value)) is not None:
        raise validator_error("invalid_name", reason)
    return value


def size_expression(value: Any) -> Any:
    """A size or stride: a positive integer, a size argument's name, or a product, sum, … of these."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise validator_error("wrong_type", f"a size is an integer or a string, not {describe_value(value)}")
    if parse_size(value) is None:
        raise validator_error(
            "invalid_size", f"`{value}` is not a size: write integers, names of sizes, and + - * / % ( )"
        )
    return value


Dtype = Annotated[str, AfterValidator(known_dtype)]
Layout = Annotated[str, AfterValidator(known_layout)]
Activation = Annotated[str, AfterValidator(known_activation)]
Scaling = Annotated[str, AfterValidator(known_scaling)]
RuntimeType = Annotated[str, AfterValidator(known_runtime_type)]
Identifier = Annotated[str, AfterValidator(c_identifier)]
Size = Annotated[str, BeforeValidator(size_expression)]
Factor = Annotated[float, Field(allow_inf_nan=False)]


_KIND = "`gemm` is Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias), `custom` anything else"
_DTYPE = "the element type"
_LAYOUT = "row- or column-major"
_SAME_AS = "the same buffer as another input's: given twice, it is one argument"
_SCALES = "scales of X and W, both or none"
_ACCUMULATOR = "the type of sums; by default f32, i32 for i8, f64 for f64"
_TENSOR_NAME = "the name in templates and in the C function"
_TENSOR_SIZES = "the extent of each axis: integers or expressions of the sizes with `+ - * / % ( )`"
_TENSOR_STRIDES = "of each axis, as sizes are written; without them there are no gaps"
_TEMPLATE_SETTINGS = "handed to the template in `operation.settings`"
_INPUT_REORDER = "order of the inputs in the C function"


class OperationTable(BaseModel):
    """A table of `[operation]`; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class OperandTable(OperationTable):
    """`a`, `b` or `bias`."""

    dtype: Dtype | None = Field(None, description=_DTYPE)
    layout: Layout | None = Field(None, description=_LAYOUT)
    same_as: str | None = Field(None, description=_SAME_AS)


class BiasTable(OperandTable):
    """`bias`."""

    full: bool = Field(False, description="an M×N matrix instead of a vector")


class OutputTable(OperationTable):
    """`c`."""

    dtype: Dtype = Field(description=_DTYPE)
    layout: Layout = Field("row", description=_LAYOUT)


class ScaleTable(OperationTable):
    """`scale_a` or `scale_b`."""

    dtype: Dtype = Field("f32", description=_DTYPE)
    per: Scaling = Field(
        "tensor",
        description="one value (`tensor`), or one per row of X and one per column of W (`row`); equal for both scales",
    )


class GemmTable(OperationTable):
    """`[operation]` of kind `gemm`."""

    kind: Literal["gemm"] = Field(description=_KIND)
    a: OperandTable = Field(description="X, M×K")
    b: OperandTable = Field(description="W, K×N")
    c: OutputTable = Field(description="Y, M×N")
    accumulator: Dtype | None = Field(None, description=_ACCUMULATOR)
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
    settings: dict[Identifier, Any] = Field({}, description=_TEMPLATE_SETTINGS)
    input_reorder: list[int] | None = Field(None, description=_INPUT_REORDER)


class CustomInputTable(OperationTable):
    """`[[operation.input]]`."""

    name: Identifier = Field(description=_TENSOR_NAME)
    dtype: Dtype | None = Field(None, description=_DTYPE)
    layout: Layout = Field("row", description=_LAYOUT)
    sizes: list[Size] | None = Field(None, description=_TENSOR_SIZES)
    strides: list[Size] | None = Field(None, description=_TENSOR_STRIDES)
    same_as: str | None = Field(None, description=_SAME_AS)
    absent: bool = Field(False, description="the template names this input, this kernel does not have it")


class CustomOutputTable(OperationTable):
    """`[[operation.output]]`."""

    name: Identifier = Field(description=_TENSOR_NAME)
    dtype: Dtype = Field(description=_DTYPE)
    layout: Layout = Field("row", description=_LAYOUT)
    sizes: list[Size] = Field(description=_TENSOR_SIZES)
    strides: list[Size] | None = Field(None, description=_TENSOR_STRIDES)


class CustomTable(OperationTable):
    """`[operation]` of kind `custom`."""

    kind: Literal["custom"] = Field(description=_KIND)
    sizes: list[Identifier] = Field(description="the `int32_t` size arguments")
    input: list[CustomInputTable] = Field([], description="a tensor that is read")
    output: Annotated[list[CustomOutputTable], Field(min_length=1)] = Field(description="a tensor that is written")
    accumulator: Dtype = Field("f32", description=_ACCUMULATOR)
    runtime: dict[Identifier, Annotated[RuntimeType, Field(description="the C type of this runtime argument")]] = Field(
        {}, description="runtime arguments and their C types"
    )
    settings: dict[Identifier, Any] = Field({}, description=_TEMPLATE_SETTINGS)
    input_reorder: list[int] | None = Field(None, description=_INPUT_REORDER)


def buffer_owners(
    problems: Problems, same_as: Mapping[str, str | None], places: Mapping[str, KeyPath]
) -> dict[str, str]:
    """For each tensor the one that owns its buffer.

    `same_as` maps each tensor to the one it names, `places` to its table. Wrong names are reported there.
    """
    found = {}
    for name in same_as:
        at, seen = name, {name}
        while (other := same_as[at]) is not None:
            place = (*places[name], "same_as")
            if other not in same_as:
                if at == name:
                    known = [candidate for candidate in same_as if candidate != name]
                    problems.unknown_name(place, "unknown-tensor", f"`same_as` names no input: `{other}`", other, known)
                break
            if other in seen:
                problems.at_value(place, "unknown-tensor", f"`{name}` is the same as itself")
                break
            seen.add(other)
            at = other
        found[name] = at
    return found


def input_order(problems: Problems, order: Sequence[int] | None, names: Sequence[str]) -> tuple[int, ...] | None:
    """`input_reorder`, which holds each index of `names` once."""
    if order is None:
        return None
    if sorted(order) != list(range(len(names))):
        message = f"`input_reorder` must hold each of 0 to {len(names) - 1} once: the order of {', '.join(names)}"
        problems.at_value(("operation", "input_reorder"), "invalid-order", message)
    return tuple(order)


def template_settings(
    problems: Problems, given: Mapping[str, Any], reserved: Collection[str] = ()
) -> dict[str, ParameterValue]:
    """`[operation.settings]`: what only the template knows of. Keys of `reserved` are those of the operation itself."""
    settings: dict[str, ParameterValue] = {}
    for key, value in given.items():
        path = ("operation", "settings", key)
        kind = kind_of(value)
        if key in reserved:
            problems.at_key(path, "reserved-name", f"`{key}` is a setting of the operation itself: write it there")
        elif kind is None:
            problems.wrong_type(path, "a number, true or false, a string, or an array of integers", value)
        else:
            settings[key] = tuple(value) if kind == "array" else value
    return settings


def read_custom(problems: Problems, table: CustomTable) -> Operation:
    """The operation of a table of kind `custom`; it is of use only where `problems` got no new error."""
    _names_once(problems, table)
    places: dict[str, KeyPath] = {}
    for index, name in enumerate(tensor.name for tensor in table.input):
        places.setdefault(name, ("operation", "input", index))
    for index, name in enumerate(result.name for result in table.output):
        places.setdefault(name, ("operation", "output", index))
    known = {tensor.name: tensor for tensor in table.input if not tensor.absent}
    owners = buffer_owners(problems, {name: tensor.same_as for name, tensor in known.items()}, places)
    inputs: list[tuple[str, Tensor | None]] = []
    for tensor in table.input:
        if tensor.absent:
            inputs.append((tensor.name, None))
            continue
        source = known[owners[tensor.name]]
        dtype, sizes = tensor.dtype or source.dtype, tensor.sizes if tensor.sizes is not None else source.sizes
        place = places[tensor.name]
        for key, value in (("dtype", dtype), ("sizes", sizes)):
            if value is None and (tensor.same_as is None or source is not tensor):
                problems.at_value(place, "missing-key", f"`{key}` is missing in [[operation.input]]")
        if dtype is not None and sizes is not None:
            strides = _strides(problems, place, table.sizes, tensor.layout, sizes, tensor.strides)
            inputs.append((tensor.name, Tensor(tensor.name, dtype, tensor.layout, tuple(sizes), strides, source.name)))
    outputs = []
    for result in table.output:
        strides = _strides(problems, places[result.name], table.sizes, result.layout, result.sizes, result.strides)
        outputs.append(
            (result.name, Tensor(result.name, result.dtype, result.layout, tuple(result.sizes), strides, result.name))
        )
    settings = template_settings(problems, table.settings)
    order = input_order(problems, table.input_reorder, tuple(tensor.name for tensor in table.input))
    if order is not None:
        settings["input_reorder"] = order
    return Operation(
        kind="custom",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        accumulator=table.accumulator,
        size_arguments=tuple(table.sizes),
        runtime_arguments=tuple(table.runtime),
        runtime_types=dict(table.runtime),
        settings=settings,
    )


def _names_once(problems: Problems, table: CustomTable) -> None:
    """Every tensor, size and runtime argument is an argument of one C function: their names differ."""
    places: list[tuple[str, KeyPath]] = [(name, ("operation", "sizes", at)) for at, name in enumerate(table.sizes)]
    places += [(name, ("operation", "runtime", name)) for name in table.runtime]
    places += [(tensor.name, ("operation", "input", at, "name")) for at, tensor in enumerate(table.input)]
    places += [(tensor.name, ("operation", "output", at, "name")) for at, tensor in enumerate(table.output)]
    first: dict[str, KeyPath] = {}
    for name, place in places:
        if name in RESERVED and place[-1] == "name":
            message = f"`{name}` means something else in templates; call the tensor differently"
            problems.at_value(place, "reserved-name", message)
        elif name in first:
            related = (Related("first given here", problems.document.span_of(first[name])),)
            problems.at_value(place, "duplicate-argument", f"two arguments are called `{name}`", related=related)
        else:
            first[name] = place


def _strides(
    problems: Problems,
    place: KeyPath,
    known: Sequence[str],
    layout: str,
    sizes: Sequence[str],
    strides: Sequence[str] | None,
) -> tuple[str, ...]:
    """The strides of the tensor at `place`, contiguous where none are given; wrong names and counts are reported."""
    for key, expressions in (("sizes", sizes), ("strides", strides or ())):
        for index, expression in enumerate(expressions):
            for name in dict.fromkeys(names_in(expression)):
                if name not in known and (*place, key) in problems.document:
                    message = f"unknown size `{name}`; {did_you_mean(name, known)}known: {join_names(known)}"
                    problems.at_value((*place, key, index), "unknown-size", message)
    if strides is None:
        return contiguous_strides(sizes, layout)
    if len(strides) != len(sizes):
        message = f"{len(strides)} strides for {len(sizes)} sizes"
        problems.at_value((*place, "strides"), "dimension-mismatch", message)
    return tuple(strides)


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
"""What is known of a GEMM whose `[operation]` has problems: the arguments that its shapes may give."""

TABLES: dict[str, type[GemmTable | CustomTable]] = {"gemm": GemmTable, "custom": CustomTable}


def read_operation(problems: Problems, values: Any, elsewhere: Mapping[str, str]) -> Operation | None:
    """The operation that `[operation]` describes, or None and its problems."""
    base: KeyPath = ("operation",)
    if not isinstance(values, dict):
        problems.wrong_type(base, "a table", values)
        return None
    kind = values.get("kind")
    if kind is None:
        problems.missing_key(base, "kind", values, GemmTable.model_fields, f"; known: {join_names(TABLES)}")
        return None
    if not isinstance(kind, str):
        problems.wrong_type((*base, "kind"), "a string", kind)
        return None
    if kind not in TABLES:
        what = f"unknown operation kind `{kind}`"
        problems.unknown_name((*base, "kind"), "unknown-kind", what, kind, TABLES)
        return None
    table = problems.validated(TABLES[kind], values, base, elsewhere=elsewhere)
    before = problems.errors_found
    operation = None
    if isinstance(table, GemmTable):
        operation = _gemm(problems, table)
    elif isinstance(table, CustomTable):
        operation = read_custom(problems, table)
    return operation if problems.errors_found == before else None


def operation_spans(problems: Problems, values: Mapping[str, Any]) -> dict[str, Span]:
    """Places of the operation's values by dotted key: `a`, `a.dtype`, `activation`, `input.0.dtype`."""
    spans = {}
    waiting: list[tuple[KeyPath, Any]] = [((key,), value) for key, value in values.items()]
    while waiting:
        path, value = waiting.pop(0)
        spans[".".join(map(str, path))] = problems.document.span_of(("operation", *path))
        if isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, index), inner) for index, inner in enumerate(value) if isinstance(inner, dict)]
    return spans


def _gemm(problems: Problems, table: GemmTable) -> Operation | None:
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
    scaling = _scaling(problems, table)
    settings: dict[str, ParameterValue] = {
        "activation": table.activation,
        "alpha": table.alpha,
        "beta": table.beta,
        "scaling": scaling,
        "split_k": bool(table.split_k),
    }
    settings |= template_settings(problems, table.settings, reserved=settings)
    order = input_order(problems, table.input_reorder, GEMM_INPUTS)
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


def _scaling(problems: Problems, table: GemmTable) -> str:
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
