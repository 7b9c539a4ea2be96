"""31, 36 row about C++ fails for each way in which an answer may be wrong."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from ckwatch.wire.cpp import CppAnswer, CppQuestion
from cpp_answers import Judging, Row, cursors, line_of, says, tables

TEXT = "int größe = 1; /* 🚀 */ int b = größe;\nint c = größe + b;\n"
PATH = "/w/templates/t.cpp.j2"


def place(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "column": start}, "end": {"line": line, "column": end}}


def edit(line: int, start: int, end: int, text: str) -> dict[str, Any]:
    return {"span": {"path": PATH, **place(line, start, end)}, "text": text}


def completed(text: str) -> dict[str, Any]:
    return {"items": [{"label": "größe", "text": text, "range": place(1, 8, 10)}]}


LOCATION = {"locations": ("t.cpp.j2: int b = ⟦größe⟧;",)}
RENAME = {"becomes": ("t.cpp.j2: int maß = 1; /* 🚀 */ int b = maß;", "t.cpp.j2: int c = maß + b;")}
HOVER = {"says": ("Value = `1`",), "about": "int ⟦größe⟧ = 1", "elsewhere": {"Value = `2`": ("two",)}}
VALUE = {"markdown": "Value = `1`", "range": place(0, 4, 9)}
TWO = [{"text": "Value = `2`", "units": ["two"]}]
TAKEN = {"taken": {"größe": "int c = größeöße + b;"}}
HIGHLIGHTS = {"highlights": ("written: int ⟦größe⟧ =", "…")}
RANGE = {"path": PATH, "range": place(0, 31, 36)}

RIGHT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (LOCATION, {"locations": [RANGE]}),
    ({"reason": "not here"}, {"reason": "not here"}),
    ({"reason": "/^not/"}, {"reason": "not here"}),
    (RENAME, {"edits": [edit(1, 8, 13, "maß"), edit(0, 31, 36, "maß"), edit(0, 4, 9, "maß")]}),
    (HOVER, {"hover": {**VALUE, "others": TWO}}),
    (TAKEN, {"completions": completed("größe")}),
    ({"nothing": True}, {}),
    (HIGHLIGHTS, {"highlights": [{"range": place(0, 4, 9), "kind": 3}, {"range": place(1, 8, 13), "kind": 2}]}),
    ({"tokens": ("variable: int ⟦b⟧ =",)}, {"tokens": [(0, 27, 1, "variable", ())]}),
    ({"hints": ("a: at int c = ‸größe",)}, {"hints": [{"position": {"line": 1, "column": 8}, "label": "a:"}]}),
]

WRONG: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("one column off", LOCATION, {"locations": [{"path": PATH, "range": place(0, 32, 37)}]}),
    ("another place of the same name", LOCATION, {"locations": [{"path": PATH, "range": place(1, 8, 13)}]}),
    ("another file", LOCATION, {"locations": [{"path": "/w/templates/at.cpp.j2", "range": place(0, 31, 36)}]}),
    ("a place more", LOCATION, {"locations": [RANGE, {"path": PATH, "range": place(1, 8, 13)}]}),
    ("the same place twice", LOCATION, {"locations": [RANGE, RANGE]}),
    ("no place", LOCATION, {}),
    ("a refusal", LOCATION, {"reason": "not here"}),
    ("no refusal", {"reason": "not here"}, {"locations": [RANGE]}),
    ("an answer with the refusal", {"reason": "not here"}, {"reason": "not here", "locations": [RANGE]}),
    ("another reason", {"reason": "not here"}, {"reason": "nor there"}),
    ("one more edit is needed", RENAME, {"edits": [edit(0, 4, 9, "maß"), edit(0, 31, 36, "maß")]}),
    ("an edit in UTF-16", RENAME, {"edits": [edit(0, 4, 9, "maß"), edit(0, 32, 37, "maß"), edit(1, 8, 13, "maß")]}),
    ("another value", HOVER, {"hover": {**VALUE, "markdown": "Value = `2`", "others": TWO}}),
    ("about something else", HOVER, {"hover": {**VALUE, "range": place(0, 27, 28), "others": TWO}}),
    ("other instances are not compared", HOVER, {"hover": VALUE}),
    ("of another unit", HOVER, {"hover": {**VALUE, "others": [{"text": "Value = `2`", "units": ["one", "two"]}]}}),
    ("the prefix twice", TAKEN, {"completions": completed("grgröße")}),
    ("what is not offered", {"missing": ("größe",)}, {"completions": completed("größe")}),
    ("something", {"nothing": True}, {"locations": [RANGE]}),
    ("read instead of written", HIGHLIGHTS, {"highlights": [{"range": place(0, 4, 9), "kind": 2}]}),
    ("the other side", LOCATION, {"locations": [RANGE], "side": "device"}),
    ("not ready", LOCATION, {"locations": [RANGE], "ready": False}),
    ("another type", {"tokens": ("variable: int ⟦b⟧ =",)}, {"tokens": [(0, 27, 1, "type", ())]}),
]


def judged(row: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    values = {"name": "row", "ask": "hover", "file": "t.cpp.j2", **row}
    return Judging(Row.model_validate(values), CppAnswer.model_validate(answer), PATH, lambda _: TEXT).judge()


@pytest.mark.parametrize(("row", "answer"), RIGHT)
def test_right_answers_are_right(row: dict[str, Any], answer: dict[str, Any]) -> None:
    assert judged(row, answer) == []


@pytest.mark.parametrize(("row", "answer"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_wrong_answers_are_wrong(row: dict[str, Any], answer: dict[str, Any]) -> None:
    assert judged(row, answer)


def test_a_place_must_be_the_only_one() -> None:
    with pytest.raises(AssertionError, match="stands 2 times"):
        judged({"locations": ("t.cpp.j2: = ⟦größe⟧",)}, {"locations": [RANGE]})
    with pytest.raises(AssertionError, match="stands 3 times"):
        cursors(TEXT, "grö‸ße")


def test_what_came_is_shown_with_its_place() -> None:
    complaint = judged(LOCATION, {"locations": [{"path": PATH, "range": place(0, 32, 37)}]})[0]
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
    found = CppAnswer.model_validate({"locations": [{"path": PATH, "range": place(1, 8, 8)}]})
    assert line_of(TEXT, found.locations[0].range) == "int c = ‸größe + b;"
