"""The content of a view as data: blocks that a live page draws and updates, and an export writes as static HTML.

Nothing here knows a browser. Text is text: whoever draws it escapes it. Options of plots are those of ECharts, in
JSON's types; a key that begins with a colon holds a JavaScript function of this package, never anything that came from
a workspace.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_web.places import TextPlace

Cell = str | int | float | None
Row = Mapping[str, Cell]

PLACE, UNIT, LINKS, ID = "_place", "_unit", "_links", "id"
"""Keys of a row beside its columns: where it stands in a text (`TextPlace.text`), the unit it is about, words that it
has in common with rows of the table beside it (with blanks between them, the most telling first), what it is known
by."""


class Function(str):
    """A JavaScript function that is a constant of this package. NiceGUI evaluates the value of every key of an option
    that begins with a colon, at any depth; nothing that comes from a workspace is of this type."""

    __slots__ = ()


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet computes a text that begins so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table. `heat`: 1 is the best, and larger numbers are coloured by how much worse they are; the row's
    `key + "_verdict"`, where it has one, stands beside the number: FAST, SLOW, SAME or UNSURE, and words such as
    `stale`, with commas between them. A text in place of a number says why there is none. `share`: a percentage that
    is coloured by how large it is. `time`: µs, shown as µs, ms or s; `rate`: TFLOP/s, shown as that or GFLOP/s. `code`
    keeps blanks."""

    key: str
    title: str
    kind: Literal["text", "number", "heat", "share", "time", "rate", "code"] = "text"
    width: int | None = None
    pinned: bool = False
    note: str = ""
    mark: str = ""
    """The key of the row that is true where the cell differs from its neighbour, and is marked."""

    @property
    def is_number(self) -> bool:
        """True for what is aligned at the right."""
        return self.kind not in ("text", "code")

    @property
    def title_with_unit(self) -> str:
        """The title where values stand as they are: `median, µs`."""
        return self.title + {"time": ", µs", "rate": ", TFLOP/s"}.get(self.kind, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows that can be sorted, filtered and selected; each has an `id` of its own. `beside`: the key of the table that
    stands beside it, in which those rows are marked that have one of the selected row's `LINKS`."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    empty: str = "nothing yet"
    height_px: int | None = None
    beside: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for a key of a row whose value NiceGUI would evaluate."""
        if any(key.startswith(":") for key in set().union(*self.rows)):
            raise ValueError("the keys of a row are constants, and none begins with a colon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture by ECharts. `summary` says in words what it shows. `live`: of the last minutes, which no file has.
    `links`: texts and addresses on other servers."""

    key: str
    title: str
    option: Mapping[str, Any]
    summary: str
    height_px: int = 340
    live: bool = False
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence or a few."""

    key: str
    text: str
    kind: Literal["text", "hint", "warning", "error"] = "text"
    place: TextPlace | None = None
    links: tuple[tuple[str, str], ...] = ()
    """Texts and addresses on this server; files have none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names and values."""

    key: str
    title: str
    facts: tuple[tuple[str, str], ...]
    place: TextPlace | None = None


HEADLINE_MARKS = {
    "broken": ("✗", "broken"),
    "slower": ("▼", "slower"),
    "faster": ("▲", "faster"),
    "best": ("★", "best"),
    "running": ("●", "runs"),
    "calm": ("✓", "all is well"),
    "unsure": ("?", "not decided"),
}
"""Kinds of headlines: the mark, which tells them apart without a colour, and a word for a screen reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A sentence that says one thing with its number, and the address of what says more: a view on this server, or
    `#KEY` for a block of this one."""

    kind: Literal["broken", "slower", "faster", "best", "running", "calm", "unsure"]
    text: str
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headlines:
    """Sentences, the most important first."""

    key: str
    title: str
    lines: tuple[Headline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of the view's address to choose: `key` is its name there, `options` are values and what they are
    called. With very many of them the value is typed, with completion. `changes`: it is for actions that change
    something, and is there only where they are."""

    key: str
    label: str
    options: Mapping[str, str]
    value: str
    changes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something to do, by its name among the view's actions. `changes`: it changes something or sets machines to work,
    and is there only where that is allowed."""

    key: str
    label: str
    changes: bool = True
    enabled: bool = True


Block = Table | Plot | Note | Facts | Headlines | Choice | Action


def changes(block: Block) -> bool:
    """Return True if a block appears only where something may be changed."""
    return isinstance(block, Action | Choice) and block.changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """All that a view shows, from top to bottom."""

    title: str
    blocks: tuple[Block, ...] = field(default=())

    @property
    def tables(self) -> Sequence[Table]:
        """Its tables."""
        return [block for block in self.blocks if isinstance(block, Table)]


NO_UNITS = Content(
    title="",
    blocks=(Note(key="empty", text="There are no units: `ckwatch init` writes a kernel to begin with.", kind="hint"),),
)


def spans(text: str) -> list[tuple[str, bool]]:
    """The parts of a sentence, and True for those that are code, between backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one that is not closed is a backtick
        return [(text, False)]
    return [(part, at % 2 == 1) for at, part in enumerate(parts) if part]


def without_marks(text: str) -> str:
    """A sentence where there is no code to be marked."""
    return "".join(part for part, _ in spans(text))


def csv_text(table: Table) -> str:
    """A table as CSV: all rows, with the place of each that has one. What a spreadsheet would compute is quoted."""
    keys = [column.key for column in table.columns]
    heats = [f"{column.key}_verdict" for column in table.columns if column.kind == "heat"]
    with_verdicts = [key for key in heats if any(row.get(key) for row in table.rows)]
    with_places = any(row.get(PLACE) for row in table.rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = [column.title_with_unit for column in table.columns]
    named = {f"{column.key}_verdict": f"{column.title} verdict" for column in table.columns}
    writer.writerow(_plain([*titles, *(named[key] for key in with_verdicts), *(["place"] if with_places else [])]))
    for row in table.rows:
        cells = [row.get(key) for key in (*keys, *with_verdicts)]
        writer.writerow(_plain([*cells, *([row.get(PLACE)] if with_places else [])]))
    return text.getvalue()


def _plain(cells: Iterable[Cell]) -> list[Cell]:
    return [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell for cell in cells]
