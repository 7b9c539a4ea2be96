"""The products of a mixture of experts: `ckwatch.workspace.operations.moe_gemm` says what is what.

Roles: `x` tokens×K in stage 1, tokens×topk×K in stage 2; `w` experts × blocks of columns × blocks of rows × columns ×
rows, gate before up in stage 1; `token_ids`, `expert_ids`, `valid`: the routing; `scale_x` one value or one per row of
X, `scale_w` one per expert or column of it; `weights` one per sorted pair; `y` tokens×topk×N in stage 1, tokens×N in
stage 2.
Options: `stage`, `block_m`, `activation`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ckwatch.bench.numerics.activations import ACTIVATIONS
from ckwatch.bench.numerics.references.given import Booleans, Given, IntArray, RowReference
from ckwatch.bench.numerics.storage import Doubles

TOKEN_BITS = 24
_TOKEN_MASK = (1 << TOKEN_BITS) - 1

_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407
_EVERY_FOURTH = 4
"""Of so many experts one has no tokens."""


class _Pairs:
    """The pairs that the kernel computes, in their order: token, slot, expert and place among all."""

    def __init__(self, given: Given) -> None:
        valid = int(given.integers("valid")[0])
        ids = given.integers("token_ids")[:valid]
        places = np.flatnonzero((ids & _TOKEN_MASK) < given.sizes["tokens"])
        self.places = places
        self.tokens = ids[places] & _TOKEN_MASK
        self.slots = ids[places] >> TOKEN_BITS
        self.experts = given.integers("expert_ids")[places // _number(given, "block_m")]


def expected(given: Given, _role: str, rows: IntArray) -> Doubles:
    """The rows of `y`; NaN for pairs of stage 1 that are nowhere among the sorted ones."""
    pairs, first = _Pairs(given), given.options["stage"] == 1
    row_of_pair = pairs.tokens * given.sizes["topk"] + pairs.slots if first else pairs.tokens
    found = np.full((rows.size, given.sizes["N"]), np.nan if first else 0.0)
    at_row = {int(row): at for at, row in enumerate(rows)}
    wanted = np.isin(row_of_pair, rows)
    for expert in np.unique(pairs.experts[wanted]):
        weights = _weights(given, int(expert))
        for pair in np.flatnonzero(wanted & (pairs.experts == expert)):
            at = at_row[int(row_of_pair[pair])]
            values = _product(given, weights, pairs, int(pair), int(expert))
            found[at] = values if first else found[at] + values
    return found


def left_out(given: Given, _role: str) -> Booleans:
    """The pairs of stage 1 that are nowhere among the sorted ones."""
    rows = given.sizes["tokens"] * (given.sizes["topk"] if given.options["stage"] == 1 else 1)
    found = np.zeros(rows, np.bool_)
    if given.options["stage"] == 1:
        pairs = _Pairs(given)
        found[:] = True
        found[pairs.tokens * given.sizes["topk"] + pairs.slots] = False
    return found


def contents(given: Given, seed: int) -> Mapping[str, IntArray]:
    """An uneven routing: each token to `topk` experts that follow one another, every fourth expert without tokens if
    that leaves enough; most tokens begin in the first half."""
    tokens, topk, experts = (given.sizes[name] for name in ("tokens", "topk", "experts"))
    block_m, places = _number(given, "block_m"), given.sizes["sorted_size"]
    used = experts - experts // _EVERY_FOURTH
    skips = used >= topk
    used = used if skips else experts
    by_expert: list[list[int]] = [[] for _ in range(experts)]
    for token in range(tokens):
        mixed = _mixed(seed, token)
        first = (mixed >> 8) % (max(1, used // 2) if mixed & 3 else used)
        for slot in range(topk):
            expert = (first + slot) % used
            expert += expert // (_EVERY_FOURTH - 1) if skips else 0
            by_expert[expert].append(token | slot << TOKEN_BITS)
    nobody = tokens | topk << TOKEN_BITS
    ids = np.full(places, nobody, np.int64)
    tiles = np.full(given.shape("expert_ids")[0], -1, np.int64)
    end = 0
    for expert, mine in enumerate(by_expert):
        for begin in range(0, len(mine), block_m):
            if end + block_m <= places:
                part = mine[begin : begin + block_m]
                ids[end : end + len(part)] = part
                tiles[end // block_m] = expert
                end += block_m
    return {"token_ids": ids, "expert_ids": tiles, "valid": np.array([end], np.int64)}


def _weights(given: Given, expert: int) -> Doubles:
    """An expert's W, columns × rows, from its blocks."""
    blocks = given.read("w", expert)
    columns, rows = blocks.shape[0] * blocks.shape[2], blocks.shape[1] * blocks.shape[3]
    whole = blocks.transpose(0, 2, 1, 3).reshape(columns, rows)
    return whole[: given.sizes["N"] * (2 if given.options["stage"] == 1 else 1), : given.sizes["K"]]


def _product(given: Given, weights: Doubles, pairs: _Pairs, pair: int, expert: int) -> Doubles:
    first, columns = given.options["stage"] == 1, given.sizes["N"]
    token, slot = int(pairs.tokens[pair]), int(pairs.slots[pair])
    row = (token,) if first else (token, slot)
    values = weights @ given.read("x", *row)
    if given.has("scale_x"):
        of_row = given.shape("scale_x") != (1,) or len(given.shape("scale_w")) > 1
        values = values * (given.read("scale_x", *row) if of_row else given.read("scale_x", 0))
        values = values * given.read("scale_w", expert)
    weight = given.read("weights", int(pairs.places[pair])) if given.has("weights") else 1.0
    values = values * weight
    if not first:
        return np.asarray(values)
    gate, up = values[:columns], values[columns:]
    return np.asarray(ACTIVATIONS[str(given.options["activation"])](gate) * up)


def _mixed(seed: int, token: int) -> int:
    mixed = ((seed + 1) * _MULTIPLIER + token * _INCREMENT) % (1 << 64)
    return (mixed ^ (mixed >> 29)) * _MULTIPLIER % (1 << 64) >> 32


def _number(given: Given, name: str) -> int:
    value = given.options[name]
    if not isinstance(value, int):
        raise TypeError(f"{name} is not an integer")
    return value


MOE_GEMM = RowReference(expected=expected, left_out=left_out, contents=contents)
