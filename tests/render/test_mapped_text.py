"""Mapped text is a `str` first: every operation gives what `str` gives, and the nodes always cover the text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.model.source_map import Origin, Site, SiteKind, SourceMap
from ckwatch.model.text import Position, span
from ckwatch.render.mapped_text import MappedText, Piece, Recorder, join, replace
from ckwatch.render.outcome import map_of
from helpers.each_row import each_row

SITE = Site(SiteKind.TEXT, span("/t/a.j2", 3, 2, 9, 0), "text")
PRINT = Site(SiteKind.EXPRESSION, span("/t/a.j2", 7, 0, 7, 9), "x")


def verbatim(text: str, site: Site) -> MappedText:
    recorder = Recorder()
    return recorder.concat([(recorder.keep(Piece(text, site, copied=True)),)])


def sample(text: str) -> MappedText:
    """Half copied, half printed."""
    half = len(text) // 2
    recorder = Recorder()
    piece = recorder.keep(Piece(text[:half], SITE, copied=True, prints=PRINT), None)
    return recorder.concat([(piece, text[half:])])


def covered(text: str) -> bool:
    segments = map_of(MappedText(text), SITE).segments
    at = 0
    for segment in segments:
        if segment.start != at or segment.end <= segment.start:
            return False
        at = segment.end
    return at == len(text)


OPERATIONS: list[Callable[[str], Any]] = [
    lambda s: s.upper(),
    lambda s: s.strip(),
    lambda s: s.lstrip("ab"),
    lambda s: s.rstrip("ab "),
    lambda s: s.title(),
    lambda s: s.center(30),
    lambda s: s.expandtabs(3),
    lambda s: s.replace("a", "bb"),
    lambda s: s.replace("ab", ""),
    lambda s: s.replace("", "-"),
    lambda s: s.replace("a", "b", 1),
    lambda s: s[1:4],
    lambda s: s[-3:],
    lambda s: s[::2],
    lambda s: s[4:1],
    lambda s: s + "x",
    lambda s: "x" + s,
    lambda s: s * 3,
    lambda s: -1 * s,
    lambda s: s.removeprefix("a"),
    lambda s: s.removesuffix("b"),
    lambda s: s.join(["1", "2", "3"]),
    lambda s: "".join(s.splitlines(keepends=True)),
    lambda s: s.splitlines(),
    lambda s: s.split(),
    lambda s: s.partition("a"),
    lambda s: s.zfill(12),
    lambda s: s.casefold(),
    lambda s: list(s),
    lambda s: f"{s}!",
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
@given(text=st.text(alphabet="ab \t\nßé😀", max_size=12))
def test_operations_agree_with_str(number: int, text: str) -> None:
    result = OPERATIONS[number](sample(text))
    expected = OPERATIONS[number](text)
    assert result == expected
    assert type(expected) is type(result) or isinstance(result, MappedText)
    for part in [result] if isinstance(result, str) else result:
        assert covered(part)


def test_a_cut_starts_at_its_own_place() -> None:
    text = verbatim("one\n  two", SITE)[6:]
    (segment,) = map_of(MappedText(text), SITE).segments
    assert (segment.position, segment.verbatim) == (Position(4, 2), True)


def test_replaced_text_belongs_to_the_site_it_stands_at() -> None:
    segments = map_of(replace(verbatim("int KERNEL_NAME()", SITE), "KERNEL_NAME", "gemm_12ab"), SITE).segments
    assert [(s.start, s.end, s.verbatim, s.position) for s in segments] == [
        (0, 4, True, Position(3, 2)),
        (4, 13, False, Position(3, 2)),
        (13, 15, True, Position(3, 17)),
    ]


def origin_at(found: SourceMap, offset: int) -> Origin:
    origin = found.origin_of_range(offset, offset + 1)
    assert origin is not None
    return origin


@each_row("between", ["", ", ", "; "])
@each_row("plain", [0, 1])
@each_row("count", [2, 3, 4, 5, 40])
def test_each_part_of_a_joined_text_keeps_its_place(between: str, plain: int, count: int) -> None:
    recorder = Recorder()
    text = "\n".join(f"line {number}" for number in range(count))
    lines = recorder.concat([(recorder.keep(Piece(text, SITE, copied=True)),)]).splitlines()
    separator = between if between != "; " else recorder.concat([(recorder.keep(Piece(between, PRINT, copied=True)),)])
    parts = [*["none"] * plain, *lines]
    joined = join(separator, parts)
    assert joined == str.join(separator, parts)
    at = 0
    found = map_of(MappedText(joined), SITE)
    for number, part in enumerate(parts):
        origin = origin_at(found, at)
        if number >= plain:
            column = 2 if number == plain else 0
            assert (origin.exact, origin.span.start) == (True, Position(3 + number - plain, column))
        else:
            assert origin.span.start == SITE.span.start
        at += len(part) + len(separator)
        if type(separator) is MappedText and number + 1 < len(parts):
            assert origin_at(found, at - 1).span.start == Position(7, 1)


def test_rearranged_text_is_approximate() -> None:
    assert map_of(MappedText(sample("abc").upper()), SITE).exact
    assert not map_of(MappedText("made of something"), SITE).exact


LONG = "".join(f"  int a{number} = f({number}, 'x');\n" for number in range(400))

DERIVED: list[Callable[[MappedText], Any]] = [
    *OPERATIONS,
    lambda s: s.split("\n"),
    lambda s: s.rsplit(None, 3),
    lambda s: s.rpartition("int"),
    lambda s: s.replace("int", MappedText("long")),
    lambda s: "".join(line + "!" for line in s.splitlines()),
    lambda s: join("; ", s.splitlines()),
]


def lines_executed(run: Callable[[], object]) -> int:
    """How many lines of the rendering modules run, which is what an operation costs on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if "/ckwatch/render/" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return count


@each_row("number", range(len(DERIVED)))
def test_twice_the_text_is_at_most_twice_the_work(number: int) -> None:
    def made(text: str) -> int:
        recorder = Recorder()
        lines = text.splitlines(keepends=True)
        pieces = [recorder.keep(Piece(line, SITE, copied=True)) for line in lines]
        captured = recorder.concat([(piece,) for piece in pieces])

        def derive() -> None:
            result = DERIVED[number](captured)
            parts = [result] if isinstance(result, str) else list(result)
            around = recorder.keep(Piece(), None)
            whole = recorder.concat([(around, MappedText(part)) for part in parts])
            map_of(whole, SITE).segments  # noqa: B018  # unpacks the map

        return lines_executed(derive)

    assert made(LONG + LONG) <= 2.2 * made(LONG) + 500
