"""`[operation]` of kind `grouped_gemm`: a product with a W of its own for each group of rows of X.

The groups share N and K, and their rows lie one behind the other. Where each ends is an input on the device, as in
PyTorch's `torch._grouped_mm`: of G values in `Offsets`, that of group g is the row after its last one, so that its rows
begin at that of group g - 1. A group may have no rows; rows behind the last group belong to none and are not computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.row_computations import RowComputation
from ckwatch.workspace.operations import epilogue, tables
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.settings import Section

ABOUT = "Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias) with a W for each group of rows"

INPUTS = ("X", "W", "Offsets", "inv_scale_x", "inv_scale_w", "Bias")
SIZES = ("G", "M", "N", "K", "LDA", "LDB", "LDC")

SHAPE_DOCS = {
    "G": "groups: matrices in W, values in Offsets",
    "M": "rows of X and Y, of all groups",
    "N": "columns of each W and of Y",
    "K": "columns of X, rows of each W",
    "LDA": "leading dimension of X; by default without gaps",
    "LDB": "leading dimension of each W, which lie behind one another; by default without gaps",
    "LDC": "leading dimension of Y; by default without gaps",
    "LD_*": "leading dimension of a further matrix of the epilogue; by default without gaps",
}

ROLES = {
    "x": "X",
    "w": "W",
    "offsets": "Offsets",
    "scale_x": "inv_scale_x",
    "scale_w": "inv_scale_w",
    "bias": "Bias",
}
"""The inputs by their roles in the reference; those of a chain have their own names behind `operand_`."""

_SIZES_OF_OPERANDS = {"tensor": ("1",), "row": ("M",), "column": ("G", "N"), "element": ("M", "N")}
_SCALES = "scales of X and W, both or none"


class GroupScaleTable(Section):
    """`scale_a` or `scale_b` of groups."""

    dtype: tables.Dtype = Field("f32", description=tables.DTYPE)
    per: tables.Scaling = Field(
        "tensor",
        description="one value (`tensor`), or one per row of X and one per group and column of W (`row`)",
    )


class GroupedGemmTable(epilogue.EpilogueTable):
    """`[operation]` of kind `grouped_gemm`."""

    kind: Literal["grouped_gemm"] = Field(description=f"`grouped_gemm`: {ABOUT}")
    a: tables.OperandTable = Field(description="X, M×K, row-major")
    b: tables.OperandTable = Field(description="W, G×K×N")
    c: tables.OutputTable = Field(description="Y, M×N, row-major")
    bias: tables.OperandTable | None = Field(None, description="one value per group and column of Y")
    scale_a: GroupScaleTable | None = Field(None, description=_SCALES)
    scale_b: GroupScaleTable | None = Field(None, description=_SCALES)


def read_grouped_gemm(problems: Problems, table: GroupedGemmTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    _check_layouts(problems, table)
    tables.check_both_scales(problems, table.scale_a, table.scale_b)
    arguments = (*INPUTS, "Y", *SIZES)
    epilogue.check_epilogue(problems, table, scales=tuple(epilogue.SCALES), arguments=arguments)
    dtypes = _dtypes(problems, table)
    own: dict[str, ParameterValue] = {"scaling": "none" if table.scale_a is None else table.scale_a.per}
    settings = table.settings_for(problems, own, (*INPUTS, *epilogue.operand_names(table)))
    return None if dtypes is None else _made(table, dtypes, settings)


def _check_layouts(problems: Problems, table: GroupedGemmTable) -> None:
    """A group's rows of X and Y are whole lines."""
    for key, name, layout in (("a", "X", table.a.layout), ("c", "Y", table.c.layout)):
        if layout == "col":
            message = f"{name} must be row-major: its rows are divided into groups"
            problems.at_value(("operation", key, "layout"), "dimension-mismatch", message)


def _dtypes(problems: Problems, table: GroupedGemmTable) -> dict[str, str] | None:
    """Those of `a`, `b`, `bias` and `residual`, which have buffers of their own."""
    operands: dict[str, tables.OperandTable] = {"a": table.a, "b": table.b}
    usual = tables.OperandTable(dtype=table.c.dtype, layout=None, same_as=None)
    for name, given in (("bias", table.bias), ("residual", table.residual)):
        if given is not None:
            operands[name] = (
                given if given.dtype or name == "bias" else given.model_copy(update={"dtype": table.c.dtype})
            )
        elif epilogue.has_step(table, name):
            operands[name] = usual
    places = {name: ("operation", name) for name in operands}
    tables.buffer_owners(problems, {name: operand.same_as for name, operand in operands.items()}, dict(places))
    found = {}
    for name, operand in operands.items():
        if operand.same_as is not None:
            message = "the operands of groups have different sizes: each has a buffer of its own"
            problems.at_key(("operation", name, "same_as"), "dimension-mismatch", message)
        elif operand.dtype is None:
            problems.at_value(("operation", name), "missing-key", f"`dtype` is missing in [operation.{name}]")
        else:
            found[name] = operand.dtype
    return found if len(found) == len(operands) else None


def _made(table: GroupedGemmTable, dtypes: Mapping[str, str], settings: Mapping[str, ParameterValue]) -> Operation:
    tensors = _tensors(table, dtypes)
    accumulator = table.accumulator or tables.accumulator_for(dtypes["a"])
    roles = {role: name for role, name in ROLES.items() if tensors.get(name) is not None}
    roles |= {f"operand_{name}": name for name in epilogue.operand_names(table)}
    steps = _steps(table, tensors, {name: role for role, name in roles.items()})
    per = tuple((step.operand, _per(tensors[roles[step.operand]])) for step in steps if step.operand is not None)
    w = tensors["W"]
    output = Tensor("Y", table.c.dtype, "row", ("M", "N"), ("LDC", "1"), "Y")
    matrices = {
        name: tensor
        for name in epilogue.operand_names(table)
        if (tensor := tensors[name]) and _per(tensor) == "element"
    }
    leading = {epilogue.leading_dimension(name): "N" if one.layout == "row" else "M" for name, one in matrices.items()}
    return Operation(
        kind="grouped_gemm",
        inputs=tuple((name, tensors[name]) for name in (*INPUTS, *epilogue.operand_names(table))),
        outputs=(("Y", output),),
        accumulator=accumulator,
        size_arguments=(*SIZES, *leading),
        runtime_arguments=(),
        settings=settings,
        size_defaults={"LDA": "K", "LDB": "K" if w is not None and w.layout == "col" else "N", "LDC": "N", **leading},
        computation=RowComputation(
            reference="grouped_gemm",
            tensors={**roles, "y": "Y"},
            options={"per": per},
            macs="M * N * K",
            depth=f"K + {sum(step.roundings for step in steps)}",
            compute=dtypes["a"],
            scales=tuple(role for role in ("scale_x", "scale_w") if role in roles),
            steps=steps,
        ),
    )


def _steps(table: GroupedGemmTable, tensors: Mapping[str, Tensor | None], roles: Mapping[str, str]) -> epilogue.Steps:
    """Return the steps that follow the product, with the roles of operands."""
    words = [word for word, name in epilogue.SCALES.items() if tensors[name] is not None]
    named = epilogue.steps_of(table, words, bias=table.bias is not None)
    return tuple(step.with_operand(None if step.operand is None else roles[step.operand]) for step in named)


def _per(tensor: Tensor | None) -> str:
    """Name the axis along which an operand has values."""
    if tensor is None:
        raise ValueError("an operand of a step is missing")
    return next(per for per, sizes in _SIZES_OF_OPERANDS.items() if sizes == tensor.sizes)


def _tensors(table: GroupedGemmTable, dtypes: Mapping[str, str]) -> dict[str, Tensor | None]:
    layout = table.b.layout or "row"
    w_strides = ("K * LDB", "LDB", "1") if layout == "row" else ("N * LDB", "1", "LDB")
    found: dict[str, Tensor | None] = dict.fromkeys(INPUTS)
    found["X"] = Tensor("X", dtypes["a"], "row", ("M", "K"), ("LDA", "1"), "X")
    found["W"] = Tensor("W", dtypes["b"], layout, ("G", "K", "N"), w_strides, "W")
    found["Offsets"] = tables.dense("Offsets", "i32", ("G",))
    if table.scale_a is not None:
        per = "row" if table.scale_a.per == "row" else "tensor"
        found["inv_scale_x"] = _operand("inv_scale_x", table.scale_a.dtype, per)
    if table.scale_b is not None:
        per = "column" if table.scale_b.per == "row" else "tensor"
        found["inv_scale_w"] = _operand("inv_scale_w", table.scale_b.dtype, per)
    if "bias" in dtypes:
        found["Bias"] = _operand("Bias", dtypes["bias"], "column")
    for name in epilogue.operand_names(table):
        if name == epilogue.RESIDUAL:
            layout = "row" if table.residual is None else table.residual.layout or "row"
            found[name] = _operand(name, dtypes["residual"], "element", layout)
        else:
            given = table.operands[name]
            found[name] = _operand(name, given.dtype, given.per, given.layout if given.per == "element" else "row")
    return found


def _operand(name: str, dtype: str, per: str, layout: str = "row") -> Tensor:
    sizes = _SIZES_OF_OPERANDS[per]
    if per == "element":
        leading = epilogue.leading_dimension(name)
        return Tensor(name, dtype, layout, sizes, (leading, "1") if layout == "row" else ("1", leading), name)
    return Tensor(name, dtype, "row", sizes, ("N", "1") if per == "column" else ("1",), name)


def verified_sizes(_operation: Operation, parameters: Mapping[str, ParameterValue]) -> dict[str, dict[str, int]]:
    """By what they are called, the sizes that an instance is verified on: about its tile, in few and many groups."""
    m, n, k = (tables.extent(parameters, f"Tile{axis}", usual) for axis, usual in (("M", 128), ("N", 128), ("K", 32)))
    vector = 16  # elements: sizes that are contiguous are whole vectors of any dtype

    def whole(size: int) -> int:
        return max(vector, size // vector * vector)

    ragged_n, ragged_k = n + vector, 2 * k + vector
    rows = {
        "ragged groups": (3, 2 * m + 37, n + vector, ragged_k),
        "exact": (1, m, n, 2 * k),
        "odd rows": (4, m + 67, whole(n // 2 + vector), ragged_k),
        "odd sizes": (3, m + 5, n + 3, 2 * k + 5),
        "fewer rows than groups": (9, 5, ragged_n, ragged_k),
        "one row": (1, 1, n + vector, 3 * k),
        "smaller than a tile": (2, m // 2 - 1, whole(n // 2), whole(k // 2)),
        "one group": (1, 2 * m + 1, n + vector, ragged_k),
        "64 groups": (64, 3 * m, n, whole(k)),
        "65 groups": (65, 3 * m + 7, whole(n // 2), whole(k)),
        "130 groups, most of a few rows": (130, 517, whole(n // 4), whole(k)),
        "many tiles along N": (2, m + 9, 5 * n + vector, whole(k) + vector),
        "many tiles": (5, 4 * m + 3, 2 * n + vector, whole(k)),
        "more tiles along M than along N": (3, 9 * m + 1, vector, whole(k)),
        "256 groups": (256, m + 300, whole(n // 4), vector),
        "a tile of rows": (2, m, n + vector, ragged_k),
        "a row less than a tile": (2, m - 1, n + vector, ragged_k),
        "a row more than a tile": (2, m + 1, n + vector, ragged_k),
        "least N": (3, m + 11, vector, ragged_k),
        "least K": (3, m + 11, n, vector),
        "less than a tile along K": (2, m + 11, n, whole(k - vector)),
        "more than a tile along K": (2, m + 11, n, k + vector),
        **{f"rounds along K: {rounds}": (2, m - 3, whole(n // 2), rounds * k) for rounds in (1, 3, 4, 5, 8)},
    }
    return {name: {"G": groups, "M": many, "N": wide, "K": deep} for name, (groups, many, wide, deep) in rows.items()}


GROUPED_GEMM = OperationKind(
    about=ABOUT,
    table=GroupedGemmTable,
    read=read_grouped_gemm,
    shape_docs=SHAPE_DOCS,
    tensors=(*INPUTS, "Y"),
    sizes=SIZES,
    defaults=dict.fromkeys(("LDA", "LDB", "LDC"), "0"),
    verified_sizes=verified_sizes,
)
