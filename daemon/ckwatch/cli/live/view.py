"""How a board looks on a terminal: a function from state, size and time to lines of text.

From the top: the workspace and the number of units in each state, the progress, what limits the daemon; units, failed
ones first, then those in progress, then the most recent; and the messages. Where rows are few, units and messages share
them, and what is left out is counted where it would stand. Where columns are few, reasons go first, then words, then
times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ckwatch.checks.places import ReadLine
from ckwatch.cli.diagnostic_text import count_summary, format_diagnostic
from ckwatch.cli.live.board import Board, is_broken
from ckwatch.model.amounts import clock, count, duration, elapsed
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.figures_text import (
    AT_WORK,
    figures_words,
    state_of,
    timing_words,
    toolchain_words,
    verification_words,
)

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.state import Unit

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

WAIT_SHOWN_S = 5.0
"""A unit that is at it for so long says what it waits for."""

WORD_COLUMNS, TIME_COLUMNS, REASON_COLUMNS, BOTH_COLUMNS = 40, 30, 70, 180
"""Terminals of fewer columns go without it; `BOTH_COLUMNS`: the figures of a code object beside a timing."""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The visible part: `columns` × `rows` cells, messages from the `first` on. `note` stands in place of the progress.

    `live`: whether what is shown is what is. `keys`: whether they are read. `details`: say of units when and why.
    `failed_only`: no other units. `filter`: a part of the names of the units that are shown; `typing`: it is being
    typed.
    """

    columns: int
    rows: int
    first: int = 0
    note: str = ""
    live: bool = True
    keys: bool = True
    details: bool = False
    failed_only: bool = False
    filter: str = ""
    typing: bool = False

    def shows(self, unit: Unit) -> bool:
        """Return True if the unit's name has the filter's text in any case, and it failed if only those count."""
        return self.filter.lower() in unit.id.lower() and (is_broken(unit) or not self.failed_only)


def table(board: Board, look: ViewOptions, rows: int, now: float) -> list[Text]:
    """As many units as fit. Failed ones come first, and keep half of the rows where there are many; of each kind the
    rest is counted in its last line."""
    failed = board.first(rows, lambda unit: is_broken(unit) and look.shows(unit))
    others = board.first(rows, lambda unit: not is_broken(unit) and look.shows(unit))
    all_failed, all_others = (
        Counter(state_of(unit) for unit in board.units.values() if is_broken(unit) is broken and look.shows(unit))
        for broken in (True, False)
    )
    left = max(rows - min(all_others.total(), rows // 2), 0)
    failed = failed[: _fitting(all_failed.total(), left)]
    left = rows - min(all_failed.total(), left)
    others = others[: _fitting(all_others.total(), left)]
    lines = _rows(board, [*failed, *others], look, now)
    if more := all_failed.total() - len(failed):
        lines.insert(len(failed), cut(Text(f"✗ {more} more failed", style="red"), look.columns))
    if more := all_others.total() - len(others):
        states = in_words(all_others - Counter(map(state_of, others)))
        lines.append(cut(Text(f"… {more} more: {states}", style="dim"), look.columns))
    return lines[: max(rows, 0)]


def _fitting(units: int, rows: int) -> int:
    """How many of them have a line of their own: all, or all but the last line, which counts the rest."""
    return units if units <= rows else max(rows - 1, 0)


def _rows(board: Board, shown: Sequence[Unit], look: ViewOptions, now: float) -> list[Text]:
    """A line for each of these units."""
    columns = look.columns
    both = columns >= BOTH_COLUMNS
    cells = [_cells(board, unit, now, both=both, details=look.details) for unit in shown]
    names = _names(shown, columns)
    word = max((len(row[0]) for row in cells), default=0) if columns >= WORD_COLUMNS else 0
    spent = max((len(row[1]) for row in cells), default=0) if columns >= TIME_COLUMNS else 0
    free = columns - 2 - (word + 2 if word else 0) - (spent + 2 if spent else 0)
    longest = max((cell_len(name) for name in names), default=0)
    width = min(longest, free if columns < REASON_COLUMNS else max(free - 20, free * 2 // 3))
    lines = []
    for unit, name, (state, took, why) in zip(shown, names, cells, strict=True):
        mark, style = MARKS["failed"] if is_broken(unit) and state != "faulted" else MARKS[state]
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
    return lines


def _cells(board: Board, unit: Unit, now: float, *, both: bool, details: bool) -> tuple[str, str, Text]:
    """State, time, and what there is to say; with `details` also when and why."""
    state = state_of(unit)
    if state in AT_WORK:
        passed_s = max(now - board.since(unit), 0.0)
        waits_for = board.waits_for(unit) if passed_s >= WAIT_SHOWN_S else ""
        if unit.slow or waits_for:
            why = Text(unit.slow or f"waits for {waits_for}", style="yellow")
        else:
            why = Text(reason(unit), style="dim")
        return state, elapsed(passed_s), why
    why = Text()
    if unit.errors:
        why.append(count(unit.errors, "error"), style="red")
    elif unit.warnings:
        why.append(count(unit.warnings, "warning"), style="yellow")
    if state == "not built":
        return state, "", why
    if others := toolchain_words((one.name, one.outcome, one.working) for one in unit.toolchains):
        why.append((", " if why else "") + others)
    if verified := verification_words(unit):
        why.append((", " if why else "") + verified)
    words = timing_words(unit)
    if words:
        why.append((", " if why else "") + words)
    if (both or not words) and (words := figures_words(unit.figures)):
        why.append((", " if why else "") + words)
    if details or not why:
        when = clock(unit.cause[0].at) if unit.cause else ""
        parts = [when, "from the store" if unit.from_store else "", reason(unit)] if details else [reason(unit)]
        why.append((", " if why else "") + ", ".join(part for part in parts if part), style="dim")
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
    """Return the cause of the unit's present state; the oldest link of its story."""
    return unit.cause[-1].what if unit.cause else ""


# The messages below the units: each once, with its source line, as many as fit.

ORDER = {"error": 0, "warning": 1}
"""The severities that are shown; notes and hints are for editors."""

NOTES_SHOWN = 3
HEADLINE_ROWS = 4
"""Rows that the first line of a message may fill at most."""

_CARETS = re.compile(r" +\| +\^+")
_SNIPPET = re.compile(r" *\d* \| ")

Key = tuple[str, str, str, object]
Block = list[Text]


class RenderedMessages:
    """Messages as printed. What a stale one says of its source line is what was there when it was fresh."""

    def __init__(self, read_line: ReadLine, root: str | None) -> None:
        self._read_line = read_line
        self._root = root
        self._printed: dict[Key, list[Text]] = {}

    def lines(self, found: Diagnostic) -> list[Text]:
        """The message's lines, of any width."""
        key = key_of(found)
        kept = self._printed.get(key)
        if kept is None:
            shown = replace(found, related=found.related[:NOTES_SHOWN])
            kept = self._printed[key] = list(format_diagnostic(shown, self._read_line, self._root).split("\n"))
        return kept

    def renew(self, diagnostics: Iterable[Diagnostic]) -> None:
        """These are the messages now: fresh ones are printed again, what is gone is forgotten."""
        stale = {key_of(found) for found in diagnostics if found.stale}
        self._printed = {key: kept for key, kept in self._printed.items() if key in stale}


def key_of(found: Diagnostic) -> Key:
    """Messages with the same key are the same message."""
    return (found.severity, found.code, found.message, found.span)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Errors before warnings, fresh ones before stale ones, each message once."""
    found = {key_of(one): one for one in diagnostics if one.severity in ORDER}
    return sorted(found.values(), key=lambda one: (ORDER[one.severity], one.stale))


def tally(diagnostics: Sequence[Diagnostic]) -> str:
    """`2 errors, 1 warning`."""
    return count_summary(one.severity for one in diagnostics)


def fitted(diagnostics: Sequence[Diagnostic], pages: RenderedMessages, width: int, rows: int) -> list[Text]:
    """At most `rows` lines of at most `width` cells: whole messages if all fit, else without their notes.

    What does not fit is counted in the last line.
    """
    whole: list[Block] = []
    left = rows
    for found in diagnostics:
        block = _block(found, pages.lines(found), width)
        left -= len(block) + bool(whole)
        if left < 0:
            break
        whole.append(block)
    else:
        return _joined(whole, spaced=True)
    return _brief(diagnostics, pages, width, rows)


def _brief(diagnostics: Sequence[Diagnostic], pages: RenderedMessages, width: int, rows: int) -> list[Text]:
    blocks: list[Block] = []
    used = 0
    for index, found in enumerate(diagnostics):
        lines = pages.lines(found)
        snippet = [line for line in lines[1:3] if _SNIPPET.match(line.plain)]
        block = _block(found, [lines[0], *snippet], width)
        spare = 1 if index + 1 < len(diagnostics) else 0
        if used + len(block) + spare > rows:
            break
        blocks.append(block)
        used += len(block)
    if not blocks and diagnostics and rows > 0:
        blocks.append(
            _block(diagnostics[0], pages.lines(diagnostics[0]), width)[: max(rows - (len(diagnostics) > 1), 1)]
        )
        used = len(blocks[0])
    lines = _joined(blocks, spaced=used + len(blocks) < rows)
    if len(blocks) < len(diagnostics) and len(lines) < rows:
        more = Text(f"… {tally(diagnostics[len(blocks) :])} more", style="dim")
        more.truncate(width, overflow="ellipsis")
        lines.append(more)
    return lines


def _block(found: Diagnostic, lines: Sequence[Text], width: int) -> Block:
    """The first line wrapped, the others cut."""
    block = wrapped(lines[0], width, HEADLINE_ROWS)
    for index, line in enumerate(lines[1:], 1):
        carets = next((one.plain for one in lines[index : index + 2] if _CARETS.fullmatch(one.plain)), None)
        block.append(_around(line, carets, width) if carets else cut(line, width))
    if found.stale:
        for line in block:
            line.stylize("dim")
    return block


def _joined(blocks: Sequence[Block], *, spaced: bool) -> list[Text]:
    lines: list[Text] = []
    for block in blocks:
        if lines and spaced:
            lines.append(Text())
        lines += block
    return lines


def cut(line: Text, width: int) -> Text:
    """A copy of at most `width` cells."""
    copy = line.copy()
    copy.truncate(width, overflow="ellipsis")
    return copy


def _around(line: Text, carets: str, width: int) -> Text:
    """At most `width` cells of a source line, or of the carets below it, so that the first carets are among them."""
    margin = carets.index("|") + 2
    room = width - margin
    first, end = carets.index("^") - margin, len(carets) - margin
    hidden = min(first - room // 4, end - room + 1)
    if hidden > 0 and room > 4:
        source = line.plain[margin:]
        start, cells = 0, 0
        while start < len(source) and cells < hidden + 1:
            cells += cell_len(source[start])
            start += 1
        dots = " " if line.plain == carets else "…"
        line = Text.assemble(line[:margin], (dots, "dim"), " " * (cells - hidden - 1), line[margin + start :])
    return cut(line, width)


def wrapped(line: Text, width: int, rows: int) -> list[Text]:
    """The line in rows of at most `width` cells, broken between words where that can be; what is too much is cut."""
    lines = list(line.wrap(_console(), width, overflow="fold"))
    if len(lines) > rows:
        last = Text(" ").join(lines[rows - 1 :])
        lines = [*lines[: rows - 1], cut(last, width)]
    return lines


@cache
def _console() -> Console:
    """rich asks it for the width of tabs."""
    return Console()


# All of it.

UNIT_SHARE = 0.4
"""Part of the rows that units keep when messages want more."""

AIRY_ROWS, FULL_ROWS = 16, 8
"""Terminals of fewer rows have no blank lines and no footer; of fewer still, no progress and no warnings."""


def view(board: Board, pages: RenderedMessages, look: ViewOptions, now: float) -> list[Text]:
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
        body = table(board, look, left, now)
    else:
        first = min(look.first, len(messages) - 1)
        below = fitted(messages[first:], pages, look.columns, max(left - 1, 0))
        room = max(left - 1 - len(below) - len(gap), int(left * UNIT_SHARE))
        above = table(board, look, room, now)
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
    states = in_words(board.counts)
    messages = tally(in_order(board.diagnostics()))
    return f"{count(len(board.units), 'unit')}{f': {states}' if states else ''}{f'; {messages}' if messages else ''}"


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


def _progress(board: Board, look: ViewOptions, now: float) -> Text:
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
    amount = f" {done.settled}/{done.units}  {elapsed(max(now - done.began_at, 0.0))}"
    width = min(look.columns - len(amount), 40)
    if width < 5:
        return cut(Text(amount.strip()), look.columns)
    full = round(width * done.settled / done.units)
    return Text.assemble(("━" * full, "cyan"), ("─" * (width - full), "bright_black"), amount)


def _warnings(board: Board, look: ViewOptions) -> list[Text]:
    if board.workspace is None:
        return []
    warnings = [Text(board.workspace.problem, style="bold red")] if board.workspace.problem else []
    warnings += [Text(f"{topic}: {text}", style="yellow") for topic, text in board.workspace.warnings.items()]
    lines = [row for text in warnings for line in text.split("\n") for row in wrapped(line, look.columns, 2)]
    return lines[: max(look.rows // 4, 1)]


def _heading(messages: Sequence[Diagnostic], first: int, columns: int) -> Text:
    style = "bold red" if messages[0].severity == "error" else "bold yellow"
    heading = Text(tally(messages), style=style)
    if stale := sum(one.stale for one in messages):
        heading.append(f", {'all' if stale == len(messages) else stale} from before the change", style="dim")
    if first:
        heading.append(f", from number {first + 1} on", style="dim")
    return cut(heading, columns)


def _footer(look: ViewOptions, messages: Sequence[Diagnostic]) -> Text:
    if not look.keys:
        return cut(Text("Ctrl-C quits", style="dim"), look.columns)
    if look.typing:
        return cut(Text(f"units with: {look.filter}▏  Enter keeps, Esc clears", style="bold"), look.columns)
    keys = ["q quits", "r rebuilds", "f all" if look.failed_only else "f failed only"]
    keys += ["d short" if look.details else "d details", f"/{look.filter}" if look.filter else "/ filter"]
    keys += ["↑ ↓ messages"] if len(messages) > 1 else []
    return cut(Text("   ".join(keys), style="dim"), look.columns)
