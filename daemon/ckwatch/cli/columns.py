"""Rows of words in columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

GAP = "  "


def aligned(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """A line for each row, its cells as wide as the widest of their column; those of the columns `right` at the right.

    Rows may have different numbers of cells; columns without a word are left out, and no line ends in blanks.
    """
    count = max((len(row) for row in rows), default=0)
    widths = [max((cell_len(row[at]) for row in rows if at < len(row)), default=0) for at in range(count)]

    def padded(at: int, cell: str) -> str:
        blanks = " " * (widths[at] - cell_len(cell))
        return blanks + cell if at in right else cell + blanks

    return [GAP.join(padded(at, cell) for at, cell in enumerate(row) if widths[at]).rstrip() for row in rows]
