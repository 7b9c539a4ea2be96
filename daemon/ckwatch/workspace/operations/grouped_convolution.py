"""`[operation]` of kind `grouped_convolution`: Y = activation(alpha · (X ∗ W) + beta · Bias), in 1, 2 or 3 dimensions.

Names, order and sizes of the arguments are those of PyTorch Inductor's ROCm backend: channels are those of all groups
together. Layouts have Composable Kernel's names, which say how the axes lie in memory, the last one side by side. Axes
of the tensors stand in PyTorch's order, X as N, C, H, W and W as K, C, Y, X; where the groups lie apart from the
channels they are an axis of their own before those.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from ckwatch.model.contractions import AxisExpressions, Contraction, MatrixAxes, WindowExpressions
from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.tensors import is_atom
from ckwatch.workspace.operations import epilogue
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.tables import DTYPE, Dtype, Factor, accumulator_for, one_of
from ckwatch.workspace.problems import Problems, join_names
from ckwatch.workspace.settings import Section

ABOUT = "Y = activation(alpha · (X ∗ W) + beta · Bias), a convolution in one to three dimensions"

INPUTS = ("X", "W", "Bias")
DIMENSIONS = (1, 2, 3)
IMAGE = {1: "W", 2: "HW", 3: "DHW"}
FILTER = {1: "X", 2: "YX", 3: "ZYX"}

Layouts = Mapping[int, tuple[str, ...]]

INPUT_LAYOUTS: Layouts = {d: (f"N{IMAGE[d]}GC", f"GN{IMAGE[d]}C", f"NGC{IMAGE[d]}") for d in DIMENSIONS}
FILTER_LAYOUTS: Layouts = {d: (f"GK{FILTER[d]}C", f"K{FILTER[d]}GC", f"GKC{FILTER[d]}") for d in DIMENSIONS}
OUTPUT_LAYOUTS: Layouts = {d: (f"N{IMAGE[d]}GK", f"GN{IMAGE[d]}K", f"NGK{IMAGE[d]}") for d in DIMENSIONS}
"""Values of `layout`, by the number of dimensions; the first one is the default."""

TOTALS = ("GroupCount", "NBatch", "NOutChannels", "NInChannels")
SPATIAL = ("FilterSize", "InputSize", "ConvolutionStrides", "Dilations", "LeftPads", "RightPads")
SPATIAL_DEFAULTS = {"ConvolutionStrides": "1", "Dilations": "1", "LeftPads": "0", "RightPads": "0"}

_TOTAL_DOCS = {
    "GroupCount": "groups, which do not see each other's channels",
    "NBatch": "images of X and Y",
    "NOutChannels": "channels of Y, of all groups together",
    "NInChannels": "channels of X, of all groups together",
}
_SPATIAL_DOCS = {
    "FilterSize": "the filter's size along axis {}",
    "InputSize": "the input's size along axis {}",
    "ConvolutionStrides": "elements of the input from one output to the next along axis {}",
    "Dilations": "elements of the input from one tap of the filter to the next along axis {}",
    "LeftPads": "zeros before the input along axis {}",
    "RightPads": "zeros behind the input along axis {}",
}


def size_arguments(dimensions: int) -> tuple[str, ...]:
    """The size arguments of a convolution in `dimensions`, in their order."""
    return (*TOTALS, *(f"{name}_{axis}" for name in SPATIAL for axis in range(dimensions)))


def size_defaults(dimensions: int) -> dict[str, str]:
    """Return the defaults of sizes that a shape does not give."""
    axes = range(dimensions)
    return {"GroupCount": "1"} | {f"{name}_{axis}": least for name, least in SPATIAL_DEFAULTS.items() for axis in axes}


SHAPE_DOCS = _TOTAL_DOCS | {
    f"{name}_{axis}": doc.format(axis) for name, doc in _SPATIAL_DOCS.items() for axis in (0, 1, 2)
}


def _known(layouts: Layouts) -> AfterValidator:
    return one_of("layout", itertools.chain.from_iterable(layouts.values()))


_LAYOUT = "how its axes lie in memory; by default channels last: "


class InputTable(Section):
    """`a`."""

    dtype: Dtype = Field(description=DTYPE)
    layout: Annotated[str, _known(INPUT_LAYOUTS)] | None = Field(None, description=_LAYOUT + "`NHWGC`")


class FilterTable(Section):
    """`b`."""

    dtype: Dtype = Field(description=DTYPE)
    layout: Annotated[str, _known(FILTER_LAYOUTS)] | None = Field(None, description=_LAYOUT + "`GKYXC`")


class ResultTable(Section):
    """`c`."""

    dtype: Dtype = Field(description=DTYPE)
    layout: Annotated[str, _known(OUTPUT_LAYOUTS)] | None = Field(None, description=_LAYOUT + "`NHWGK`")


class ChannelBiasTable(Section):
    """`bias`."""

    dtype: Dtype = Field(description=DTYPE)


class GroupedConvolutionTable(epilogue.ConvolutionEpilogueTable):
    """`[operation]` of kind `grouped_convolution`."""

    kind: Literal["grouped_convolution"] = Field(description=f"`grouped_convolution`: {ABOUT}")
    dimensions: Annotated[int, Field(ge=1, le=3)] = Field(2, description="dimensions of an image, 1 to 3")
    a: InputTable = Field(description="X, the input")
    b: FilterTable = Field(description="W, the filter")
    c: ResultTable = Field(description="Y, the output")
    bias: ChannelBiasTable | None = Field(None, description="one value per channel of Y")
    alpha: Factor = Field(1.0, description="factor of the convolution")


def read_grouped_convolution(problems: Problems, table: GroupedConvolutionTable) -> Operation:
    """The operation of a table; of use only where `problems` got no new error."""
    layouts = {}
    for key, given, known in (
        ("a", table.a.layout, INPUT_LAYOUTS),
        ("b", table.b.layout, FILTER_LAYOUTS),
        ("c", table.c.layout, OUTPUT_LAYOUTS),
    ):
        fitting = known[table.dimensions]
        layouts[key] = given or fitting[0]
        if layouts[key] not in fitting:
            message = f"`{given}` is not a layout in {table.dimensions} dimensions: use {join_names(fitting)}"
            problems.at_value(("operation", key, "layout"), "dimension-mismatch", message)
            layouts[key] = fitting[0]
    names = (*INPUTS, "Y", *size_arguments(table.dimensions))
    epilogue.check_epilogue(problems, table, scales=(), arguments=names)
    settings = table.settings_for(problems, {"dimensions": table.dimensions}, (*INPUTS, *epilogue.operand_names(table)))
    return convolution_operation(
        table.dimensions,
        {"X": table.a.dtype, "W": table.b.dtype, "Y": table.c.dtype},
        {"X": layouts["a"], "W": layouts["b"], "Y": layouts["c"]},
        table.bias.dtype if table.bias is not None else table.c.dtype if epilogue.has_step(table, "bias") else None,
        table.accumulator or accumulator_for(table.a.dtype),
        settings,
        _operands(table),
        epilogue.steps_of(table, bias=table.bias is not None),
    )


def _operands(table: GroupedConvolutionTable) -> dict[str, tuple[str, str]]:
    """The dtype of what only the epilogue reads, and what it has a value for: `tensor`, `channel` or `element`."""
    found = {name: (operand.dtype, operand.per) for name, operand in table.operands.items()}
    dtype = table.residual.dtype if table.residual is not None else None
    return {name: found.get(name, (dtype or table.c.dtype, "element")) for name in epilogue.operand_names(table)}


def convolution_operation(
    dimensions: int,
    dtypes: Mapping[str, str],
    layouts: Mapping[str, str],
    bias: str | None,
    accumulator: str,
    settings: Mapping[str, ParameterValue],
    operands: Mapping[str, tuple[str, str]] | None = None,
    steps: epilogue.Steps = (),
) -> Operation:
    """A convolution of tensors with these dtypes and layouts, with a bias of the dtype `bias`.

    `operands` are the dtypes of what only `steps` read, and what these have a value for.
    """
    x, w, y = (_strided(name, layouts[name], dimensions) for name in "XWY")
    added = None if bias is None else Tensor("Bias", bias, "row", ("NOutChannels",), ("1",), "Bias")
    result = _tensor(y, dtypes["Y"])
    further = {name: _operand(name, dtype, per, result) for name, (dtype, per) in (operands or {}).items()}
    return Operation(
        kind="grouped_convolution",
        inputs=(("X", _tensor(x, dtypes["X"])), ("W", _tensor(w, dtypes["W"])), ("Bias", added), *further.items()),
        outputs=(("Y", result),),
        accumulator=accumulator,
        size_arguments=size_arguments(dimensions),
        runtime_arguments=(),
        settings=settings,
        size_defaults=size_defaults(dimensions),
        computation=_contraction(
            x,
            w,
            y,
            dimensions,
            ({} if added is None else {"Bias": "channel"}) | {name: per for name, (_, per) in (operands or {}).items()},
            steps,
        ),
    )


def _operand(name: str, dtype: str, per: str, result: Tensor) -> Tensor:
    if per == "element":
        return replace(result, name=name, dtype=dtype, buffer=name)
    return Tensor(name, dtype, "row", ("NOutChannels" if per == "channel" else "1",), ("1",), name)


_IN, _OUT = "NInChannels / GroupCount", "NOutChannels / GroupCount"


class _Strided(NamedTuple):
    """A tensor by the letters of its axes. `channels`: the letter whose axis goes on in the next group, if it lies
    beside the groups; and how many there are in all of them."""

    name: str
    layout: str
    extents: Mapping[str, str]
    strides: Mapping[str, str]
    channels: str
    total: str

    def axes(self, letters: str) -> AxisExpressions:
        """Size and stride of these axes."""
        return tuple((self.extents[letter], self.strides[letter]) for letter in letters)


def _strided(name: str, layout: str, dimensions: int) -> _Strided:
    axes = range(dimensions)
    extents = {"G": "GroupCount", "N": "NBatch", "C": _IN, "K": _OUT}
    if name == "W":
        extents |= {letter: f"FilterSize_{axis}" for letter, axis in zip(FILTER[dimensions], axes, strict=True)}
    else:
        size = output_size if name == "Y" else "InputSize_{}".format
        extents |= {letter: size(axis) for letter, axis in zip(IMAGE[dimensions], axes, strict=True)}
    channels, total = ("C", "NInChannels") if name == "X" else ("K", "NOutChannels")
    strides: dict[str, str] = {}
    factors: list[str] = []
    for letter in reversed(layout):
        strides[letter] = _product(factors)
        if letter == "G" and f"G{channels}" in layout:
            factors[0] = total
        else:
            factors.insert(0, extents[letter])
    return _Strided(name, layout, extents, strides, channels, total)


def _product(factors: Sequence[str]) -> str:
    if len(factors) == 1:
        return factors[0]
    return " * ".join(factor if is_atom(factor) else f"({factor})" for factor in factors) or "1"


def output_size(axis: int) -> str:
    """The output's size along an axis; below 1 where the filter is larger than the padded input."""
    span = f"InputSize_{axis} + LeftPads_{axis} + RightPads_{axis} - Dilations_{axis} * (FilterSize_{axis} - 1) - 1"
    return f"({span} + ConvolutionStrides_{axis}) / ConvolutionStrides_{axis}"


def _tensor(strided: _Strided, dtype: str) -> Tensor:
    spatial = "".join(letter for letter in strided.layout if letter not in "GNCK")
    letters = ("KC" if strided.name == "W" else f"N{strided.channels}") + spatial
    axes = strided.axes(letters)
    if f"G{strided.channels}" in strided.layout:
        axes = tuple(
            (strided.total if letter == strided.channels else size, stride)
            for letter, (size, stride) in zip(letters, axes, strict=True)
        )
    else:
        axes = (*strided.axes("G"), *axes)
    sizes, strides = zip(*axes, strict=True)
    return Tensor(strided.name, dtype, strided.layout, sizes, strides, strided.name)


def _contraction(
    x: _Strided,
    w: _Strided,
    y: _Strided,
    dimensions: int,
    operands: Mapping[str, str],
    chain: epilogue.Steps,
) -> Contraction:
    """`operands`: what the tensors of the epilogue have a value for, by their names."""
    image, taps, axes = IMAGE[dimensions], FILTER[dimensions], range(dimensions)
    steps = [f"({x.strides[letter]})" for letter in image]
    pixels = [(y.extents[image[axis]], f"ConvolutionStrides_{axis} * {steps[axis]}") for axis in axes]
    window = [(w.extents[taps[axis]], f"Dilations_{axis} * {steps[axis]}") for axis in axes]
    before = " - ".join(f"LeftPads_{axis} * {steps[axis]}" for axis in axes)
    rows = y.axes(f"N{image}")

    def operand(name: str | None) -> MatrixAxes | None:
        if name is None or name not in operands:
            return None
        per = operands[name]
        if per == "element":
            return MatrixAxes(tensor=name, batch=y.axes("G"), rows=rows, columns=y.axes("K"))
        return MatrixAxes(
            tensor=name,
            batch=(("GroupCount", _OUT if per == "channel" else "0"),),
            rows=tuple((size, "0") for size, _ in rows),
            columns=((_OUT, "1" if per == "channel" else "0"),),
        )

    return Contraction(
        x=MatrixAxes(
            tensor="X",
            batch=x.axes("G"),
            rows=(*x.axes("N"), *pixels),
            columns=(*window, *x.axes("C")),
            offset=f"0 - {before}",
            windows=tuple(
                WindowExpressions(
                    row_axis=axis + 1,
                    column_axis=axis,
                    row_step=f"ConvolutionStrides_{axis}",
                    column_step=f"Dilations_{axis}",
                    before=f"LeftPads_{axis}",
                    size=f"InputSize_{axis}",
                )
                for axis in axes
            ),
        ),
        w=MatrixAxes(tensor="W", batch=w.axes("G"), rows=w.axes(f"{taps}C"), columns=w.axes("K")),
        y=MatrixAxes(tensor="Y", batch=y.axes("G"), rows=rows, columns=y.axes("K")),
        steps=epilogue.with_operands(chain, operand),
    )


def _dimensions_of(sizes: Mapping[str, int]) -> int:
    return sum(name.startswith("InputSize_") for name in sizes)


def _wrong_sizes(sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Channels that the groups do not divide, and outputs without elements."""
    groups = sizes["GroupCount"]
    for name in ("NInChannels", "NOutChannels"):
        if groups > 0 and sizes[name] % groups:
            yield name, f"`{name}` must be a multiple of GroupCount: {sizes[name]} is none of {groups}"
    for axis in range(_dimensions_of(sizes)):
        filter_size, dilation = sizes[f"FilterSize_{axis}"], sizes[f"Dilations_{axis}"]
        left, right = sizes[f"LeftPads_{axis}"], sizes[f"RightPads_{axis}"]
        reach, padded = dilation * (filter_size - 1) + 1, sizes[f"InputSize_{axis}"] + left + right
        if reach > padded:
            dilated = f", with Dilations_{axis} = {dilation} {reach} elements," if dilation > 1 else ""
            with_pads = f", with its pads {padded}" if left or right else ""
            message = f"Y has no elements: FilterSize_{axis} = {filter_size}{dilated} is larger than the input, "
            yield f"FilterSize_{axis}", message + f"InputSize_{axis} = {sizes[f'InputSize_{axis}']}{with_pads}"


def _sizes(operation: Operation, **given: int | tuple[int, ...]) -> dict[str, int]:
    """Sizes by their names without the axis, for rows and columns; a third dimension is as that of rows, but short."""
    dimensions = _dimensions_of(dict.fromkeys(operation.size_arguments, 1))
    sizes: dict[str, int] = {}
    for name, value in given.items():
        if isinstance(value, tuple):
            all_axes = (min(value[0], 3) if name == "InputSize" else value[0], *value)
            sizes |= {f"{name}_{axis}": size for axis, size in enumerate(all_axes[-dimensions:])}
        else:
            sizes[name] = value
    return sizes


def _sizes_for(operation: Operation, m: int, n: int, k: int) -> dict[str, int]:
    """Two groups of a filter of one element on a row of m: a product of M × N × K each."""
    return _sizes(
        operation,
        GroupCount=2,
        NBatch=1,
        NOutChannels=2 * n,
        NInChannels=2 * k,
        FilterSize=(1, 1),
        InputSize=(1, m),
    )


def _special_sizes(operation: Operation, m: int, n: int, k: int) -> dict[str, dict[str, int]]:
    """Return sizes that only a convolution has: neighbours, borders, steps, groups. Images are about m, filters n of k
    channels."""
    side = -(-isqrt(m) // 8) * 8

    def sizes(
        image: tuple[int, int],
        taps: tuple[int, int],
        left: tuple[int, int] = (0, 0),
        right: tuple[int, int] | None = None,
        *,
        groups: int = 1,
        images: int = 1,
        channels: int = k,
        filters: int = n,
        strides: tuple[int, int] = (1, 1),
        dilations: tuple[int, int] = (1, 1),
    ) -> dict[str, int]:
        return _sizes(
            operation,
            GroupCount=groups,
            NBatch=images,
            NOutChannels=groups * filters,
            NInChannels=groups * channels,
            FilterSize=taps,
            InputSize=image,
            ConvolutionStrides=strides,
            Dilations=dilations,
            LeftPads=left,
            RightPads=left if right is None else right,
        )

    square, three = (side, side), (3, 3)
    return {
        "3 taps, padded": sizes(square, three, (1, 1)),
        "3 taps, no padding": sizes((side + 2, side + 2), three),
        "3 taps, stride 2": sizes((2 * side, 2 * side), three, (1, 1), strides=(2, 2)),
        "3 taps, dilation 2": sizes(square, three, (2, 2), dilations=(2, 2)),
        "3 taps, stride 2, dilation 3": sizes((2 * side, 2 * side), three, (3, 3), strides=(2, 2), dilations=(3, 3)),
        "3 taps, pads of one side only": sizes(square, three, (2, 0), (0, 2)),
        "3 taps, pads as wide as the filter": sizes(square, three, (3, 3)),
        "5 taps": sizes(square, (5, 5), (2, 2)),
        "taps of unequal number": sizes(square, (1, 5), (0, 2)),
        "an image that is not square": sizes((side // 2, 2 * side + 8), three, (1, 1)),
        "steps of unequal length": sizes((3 * side, 2 * side), three, (1, 1), strides=(3, 2), dilations=(1, 2)),
        "an image of odd size": sizes((side + 1, side - 3), three, (1, 1)),
        "one pixel": sizes((1, 1), three, (1, 1)),
        "a filter larger than the image": sizes((3, 3), (5, 5), (4, 4)),
        "two images": sizes(square, three, (1, 1), images=2),
        "odd images": sizes((5, 3), three, (1, 1), images=7),
        "three groups": sizes(square, three, (1, 1), groups=3),
        "groups and images": sizes((side // 2, side), three, (1, 1), groups=2, images=3, strides=(1, 2)),
        "one channel per group": sizes(square, three, (1, 1), groups=4, channels=1, filters=1),
        "one channel per group, many filters": sizes(square, three, (1, 1), groups=2, channels=1),
        "one channel per group, no padding": sizes((side, side + 3), three, groups=3, channels=1, filters=2),
        "one channel per group, stride 2, images": sizes(
            (2 * side, side), three, (1, 1), groups=2, images=3, channels=1, filters=n // 2, strides=(2, 2)
        ),
        "one channel per group, dilation 2": sizes(square, three, (2, 2), channels=1, dilations=(2, 2)),
        "three channels": sizes(square, three, (1, 1), channels=3),
        "few filters": sizes(square, three, (1, 1), filters=8),
        "8 channels per group": sizes(square, three, (1, 1), groups=4, channels=8, filters=8),
        "1 tap, two images": sizes(square, (1, 1), images=2, channels=4 * k),
        "1 tap, stride 2": sizes((2 * side, 2 * side), (1, 1), channels=4 * k, strides=(2, 2)),
        "1 tap, padded": sizes(square, (1, 1), (1, 1), channels=4 * k),
        "1 tap, four groups": sizes((side, side // 2), (1, 1), groups=4, channels=4 * k),
    }


GROUPED_CONVOLUTION = OperationKind(
    about=ABOUT,
    table=GroupedConvolutionTable,
    read=read_grouped_convolution,
    shape_docs=SHAPE_DOCS,
    tensors=(*INPUTS, "Y"),
    sizes=size_arguments(3),
    defaults={
        **size_defaults(3),
        **{f"{name}_{axis}": "1" for name in ("FilterSize", "InputSize") for axis in (1, 2)},
    },
    wrong_sizes=_wrong_sizes,
    sizes_for=_sizes_for,
    special_sizes=_special_sizes,
)
