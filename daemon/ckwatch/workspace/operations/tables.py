"""Fields shared by the tables of `[operation]`: values with their checks, operands, and the buffers they share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ckwatch.model.kernels import ParameterValue, every_input
from ckwatch.model.names import why_too_long
from ckwatch.model.tensors import DTYPES, LAYOUTS, parse_size
from ckwatch.workspace.parameters import as_parameter, kind_of
from ckwatch.workspace.problems import Problems, describe_value, unknown_value_error, validator_error
from ckwatch.workspace.toml_document import KeyPath

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")

RUNTIME_TYPES = ("int32_t", "int64_t", "uint32_t", "uint64_t", "size_t", "float", "double", "bool")

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


WHOLE_DTYPES = tuple(name for name, dtype in DTYPES.items() if dtype.packed == 1)
"""Those whose elements are whole bytes."""


def known_dtype(value: str) -> str:
    """One of `WHOLE_DTYPES`."""
    if value in DTYPES and value not in WHOLE_DTYPES:
        message = f"`{value}` has two elements in a byte: only `a` and `b` of kind `gemm` take it, with shuffled scales"
        raise validator_error("unknown_value", message)
    if value not in WHOLE_DTYPES:
        raise unknown_value_error("dtype", value, WHOLE_DTYPES)
    return value


def known_operand_dtype(value: str) -> str:
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


SCALINGS = ("tensor", "row", "block")


def known_scaling(value: str) -> str:
    """One of `SCALINGS`: how many values a scale has."""
    if value not in SCALINGS:
        raise unknown_value_error("scaling", value, SCALINGS)
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
OperandDtype = Annotated[str, AfterValidator(known_operand_dtype)]
Layout = Annotated[str, AfterValidator(known_layout)]
Activation = Annotated[str, AfterValidator(known_activation)]
Scaling = Annotated[str, AfterValidator(known_scaling)]
RuntimeType = Annotated[str, AfterValidator(known_runtime_type)]
Identifier = Annotated[str, AfterValidator(c_identifier)]
Size = Annotated[str, BeforeValidator(size_expression)]
Factor = Annotated[float, Field(allow_inf_nan=False)]


DTYPE = "the element type"
LAYOUT = "row- or column-major"
SAME_AS = "the same buffer as another input's: given twice, it is one argument"
ACCUMULATOR = "the type of sums; by default f32, i32 for i8, f64 for f64"
TEMPLATE_SETTINGS = "handed to the template in `operation.settings`"
INPUT_REORDER = "order of the inputs in the C function"


class OperationTable(BaseModel):
    """A table of `[operation]`; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class OperandTable(OperationTable):
    """`a`, `b` or `bias`."""

    dtype: Dtype | None = Field(None, description=DTYPE)
    layout: Layout | None = Field(None, description=LAYOUT)
    same_as: str | None = Field(None, description=SAME_AS)


class OutputTable(OperationTable):
    """`c`."""

    dtype: Dtype = Field(description=DTYPE)
    layout: Layout = Field("row", description=LAYOUT)


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


def check_both_scales(problems: Problems, scale_a: OperationTable | None, scale_b: OperationTable | None) -> None:
    """Report `scale_a` or `scale_b` without the other."""
    given = {"scale_a": scale_a, "scale_b": scale_b}
    for name, other in (("scale_a", "scale_b"), ("scale_b", "scale_a")):
        if given[name] is None and given[other] is not None:
            message = f"`{other}` needs `{name}`: a product is scaled by both or by none"
            problems.at_key(("operation", other), "inconsistent-scale", message)


def input_order(problems: Problems, order: Sequence[int] | None, names: Sequence[str]) -> tuple[int, ...] | None:
    """`input_reorder`, which holds each index of `names` once."""
    if order is None:
        return None
    order = every_input(order, len(names))
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
            problems.wrong_type(path, "a number, true or false, a string, or an array", value)
        else:
            settings[key] = as_parameter(value)
    return settings


def accumulator_for(dtype: str) -> str:
    """The usual type of sums of products whose first operand has this dtype."""
    return {"i8": "i32", "f64": "f64"}.get(dtype, "f32")


def number_of(settings: Mapping[str, ParameterValue], key: str, default: float) -> float:
    """A setting that is a number. Raises ValueError for anything else."""
    value = settings.get(key, default)
    if not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    return float(value)
