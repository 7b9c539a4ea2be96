"""`[operation]` of kind `attention`: O = softmax(scale · Q · Kᵀ + bias, masked) · V, for each head of each sequence.

The C arguments have the names that Composable Kernel has for them. Axes stand in the order of flash attention,
batch × tokens × heads × head, and lie in memory as their strides say. Sequences of variable lengths are packed behind
one another, and two inputs say where each of them begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Annotated, Literal

from pydantic import Field

from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.row_computations import RowComputation
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.operations.tables import Dtype, Factor, OperationTable, dense, extent, one_of
from ckwatch.workspace.problems import Problems

ABOUT = "O = softmax(scale · Q · Kᵀ + bias, masked) · V, for each head of each sequence"

INPUTS = ("Q", "K", "V", "Bias", "AlibiSlopes", "SeqStartQ", "SeqStartK", "ScaleQ", "ScaleK", "ScaleV")
OUTPUTS = ("O", "LSE")
ROLES = {
    "Q": "q",
    "K": "k",
    "V": "v",
    "Bias": "bias",
    "AlibiSlopes": "slopes",
    "SeqStartQ": "start_q",
    "SeqStartK": "start_k",
    "ScaleQ": "scale_q",
    "ScaleK": "scale_k",
    "ScaleV": "scale_v",
    "O": "o",
    "LSE": "lse",
}
"""Roles of the tensors in the reference."""

OPTIONS = ("scale", "soft_cap", "mask", "aligned")
"""Settings that the reference uses."""

DTYPES = ("f16", "bf16", "f8")
OUTPUT_DTYPES = ("f16", "bf16", "f32")
MASKS = ("none", "causal", "sliding")
ALIGNMENTS = ("bottom-right", "top-left")
BIASES = ("none", "elementwise", "alibi")
LENGTHS = ("fixed", "variable")


Head = Annotated[int, Field(ge=1, le=256)]
Extent = Annotated[int, Field(ge=-1, le=2**30)]

FIXED = ("batch", "nhead_q", "nhead_k", "seqlen_q", "seqlen_k")
VARIABLE = ("batch", "nhead_q", "nhead_k", "total_q", "total_k", "max_seqlen_q", "max_seqlen_k")
STRIDES = {"Q": "q", "K": "k", "V": "v", "O": "o"}

SHAPE_DOCS = {
    "batch": "sequences",
    "nhead_q": "heads of Q and O",
    "nhead_k": "heads of K and V, each for nhead_q / nhead_k heads of Q",
    "seqlen_q": "tokens of each sequence in Q and O",
    "seqlen_k": "tokens of each sequence in K and V",
    "total_q": "tokens of all sequences in Q and O, of variable lengths",
    "total_k": "tokens of all sequences in K and V, of variable lengths",
    "max_seqlen_q": "tokens of the longest sequence in Q, of variable lengths",
    "max_seqlen_k": "tokens of the longest sequence in K, of variable lengths",
    **{
        f"{prefix}stride_{low}": f"elements from one {what} of {name} to the next; by default without gaps"
        for name, low in STRIDES.items()
        for prefix, what in (("nhead_", "head"), ("", "token"), ("batch_", "sequence"))
    },
    "stride_bias": "elements from one row of Bias to the next; 0 repeats the first",
    "nhead_stride_bias": "elements from the Bias of one head to that of the next; 0 for one Bias of all heads",
    "batch_stride_bias": "elements from the Bias of one sequence to that of the next; 0 for one Bias of all sequences",
}


class AttentionTable(OperationTable):
    """`[operation]` of kind `attention`."""

    kind: Literal["attention"] = Field(description=f"`attention`: {ABOUT}")
    dtype: Dtype = Field(description="the element type of Q, K and V: f16, bf16 or f8")
    dtype_o: Dtype | None = Field(
        None, description="the element type of O: f16, bf16 or f32; by default that of Q, bf16 where that is f8"
    )
    head: Head = Field(description="elements of a head of Q and K, at most 256")
    head_v: Head | None = Field(None, description="elements of a head of V and O; by default those of K")
    scale: Factor | None = Field(None, description="the factor of Q · Kᵀ; by default 1 / √head")
    soft_cap: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="bounds scores: x becomes soft_cap · tanh(x / soft_cap)"
    )
    mask: Annotated[str, one_of("mask", MASKS)] = Field(
        "none",
        description="which keys a query sees: all, those up to its own place, or those of `window` around it",
    )
    window: list[Extent] | None = Field(
        None, description="keys before and behind a query's own place that it sees; −1 for all of them"
    )
    aligned: Annotated[str, one_of("alignment", ALIGNMENTS)] = Field(
        "bottom-right",
        description="where queries have their own places: the last one at the last key, as in flash attention, "
        "or the first one at the first key",
    )
    bias: Annotated[str, one_of("bias", BIASES)] = Field(
        "none", description="what is added to the scores: nothing, the tensor Bias, or slopes times distances"
    )
    lengths: Annotated[str, one_of("lengths", LENGTHS)] = Field(
        "fixed", description="whether all sequences are of one length, or packed and of lengths that are inputs"
    )
    descale: bool = Field(False, description="whether f8 inputs have a scale each: ScaleQ, ScaleK, ScaleV")
    lse: bool = Field(False, description="whether the logarithms of the rows' sums are an output, LSE")


def read_attention(problems: Problems, table: AttentionTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    _check(problems, table)
    variable = table.lengths == "variable"
    output = table.dtype_o or ("bf16" if table.dtype == "f8" else table.dtype)
    heads = {"Q": "q", "K": "k", "V": "k", "O": "q"}
    found: dict[str, Tensor | None] = {
        name: _tokens(
            name,
            output if name == "O" else table.dtype,
            side,
            table.head if name in ("Q", "K") else _head_v(table),
            variable=variable,
        )
        for name, side in heads.items()
    }
    if table.bias == "elementwise":
        found["Bias"] = _bias("f32" if table.dtype == "f8" else table.dtype, variable=variable)
    elif table.bias == "alibi":
        found["AlibiSlopes"] = dense("AlibiSlopes", "f32", ("nhead_q",))
    if variable:
        found |= {name: dense(name, "i32", ("batch + 1",)) for name in ("SeqStartQ", "SeqStartK")}
    if table.descale:
        found |= {name: dense(name, "f32", ("1",)) for name in ("ScaleQ", "ScaleK", "ScaleV")}
    if table.lse:
        tokens = ("nhead_q", "total_q") if variable else ("batch", "nhead_q", "seqlen_q")
        found["LSE"] = dense("LSE", "f32", (*tokens, "1"))
    return _operation(table, {name: found.get(name) for name in (*INPUTS, *OUTPUTS)})


CODES = {"dtype": "unknown-dtype", "dtype_o": "unknown-dtype", "descale": "dtype-mismatch"}


def _check(problems: Problems, table: AttentionTable) -> None:
    def wrong(key: str, message: str) -> None:
        problems.at_value(("operation", key), CODES.get(key, "dimension-mismatch"), message)

    if table.dtype not in DTYPES:
        wrong("dtype", f"attention has Q, K and V in {', '.join(DTYPES)}, not in {table.dtype}")
    if table.dtype_o is not None and table.dtype_o not in OUTPUT_DTYPES:
        wrong("dtype_o", f"attention has O in {', '.join(OUTPUT_DTYPES)}, not in {table.dtype_o}")
    if table.window is not None and len(table.window) != 2:
        wrong("window", f"`window` has two numbers, keys before and behind, not {len(table.window)}")
    if table.window is None and table.mask == "sliding":
        wrong(
            "mask", 'mask = "sliding" needs `window`, the keys before and behind that a query sees: `window = [127, 0]`'
        )
    if table.window is not None and table.mask != "sliding":
        wrong("window", '`window` is that of mask = "sliding"')
    if table.soft_cap is not None and table.bias != "none":
        wrong("soft_cap", "`soft_cap` goes without a bias: Composable Kernel has no kernel with both")
    if table.descale and table.dtype != "f8":
        wrong("descale", "`descale` is about f8: inputs in f16 and bf16 have no scales")


def _head_v(table: AttentionTable) -> int:
    return table.head if table.head_v is None else table.head_v


def _tokens(name: str, dtype: str, side: str, head: int, *, variable: bool) -> Tensor:
    """Q, K, V or O. `side`: whose tokens and heads, those of the queries or of the keys."""
    low = STRIDES[name]
    sizes = (f"total_{side}",) if variable else ("batch", f"seqlen_{side}")
    strides = (f"stride_{low}",) if variable else (f"batch_stride_{low}", f"stride_{low}")
    return Tensor(
        name, dtype, "row", (*sizes, f"nhead_{side}", str(head)), (*strides, f"nhead_stride_{low}", "1"), name
    )


def _bias(dtype: str, *, variable: bool) -> Tensor:
    sizes = ("nhead_q", "total_q", "max_seqlen_k") if variable else ("batch", "nhead_q", "seqlen_q", "seqlen_k")
    strides = ("nhead_stride_bias", "stride_bias", "1")
    return Tensor("Bias", dtype, "row", sizes, strides if variable else ("batch_stride_bias", *strides), "Bias")


def _operation(table: AttentionTable, tensors: Mapping[str, Tensor | None]) -> Operation:
    defaults = _stride_defaults(tensors)
    variable = table.lengths == "variable"
    left, right = _window(table)
    settings: dict[str, ParameterValue] = {
        **table.model_dump(include={"head", "mask", "aligned", "bias", "lengths", "descale", "lse"}),
        "head_v": _head_v(table),
        "scale": 1 / sqrt(table.head) if table.scale is None else table.scale,
        "soft_cap": table.soft_cap or 0.0,
        "window": (left, right),
    }
    roles = {ROLES[name]: name for name, tensor in tensors.items() if tensor is not None}
    computation = RowComputation(
        reference="attention",
        tensors=roles,
        macs=_macs(table),
        depth=f"{'max_seqlen_k' if variable else 'seqlen_k'} + {table.head}",
        compute=table.dtype,
        sizes={name: name for name in (VARIABLE if variable else FIXED)},
        options={name: settings[name] for name in OPTIONS} | {"left": left, "right": right},
        scales=("scale_q", "scale_k", "scale_v"),
    )
    return Operation(
        kind="attention",
        inputs=tuple((name, tensors[name]) for name in INPUTS),
        outputs=tuple((name, tensor) for name in OUTPUTS if (tensor := tensors[name]) is not None),
        accumulator="f32",
        size_arguments=(*(VARIABLE if variable else FIXED), *defaults),
        runtime_arguments=(),
        settings=settings,
        size_defaults=defaults,
        computation=computation,
    )


def _stride_defaults(tensors: Mapping[str, Tensor | None]) -> dict[str, str]:
    """Return the strides without gaps: each axis encloses the one within it."""
    found = {}
    for name in (*STRIDES, "Bias"):
        tensor = tensors[name]
        if tensor is not None:
            inner = list(zip(tensor.sizes[1:], tensor.strides[1:], tensor.strides[:-1], strict=True))
            for size, within, stride in reversed(inner):
                found[stride] = size if within == "1" else f"{size} * {within}"
    return found


def _window(table: AttentionTable) -> tuple[int, int]:
    """Keys before and behind a query's own place; −1 for all of them."""
    if table.mask == "sliding" and table.window is not None and len(table.window) == 2:
        return table.window[0], table.window[1]
    return -1, 0 if table.mask == "causal" else -1


def _macs(table: AttentionTable) -> str:
    """Multiply-adds of both products, at least: half of a square under a triangle, of a window nearly all.

    Of variable lengths as many as if they were equal.
    """
    left, right = _window(table)
    queries, keys = ("total_q", "total_k / batch") if table.lengths == "variable" else ("batch * seqlen_q", "seqlen_k")
    every = f"{queries} * nhead_q * {table.head + _head_v(table)}"
    if table.mask == "none" or left < 0 > right:
        return f"{every} * ({keys})"
    if left < 0 or right < 0:
        return f"{every} * ({keys} + 1) / 2"
    width = left + right + 1
    return f"{every} * ({width} * ({keys}) / ({width} + {keys}))"


def _wrong_sizes(sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Heads that do not share keys evenly, and lengths that cannot be."""
    of_q, of_k = sizes["nhead_q"], sizes["nhead_k"]
    if of_q % of_k:
        yield "nhead_q", f"`nhead_q` must be a multiple of nhead_k: {of_q} is none of {of_k}"
    for side in "qk":
        total, most = sizes.get(f"total_{side}"), sizes.get(f"max_seqlen_{side}")
        if total is not None and most is not None and not most <= total <= most * sizes["batch"]:
            message = f"between max_seqlen_{side} = {most} and batch times it, {most * sizes['batch']}, not {total}"
            yield f"total_{side}", f"`total_{side}` must be {message}"


def _verified_sizes(operation: Operation, parameters: Mapping[str, ParameterValue]) -> dict[str, dict[str, int]]:
    rows, keys = extent(parameters, "kM0", 64), extent(parameters, "kN0", 64)
    whole_rows = rows if parameters.get("kPadSeqLenQ") is False else 1
    whole_keys = keys if parameters.get("kPadSeqLenK") is False else 1
    variable = operation.settings["lengths"] == "variable"

    def sizes(q: int, k: int, heads: int = 1, shared: int = 1, batch: int = 1, **strides: int) -> dict[str, int]:
        q, k = -(-q // whole_rows) * whole_rows, -(-k // whole_keys) * whole_keys
        found = {"batch": batch, "nhead_q": heads * shared, "nhead_k": heads}
        if variable:
            longest = {"max_seqlen_q": q, "max_seqlen_k": k}
            return found | {"total_q": _packed(q, batch), "total_k": _packed(k, batch)} | longest | strides
        return found | {"seqlen_q": q, "seqlen_k": k} | strides

    return {
        "ragged": sizes(rows + 1, 2 * keys - 1, 1, 2, 2),
        "one token": sizes(1, 1),
        "odd": sizes(17, 17, 2),
        "more queries than keys": sizes(rows + 17, 17, 1, 2),
        "more keys than queries": sizes(17, 3 * keys + 1, 1, 2),
        "grouped queries": sizes(33, keys + 1, 2, 3),
        "decode": sizes(1, 2 * keys + 1, 1, 8),
        "one key": sizes(17, 1, 3),
        "whole tiles": sizes(rows, 2 * keys),
        "129 of 127": sizes(129, 127),
        "127 of 129": sizes(127, 129),
        "one more than a tile": sizes(rows + 1, keys + 1),
        "one less than a tile": sizes(rows - 1, keys - 1),
        "many rounds": sizes(5, 9 * keys + 3),
        "many queries": sizes(3 * rows + 5, keys // 2 + 1),
        "many sequences": sizes(5, 7, 1, 2, 9),
        "many heads": sizes(9, 19, 16),
        "one head of keys": sizes(7, keys - 3, 1, 13),
        "three of each": sizes(31, 65, 3, 1, 3),
        "heads of keys and sequences": sizes(19, 2 * keys + 7, 2, 2, 2),
        "a square": sizes(2 * keys + 3, 2 * keys + 3),
        "three tokens": sizes(3, 2, 1, 2, 2),
        "a warp of queries": sizes(32, 63),
        "one more than a warp of queries": sizes(33, 31, 2),
        "a tile of keys": sizes(65, keys),
        "two tiles of queries": sizes(2 * rows, keys - 1),
        "many of each": sizes(11, 13, 3, 2, 5),
        **({} if variable else _other_layouts(operation, sizes(37, keys + 5, 2, 2, 2))),
    }


def _other_layouts(operation: Operation, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Tensors whose heads lie one behind the other, and keys that all sequences have in common."""
    head_first: dict[str, int] = {}
    for name, low in STRIDES.items():
        tensor = next(one for one in operation.tensors if one.name == name)
        tokens, heads, head = sizes[tensor.sizes[1]], sizes[tensor.sizes[2]], int(tensor.sizes[3])
        head_first |= {f"stride_{low}": head, f"nhead_stride_{low}": tokens * head}
        head_first |= {f"batch_stride_{low}": heads * tokens * head}
    shared = dict.fromkeys((f"batch_stride_{low}" for low in "kv"), 0)
    return {"heads before tokens": {**sizes, **head_first}, "the same keys for all": {**sizes, **shared}}


def _packed(longest: int, batch: int) -> int:
    """Tokens of sequences of which one is the longest and the others about half as long."""
    return longest + (batch - 1) * ((longest + 1) // 2)


ATTENTION = OperationKind(
    about=ABOUT,
    table=AttentionTable,
    read=read_attention,
    shape_docs=SHAPE_DOCS,
    tensors=(*INPUTS, *OUTPUTS),
    sizes=tuple(SHAPE_DOCS),
    defaults=dict.fromkeys((name for name in SHAPE_DOCS if name not in ("batch", "nhead_q", "nhead_k")), "0"),
    free_strides=frozenset(name for name in SHAPE_DOCS if "stride_" in name),
    wrong_sizes=_wrong_sizes,
    verified_sizes=_verified_sizes,
)
