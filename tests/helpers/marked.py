"""Texts with a cursor in them."""

from __future__ import annotations

from ckwatch.model.text import Position

CURSOR = "‸"


def marked(text: str) -> tuple[str, Position]:
    """The text without its mark, and where that was."""
    before, mark, after = text.partition(CURSOR)
    assert mark, "the text has no cursor"
    assert CURSOR not in after, "the text has two cursors"
    return before + after, Position(before.count("\n"), len(before) - before.rfind("\n") - 1)
