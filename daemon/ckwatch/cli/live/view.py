"""How a board looks on a terminal: a function from what is known, the size and the time to lines of text.

From the top: what this is and how many units are in which state, how far the work is, what limits the daemon; units,
those at work first, then failed ones, then the most recent; and the messages. Where rows are few, units and messages
share them, and what is left out is counted. Where columns are few, reasons go first, then words, then times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from ckwatch.cli.amounts import count, duration, elapsed
from ckwatch.cli.live import table
from ckwatch.cli.live.board import Board
from ckwatch.cli.live.errors import Pages, cut, fitted, in_order, tally, wrapped
from ckwatch.cli.live.table import MARKS, clock, in_words

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.values import Diagnostic

UNIT_SHARE = 0.4
"""Part of the rows that units keep when messages want more."""

AIRY_ROWS, FULL_ROWS = 16, 8
"""Terminals of fewer rows have no blank lines and no footer; of fewer still, no progress and no warnings."""


@dataclass(frozen=True, slots=True)
class Look:
    """What to show: `columns` × `rows` cells, messages from the `first` on. `note` stands in place of the progress.

    `live`: whether what is shown is what is. `keys`: whether they are read.
    """

    columns: int
    rows: int
    first: int = 0
    note: str = ""
    live: bool = True
    keys: bool = True


def view(board: Board, pages: Pages, look: Look, now: float) -> list[Text]:
    """At most `look.rows` lines of at most `look.columns` cells."""
    messages = in_order(board.diagnostics())
    top = [_title(board, look.columns), _progress(board, look, now), *_warnings(board, look)]
    airy = look.rows >= AIRY_ROWS
    if look.rows < FULL_ROWS:
        top = top[:1]
    footer = [_footer(look, messages)] if airy else []
    gap = [Text()] if airy else []
    left = look.rows - len(top) - len(footer) - len(gap)
    if not messages:
        body = table.table(board, look.columns, left, now)
    else:
        first = min(look.first, len(messages) - 1)
        below = fitted(messages[first:], pages, look.columns, max(left - 1, 0))
        room = max(left - 1 - len(below) - len(gap), int(left * UNIT_SHARE))
        above = table.table(board, look.columns, room, now)
        above += gap if above else []
        left -= len(above)
        below = fitted(messages[first:], pages, look.columns, left - 1)
        body = [*above, _heading(messages, first, look.columns), *below]
    lines = [*top, *gap, *body]
    if footer:
        lines = lines[: look.rows - 1]
        lines += [Text()] * (look.rows - 1 - len(lines)) + footer
    lines = lines[: look.rows]
    if not look.live:
        for line in lines[1:]:
            line.stylize("dim")
    return lines


def one_line(board: Board) -> str:
    """`6 units: 5 built, 1 failed; 2 errors`."""
    told = in_words(board.counts)
    messages = tally(in_order(board.diagnostics()))
    return f"{count(len(board.units), 'unit')}{f': {told}' if told else ''}{f'; {messages}' if messages else ''}"


def _title(board: Board, columns: int) -> Text:
    states = board.counts
    present = [state for state in MARKS if states[state]]
    root = board.workspace.root if board.workspace is not None else ""
    name = root.rpartition("/")[2] or root
    # the fullest one that fits
    for with_name, with_words in ((True, True), (False, True), (True, False), (False, False)):
        title = Text("ckwatch", style="bold")
        if name and with_name:
            title.append(f"  {name}", style="bold cyan")
        if board.units:
            title.append(f"  {count(len(board.units), 'unit')}")
        for state in present:
            mark, style = MARKS[state]
            title.append("  ")
            title.append(f"{states[state]} {state}" if with_words else f"{mark}{states[state]}", style=style)
        if title.cell_len <= columns:
            break
    return cut(title, columns)


def _progress(board: Board, look: Look, now: float) -> Text:
    if look.note:
        return cut(Text(look.note, style="yellow"), look.columns)
    if board.workspace is None:
        return cut(Text("waiting for the daemon", style="dim"), look.columns)
    done = board.round
    if done is None:
        empty = "no units" if board.workspace.loaded and not board.units else "" if board.units else "loading"
        return cut(Text(empty or "nothing to do", style="dim"), look.columns)
    if done.ended_at is not None:
        took = duration(max(done.ended_at - done.began_at, 0.0))
        return cut(Text(f"{count(done.units, 'unit')} in {took}, at {clock(done.ended_at)}", style="dim"), look.columns)
    told = f" {done.settled}/{done.units}  {elapsed(max(now - done.began_at, 0.0))}"
    width = min(look.columns - len(told), 40)
    if width < 5:
        return cut(Text(told.strip()), look.columns)
    full = round(width * done.settled / done.units)
    return Text.assemble(("━" * full, "cyan"), ("─" * (width - full), "bright_black"), told)


def _warnings(board: Board, look: Look) -> list[Text]:
    if board.workspace is None:
        return []
    told = [Text(board.workspace.problem, style="bold red")] if board.workspace.problem else []
    told += [Text(f"{topic}: {text}", style="yellow") for topic, text in board.workspace.warnings.items()]
    lines = [row for text in told for line in text.split("\n") for row in wrapped(line, look.columns, 2)]
    return lines[: max(look.rows // 4, 1)]


def _heading(messages: Sequence[Diagnostic], first: int, columns: int) -> Text:
    style = "bold red" if messages[0].severity == "error" else "bold yellow"
    heading = Text(tally(messages), style=style)
    if stale := sum(one.stale for one in messages):
        heading.append(f", {'all' if stale == len(messages) else stale} of before the change", style="dim")
    if first:
        heading.append(f", from number {first + 1} on", style="dim")
    return cut(heading, columns)


def _footer(look: Look, messages: Sequence[Diagnostic]) -> Text:
    if not look.keys:
        return cut(Text("Ctrl-C quits", style="dim"), look.columns)
    return cut(Text(f"q quits{'   ↑ ↓ messages' if len(messages) > 1 else ''}", style="dim"), look.columns)
