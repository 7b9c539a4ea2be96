"""Where a place is after an edit.

What an edit does not touch keeps its text. An edit inside a range stretches or shrinks it, one over its end leaves what
is left of it. Within a replaced piece of text a range stays where it is, as far as the new text goes: many an editor
replaces a line where a character was typed. What was deleted has no place any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from ckwatch_lsp.documents import Edit
from ckwatch_lsp.text import Position, Range


def shifted(given: Range, edits: Iterable[Edit]) -> Range | None:
    """`given` after these edits, each in terms of the text before it; None if it was deleted."""
    found: Range | None = given
    for edit in edits:
        if found is None:
            break
        found = _after(found, edit)
    return found


def touches(given: Range, edit: Edit) -> bool:
    """Whether the edit changes anything within `given`, or right at its ends."""
    return edit.before.start <= given.end and given.start <= edit.before.end


def _after(given: Range, edit: Edit) -> Range | None:
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


def _moved(position: Position, edit: Edit) -> Position:
    """A position at or behind the replaced text."""
    old, new = edit.before.end, edit.end
    if position.line == old.line:
        return Position(new.line, new.column + position.column - old.column)
    return Position(position.line + new.line - old.line, position.column)
