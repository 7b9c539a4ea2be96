"""Joins what several languages say of one document: their outlines into one, their tokens into one order."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from lsprotocol import types

from ckwatch_lsp.protocol.text_parts import SemanticToken


def joined_outline(outlines: Sequence[Sequence[types.DocumentSymbol]]) -> list[types.DocumentSymbol]:
    """One outline: each symbol within the innermost one of another language that holds it. Of two that are equally long
    the one of the earlier language is outside."""
    found: list[types.DocumentSymbol] = []
    for outline in outlines:
        found = _joined(found, outline) if found else list(outline)
    return found


def _joined(
    first: Sequence[types.DocumentSymbol], second: Sequence[types.DocumentSymbol]
) -> list[types.DocumentSymbol]:
    if not first or not second:
        return [*first, *second]
    first, apart = _moved_into(first, second, first_is_outside=True)
    second, kept = _moved_into(apart, first, first_is_outside=False)
    return sorted((*kept, *second), key=lambda one: (one.range.start, one.selection_range.start))


def _moved_into(
    outside: Sequence[types.DocumentSymbol], inside: Sequence[types.DocumentSymbol], *, first_is_outside: bool
) -> tuple[list[types.DocumentSymbol], list[types.DocumentSymbol]]:
    """`outside` with those of `inside` that it holds, and the others."""
    given: dict[int, list[types.DocumentSymbol]] = {}
    apart = []
    for one in inside:
        host = next((at for at, other in enumerate(outside) if _holds(other, one)), None)
        if host is None:
            apart.append(one)
        else:
            given.setdefault(host, []).append(one)
    found = []
    for at, one in enumerate(outside):
        own = one.children or ()
        children = _joined(own, given[at]) if first_is_outside and at in given else _joined(given.get(at, ()), own)
        found.append(_with_children(one, children) if at in given else one)
    return found, apart


def _with_children(one: types.DocumentSymbol, children: Sequence[types.DocumentSymbol]) -> types.DocumentSymbol:
    joined = copy(one)
    joined.children = children
    return joined


def _holds(outer: types.DocumentSymbol, inner: types.DocumentSymbol) -> bool:
    return outer.range.start <= inner.range.start and inner.range.end <= outer.range.end


def merged_tokens(found: Sequence[Sequence[SemanticToken]]) -> list[SemanticToken]:
    """All tokens in the order of the text; one that overlaps another of an earlier language is left out."""
    several = [one for one in found if one]
    if len(several) < 2:
        return [*several[0]] if several else []
    ranked = ((each.range.start, rank, each) for rank, one in enumerate(several) for each in one)
    merged: list[tuple[int, SemanticToken]] = []
    for start, rank, token in sorted(ranked, key=lambda one: one[:2]):
        while merged and merged[-1][1].range.end > start and merged[-1][0] > rank:
            merged.pop()
        if not merged or merged[-1][1].range.end <= start:
            merged.append((rank, token))
    return [token for _, token in merged]
