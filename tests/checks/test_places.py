"""From clang's carets and ranges to spans of the rendered file and of the template."""

from __future__ import annotations

import pytest

from ckwatch.checks.clang_output import ClangPosition, ClangRange
from ckwatch.checks.places import RenderedFile, extent
from ckwatch.model.source_map import Segment, Site, SiteKind, SourceMap
from ckwatch.model.text import LineIndex, Position, span
from helpers.clang_logs import TEMPLATE, mapped
from helpers.each_row import each_row

LINES = [
    "int größe = alpha + beta(gamma, 1);",
    "CHECK(n < limit);",
    "\tint x = 3",
    "",
]


def text_at(line: int, column: int, *ranges: tuple[int, int, int, int]) -> str:
    found = tuple(ClangRange(ClangPosition(a, b), ClangPosition(c, d)) for a, b, c, d in ranges)
    start, end = extent(
        lambda number: LINES[number] if number < len(LINES) else None, ClangPosition(line, column), found
    )
    index = LineIndex("\n".join(LINES))
    return "\n".join(LINES)[index.offset(start) : index.offset(end)]


@each_row(
    ("line", "column", "ranges", "expected"),
    [
        (1, 5, [], "größe"),
        (1, 15, [], "alpha"),
        (1, 15, [(1, 15, 1, 37)], "alpha + beta(gamma, 1)"),
        (1, 23, [(1, 15, 1, 37), (1, 23, 1, 37)], "beta(gamma, 1)"),
        (1, 21, [(1, 15, 1, 20), (1, 23, 1, 27)], "+"),  # no range holds the caret
        (2, 11, [(2, 1, 2, 17)], "limit"),  # a macro's argument
        (2, 1, [(2, 1, 2, 17)], "CHECK(n < limit)"),
        (3, 11, [], "3"),  # behind the last character: a missing semicolon
        (3, 5, [], "t"),  # in white space
        (4, 1, [], ""),
        (9, 9, [], ""),
    ],
)
def test_extent(line: int, column: int, ranges: list[tuple[int, int, int, int]], expected: str) -> None:
    assert text_at(line, column, *ranges) == expected


def printed_by_a_loop() -> SourceMap:
    """`{% for name in names %}{{ template_argument(name) }},{% endfor %}`: no expression mentions MPerBlock."""
    text = "A</* MPerBlock */ 128, /* NPerBlock */ 64>"
    site = Site(
        SiteKind.EXPRESSION, span(TEMPLATE, 4, 2, 4, 32), "template_argument(name)", ("template_argument", "name")
    )
    start, middle, end = text.index("/*"), text.index(", "), len(text) - 1
    segments = []
    for low, high, own in ((0, start, None), (start, middle, site), (middle, middle + 2, None), (middle + 2, end, site), (end, end + 1, None)):  # fmt: skip
        plain = Site(SiteKind.TEXT, span(TEMPLATE, 0, low, 0, high), "")
        segments.append(Segment(low, high, own or plain, -1, (own or plain).span.start, verbatim=own is None))
    return SourceMap(text, segments, ())


def test_the_comment_before_an_argument_names_it() -> None:
    rendered = RenderedFile("/ws/x.hip", printed_by_a_loop())
    assert rendered.argument_place("NPerBlock") == span(TEMPLATE, 4, 2, 4, 32)
    assert rendered.argument_place("KPerBlock") is None
    place = rendered.place_of(Position(0, 39), Position(0, 41))
    assert place is not None
    assert "NPerBlock" in place.names
    assert "MPerBlock" not in place.names


@pytest.mark.parametrize(
    ("first", "last", "exact"),
    [
        ((0, 0), (0, 5), True),
        ((0, 3), (0, 3), True),
        ((1, 16), (1, 19), False),  # printed
        ((0, 3), (1, 18), False),  # partly printed
    ],
)
def test_only_template_text_has_an_exact_span(first: tuple[int, int], last: tuple[int, int], exact: bool) -> None:
    rendered = RenderedFile("/ws/x.hip", mapped("using A = B<\n/* MPerBlock */ 128>;\n"))
    found = rendered.exact_span(Position(*first), Position(*last))
    assert found == (span(TEMPLATE, *first, *last) if exact else None)
