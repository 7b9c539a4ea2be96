"""Source maps as bytes: what a worker sends and the store keeps, unpacked when somebody asks.

Most renders are never asked where anything came from. Plain tuples of numbers with tables of sites and paths are an
order of magnitude cheaper to write and read than the objects themselves.
"""

from __future__ import annotations

import marshal
from typing import Any

from ckwatch.model.text import Position, Span
from ckwatch.sourcemap import Frame, Segment, Site, SiteKind, SourceMap


class PackedSourceMap(SourceMap):
    """A `SourceMap` that is unpacked by the first question."""

    def __init__(self, text: str, packed: bytes) -> None:
        self.text = text
        self.packed = packed

    def __getattr__(self, name: str) -> Any:
        if name not in ("segments", "frames", "_starts", "_lines"):
            raise AttributeError(name)
        segments, frames = unpack(self.packed)
        super().__init__(self.text, segments, frames)
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return (PackedSourceMap, (self.text, self.packed))


def packed(source_map: SourceMap) -> PackedSourceMap:
    """`source_map` with its segments and frames as bytes; itself if it is packed."""
    if isinstance(source_map, PackedSourceMap):
        return source_map
    return PackedSourceMap(source_map.text, pack(source_map))


def pack(source_map: SourceMap) -> bytes:
    """The bytes of a map's segments and frames."""
    paths: dict[str, int] = {}
    numbers: dict[int, int] = {}
    sites: list[tuple[Any, ...]] = []

    def number(site: Site) -> int:
        # By identity: the generated code hands out the same object for the same place.
        known = numbers.get(id(site))
        if known is None:
            span = site.span
            path = paths.setdefault(span.path, len(paths))
            places = (span.start.line, span.start.column, span.end.line, span.end.column)
            sites.append((site.kind.value, path, *places, site.label, site.names))
            known = numbers[id(site)] = len(sites) - 1
        return known

    frames = [(number(frame.site), frame.parent, frame.iteration) for frame in source_map.frames]
    segments = [
        (
            one.start,
            one.end,
            number(one.site),
            one.frame,
            one.position.line,
            one.position.column,
            one.verbatim,
            one.exact,
        )
        for one in source_map.segments
    ]
    return marshal.dumps((list(paths), sites, frames, segments))


def unpack(data: bytes) -> tuple[list[Segment], list[Frame]]:
    """The inverse of `pack`."""
    paths, packed_sites, packed_frames, packed_segments = marshal.loads(data)  # noqa: S302  # from our own worker or store
    sites = [
        Site(
            SiteKind(kind), Span(paths[path], Position(line, column), Position(to_line, to_column)), label, tuple(names)
        )
        for kind, path, line, column, to_line, to_column, label, names in packed_sites
    ]
    frames = [Frame(sites[site], parent, iteration) for site, parent, iteration in packed_frames]
    segments = [
        Segment(start, end, sites[site], frame, Position(line, column), verbatim, exact)
        for start, end, site, frame, line, column, verbatim, exact in packed_segments
    ]
    return segments, frames
