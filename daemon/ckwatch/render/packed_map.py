"""Source maps as tables of numbers, which are quick to make, to send and to keep, and worked out when somebody asks.

`pack` writes down the origins of a text (`ckwatch.render.mapped_text`) as they are. `unpack` follows them to segments
and frames.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ckwatch.model.source_map import Segment, Site, SiteFrame, SiteKind
from ckwatch.model.text import Position, Span
from ckwatch.render.mapped_text import (
    NUMBERS,
    UNKNOWN,
    Joined,
    MappedText,
    Origin,
    Piece,
    Realignment,
    Recording,
    Sequence,
    kept_parts,
)

PackedPiece = tuple[int, int, int, int, int, tuple[int, ...] | None]
"""A piece's ref; the sites that it closes, opens, has its text from and prints the next value for, -1 for none; where
the lines of text that it copied end, as offsets."""

PackedRealignment = tuple[int, int, str, str, tuple[str, int, int] | None]
"""Origin, start, source, result, replaced."""

Packed = tuple[list[tuple[Any, ...]], list[PackedPiece], tuple[bytes, ...], list[PackedRealignment], int, int]
"""`Site.row` of all sites, the first one for characters that no site printed; pieces; their numbers in recordings and
`Tables`, each as the type code and the bytes of an array; realignments; the text's origin and its start in it."""

RECORDING, SEQUENCE, JOINED, REALIGNMENT = range(4)

PRINTED, NOT_KNOWN = -1, -2
"""Origins of characters that belong to what prints them, exactly and approximately."""


class Tables(NamedTuple):
    """Numbers of all origins, those of one behind those of the other.

    The origin `n` is one of `kinds`. From `first[n]` on, a recording has rows in `lengths`, as many as `counts[n]`, and
    a sequence in `origins`, `starts` and `widths`; what is joined has its separator as the last of these. A realignment
    has that number. From `first_inner[n]` on, a recording has rows in `indices`, `inner` and `inner_starts`: its values
    that are mapped text.
    """

    kinds: list[int]
    first: list[int]
    counts: list[int]
    first_inner: list[int]
    inner_counts: list[int]
    lengths: list[int]
    indices: list[int]
    inner: list[int]
    inner_starts: list[int]
    origins: list[int]
    starts: list[int]
    widths: list[int]


def pack(text: MappedText, fallback: Site) -> Packed:
    """The map of `text`; `fallback` is the site of characters that no site printed."""
    return _Packing().pack(text, fallback)


class _Packing:
    """Numbers origins as it finds them, and fills in their tables."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {id(None): PRINTED, id(UNKNOWN): NOT_KNOWN}
        self._origins: list[Origin] = []
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._refs: list[bytes] = []
        self._pieces: list[Piece] = []
        self._lengths: list[int] = []
        self._inner: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._realignments: list[PackedRealignment] = []

    def pack(self, text: MappedText, fallback: Site) -> Packed:
        """See `pack`."""
        number = self._number(text._origin)
        for origin in self._origins:  # to which those are added that it is made of
            if isinstance(origin, Recording):
                self._recording(origin)
            elif isinstance(origin, Sequence):
                self._sequence(origin)
            elif isinstance(origin, Joined):
                self._joined(origin)
            elif isinstance(origin, Realignment):
                self._realignment(origin)
        columns = [list(column) for column in zip(*self._rows, strict=True)] or [[]] * 5
        columns += [self._lengths, *self._inner, *self._parts]
        refs = NUMBERS.encode() + b"".join(self._refs)
        sites = _SiteNumbers(fallback)
        used = set(array(NUMBERS, b"".join(set(self._refs))))
        pieces = [sites.piece(ref, self._pieces[ref]) for ref in used if ref >= 0]
        return (sites.rows, pieces, (refs, *map(_bytes_of, columns)), self._realignments, number, text._start)

    def _number(self, origin: Origin | None) -> int:
        number = self._numbers.get(id(origin))
        if number is None and origin is not None:
            number = self._numbers[id(origin)] = len(self._origins)
            self._origins.append(origin)
        return NOT_KNOWN if number is None else number

    def _numbers_of(self, origins: list[Any]) -> list[int]:
        if len(origins) == 1:
            return [self._number(origins[0])]
        distinct = set(origins)
        if len(distinct) == 1:
            return [self._number(distinct.pop())] * len(origins)
        numbers = {id(origin): self._number(origin) for origin in distinct}
        return list(map(numbers.__getitem__, map(id, origins)))

    def _recording(self, origin: Recording) -> None:
        lengths = self._lengths
        indices, inner, starts = self._inner
        self._rows.append((RECORDING, len(lengths), len(origin.lengths), len(indices), len(origin.indices)))
        self._pieces = origin.pieces
        self._refs += origin.refs
        lengths += origin.lengths
        if origin.indices:
            indices += origin.indices
            inner += self._numbers_of(origin.inner)
            starts += origin.starts

    def _joined(self, origin: Joined) -> None:
        """As a sequence, with the separator as its last part."""
        origins, starts, lengths = self._parts
        separated = origin.separator[2] > 0
        self._rows.append((JOINED if separated else SEQUENCE, len(lengths), len(origin.lengths) + separated, 0, 0))
        origins += self._numbers_of(origin.origins)
        starts += origin.starts
        lengths += origin.lengths
        if separated:
            self._part(*origin.separator)

    def _sequence(self, origin: Sequence) -> None:
        self._rows.append((SEQUENCE, len(self._parts[0]), len(origin.parts), 0, 0))
        for part in origin.parts:
            self._part(*part)

    def _part(self, origin: Origin | None, start: int, length: int) -> None:
        origins, starts, lengths = self._parts
        origins.append(self._number(origin))
        starts.append(start)
        lengths.append(length)

    def _realignment(self, origin: Realignment) -> None:
        self._rows.append((REALIGNMENT, len(self._realignments), 0, 0, 0))
        number = self._number(origin.origin)
        self._realignments.append((number, origin.start, origin.source, origin.result, origin.replaced))


class _SiteNumbers:
    """Numbers of sites. They are distinguished by identity: generated code has one object for one place."""

    def __init__(self, first: Site) -> None:
        self.rows = [first.row]
        self._numbers = {id(first): 0}

    def piece(self, ref: int, piece: Piece) -> PackedPiece:
        """A piece as numbers."""
        sites = (piece.closes, piece.opens, piece.site, piece.prints)
        closes, opens, site, prints = [-1 if one is None else self._number(one) for one in sites]
        if piece.copied and piece.line_ends is None:
            piece.line_ends = tuple(found.start() for found in re.finditer("\n", piece))
        return (ref, closes, opens, site, prints, piece.line_ends)

    def _number(self, site: Site) -> int:
        number = self._numbers.get(id(site))
        if number is None:
            number = self._numbers[id(site)] = len(self.rows)
            self.rows.append(site.row)
        return number


def unpack(packed: Packed, length: int) -> tuple[list[Segment], list[SiteFrame]]:
    """The segments and frames of a text of `length` characters."""
    return _Unpacking(packed).unpack(length)


class _Run(NamedTuple):
    """Characters of an origin: those of the origin `inner` from `at` on, or, if that is `PRINTED`, its own.

    They belong to `site` (-1: to the innermost open one), and `piece` (-1: none) is what they were copied from.
    `stands` tells that they all stand for the character `at`. `frame` is one of the layout's, -1 outside of them.
    """

    inner: int
    at: int
    site: int
    frame: int
    piece: int = -1
    stands: bool = False


class _Layout(NamedTuple):
    """The runs of an origin and where they start. `frames` are (site, parent, iteration)."""

    starts: list[int]
    runs: list[_Run]
    frames: list[tuple[int, int, int]]


class _Visit(NamedTuple):
    """Characters of `origin`, written while `frame` was open; `site` is the innermost open one."""

    origin: int
    start: int
    length: int
    site: int
    frame: int
    stands: bool


class _Leaf(NamedTuple):
    length: int
    site: int
    frame: int
    position: Position | None
    exact: bool


class _Unpacking:
    def __init__(self, packed: Packed) -> None:
        rows, pieces, tables, self._realignments, self._first, self._start = packed
        self._pieces: dict[int, list[Any]] = {ref: piece for ref, *piece in pieces}
        self._refs, *numbers = map(_numbers_of, tables)
        self._tables = Tables(*numbers)
        self._sites = [
            Site(SiteKind(kind), Span(path, Position(line, column), Position(end_line, end_column)), label, names)
            for kind, path, line, column, end_line, end_column, label, names in rows
        ]
        self._layouts: dict[int, _Layout] = {}
        self._frames: list[SiteFrame] = []

    def unpack(self, length: int) -> tuple[list[Segment], list[SiteFrame]]:
        segments: list[Segment] = []
        at = 0
        tasks: list[_Visit | _Leaf] = [self._inner(_Run(self._first, self._start, -1, -1), 0, length, 0, -1)]
        while tasks:
            task = tasks.pop()
            if isinstance(task, _Visit):
                tasks += reversed(list(self._expand(task)))
            elif task.length:
                site, position = self._sites[task.site], task.position
                copied = position is not None
                place = site.span.start if position is None else position
                segments.append(Segment(at, at + task.length, site, task.frame, place, copied, task.exact))
                at += task.length
        return segments, self._frames

    def _expand(self, task: _Visit) -> Iterator[_Visit | _Leaf]:
        layout = self._layouts.get(task.origin)
        if layout is None:
            layout = self._layouts[task.origin] = self._layout(task.origin)
        starts, known = layout.starts, {-1: task.frame}
        at, end = task.start, task.start + (1 if task.stands else task.length)
        index = bisect_right(starts, at) - 1
        while at < end:
            run, begin = layout.runs[index], starts[index]
            index += 1
            stop = min(starts[index], end) if index < len(starts) else end
            frame = self._frame(layout, run.frame, known)
            site = task.site if run.frame < 0 else layout.frames[run.frame][0]
            length = task.length if task.stands else stop - at
            if run.inner != PRINTED:
                if run.site >= 0:
                    frame, site = self._open(run.site, frame, -1), run.site
                within = run._replace(stands=run.stands or task.stands)
                yield self._inner(within, 0 if run.stands else at - begin, length, site, frame)
            else:
                position = None if run.piece < 0 or task.stands else self._position(run.piece, at - begin)
                yield _Leaf(length, run.site if run.site >= 0 else site, frame, position, exact=True)
            at = stop

    def _inner(self, run: _Run, offset: int, length: int, site: int, frame: int) -> _Visit | _Leaf:
        if run.inner < 0:
            return _Leaf(length, site, frame, None, exact=run.inner == PRINTED)
        return _Visit(run.inner, run.at + offset, length, site, frame, run.stands)

    def _position(self, piece: int, offset: int) -> Position:
        """Return the place in its template of the character `offset` of the text of `piece`."""
        _, _, site, _, line_ends = self._pieces[piece]
        start = self._sites[site].span.start
        line = bisect_left(line_ends, offset)
        column = offset - line_ends[line - 1] - 1 if line else start.column + offset
        return Position(start.line + line, column)

    def _frame(self, layout: _Layout, frame: int, known: dict[int, int]) -> int:
        """The number of a layout's frame; `known` holds those that were opened in this visit."""
        if frame not in known:
            site, parent, iteration = layout.frames[frame]
            known[frame] = self._open(site, self._frame(layout, parent, known), iteration)
        return known[frame]

    def _open(self, site: int, parent: int, iteration: int) -> int:
        self._frames.append(SiteFrame(self._sites[site], parent, iteration))
        return len(self._frames) - 1

    def _layout(self, origin: int) -> _Layout:
        tables = self._tables
        if tables.kinds[origin] == RECORDING:
            return self._recorded(origin)
        first = tables.first[origin]
        rows: Iterable[tuple[int, int, int]]
        if tables.kinds[origin] in (SEQUENCE, JOINED):
            own = slice(first, first + tables.counts[origin])
            rows = list(zip(tables.origins[own], tables.starts[own], tables.widths[own], strict=True))
            if tables.kinds[origin] == JOINED:
                *texts, separator = rows
                rows = [row for text in texts for row in (text, separator)][:-1]
        else:
            rows = _realigned(*self._realignments[first])
        starts: list[int] = []
        runs: list[_Run] = []
        at = 0
        for inner, start, width in rows:
            starts.append(at)
            runs.append(_Run(inner, start, -1, -1, stands=width < 0))
            at += abs(width)
        return _Layout(starts, runs, [])

    def _recorded(self, origin: int) -> _Layout:
        """A loop's site is opened once a round; a loop without rounds is only closed, which closes nothing."""
        tables = self._tables
        own = slice(tables.first[origin], tables.first[origin] + tables.counts[origin])
        values = slice(tables.first_inner[origin], tables.first_inner[origin] + tables.inner_counts[origin])
        inner = zip(tables.inner[values], tables.inner_starts[values], strict=True)
        within = dict(zip(tables.indices[values], inner, strict=True))
        starts: list[int] = []
        runs: list[_Run] = []
        frames: list[tuple[int, int, int]] = []
        frame = printing = -1
        at = 0
        for index, (ref, length) in enumerate(zip(self._refs[own], tables.lengths[own], strict=True)):
            site, piece = printing, -1
            printing = -1
            if ref >= 0:
                closes, opens, site, printing, line_ends = self._pieces[ref]
                piece = -1 if line_ends is None else ref
                if closes >= 0 and frame >= 0 and frames[frame][0] == closes:
                    frame = frames[frame][1]
                if opens >= 0:
                    loop = self._sites[opens].kind is SiteKind.LOOP
                    if loop and frame >= 0 and frames[frame][0] == opens:
                        frames.append((opens, frames[frame][1], frames[frame][2] + 1))
                    else:
                        frames.append((opens, frame, 0 if loop else -1))
                    frame = len(frames) - 1
            if length:
                number, start = within.get(index, (PRINTED, 0))
                starts.append(at)
                runs.append(_Run(number, start, site, frame, piece))
                at += length
        return _Layout(starts, runs, frames)


def _bytes_of(numbers: list[int]) -> bytes:
    """`numbers` as the type code and the bytes of an array."""
    try:
        return b"B" + bytes(numbers)
    except ValueError:
        return NUMBERS.encode() + array(NUMBERS, numbers).tobytes()


def _numbers_of(data: bytes) -> list[int]:
    """The inverse of `_bytes_of`."""
    numbers = array(chr(data[0]))
    numbers.frombytes(data[1:])
    return numbers.tolist()


def _realigned(
    origin: int, start: int, source: str, result: str, replaced: tuple[str, int, int] | None
) -> Iterator[tuple[int, int, int]]:
    """The parts of `result`, as in a sequence: (origin, start, length)."""
    if replaced is not None:
        old, width, count = replaced
        end = 0
        for at, length in kept_parts(source, old, count):
            if at:
                yield origin, start + end, -width
            yield origin, start + at, length
            end = at + length
        return
    if "".join(source.split()) != "".join(result.split()):
        yield NOT_KNOWN, 0, len(result)
        return
    words = re.finditer(r"(\s*)(\S*)", source)
    read = left = 0
    gap = ""
    for found in re.finditer(r"(\s*)(\S*)", result):
        blank, wanted = found[1], len(found[2])
        if not left and (word := next(words, None)):
            gap, read, left = word[1], word.start(2), len(word[2])
        same = next((at for at, pair in enumerate(zip(gap, blank, strict=False)) if pair[0] != pair[1]), None)
        same = min(len(gap), len(blank)) if same is None else same
        yield origin, start + read - len(gap), same
        yield PRINTED, 0, len(blank) - same
        while wanted:
            if not left:
                word = next(words)
                read, left = word.start(2), len(word[2])
            length = min(wanted, left)
            yield origin, start + read, length
            read, left, wanted = read + length, left - length, wanted - length
        gap = ""
