"""`[operation]` of kind `moe_gemm`: one of the two products of a mixture of experts.

Each of `tokens` tokens is sent to `topk` of `experts` experts. Stage 1 multiplies a token's row of X by both halves of
its expert's W, gate and up, and gives Y = activation(gate) · up for each pair of a token and an expert of it. Stage 2
multiplies these rows by the expert's other W and adds those of a token up.

The routing is an input. Pairs are sorted by expert, each expert's filled up to whole tiles of `block_m` pairs. A pair
is written `token | slot << 24`, where `slot` counts the token's experts; what fills up names the token `tokens`, which
there is not. `SortedExpertIds` holds the expert of each tile and `NumValidIds` how many places of `sorted_size` are in
use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.row_computations import RowComputation
from ckwatch.model.tensors import DTYPES
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.tables import Dtype, OperationTable, accumulator_for, dense, extent, one_of
from ckwatch.workspace.problems import Problems

ABOUT = "a stage of a mixture of experts: activation(gate) · up of each token and each of its experts, or their sums"

INPUTS = ("X", "W", "SortedTokenIds", "SortedExpertIds", "NumValidIds", "ScaleX", "ScaleW", "SortedWeights")
SIZES = ("tokens", "topk", "experts", "N", "K", "sorted_size")
ROLES = {
    "X": "x",
    "W": "w",
    "SortedTokenIds": "token_ids",
    "SortedExpertIds": "expert_ids",
    "NumValidIds": "valid",
    "ScaleX": "scale_x",
    "ScaleW": "scale_w",
    "SortedWeights": "weights",
    "Y": "y",
}
"""Roles of the tensors in the reference."""

SHAPE_DOCS = {
    "tokens": "tokens, below 2²⁴",
    "topk": "experts of each token, at most 127",
    "experts": "experts: matrices in W",
    "N": "columns of Y; in stage 1 of each of gate and up",
    "K": "columns of X, and rows of an expert's W",
    "sorted_size": "places for sorted pairs, a multiple of block_m; by default as many as any routing may need",
}

INPUT_DTYPES = ("f16", "bf16", "f8", "i8")
OUTPUT_DTYPES = ("f16", "bf16", "f32")
ACTIVATIONS = ("silu", "gelu")
SCALINGS = ("none", "tensor", "row")

LARGEST_TOKENS = (1 << 24) - 1
LARGEST_TOPK = 127

_ROUNDINGS = {"f16": 1 << 14, "bf16": 1 << 17, "f32": 2}
"""Roundings in f32 that correspond to rounding an addend and a sum to an output's dtype."""


class MoeGemmTable(OperationTable):
    """`[operation]` of kind `moe_gemm`."""

    kind: Literal["moe_gemm"] = Field(description=f"`moe_gemm`: {ABOUT}")
    stage: Literal[1, 2] = Field(
        description="1: activation(gate) · up for each pair of a token and an expert; 2: the sum of a token's pairs"
    )
    dtype: Dtype = Field(description="the element type of X and W: f16, bf16, f8 or i8")
    dtype_y: Dtype | None = Field(
        None,
        description="the element type of Y: f16, bf16, or in stage 2 f32; by default that of X, f16 for 8 bits",
    )
    block_m: PositiveInt = Field(
        description="sorted pairs in a tile, which all have one expert: the instance's MPerBlock"
    )
    preshuffled: list[PositiveInt] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="columns and rows of the blocks in which W lies; by default 16 columns and 16 bytes",
    )
    activation: Annotated[str, one_of("activation", ACTIVATIONS)] | None = Field(
        None, description="of the gate, in stage 1: `silu` (by default) or `gelu`"
    )
    weighted: bool | None = Field(
        None,
        description="whether each pair has a weight, SortedWeights: factor of gate and of up in stage 1, of the result "
        "in stage 2; by default in stage 2",
    )
    scales: Annotated[str, one_of("scaling", SCALINGS)] | None = Field(
        None,
        description="of X and W: `none`, one value of X and one per expert (`tensor`), or one per row of X and one per "
        "column of an expert's W (`row`); by default `row` for f8 and i8",
    )


def read_moe_gemm(problems: Problems, table: MoeGemmTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    _check(problems, table)
    eight_bits = table.dtype in ("f8", "i8")
    scales = table.scales or ("row" if eight_bits else "none")
    weighted = table.stage == 2 if table.weighted is None else table.weighted
    output = table.dtype_y or ("f16" if eight_bits else table.dtype)
    bytes_each = DTYPES[table.dtype].size_bytes
    columns, rows = table.preshuffled or (16, 16 // max(1, bytes_each))
    settings: dict[str, ParameterValue] = {
        "stage": table.stage,
        "block_m": table.block_m,
        "preshuffled": (columns, rows),
        "activation": (table.activation or "silu") if table.stage == 1 else "none",
        "weighted": weighted,
        "scales": scales,
    }
    return _operation(table, _tensors(table, settings, (columns, rows), output), settings)


def _check(problems: Problems, table: MoeGemmTable) -> None:
    def wrong(key: str, message: str) -> None:
        problems.at_value(("operation", key), "wrong-value", message)

    if table.dtype not in INPUT_DTYPES:
        wrong("dtype", f"experts are multiplied in {', '.join(INPUT_DTYPES)}, not in {table.dtype}")
    known = OUTPUT_DTYPES if table.stage == 2 else OUTPUT_DTYPES[:2]
    if table.dtype_y is not None and table.dtype_y not in known:
        wrong("dtype_y", f"Y of stage {table.stage} is {', '.join(known[:-1])} or {known[-1]}, not {table.dtype_y}")
    if table.stage == 2 and table.activation is not None:
        wrong("activation", "stage 2 has no activation")


def _tensors(
    table: MoeGemmTable, settings: Mapping[str, ParameterValue], blocks: tuple[int, int], output: str
) -> dict[str, Tensor | None]:
    first = table.stage == 1
    pairs = ("tokens", "topk")
    (columns, rows), block_m = blocks, table.block_m
    width = "2 * N" if first else "N"
    found: dict[str, Tensor | None] = {
        "X": dense("X", table.dtype, ("tokens", "K") if first else (*pairs, "K")),
        "W": dense(
            "W",
            table.dtype,
            (
                "experts",
                f"({width} + {columns - 1}) / {columns}",
                f"(K + {rows - 1}) / {rows}",
                str(columns),
                str(rows),
            ),
        ),
        "SortedTokenIds": dense("SortedTokenIds", "i32", ("sorted_size",)),
        "SortedExpertIds": dense("SortedExpertIds", "i32", (f"(sorted_size + {block_m - 1}) / {block_m}",)),
        "NumValidIds": dense("NumValidIds", "i32", ("1",)),
        "Y": dense("Y", output, (*pairs, "N") if first else ("tokens", "N")),
    }
    if settings["scales"] == "row":
        found["ScaleX"] = dense("ScaleX", "f32", ("tokens",) if first else pairs)
        found["ScaleW"] = dense("ScaleW", "f32", ("experts", width))
    elif settings["scales"] == "tensor":
        found["ScaleX"] = dense("ScaleX", "f32", ("1",))
        found["ScaleW"] = dense("ScaleW", "f32", ("experts",))
    if settings["weighted"]:
        found["SortedWeights"] = dense("SortedWeights", "f32", ("sorted_size",))
    return {name: found.get(name) for name in (*INPUTS, "Y")}


def _operation(
    table: MoeGemmTable, tensors: Mapping[str, Tensor | None], settings: Mapping[str, ParameterValue]
) -> Operation:
    x, y = tensors["X"], tensors["Y"]
    assert x is not None and y is not None  # noqa: PT018, S101  (every operation has them)
    first, block_m = table.stage == 1, table.block_m
    computation = RowComputation(
        reference="moe_gemm",
        tensors={ROLES[name]: name for name, tensor in tensors.items() if tensor is not None},
        macs=f"tokens * topk * N * K{' * 2' if first else ''}",
        depth="K + 8" if first else f"K + topk * {_ROUNDINGS.get(y.dtype, 2)}",
        compute=x.dtype,
        sizes={name: name for name in SIZES},
        options={"stage": table.stage, "block_m": block_m, "activation": str(settings["activation"])},
        scales=tuple(ROLES[name] for name in ("ScaleX", "ScaleW") if tensors[name] is not None),
    )
    return Operation(
        kind="moe_gemm",
        inputs=tuple((name, tensors[name]) for name in INPUTS),
        outputs=(("Y", y),),
        accumulator=accumulator_for(x.dtype),
        size_arguments=SIZES,
        runtime_arguments=(),
        settings=settings,
        # whole tiles for any routing: each expert leaves less than a tile unused
        size_defaults={"sorted_size": f"(tokens * topk + experts * {block_m - 1}) / {block_m} * {block_m}"},
        computation=computation,
    )


def _wrong_sizes(sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield sizes that do not fit a sorted pair, and experts that a token would meet twice."""
    if sizes["tokens"] > LARGEST_TOKENS:
        yield "tokens", f"`tokens` must be below 2^24 = {LARGEST_TOKENS + 1}: a pair has 24 bits for the token"
    if sizes["topk"] > LARGEST_TOPK:
        yield "topk", f"`topk` must be at most {LARGEST_TOPK}: a pair has 7 bits for the expert of its token"
    elif sizes["topk"] > sizes["experts"]:
        yield "topk", f"`topk` must be at most experts = {sizes['experts']}: a token meets each expert once"


def _verified_sizes(operation: Operation, parameters: Mapping[str, ParameterValue]) -> dict[str, dict[str, int]]:
    columns, depth = extent(parameters, "NPerBlock", 128), extent(parameters, "KPerBlock", 128)
    rows = int(operation.settings["block_m"])  # type: ignore[arg-type]

    def sizes(tokens: int, topk: int, experts: int, n: int = 1, k: int = 2, **others: int) -> dict[str, int]:
        found = {"tokens": tokens, "topk": topk, "experts": experts, "N": n * columns, "K": k * depth}
        return found | others

    return {
        "33 tokens, 2 of 4 experts": sizes(33, 2, 4, 2, 3),
        "one token": sizes(1, 1, 1),
        "3 tokens, 2 of 8 experts": sizes(3, 2, 8, 1, 4),
        "17 tokens, 3 of 5 experts": sizes(17, 3, 5, 2, 3),
        "N is not a whole number of tiles": sizes(5, 2, 4) | {"N": columns + 8},
        "K is not a whole number of tiles": sizes(5, 2, 4) | {"K": 2 * depth + 16},
        "sorted_size is not a whole number of tiles": sizes(5, 2, 4, sorted_size=6 * rows + 1),
        "least K": sizes(9, 2, 4, 1, 1),
        "one expert": sizes(rows + 1, 1, 1, 1, 3),
        "each token to every expert": sizes(7, 4, 4, 1, 2),
        "a tile each": sizes(rows, 1, 2, 1, 2),
        "one more than a tile": sizes(rows + 1, 2, 2, 1, 3),
        "one less than a tile": sizes(max(1, rows - 1), 2, 2, 1, 3),
        "many experts": sizes(11, 2, 32, 1, 2),
        "more experts than pairs": sizes(2, 1, 16, 1, 3),
        "8 of 16 experts": sizes(5, 8, 16, 1, 2),
        "one token, 8 of 9 experts": sizes(1, 8, 9, 2, 2),
        "more places than any routing needs": sizes(19, 2, 3, 1, 2, sorted_size=12 * max(rows, 16)),
        "many columns": sizes(13, 2, 3, 5, 2),
        "many rounds along K": sizes(7, 1, 3, 1, 9),
        "129 tokens": sizes(129, 2, 3, 1, 2),
        "127 tokens, 3 of 7 experts": sizes(127, 3, 7, 1, 3),
        "65 tokens, 5 of 6 experts": sizes(65, 5, 6, 1, 2),
    }


MOE_GEMM = OperationKind(
    about=ABOUT,
    table=MoeGemmTable,
    read=read_moe_gemm,
    shape_docs=SHAPE_DOCS,
    tensors=(*INPUTS, "Y"),
    sizes=SIZES,
    defaults={"sorted_size": "tokens"},
    free_strides=frozenset({"sorted_size"}),
    verified_sizes=_verified_sizes,
    wrong_sizes=_wrong_sizes,
)
