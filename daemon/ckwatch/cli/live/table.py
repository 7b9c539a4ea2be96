"""The units of a board as rows of text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from ckwatch.cli.amounts import count, duration, elapsed
from ckwatch.cli.live.board import AT_WORK, Board, state_of
from ckwatch.cli.live.errors import cut
from ckwatch.cli.live.told import figures_in_words, timing_in_words

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.values import Unit

MARKS = {
    "compiling": ("●", "cyan"),
    "rendering": ("◐", "cyan"),
    "looking": ("◐", "cyan"),
    "queued": ("○", "cyan"),
    "waiting": ("○", "cyan"),
    "failed": ("✗", "red"),
    "faulted": ("!", "magenta"),
    "built": ("✓", "green"),
    "checked": ("✓", "green"),
    "not built": ("·", "dim"),
}
"""The mark and the style of each state, in the order in which they are counted."""

WORD_COLUMNS, TIME_COLUMNS, REASON_COLUMNS, BOTH_COLUMNS = 40, 30, 70, 180
"""Terminals of fewer columns go without it; `BOTH_COLUMNS`: what a code object tells beside a timing."""


def table(board: Board, columns: int, rows: int, now: float) -> list[Text]:
    """As many units as fit, the rest counted in the last line."""
    shown = board.first(rows if len(board.units) <= rows else max(rows - 1, 0))
    cells = [_cells(board, unit, now, both=columns >= BOTH_COLUMNS) for unit in shown]
    names = _names(shown, columns)
    word = max((len(row[0]) for row in cells), default=0) if columns >= WORD_COLUMNS else 0
    spent = max((len(row[1]) for row in cells), default=0) if columns >= TIME_COLUMNS else 0
    free = columns - 2 - (word + 2 if word else 0) - (spent + 2 if spent else 0)
    longest = max((cell_len(name) for name in names), default=0)
    width = min(longest, free if columns < REASON_COLUMNS else max(free - 20, free * 2 // 3))
    lines = []
    for name, (state, took, why) in zip(names, cells, strict=True):
        mark, style = MARKS[state]
        line = Text.assemble((f"{mark} ", style))
        if word:
            line.append(f"{state:<{word}}  ", style=style)
        line.append(_end_of(name, width))
        line.append(" " * (width - min(cell_len(name), width)))
        if spent:
            line.append(f"  {took:>{spent}}")
        if columns >= REASON_COLUMNS:
            line.append("  ")
            line.append_text(why)
        if state == "not built":
            line.stylize("dim")
        line.rstrip()
        lines.append(cut(line, columns))
    left = len(board.units) - len(shown)
    if left and rows > 0:
        others = board.counts - Counter(state_of(unit) for unit in shown)
        lines.append(cut(Text(f"… {left} more: {in_words(others)}", style="dim"), columns))
    return lines


def _cells(board: Board, unit: Unit, now: float, *, both: bool) -> tuple[str, str, Text]:
    """State, time, and what there is to say."""
    state = state_of(unit)
    if state in AT_WORK:
        return state, elapsed(max(now - board.since(unit), 0.0)), Text(reason(unit), style="dim")
    why = Text()
    if unit.errors:
        why.append(count(unit.errors, "error"), style="red")
    elif unit.warnings:
        why.append(count(unit.warnings, "warning"), style="yellow")
    if state == "not built":
        return state, "", why
    words = timing_in_words(unit)
    if words:
        why.append((", " if why else "") + words)
    if (both or not words) and (words := figures_in_words(unit.figures)):
        why.append((", " if why else "") + words)
    told = [clock(unit.cause[0].at) if unit.cause else "", "from the store" if unit.from_store else "", reason(unit)]
    why.append((", " if why else "") + ", ".join(part for part in told if part), style="dim")
    took = duration(unit.seconds) if unit.seconds else ""
    return state, took, why


def _names(units: Sequence[Unit], columns: int) -> list[str]:
    """Ids; on a small terminal without the arch where there is only one."""
    if columns < REASON_COLUMNS and len({unit.arch for unit in units}) == 1:
        return [unit.id.rpartition("@")[0] for unit in units]
    return [unit.id for unit in units]


def _end_of(name: str, width: int) -> str:
    """The end of a name that is too long: instances of a kernel differ there."""
    if cell_len(name) <= width:
        return name
    while name and cell_len(name) > width - 1:
        name = name[1:]
    return f"…{name}" if width > 0 else ""


def in_words(states: Counter[str]) -> str:
    """`2 compiling, 5 built`."""
    return ", ".join(f"{states[state]} {state}" for state in MARKS if states[state])


def reason(unit: Unit) -> str:
    """What set off the unit's present state; the oldest link of its story."""
    return unit.cause[-1].what if unit.cause else ""


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
