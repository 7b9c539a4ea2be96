"""`[operation]` of kind `normalization`: RMSNorm or LayerNorm of each row of X.

What is often computed with it belongs to it: a residual that is added before, whose sum is written for the next layer,
and Y quantised by row for a GEMM in i8 or f8. The C arguments have the names that Composable Kernel has for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.row_computations import RowComputation
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.tables import (
    DTYPE,
    Dtype,
    SettingsTable,
    dense,
    extent,
    one_of,
    template_settings,
)
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.settings import Section

ABOUT = "Y = normalised(X + Residual) · Gamma + Beta, of each row"

INPUTS = ("X", "Residual", "XBias", "Gamma", "Beta", "SmoothScale")
OUTPUTS = ("Y", "ResidualOut", "YScale", "YUnquantized", "Mean", "InvStd", "InvRms")

ROLES = {
    "X": "x",
    "Residual": "residual",
    "XBias": "bias",
    "Gamma": "gamma",
    "Beta": "beta",
    "SmoothScale": "smooth",
    "Y": "y",
    "ResidualOut": "sum",
    "YScale": "y_scale",
    "YUnquantized": "unquantized",
    "Mean": "mean",
    "InvStd": "inverse",
    "InvRms": "inverse",
}
"""Roles of the tensors in the reference."""

NORMS = ("rms", "layer")
DTYPES = ("f16", "bf16")
QUANTIZED = ("i8", "f8")

SIZES = ("M", "N", "x_stride", "xr_stride", "y_stride", "yr_stride")

SHAPE_DOCS = {
    "M": "rows",
    "N": "columns: elements that are normalised together",
    "x_stride": "elements from one row of X to the next",
    "xr_stride": "elements from one row of Residual to the next",
    "y_stride": "elements from one row of Y, and of YUnquantized, to the next",
    "yr_stride": "elements from one row of ResidualOut to the next",
}


Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class QuantizeTable(Section):
    """`quantize` of a normalization."""

    dtype: Dtype = Field(description="the element type of Y: i8 or f8")
    smooth: bool = Field(False, description="whether Y is multiplied by an input of N factors before it is quantised")
    keep: bool = Field(False, description="whether Y is also written as it was before, in the type of X; of RMSNorm")


class NormalizationTable(SettingsTable):
    """`[operation]` of kind `normalization`."""

    kind: Literal["normalization"] = Field(description=f"`normalization`: {ABOUT}")
    norm: Annotated[str, one_of("norm", NORMS)] = Field(
        description="`rms`, by the root mean square, or `layer`, by mean and standard deviation"
    )
    dtype: Dtype = Field(description=f"{DTYPE} of X, Residual, Gamma and Beta, and of Y where it is not quantised")
    epsilon: Epsilon = Field(1e-5, description="added to the mean square or variance before its root is taken")
    residual: bool = Field(False, description="whether a Residual is added to X before")
    store_residual: bool = Field(True, description="whether X + Residual is written, too")
    bias: bool = Field(False, description="whether a row of N values is added to X before; of LayerNorm")
    quantize: QuantizeTable | None = Field(
        None, description="Y divided by a scale per row, its largest magnitude over that of the type, which is written"
    )
    statistics: bool = Field(
        False,
        description="whether InvRms, or Mean and InvStd, are written, each in f32",
    )


def read_normalization(problems: Problems, table: NormalizationTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    _check(problems, table)
    quantize = table.quantize
    own: dict[str, ParameterValue] = {
        "norm": table.norm,
        "epsilon": table.epsilon,
        "store_residual": table.residual and table.store_residual,
        "quantizes": quantize is not None,
        "keep": quantize is not None and quantize.keep,
        "statistics": table.statistics,
    }
    settings = template_settings(problems, table, own, INPUTS)
    is_layer = table.norm == "layer"
    rows = ("M", "N")
    found = {
        "X": Tensor("X", table.dtype, "row", rows, ("x_stride", "1"), "X"),
        "Gamma": dense("Gamma", table.dtype, ("N",)),
        "Y": Tensor("Y", quantize.dtype if quantize else table.dtype, "row", rows, ("y_stride", "1"), "Y"),
    }
    if table.residual:
        found["Residual"] = Tensor("Residual", table.dtype, "row", rows, ("xr_stride", "1"), "Residual")
        if table.store_residual:
            found["ResidualOut"] = Tensor("ResidualOut", table.dtype, "row", rows, ("yr_stride", "1"), "ResidualOut")
    if table.bias:
        found["XBias"] = dense("XBias", table.dtype, ("N",))
    if is_layer:
        found["Beta"] = dense("Beta", table.dtype, ("N",))
    if quantize is not None:
        found["YScale"] = dense("YScale", "f32", ("M", "1"))
        if quantize.smooth:
            found["SmoothScale"] = dense("SmoothScale", "f32", ("N",))
        if quantize.keep:
            found["YUnquantized"] = Tensor("YUnquantized", table.dtype, "row", rows, ("y_stride", "1"), "YUnquantized")
    if table.statistics:
        found |= {name: dense(name, "f32", ("M", "1")) for name in (("Mean", "InvStd") if is_layer else ("InvRms",))}
    return _operation(found, settings, is_layer=is_layer)


def _check(problems: Problems, table: NormalizationTable) -> None:
    def wrong(message: str, *keys: str) -> None:
        problems.at_value(("operation", *keys), "wrong-value", message)

    if table.dtype not in DTYPES:
        wrong(f"normalization has X in {' or '.join(DTYPES)}, not in {table.dtype}", "dtype")
    if table.bias and table.norm == "rms":
        wrong('`bias` is of norm = "layer": Composable Kernel\'s RMSNorm has none', "bias")
    if not table.store_residual and not table.residual:
        wrong("`store_residual` is about the sum with a residual: write `residual = true`", "store_residual")
    if table.quantize is None:
        return
    if table.quantize.dtype not in QUANTIZED:
        wrong(f"Y is quantised to {' or '.join(QUANTIZED)}, not to {table.quantize.dtype}", "quantize", "dtype")
    if table.quantize.keep and table.norm == "layer":
        wrong('`keep` is of norm = "rms": Composable Kernel\'s LayerNorm writes Y once', "quantize", "keep")


def _operation(tensors: Mapping[str, Tensor], settings: Mapping[str, ParameterValue], *, is_layer: bool) -> Operation:
    used = {stride for tensor in tensors.values() for stride in tensor.strides}
    sizes = tuple(name for name in SIZES if name in ("M", "N") or name in used)
    return Operation(
        kind="normalization",
        inputs=tuple((name, tensors.get(name)) for name in INPUTS),
        outputs=tuple((name, tensors[name]) for name in OUTPUTS if name in tensors),
        accumulator="f32",
        size_arguments=sizes,
        runtime_arguments=(),
        settings=settings,
        size_defaults=dict.fromkeys(sizes[2:], "N"),
        computation=RowComputation(
            reference="normalization",
            tensors={ROLES[name]: name for name in (*INPUTS, *OUTPUTS) if name in tensors},
            options={"norm": str(settings["norm"]), "epsilon": float(str(settings["epsilon"]))},
            macs=f"{3 if is_layer else 2} * M * N",
            depth="N",
            compute=tensors["X"].dtype,
            scales=("smooth",),
        ),
    )


def _verified_sizes(_: Operation, parameters: Mapping[str, ParameterValue]) -> dict[str, dict[str, int]]:
    """Rows about the threads of a block, columns about its width, and what passes above that."""
    repeat, threads, vector = (extent(parameters, name, 1) for name in ("Repeat_N", "ThreadPerBlock_N", "Vector_N"))
    tall = extent(parameters, "Repeat_M", 1) * extent(parameters, "ThreadPerBlock_M", 1)
    wide = repeat * threads * vector
    whole = wide if parameters.get("kPadN") is False else vector
    passes = 3 if parameters.get("kTwoPass") is True else 1
    lanes = threads * vector

    def sizes(rows: int, columns: int, **strides: int) -> dict[str, int]:
        most = passes * wide
        return {"M": max(1, rows), "N": min(most, max(whole, columns // whole * whole)), **strides}

    ragged = wide - (vector if wide > vector else 0)
    found = {
        "ragged": sizes(2 * tall + 1, ragged),
        "one row": sizes(1, ragged - 2 * vector),
        "exact": sizes(2 * tall, wide),
        "less than a pass of all threads": sizes(tall + 3, lanes - vector),
        "one vector": sizes(tall - 1, vector),
        "more than one width" if passes > 1 else "half of the width": sizes(
            tall + 1, wide + vector if passes > 1 else wide // 2
        ),
        "odd columns": sizes(5, wide * 3 // 4 + 1),
        "a third of the width": sizes(7, wide // 3),
        "one vector more than the threads": sizes(3, lanes + vector),
        "two vectors": sizes(9, 2 * vector),
        "all widths": sizes(tall, passes * wide),
        "one vector less than all widths": sizes(tall + 2, passes * wide - vector),
        "many rows": sizes(17 * tall + 5, wide // 2 + vector),
        "less rows than a block": sizes(tall - 1, wide - 3 * vector),
        "one more row than a block": sizes(tall + 1, wide - 5 * vector),
        "one element": sizes(1, 1),
        "rows of one element": sizes(3 * tall + 1, 1),
        "a quarter of the threads": sizes(11, lanes // 4 + vector),
        "three quarters of the threads": sizes(13, lanes * 3 // 4),
        "rows of Y apart": sizes(2 * tall + 3, ragged, y_stride=passes * wide + 8 * vector),
        "rows of X apart": sizes(tall + 5, ragged, x_stride=passes * wide + 8 * vector),
        "one less than two blocks": sizes(2 * tall - 1, ragged - vector),
        "wide and odd": sizes(3, (passes * wide) * 7 // 8 + 3),
    }
    unique: dict[tuple[tuple[str, int], ...], str] = {}
    for name, one in found.items():
        unique.setdefault(tuple(one.items()), name)
    return {name: dict(one) for one, name in unique.items()}


NORMALIZATION = OperationKind(
    about=ABOUT,
    table=NormalizationTable,
    read=read_normalization,
    shape_docs=SHAPE_DOCS,
    tensors=(*INPUTS, *OUTPUTS),
    sizes=SIZES,
    defaults=dict.fromkeys(SIZES[2:], "N"),
    verified_sizes=_verified_sizes,
)
