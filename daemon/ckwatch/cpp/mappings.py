"""Which places of a rendered text a place of a template leads to, and back.

One place of a template is many in a rendered text (a loop, a macro that is called twice), and some are nowhere. So each
piece says what may be forwarded through it, as the mappings of Volar do (`CodeInformation`): where it stands, a name in
the text of a template can be looked up; a completion needs the text that is typed to arrive character by character; an
edit also needs that the text stands in the rendered source once. All positions go through `RenderedSource`.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from io import StringIO
from itertools import accumulate, pairwise
from pathlib import PurePath
from textwrap import shorten

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.source_map import Segment, SiteKind, SourceMap
from ckwatch.model.text import LineIndex, Position, Range, Span, advance, common_prefix


class Forwarding(enum.Flag):
    """Kinds of questions that may be forwarded through a piece."""

    NOTHING = 0
    NAVIGATION = enum.auto()
    """Hovers, definitions, references, calls."""
    COMPLETION = enum.auto()
    """Questions about unfinished code: completion, signatures."""
    SEMANTIC = enum.auto()
    """Questions about the text's pieces: tokens, symbols, hints, highlights."""
    EDIT = enum.auto()
    """Changes of the text: renaming, code actions."""


LOOKING = Forwarding.NAVIGATION | Forwarding.COMPLETION | Forwarding.SEMANTIC

PRODUCED_LENGTH = 200
"""Characters that an expression may have written to be looked up as a name; more is code."""

LABEL_LENGTH = 60
"""Characters of an expression that a message quotes."""

_WORD = re.compile(r"\w+")

_OPENING = re.compile(r"\{[{%#]")
"""Begins something of Jinja's."""


class NotForwardedError(CkwatchError):
    """A place has no counterpart that the question could be forwarded to; says why."""


@dataclass(frozen=True, slots=True)
class SourcePiece:
    """Characters [`start`, `end`) of the rendered text, and where they come from in the template at `path`.

    A `verbatim` piece stands there character by character, `count` times in the rendered text. Any other was written
    by the expression (or tag) `label` in `range`, which mentions `names`.
    """

    start: int
    end: int
    path: str
    range: Range
    verbatim: bool
    forwards: Forwarding
    label: str
    names: tuple[str, ...]
    is_tag: bool = False
    count: int = 1

    @property
    def place(self) -> str:
        """For a person."""
        return f"{PurePath(self.path).name}:{self.range.start}"

    @property
    def reason(self) -> str:
        """Why not everything may be forwarded through it."""
        if not self.forwards:
            return f"what {self.place} writes was rearranged"
        if self.verbatim:
            return f"the text at {self.place} stands {self.count} times in the rendered source"
        label = f"{{% {self.label} %}}" if self.is_tag else f"{{{{ {self.label} }}}}"
        return f"`{label}` at {self.place} writes it"


class RenderedSource:
    """A rendered text with its map."""

    def __init__(self, text: str, source_map: SourceMap) -> None:
        self._take(text, _pieces(text, source_map.segments))

    def _take(self, text: str, pieces: list[SourcePiece]) -> None:
        self.text = text
        self.lines = LineIndex(text)
        self.pieces = pieces
        self._starts = [piece.start for piece in self.pieces]
        self._by_path: dict[str, list[SourcePiece]] = {}
        for piece in self.pieces:
            self._by_path.setdefault(piece.path, []).append(piece)

    @property
    def paths(self) -> tuple[str, ...]:
        """The templates that text comes from."""
        return tuple(self._by_path)

    def offsets(self, path: str, position: Position, need: Forwarding) -> list[int]:
        """The rendered places of a template's place, in the order of the text, where all of `need` is forwarded. Raises
        NotForwardedError where there is none."""
        own = self._by_path.get(path, ())
        touching = [piece for piece in own if piece.verbatim and piece.range.holds(position)]
        before = need is Forwarding.COMPLETION
        best = [piece for piece in touching if _holds_character(piece.range, position, before=before)] or touching
        found = [self._offset(piece, position) for piece in best if need in piece.forwards]
        if found:
            return found
        produced = [piece for piece in own if not piece.verbatim and piece.range.holds(position)]
        if not best:
            names = (self.name_in(piece) for piece in produced if need in piece.forwards)
            found = [offset for offset in names if offset is not None]
            if found:
                return found
        refused = next(iter((*best, *produced)), None)
        if refused is None:
            raise NotForwardedError("nothing in the rendered source comes from here")
        raise NotForwardedError(refused.reason)

    def edited(self, path: str, before: str, after: str, cursor: Position) -> RenderedSource | None:
        """Return the render with what was edited in a template since, as far as that is verbatim text: what else was
        edited stays as it was rendered. None where only a render can tell what stands at the line of the cursor.

        Where all of it is verbatim text, this is the next render, but for names that are made of the whole text, and
        where a template compares a text that it has captured.
        """
        made = self
        for ways in reversed(_edits(before, after)):
            tried = (made._with(path, edit) for edit in ways if edit.is_plain)
            verbatim = next((each for each in tried if each is not None), None)
            if verbatim is None and cursor.line in ways[0].lines:
                return None
            made = made._without(path, ways[0]) if verbatim is None else verbatim
        return made

    def _with(self, path: str, edit: _Edit) -> RenderedSource | None:
        """With an edit that is within verbatim text; None where it is not."""
        text: list[str] = []
        pieces: list[SourcePiece] = []
        copied = shift = 0
        for piece in self.pieces:
            start, end, reach = piece.start + shift, piece.end + shift, piece.range
            if piece.path == path:
                if edit.reach.meets(reach):
                    at = self._offset(piece, edit.reach.start)
                    old_end = at + len(edit.removed)
                    verbatim = piece.verbatim and Forwarding.COMPLETION in piece.forwards
                    if not verbatim or not edit.is_within(reach) or self.text[at:old_end] != edit.removed:
                        return None
                    text += (self.text[copied:at], edit.inserted)
                    copied = old_end
                    shift += edit.growth
                    end += edit.growth
                reach = edit.moved(reach)
            pieces.append(replace(piece, start=start, end=end, range=reach))
        return self._made("".join((*text, self.text[copied:])), pieces) if text else None

    def _without(self, path: str, edit: _Edit) -> RenderedSource:
        """With the places behind an edit, and nothing at those of the edit."""
        pieces: list[SourcePiece] = []
        for piece in self.pieces:
            reach = piece.range
            if piece.path != path or not edit.reach.meets(reach):
                parts = [(piece.start, piece.end, reach, piece.forwards)]
            elif not piece.verbatim:
                parts = [(piece.start, piece.end, reach, Forwarding.NOTHING)]
            else:
                start = self._offset(piece, max(edit.reach.start, reach.start))
                end = self._offset(piece, min(edit.reach.end, reach.end))
                parts = [
                    (piece.start, start, Range(reach.start, edit.reach.start), piece.forwards),
                    (start, end, edit.reach, Forwarding.NOTHING),
                    (end, piece.end, Range(edit.reach.end, reach.end), piece.forwards),
                ]
            for start, end, within, forwards in parts:
                if start < end:
                    moved = edit.moved(within) if piece.path == path else within
                    pieces.append(replace(piece, start=start, end=end, range=moved, forwards=forwards))
        return self._made(self.text, pieces)

    def _made(self, text: str, pieces: list[SourcePiece]) -> RenderedSource:
        made = RenderedSource.__new__(RenderedSource)
        made._take(text, pieces)
        return made

    def written_by(self, name: str, value: object) -> list[SourcePiece]:
        """Return the output of expressions that mention the parameter `name`; first where that is just its value."""
        mentions = (piece for piece in self.pieces if not piece.verbatim and name in piece.names)
        found = [piece for piece in mentions if self.name_in(piece) is not None]
        return sorted(found, key=lambda piece: self.text[piece.start : piece.end] != value)

    def name_in(self, piece: SourcePiece) -> int | None:
        """Return the place of a piece's last name, as the offset of its first character; None where it is code."""
        written = self.text[piece.start : piece.end]
        words = [] if len(written) > PRODUCED_LENGTH or "\n" in written else list(_WORD.finditer(written))
        return piece.start + words[-1].start() if words else None

    def origin(self, start: int, end: int) -> Span | None:
        """Return the origin of [start, end); of an expression's output, the expression. None where its parts come from
        several places, or it begins or ends in what was rearranged."""
        first, last = self.piece_at(start), self.piece_at(max(end - 1, start))
        if first is None or last is None or first.path != last.path or not first.forwards or not last.forwards:
            return None
        begin = self._position(first, start) if first.verbatim else first.range.start
        finish = self._position(last, end) if last.verbatim else last.range.end
        if finish < begin:
            return None
        return Span(first.path, begin, finish)

    def exact(self, start: int, end: int, need: Forwarding = Forwarding.EDIT) -> Span:
        """Return the verbatim place of [start, end) in a template. Raises NotForwardedError."""
        if start == end:
            return self._insertion(start, need)
        pieces = list(self._within(start, end))
        for piece in pieces:
            if need not in piece.forwards:
                raise NotForwardedError(piece.reason)
        for one, other in pairwise(pieces):
            if one.path != other.path or one.range.end != other.range.start:
                raise NotForwardedError(f"Jinja stands within the text at {one.place}")
        if not pieces:
            raise NotForwardedError("it is not in the rendered source")
        return Span(pieces[0].path, self._position(pieces[0], start), self._position(pieces[-1], end))

    def around(self, start: int, end: int) -> tuple[str, str]:
        """The characters of the template beside [start, end), which stands there exactly: a brace where Jinja does."""
        if start == end:
            first = last = self._holding(start, Forwarding.EDIT)
        else:
            first, last = self.piece_at(start), self.piece_at(end - 1)
        before = self.text[start - 1] if first is not None and first.start < start else "}"
        behind = self.text[end] if last is not None and end < last.end else "{"
        return before, behind

    def covers(self, path: str, position: Position) -> list[int]:
        """Return the offsets of a template's character at `position`, whatever may be forwarded; nowhere if it is not
        rendered."""
        own = self._by_path.get(path, ())
        found = [piece for piece in own if piece.verbatim and piece.range.start <= position < piece.range.end]
        return [self._offset(piece, position) for piece in found]

    def _insertion(self, offset: int, need: Forwarding) -> Span:
        piece = self._holding(offset, need)
        if piece is None:
            nearest = self.piece_at(max(offset - 1, 0))
            raise NotForwardedError(nearest.reason if nearest else "it is not in the rendered source")
        place = self._position(piece, offset)
        return Span(piece.path, place, place)

    def _holding(self, offset: int, need: Forwarding) -> SourcePiece | None:
        """The piece that text would be inserted in."""
        beside = (self.piece_at(offset - 1), self.piece_at(offset))
        return next((piece for piece in beside if piece and piece.verbatim and need in piece.forwards), None)

    def _offset(self, piece: SourcePiece, position: Position) -> int:
        began = self.lines.position(piece.start)
        lines = position.line - piece.range.start.line
        column = position.column if lines else position.column - piece.range.start.column + began.column
        return min(self.lines.offset(Position(began.line + lines, column)), piece.end)

    def _position(self, piece: SourcePiece, offset: int) -> Position:
        began, here, start = self.lines.position(piece.start), self.lines.position(offset), piece.range.start
        lines = here.line - began.line
        return Position(start.line + lines, here.column if lines else start.column + here.column - began.column)

    def piece_at(self, offset: int) -> SourcePiece | None:
        """The piece that holds the character at `offset`; the last one at the end of the text."""
        if not 0 <= offset <= len(self.text) or not self.pieces:
            return None
        return self.pieces[max(bisect_right(self._starts, offset) - 1, 0)]

    def _within(self, start: int, end: int) -> Iterator[SourcePiece]:
        index = max(bisect_right(self._starts, start) - 1, 0)
        while index < len(self.pieces) and self.pieces[index].start < end:
            yield self.pieces[index]
            index += 1


@dataclass(frozen=True, slots=True)
class _Edit:
    """In a template, `inserted` takes the place of `removed` in `reach`. `lines` are those that it makes, as the edited
    text counts them. One that `is_plain` neither makes nor breaks anything of Jinja's in verbatim text."""

    reach: Range
    removed: str
    inserted: str
    lines: range
    is_plain: bool

    @classmethod
    def at(cls, at: int, removed: str, inserted: str, lines: range, before: str, index: LineIndex) -> _Edit:
        """At this offset of the text `before`."""
        end = at + len(removed)
        around = (before[max(at - 1, 0) : at] + text + before[end : end + 1] for text in (removed, inserted))
        return cls(index.range(at, end), removed, inserted, lines, not any(map(_OPENING.search, around)))

    @property
    def growth(self) -> int:
        """Characters that the text has more."""
        return len(self.inserted) - len(self.removed)

    def is_within(self, reach: Range) -> bool:
        """Return True if the first and the last character of `reach` stay."""
        return reach.start < self.reach.start and self.reach.end < reach.end

    def moved(self, reach: Range) -> Range:
        """Move a range; text that is inserted beside it stays beside it."""
        end = reach.end if reach.end <= self.reach.start else self._moved(reach.end)
        return Range(min(self._moved(reach.start), end), end)

    def _moved(self, position: Position) -> Position:
        """Move a place; one within what is removed to the beginning."""
        if position < self.reach.end:
            return min(position, self.reach.start)
        end = advance(self.reach.start, self.inserted)
        column = position.column
        if position.line == self.reach.end.line:
            column += end.column - self.reach.end.column
        return Position(position.line + end.line - self.reach.end.line, column)


def _edits(before: str, after: str) -> list[tuple[_Edit, ...]]:
    """The edits that lead from one text to the other, in their order: what differs in lines that follow one another.
    Lines that are added are so before a line, or behind the one above it."""
    old, new = StringIO(before).readlines(), StringIO(after).readlines()
    starts, lines = [*accumulate(map(len, old), initial=0)], LineIndex(before)
    made = []
    for tag, first, last, begin, stop in _differences(old, new):
        if tag == "equal":
            continue
        one, other = "".join(old[first:last]), "".join(new[begin:stop])
        start = common_prefix(one, other)
        common = common_prefix(one[start:][::-1], other[start:][::-1])
        removed, inserted = one[start : len(one) - common], other[start : len(other) - common]
        at = starts[first] + start
        found = [(at, inserted)]
        if not removed and inserted.endswith("\n") and before[at - 1 : at] == "\n":
            found.append((at - 1, f"\n{inserted[:-1]}"))
        line = begin + other.count("\n", 0, start)
        touched = range(line, line + max(inserted.count("\n") + (inserted[-1:] != "\n"), 1))
        made.append(tuple(_Edit.at(at, removed, text, touched, before, lines) for at, text in found))
    return made


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """As difflib's opcodes, which take long for many lines: those at the beginning and the end are mostly the same."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    end = next((at for at in range(shorter - start) if old[-1 - at] != new[-1 - at]), shorter - start)
    matcher = SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end], autojunk=False)
    for tag, first, last, begin, stop in matcher.get_opcodes():
        yield tag, start + first, start + last, start + begin, start + stop


def _holds_character(reach: Range, position: Position, *, before: bool) -> bool:
    """Return True if a character beside `position` is in `reach`."""
    return reach.start < position if before else position < reach.end


def _pieces(text: str, segments: Sequence[Segment]) -> list[SourcePiece]:
    pieces = [_piece(text, segment) for segment in segments if segment.end > segment.start]
    places = sorted((at for at, piece in enumerate(pieces) if piece.verbatim), key=lambda at: _order(pieces[at]))
    groups: list[list[int]] = []
    reach: tuple[str, Position] | None = None
    for at in places:
        piece = pieces[at]
        if reach is None or reach[0] != piece.path or reach[1] <= piece.range.start:
            groups.append([])
            reach = (piece.path, piece.range.end)
        groups[-1].append(at)
        reach = (piece.path, max(reach[1], piece.range.end))
    for group in groups:
        for at in group if len(group) > 1 else ():
            pieces[at] = replace(pieces[at], count=len(group), forwards=pieces[at].forwards & LOOKING)
    return pieces


def _order(piece: SourcePiece) -> tuple[str, Position, int]:
    return piece.path, piece.range.start, piece.start


def _piece(text: str, segment: Segment) -> SourcePiece:
    site = segment.site
    written = text[segment.start : segment.end]
    if segment.verbatim:
        reach = Range(segment.position, advance(segment.position, written))
        forwards = LOOKING | Forwarding.EDIT if segment.exact else Forwarding.NOTHING
    else:
        reach = Range(site.span.start, site.span.end)
        forwards = Forwarding.NAVIGATION if segment.exact else Forwarding.NOTHING
    label = shorten(" ".join(site.label.split()), LABEL_LENGTH, placeholder="…")
    return SourcePiece(
        segment.start,
        segment.end,
        site.span.path,
        reach,
        segment.verbatim,
        forwards,
        label,
        site.names,
        site.kind is not SiteKind.EXPRESSION,
    )
