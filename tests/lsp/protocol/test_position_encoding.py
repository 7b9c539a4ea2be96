"""Places between an editor's units and code points, clamped whatever is asked."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from ckwatch.model.text import Position
from ckwatch_lsp.protocol.position_encoding import PositionCodec, split_lines

ENCODINGS = ("utf-8", "utf-16", "utf-32")
TEXTS = st.text(st.sampled_from("ab\n\r é𝒳{"), max_size=40)

COLUMNS = [
    # line, code point, UTF-8, UTF-16, UTF-32
    ("abc", 2, 2, 2, 2),
    ("é𝒳b", 1, 2, 1, 1),
    ("é𝒳b", 2, 6, 3, 2),
    ("é𝒳b", 3, 7, 4, 3),
]


@pytest.mark.parametrize(("line", "column", "utf8", "utf16", "utf32"), COLUMNS)
def test_columns(line: str, column: int, utf8: int, utf16: int, utf32: int) -> None:
    for encoding, units in zip(ENCODINGS, (utf8, utf16, utf32), strict=True):
        codec = PositionCodec(split_lines(line), encoding)
        assert codec.encode(Position(0, column)) == types.Position(0, units)
        assert codec.decode(types.Position(0, units)) == Position(0, column)


def test_within_a_character_is_before_it() -> None:
    assert PositionCodec(split_lines("𝒳b"), "utf-16").decode(types.Position(0, 1)) == Position(0, 0)
    assert PositionCodec(split_lines("𝒳b"), "utf-8").decode(types.Position(0, 3)) == Position(0, 0)


CLAMPED = [
    ("ab\ncd\n", (0, 9), (0, 2)),
    ("ab\r\ncd", (0, 9), (0, 2)),
    ("ab\ncd\n", (7, 3), (2, 0)),
    ("ab\ncd", (7, 3), (1, 2)),
    ("", (0, 5), (0, 0)),
]


@pytest.mark.parametrize(("text", "given", "expected"), CLAMPED)
def test_places_past_an_end_are_the_end(text: str, given: tuple[int, int], expected: tuple[int, int]) -> None:
    assert PositionCodec(split_lines(text), "utf-16").decode(types.Position(*given)) == Position(*expected)


def test_a_lone_return_ends_a_line_for_editors_only() -> None:
    codec = PositionCodec(split_lines("a\rb\nc"), "utf-16", lone_returns=True)
    assert codec.encode(Position(0, 2)) == types.Position(1, 0)
    assert codec.decode(types.Position(1, 1)) == Position(0, 3)
    assert codec.encode(Position(1, 0)) == types.Position(2, 0)


@given(TEXTS)
def test_lines_are_as_the_protocol_counts_them(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert len(lines) == len(re.findall(r"\r\n|\r|\n", text)) + 1


@given(TEXTS, st.sampled_from(ENCODINGS), st.data())
def test_there_and_back(text: str, encoding: str, data: st.DataObject) -> None:
    lone = text.count("\r") != text.count("\r\n")
    codec = PositionCodec(split_lines(text), encoding, lone_returns=lone)
    ours = text.split("\n")
    line = data.draw(st.integers(0, len(ours) - 1))
    column = data.draw(st.integers(0, len(ours[line].removesuffix("\r"))))
    assert codec.decode(codec.encode(Position(line, column))) == Position(line, column)
