"""31, 36 row about C++ fails for each way in which an answer may be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pytest

from ckwatch.cpp.places import range_from
from ckwatch.wire.cpp import CppAnswer, CppQuestion
from ckwatch.wire.encoding import adapter
from helpers.cpp_answers import Judging, Row, cursors, line_of, says, tables
from helpers.each_row import each_row

TEXT = "int größe = 1; /* 🚀 */ int b = größe;\nint c = größe + b;\n"
PATH = "/w/templates/t.cpp.j2"
URI = f"file://{PATH}"


def place(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def renamed(*edits: tuple[int, int, int, str]) -> dict[str, Any]:
    changes = [{"range": place(*where), "newText": text} for *where, text in edits]
    return {"result": {"changes": {URI: changes}}}


def completed(text: str) -> dict[str, Any]:
    return {"result": {"items": [{"label": "größe", "textEdit": {"newText": text, "range": place(1, 8, 10)}}]}}


def hover(text: str, others: Sequence[object] = (), reach: object = None) -> dict[str, Any]:
    about = place(0, 4, 9) if reach is None else reach
    contents = {"kind": "markdown", "value": text}
    return {"result": {"contents": contents, "range": about, "produced": "", "others": [*others]}}


LOCATION = {"ask": "definition", "locations": ("t.cpp.j2: int b = ⟦größe⟧;",)}
RENAME = {"ask": "rename", "becomes": ("t.cpp.j2: int maß = 1; /* 🚀 */ int b = maß;", "t.cpp.j2: int c = maß + b;")}
HOVER = {"says": ("Value = `1`",), "about": "int ⟦größe⟧ = 1", "elsewhere": {"Value = `2`": ("two",)}}
TWO = [{"text": "Value = `2`", "units": ["two"]}]
TAKEN = {"ask": "completion", "taken": {"größe": "int c = größeöße + b;"}}
HIGHLIGHTS = {"ask": "highlights", "highlights": ("written: int ⟦größe⟧ =", "…")}
RANGE = {"uri": URI, "range": place(0, 31, 36)}

RIGHT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (LOCATION, {"result": [RANGE]}),
    ({"reason": "not here"}, {"reason": "not here"}),
    ({"reason": "/^not/"}, {"reason": "not here"}),
    (RENAME, renamed((1, 8, 13, "maß"), (0, 31, 36, "maß"), (0, 4, 9, "maß"))),
    (HOVER, hover("Value = `1`", TWO)),
    (TAKEN, completed("größe")),
    ({"nothing": True}, {}),
    (HIGHLIGHTS, {"result": [{"range": place(0, 4, 9), "kind": 3}, {"range": place(1, 8, 13), "kind": 2}]}),
    ({"ask": "tokens", "tokens": ("variable: int ⟦b⟧ =",)}, {"result": [(0, 27, 1, "variable", ())]}),
    (
        {"ask": "hints", "hints": ("a: at int c = ‸größe",)},
        {"result": [{"position": {"line": 1, "character": 8}, "label": "a:"}]},
    ),
]

WRONG: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("one column off", LOCATION, {"result": [{"uri": URI, "range": place(0, 32, 37)}]}),
    ("another place of the same name", LOCATION, {"result": [{"uri": URI, "range": place(1, 8, 13)}]}),
    ("another file", LOCATION, {"result": [{"uri": "file:///w/templates/at.cpp.j2", "range": place(0, 31, 36)}]}),
    ("a place more", LOCATION, {"result": [RANGE, {"uri": URI, "range": place(1, 8, 13)}]}),
    ("the same place twice", LOCATION, {"result": [RANGE, RANGE]}),
    ("no place", LOCATION, {}),
    ("a refusal", LOCATION, {"reason": "not here"}),
    ("no refusal", {"ask": "definition", "reason": "not here"}, {"result": [RANGE]}),
    (
        "an answer with the refusal",
        {"ask": "definition", "reason": "not here"},
        {"reason": "not here", "result": [RANGE]},
    ),
    ("another reason", {"reason": "not here"}, {"reason": "nor there"}),
    ("one more edit is needed", RENAME, renamed((0, 4, 9, "maß"), (0, 31, 36, "maß"))),
    ("an edit in UTF-16", RENAME, renamed((0, 4, 9, "maß"), (0, 32, 37, "maß"), (1, 8, 13, "maß"))),
    ("another value", HOVER, hover("Value = `2`", TWO)),
    ("about something else", HOVER, hover("Value = `1`", TWO, place(0, 27, 28))),
    ("other instances are not compared", HOVER, hover("Value = `1`")),
    ("of another unit", HOVER, hover("Value = `1`", [{"text": "Value = `2`", "units": ["one", "two"]}])),
    ("the prefix twice", TAKEN, completed("grgröße")),
    ("what is not offered", {"ask": "completion", "missing": ("größe",)}, completed("größe")),
    ("something", {"ask": "definition", "nothing": True}, {"result": [RANGE]}),
    ("read instead of written", HIGHLIGHTS, {"result": [{"range": place(0, 4, 9), "kind": 2}]}),
    ("the other side", LOCATION, {"result": [RANGE], "side": "device"}),
    ("not ready", LOCATION, {"result": [RANGE], "ready": False}),
    ("another type", {"ask": "tokens", "tokens": ("variable: int ⟦b⟧ =",)}, {"result": [(0, 27, 1, "type", ())]}),
]


def judged(row: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    values = {"name": "row", "ask": "hover", "file": "t.cpp.j2", **row}
    return Judging(Row.model_validate(values), adapter(CppAnswer).validate_python(answer), PATH, lambda _: TEXT).judge()


@each_row(("row", "answer"), RIGHT)
def test_right_answers_are_right(row: dict[str, Any], answer: dict[str, Any]) -> None:
    assert judged(row, answer) == []


@each_row(("row", "answer"), [each[1:] for each in WRONG])
def test_wrong_answers_are_wrong(row: dict[str, Any], answer: dict[str, Any]) -> None:
    assert judged(row, answer)


def test_a_place_must_be_the_only_one() -> None:
    with pytest.raises(AssertionError, match="stands 2 times"):
        judged({"ask": "definition", "locations": ("t.cpp.j2: = ⟦größe⟧",)}, {"result": [RANGE]})
    with pytest.raises(AssertionError, match="stands 3 times"):
        cursors(TEXT, "grö‸ße")


def test_what_came_is_shown_with_its_place() -> None:
    complaint = judged(LOCATION, {"result": [{"uri": URI, "range": place(0, 32, 37)}]})[0]
    assert "expected: \n    t.cpp.j2: int b = ⟦größe⟧;" in complaint
    assert f"{PATH}: int größe = 1; /* 🚀 */ int b = g⟦röße;⟧" in complaint


def test_every_question_has_rows() -> None:
    rows = [row for table in tables() for row in table.row]
    assert {row.ask for row in rows} == set(get_args(CppQuestion))
    assert len({(str(table), row.name) for table in tables() for row in table.row}) == len(rows)
    assert len(rows) >= 80


def test_regular_expressions_stand_between_slashes() -> None:
    assert says("/Value = `1\\b/", "Value = `1 (0x1)`")
    assert not says("/Value = `1\\b/", "Value = `16`")
    assert says("/", "a/b")
    assert line_of(TEXT, range_from(place(1, 8, 8))) == "int c = ‸größe + b;"
