"""Input and output of a render, and source maps packed as bytes.

Free of Jinja2, so that the daemon, which renders in worker processes, need not load it.

Most source maps are never queried. Workers send them, and the cache keeps them, as plain tuples of numbers with tables
of sites and paths, which are an order of magnitude cheaper to write and read than the objects themselves; the first
query unpacks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.source_map import Segment, Site, SiteFrame, SiteKind, SourceMap
from ckwatch.model.text import Position, Span
from ckwatch.render.mapped_text import MappedText, Node, Wrap

LENGTH_BYTES = 8
"""A message to or from a render worker is its length, big-endian, and a pickle."""


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Seconds and characters that one render may use."""

    time_limit_s: float = 10.0
    output_limit: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered unit.

    `symbol` is the exported function, `token_key` the hash of the text's tokens before the function was named.
    `mentioned` are the names and string constants in the templates that were read.
    """

    text: str
    source_map: SourceMap
    symbol: str
    token_key: str
    mentioned: frozenset[str]


@dataclass(frozen=True, slots=True)
class RenderOutcome:
    """`rendered` is None when `diagnostics` holds an error. `read` maps absolute paths to content hashes."""

    rendered: Rendered | None
    diagnostics: tuple[Diagnostic, ...]
    read: Mapping[str, str]
    missed: frozenset[str]


Row = tuple[Any, ...]
"""`Site.row`."""

Packed = tuple[list[Row], list[tuple[int, int, int]], list[tuple[int, int, int, int, int, bool]]]
"""Sites; frames as (site, parent, iteration); segments as (length, site, frame, line, column, exact), line −1 where
the text was not copied."""


def packed_bytes(values: object) -> bytes:
    """Plain values as MessagePack; strings may hold the lone surrogates of names that are not UTF-8."""
    packed: bytes = msgpack.packb(values, unicode_errors="surrogatepass")
    return packed


def plain_values(data: bytes) -> Any:
    """The inverse of `packed_bytes`, sequences as tuples. Nothing in `data` is executed. Raises ValueError."""
    return msgpack.unpackb(data, use_list=False, unicode_errors="surrogatepass", strict_map_key=True)


class PackedSourceMap(SourceMap):
    """A `SourceMap` that is unpacked by the first question."""

    def __init__(self, text: str, packed: bytes | Packed) -> None:
        self.text = text
        self._packed = packed

    @property
    def packed(self) -> bytes:
        """The segments and frames as bytes (`packed_bytes`)."""
        return self._packed if isinstance(self._packed, bytes) else packed_bytes(self._packed)

    def __getattr__(self, name: str) -> Any:
        if name not in ("segments", "frames", "_starts", "_lines"):
            raise AttributeError(name)
        segments, frames = unpack(self._packed)
        super().__init__(self.text, segments, frames)
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return (PackedSourceMap, (self.text, self.packed))


def map_of(text: MappedText, fallback: Site) -> PackedSourceMap:
    """The map of `text`; `fallback` is the site of characters that no site printed."""
    # Sites are distinguished by identity: the generated code hands out the same object for the same place.
    numbers: dict[int, int] = {}
    rows: list[tuple[Any, ...]] = []
    frames: list[tuple[int, int, int]] = []
    segments: list[tuple[int, int, int, int, int, bool]] = []
    number_of, add = numbers.get, segments.append
    pending: list[tuple[Iterator[Node], int, Site]] = [(iter(text._nodes), -1, fallback)]
    while pending:
        nodes, frame, site = pending[-1]
        for node in nodes:
            inner = node[1] or site
            number = number_of(id(inner))
            if number is None:
                number = numbers[id(inner)] = len(rows)
                rows.append(inner.row)
            if isinstance(node, Wrap):
                frames.append((number, frame, node.iteration))
                pending.append((iter(node.children), len(frames) - 1, node.site))
                break
            length, _, position, exact = node
            if position is None:
                add((length, number, frame, -1, -1, exact))
            else:
                add((length, number, frame, position.line, position.column, exact))
        else:
            pending.pop()
    return PackedSourceMap(str.__str__(text), (rows, frames, segments))


def unpack(data: bytes | Packed) -> tuple[list[Segment], list[SiteFrame]]:
    """The segments and frames that `map_of` packed."""
    packed: Packed = plain_values(data) if isinstance(data, bytes) else data
    rows, packed_frames, packed_segments = packed
    sites = [
        Site(SiteKind(kind), Span(path, Position(line, column), Position(end_line, end_column)), label, names)
        for kind, path, line, column, end_line, end_column, label, names in rows
    ]
    frames = [SiteFrame(sites[site], parent, iteration) for site, parent, iteration in packed_frames]
    segments = []
    at = 0
    for length, number, frame, line, column, exact in packed_segments:
        site = sites[number]
        position = site.span.start if line < 0 else Position(line, column)
        segments.append(Segment(at, at + length, site, frame, position, line >= 0, exact))
        at += length
    return segments, frames
