"""`[operation]` of kind `custom`: tensors, sizes and runtime arguments one by one. What it computes is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ckwatch.model.diagnostics import Related
from ckwatch.model.kernels import Operation, OutputComparison, SizeLimits, Tensor
from ckwatch.model.tensors import INT32_MAX, contiguous_strides, evaluate_size, names_in
from ckwatch.workspace.operations import tables
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.runtime_values import read_runtime_values
from ckwatch.workspace.operations.tensor_values import INDEX, VALUES, Index, Values, read_values
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.problems import Problems, did_you_mean, join_names
from ckwatch.workspace.settings import Section
from ckwatch.workspace.toml_document import KeyPath

ABOUT = "anything else: tensors, sizes and runtime arguments one by one"
_TENSOR_NAME = "the name in templates and in the C function"
_TENSOR_SIZES = "the extent of each axis: integers or expressions of the sizes with `+ - * / % ( )`"
_TENSOR_STRIDES = "of each axis, as sizes are written; without them there are no gaps"


class CustomInputTable(Section):
    """`[[operation.input]]`."""

    name: tables.Identifier = Field(description=_TENSOR_NAME)
    dtype: tables.Dtype | None = Field(None, description=tables.DTYPE)
    layout: tables.Layout = Field("row", description=tables.LAYOUT)
    sizes: list[tables.Size] | None = Field(None, description=_TENSOR_SIZES)
    strides: list[tables.Size] | None = Field(None, description=_TENSOR_STRIDES)
    same_as: str | None = Field(None, description=tables.SAME_AS)
    absent: bool = Field(False, description="the template names this input, this kernel does not have it")
    values: Values | None = Field(None, description=VALUES)
    index: Index | None = Field(None, description=INDEX)
    optional: bool = Field(False, description="it may be a null pointer, which is tried, too")


class CustomOutputTable(Section):
    """`[[operation.output]]`."""

    name: tables.Identifier = Field(description=_TENSOR_NAME)
    dtype: tables.Dtype = Field(description=tables.DTYPE)
    layout: tables.Layout = Field("row", description=tables.LAYOUT)
    sizes: list[tables.Size] = Field(description=_TENSOR_SIZES)
    strides: list[tables.Size] | None = Field(None, description=_TENSOR_STRIDES)
    rtol: tables.Tolerance | None = Field(None, description="the relative error that an element may have")
    atol: tables.Tolerance | None = Field(None, description="the error that an element may have however small it is")
    ulp: tables.Tolerance | None = Field(None, description="the error that an element may have, in its last place")
    reduction: tables.Size | None = Field(None, description="the length of the longest sum behind an element")
    nan: bool = Field(False, description="whether the reference may say that an element is NaN")
    in_out: bool = Field(False, description="the kernel reads it, too: it holds `values` before each launch")
    partial: bool = Field(False, description="the kernel may leave elements, which keep the `values` from before")
    values: Values | None = Field(None, description=f"before a launch, of `in_out` and `partial`; {VALUES}")
    index: Index | None = Field(None, description=f"before a launch, of `in_out` and `partial`; {INDEX}")


class LimitsTable(Section):
    """A size in `[operation.limits]`."""

    min: tables.Size | None = Field(None, description="the least value: an integer or an expression of other sizes")
    max: tables.Size | None = Field(None, description="the greatest value: an integer or an expression of other sizes")
    multiple: Annotated[int, Field(ge=1)] = Field(1, description="what it is a multiple of")


class CustomTable(tables.SettingsTable):
    """`[operation]` of kind `custom`."""

    kind: Literal["custom"] = Field(description=ABOUT)
    sizes: list[tables.Identifier] = Field(description="the `int32_t` size arguments")
    input: list[CustomInputTable] = Field([], description="a tensor that is read")
    output: Annotated[list[CustomOutputTable], Field(min_length=1)] = Field(description="a tensor that is written")
    accumulator: tables.Dtype = Field("f32", description=tables.ACCUMULATOR)
    runtime: dict[
        tables.Identifier, Annotated[tables.RuntimeType, Field(description="the C type of this runtime argument")]
    ] = Field({}, description="runtime arguments and their C types")
    runtime_values: dict[tables.Identifier, Annotated[list[Any], Field(min_length=1)]] = Field(
        {}, description="values of runtime arguments that verification tries, each of them: `{ eps = [1e-6, 1e-5] }`"
    )
    limits: dict[tables.Identifier, LimitsTable] = Field(
        {}, description="the values that a size may have; others are not tried and refused in `[[shape]]`"
    )


def read_custom(problems: Problems, table: CustomTable) -> Operation:
    """The operation of a table of kind `custom`; it is of use only where `problems` got no new error."""
    _names_once(problems, table)
    places: dict[str, KeyPath] = {}
    for index, name in enumerate(tensor.name for tensor in table.input):
        places.setdefault(name, ("operation", "input", index))
    for index, name in enumerate(result.name for result in table.output):
        places.setdefault(name, ("operation", "output", index))
    known = {tensor.name: tensor for tensor in table.input if not tensor.absent}
    owners = tables.buffer_owners(problems, {name: tensor.same_as for name, tensor in known.items()}, places)
    inputs: list[tuple[str, Tensor | None]] = []
    extents = _extents(table, owners)
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
            found = Tensor(tensor.name, dtype, tensor.layout, tuple(sizes), strides, source.name)
            values = read_values(problems, place, (tensor.values, tensor.index), dtype, extents, table.sizes)
            found = replace(found, values=values, optional=tensor.optional, may_be_empty=_may_be_empty(table, sizes))
            inputs.append((tensor.name, found))
    outputs: list[tuple[str, Tensor]] = []
    for result in table.output:
        strides = _strides(problems, places[result.name], table.sizes, result.layout, result.sizes, result.strides)
        found = Tensor(result.name, result.dtype, result.layout, tuple(result.sizes), strides, result.name)
        outputs.append((result.name, _with_content(problems, table, places[result.name], result, found, extents)))
    return Operation(
        kind="custom",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        accumulator=table.accumulator,
        size_arguments=tuple(table.sizes),
        runtime_arguments=tuple(table.runtime),
        runtime_types=dict(table.runtime),
        runtime_values=read_runtime_values(problems, table.runtime_values, table.runtime),
        limits=_limits(problems, table),
        settings=tables.template_settings(problems, table, {}, tuple(tensor.name for tensor in table.input)),
        comparisons={result.name: _comparison(problems, table, at) for at, result in enumerate(table.output)},
    )


def _comparison(problems: Problems, table: CustomTable, at: int) -> OutputComparison:
    """How the output with this number is compared; names that `reduction` does not know are reported."""
    result = table.output[at]
    for name in dict.fromkeys(names_in(result.reduction or "")):
        if name not in table.sizes:
            place = ("operation", "output", at, "reduction")
            problems.unknown_name(place, "unknown-size", f"unknown size `{name}`", name, table.sizes)
    return OutputComparison(result.rtol, result.atol, result.ulp, result.reduction, result.nan)


def _limits(problems: Problems, table: CustomTable) -> dict[str, SizeLimits]:
    """The limits of sizes; names that are none are reported."""
    found = {}
    for name, limits in table.limits.items():
        place = ("operation", "limits", name)
        if name not in table.sizes:
            message = f"`{name}` is not a size; {did_you_mean(name, table.sizes)}known: {join_names(table.sizes)}"
            problems.at_key(place, "unknown-size", message)
            continue
        for key, text in (("min", limits.min), ("max", limits.max)):
            for other in dict.fromkeys(names_in(text or "")):
                if other not in table.sizes or other == name:
                    known = [size for size in table.sizes if size != name]
                    message = f"unknown size `{other}`; {did_you_mean(other, known)}known: {join_names(known)}"
                    problems.at_value((*place, key), "unknown-size", message)
        ends = [limits.min or "0", limits.max or str(INT32_MAX)]
        if not any(map(names_in, ends)) and evaluate_size(ends[0], {}) > evaluate_size(ends[1], {}):
            message = f"no `{name}` is at least {limits.min} and at most {limits.max}"
            problems.at_value((*place, "max"), "out-of-range", message)
        found[name] = SizeLimits(limits.min, limits.max, limits.multiple)
    return found


def _may_be_empty(table: CustomTable, sizes: Sequence[str]) -> bool:
    """Return True if the operation allows 0 for a size among these expressions."""
    allowed = {name for name, limits in table.limits.items() if limits.min == "0"}
    return any(not allowed.isdisjoint(names_in(size)) for size in sizes)


def _extents(table: CustomTable, owners: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """The sizes of all tensors that there are."""
    own: dict[str, Sequence[str]] = {one.name: one.sizes for one in table.input if one.sizes is not None}
    own |= {one.name: one.sizes for one in table.output}
    return own | {name: own[owner] for name, owner in owners.items() if name not in own and owner in own}


def _with_content(
    problems: Problems,
    table: CustomTable,
    place: KeyPath,
    result: CustomOutputTable,
    tensor: Tensor,
    extents: Mapping[str, Sequence[str]],
) -> Tensor:
    """The tensor of an output with its content before a launch."""
    values = read_values(problems, place, (result.values, result.index), result.dtype, extents, table.sizes)
    for key in ("values", "index"):
        if getattr(result, key) is not None and not (result.in_out or result.partial):
            message = f"`{key}` is the content before a launch, which only an output with `in_out` or `partial` has"
            problems.at_key((*place, key), "inconsistent-values", message)
    may_be_empty = _may_be_empty(table, result.sizes)
    return replace(tensor, values=values, in_out=result.in_out, partial=result.partial, may_be_empty=may_be_empty)


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


CUSTOM = OperationKind(
    about=ABOUT,
    table=CustomTable,
    read=read_custom,
    shape_docs={"*": "a value for each size argument and each runtime argument of the operation"},
)
