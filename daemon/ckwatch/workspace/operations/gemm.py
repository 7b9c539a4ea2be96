"""`[operation]` of kind `gemm`: Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias).

X is M×K, W K×N and Y M×N. Names, order and sizes of the arguments are those of PyTorch Inductor's ROCm backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field, PositiveInt

from ckwatch.model.contractions import Contraction, MatrixAxes
from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.tensors import DTYPES
from ckwatch.workspace.operations import epilogue, tables
from ckwatch.workspace.operations.block_scales import SETTING, block_scale, check_blocks, scale_axes, scale_block
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.shuffles import (
    SHUFFLED_WEIGHTS,
    axes_of_weights,
    preshuffled_scales,
    preshuffled_weights,
)
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.settings import Section
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
    "LD_*": "leading dimension of a further matrix of the epilogue; by default without gaps",
    "kBatch": "slices of K that are multiplied side by side",
}


class BiasTable(tables.OperandTable):
    """`bias`."""

    full: bool = Field(False, description="an M×N matrix instead of a vector")


class ScaleTable(Section):
    """`scale_a` or `scale_b`."""

    dtype: tables.Dtype = Field("f32", description=tables.DTYPE)
    per: tables.Scaling = Field(
        "tensor",
        description="one value (`tensor`), one per row of X and one per column of W (`row`), or one per `block`; equal "
        "for both scales",
    )
    block: list[PositiveInt] | None = Field(
        None, description='rows and columns of X or W that share a value, with `per = "block"`: as [1, 128]'
    )
    preshuffled: Literal[16, 32] | None = Field(
        None, description="rows or columns of the matrix instruction for which scales of blocks of one row are shuffled"
    )


SCALES = "scales of X and W, both or none"


class MatrixProductTable(epilogue.EpilogueTable):
    """The keys that all kinds of matrix products share."""

    a: tables.OperandTable = Field(description="X, M×K")
    b: tables.OperandTable = Field(description="W, K×N")
    c: tables.OutputTable = Field(description="Y, M×N")
    bias: BiasTable | None = Field(
        None, description="one value per column of Y (`row`), per row of Y (`col`), or with `full` an M×N matrix"
    )
    scale_a: ScaleTable | None = Field(None, description=SCALES)
    scale_b: ScaleTable | None = Field(None, description=SCALES)
    split_k: bool | None = Field(
        None, description="whether kBatch may be above 1; by default true if a shape has such a kBatch"
    )


class FactorTable(tables.OperandTable):
    """`a` of a GEMM."""

    dtype: tables.OperandDtype | None = Field(None, description=tables.DTYPE)


class WeightTable(FactorTable):
    """`b` of a GEMM."""

    preshuffled: list[PositiveInt] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="how W lies in memory if not as a matrix: in blocks of [columns, rows], which are column-major",
    )


class GemmTable(MatrixProductTable):
    """`[operation]` of kind `gemm`."""

    kind: Literal["gemm"] = Field(description=f"`gemm`: {ABOUT}")
    a: FactorTable = Field(description="X, M×K")
    b: WeightTable = Field(description="W, K×N")


def read_gemm(problems: Problems, table: GemmTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    given = product_tensors(problems, table)
    settings = product_settings(problems, table)
    if given is None:
        return None
    blocks = preshuffled_blocks(problems, table)
    if blocks is not None:
        given = {**given, "W": preshuffled_weights(_present(given, "W"), *blocks)}
        settings = {**settings, "preshuffled": blocks}
    shuffled = shuffled_for(problems, table)
    both = (table.scale_a, table.scale_b)
    check_packed(problems, given, shuffled=any(one is not None and one.preshuffled is not None for one in both))
    if shuffled is not None:
        depth = (table.scale_a.block or [1, 1])[1] if table.scale_a is not None else 1
        scales = {name: _present(given, name) for name in ("inv_scale_x", "inv_scale_w")}
        sizes = {"inv_scale_x": "M", "inv_scale_w": "N"}
        given = {**given, **{n: preshuffled_scales(one, sizes[n], shuffled, depth) for n, one in scales.items()}}
        settings = {**settings, "scales_preshuffled": shuffled}
    return gemm_operation(given, accumulator_of(table, given), settings, product_steps(table))


def preshuffled_blocks(problems: Problems, table: GemmTable) -> tuple[int, int] | None:
    """Columns and rows of W that lie together; None for a matrix."""
    if table.b.preshuffled is None:
        return None
    if table.b.layout is not None:
        message = "a preshuffled W has no layout: its blocks are column-major"
        problems.at_key(("operation", "b", "layout"), "dimension-mismatch", message)
    if table.b.same_as is not None or "b" in {table.a.same_as, None if table.bias is None else table.bias.same_as}:
        message = "a preshuffled W shares its buffer with no other input"
        problems.at_key(("operation", "b"), "dimension-mismatch", message)
    columns, rows = table.b.preshuffled
    return columns, rows


def check_packed(problems: Problems, tensors: Mapping[str, Tensor | None], *, shuffled: bool) -> None:
    """Report operands of packed elements where no kernel multiplies them."""
    dtypes = {name: DTYPES[_present(tensors, name).dtype] for name in ("X", "W")}
    for key, name, layout in (("a", "X", "row"), ("b", "W", "col")):
        other, tensor = dtypes["W" if name == "X" else "X"], _present(tensors, name)
        if dtypes[name].packed == 1:
            continue
        if other.packed == 1:
            message = (
                f"{name} is {dtypes[name].name} and the other operand {other.name}: both must be {dtypes[name].name}"
            )
        elif not shuffled:
            message = (
                f"{name} is {dtypes[name].name}: it needs scale_a and scale_b for each 32 elements along K, shuffled"
            )
        elif tensor.layout != layout:
            message = f"two elements of {name} along K share a byte: its layout must be {layout}"
        else:
            continue
        problems.at_value(("operation", key), "dtype-mismatch", message)


def shuffled_for(problems: Problems, table: GemmTable) -> int | None:
    """Rows of the matrix instruction for which both scales are shuffled; None where they are no shuffled ones."""
    if table.scale_a is None or table.scale_b is None:
        return None
    first, second = table.scale_a, table.scale_b
    if first.preshuffled is None and second.preshuffled is None:
        return None
    if first.preshuffled != second.preshuffled:
        rows = tuple(one.preshuffled or "no" for one in (first, second))
        message = f"scale_a is shuffled for {rows[0]} rows and scale_b for {rows[1]}; they must be equal"
        problems.at_key(("operation", "scale_b"), "inconsistent-scale", message)
        return None
    if first.per != "block" or second.per != "block" or (first.block or [1])[0] != 1 or (second.block or [1])[-1] != 1:
        message = "only scales of blocks in one row of X and one column of W are shuffled: block = [1, 32]"
        problems.at_key(("operation", "scale_a", "preshuffled"), "inconsistent-scale", message)
        return None
    return first.preshuffled


def gemm_operation(
    tensors: Mapping[str, Tensor | None],
    accumulator: str,
    settings: Mapping[str, ParameterValue],
    steps: epilogue.Steps = (),
) -> Operation:
    """A GEMM of these tensors: `INPUTS`, and `Y`. A preshuffled W has no leading dimension."""
    w = _present(tensors, "W")
    sizes = tuple(name for name in SIZES if name != "LDB" or name in w.strides)
    return product_operation("gemm", tensors, accumulator, settings, sizes, steps)


def product_operation(
    kind: str,
    tensors: Mapping[str, Tensor | None],
    accumulator: str,
    settings: Mapping[str, ParameterValue],
    sizes: tuple[str, ...],
    steps: epilogue.Steps,
    batch_strides: Mapping[str, str] | None = None,
) -> Operation:
    """A matrix product of these tensors, whose size arguments are `sizes`, and the leading dimensions of what else the
    epilogue reads. `batch_strides`: those between matrices that are arguments, by their tensors."""
    further = {epilogue.leading_dimension(name): name for name in epilogue.further_matrices(tensors, (*INPUTS, "Y"))}
    last = max(at for at, name in enumerate(sizes) if name in LEADING) + 1
    sizes = (*sizes[:last], *further, *sizes[last:])
    leading = {**LEADING, **further}
    return Operation(
        kind=kind,
        inputs=tuple((name, tensor) for name, tensor in tensors.items() if name != "Y"),
        outputs=(("Y", _present(tensors, "Y")),),
        accumulator=accumulator,
        size_arguments=sizes,
        runtime_arguments=RUNTIME,
        runtime_types=dict.fromkeys(RUNTIME, "int32_t"),
        settings=settings,
        size_defaults={
            **{name: _least_leading(tensors[of]) for name, of in leading.items() if name in sizes},
            **{name: _least_batch_stride(tensors[of]) for of, name in (batch_strides or {}).items()},
        },
        computation=_contraction(tensors, settings, steps),
    )


MATRICES = {
    "a": ("X", "M", "K", "LDA"),
    "b": ("W", "K", "N", "LDB"),
    "bias": ("Bias", "M", "N", "LDD"),
    "residual": (epilogue.RESIDUAL, "M", "N", epilogue.leading_dimension(epilogue.RESIDUAL)),
}
"""Tensor, rows, columns and leading dimension of the operands that may share a buffer, by their keys."""

_SCALES = {"scale_a": ("inv_scale_x", "a", "M"), "scale_b": ("inv_scale_w", "b", "N")}


def product_tensors(problems: Problems, table: MatrixProductTable) -> dict[str, Tensor | None] | None:
    """The matrices of a product without batches: `INPUTS`, those of an epilogue, and `Y`; None where a dtype is
    missing."""
    operands = _operands(table)
    placed = _placed(problems, operands)
    if placed is None:
        return None
    bias = operands.get("bias")
    if bias is not None and not (isinstance(bias, BiasTable) and bias.full):
        one = placed["bias"]
        placed["bias"] = replace(one, sizes=("N" if one.layout == "row" else "M",), strides=("1",))
    found: dict[str, Tensor | None] = dict.fromkeys(INPUTS)
    found |= {MATRICES[key][0]: tensor for key, tensor in placed.items() if key != "residual"}
    for key, (name, of, size) in _SCALES.items():
        scale: ScaleTable | None = getattr(table, key)
        if scale is not None and scale.per == "block":
            block = scale.block if scale.block and len(scale.block) == 2 else (1, 1)
            found[name] = block_scale(name, scale.dtype, placed[of].layout, placed[of].sizes, block)
        elif scale is not None:
            found[name] = Tensor(name, scale.dtype, "row", (size if scale.per == "row" else "1",), ("1",), name)
    for name in epilogue.operand_names(table):
        found[name] = placed["residual"] if name == epilogue.RESIDUAL else _further(table, name)
    found["Y"] = _matrix("Y", table.c.dtype, table.c.layout, "M", "N", "LDC", "Y")
    return found


def _operands(table: MatrixProductTable) -> dict[str, tables.OperandTable]:
    """The operands that may share a buffer; a step without a table has the usual one."""
    found: dict[str, tables.OperandTable] = {"a": table.a, "b": table.b}
    if table.bias is not None or epilogue.has_step(table, "bias"):
        found["bias"] = table.bias or BiasTable(dtype=table.c.dtype, layout="row", same_as=None, full=False)
    if epilogue.has_step(table, "residual"):
        given = table.residual or epilogue.ResidualTable(dtype=None, layout=None, same_as=None, factor=1.0)
        usual = {"dtype": given.dtype or table.c.dtype, "layout": given.layout or table.c.layout}
        found["residual"] = given if given.same_as is not None else given.model_copy(update=usual)
    return found


def _placed(problems: Problems, operands: Mapping[str, tables.OperandTable]) -> dict[str, Tensor] | None:
    """The operands as matrices in their buffers; None where a dtype is missing."""
    places: dict[str, KeyPath] = {key: ("operation", key) for key in operands}
    owners = tables.buffer_owners(problems, {key: operand.same_as for key, operand in operands.items()}, places)
    found = {}
    for key, operand in operands.items():
        owner = operands[owners[key]]
        if owner.dtype is None:
            if owner is operand and operand.same_as is None:
                problems.at_value(places[key], "missing-key", f"`dtype` is missing in [operation.{key}]")
            continue
        if operand.dtype not in (None, owner.dtype):
            message = f"`{key}` is the same buffer as `{owners[key]}`, whose dtype is {owner.dtype}"
            problems.at_value((*places[key], "dtype"), "dtype-mismatch", message)
        name, rows, columns, leading = MATRICES[key]
        layout, buffer = operand.layout or owner.layout or "row", MATRICES[owners[key]][0]
        found[key] = _matrix(name, owner.dtype, layout, rows, columns, leading, buffer)
    return found if len(found) == len(operands) else None


def _further(table: MatrixProductTable, name: str) -> Tensor:
    """A tensor that only the epilogue reads; a vector's layout is that of a Bias."""
    given = table.operands[name]
    if given.per == "element":
        return _matrix(name, given.dtype, given.layout, "M", "N", epilogue.leading_dimension(name), name)
    size = {"tensor": "1", "row": "M", "column": "N"}[given.per]
    return Tensor(name, given.dtype, "col" if given.per == "row" else "row", (size,), ("1",), name)


def product_settings(problems: Problems, table: MatrixProductTable) -> dict[str, ParameterValue]:
    """Return the values of `operation.settings` for templates. Reports mistakes in the epilogue, too."""
    names = (*INPUTS, "Y", *SIZES, "B", *RUNTIME)
    epilogue.check_epilogue(problems, table, scales=_scale_words(table), arguments=names)
    for name, scale in (("scale_a", table.scale_a), ("scale_b", table.scale_b)):
        if scale is not None and scale.preshuffled is not None and not isinstance(table, GemmTable):
            message = "only a product of kind `gemm` has shuffled scales"
            problems.at_key(("operation", name, "preshuffled"), "inconsistent-scale", message)
    own: dict[str, ParameterValue] = {"scaling": _scaling(problems, table), "split_k": bool(table.split_k)}
    scales = (table.scale_a, table.scale_b)
    block = scale_block(*(scale.block if scale is not None and scale.per == "block" else None for scale in scales))
    if block is not None:
        own[SETTING] = block
    return table.settings_for(problems, own, (*INPUTS, *epilogue.operand_names(table)), (SETTING,))


def product_steps(table: MatrixProductTable) -> epilogue.Steps:
    """The steps that follow the product."""
    scales = [word for word in _scale_words(table) if getattr(table, word) is not None]
    return epilogue.steps_of(table, scales, bias=table.bias is not None)


def _scale_words(table: MatrixProductTable) -> tuple[str, ...]:
    """The scales that are steps: those of blocks multiply X and W."""
    given = {"scale_a": table.scale_a, "scale_b": table.scale_b}
    return tuple(word for word, scale in given.items() if scale is None or scale.per != "block")


def accumulator_of(table: MatrixProductTable, tensors: Mapping[str, Tensor | None]) -> str:
    """The type of sums: what the table says, or the usual one of its operands."""
    x = tensors["X"]
    return table.accumulator or tables.accumulator_for("" if x is None else x.dtype)


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


def _contraction(
    tensors: Mapping[str, Tensor | None], settings: Mapping[str, ParameterValue], steps: epilogue.Steps
) -> Contraction:
    x, w, y = (_axes(_present(tensors, name)) for name in ("X", "W", "Y"))
    found = {name: scale_axes(tensors[name], settings, y.batch) for name in ("inv_scale_x", "inv_scale_w")}
    blocks = {name: axes for name, axes in found.items() if axes is not None}
    x_scale, w_scale = blocks.get("inv_scale_x"), blocks.get("inv_scale_w")

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
        one = tensor is not None and tensor.sizes[-1] == "1"
        axes = repeated(name, *("0", "0") if one else (rows, columns))
        if axes is None or tensor is None or len(tensor.sizes) < 2:
            return axes
        return replace(axes, batch=((tensor.sizes[0], tensor.strides[0]),))

    def operand(name: str | None) -> MatrixAxes | None:
        tensor = None if name is None else tensors[name]
        if tensor is None or tensor.name in blocks:
            return None
        if tensor.name in ("inv_scale_x", "inv_scale_w"):
            return scale(tensor.name, *("1", "0") if tensor.name == "inv_scale_x" else ("0", "1"))
        if tensor.sizes == ("1",):
            return repeated(tensor.name, "0", "0")
        vector = ("0", "1") if tensor.layout == "row" else ("1", "0")
        return repeated(tensor.name, *vector) if len(tensor.sizes) < 2 else _axes(tensor)

    return Contraction(x=x, w=w, y=y, x_scale=x_scale, w_scale=w_scale, steps=epilogue.with_operands(steps, operand))


def _present(tensors: Mapping[str, Tensor | None], name: str) -> Tensor:
    """A tensor that every product has. Raises KeyError."""
    tensor = tensors[name]
    if tensor is None:
        raise KeyError(name)
    return tensor


def _axes(tensor: Tensor) -> MatrixAxes:
    """The last two axes are rows and columns, those before them tell the matrix; of preshuffled weights see there."""
    axes = tuple(zip(tensor.sizes, tensor.strides, strict=True))
    if len(axes) == SHUFFLED_WEIGHTS:
        return axes_of_weights(tensor)
    return MatrixAxes(tensor=tensor.name, batch=axes[:-2], rows=axes[-2:-1], columns=axes[-1:])


def _scaling(problems: Problems, table: MatrixProductTable) -> str:
    given = {"scale_a": table.scale_a, "scale_b": table.scale_b}
    if table.scale_a is None and table.scale_b is None:
        return "none"
    tables.check_both_scales(problems, table.scale_a, table.scale_b)
    for key in ("per", "dtype"):
        first, second = getattr(table.scale_a, key, None), getattr(table.scale_b, key, None)
        if table.scale_a and table.scale_b and first != second:
            place = ("operation", "scale_b", key)
            message = f'`{key}` of scale_b is "{second}" and that of scale_a "{first}"; they must be equal'
            problems.at_value(place, "inconsistent-scale", message)
    chosen = table.scale_a or table.scale_b
    blocks = {name: scale.block for name, scale in given.items() if scale is not None}
    check_blocks(problems, blocks, per_block=chosen is not None and chosen.per == "block")
    return chosen.per if chosen else "none"


GEMM = OperationKind(
    about=ABOUT,
    table=GemmTable,
    read=read_gemm,
    shape_docs=SHAPE_DOCS,
    tensors=(*INPUTS, "Y"),
    sizes=SIZES,
    runtime=RUNTIME,
    defaults=dict.fromkeys(LEADING, "0"),
    may_be_zero=frozenset({"LDD"}),
    sizes_for=product_sizes,
)
