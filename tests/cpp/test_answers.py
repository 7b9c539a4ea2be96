"""Clients get a real clangd's answers, each place in the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ckwatch.cpp import answers
from ckwatch.cpp.clangd import ClangdRefusalError, MemoryText
from ckwatch.cpp.mappings import NotForwardedError
from ckwatch.cpp.places import MEMORY_FOLDER, HeaderPlaces, Places, TemplatePlaces, range_from, uri_of
from ckwatch.cpp.questions import Question
from ckwatch.cpp.supervisor import ClangdSupervisor
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import LineIndex, Position, Range
from ckwatch.wire.cpp import CppRequest, Place
from fakes.saved_answers import ANSWERS, TEMPLATE, UNIT, URI, saved_places, saved_source

LINES = LineIndex(TEMPLATE)


@pytest.fixture
def places(tmp_path: Path) -> TemplatePlaces:
    return saved_places(tmp_path)


def text_at(given: Mapping[str, Any] | Range) -> str:
    """Return the text at a range of the template, with its line from one."""
    place = given if isinstance(given, Range) else range_from(given)
    return f"{place.start.line + 1}:{TEMPLATE[LINES.offset(place.start) : LINES.offset(place.end)]}"


def position(places: Places, text: str, more: int = 0) -> Position:
    return places.source.lines.position(places.source.text.index(text) + more)


def test_a_hover(places: TemplatePlaces) -> None:
    found = answers.hover(ANSWERS["hover"], places, position(places, "tile"))
    assert found is not None
    assert (text_at(found["range"]), found["produced"]) == ("6:tile", "")
    assert "Value = `128 (0x80)`" in found["contents"]["value"]
    assert answers.gist(found) == "Type: `const int`  \nValue = `128 (0x80)`"


def test_a_hover_on_what_an_expression_writes(places: TemplatePlaces) -> None:
    answer = {"contents": "text", "range": ANSWERS["hover"]["range"]}
    found = answers.hover(answer, places, position(places, "128"))
    assert found is not None
    assert (found["contents"]["value"], found["produced"]) == ("text", "128")


def test_no_hover(places: TemplatePlaces) -> None:
    assert answers.hover(None, places, Position(0, 0)) is None
    assert answers.gist({"contents": {"value": "### nothing of the kind"}}) == ""


@pytest.mark.parametrize(
    ("markdown", "gist"),
    [
        ("### type-alias `T`\n\n---\n```cpp\nusing T = float\n```", ""),
        ("### function `f`\n→ `int`\n\n", "→ `int`"),
        ("Size: 4 bytes, alignment 4 bytes\n", "Size: 4 bytes, alignment 4 bytes"),
    ],
)
def test_the_gist(markdown: str, gist: str) -> None:
    assert answers.gist({"contents": {"value": markdown}}) == gist


def test_completions(places: TemplatePlaces) -> None:
    found = answers.completions(ANSWERS["completion"], places, position(places, "sha.", 4))
    assert [(one["label"], one["detail"], one["kind"], one["textEdit"]["newText"]) for one in found["items"]] == [
        ("width", "int", 5, "width"),
        ("depth", "float", 5, "depth"),
    ]
    assert {text_at(one["textEdit"]["range"]) for one in found["items"]} == {"20:"}
    assert not found["isIncomplete"]


def test_completions_replace_what_is_typed(places: TemplatePlaces) -> None:
    found = answers.completions(ANSWERS["completion_name"], places, position(places, "return ti", 9))
    [one] = found["items"]
    assert (one["textEdit"]["newText"], text_at(one["textEdit"]["range"])) == ("tile", "22:ti")
    assert "😀 é" in str(one["documentation"])


def item(places: Places, start: str, end: int, text: str, **more: Any) -> dict[str, Any]:
    begin = position(places, start)
    edit = {
        "range": {
            "start": {"line": begin.line, "character": begin.column},
            "end": {"line": begin.line, "character": begin.column + end},
        },
        "newText": text,
    }
    return {"label": text, "textEdit": edit, **more}


def test_completions_behind_what_an_expression_writes(tmp_path: Path) -> None:
    """`store_{{ n }}` in a macro: what an expression wrote stays, and what does not begin like it does not fit."""
    places = saved_places(tmp_path)
    cursor = position(places, "store_0(int", 7)
    listed = [item(places, "store_0(int", 7, text) for text in ("store_0more", "other", "store_0{{")]
    found = answers.completions(listed, places, cursor)
    assert [(one["textEdit"]["newText"], text_at(one["textEdit"]["range"])) for one in found["items"]] == [
        ("more", "3:")
    ]
    assert [one["filterText"] for one in found["items"]] == [None]


def test_completions_that_cannot_be_made(places: TemplatePlaces) -> None:
    cursor = position(places, "128", 2)
    incomplete = {"isIncomplete": True, "items": [item(places, "128", 2, "12"), {"label": "without an edit"}]}
    found = answers.completions(incomplete, places, cursor)
    assert found == {"items": [], "isIncomplete": True}
    assert answers.completions(None, places, cursor)["items"] == []


def test_completions_with_all_they_may_have(places: TemplatePlaces) -> None:
    more = {"insertTextFormat": 2, "documentation": "text", "deprecated": True, "sortText": "s", "filterText": "tile"}
    listed = [item(places, "tile;", 4, "tile(${1:x})", **more)]
    listed[0]["textEdit"]["insert"] = listed[0]["textEdit"].pop("range")
    [one] = answers.completions(listed, places, position(places, "tile;", 2))["items"]
    assert {key: one[key] for key in more} == more
    assert text_at(one["textEdit"]["range"]) == "9:tile"


def test_locations(places: TemplatePlaces, tmp_path: Path) -> None:
    found = answers.locations(ANSWERS["references"], places)
    assert [text_at(one.range) for one in found] == ["6:tile", "9:tile", "11:tile", "22:tile"]
    assert {one.uri for one in found} == {uri_of(str(tmp_path / "k.cpp.j2"))}


def test_locations_of_another_form(places: TemplatePlaces) -> None:
    where = ANSWERS["definition"][0]["range"]
    header = {"targetUri": "file:///usr/a%20b.h", "targetSelectionRange": where, "targetRange": where}
    lent = {"uri": f"file://{MEMORY_FOLDER}/main/device/k.cpp", "range": where}
    found = answers.locations([header, header, lent, {"uri": "untitled:1", "range": where}], places)
    assert [one.uri for one in found] == ["file:///usr/a%20b.h"]
    assert [one.uri for one in answers.locations(header, places)] == ["file:///usr/a%20b.h"]
    assert answers.locations(None, places) == []


def test_locations_in_the_rendered_source(tmp_path: Path) -> None:
    places = Places(URI, UNIT, saved_source(tmp_path), lambda _path: False)
    [found] = answers.locations(ANSWERS["definition"], places)
    assert (found.uri, found.range.start.line) == (f"rendered:{UNIT}", 3)


def test_highlights(places: TemplatePlaces) -> None:
    found = answers.highlights([*ANSWERS["highlights"], *ANSWERS["highlights"]], places)
    assert [(text_at(one["range"]), one["kind"]) for one in found] == [
        ("6:tile", 1),
        ("9:tile", 2),
        ("11:tile", 2),
        ("22:tile", 2),
    ]
    assert answers.highlights((), places) == []


def tree(symbols: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [
        (one["name"], text_at(one["selectionRange"]), *([tree(one["children"])] if one["children"] else []))
        for one in symbols
    ]


def test_symbols(places: TemplatePlaces) -> None:
    """`store_0` and `store_1` are one place of the template, and `depth` stands there although its type does not."""
    assert tree(answers.symbols(ANSWERS["symbols"], places)) == [
        ("tile", "6:tile"),
        ("Shape", "7:Shape", [("width", "7:width"), ("depth", "7:depth")]),
        ("store_0", "3:store_{{ n }}"),
        ("scale", "9:scale"),
        ("big", "11:big"),
        ("use", "18:use"),
    ]
    whole = answers.symbols(ANSWERS["symbols"], places)[-1]["range"]
    assert (whole["start"]["line"], whole["end"]["line"]) == (17, 22)
    assert answers.symbols(None, places) == []


def test_symbols_take_the_place_of_what_holds_them_and_stands_elsewhere(places: TemplatePlaces) -> None:
    shape, store = ANSWERS["symbols"][1:3]
    backwards = {"start": shape["selectionRange"]["start"], "end": store["selectionRange"]["end"]}
    namespace = {"name": "n", "kind": 3, "range": backwards, "selectionRange": backwards, "children": [shape]}
    assert [one["name"] for one in answers.symbols([namespace], places)] == ["Shape"]


def test_tokens(places: TemplatePlaces) -> None:
    legend = ANSWERS["legend"]
    found = answers.tokens(ANSWERS["tokens"], places, legend["types"], legend["modifiers"])
    assert found == sorted(found)
    texts = [
        (f"{line + 1}:{TEMPLATE[LINES.starts[line] + column :][:length]}", kind)
        for line, column, length, kind, _ in found
    ]
    assert texts[:7] == [
        ("3:value", "parameter"),
        ("3:twice", "variable"),
        ("3:value", "parameter"),
        ("3:*", "operator"),
        ("3:twice", "variable"),
        ("6:tile", "variable"),
        ("7:Shape", "class"),
    ]
    [marks] = [one[4] for one in found if one[:2] == [5, 14]]
    assert marks == ["declaration", "definition", "readonly", "fileScope"]
    assert answers.tokens(None, places, (), ()) == []
    assert answers.tokens(ANSWERS["tokens"], places, (), ()) == []


def test_hints(places: TemplatePlaces) -> None:
    found = answers.hints(ANSWERS["hints"], places)
    said = [
        (one["position"]["line"] + 1, one["label"], one.get("kind", 0), one["paddingLeft"], one["paddingRight"])
        for one in found
    ]
    assert said == [
        (11, "factor:", 2, False, True),
        (19, ".width=", 0, False, False),
        (19, ".depth=", 0, False, False),
        (20, ": int", 1, False, False),
        (20, "value:", 2, False, True),
        (20, "value:", 2, False, True),
    ]
    within = range_from({"start": {"line": 19, "character": 0}, "end": {"line": 19, "character": 20}})
    assert [one["label"] for one in answers.hints(ANSWERS["hints"], places, within)] == [": int"]
    assert answers.hints([{**ANSWERS["hints"][0], "label": "text"}], places)[0]["label"] == "text"
    assert answers.hints(None, places) == []


def test_a_name(places: TemplatePlaces) -> None:
    found = answers.name_at(ANSWERS["prepare_rename"], places, "tile")
    assert (found["placeholder"], text_at(found["range"])) == ("tile", "6:tile")


def test_a_name_in_another_template(tmp_path: Path) -> None:
    places = TemplatePlaces(URI, UNIT, saved_source(tmp_path), lambda _path: False, "/other.j2")
    with pytest.raises(NotForwardedError, match="the name stands in another file"):
        answers.name_at(ANSWERS["prepare_rename"], places, "tile")


def test_edits(places: TemplatePlaces) -> None:
    found = answers.edits(ANSWERS["rename"], places)
    assert [place.range.start.line + 1 for place, _ in found] == [6, 9, 11, 22]
    assert {text for _, text in found} == {"width"}


def test_edits_of_other_sides_are_those_of_the_template(places: TemplatePlaces) -> None:
    """clangd also changes the other texts that are lent to it."""
    assert len(ANSWERS["rename_two"]["changes"]) == 2
    assert answers.edits(ANSWERS["rename_two"], places) == answers.edits(ANSWERS["rename_scale"], places)


def change(places: Places, old: str, new: str, uri: str = URI) -> dict[str, Any]:
    return {"changes": {uri: [item(places, old, len(old), new)["textEdit"]]}}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("128", "7", "`{{ MPerBlock }}` at k.cpp.j2:6:22 writes it"),
        ("twice", "two", "the text at k.cpp.j2:3:25 stands 2 times in the rendered source"),
        ("tile", "a{{b", "the new text would be read as Jinja"),
        ("scale", "{%", "the new text would be read as Jinja"),
        ("1, 2}", "{1, 2}}", "the new text would be read as Jinja"),
        ("tile", f'"{MEMORY_FOLDER}/main/host/k.cpp"', "the new text would name a file that does not exist"),
    ],
)
def test_edits_that_cannot_be_made(old: str, new: str, reason: str, places: TemplatePlaces) -> None:
    with pytest.raises(NotForwardedError) as refused:
        answers.edits(change(places, old, new), places)
    assert refused.value.message == reason


def test_edits_of_files(places: TemplatePlaces, tmp_path: Path) -> None:
    with pytest.raises(NotForwardedError, match=r"^/usr/h.h would have to be changed too"):
        answers.edits(change(places, "tile", "x", "file:///usr/h.h"), places)
    with pytest.raises(NotForwardedError, match="a file would have to be made"):
        answers.edits({"documentChanges": [{"kind": "create", "uri": "file:///x"}]}, places)
    of_documents = {
        "documentChanges": [{"textDocument": {"uri": URI}, "edits": change(places, "tile", "x")["changes"][URI]}]
    }
    assert len(answers.edits(of_documents, places)) == 1
    assert answers.edits(None, places) == []
    fixed = TemplatePlaces(URI, UNIT, places.source, lambda _path: True, places.path)
    with pytest.raises(NotForwardedError, match="comes with ckwatch and is not changed"):
        answers.edits(change(places, "tile", "x"), fixed)
    header = HeaderPlaces("file:///usr/h.h")
    with pytest.raises(NotForwardedError, match="headers are not changed"):
        answers.edits(change(places, "tile", "x", header.uri), header)


OWN = f"{MEMORY_FOLDER}/main/host/k.cpp"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f"conflict at {OWN}:AT", "conflict at {folder}/k.cpp.j2:6:15"),
        (f"struct `Holder<(lambda at {OWN}:AT)>`", "struct `Holder<(lambda at {folder}/k.cpp.j2:6:15)>`"),
        (f'Value = `&"{OWN}"[0]`', 'Value = `&"the rendered source"[0]`'),
        (f"Is it {OWN}? {OWN}.", "Is it the rendered source? the rendered source."),
        (
            f"{MEMORY_FOLDER}/other/device/a b/x.cpp.cpp:1:2 and {OWN}",
            "another rendered source and the rendered source",
        ),
        (f"{OWN}.cu (and 1 others)", "another rendered source (and 1 others)"),
        ("/usr/include/k.cpp:6:11", "/usr/include/k.cpp:6:11"),
    ],
)
def test_texts_that_are_lent_are_not_named(given: str, said: str, places: TemplatePlaces, tmp_path: Path) -> None:
    at = position(places, "tile")
    given = given.replace(":AT", f":{at.line + 1}:{at.column + 1}")
    said = said.replace("{folder}", str(tmp_path))
    assert answers.in_own_words(given, places) == said
    kept = {"uri": given, "data": {"item": given}, "line": 3}
    assert answers.in_own_words({"contents": [given], **kept}, places) == {"contents": [said], **kept}


def test_a_header_keeps_its_name_beside_texts_that_are_lent() -> None:
    said = answers.in_own_words(f"/usr/h.h and /usr/h.h:3:4 in {OWN}", HeaderPlaces("file:///usr/h.h"))
    assert said == "/usr/h.h and /usr/h.h:3:4 in another rendered source"


def test_actions(places: TemplatePlaces) -> None:
    title = ANSWERS["actions"][0]["title"]
    found = answers.action(title, "refactor", ANSWERS["edit"], places)
    assert found is not None
    [[edit]] = found["edit"]["changes"].values()
    assert (found["title"], edit["newText"]) == (title, "int")
    refused = answers.action("t", "refactor", change(places, "128", "7"), places)
    assert refused is not None
    reason = "`{{ MPerBlock }}` at k.cpp.j2:6:22 writes it"
    assert refused == {"title": "t", "kind": "refactor", "disabled": {"reason": reason}}
    assert answers.action("t", "refactor", None, places) is None


def test_calls(places: TemplatePlaces) -> None:
    about = {"unit": UNIT, "side": "host", "path": places.path}

    def shown(calls: Sequence[Mapping[str, Any]], side: str) -> list[Any]:
        return [
            (one[side]["name"], text_at(one[side]["selectionRange"]), [text_at(each) for each in one["fromRanges"]])
            for one in calls
        ]

    incoming = answers.calls(ANSWERS["incoming"], places, ANSWERS["use"], about, "from")
    assert shown(incoming, "from") == [("big", "11:big", ["11:scale"])]
    assert incoming[0]["from"]["data"] == {**about, "item": ANSWERS["incoming"][0]["from"]}
    assert shown(answers.calls(ANSWERS["outgoing"], places, ANSWERS["use"], about, "to"), "to") == [
        ("store_0", "3:store_{{ n }}", ["20:store_0"]),
        ("store_1", "3:store_{{ n }}", ["20:store_1"]),
    ]
    elsewhere = {**ANSWERS["use"], "uri": f"file://{MEMORY_FOLDER}/main/device/k.cpp"}
    assert answers.function(elsewhere, places, about) is None


class _Refusing:
    """A supervisor whose clangd refuses to rename."""

    def __init__(self, *messages: str) -> None:
        self.messages = list(messages)

    async def ask(self, _text: MemoryText, _method: str, _params: Mapping[str, Any]) -> Any:
        raise ClangdRefusalError(self.messages.pop(0))

    ask_alone = ask


async def refused(places: TemplatePlaces, *messages: str) -> str:
    """Return how a rename ends that clangd refuses in these words, alone and beside other texts."""
    template = str(places.path)
    start = Place(line=5, character=10)
    request = CppRequest(question="rename", path=template, start=start, name="width")
    text = MemoryText(OWN, places.source.text, (), Path("/"))
    question = Question(request, text, places, cast("ClangdSupervisor", _Refusing(*messages)), {})
    with pytest.raises(CkwatchError) as raised:
        await question.answer()
    return f"{type(raised.value).__name__}: {raised.value.message}"


async def test_a_rename_that_clangd_has_not_read_everything_for_is_asked_again(places: TemplatePlaces) -> None:
    for said in (f"File must be saved first: {OWN}", f"Files must be saved first: {OWN} (and 1 others)"):
        assert await refused(places, "x", said) == "OvertakenError: the text has changed since clangd read it"
    conflict = await refused(places, "x", f"conflict with the symbol in {OWN}:1:1")
    assert conflict == f"ClangdRefusalError: conflict with the symbol in {places.path}:1:44"
