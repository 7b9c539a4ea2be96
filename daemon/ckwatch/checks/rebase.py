"""Moves the places of a stored log to a text with the same tokens in other places.

Results are stored by tokens, so an edit of a comment or of white space finds an older log. Its places are carried over
token by token: the n-th token of the old text is the n-th of the new one, and a place inside a token, or behind one,
keeps its distance from the token's start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, ClangRange, Inclusion, byte_column, position_in
from ckwatch.model.text import Position
from ckwatch.render.tokens import TokenIndex


def rebase(messages: Sequence[ClangMessage], *, path: str, old: str, new: str) -> list[ClangMessage]:
    """`messages` with every place in the file `path`, whose text was `old`, moved to where it is in `new`.

    Places in other files stay.
    """
    if old == new:
        return list(messages)
    mover = _Rebaser(path, old, new)
    return [mover.message(message) for message in messages]


def position_rebaser(path: str, *, old: str, new: str) -> Callable[[ClangPosition], ClangPosition]:
    """Moves places in the file `path` as `rebase` does. A place without a column (0) moves with the first token of its
    line and gets none."""
    return _Rebaser(path, old, new).place


class _Rebaser:
    def __init__(self, path: str, old: str, new: str) -> None:
        self.path = path
        self.old_tokens = TokenIndex(old)
        self.new_tokens = TokenIndex(new)
        self.old_lines = old.split("\n")
        self.new_lines = new.split("\n")

    def message(self, message: ClangMessage) -> ClangMessage:
        here = message.path == self.path
        return replace(
            message,
            position=self.place(message.position) if here and message.position is not None else message.position,
            ranges=tuple(self.range(entry) for entry in message.ranges) if here else message.ranges,
            notes=tuple(self.message(note) for note in message.notes),
            include_chain=tuple(self.inclusion(step) for step in message.include_chain),
            fixits=tuple(
                replace(fixit, range=self.range(fixit.range)) if fixit.path == self.path else fixit
                for fixit in message.fixits
            ),
        )

    def inclusion(self, step: Inclusion) -> Inclusion:
        return replace(step, line=self.line(step.line)) if step.path == self.path else step

    def line(self, number: int) -> int:
        line = _line(self.old_lines, number)
        return self.place(ClangPosition(number, len(line) - len(line.lstrip()) + 1)).line

    def range(self, found: ClangRange) -> ClangRange:
        """The moved range; its end moves with the last character inside it, so that a gap does not widen it."""
        start = self.place(found.start)
        if found.end <= found.start:
            return ClangRange(start, start)
        before = position_in(_line(self.old_lines, found.end.line), found.end)
        last = Position(before.line, before.column - 1) if before.column else before
        moved = self.moved(last)
        end = Position(moved.line, moved.column + (1 if before.column else 0))
        return ClangRange(start, max(self.clang(end), start))

    def place(self, place: ClangPosition) -> ClangPosition:
        if not place.column:
            return ClangPosition(self.line(place.line), 0)
        return self.clang(self.moved(position_in(_line(self.old_lines, place.line), place)))

    def moved(self, position: Position) -> Position:
        return self.new_tokens.position(self.old_tokens.anchor(position))

    def clang(self, position: Position) -> ClangPosition:
        line = _line(self.new_lines, position.line + 1)
        return ClangPosition(position.line + 1, byte_column(line, position.column))


def _line(lines: Sequence[str], number: int) -> str:
    """The line with the one-based `number`, "" outside the text."""
    return lines[number - 1] if 0 < number <= len(lines) else ""
