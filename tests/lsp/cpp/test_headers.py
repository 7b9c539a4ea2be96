"""Headers and rendered sources: reached from a template, and asked about from there on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lsprotocol import types

from ckwatch.wire.cpp import CppAnswer
from ckwatch.wire.messages import Segment
from ckwatch_lsp.protocol.uris import VirtualUri, uri_of
from ckwatch_lsp.session.documents import DocumentKind
from lsp.cpp.desk import ABLE, ONE, ROOT, TWO, Desk, around, desk, hover, location, span, texts_at
from lsp.figures.made_up import unit

TEMPLATE = "#include <h.h>\nint value = add(1);\n"
HEADER = "int add(int);\n"
NAME = "templates/k.hip.j2"
HOVER = "textDocument/hover"


@pytest.fixture
def header(tmp_path: Path) -> Path:
    """One that comes with no compiler."""
    path = tmp_path / "elsewhere/h.h"
    path.parent.mkdir()
    path.write_text(HEADER)
    return path


async def reach(made: Desk, header: Path, name: str = NAME) -> types.Location:
    """Go to the header's function from a template."""
    uri = made.open(name, TEMPLATE)
    made.cpp.script["definition"] = [CppAnswer(result=[location(HEADER, "add", str(header))])]
    [found] = await made.at("textDocument/definition", uri, "add")
    assert isinstance(found, types.Location)
    return found


async def test_a_header_that_was_reached_is_asked_about_in_the_unit_that_led_there(header: Path) -> None:
    async with desk() as made:
        made.daemon.readers = (TWO, ONE)
        found = await reach(made, header)
        assert found.uri == uri_of(header)
        assert texts_at(HEADER, [found.range]) == ["add"]
        uri = made.open(str(header), HEADER)
        assert made.session.documents[uri].kind is DocumentKind.HEADER
        made.cpp.script["hover"] = [replace(hover("a function"), unit=TWO)]
        made.cpp.script["symbols"] = [
            CppAnswer(result=[{"name": "add", "kind": 12, "range": around(HEADER, "int add(int);"),
                               "selectionRange": around(HEADER, "add"), "children": []}])
        ]  # fmt: skip
        assert (await made.at(HOVER, uri, "add")).contents.value == f"a function\n\nin `{TWO}`"
        assert [one.name for one in await made.of("textDocument/documentSymbol", uri)] == ["add"]
        assert {(one.path, one.unit) for one in made.cpp.questions("hover", "symbols")} == {(str(header), TWO)}


async def test_a_header_is_neither_completed_nor_renamed_nor_sent(header: Path) -> None:
    async with desk() as made:
        await reach(made, header)
        uri = made.open(str(header), HEADER)
        assert await made.at("textDocument/completion", uri, "add") is None
        assert await made.at("textDocument/prepareRename", uri, "add") is None
        assert await made.at("textDocument/rename", uri, "add", new_name="b") is None
        here = types.Range(types.Position(0, 0), types.Position(0, 3))
        assert await made.of("textDocument/codeAction", uri, range=here, context=types.CodeActionContext([])) is None
        made.change(uri, "add", "sum")
        assert await made.at(HOVER, uri, "sum") is None, "the daemon has the file's text"
        assert made.daemon.overlays == {}
        assert {one.question for one in made.cpp.asked} == {"definition"}


async def test_headers_of_the_compiler_are_known_without_having_been_reached(tmp_path: Path) -> None:
    (tmp_path / "ck.hpp").write_text(HEADER)
    async with desk(header_folder=tmp_path) as made:
        uri = made.open(str(tmp_path / "ck.hpp"), HEADER)
        made.open(NAME, TEMPLATE)
        made.cpp.script["hover"] = [hover("a function")]
        assert "a function" in (await made.at(HOVER, uri, "add")).contents.value
        assert made.cpp.questions("hover")[0].unit == ONE


async def test_a_document_that_was_open_before_becomes_a_header(header: Path) -> None:
    async with desk() as made:
        uri = made.open(str(header), HEADER)
        assert await made.at(HOVER, uri, "add") is None
        await reach(made, header)
        made.cpp.script["hover"] = [hover("a function")]
        assert "a function" in (await made.at(HOVER, uri, "add")).contents.value


async def test_plug_ins_learn_what_must_not_be_changed(header: Path) -> None:
    async with desk() as made:

        async def answer(path: str) -> object:
            return await made.editor.requests["ckwatch/isHeader"][0]({"uri": uri_of(path)})

        assert await answer(str(header)) == {"header": False, "readOnly": False}
        await reach(made, header)
        assert await answer(str(header)) == {"header": True, "readOnly": True}
        assert await answer("/rocm/include/ck.hpp") == {"header": True, "readOnly": True}
        own = str(ROOT / "own.h")
        made.cpp.script["definition"] = [CppAnswer(result=[location(HEADER, "add", own)])]
        await made.at("textDocument/definition", uri_of(ROOT / NAME), "add")
        assert await answer(own) == {"header": True, "readOnly": False}
        assert await answer(str(ROOT / NAME)) == {"header": False, "readOnly": False}


async def test_what_was_reached_is_handed_over(header: Path) -> None:
    async with desk() as made:
        await reach(made, header)
        states = {one.state_key: one.state_to_hand_over() for one in made.session.listeners if one.state_key}
    async with desk() as made:
        for listener in made.session.listeners:
            if listener.state_key:
                listener.restore(states[listener.state_key])
        assert made.session.is_header(str(header))


SOURCE = "#include <h.h>\nint value = add(1);\nint more = value;\n"
VIRTUAL = VirtualUri("source", ONE, ROOT).uri


async def open_source(made: Desk) -> None:
    made.daemon.rendered_texts[ONE] = SOURCE
    shown = await made.editor.commands["ckwatch.document"]({"uri": VIRTUAL})
    made.open(VIRTUAL, shown["text"])


async def test_a_rendered_source_is_asked_about_itself_and_stays_where_it_is() -> None:
    async with desk() as made:
        await open_source(made)
        made.cpp.script["definition"] = [CppAnswer(result=[location(SOURCE, "value", unit=ONE)])]
        [found] = await made.at("textDocument/definition", VIRTUAL, "value;")
        assert found.uri == VIRTUAL
        assert texts_at(SOURCE, [found.range]) == ["value"]
        [asked] = made.cpp.questions("definition")
        assert (asked.path, asked.place, asked.unit) == (None, (2, 11), ONE)


async def test_where_cpp_has_no_answer_a_rendered_source_leads_to_the_template() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        place = span(TEMPLATE, TEMPLATE)
        made.daemon.map = (
            Segment(start=0, end=len(TEMPLATE), span=place, verbatim=True, exact=True, position=place.start, label="",
                    chain=()),
        )  # fmt: skip
        await open_source(made)
        [found] = await made.at("textDocument/definition", VIRTUAL, "value = ")
        assert (found.uri, found.range.start.line) == (uri, 1)
        assert len(made.cpp.questions("definition")) == 1


async def test_the_first_line_of_an_old_text_is_no_cpp_and_the_others_are_one_line_further_down() -> None:
    async with desk() as made:
        await open_source(made)
        del made.daemon.rendered_texts[ONE]
        made.report(unit("one", generation=2))
        shown = await made.editor.commands["ckwatch.document"]({"uri": VIRTUAL})
        assert shown["stale"]
        made.open(VIRTUAL, shown["text"])
        reach = around(SOURCE, "value")
        made.cpp.script["hover"] = [hover("a variable", range=reach)]
        assert await made.at(HOVER, VIRTUAL, "ckwatch:") is None
        found = await made.at(HOVER, VIRTUAL, "value = ")
        assert found.range.start.line == reach["start"]["line"] + 1
        assert [one.place for one in made.cpp.questions("hover")] == [(1, 4)]


async def test_places_in_rendered_sources_are_documents_or_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for able in (ABLE, replace(ABLE, shows_virtual_documents=False)):
        async with desk(able) as made:
            made.daemon.rendered_texts[ONE] = SOURCE
            uri = made.open(NAME, TEMPLATE)
            made.cpp.script["definition"] = [CppAnswer(result=[location(SOURCE, "more", unit=ONE)])]
            [found] = await made.at("textDocument/definition", uri, "add")
            assert texts_at(SOURCE, [found.range]) == ["more"]
            assert (found.uri == VIRTUAL) is able.shows_virtual_documents
            assert found.uri.startswith("ckwatch:" if able.shows_virtual_documents else uri_of(tmp_path))


async def test_isa_is_no_cpp() -> None:
    async with desk() as made:
        uri = made.open(VirtualUri("isa", ONE, ROOT).uri, "s_endpgm\n")
        assert await made.at(HOVER, uri, "s_endpgm") is None
        await made.of("textDocument/semanticTokens/full", uri)
        assert made.cpp.asked == []
