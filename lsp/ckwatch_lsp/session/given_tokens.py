"""The semantic tokens that an editor has, and how others differ from them."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

TOKENS_KEPT = 32
"""Documents whose tokens are kept to say how others differ."""


def changed_tokens(before: Sequence[int], after: Sequence[int]) -> list[types.SemanticTokensEdit]:
    """The edit that makes encoded tokens of others: what lies between those that both begin and end with."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    end = next((at for at in range(shorter - start) if before[-1 - at] != after[-1 - at]), shorter - start)
    if start == len(before) == len(after):
        return []
    data = list(after[start : len(after) - end])
    return [types.SemanticTokensEdit(start, len(before) - end - start, data or None)]


class GivenTokens:
    """The tokens that the editor has, of the documents that it asked for last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Sequence[int]]] = {}
        self._count = 0

    def keep(self, uri: str, data: Sequence[int]) -> str:
        """Remember the tokens of a document; their name."""
        self._count += 1
        self._known.pop(uri, None)
        self._known[uri] = (str(self._count), data)
        if len(self._known) > TOKENS_KEPT:
            del self._known[next(iter(self._known))]
        return str(self._count)

    def known(self, uri: str, name: str) -> Sequence[int] | None:
        """The tokens of this name; None if they are not known any more."""
        found = self._known.get(uri)
        return found[1] if found is not None and found[0] == name else None
