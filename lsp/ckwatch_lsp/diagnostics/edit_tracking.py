"""Moves places with edits."""

from __future__ import annotations

from collections.abc import Iterable

from ckwatch.model.text import Position, Range
from ckwatch_lsp.session.documents import TextChange


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
