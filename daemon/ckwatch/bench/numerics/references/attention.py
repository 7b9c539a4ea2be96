"""Attention: O = softmax(scale · Q · Kᵀ + bias, masked) · V, and LSE, the logarithms of the softmax's sums.

What Composable Kernel computes: a query that sees no key has zeros in O. With a causal mask ALiBi counts from the first
key, which the softmax does not notice, but LSE does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ckwatch.bench.numerics.references.given import Booleans, Given, IntArray, RowReference
from ckwatch.bench.numerics.storage import Doubles

_MULTIPLIER = 0x9E3779B97F4A7C15


def expected(given: Given, role: str, rows: IntArray) -> Doubles:
    """The rows of O, one per token and head, or of LSE."""
    sequences, tokens, heads = places_of(given, role, rows)
    columns = given.shape(role)[-1]
    found = np.full((rows.size, columns), np.nan)
    groups = np.stack([sequences, heads])
    for sequence, head in np.unique(groups[:, sequences >= 0], axis=1).T:
        mine = (sequences == sequence) & (heads == head)
        queries = tokens[mine]
        scores = _scores(given, int(sequence), int(head), queries)
        most = np.max(scores, axis=1, keepdims=True, initial=-np.inf)
        sees = np.isfinite(most)
        powers = np.exp(scores - np.where(sees, most, 0.0))
        sums = powers.sum(axis=1, keepdims=True)
        if role == "lse":
            found[mine] = np.where(sees, most + np.log(np.where(sees, sums, 1.0)), np.nan)
        else:
            values = _keys(given, "v", int(sequence), int(head))
            found[mine] = powers @ values / np.where(sees, sums, 1.0) * _scale(given, "scale_v")
    return found


def left_out(given: Given, role: str) -> Booleans:
    """Tokens behind the last sequence."""
    shape = given.shape(role)[:-1]
    rows = np.arange(int(np.prod(shape)))
    return np.asarray(places_of(given, role, rows)[0] < 0)


def contents(given: Given, seed: int) -> Mapping[str, IntArray]:
    """Return the starts of the sequences: of unequal lengths that together are all tokens."""
    if not given.has("start_q"):
        return {}
    batch = given.sizes["batch"]
    return {
        f"start_{side}": _starts(given.sizes[f"total_{side}"], given.sizes[f"max_seqlen_{side}"], batch, seed + place)
        for place, side in enumerate("qk")
    }


def places_of(given: Given, role: str, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Of each row the sequence, the token in it and the head; the sequence −1 of a token behind the last one."""
    shape = given.shape(role)[:-1]
    index = np.unravel_index(rows, shape)
    if not given.has("start_q"):
        sequences, *inner = index
        tokens, heads = inner if role == "o" else reversed(inner)
        return np.asarray(sequences), np.asarray(tokens), np.asarray(heads)
    tokens, heads = index if role == "o" else reversed(index)
    starts = given.integers("start_q")
    sequences = np.searchsorted(starts, tokens, side="right") - 1
    sequences = np.where(tokens < starts[-1], sequences, -1)
    return sequences, np.where(sequences < 0, 0, tokens - starts[sequences]), np.asarray(heads)


def _starts(total: int, longest: int, batch: int, seed: int) -> IntArray:
    """One sequence is as long as may be, the others two to four thirds of what is left for each of them."""
    starts = [0]
    for place in range(batch):
        rest, others = total - starts[-1], batch - place - 1
        least, most = max(0, rest - others * longest), min(longest, rest)
        thirds = 64 + ((seed + 1) * _MULTIPLIER * (place + 1) >> 40) % 65
        wanted = longest if place == seed % batch else rest // (others + 1) * thirds // 96
        starts.append(starts[-1] + min(most, max(least, wanted)))
    return np.array(starts, np.int64)


def _bounds(given: Given, side: str, sequence: int) -> tuple[int, int]:
    starts = given.integers(f"start_{side}")
    return int(starts[sequence]), int(starts[sequence + 1])


def _tokens(given: Given, side: str, sequence: int) -> tuple[int | slice, ...]:
    """The index of a sequence's tokens."""
    if given.has("start_q"):
        return (slice(*_bounds(given, side, sequence)),)
    return sequence, slice(None)


def _keys(given: Given, role: str, sequence: int, head: int) -> Doubles:
    shared = given.sizes["nhead_q"] // given.sizes["nhead_k"]
    return given.read(role, *_tokens(given, "k", sequence), head // shared)


def _scale(given: Given, role: str) -> float:
    return float(given.read(role).item()) if given.has(role) else 1.0


def _scores(given: Given, sequence: int, head: int, queries: IntArray) -> Doubles:
    """Return the input of the softmax, −∞ where a key is masked."""
    keys = _keys(given, "k", sequence, head)
    every = given.read("q", *_tokens(given, "q", sequence), head)
    factor = float(given.options["scale"]) * _scale(given, "scale_q") * _scale(given, "scale_k")  # type: ignore[arg-type]
    scores = every[queries] @ keys.T * factor
    cap = float(given.options["soft_cap"])  # type: ignore[arg-type]
    if cap:
        scores = cap * np.tanh(scores / cap)
    lengths = every.shape[0], keys.shape[0]
    columns = np.arange(lengths[1])
    if given.has("bias"):
        index = (head, *_tokens(given, "q", sequence)) if given.has("start_q") else (sequence, head)
        scores = scores + given.read("bias", *index)[queries, : lengths[1]]
    if given.has("slopes"):
        scores = scores + float(given.read("slopes", head).item()) * _distances(
            given, lengths, queries[:, None], columns
        )
    first, last = _seen(given, lengths, queries)
    return np.where((columns >= first[:, None]) & (columns < last[:, None]), scores, -np.inf)


def _seen(given: Given, lengths: tuple[int, int], queries: IntArray) -> tuple[IntArray, IntArray]:
    """The first key that each query sees, and the one behind the last."""
    left, right = int(given.options["left"]), int(given.options["right"])  # type: ignore[arg-type]
    own = queries if given.options["aligned"] == "top-left" else queries + lengths[1] - lengths[0]
    first = np.zeros_like(own) if left < 0 else own - left
    last = np.full_like(own, lengths[1]) if right < 0 else np.minimum(own + right + 1, lengths[1])
    return first, last


def _distances(given: Given, lengths: tuple[int, int], queries: IntArray, columns: IntArray) -> IntArray:
    """Return the distances that ALiBi multiplies a slope with."""
    if given.options["mask"] == "causal":
        return np.asarray(columns[None, :], np.int64)
    if given.options["mask"] == "sliding" and given.options["aligned"] == "top-left":
        return np.asarray(-np.abs(queries - columns), np.int64)
    return np.asarray(-np.abs(queries + lengths[1] - lengths[0] - columns), np.int64)


ATTENTION = RowReference(expected=expected, left_out=left_out, contents=contents)
