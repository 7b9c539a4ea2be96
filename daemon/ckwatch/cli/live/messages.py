"""The diagnostics below the units: each once, with its source line, as many as fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ckwatch.checks.places import ReadLine
from ckwatch.cli.diagnostic_text import count_summary, format_diagnostic
from ckwatch.cli.output import diagnostic_of

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.state import Diagnostic

ORDER = {"error": 0, "warning": 1}
"""What is shown; notes and hints are for editors."""

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
            shown = diagnostic_of(found)
            shown = replace(shown, related=shown.related[:NOTES_SHOWN])
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
