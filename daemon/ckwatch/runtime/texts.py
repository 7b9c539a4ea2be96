"""Rendered texts that will be needed again soon. Five thousand of them would not fit; they can be rendered again."""

from __future__ import annotations

from collections import OrderedDict

from ckwatch.events import UnitKey
from ckwatch.render.outcome import Rendered

KEPT_CHARACTERS = 2_000_000
"""Their maps take three times as much."""

KEPT = 500


class Texts:
    """The most recently used texts, by unit and tokens."""

    def __init__(self, limit: int = KEPT_CHARACTERS) -> None:
        self._limit = limit
        self._size = 0
        self._texts: OrderedDict[UnitKey, tuple[int, Rendered]] = OrderedDict()

    def put(self, key: UnitKey, generation: int, rendered: Rendered) -> None:
        """Keep the text of this generation, and drop what was not used for longest."""
        self.drop(key)
        self._texts[key] = (generation, rendered)
        self._size += len(rendered.text)
        while (self._size > self._limit or len(self._texts) > KEPT) and len(self._texts) > 1:
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
