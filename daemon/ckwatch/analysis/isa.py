"""A listing in the form in which editors show it: text, what is known of each line, folds."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ckwatch.analysis.disassembly import Function
from ckwatch.analysis.lines import Frame, Frames
from ckwatch.analysis.listing import Listing, Row
from ckwatch.analysis.listing_text import Document, Explain, Fold, document_of
from ckwatch.analysis.mnemonics import explain
from ckwatch.diagnostics.clang_text import ClangPosition
from ckwatch.diagnostics.places import RenderedFile
from ckwatch.model.text import Position, Span

Kind = Literal["loop", "block", "function"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """What is known of line `line` (from zero) of the text; see `ckwatch.wire.analysis.IsaLine`."""

    line: int
    mnemonic: str
    rendered: int | None = None
    span: Span | None = None
    header: str = ""
    explanation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFold:
    """Lines `start` to `end` (from zero, both included). `kind` is `function`, `loop` or `block`."""

    start: int
    end: int
    kind: Kind
    label: str
    main: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A kernel's listing as text. `has_lines`: some instruction has a source line."""

    text: str
    lines: tuple[ShownLine, ...]
    folds: tuple[ShownFold, ...]
    mnemonics: Mapping[str, str] = field(default_factory=dict)
    has_lines: bool = False
    notes: tuple[str, ...] = ()


def shown(listing: Listing, rendered: RenderedFile | None = None, roots: Mapping[str, str] | None = None) -> Shown:
    """The listing as it is shown. `rendered` as in `listing_of`; `roots`: folders that paths are shown below."""
    document = document_of(listing, explanations=Explain.FIRST, roots=roots, comments=True)
    general = _general(listing)
    lines = tuple(
        _line(number, listing.rows[row], general, rendered)
        for number, row in enumerate(document.rows)
        if row is not None
    )
    return Shown(
        text="\n".join([*document.lines, ""]),
        lines=lines,
        folds=_folds(document),
        mnemonics={mnemonic: text for mnemonic, text in general.items() if text},
        has_lines=any(row.frames for row in listing.rows),
        notes=listing.notes,
    )


def same_code(one: Function, other: Function) -> bool:
    """Whether two functions have the same instructions, whatever their addresses."""
    return len(one.instructions) == len(other.instructions) and all(
        (mine.text, mine.size) == (theirs.text, theirs.size)
        for mine, theirs in zip(one.instructions, other.instructions, strict=True)
    )


def carried(frames: Mapping[int, Frames], source: Function, target: Function) -> dict[int, Frames]:
    """The call chains of one function by the addresses of another with the same instructions."""
    pairs = zip(source.instructions, target.instructions, strict=True)
    return {theirs.address: frames[mine.address] for mine, theirs in pairs if mine.address in frames}


def moved(frames: Mapping[int, Frames], path: str, move: Callable[[ClangPosition], ClangPosition]) -> dict[int, Frames]:
    """The call chains with the places in the file `path` moved; equal chains are moved once."""
    known: dict[Frames, Frames] = {}
    for chain in frames.values():
        if chain not in known:
            known[chain] = tuple(_moved(frame, move) if frame.path == path else frame for frame in chain)
    return {address: known[chain] for address, chain in frames.items()}


def _moved(frame: Frame, move: Callable[[ClangPosition], ClangPosition]) -> Frame:
    place = move(ClangPosition(frame.line, frame.column))
    return replace(frame, line=place.line, column=place.column)


def _general(listing: Listing) -> dict[str, str]:
    """What each mnemonic does, whatever its operands; empty for unknown ones."""
    names = sorted({row.instruction.mnemonic for row in listing.rows})
    return {name: "" if (found := explain(name)) is None else found.text for name in names}


def _line(number: int, row: Row, general: Mapping[str, str], rendered: RenderedFile | None) -> ShownLine:
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
    return ShownLine(
        line=number,
        mnemonic=mnemonic,
        rendered=line,
        span=span,
        header="" if header is None else f"{header.path}:{header.line}",
        explanation="" if row.explanation == general[mnemonic] else row.explanation,
    )


def _folds(document: Document) -> tuple[ShownFold, ...]:
    last = len(document.lines) - 1
    whole = ShownFold(start=0, end=last, kind="function", label=document.lines[0].removeprefix("; "))
    return (whole, *map(_fold, document.folds))


def _fold(fold: Fold) -> ShownFold:
    kind: Kind = "loop" if fold.loop else "block"
    return ShownFold(start=fold.first, end=fold.last, kind=kind, label=fold.label, main=fold.main)
