"""The edits of an open document that the daemon may not have seen yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ckwatch_lsp.documents import Edit
from ckwatch_lsp.text import Position, Range

KEPT = 2000
"""Edits that are kept; the daemon is never so far behind."""

COMPARED = 500_000
"""Characters of a text of which it is found out what of it differs from what is saved."""


class Journal:
    """Edits by the revision that each led to. `saved` is the text that the file has, as far as is known."""

    def __init__(self, saved: str) -> None:
        self.saved = saved
        self._edits: deque[tuple[int, Edit]] = deque(maxlen=KEPT)

    def note(self, revision: int, edits: Sequence[Edit]) -> None:
        """The document has `revision` by these edits."""
        self._edits.extend((revision, edit) for edit in edits)

    def since(self, revision: int) -> list[Edit]:
        """The edits after `revision`, in order."""
        return [edit for at, edit in self._edits if at > revision]

    def since_saved(self, text: str) -> list[Edit]:
        """What makes the saved text `text`: one edit that covers all differences, or none."""
        if text == self.saved or max(len(text), len(self.saved)) > COMPARED:
            return []
        return [difference(self.saved, text)]


def difference(old: str, new: str) -> Edit:
    """The smallest single edit from one text to another."""
    limit = min(len(old), len(new))
    first = _common(limit, lambda count: old[:count] == new[:count])
    limit -= first
    last = _common(limit, lambda count: old[len(old) - count :] == new[len(new) - count :])
    start = _position(old, first)
    return Edit(Range(start, _position(old, len(old) - last)), _position(new, len(new) - last))


def _common(limit: int, same: Callable[[int], bool]) -> int:
    """The largest count up to `limit` for which `same` holds, which also holds for every smaller one."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(middle) else (low, middle - 1)
    return low


def _position(text: str, offset: int) -> Position:
    return Position(text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1)
