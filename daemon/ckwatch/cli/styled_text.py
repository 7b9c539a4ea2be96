"""Text with styles, which needs rich only where the styles show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text


class StyledText:
    """Pieces of text, each with its style in rich's words (`bold red`), or without one."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: tuple[str, str]) -> None:
        self.pieces = pieces

    @classmethod
    def lines(cls, lines: Iterable[StyledText]) -> StyledText:
        """One text of several lines."""
        pieces = [piece for line in lines for piece in (*line.pieces, ("\n", ""))]
        return cls(*pieces[:-1])

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def for_console(self) -> Text:
        """The same for rich."""
        from rich.text import Text

        return Text.assemble(*self.pieces)


def cell_width(text: str) -> int:
    """How many cells of a terminal the text takes."""
    if text.isascii():  # without control characters
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
