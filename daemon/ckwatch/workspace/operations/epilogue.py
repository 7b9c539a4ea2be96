"""`epilogue` of `[operation]`: what is done with a product, step by step, and the tensors that the steps need.

Each word is a step. Without the key a product is scaled, multiplied by `alpha`, a bias is added, and an activation
applied; with it come the scales that no word names and `alpha`, then the steps in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from ckwatch.model.contractions import EpilogueStep, MatrixAxes, usual_steps
from ckwatch.model.kernels import ParameterValue, Tensor
from ckwatch.workspace.operations import tables
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.settings import Section
from ckwatch.workspace.toml_document import KeyPath

SCALES = {"scale_a": "inv_scale_x", "scale_b": "inv_scale_w"}
"""The tensor of each scale, by its word."""

RESIDUAL = "Residual"
EPILOGUE = (
    "steps from the product to Y, in their order: activations, `scale_a`, `scale_b`, `bias`, `residual`, operands; "
    "without it scales, `alpha`, `bias`, `activation`"
)

_ARGUMENTS = frozenset(("workspace", "workspace_size", "stream", "sizes", "argument", "problem", RESIDUAL))
"""Names that mean something else in the C functions of templates."""

_RESIDUAL = "of the epilogue: added, of the size of Y"
_OPERANDS = "operands of the epilogue by their names, which are words of it and arguments of the C function"
_DOES = "what is done with the value"
_FACTOR = "of its elements"


class ResidualTable(tables.OperandTable):
    """`residual`."""

    factor: tables.Factor = Field(1.0, description=_FACTOR)


class EpilogueOperandTable(Section):
    """`[operation.operands.NAME]`."""

    does: Literal["add", "multiply"] = Field(description=_DOES)
    per: Literal["tensor", "row", "column", "element"] = Field(
        description="one value, one for each row or column of Y, or one for each element"
    )
    dtype: tables.Dtype = Field(description=tables.DTYPE)
    layout: tables.Layout = Field("row", description=f"{tables.LAYOUT}, where there is a value for each element")
    factor: tables.Factor = Field(1.0, description=_FACTOR)


class ComputedTable(tables.SettingsTable):
    """The keys of a sum of products and of what follows it."""

    accumulator: tables.Dtype | None = Field(None, description=tables.ACCUMULATOR)
    alpha: tables.Factor = Field(1.0, description="factor of the product")
    beta: tables.Factor = Field(1.0, description="factor of the bias")
    activation: tables.Activation = Field("none", description="applied to the sum")
    epilogue: list[str] | None = Field(None, description=EPILOGUE)

    def settings_for(
        self,
        problems: Problems,
        own: Mapping[str, ParameterValue],
        inputs: Sequence[str],
        reserved: Collection[str] = (),
    ) -> dict[str, ParameterValue]:
        """`operation.settings`: what all sums of products have, and the kind's `own`; as `template_settings`."""
        usual = {"activation": self.activation, "alpha": self.alpha, "beta": self.beta, **own}
        found = tables.template_settings(problems, self, usual, inputs, ("epilogue", *reserved))
        return found if self.epilogue is None else {**found, "epilogue": tuple(self.epilogue)}


class EpilogueTable(ComputedTable):
    """The keys of an epilogue, of matrix products."""

    residual: ResidualTable | None = Field(None, description=_RESIDUAL)
    operands: dict[tables.Identifier, EpilogueOperandTable] = Field({}, description=_OPERANDS)


class ConvolutionResidualTable(Section):
    """`residual` of a convolution: it lies in memory as Y does."""

    dtype: tables.Dtype | None = Field(None, description=tables.DTYPE)
    factor: tables.Factor = Field(1.0, description=_FACTOR)


class ConvolutionOperandTable(Section):
    """`[operation.operands.NAME]` of a convolution."""

    does: Literal["add", "multiply"] = Field(description=_DOES)
    per: Literal["tensor", "channel", "element"] = Field(
        description="one value, one for each channel of Y, or one for each element"
    )
    dtype: tables.Dtype = Field(description=tables.DTYPE)
    factor: tables.Factor = Field(1.0, description=_FACTOR)


class ConvolutionEpilogueTable(ComputedTable):
    """The keys of an epilogue, of convolutions."""

    residual: ConvolutionResidualTable | None = Field(None, description=_RESIDUAL)
    operands: dict[tables.Identifier, ConvolutionOperandTable] = Field({}, description=_OPERANDS)


Steps = tuple[EpilogueStep[str], ...]
"""The steps of a chain, with the names of their tensors."""


AnyEpilogueTable = EpilogueTable | ConvolutionEpilogueTable


def has_step(table: ComputedTable, word: str) -> bool:
    """Return True if `word` is a step."""
    return table.epilogue is not None and word in table.epilogue


def check_epilogue(
    problems: Problems, table: AnyEpilogueTable, *, scales: Collection[str], arguments: Collection[str]
) -> None:
    """Report what is wrong with a chain: words, and tables without one.

    `scales` are the words of scales of this kind of operation, `arguments` the names of its C function's arguments.
    """
    for name in table.operands:
        _check_name(problems, name, scales, arguments)
    places: dict[str, KeyPath] = {name: ("operation", name) for name in ("bias", "residual")}
    places |= {name: ("operation", "operands", name) for name in table.operands}
    there = {name: place for name, place in places.items() if place in problems.document}
    words = table.epilogue
    if words is None:
        for name, place in there.items():
            if name != "bias":
                message = f'`{name}` is a step of an epilogue: add `epilogue = ["{name}"]` to [operation]'
                problems.at_key(place, "inconsistent-epilogue", message)
        return
    given = table.model_fields_set
    if "activation" in given:
        message = 'an activation is a word of `epilogue`, as in `epilogue = ["bias", "gelu"]`: leave this key out'
        problems.at_key(("operation", "activation"), "inconsistent-epilogue", message)
    known = (*(name for name in tables.ACTIVATIONS if name != "none"), *scales, *places)
    for at, word in enumerate(words):
        place = ("operation", "epilogue", at)
        if word not in known:
            what = f"`{word}` is not a step of an epilogue, and no [operation.operands.{word}] makes it one"
            problems.unknown_name(place, "unknown-step", what, word, known)
        elif word not in tables.ACTIVATIONS and word in words[:at]:
            message = f"`{word}` is a step already: a tensor is used once"
            problems.at_value(place, "inconsistent-epilogue", message)
        elif word in scales and word not in given:
            message = f"`{word}` needs a table [operation.{word}]"
            problems.at_value(place, "inconsistent-epilogue", message)
    for name, place in there.items():
        if name not in words:
            message = f"`{name}` is not a step: add it to `epilogue`, where it is to be computed"
            problems.at_key(place, "inconsistent-epilogue", message)


def _check_name(problems: Problems, name: str, scales: Collection[str], arguments: Collection[str]) -> None:
    place = ("operation", "operands", name)
    if name in tables.ACTIVATIONS or name in scales or name in ("bias", "residual"):
        problems.at_key(place, "reserved-name", f"`{name}` is a step itself; call the operand differently")
    elif name in RESERVED or name in _ARGUMENTS or name in arguments or name.startswith(("LD_", "BatchStride")):
        message = f"`{name}` means something else in templates; call the operand differently"
        problems.at_key(place, "reserved-name", message)


def steps_of(table: AnyEpilogueTable, scales: Sequence[str] = (), *, bias: bool) -> Steps:
    """The steps of a right table. `scales` are the words of those that there are, `bias` says whether there is one."""
    words, operands = table.epilogue, tuple(SCALES[word] for word in scales)
    if words is None:
        return usual_steps(
            scales=operands,
            alpha=table.alpha,
            bias="Bias" if bias else None,
            beta=table.beta,
            activation=table.activation,
        )
    first: Steps = usual_steps(scales=tuple(SCALES[word] for word in scales if word not in words), alpha=table.alpha)
    return (*first, *_steps(words, table))


def _steps(words: Sequence[str], table: AnyEpilogueTable) -> Iterator[EpilogueStep[str]]:
    for word in words:
        if word in SCALES:
            yield EpilogueStep(kind="multiply", operand=SCALES[word], scale=True)
        elif word == "bias":
            yield EpilogueStep(kind="add", operand="Bias", factor=table.beta)
        elif word == "residual":
            factor = 1.0 if table.residual is None else table.residual.factor
            yield EpilogueStep(kind="add", operand=RESIDUAL, factor=factor)
        elif word in table.operands:
            operand = table.operands[word]
            yield EpilogueStep(kind=operand.does, operand=word, factor=operand.factor)
        elif word in tables.ACTIVATIONS:
            yield EpilogueStep(kind="activation", activation=word)


def with_operands(
    steps: Steps, operand: Callable[[str | None], MatrixAxes | None]
) -> tuple[EpilogueStep[MatrixAxes], ...]:
    """The steps with the axes of their tensors, which `operand` gives by names."""
    return tuple(step.with_operand(operand(step.operand)) for step in steps)


def operand_names(table: AnyEpilogueTable) -> tuple[str, ...]:
    """The tensors of a chain that only chains have, in the order of their steps."""
    words = table.epilogue or ()
    return tuple(RESIDUAL if word == "residual" else word for word in words if word in ("residual", *table.operands))


def leading_dimension(name: str) -> str:
    """The size argument of an operand that is a matrix."""
    return f"LD_{name}"


def batch_stride(name: str) -> str:
    """The size argument of an operand that is a matrix for each of a batch."""
    return f"BatchStride_{name}"


def further_matrices(tensors: Mapping[str, Tensor | None], usual: Collection[str]) -> dict[str, Tensor]:
    """The matrices among the tensors that only chains have; `usual` are the others' names."""
    return {
        name: tensor
        for name, tensor in tensors.items()
        if tensor is not None and name not in usual and len(tensor.sizes) > 1
    }
