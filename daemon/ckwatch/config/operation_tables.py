"""The tables of `[operation]` as pydantic models; `docs/workspace.md` describes each key."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ckwatch.config.mistakes import custom, described, unknown
from ckwatch.model.dtypes import DTYPES, LAYOUTS
from ckwatch.model.sizes import parse_size

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")

RUNTIME_TYPES = ("int32_t", "int64_t", "uint32_t", "uint64_t", "size_t", "float", "double", "bool")

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def known_dtype(value: str) -> str:
    """A key of `DTYPES`."""
    if value not in DTYPES:
        raise unknown("dtype", value, DTYPES)
    return value


def known_layout(value: str) -> str:
    """A key of `LAYOUTS`."""
    if value not in LAYOUTS:
        raise unknown("layout", value, LAYOUTS)
    return value


def known_activation(value: str) -> str:
    """One of `ACTIVATIONS`."""
    if value not in ACTIVATIONS:
        raise unknown("activation", value, ACTIVATIONS)
    return value


def known_scaling(value: str) -> str:
    """How many values a scale has."""
    if value not in ("tensor", "row"):
        raise unknown("scaling", value, ("tensor", "row"))
    return value


def known_runtime_type(value: str) -> str:
    """A C type of a runtime argument."""
    if value not in RUNTIME_TYPES:
        raise unknown("runtime type", value, RUNTIME_TYPES)
    return value


def c_identifier(value: str) -> str:
    """A name that can be an argument of a C function."""
    if not _IDENTIFIER.fullmatch(value):
        raise custom("invalid_name", f"`{value}` is no C identifier")
    return value


def size_expression(value: Any) -> Any:
    """A size or stride: a positive integer, a size argument's name, or a product, sum, … of these."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise custom("wrong_type", f"a size is an integer or a string, not {described(value)}")
    if parse_size(value) is None:
        raise custom("invalid_size", f"`{value}` is no size: write integers, names of sizes, and + - * / % ( )")
    return value


Dtype = Annotated[str, AfterValidator(known_dtype)]
Layout = Annotated[str, AfterValidator(known_layout)]
Activation = Annotated[str, AfterValidator(known_activation)]
Scaling = Annotated[str, AfterValidator(known_scaling)]
RuntimeType = Annotated[str, AfterValidator(known_runtime_type)]
Identifier = Annotated[str, AfterValidator(c_identifier)]
Size = Annotated[str, BeforeValidator(size_expression)]
Factor = Annotated[float, Field(allow_inf_nan=False)]


class OperationTable(BaseModel):
    """A table of `[operation]`; unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class OperandTable(OperationTable):
    """`a`, `b` or `bias`. `same_as` names another of them: one buffer given twice."""

    dtype: Dtype | None = None
    layout: Layout | None = None
    same_as: str | None = None


class BiasTable(OperandTable):
    """`bias`: a vector (one value per column of Y for `row`, per row of Y for `col`), or an M×N matrix if `full`."""

    full: bool = False


class OutputTable(OperationTable):
    """`c`."""

    dtype: Dtype
    layout: Layout = "row"


class ScaleTable(OperationTable):
    """`scale_a` or `scale_b`: one value (`tensor`), or one per row of X and per column of W (`row`)."""

    dtype: Dtype = "f32"
    per: Scaling = "tensor"


class GemmTable(OperationTable):
    """`[operation]` of kind `gemm`. `settings` are handed to the template as they are."""

    kind: Literal["gemm"]
    a: OperandTable
    b: OperandTable
    c: OutputTable
    accumulator: Dtype | None = None
    bias: BiasTable | None = None
    scale_a: ScaleTable | None = None
    scale_b: ScaleTable | None = None
    alpha: Factor = 1.0
    beta: Factor = 1.0
    activation: Activation = "none"
    split_k: bool | None = None
    settings: dict[Identifier, Any] = {}
    input_reorder: list[int] | None = None


class CustomInputTable(OperationTable):
    """`[[operation.input]]`. `absent`: the template names this input, this kernel does not have it."""

    name: Identifier
    dtype: Dtype | None = None
    layout: Layout = "row"
    sizes: list[Size] | None = None
    strides: list[Size] | None = None
    same_as: str | None = None
    absent: bool = False


class CustomOutputTable(OperationTable):
    """`[[operation.output]]`."""

    name: Identifier
    dtype: Dtype
    layout: Layout = "row"
    sizes: list[Size]
    strides: list[Size] | None = None


class CustomTable(OperationTable):
    """`[operation]` of kind `custom`. `settings` are handed to the template as they are."""

    kind: Literal["custom"]
    sizes: list[Identifier]
    input: list[CustomInputTable] = []
    output: Annotated[list[CustomOutputTable], Field(min_length=1)]
    accumulator: Dtype = "f32"
    runtime: dict[Identifier, RuntimeType] = {}
    settings: dict[Identifier, Any] = {}
    input_reorder: list[int] | None = None
