"""Which shapes an instance of CK Tile's attention supports.

What the dispatcher of CK Tile's example (`example/ck_tile/01_fmha/codegen/ops/fmha_fwd.py`, CK 1.2.0) leaves to other
instances, and what `ck_tile/fmha_forward.hip.j2` refuses because CK Tile would compute it wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckwatch.checks.rules.ck_tile_fmha import OPERATION
from ckwatch.checks.supported_shapes.family import Parameters, Refusal, ShapeRules
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.tensors import DTYPES

MOST_BLOCKS = 65535
MOST_DISTANCE = 32767
"""ALiBi's distances are differences of 16-bit integers: `ck_tile/ops/fmha/block/block_position_encoding.hpp`."""


def refusals(parameters: Parameters, problem: KernelProblem) -> Iterator[Refusal]:
    """Why an instance does not support a problem, whose operation is attention."""
    if problem.rows is None or problem.rows.reference != "attention":
        return
    known = {OPERATION.canonical(name) or name: value for name, value in parameters.items()}
    sizes = {one.name: int(one.value) for one in problem.arguments if one.buffer is None and one.value is not None}
    for name, tile, pad in (("seqlen_q", "kM0", "kPadSeqLenQ"), ("seqlen_k", "kN0", "kPadSeqLenK")):
        whole = known.get(tile)
        if name in sizes and known.get(pad) is False and isinstance(whole, int) and whole > 0 and sizes[name] % whole:
            reason = f"{name} = {sizes[name]} is not a multiple of {tile} = {whole}, and {pad} is false"
            yield Refusal(reason, f"{pad} = true")
    if sizes["batch"] > MOST_BLOCKS:
        yield Refusal(f"batch = {sizes['batch']} is above {MOST_BLOCKS}, the most that a grid has along an axis")
    longest = max(value for name, value in sizes.items() if name in _LENGTHS)
    if longest > MOST_DISTANCE and any(argument.name == "AlibiSlopes" for argument in problem.arguments):
        yield Refusal(f"of {longest} tokens CK Tile cannot count ALiBi's distances, in 16 bits")
    tiles = [tile for tile in (known.get("kM0"), known.get("kN0")) if isinstance(tile, int)]
    for name, stride, side in _FAR:
        buffer = next((buffer for buffer in problem.buffers if buffer.name == name), None)
        tokens = sizes.get(f"seqlen_{side}", sizes.get(f"max_seqlen_{side}"))
        if buffer is None or tokens is None or stride not in sizes:
            continue
        if (tokens + sum(tiles)) * sizes[stride] > INT32_MAX // DTYPES[buffer.dtype].size_bytes:
            yield Refusal(f"a head of {name} reaches beyond 2 GiB")


INT32_MAX = (1 << 31) - 1
_FAR = (
    ("Q", "stride_q", "q"),
    ("K", "stride_k", "k"),
    ("V", "stride_v", "k"),
    ("O", "stride_o", "q"),
    ("Bias", "stride_bias", "q"),
)
"""Tensors of which CK Tile addresses a head by signed 32-bit bytes, the stride of their tokens, and whose length."""

_LENGTHS = ("seqlen_q", "seqlen_k", "max_seqlen_q", "max_seqlen_k")

CK_TILE_FMHA = ShapeRules(
    describes=lambda parameters: {"kM0", "kQKHeaddim"} <= {OPERATION.canonical(name) for name in parameters},
    refusals=refusals,
    splits_k=lambda _: False,
)
