"""C++ for the editor: every feature with what the daemon answers, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from lsprotocol import types

from ckwatch.model.delays import CPP_AGAIN, CPP_ALONE, CPP_COMPLETION
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position
from ckwatch.wire.cpp import CppAnswer
from ckwatch.wire.state import Workspace
from ckwatch_lsp.cpp.provider import CppProvider
from ckwatch_lsp.protocol.server import ContentModifiedError, RequestFailedError
from ckwatch_lsp.session.folders import ConnectionState
from ckwatch_lsp.session.providers import RefusedError
from fakes.patience import PATIENCE_S
from lsp.cpp.desk import ABLE, ONE, TWO, Desk, Question, around, desk, fix, hover, location, texts_at
from lsp.figures.made_up import unit

TEMPLATE = """\
{% macro body(n) %}
int inner(int x) { return x; }
{% endmacro %}
using T = {{ Elem }};
int add(int left, T right) {
  {% set twice = 2 %}
  return left;
}
int value = add(1, 2);
"""
NAME = "templates/k.hip.j2"
HOVER = "textDocument/hover"


async def test_a_hover_says_what_stands_there_and_in_which_instance() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["hover"] = [hover("`int`", range=around(TEMPLATE, "value"))]
        found = await made.at(HOVER, uri, "value")
        assert found.contents.value == "`int`"
        assert texts_at(TEMPLATE, [found.range]) == ["value"]
        [asked] = made.cpp.questions("hover")
        assert (asked.path, asked.place, asked.unit) == ("/ws/" + NAME, (8, 4), ONE)

        made.cpp.script["hover"] = [hover("type `float`", produced="float")]
        assert (await made.at(HOVER, uri, "value")).contents.value == f"type `float`\n\nin `{ONE}`: `float`"


async def test_a_hover_says_where_other_instances_differ() -> None:
    async with desk() as made:
        made.daemon.readers = (ONE, TWO)
        uri = made.open(NAME, TEMPLATE)
        other = [
            {"text": "Type: `int`", "units": [TWO, "k/three@gfx942", "k/four@gfx942"]},
            {"text": "Type: `long`", "units": []},
        ]
        made.cpp.script["hover"] = [hover("`float`"), hover("`float`", others=other)]
        found = (await made.at(HOVER, uri, "value")).contents.value
        assert found.split("\n\n") == [
            "`float`",
            f"in `{ONE}`",
            "where it stands again: `long`",
            f"other instances: `int` (`{TWO}`, and 2 more)",
        ]
        assert [one.more.get("others") for one in made.cpp.questions("hover")] == [None, True]


async def test_the_chosen_instance_answers() -> None:
    async with desk() as made:
        made.daemon.readers = (ONE, TWO)
        uri = made.open(NAME, TEMPLATE)
        await made.at(HOVER, uri, "value")
        await made.editor.commands["ckwatch.chooseInstance"]({"unit": TWO, "uri": uri})
        await made.at(HOVER, uri, "value")
        assert [one.unit for one in made.cpp.questions("hover")] == [ONE, TWO]


ADD = {
    "label": "add(int left)", "detail": "int", "kind": 3, "documentation": "Adds.", "insertTextFormat": 2,
    "textEdit": {"newText": "add(${1:int left})", "range": around(TEMPLATE, "add", TEMPLATE.index("value"))},
    "filterText": "add", "sortText": "1", "deprecated": True,
}  # fmt: skip
COMPLETIONS = CppAnswer(result={"isIncomplete": True, "items": [ADD]})


async def test_completion_replaces_what_was_typed_and_has_placeholders() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["completion"] = [COMPLETIONS]
        context = types.CompletionContext(types.CompletionTriggerKind.TriggerCharacter, ".")
        found = await made.at("textDocument/completion", uri, "(1, 2)", context=context)
        assert found.is_incomplete
        [item] = found.items
        assert item.text_edit.new_text == "add(${1:int left})"
        assert item.insert_text_format is types.InsertTextFormat.Snippet
        assert texts_at(TEMPLATE, [item.text_edit.range]) == ["add"]
        assert (item.detail, item.documentation.value, item.filter_text, item.deprecated) == (
            "int",
            "Adds.",
            "add",
            True,
        )
        assert made.cpp.questions("completion")[0].more["trigger"] == "."


async def test_editors_without_placeholders_get_none() -> None:
    async with desk(replace(ABLE, snippets=False)) as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["completion"] = [COMPLETIONS]
        [item] = (await made.at("textDocument/completion", uri, "(1, 2)")).items
        assert (item.text_edit.new_text, item.insert_text_format) == ("add", None)


async def test_in_tags_jinja_completes_and_beside_them_cpp() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["completion"] = [COMPLETIONS]
        inside = await made.at("textDocument/completion", uri, "Elem }}")
        assert not any(item.label.startswith("add") for item in inside.items)
        for character, before in (("=", "(1, 2)"), (":", "Elem }}")):
            context = types.CompletionContext(types.CompletionTriggerKind.TriggerCharacter, character)
            assert await made.at("textDocument/completion", uri, before, context=context) is None
        assert await made.at("textDocument/signatureHelp", uri, "Elem }}") is None
        assert made.cpp.questions("completion", "signatures") == []


async def test_a_completion_that_comes_late_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckwatch_lsp.cpp.provider.CPP_COMPLETION", CPP_COMPLETION._replace(seconds=0.1))
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.waits = anyio.Event()
        found = await made.at("textDocument/completion", uri, "(1, 2)")
        assert (found.is_incomplete, found.items) == (True, [])


async def test_signatures_mark_their_parameters_in_the_units_of_the_editor() -> None:
    label = "add(int 𝒳, T right)"
    one = {"label": label, "documentation": "Adds.", "parameters": [{"label": [4, 9]}, {"label": [11, 18]}]}
    signatures = {"signatures": [one], "activeParameter": 1}
    for able, labels in (
        (ABLE, [(4, 10), (12, 19)]),
        (replace(ABLE, signature_offsets=False), ["int 𝒳", "T right"]),
    ):
        async with desk(able) as made:
            uri = made.open(NAME, TEMPLATE)
            made.cpp.script["signatures"] = [CppAnswer(result=signatures)]
            found = await made.at("textDocument/signatureHelp", uri, "1, 2")
            assert found.active_parameter == 1
            assert [each.label for each in found.signatures[0].parameters] == labels


@pytest.mark.parametrize(
    ("method", "question"),
    [
        ("textDocument/definition", "definition"),
        ("textDocument/declaration", "definition"),
        ("textDocument/typeDefinition", "type-definition"),
        ("textDocument/implementation", "implementation"),
    ],
)
async def test_places_are_in_templates(method: str, question: str) -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script[question] = [CppAnswer(result=[location(TEMPLATE, "add")])]
        [found] = await made.at(method, uri, "add(1")
        assert found.uri == uri
        assert texts_at(TEMPLATE, [found.range]) == ["add"]


async def test_references_leave_the_definition_out_if_it_is_not_wanted() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        defined, used = location(TEMPLATE, "add"), location(TEMPLATE[TEMPLATE.index("int value") :], "add")
        made.cpp.script["references"] = [CppAnswer(result=[defined, used])]
        for wanted in (True, False):
            context = types.ReferenceContext(wanted)
            assert len(await made.at("textDocument/references", uri, "add(1", context=context)) == 2
        assert [one.more["declaration"] for one in made.cpp.questions("references")] == [True, False]


async def test_what_jinja_knows_comes_first() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["definition"] = [CppAnswer(result=[location(TEMPLATE, "value")])]
        [found] = await made.at("textDocument/definition", uri, "body(n)")
        assert texts_at(TEMPLATE, [found.range]) == ["body"]


async def test_highlights() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["highlights"] = [CppAnswer(result=[{"range": around(TEMPLATE, "left"), "kind": 3}])]
        [found] = await made.at("textDocument/documentHighlight", uri, "left;")
        assert (texts_at(TEMPLATE, [found.range]), found.kind) == (["left"], types.DocumentHighlightKind.Write)


def symbol(name: str, whole: str) -> dict[str, Any]:
    name_range = around(TEMPLATE, name, TEMPLATE.index(whole))
    return {"name": name, "kind": 12, "range": around(TEMPLATE, whole), "selectionRange": name_range, "children": []}


async def test_one_outline_of_jinja_and_cpp() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        add = TEMPLATE[TEMPLATE.index("int add") : TEMPLATE.index("int value")]
        made.cpp.script["symbols"] = [
            CppAnswer(
                result=[symbol("inner", "int inner(int x) { return x; }"), symbol("T", "using T"), symbol("add", add)]
            )
        ]
        found = await made.of("textDocument/documentSymbol", uri)
        assert [(one.name, [each.name for each in one.children]) for one in found] == [
            ("body", ["inner"]),
            ("T", []),
            ("add", ["twice"]),
        ]


async def test_tokens_of_both_are_in_order_and_the_editor_is_told_when_they_come() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["tokens"] = [
            CppAnswer(
                result=(
                    (3, 6, 1, "type", ("declaration", "globalScope")),
                    (3, 10, 6, "unknown", ()),
                    (3, 13, 4, "class", ()),
                    (4, 4, 3, "function", ()),
                    (4, 7, 1, "bracket", ()),
                )
            )
        ]
        first = await made.of("textDocument/semanticTokens/full", uri)
        await made.until(lambda: ("refresh", "tokens") in made.editor.calls)
        second = await made.of("textDocument/semanticTokens/full", uri)
        assert len(made.cpp.questions("tokens")) == 1
        assert len(second.data) == len(first.data) + 2 * 5
        here = types.Range(types.Position(4, 0), types.Position(4, 9))
        part = await made.of("textDocument/semanticTokens/range", uri, range=here)
        assert part.data[:3] == [4, 4, 3]


async def test_tokens_move_with_what_is_typed_until_there_are_newer_ones() -> None:
    async with desk() as made:
        uri = made.open(NAME, "int a;\n")
        made.cpp.script["tokens"] = [CppAnswer(result=[(0, 4, 1, "variable", ())])]
        await made.of("textDocument/semanticTokens/full", uri)
        await made.until(lambda: ("refresh", "tokens") in made.editor.calls)
        asked = anyio.Event()

        async def never(_question: Question) -> CppAnswer:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

        made.cpp.script["tokens"] = [never]
        made.change(uri, "int", "short int")
        assert (await made.of("textDocument/semanticTokens/full", uri)).data[:3] == [0, 10, 1]
        await asked.wait()


async def test_editors_that_cannot_be_told_wait_a_moment() -> None:
    async with desk(replace(ABLE, refreshes_tokens=False)) as made:
        uri = made.open(NAME, "int a;\n")
        made.cpp.script["tokens"] = [CppAnswer(result=[(0, 4, 1, "variable", ())])]
        assert (await made.of("textDocument/semanticTokens/full", uri)).data[:3] == [0, 4, 1]


async def test_hints_are_off_and_of_types_only_if_wanted() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        start = around(TEMPLATE, "1, 2")["start"]
        hints = [{"position": start, "label": "left:", "kind": 2}, {"position": start, "label": ": int", "kind": 1}]
        made.cpp.script["hints"] = [CppAnswer(result=hints)]
        whole = types.Range(types.Position(0, 0), types.Position(20, 0))

        async def labels() -> list[str]:
            found = await made.of("textDocument/inlayHint", uri, range=whole) or ()
            return [one.label for one in found if one.position.line == 8]

        refreshes = 0

        def is_told() -> bool:
            """Once for each time that the editor is told to ask again."""
            nonlocal refreshes
            before, refreshes = refreshes, made.editor.calls.count(("refresh", "hints"))
            return refreshes > before

        async def become(*wanted: str) -> None:
            """The editor asks whenever it is told to."""
            with anyio.fail_after(PATIENCE_S):
                while await labels() != [*wanted]:
                    await made.until(is_told)

        assert await labels() == []
        made.set(cpp_hints=True)
        assert await labels() == []
        await become("left:")
        made.set(cpp_hints="all")
        await become("left:", ": int")


async def test_renaming() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["prepare-rename"] = [
            CppAnswer(result={"placeholder": "value", "range": around(TEMPLATE, "value")})
        ]
        found = await made.at("textDocument/prepareRename", uri, "value")
        assert (found.placeholder, texts_at(TEMPLATE, [found.range])) == ("value", ["value"])
        made.cpp.script["rename"] = [CppAnswer(result=fix(TEMPLATE, "value", "other"))]
        [edit] = (await made.at("textDocument/rename", uri, "value", new_name="other")).changes[uri]
        assert (edit.new_text, texts_at(TEMPLATE, [edit.range])) == ("other", ["value"])
        assert made.cpp.questions("rename")[0].more["name"] == "other"


@pytest.mark.parametrize("refusal", [CppAnswer(reason="it stands twice"), CkwatchError("it stands twice")])
async def test_what_cannot_be_renamed_says_why(refusal: CppAnswer | CkwatchError) -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["prepare-rename"] = made.cpp.script["rename"] = [refusal]
        for method in ("prepareRename", "rename"):
            with pytest.raises(RequestFailedError, match="it stands twice"):
                await made.at(f"textDocument/{method}", uri, "value", new_name="other")


async def test_jinja_renames_its_own_names() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        assert (await made.at("textDocument/prepareRename", uri, "Elem }}")).placeholder == "Elem"
        assert made.cpp.questions("prepare-rename") == []


async def test_actions_and_why_they_are_not_possible() -> None:
    actions = CppAnswer(
        result=[
            {"title": "Extract", "kind": "refactor", "edit": fix(TEMPLATE, "left;", "extracted;")},
            {"title": "Fix it", "kind": "quickfix", "edit": fix(TEMPLATE, "left;", "right;")},
            {"title": "Inline", "kind": "refactor", "disabled": {"reason": "Jinja stands within"}},
        ]
    )
    reach = types.Range(types.Position(6, 2), types.Position(6, 8))
    for able, titles in (
        (ABLE, ["Extract", "Fix it", "Inline"]),
        (replace(ABLE, disabled_actions=False), ["Extract", "Fix it"]),
    ):
        async with desk(able) as made:
            uri = made.open(NAME, TEMPLATE)
            made.cpp.script["actions"] = [actions]
            made.folder.connection = ConnectionState.BROKEN  # quick fixes wait for no texts of it
            context = types.CodeActionContext([])
            found = await made.of("textDocument/codeAction", uri, range=reach, context=context)
            assert [one.title for one in found] == titles
            assert found[0].edit.changes[uri][0].new_text == "extracted;"
            assert [one.disabled.reason for one in found if one.disabled] == ["Jinja stands within"][: len(titles) - 2]
            [asked] = made.cpp.questions("actions")
            assert (asked.place, asked.more["end"]) == ((6, 2), (6, 8))
            context = types.CodeActionContext([], only=[types.CodeActionKind.QuickFix])
            [fixing] = await made.of("textDocument/codeAction", uri, range=reach, context=context)
            assert fixing.kind is types.CodeActionKind.QuickFix


async def test_calls() -> None:
    def function(name: str) -> dict[str, Any]:
        place = location(TEMPLATE, name)
        return {"name": name, "kind": 12, **place, "selectionRange": place["range"], "data": {"item": name}}

    def call(side: str, name: str, piece: str) -> dict[str, Any]:
        return {side: function(name), "fromRanges": [around(TEMPLATE, piece)]}

    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["prepare-calls"] = [CppAnswer(unit=ONE, result=[function("add")])]
        made.cpp.script["incoming-calls"] = [CppAnswer(unit=ONE, result=[call("from", "value", "add(1")])]
        made.cpp.script["outgoing-calls"] = [CppAnswer(unit=ONE, result=[call("to", "inner", "left;")])]
        item, template = await made.at("textDocument/prepareCallHierarchy", uri, "add(int")
        assert (item.name, template.kind) == ("add", types.SymbolKind.File)
        [incoming] = await made.ask("callHierarchy/incomingCalls", item=item)
        assert incoming.from_.name == "value"
        assert texts_at(TEMPLATE, incoming.from_ranges) == ["add(1"]
        [outgoing] = await made.ask("callHierarchy/outgoingCalls", item=item)
        assert (outgoing.to.name, texts_at(TEMPLATE, outgoing.from_ranges)) == ("inner", ["left;"])
        assert [one.more["call"] for one in made.cpp.questions("incoming-calls", "outgoing-calls")] == [
            {"item": "add"}
        ] * 2
        assert await made.ask("callHierarchy/incomingCalls", item=template) is None
        assert len(made.cpp.questions("incoming-calls")) == 1


async def test_values_in_kernel_files_are_names_of_cpp() -> None:
    text = 'template = "k.hip.j2"\n[[instance]]\nname = "one"\nElem = "float"\n'
    async with desk() as made:
        uri = made.open("k.kernel.toml", text)
        made.cpp.script["hover"] = [hover("type `float`", produced="float")]
        assert f"in `{ONE}`: `float`" in (await made.at(HOVER, uri, "float")).contents.value
        assert await made.of("textDocument/documentSymbol", uri)
        assert made.cpp.questions("symbols") == []


async def test_headers_keys_and_comments_of_kernel_files_are_no_cpp() -> None:
    text = '# more\n\ntemplate = "k.hip.j2"\n[[instance]] # one\nname = "one"\n'
    async with desk() as made:
        uri = made.open("k.kernel.toml", text)
        for beside in ("more", "\ntemplate", "template", "[[instance]]", "one\n", "name"):
            await made.at(HOVER, uri, beside)
        assert made.cpp.questions("hover") == []
        await made.at(HOVER, uri, '"one"')
        assert len(made.cpp.questions("hover")) == 1


async def test_all_of_it_can_be_switched_off() -> None:
    async with desk() as made:
        made.set(cpp=False)
        uri = made.open(NAME, TEMPLATE)
        for method in ("hover", "completion", "definition", "documentHighlight", "signatureHelp"):
            assert await made.at(f"textDocument/{method}", uri, "value") is None
        await made.of("textDocument/documentSymbol", uri)
        await made.of("textDocument/semanticTokens/full", uri)
        assert made.cpp.asked == []


async def test_jinja_does_not_wait_for_clangd() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.waits = anyio.Event()
        assert "Elem" in (await made.at(HOVER, uri, "Elem }}")).contents.value
        assert await made.at("textDocument/definition", uri, "body(n)")
        assert [one.name for one in await made.of("textDocument/documentSymbol", uri)] == ["body", "twice"]
        assert (await made.of("textDocument/semanticTokens/full", uri)).data
        [item] = await made.at("textDocument/prepareCallHierarchy", uri, "add(int")
        assert item.kind is types.SymbolKind.File


async def test_who_wants_a_new_name_is_told_that_clangd_is_not_ready() -> None:
    async with desk() as made:
        document = made.session.documents[made.open(NAME, TEMPLATE)]
        made.cpp.waits = anyio.Event()
        [cpp] = [one for one in made.session.providers[document.kind] if isinstance(one, CppProvider)]
        with pytest.raises(RefusedError, match=r"no answer about the C\+\+ yet") as refused:
            await cpp.questions.ask_now(document, "rename", Position(8, 4), CPP_AGAIN, name="other")
        assert refused.value.hint == "Try again in a moment."


async def test_who_waits_for_clangd_is_told_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = "clangd reads the text and its headers"
    monkeypatch.setattr("ckwatch_lsp.cpp.provider.CPP_ALONE", CPP_ALONE._replace(seconds=1.0))
    monkeypatch.setattr("ckwatch_lsp.cpp.provider.CPP_USES", CPP_ALONE._replace(seconds=1.0))
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.waits = anyio.Event()
        for _ in range(2):
            made.cpp.reasons.put_nowait(reads)
        said = f"There is no answer about the C++ yet: {reads}. Try again in a moment."
        while (shown := (await made.at(HOVER, uri, "value")).contents.value) != said:
            assert shown == "There is no answer about the C++ yet. Try again in a moment."
        with pytest.raises(RequestFailedError, match="no answer about the C"):
            await made.at("textDocument/definition", uri, "value")
        assert await made.at("textDocument/documentHighlight", uri, "value") is None


async def test_a_question_waits_until_it_is_known_what_is_made_of_a_template() -> None:
    async with desk() as made:
        made.daemon.readers = ()
        made.report(unit("one", phase="rendering", outcome=None))
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["hover"] = [hover("`int`")]
        assert (await made.at(HOVER, uri, "value")).contents.value == f"`int`\n\nin `{ONE}`"
        assert made.cpp.questions("hover")[0].unit is None, "the daemon finds out"
        made.report(unit("one"), unit("two", line=4))
        made.folder.workspace = Workspace(root="/ws", loaded=True, busy=False, unit_count=2, jobs=1, compiling=0)
        assert await made.at(HOVER, uri, "value") is None, "nothing is made of it"


async def test_errors_are_told_only_to_those_who_asked_for_something() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        for question in ("hover", "definition", "completion", "tokens", "symbols"):
            made.cpp.script[question] = [CkwatchError("no clangd")]
        assert await made.at(HOVER, uri, "value") is None
        assert await made.at("textDocument/definition", uri, "value") is None
        assert await made.at("textDocument/completion", uri, "value") is None
        assert [one.name for one in await made.of("textDocument/documentSymbol", uri)] == ["body", "twice"]
        assert (await made.of("textDocument/semanticTokens/full", uri)).data


async def test_an_answer_about_another_text_is_asked_for_again_where_the_place_is_then() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)

        async def late(_question: Question) -> CppAnswer:
            made.change(uri, "using", "\n\nusing")
            return replace(hover("old"), digest="of the text before")

        made.cpp.script["hover"] = [late, hover("new")]
        assert (await made.at(HOVER, uri, "value")).contents.value == "new"
        assert [one.place for one in made.cpp.questions("hover")] == [(8, 4), (10, 4)]


async def test_a_text_that_changes_too_fast_has_no_answer() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.script["hover"] = [replace(hover("old"), digest="of another text")]
        with pytest.raises(ContentModifiedError):
            await made.at(HOVER, uri, "value")
        assert len(made.cpp.questions("hover")) == 4


async def test_the_daemon_has_the_unsaved_text_before_it_is_asked() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.change(uri, "int value", "long value")
        made.cpp.script["hover"] = [hover("`long`")]
        assert (await made.at(HOVER, uri, "value")).contents.value == "`long`"
        assert "long value" in made.daemon.overlays[f"/ws/{NAME}"]


async def test_unsaved_text_that_the_daemon_never_gets_is_not_asked_about() -> None:
    async with desk() as made:
        made.set(check_on_type=False)
        uri = made.open(NAME, TEMPLATE)
        made.change(uri, "int value", "long value")
        assert await made.at(HOVER, uri, "value") is None
        assert made.cpp.asked == []


async def test_a_cancelled_request_cancels_the_question() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.waits = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.at, "textDocument/definition", uri, "value")
            await made.until(lambda: made.cpp.questions("definition"))
            tasks.cancel_scope.cancel()
        assert [one.question for one in made.cpp.cancelled] == ["definition"]


async def test_what_clangd_does_until_it_is_ready_is_one_progress() -> None:
    async with desk() as made:
        uri = made.open(NAME, TEMPLATE)
        made.cpp.waits = ready = anyio.Event()
        made.cpp.script["hover"] = [hover("`int`")]
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(made.at, HOVER, uri, "value")
            reasons = ["clangd is being fetched: 10 %", "clangd reads the headers"]
            for at, reason in enumerate(reasons):
                made.cpp.reasons.put_nowait(reason)
                await made.until(partial(_has_shown, made, reasons[: at + 1]))
            made.cpp.waits = None
            ready.set()
            made.cpp.reasons.put_nowait("nearly there")
        await made.until(lambda: isinstance(made.calls("report_progress")[-1][2], types.WorkDoneProgressEnd))
        assert len(made.calls("create_progress")) == 1
        assert made.calls("show_message") == []


def _has_shown(made: Desk, reasons: list[str]) -> bool:
    begun = [one[2].message for one in made.calls("begin_progress") if isinstance(one[2], types.WorkDoneProgressBegin)]
    reported = [
        one[2].message for one in made.calls("report_progress") if isinstance(one[2], types.WorkDoneProgressReport)
    ]
    return [*begun, *reported] == reasons
