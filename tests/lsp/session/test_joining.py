"""Outlines and tokens of several languages become one."""

from __future__ import annotations

from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.text_parts import SemanticToken
from ckwatch_lsp.session.joining import joined_outline, merged_tokens

Tree = tuple[str, list["Tree"]]


def symbol(name: str, first: int, last: int, *children: types.DocumentSymbol) -> types.DocumentSymbol:
    """One of whole lines."""
    reach = types.Range(types.Position(first, 0), types.Position(last, 0))
    return types.DocumentSymbol(name, types.SymbolKind.Function, reach, reach, children=list(children))


def names(symbols: list[types.DocumentSymbol]) -> list[Tree]:
    return [(one.name, names(list(one.children or ()))) for one in symbols]


def test_each_is_within_the_innermost_that_holds_it() -> None:
    jinja = [symbol("block", 0, 20, symbol("macro", 5, 10)), symbol("set", 31, 32)]
    cpp = [symbol("in macro", 6, 7), symbol("in block", 12, 13), symbol("function", 30, 40, symbol("local", 35, 36))]
    assert names(joined_outline([jinja, cpp])) == [
        ("block", [("macro", [("in macro", [])]), ("in block", [])]),
        ("function", [("set", []), ("local", [])]),
    ]


def test_a_jinja_item_is_within_the_innermost_cpp_and_holds_what_that_held() -> None:
    jinja = [symbol("macro", 2, 8)]
    cpp = [symbol("namespace", 0, 20, symbol("struct", 1, 10, symbol("field", 3, 4)))]
    assert names(joined_outline([jinja, cpp])) == [("namespace", [("struct", [("macro", [("field", [])])])])]


def test_of_two_that_are_equal_the_first_is_outside_and_what_overlaps_stays_beside() -> None:
    assert names(joined_outline([[symbol("a", 0, 5)], [symbol("b", 0, 5)]])) == [("a", [("b", [])])]
    assert names(joined_outline([[symbol("a", 3, 8)], [symbol("b", 0, 5)]])) == [("b", []), ("a", [])]
    assert joined_outline([]) == []


def token(start: int, end: int, kind: str) -> SemanticToken:
    return SemanticToken(Range(Position(0, start), Position(0, end)), kind)


def test_tokens_are_in_order_and_never_overlap() -> None:
    jinja = [token(4, 8, "macro"), token(12, 14, "macro")]
    cpp = [token(0, 3, "type"), token(3, 5, "type"), token(6, 7, "type"), token(8, 9, "type"), token(10, 20, "type")]
    merged = merged_tokens([jinja, (), cpp])
    assert [(one.range.start.column, one.type) for one in merged] == [
        (0, "type"),
        (4, "macro"),
        (8, "type"),
        (12, "macro"),
    ]
    assert merged_tokens([]) == []
