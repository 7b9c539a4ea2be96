"""Lays a listing out as text with folds, and says what editors show of each line.

Instructions stay in the order of their addresses: a loop whose blocks lie apart is shown in parts, and each part is a
fold.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import groupby

from ckwatch.checks.places import RenderedFile, SourcePlace
from ckwatch.codeobject.disassembly import InstructionKind
from ckwatch.codeobject.listing import Listing, ListingRow, line_shares
from ckwatch.codeobject.main_loop import mix_of
from ckwatch.codeobject.mnemonics import explain
from ckwatch.codeobject.source_lines import CallChain, short_path
from ckwatch.model.isa import IsaFold, IsaLine, IsaView
from ckwatch.model.text import Position, Span

_TEXT_WIDTH = 56
_SUMMARISED = 6
_STEPS = 3
_SHARES = 8


ReadLine = Callable[[str, int], str | None]


class ListingText:
    """A listing as text: a line for each instruction, one above it where the source changes, one above each fold.

    `rows` has for each line the row that it shows, None for headings and source lines. Branches name the label that
    they go to: `L2` for the second loop, `B5` for the fifth of the other places. `roots` are folders that paths are
    shown below (`source_lines.short_path`). All that is no instruction or label begins with `;`, as editors want it. An
    explanation is given once in each fold. `read_line` reads a line (from zero) of a source file, to be shown with its
    place.
    """

    def __init__(
        self, listing: Listing, roots: Mapping[str, str] | None = None, read_line: ReadLine | None = None
    ) -> None:
        self.listing = listing
        self.lines: list[str] = []
        self.rows: list[int | None] = []
        self.folds: list[IsaFold] = []
        self._roots = roots or {}
        self._read_line = read_line
        self._parts: Counter[int] = Counter()
        self._chains = [self._chain(row.loop) for row in listing.rows]
        self._labels = _labels(listing)
        self._has_lines = any(row.frames for row in listing.rows)
        self._write(f"; {listing.name}: {_count(len(listing.rows), 'instruction')}")
        for note in listing.notes:
            self._write(f";   {note}")
        self._region(0, len(listing.rows), ())
        self.folds.sort(key=lambda fold: (fold.start, -fold.end))

    def _region(self, start: int, end: int, around: tuple[int, ...]) -> None:
        """Rows [start, end) as a run of straight code and loops; `around` are the loops that are open."""
        depth = len(around)
        spans = groupby(range(start, end), lambda index: self._chains[index][depth : depth + 1])
        for inner, indices in spans:
            members = list(indices)
            first, last = members[0], members[-1]
            line = len(self.lines)
            straight = not inner
            if straight and depth:
                self._instructions(first, last)
                continue
            label = self._heading(first, last, inner)
            self._write(f"{'  ' * depth}; ▾ {label}")
            if straight:
                self._instructions(first, last)
            else:
                self._sources(inner[0], depth)
                self._region(first, last + 1, (*around, *inner))
            main = bool(inner) and any(
                self.listing.loops[number].main for index in members for number in self._chains[index]
            )
            self.folds.append(
                IsaFold(start=line, end=len(self.lines) - 1, kind="loop" if inner else "block", label=label, main=main)
            )

    def _sources(self, loop: int, depth: int) -> None:
        """Add the source places of the main loop's instructions, at its first part."""
        if not self.listing.loops[loop].main or self._parts[loop] > 1:
            return
        shares = line_shares(self.listing, loop)
        for share in shares[:_SHARES]:
            mix = _mix_text(share.mix)
            self._write(f"{'  ' * (depth + 2)}; {mix}: {_origin_text(share.steps, share.place, self._roots)}")
        left = sum(share.instructions for share in shares[_SHARES:])
        if left:
            self._write(f"{'  ' * (depth + 2)}; {_count(left, 'instruction')} from {len(shares) - _SHARES} more places")

    def _heading(self, first: int, last: int, inner: tuple[int, ...]) -> str:
        mix = mix_of(self.listing.rows[index].instruction for index in range(first, last + 1))
        mix_text = f"{_count(last - first + 1, 'instruction')}: {_mix_text(mix)}"
        if not inner:
            return mix_text
        loop = self.listing.loops[inner[0]]
        self._parts[inner[0]] += 1
        main = "main loop" if loop.main else "loop"
        again = " goes on" if self._parts[inner[0]] > 1 else ""
        return f"{main} L{inner[0] + 1}{again}, {mix_text}"

    def _instructions(self, first: int, last: int) -> None:
        explained: set[str] = set()
        origin = ""
        for index in range(first, last + 1):
            row = self.listing.rows[index]
            indent = "  " * (len(self._chains[index]) + 1)
            if self._has_lines and origin != (origin := _origin_text(row.steps, row.place, self._roots)):
                self._write(f"{indent}; {origin}{self._source_text(row)}")
            label = self._labels.get(index)
            if label:
                self._write(f"{indent}{label}:")
            text = row.instruction.text
            if row.target is not None:
                text = f"{row.instruction.mnemonic} {self._labels[row.target]}"
            explanation = "" if row.explanation in explained else row.explanation
            explained.add(explanation)
            explanation = explanation and f"; {explanation}"
            line = f"{indent}{row.instruction.address:06x}  {text:<{_TEXT_WIDTH}}  {explanation}"
            self._write(line.rstrip(), index)

    def _source_text(self, row: ListingRow) -> str:
        if self._read_line is None or not row.steps:
            return ""
        text = self._read_line(row.steps[-1].path, row.steps[-1].line - 1)
        return f": {text.strip()}" if text else ""

    def _chain(self, loop: int | None) -> tuple[int, ...]:
        """The loops around a row, the outermost first."""
        chain: list[int] = []
        while loop is not None:
            chain.append(loop)
            loop = self.listing.loops[loop].parent
        return tuple(reversed(chain))

    def _write(self, text: str, row: int | None = None) -> None:
        self.lines.append(text)
        self.rows.append(row)


def _labels(listing: Listing) -> dict[int, str]:
    """Names of branch targets: a loop's for its header, numbered ones for the others."""
    labels = {loop.header: f"L{number + 1}" for number, loop in enumerate(listing.loops)}
    targets = sorted({row.target for row in listing.rows if row.target is not None} - labels.keys())
    return labels | {target: f"B{number + 1}" for number, target in enumerate(targets)}


def _origin_text(steps: CallChain, place: SourcePlace | None, roots: Mapping[str, str]) -> str:
    if not steps:
        return "no source line"
    shown = []
    for frame in steps[-_STEPS:]:
        path = short_path(frame.path, roots) if len(steps) == 1 else posixpath.basename(frame.path)
        shown.append(f"{path}:{frame.line} {frame.function}".rstrip())
    text = " › ".join(shown)
    if place is None:
        return text
    return f"{text} ← {short_path(place.span.path, roots)}:{place.span.start}"


def _mix_text(mix: Mapping[str, int]) -> str:
    """Matrix instructions, and what there is most of."""
    most = sorted(mix, key=lambda kind: (kind != InstructionKind.MFMA.value, -mix[kind]))[:_SUMMARISED]
    return ", ".join(f"{mix[kind]} {kind}" for kind in most)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def isa_view(
    listing: Listing,
    rendered: RenderedFile | None = None,
    roots: Mapping[str, str] | None = None,
    read_line: ReadLine | None = None,
) -> IsaView:
    """The listing as it is shown. `rendered` as in `listing_of`; `roots`: folders that paths are shown below;
    `read_line` as in `ListingText`."""
    document = ListingText(listing, roots, read_line)
    general = {name: explain(name) or "" for name in sorted({row.instruction.mnemonic for row in listing.rows})}
    end, heading = len(document.lines) - 1, document.lines[0].removeprefix("; ")
    lines = tuple(
        _view_line(number, listing.rows[row], general, rendered)
        for number, row in enumerate(document.rows)
        if row is not None
    )
    return IsaView(
        text="\n".join([*document.lines, ""]),
        lines=lines,
        folds=(IsaFold(start=0, end=end, kind="function", label=heading), *document.folds),
        mnemonics={mnemonic: text for mnemonic, text in general.items() if text},
        has_lines=any(row.frames for row in listing.rows),
        notes=listing.notes,
    )


def _view_line(number: int, row: ListingRow, general: Mapping[str, str], rendered: RenderedFile | None) -> IsaLine:
    mnemonic = row.instruction.mnemonic
    line = None
    if rendered is not None:
        line = next((frame.line - 1 for frame in row.frames if frame.line and rendered.is_at(frame.path)), None)
    header = next(
        (frame for frame in reversed(row.steps) if rendered is None or not rendered.is_at(frame.path)),
        None,
    )
    span = None if row.place is None else row.place.span
    if span is None and header is not None and posixpath.isabs(header.path):
        start = Position(header.line - 1, 0)
        span = Span(header.path, start, start)
    return IsaLine(
        line=number,
        mnemonic=mnemonic,
        rendered=line,
        span=span,
        header="" if header is None else f"{header.path}:{header.line}",
        explanation="" if row.explanation == general[mnemonic] else row.explanation,
    )
