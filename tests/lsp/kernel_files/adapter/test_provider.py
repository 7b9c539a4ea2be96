"""Kernel files through the wire, with the real daemon: what is completed, told, found, renamed and rewritten."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.patience import PATIENCE_S
from helpers.workspaces import gemm_kernel
from lsp.editing import Editor, LspError, capabilities, copy_of, editor, lasting, start

FILE = "gemm_f16.kernel.toml"
QUIET = {"buildFirst": "none", "hostCheckOnType": False}

TEMPLATE = """\
{% include "part.j2" %}
int tile = {{ Tile }}; // {{ Other | default(1) }}
int {{ KERNEL_NAME }}();
"""
PART = "{% if Tile > 1 %}// large{% endif %}\n"
KERNEL = f"""{gemm_kernel("k.hip.j2", {"one": {"Tile": 1}})}
[[sweep]]
name = "some"
base = "one"
where = "Tile > 1"

[sweep.parameters]
Tile = [1, 2, 4]
"""


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = copy_of("gemm", tmp_path_factory.mktemp("kernels"))
    for path in root.glob("*.kernel.toml"):
        if path.name != FILE:
            path.unlink()
    with lasting(root):
        yield root


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("kernels") / "small ü"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text('[daemon]\nbuild = "wanted"\n')
    (root / "templates/k.hip.j2").write_text(TEMPLATE)
    (root / "templates/part.j2").write_text(PART)
    (root / "k.kernel.toml").write_text(KERNEL)
    with lasting(root):
        yield root


async def ready(made: Editor, count: int) -> None:
    """The units are known."""
    while True:
        seen = len(made.all("ckwatch/unitsChanged"))
        if len(await made.command("ckwatch.units")) == count:
            return
        await made.until(partial(_more, made, seen))


def _more(made: Editor, seen: int) -> bool:
    return len(made.all("ckwatch/unitsChanged")) > seen


def place_of(text: str, what: str, after: int = 0) -> dict[str, int]:
    before = text[: text.index(what) + after]
    return {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}


async def at(made: Editor, method: str, path: Path, what: str, after: int = 0, **more: Any) -> Any:
    uri = path.as_uri()
    params = {"textDocument": {"uri": uri}, "position": place_of(made.text(path), what, after), **more}
    return await made.request(f"textDocument/{method}", params)


async def labels(made: Editor, path: Path, what: str, after: int = 0) -> list[str]:
    """Return the offered items, in the order in which they are shown, once the list is complete."""
    with anyio.fail_after(PATIENCE_S):
        while (found := await at(made, "completion", path, what, after)) is not None and found["isIncomplete"]:
            pass  # the daemon judges the values
    return [] if found is None else [one["label"] for one in sorted(found["items"], key=lambda one: one["sortText"])]


def applied(text: str, edit: dict[str, Any], uri: str) -> str:
    """The text after a workspace edit."""
    changes = edit.get("changes", {}).get(uri) or next(
        one["edits"] for one in edit["documentChanges"] if one["textDocument"]["uri"] == uri
    )
    lines = text.split("\n")

    def offset(place: dict[str, int]) -> int:
        return sum(len(line) + 1 for line in lines[: place["line"]]) + place["character"]

    spans = [(offset(one["range"]["start"]), offset(one["range"]["end"]), one["newText"]) for one in changes]
    spans.sort(key=lambda span: span[:2])
    for first, last, new in spans[::-1]:
        text = text[:first] + new + text[last:]
    return text


async def actions(
    made: Editor, path: Path, what: str, only: str, diagnostics: list[Any] | None = None
) -> dict[str, Any]:
    """Offered edits by title."""
    place = place_of(made.text(path), what)
    context = {"diagnostics": diagnostics or [], "only": [only]}
    params = {"textDocument": {"uri": path.as_uri()}, "range": {"start": place, "end": place}, "context": context}
    return {one["title"]: one for one in await made.request("textDocument/codeAction", params) or ()}


async def test_values_that_the_rules_accept_come_first(gemm: Path) -> None:
    path = gemm / FILE
    async with editor(gemm, settings=QUIET) as made:
        await made.open(path)
        await ready(made, 12)
        found = await labels(made, path, "MPerBlock = 128", 15)
        assert found[0] == "128"
        assert found.index("64") < found.index("96")
        shown = await at(made, "completion", path, "MPerBlock = 128", 15)
        by_label = {item["label"]: item for item in shown["items"]}
        assert by_label["96"]["tags"] == [1]
        assert "m-per-block" in by_label["96"]["detail"]
        assert by_label["64"]["textEdit"]["newText"] == "64"
        assert (await labels(made, path, 'BlkGemmPipeSched = "Intrawave"', 21))[0] == "Intrawave"
        assert (await labels(made, path, 'GemmSpec = "MNKPadding"', 12))[:2] == [
            "MNKPadding",
            "Default",
        ]  # of [defaults]
        # a key that is being written: what the template asks for and the instance does not have
        await made.replace(path, 'name = "v3_128x128x64_intrawave"', 'name = "v3_128x128x64_intrawave"\nBl')
        keys = await labels(made, path, 'intrawave"\nBl', 13)
        assert "BlockSize" in keys
        assert "MPerBlock" not in keys
        assert "ck/gemm_universal.hip.j2" in await labels(made, path, 'template = "ck', 12)


async def test_a_parameter_is_told_with_its_rules(gemm: Path) -> None:
    path = gemm / FILE
    async with editor(gemm, settings=QUIET) as made:
        await made.open(path)
        await ready(made, 12)
        told = (await at(made, "hover", path, "MXdlPerWave = 2"))["contents"]["value"]
        assert "Tiles of the matrix instruction that one wave computes along M." in told
        assert "`m-per-block`: `MPerBlock % (MPerXDL * MXdlPerWave) == 0`" in told
        assert "`f16`" not in told
        told = (await at(made, "hover", path, "dtype"))["contents"]["value"]
        assert '`"bf16"`' in told
        [location] = await at(made, "definition", path, "MPerBlock = 128")
        assert location["uri"].endswith("ck/gemm_instance.j2")
        [location] = await at(made, "definition", path, "ck/gemm_universal")
        assert location["uri"].endswith("ck/gemm_universal.hip.j2")
        uri = path.as_uri()
        [link] = await made.request("textDocument/documentLink", {"textDocument": {"uri": uri}})
        assert link["target"].endswith("ck/gemm_universal.hip.j2")
        with pytest.raises(LspError, match="built-in"):
            await at(made, "rename", path, "MPerBlock = 128", newName="Other")


async def test_a_refused_value_is_replaced_by_one_that_is_accepted(gemm: Path) -> None:
    path = gemm / FILE
    async with editor(gemm, settings=QUIET) as made:
        await made.open(path)
        await ready(made, 12)
        await made.replace(path, "MXdlPerWave = 2", "MXdlPerWave = 3")
        published = await made.heard_of(
            "textDocument/publishDiagnostics",
            lambda params: any(str(one.get("code", "")).startswith("rule/") for one in params["diagnostics"]),
        )
        [diagnostic] = [one for one in published["diagnostics"] if one["code"] == "rule/m-per-block"]
        found: dict[str, Any] = {}
        while not found:  # the daemon's judgement may take a while on a busy machine
            found = await actions(made, path, "3\nNXdl", "quickfix", [diagnostic])
        offered = {title: one.get("isPreferred", False) for title, one in found.items() if title.startswith("Set ")}
        assert offered == {"Set MXdlPerWave to 2": True, "Set MXdlPerWave to 4": False}
        assert "Replace '3' by '2'" not in found, "one action for each edit"
        text = applied(made.text(path), found["Set MXdlPerWave to 2"]["edit"], path.as_uri())
        assert text == (gemm / FILE).read_text()


async def test_instances_become_sweeps_and_back(small: Path) -> None:
    path = small / "k.kernel.toml"
    async with editor(small, settings=QUIET) as made:
        uri = await made.open(path)
        await ready(made, 3)
        # the instance is the sweep's base: it stays
        assert await actions(made, path, "[[instance]]", "refactor.rewrite") == {}
        found = await actions(made, path, "[[sweep]]", "refactor.rewrite")
        assert list(found) == ["Write 2 instances out"]
        text = applied(KERNEL, found["Write 2 instances out"]["edit"], uri)
        names = [(one["name"], one["Tile"]) for one in tomllib.loads(text)["instance"]]
        assert names == [("one", 1), ("some_2", 2), ("some_4", 4)]
        await made.replace(path, KERNEL, text)
        found = await actions(made, path, "Tile = 4", "refactor")
        assert list(found) == ["Sweep over Tile"]
        text = applied(text, found["Sweep over Tile"]["edit"], uri)
        assert tomllib.loads(text)["sweep"] == [{"name": "some_4", "parameters": {"Tile": [4]}}]
        assert await actions(made, path, "Tile = 4", "quickfix") == {}


async def test_names_across_files(small: Path) -> None:
    path, template, part = small / "k.kernel.toml", small / "templates/k.hip.j2", small / "templates/part.j2"
    async with editor(small, settings=QUIET) as made:
        uri = await made.open(path)
        await ready(made, 3)
        found = await at(made, "references", path, "Tile = 1", context={"includeDeclaration": True})
        assert {one["uri"] for one in found} == {uri, template.as_uri(), part.as_uri()}
        assert len([one for one in found if one["uri"] == uri]) == 3
        edit = await at(made, "rename", path, "Tile = 1", newName="Size")
        assert applied(KERNEL, edit, uri) == KERNEL.replace("Tile", "Size")
        assert applied(TEMPLATE, edit, template.as_uri()) == TEMPLATE.replace("Tile", "Size")
        assert applied(PART, edit, part.as_uri()) == PART.replace("Tile", "Size")
        edit = await at(made, "rename", path, 'one"', newName='the "first"')
        renamed = tomllib.loads(applied(KERNEL, edit, uri))
        assert (renamed["instance"][0]["name"], renamed["sweep"][0]["base"]) == ('the "first"', 'the "first"')
        [location] = await at(made, "definition", path, 'one"\nwhere')
        assert location["range"]["start"] == place_of(KERNEL, 'one"\nTile')
        assert await at(made, "declaration", path, 'one"\nwhere') == [location]
        assert len(await at(made, "documentHighlight", path, "Tile > 1")) == 3
        prepared = await at(made, "prepareRename", path, "Tile > 1")
        assert prepared["placeholder"] == "Tile"
        for name, why in (("a b", "identifier"), ("", "identifier")):
            with pytest.raises(LspError, match=why):
                await at(made, "rename", path, "Tile = 1", newName=name)
        with pytest.raises(LspError, match="renaming its file"):
            await at(made, "rename", path, "k.hip.j2", newName="x")


async def test_the_file_as_a_whole(small: Path) -> None:
    path = small / "k.kernel.toml"
    async with editor(small, settings=QUIET) as made:
        uri = await made.open(path)
        await ready(made, 3)
        document = {"textDocument": {"uri": uri}}
        found = await made.request("textDocument/documentSymbol", document)
        assert [one["name"] for one in found] == ["template", "operation", "one", "some"]
        assert [one["name"] for one in found[3]["children"]] == ["base", "where", "sweep.parameters"]
        folded = await made.request("textDocument/foldingRange", document)
        assert {"startLine": 2, "endLine": 6, "kind": "region"} in folded
        [around] = await made.request(
            "textDocument/selectionRange", {**document, "positions": [place_of(KERNEL, "f16")]}
        )
        assert around["range"]["start"] == place_of(KERNEL, "f16")
        names = {one["name"] for one in await made.request("workspace/symbol", {"query": "some"})}
        assert {"some_2", "some_4"} <= names
        tokens = (await made.request("textDocument/semanticTokens/full", document))["data"]
        assert len(tokens) == 10


async def test_a_space_to_tune(small: Path) -> None:
    path = small / "k.kernel.toml"
    async with editor(small, settings=QUIET) as made:
        uri = await made.open(path)
        await ready(made, 3)
        await made.replace(path, 'where = "Tile > 1"', "tun")
        assert "tune" in await labels(made, path, "tun\n", 3)
        await made.replace(path, "tun\n", "tune = \n")
        assert set(await labels(made, path, "tune = ", 7)) == {"true", "false"}
        await made.replace(path, "tune = \n", "tune = true\n")
        await ready(made, 1)
        hover = await at(made, "hover", path, "tune = true")
        assert "`ckwatch tune`" in hover["contents"]["value"]
        found = await made.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
        assert [one["name"] for one in found[3]["children"]] == ["base", "tune", "sweep.parameters"]
        sweep = place_of(KERNEL, "[[sweep]]")
        lenses = [one for one in await made.of("textDocument/codeLens", path) if one["command"]["title"] == "tune"]
        assert [one["range"]["start"]["line"] for one in lenses] == [0]
        everything = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        hints = await made.of("textDocument/inlayHint", path, range=everything) or ()
        assert sweep["line"] not in {one["position"]["line"] for one in hints}


OPTIONS = {"options": {"tabSize": 4, "insertSpaces": True}}


async def test_a_file_is_formatted(small: Path) -> None:
    path, template = small / "k.kernel.toml", small / "templates/k.hip.j2"
    untidy = KERNEL.replace(" = ", "=", 1).replace("[[sweep]]", "# ü𝄞\n[[sweep]]  \n", 1).replace("\n", "\r\n")
    async with editor(small, settings=QUIET) as made:
        uri = await made.open(path, untidy)
        edits = await made.of("textDocument/formatting", path, **OPTIONS)
        tidy = KERNEL.replace("[[sweep]]", "# ü𝄞\n[[sweep]]\n", 1).replace("\n", "\r\n")
        assert applied(untidy, {"changes": {uri: edits}}, uri) == tidy
        assert all(one["range"]["end"]["line"] - one["range"]["start"]["line"] <= 1 for one in edits)
        first = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}
        assert await made.of("textDocument/rangeFormatting", path, range=first, **OPTIONS) == edits[:1]
        await made.change(path, [{"text": "a=1\n[["}])
        assert await made.of("textDocument/formatting", path, **OPTIONS) is None
        await made.open(template)
        assert await made.of("textDocument/formatting", template, **OPTIONS) is None


async def test_only_files_that_can_be_formatted_have_it_in_their_menu(small: Path) -> None:
    """Only where the editor can be told: VS Code would offer it in templates too."""
    able = capabilities(textDocument__formatting={"dynamicRegistration": True})
    async with editor(small, initialize=False) as made:
        answer = (await start(made, small, able=able))["capabilities"]
        assert "documentFormattingProvider" not in answer
        assert answer["documentRangeFormattingProvider"] == {"rangesSupport": True}
        told = await made.heard_of(
            "client/registerCapability", lambda one: "formatting" in one["registrations"][0]["id"]
        )
        [registration] = told["registrations"]
        assert registration["method"] == "textDocument/formatting"
        patterns = [one["pattern"] for one in registration["registerOptions"]["documentSelector"]]
        assert patterns == ["**/*.kernel.toml", "**/ckwatch.toml"]
        await made.open(small / "k.kernel.toml", "a=1\n")
        [edit] = await made.of("textDocument/formatting", small / "k.kernel.toml", **OPTIONS)
        assert edit["newText"] == " = "
        await made.request("shutdown")
        await made.notify("exit")


async def test_settings_have_their_keys_too(small: Path) -> None:
    path = small / "ckwatch.toml"
    async with editor(small, settings=QUIET) as made:
        await made.open(path)
        await ready(made, 3)
        assert await labels(made, path, '"wanted"', 1) == ["wanted", "edited", "everything"]
        told = (await at(made, "hover", path, "build"))["contents"]["value"]
        assert "what is compiled without a request" in told
        await made.replace(path, "\n", "\n\n")
        assert "idle_exit_s" in await labels(made, path, "[daemon]\n", 9)


async def test_broken_texts_get_answers(small: Path) -> None:
    path = small / "k.kernel.toml"
    async with editor(small, settings=QUIET) as made:
        uri = await made.open(path)
        for text in (
            "",
            "[[instance",
            'template = "',
            "\0\0",
            "[sweep.parameters]\n[[[",
            "name = {" * 200,
            "\r\ra = [\r1",
        ):
            await made.change(path, [{"text": text}])
            for method in ("completion", "hover", "definition", "documentHighlight", "prepareRename"):
                for line, character in ((0, 0), (0, len(text)), (99, 9)):
                    place = {"line": line, "character": character}
                    asked = {"textDocument": {"uri": uri}, "position": place}
                    answer = await made.answer(await made.ask(f"textDocument/{method}", asked))
                    assert "error" not in answer or method == "prepareRename", answer
            for method in ("documentSymbol", "foldingRange", "documentLink", "semanticTokens/full"):
                await made.request(f"textDocument/{method}", {"textDocument": {"uri": uri}})


async def test_half_typed_text_keeps_units_hints_and_lenses(gemm: Path) -> None:
    path = gemm / FILE
    able = capabilities(textDocument__inlineCompletion={})
    async with editor(gemm, able=able, settings=QUIET) as made:
        await made.open(path)
        await ready(made, 12)
        hints = await made.of("textDocument/inlayHint", path, range=WHOLE)
        lenses = await made.of("textDocument/codeLens", path)
        await made.replace(path, "KPerBlock = 64", "KPerBlock = ")
        (wrong,) = await made.diagnosed(path, lambda found: [one for one in found if one["severity"] == 1])
        assert wrong["message"] == "the value is missing"
        assert wrong["range"]["start"] == place_of(made.text(path), "KPerBlock = \n", len("KPerBlock = "))
        assert len(await made.command("ckwatch.units")) == 12
        assert len(await made.of("textDocument/inlayHint", path, range=WHOLE)) == len(hints)
        titles = [one["command"]["title"] for one in await made.of("textDocument/codeLens", path)]
        assert titles == [one["command"]["title"] for one in lenses]
        # what the rules accept and predictions prefer stands behind the cursor
        ghost = None
        with anyio.fail_after(PATIENCE_S):
            while not ghost:
                ghost = await at(made, "inlineCompletion", path, "KPerBlock = \n", 12, context={"triggerKind": 1})
        assert ghost[0]["insertText"] == (await labels(made, path, "KPerBlock = \n", 12))[0]
        await made.replace(path, "KPerBlock = \n", "KPerBlock = 32\n")
        await made.diagnosed(path, lambda found: not any(one["severity"] == 1 for one in found))


WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 10_000, "character": 0}}


async def test_lines_are_formatted_as_they_are_left_and_ranges_together(small: Path) -> None:
    path = small / "k.kernel.toml"
    options = {"tabSize": 4, "insertSpaces": True}
    async with editor(small, settings=QUIET) as made:
        await made.open(path, KERNEL.replace("Tile = 1\n", "Tile=1\n").replace('base = "one"', 'base="one"'))
        uri = path.as_uri()
        typed = {"textDocument": {"uri": uri}, "ch": "\n", "options": options}
        line = place_of(made.text(path), "Tile=1")["line"]
        (edit, *more) = await made.request(
            "textDocument/onTypeFormatting", {**typed, "position": {"line": line + 1, "character": 0}}
        )
        assert (edit["range"]["start"]["line"], more) == (line, [])
        ranges = [
            {"start": {"line": at, "character": 0}, "end": {"line": at, "character": 1}}
            for at in (line, place_of(made.text(path), "base=")["line"], line)
        ]
        found = await made.request(
            "textDocument/rangesFormatting", {"textDocument": {"uri": uri}, "ranges": ranges, "options": options}
        )
        assert [one["range"]["start"]["line"] for one in found] == [one["start"]["line"] for one in ranges[:2]]


async def test_folded_tables_say_their_names_and_tokens_their_changes(small: Path) -> None:
    path = small / "k.kernel.toml"
    async with editor(small, settings=QUIET) as made:
        await made.open(path)
        await ready(made, 3)
        folds = await made.of("textDocument/foldingRange", path)
        assert "[[instance]] one" in [one.get("collapsedText") for one in folds]
        first = await made.of("textDocument/semanticTokens/full", path)
        same = await made.of("textDocument/semanticTokens/full/delta", path, previousResultId=first["resultId"])
        assert same["edits"] == []
        await made.replace(path, "[[instance]]", "# above\n[[instance]]")
        changed = await made.of("textDocument/semanticTokens/full/delta", path, previousResultId=same["resultId"])
        data = list(first["data"])
        for edit in changed["edits"]:
            data[edit["start"] : edit["start"] + edit["deleteCount"]] = edit.get("data", [])
        assert data == (await made.of("textDocument/semanticTokens/full", path))["data"]
        whole = await made.of("textDocument/semanticTokens/full/delta", path, previousResultId="unknown")
        assert whole["data"] == data
