"""A page for a hover, in Markdown and, for editors that show none, as plain text with aligned columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


@dataclass(frozen=True, slots=True)
class Title:
    """What the page, or a part of it, is about; `note` stands behind it."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence or two."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under names of columns. Columns in which nothing stands are left out; the first is text, others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Title | Line | Table


def markdown(blocks: Sequence[Block]) -> str:
    """The page in Markdown."""
    return "\n\n".join(text for block in blocks if (text := _marked(block)))


def plain(blocks: Sequence[Block]) -> str:
    """The page as plain text."""
    return "\n\n".join(text for block in blocks if (text := _plain(block)))


def _marked(block: Block) -> str:
    match block:
        case Title():
            return f"**{_escaped(block.text)}**" + (f" {_escaped(block.note)}" if block.note else "")
        case Line():
            return "  \n".join(_escaped(line) for line in block.text.split("\n"))
        case Table():
            table = _used(block)
            if not table.rows or not table.columns:
                return ""
            head = [_row(table.columns), "|" + "|".join(["---", *["---:"] * (len(table.columns) - 1)]) + "|"]
            return "\n".join([*head, *(_row(row) for row in table.rows)])


def _plain(block: Block) -> str:
    match block:
        case Title():
            return " ".join(filter(None, (block.text, block.note)))
        case Line():
            return block.text
        case Table():
            table = _used(block)
            rows = [table.columns, *table.rows] if table.rows and table.columns else []
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            return "\n".join(_aligned(row, widths) for row in rows)


def _used(table: Table) -> Table:
    kept = [at for at in range(len(table.columns)) if any(row[at] for row in table.rows)]
    return Table(tuple(table.columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in table.rows))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]).rstrip()


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
