"""Renders units, and keeps the texts that will be needed again soon.

Five thousand texts would not fit in memory; they can be rendered again. What renders have read is kept once for all
units that have read the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from sys import intern

from ckwatch.core.events import UnitKey
from ckwatch.render.outcome import Rendered

CHARACTERS_KEPT = 2_000_000
"""Their maps take three times as much."""

TEXTS_KEPT = 500

READS_KEPT = 50


class TextCache:
    """The most recently used texts, by unit and tokens."""

    def __init__(self, limit: int = CHARACTERS_KEPT) -> None:
        self._limit = limit
        self._size = 0
        self._texts: OrderedDict[UnitKey, tuple[int, Rendered]] = OrderedDict()

    def put(self, key: UnitKey, generation: int, rendered: Rendered) -> None:
        """Keep the text of this generation, and drop what was not used for longest."""
        self.drop(key)
        self._texts[key] = (generation, rendered)
        self._size += len(rendered.text)
        while (self._size > self._limit or len(self._texts) > TEXTS_KEPT) and len(self._texts) > 1:
            _, (_, oldest) = self._texts.popitem(last=False)
            self._size -= len(oldest.text)

    def get(self, key: UnitKey, generation: int) -> Rendered | None:
        """The text of this generation, if it is kept."""
        kept = self._texts.get(key)
        if kept is None or kept[0] != generation:
            return None
        self._texts.move_to_end(key)
        return kept[1]

    def drop(self, key: UnitKey) -> None:
        """Forget the unit's text."""
        kept = self._texts.pop(key, None)
        if kept is not None:
            self._size -= len(kept[1].text)


class SharedReads:
    """The reads of the last renders: units of one template are rendered one after the other."""

    def __init__(self) -> None:
        self._last: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}

    def shared(self, reads: Mapping[str, str]) -> Mapping[str, str]:
        """Equal to `reads`, and the same object as before if it can be."""
        key = frozenset(reads.items())
        known = self._last.get(key)
        if known is None:
            known = self._last[key] = {intern(path): intern(digest) for path, digest in reads.items()}
            if len(self._last) > READS_KEPT:
                del self._last[next(iter(self._last))]
        return known
