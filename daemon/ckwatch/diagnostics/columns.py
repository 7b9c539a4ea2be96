"""Clang's columns (from one, UTF-8 bytes) ↔ the project's (from zero, code points). A tab is one column in both."""

from __future__ import annotations

from ckwatch.diagnostics.clang_text import ClangPosition
from ckwatch.model.text import Position


def code_point_column(line: str, byte_column: int) -> int:
    """The zero-based code-point column of the one-based byte column in `line`, clamped to the line.

    A byte column inside a character is that character's column.
    """
    bytes_before = max(byte_column - 1, 0)
    if line.isascii():
        return min(bytes_before, len(line))
    return len(line.encode(errors="surrogatepass")[:bytes_before].decode(errors="ignore"))


def byte_column(line: str, column: int) -> int:
    """The one-based UTF-8 byte column of the zero-based code-point column."""
    return len(line[:column].encode(errors="surrogatepass")) + 1


def position_in(line: str | None, place: ClangPosition) -> Position:
    """`place` in the project's counting; `line` is the text of its line, None when it cannot be read."""
    column = max(place.column - 1, 0) if line is None else code_point_column(line, place.column)
    return Position(max(place.line - 1, 0), column)
