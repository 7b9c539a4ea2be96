"""Moves places with edits, and keeps the edits of open documents that the daemon may not have seen yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from ckwatch.model.text import Position, Range
from ckwatch_lsp.session.documents import TextChange, difference


def shifted(given: Range, edits: Iterable[TextChange]) -> Range | None:
    """`given` after these edits, each in terms of the text before it; None if it was deleted."""
    found: Range | None = given
    for edit in edits:
        if found is None:
            break
        found = _after(found, edit)
    return found


def _after(given: Range, edit: TextChange) -> Range | None:
    before = edit.before
    if given.end <= before.start:
        return given
    if before.end <= given.start:
        return Range(_moved(given.start, edit), _moved(given.end, edit))
    deleted = edit.end == before.start
    if before.start <= given.start and given.end <= before.end and deleted:
        return None
    if given.start <= before.start and before.end <= given.end:
        return Range(given.start, _moved(given.end, edit))
    if before.start <= given.start and given.end <= before.end:
        return Range(min(given.start, edit.end), min(given.end, edit.end))
    if given.start < before.start:
        return Range(given.start, before.start)
    return Range(edit.end, _moved(given.end, edit))


def _moved(position: Position, edit: TextChange) -> Position:
    """A position at or behind the replaced text."""
    old, new = edit.before.end, edit.end
    if position.line == old.line:
        return Position(new.line, new.column + position.column - old.column)
    return Position(position.line + new.line - old.line, position.column)


KEPT = 2000
"""Edits that are kept; the daemon is never so far behind."""

COMPARED = 500_000
"""Characters of a text of which it is found out what of it differs from what is saved."""


class EditHistory:
    """Edits by the revision that each led to. `saved` is the text that the file has, as far as is known."""

    def __init__(self, saved: str) -> None:
        self.saved = saved
        self._edits: deque[tuple[int, TextChange]] = deque(maxlen=KEPT)

    def note(self, revision: int, edits: Sequence[TextChange]) -> None:
        """The document has `revision` by these edits."""
        self._edits.extend((revision, edit) for edit in edits)

    def since(self, revision: int) -> list[TextChange]:
        """The edits after `revision`, in order."""
        return [edit for at, edit in self._edits if at > revision]

    def since_saved(self, text: str) -> list[TextChange]:
        """Return the edits that make the saved text `text`: one that covers all differences, or none."""
        if text == self.saved or max(len(text), len(self.saved)) > COMPARED:
            return []
        return [difference(self.saved, text)]
