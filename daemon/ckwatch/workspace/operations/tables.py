"""Fields shared by the tables of `[operation]`: values with their checks, operands, and the buffers they share."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from ckwatch.model.kernels import ParameterValue, Tensor, every_input
from ckwatch.model.names import why_too_long
from ckwatch.model.tensors import DTYPES, LAYOUTS, contiguous_strides, parse_size
from ckwatch.workspace.parameters import as_parameter, kind_of
from ckwatch.workspace.problems import Problems, describe_value, unknown_value_error, validator_error
from ckwatch.workspace.settings import Section
from ckwatch.workspace.toml_document import KeyPath

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")

RUNTIME_TYPES = ("int32_t", "int64_t", "uint32_t", "uint64_t", "size_t", "float", "double", "bool")

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


WHOLE_DTYPES = tuple(name for name, dtype in DTYPES.items() if dtype.packed == 1)
"""Those whose elements are whole bytes."""


SCALINGS = ("tensor", "row", "block")


class Known:
    """A validator for one of `words`, each of which is a `what`; editors complete them."""

    def __init__(self, what: str, words: Iterable[str]) -> None:
        self.what = what
        self.words = tuple(words)

    def __call__(self, value: str) -> str:
        if value not in self.words:
            raise unknown_value_error(self.what, value, self.words)
        return value


def one_of(what: str, words: Iterable[str]) -> AfterValidator:
    """The validator of a field that is one of `words`."""
    return AfterValidator(Known(what, words))


_OTHER_NAMES = {
    **{one.abi_type: name for name, one in DTYPES.items() if one.limits is not None},
    **{one.abi_type.removesuffix("_t"): name for name, one in DTYPES.items() if one.limits is not None},
    "half": "f16",
    "fp16": "f16",
    "float16": "f16",
    "bfloat16": "bf16",
    "float": "f32",
    "fp32": "f32",
    "float32": "f32",
    "double": "f64",
    "fp64": "f64",
    "float64": "f64",
    "fp8": "f8",
    "e4m3": "f8",
    "e5m2": "bf8",
    "char": "i8",
    "int": "i32",
    "unsigned": "u32",
    "long": "i64",
    "size_t": "u64",
}
"""Names of dtypes in C++, NumPy and PyTorch."""


def _called_otherwise(value: str) -> str:
    meant = _OTHER_NAMES.get(value)
    if meant is not None and value not in DTYPES:
        raise validator_error("unknown_dtype", f"unknown dtype `{value}`; did you mean `{meant}`?", meant)
    return value


def _whole_bytes(value: str) -> str:
    if value in DTYPES and value not in WHOLE_DTYPES:
        message = f"`{value}` has two elements in a byte: only `a` and `b` of kind `gemm` take it, with shuffled scales"
        raise validator_error("unknown_value", message)
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


Dtype = Annotated[str, AfterValidator(_called_otherwise), AfterValidator(_whole_bytes), one_of("dtype", WHOLE_DTYPES)]
OperandDtype = Annotated[str, AfterValidator(_called_otherwise), one_of("dtype", DTYPES)]
Layout = Annotated[str, one_of("layout", LAYOUTS)]
Activation = Annotated[str, one_of("activation", ACTIVATIONS)]
Scaling = Annotated[str, one_of("scaling", SCALINGS)]
RuntimeType = Annotated[str, one_of("runtime type", RUNTIME_TYPES)]
Identifier = Annotated[str, AfterValidator(c_identifier)]
Size = Annotated[str, BeforeValidator(size_expression)]
Factor = Annotated[float, Field(allow_inf_nan=False)]
Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]


DTYPE = "the element type"
LAYOUT = "row- or column-major"
SAME_AS = "the same buffer as another input's: given twice, it is one argument"
ACCUMULATOR = "the type of sums; by default f32, i32 for i8, f64 for f64"
TEMPLATE_SETTINGS = "handed to the template in `operation.settings`"
INPUT_REORDER = "order of the inputs in the C function"
REFERENCE = "a Python function that computes the outputs, `FILE.py:FUNCTION`"


class OperationTable(Section):
    """A table of `[operation]`."""

    reference: str | None = Field(None, description=REFERENCE)


class SettingsTable(OperationTable):
    """A table of `[operation]` with settings for its template."""

    settings: dict[Identifier, Any] = Field({}, description=TEMPLATE_SETTINGS)
    input_reorder: list[int] | None = Field(None, description=INPUT_REORDER)


class OperandTable(Section):
    """`a`, `b` or `bias`."""

    dtype: Dtype | None = Field(None, description=DTYPE)
    layout: Layout | None = Field(None, description=LAYOUT)
    same_as: str | None = Field(None, description=SAME_AS)


class OutputTable(Section):
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


def check_both_scales(problems: Problems, scale_a: Section | None, scale_b: Section | None) -> None:
    """Report `scale_a` or `scale_b` without the other."""
    given = {"scale_a": scale_a, "scale_b": scale_b}
    for name, other in (("scale_a", "scale_b"), ("scale_b", "scale_a")):
        if given[name] is None and given[other] is not None:
            message = f"`{other}` needs `{name}`: a product is scaled by both or by none"
            problems.at_key(("operation", other), "inconsistent-scale", message)


def _input_order(problems: Problems, order: Sequence[int], names: Sequence[str]) -> tuple[int, ...]:
    """`input_reorder`, which holds each index of `names` once."""
    order = every_input(order, len(names))
    if sorted(order) != list(range(len(names))):
        message = f"`input_reorder` must hold each of 0 to {len(names) - 1} once: the order of {', '.join(names)}"
        problems.at_value(("operation", "input_reorder"), "invalid-order", message)
    return tuple(order)


def template_settings(
    problems: Problems,
    table: SettingsTable,
    own: Mapping[str, ParameterValue],
    inputs: Sequence[str],
    reserved: Collection[str] = (),
) -> dict[str, ParameterValue]:
    """`operation.settings` for templates: the operation's `own`, `[operation.settings]`, and the order of `inputs`.

    Names of `own` and `reserved` ones belong to the operation itself.
    """
    settings = dict(own)
    for key, value in table.settings.items():
        path = ("operation", "settings", key)
        kind = kind_of(value)
        if key in own or key in reserved:
            problems.at_key(path, "reserved-name", f"`{key}` is a setting of the operation itself: write it there")
        elif kind is None:
            problems.wrong_type(path, "a number, true or false, a string, or an array", value)
        else:
            settings[key] = as_parameter(value)
    if table.input_reorder is not None:
        settings["input_reorder"] = _input_order(problems, table.input_reorder, inputs)
    return settings


def accumulator_for(dtype: str) -> str:
    """The usual type of sums of products whose first operand has this dtype."""
    return {"i8": "i32", "f64": "f64"}.get(dtype, "f32")


def dense(name: str, dtype: str, sizes: tuple[str, ...]) -> Tensor:
    """A row-major tensor without gaps and with a buffer of its own."""
    return Tensor(name, dtype, "row", sizes, contiguous_strides(sizes, "row"), name)


def extent(parameters: Mapping[str, ParameterValue], name: str, usual: int) -> int:
    """A parameter that is an extent of tiles, `usual` where it is none."""
    value = parameters.get(name)
    return value if isinstance(value, int) and value > 0 else usual
