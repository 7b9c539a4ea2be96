"""Names of templates through the wire: completion, signatures, definitions, references, rename, links, symbols."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.workspace.trust import trust
from fakes.patience import PATIENCE_S
from helpers.workspaces import gemm_kernel
from lsp.editing import Editor, LspError, capabilities, editor, lasting, place

MACROS = """\
{# Sets an element. #}
{% macro store(at, value=0) %}
  y[{{ at }}] = {{ value }};  // é🙂 {{ Tile }}
{% endmacro %}
"""

TEMPLATE = """\
{% import "macros.j2" as macros with context %}
{% set bound = Tile * 2 %}
{{ header("hip") }}
// é🙂 tile {{ Tile }}
void f() {
{% for i in range(2) %}
{{ macros.store(i, value=bound) }}
{% endfor %}
{% include "tail.j2" %}
}
"""

TAIL = "// {{ bound }} {{ template_argument('Tile') }}\n"

KERNEL = gemm_kernel("saxpy.hip.j2", {"small": {"Tile": 64}, "large": {"Tile": 128}})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace whose template needs no compiler to be looked at."""
    folder = tmp_path_factory.mktemp("navigation")
    (folder / "templates").mkdir()
    (folder / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    for name, text in (("saxpy.hip.j2", TEMPLATE), ("macros.j2", MACROS), ("tail.j2", TAIL)):
        (folder / "templates" / name).write_text(text)
    (folder / "saxpy.kernel.toml").write_text(KERNEL)
    with lasting(folder) as root:
        yield root


@pytest.fixture
def template(root: Path) -> Path:
    return root / "templates/saxpy.hip.j2"


async def told_words(made: Editor) -> None:
    """The server knows the daemon's words: colours are asked for again."""
    await made.until(lambda: made.all("workspace/semanticTokens/refresh"))


def texts(locations: list[dict[str, Any]] | None, root: Path) -> list[str]:
    """The text at each location, with the file's name."""
    found = []
    for location in locations or []:
        path = Path(location["uri"].removeprefix("file://"))
        start, end = location["range"]["start"], location["range"]["end"]
        line = path.read_text().split("\n")[start["line"]].encode("utf-16-le")
        text = line[2 * start["character"] : 2 * end["character"]].decode("utf-16-le")
        found.append(f"{path.relative_to(root)}:{start['line']} {text}")
    return sorted(found)


def labels(answer: dict[str, Any] | None) -> list[str]:
    return [item["label"] for item in (answer or {"items": []})["items"]]


async def test_completion_and_signatures(root: Path, template: Path) -> None:
    async with editor(root) as made:
        await made.open(template)
        await told_words(made)
        names = labels(await made.at("textDocument/completion", template, "Tile }}\nvoid"))
        assert {"bound", "macros", "arg_name", "Tile"} <= set(names)
        assert names[0] == "bound"
        members = await made.at("textDocument/completion", template, "store(i")
        assert labels(members) == ["store"]
        assert members["items"][0]["detail"] == "store(at, value=0)"
        assert members["items"][0]["documentation"]["value"] == "Sets an element."
        await made.replace(template, "// é🙂 tile {{ Tile }}", "// é🙂 {{ Ti")
        written = await made.at("textDocument/completion", template, "\nvoid f")
        tile = next(item for item in written["items"] if item["label"] == "Tile")
        assert tile["textEdit"]["range"]["start"] == {"line": 3, "character": 10}
        assert tile["textEdit"]["range"]["end"] == {"line": 3, "character": 12}
        assert labels(await made.at("textDocument/completion", template, "oid f()")) == []

        help_ = await made.at("textDocument/signatureHelp", template, "bound) }}")
        assert help_["signatures"][0]["label"] == "store(at, value=0)"
        assert help_["activeParameter"] == 1
        hook = await made.at("textDocument/signatureHelp", template, '"hip")')
        assert hook["signatures"][0]["label"].startswith("header(family=")
        assert await made.at("textDocument/signatureHelp", template, "void f") is None


async def test_definitions_and_references(root: Path, template: Path) -> None:
    async with editor(root) as made:
        await made.open(template)
        await told_words(made)
        await until_units(made, template)

        async def found(method: str, before: str, **more: Any) -> list[str]:
            return texts(await made.at(f"textDocument/{method}", template, before, **more), root)

        assert await found("definition", "store(i") == ["templates/macros.j2:1 store"]
        assert await found("definition", "value=bound") == ["templates/macros.j2:1 value"]
        assert await found("definition", "macros.store") == ["templates/saxpy.hip.j2:0 macros"]
        assert await found("definition", "tail.j2") == ["templates/tail.j2:0 "]
        [kernel] = await found("definition", "Tile * 2")
        assert kernel.startswith("saxpy.kernel.toml:10 ")
        context = {"context": {"includeDeclaration": True}}
        assert await found("references", "bound = Tile", **context) == [
            "templates/saxpy.hip.j2:1 bound",
            "templates/saxpy.hip.j2:6 bound",
            "templates/tail.j2:0 bound",
        ]
        context = {"context": {"includeDeclaration": False}}
        assert await found("references", "store(i", **context) == ["templates/saxpy.hip.j2:6 store"]
        context = {"context": {"includeDeclaration": True}}
        assert await found("references", "Tile * 2", **context) == [
            "saxpy.kernel.toml:10 Tile",
            "saxpy.kernel.toml:14 Tile",
            "templates/macros.j2:2 Tile",
            "templates/saxpy.hip.j2:1 Tile",
            "templates/saxpy.hip.j2:3 Tile",
            "templates/tail.j2:0 Tile",
        ]
        assert await found("definition", "void f") == []


async def calls(made: Editor, direction: str, item: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """Who calls or is called, with the places of the calls."""
    answer = await made.request(f"callHierarchy/{direction}Calls", {"item": item})
    return {
        each["from" if direction == "incoming" else "to"]["name"]: [
            (reach["start"]["line"], reach["start"]["character"]) for reach in each["fromRanges"]
        ]
        for each in answer or ()
    }


async def test_calls(root: Path, template: Path) -> None:
    macros = root / "templates/macros.j2"
    async with editor(root) as made:
        await made.open(template)
        [macro] = await made.at("textDocument/prepareCallHierarchy", template, "store(i")
        assert (macro["name"], macro["detail"], macro["uri"]) == ("store", "macros.j2", macros.as_uri())
        assert macro["range"] == {"start": {"line": 1, "character": 0}, "end": {"line": 3, "character": 14}}
        assert macro["selectionRange"]["start"] == {"line": 1, "character": 9}
        assert await calls(made, "incoming", macro) == {"saxpy.hip.j2": [(6, 10)]}
        assert await calls(made, "outgoing", macro) == {}
        [file] = await made.at("textDocument/prepareCallHierarchy", template, "void f")
        assert (file["name"], file["uri"]) == ("saxpy.hip.j2", template.as_uri())
        assert await calls(made, "outgoing", file) == {
            "macros.j2": [(0, 11)], "hooks/header_hip.j2": [(2, 11)], "store": [(6, 10)], "tail.j2": [(8, 12)]
        }  # fmt: skip
        assert await calls(made, "incoming", file) == {}
        [tail] = await made.at("textDocument/prepareCallHierarchy", template, "tail.j2")
        assert await calls(made, "incoming", tail) == {"saxpy.hip.j2": [(8, 12)]}


async def test_calls_of_texts_that_are_not_saved(root: Path, template: Path) -> None:
    tail = root / "templates/tail.j2"
    async with editor(root) as made:
        await made.open(template)
        [macro] = await made.at("textDocument/prepareCallHierarchy", template, "store(i")
        await made.open(tail)
        await made.replace(tail, "//", "// é🙂 {{ macros.store(1) }}")
        assert await calls(made, "incoming", macro) == {"saxpy.hip.j2": [(6, 10)], "tail.j2": [(0, 17)]}
        await made.close(tail)
        assert await calls(made, "incoming", macro) == {"saxpy.hip.j2": [(6, 10)]}


@pytest.mark.parametrize("data", [None, 5, {"language": "cpp"}, {"language": "template", "root": "/", "path": 1}])
async def test_calls_of_an_item_that_nobody_made(data: Any) -> None:
    reach = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
    item = {"name": "f", "kind": 12, "uri": "file:///a.j2", "range": reach, "selectionRange": reach, "data": data}
    async with editor() as made:
        for direction in ("incoming", "outgoing"):
            assert await made.request(f"callHierarchy/{direction}Calls", {"item": item}) is None


async def until_units(made: Editor, template: Path) -> None:
    """The instances are known, and that they are made of the template."""
    with anyio.fail_after(PATIENCE_S):
        while "`64` in" not in await told_of(made, template, "Tile * 2"):
            pass  # the daemon is asked who reads the template


async def told_of(made: Editor, template: Path, before: str) -> str:
    """The hover's text."""
    answer = await made.at("textDocument/hover", template, before)
    return answer["contents"]["value"] if answer else ""


def edited(edit: dict[str, Any]) -> dict[str, list[tuple[int, str]]]:
    """Lines and new texts by file name."""
    return {
        change["textDocument"]["uri"].rpartition("/")[2]: sorted(
            (each["range"]["start"]["line"], each["newText"]) for each in change["edits"]
        )
        for change in edit["documentChanges"]
    }


async def test_rename(root: Path, template: Path) -> None:
    async with editor(root) as made:
        await made.open(template)
        await told_words(made)
        await until_units(made, template)
        place_of = await made.at("textDocument/prepareRename", template, "bound = Tile")
        assert place_of["placeholder"] == "bound"
        edit = await made.at("textDocument/rename", template, "bound = Tile", newName="limit")
        assert edited(edit) == {"saxpy.hip.j2": [(1, "limit"), (6, "limit")], "tail.j2": [(0, "limit")]}
        versions = [change["textDocument"]["version"] for change in edit["documentChanges"]]
        assert versions == [1, None]
        edit = await made.at("textDocument/rename", template, "Tile * 2", newName="TileSize")
        assert edited(edit) == {
            "saxpy.hip.j2": [(1, "TileSize"), (3, "TileSize")],
            "macros.j2": [(2, "TileSize")],
            "tail.j2": [(0, "TileSize")],
            "saxpy.kernel.toml": [(10, "TileSize"), (14, "TileSize")],
        }
        kernel = root / "saxpy.kernel.toml"
        await made.open(kernel)
        assert edited(await made.at("textDocument/rename", kernel, "Tile = 64", newName="TileSize")) == edited(edit)
        edit = await made.at("textDocument/rename", template, "value=bound", newName="content")
        assert edited(edit) == {"saxpy.hip.j2": [(6, "content")], "macros.j2": [(1, "content"), (2, "content")]}
        with pytest.raises(LspError, match=r"'i' means something else in saxpy\.hip\.j2, line 6"):
            await made.at("textDocument/rename", template, "bound = Tile", newName="i")
        with pytest.raises(LspError, match="is a hook, which has this name everywhere"):
            await made.at("textDocument/rename", template, 'header("hip")', newName="x")
        with pytest.raises(LspError, match="is a hook, which has this name everywhere"):
            await made.at("textDocument/prepareRename", template, 'header("hip")')


async def test_an_editor_without_versions_gets_plain_changes(root: Path, template: Path) -> None:
    able = capabilities(workspace__workspaceEdit=None, textDocument__rename=None)
    async with editor(root, able=able) as made:
        await made.open(template)
        await told_words(made)
        edit = await made.at("textDocument/rename", template, "i in range", newName="k")
        assert list(edit["changes"]) == [template.as_uri()]
        assert len(edit["changes"][template.as_uri()]) == 2


async def test_structure(root: Path, template: Path) -> None:
    async with editor(root) as made:
        await made.open(template)
        await told_words(made)
        links = await made.of("textDocument/documentLink", template)
        assert [Path(link["target"]).name for link in links] == ["macros.j2", "header_hip.j2", "tail.j2"]
        symbols = await made.of("textDocument/documentSymbol", template)
        assert [symbol["name"] for symbol in symbols] == ["macros", "bound", "tail.j2"]
        found = await made.request("workspace/symbol", {"query": "STO"})
        own = [each for each in found if each["location"]["uri"].startswith(root.as_uri())]
        assert [(each["name"], each["containerName"]) for each in own] == [("store", "macros.j2")]
        folds = await made.of("textDocument/foldingRange", template)
        assert [(fold["startLine"], fold["endLine"]) for fold in folds] == [(4, 8), (5, 6)]
        position = place(TEMPLATE, TEMPLATE.index("bound) }}"))
        [selection] = await made.of("textDocument/selectionRange", template, positions=[position])
        depth = 0
        while selection.get("parent"):
            selection, depth = selection["parent"], depth + 1
        assert depth >= 5
        assert selection["range"]["start"] == {"line": 0, "character": 0}
        marks = await made.at("textDocument/documentHighlight", template, "bound = Tile")
        assert [(each["range"]["start"]["line"], each["kind"]) for each in marks] == [(1, 3), (6, 2)]
        marks = await made.at("textDocument/documentHighlight", template, "for i in")
        assert [each["range"]["start"]["line"] for each in marks] == [5, 7]


async def test_the_names_of_a_block_change_together(root: Path, template: Path) -> None:
    text = "{% block körper %}\n{% block inner %}{% endblock %}\n{% endblock körper %}\n{% block a %}{% endblock b %}\n"
    async with editor(root) as made:
        await made.open(template, text)
        for place_of_name in ("körper %}\n{% block i", "rper %}\n{% block a"):
            found = await made.at("textDocument/linkedEditingRange", template, place_of_name)
            ranges = [
                (one["start"]["line"], one["start"]["character"], one["end"]["character"]) for one in found["ranges"]
            ]
            assert ranges == [(0, 9, 15), (2, 12, 18)]
        for elsewhere in ("block körper", "inner", "a %}", "b %}"):
            assert await made.at("textDocument/linkedEditingRange", template, elsewhere) is None


async def test_semantic_tokens(root: Path, template: Path) -> None:
    async with editor(root) as made:
        await made.open(template)
        await told_words(made)
        everything = (await made.of("textDocument/semanticTokens/full", template))["data"]
        assert len(everything) % 5 == 0
        lines, line = [], 0
        for at in range(0, len(everything), 5):
            line += everything[at]
            lines.append(line)
        assert set(lines) == {0, 1, 2, 3, 5, 6, 7, 8}
        window = {"start": {"line": 3, "character": 0}, "end": {"line": 3, "character": 5}}
        some = (await made.of("textDocument/semanticTokens/range", template, range=window))["data"]
        assert some[0] == 3
        assert some[1] == len("// é🙂 tile ") + 1  # UTF-16
        assert len(some) // 5 == lines.count(3)


async def test_hover(root: Path, template: Path) -> None:
    tail = root / "templates/tail.j2"
    async with editor(root) as made:
        await made.open(template)
        await made.open(tail)
        await told_words(made)
        await until_units(made, template)

        async def told(before: str) -> str:
            return await told_of(made, template, before)

        parameter = await told("Tile * 2")
        assert "parameter `Tile`" in parameter
        assert "`64` in `saxpy/small@gfx942`" in parameter
        macro = await told("store(i")
        assert "macro store(at, value=0)" in macro
        assert "Sets an element." in macro
        assert "[macros.j2:2](" in macro
        variable = await told("bound = Tile")
        assert "{% set bound = Tile * 2 %}" in variable
        value = await told("value=bound")
        assert "parameter of a macro `value`" in value
        assert "y[0] = 128;" in value  # what the call gave
        assert "`64` in `saxpy/small@gfx942`" in await told("{ Tile }}")
        assert "header(family=" in await told('header("hip")')
        assert "Repeats its body" in await told("for i in")
        assert "`128`" in await told_of(made, tail, "bound }}")
        assert "macros.j2" in await told('macros.j2"')
        assert await told("void f") == ""


async def test_texts_that_are_not_saved_count(root: Path, template: Path) -> None:
    macros = root / "templates/macros.j2"
    async with editor(root) as made:
        await made.open(template)
        await told_words(made)
        await made.open(macros)
        await made.replace(macros, "macro store(", "macro\n  store(")
        [location] = await made.at("textDocument/definition", template, "store(i")
        assert location["range"]["start"] == {"line": 2, "character": 2}
        await made.close(macros)
        [location] = await made.at("textDocument/definition", template, "store(i")
        assert location["range"]["start"] == {"line": 1, "character": 9}


async def test_files_outside_a_workspace_get_empty_answers(tmp_path: Path) -> None:
    lonely = tmp_path / "a.hip.j2"
    async with editor() as made:
        await made.open(lonely, "{% set x = 1 %}{{ x }}")
        assert await made.at("textDocument/definition", lonely, "x }}") is None
        assert await made.of("textDocument/documentSymbol", lonely) is None
        assert await made.at("textDocument/rename", lonely, "x }}", newName="y") is None
        assert (await made.of("textDocument/semanticTokens/full", lonely))["data"] == []


CUSTOM = """\
template = "scale.hip.j2"

[operation]
kind = "custom"
sizes = ["N", "C"]

[[operation.input]]
name = "X"
dtype = "bf16"
sizes = ["N", "2 * C"]

[[operation.output]]
name = "Scaled"
dtype = "f32"
sizes = ["N", "C"]

[[instance]]
name = "one"
"""


async def test_hover_on_tensors_of_a_custom_operation(tmp_path: Path) -> None:
    template = tmp_path / "templates/scale.hip.j2"
    template.parent.mkdir()
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (tmp_path / "scale.kernel.toml").write_text(CUSTOM)
    template.write_text('{{ header("hip") }}\n{{ def_kernel(inputs=[X], outputs=[Scaled]) }} { return 0; }\n')
    trust(tmp_path)
    async with editor(tmp_path) as made:
        await made.open(template)
        with anyio.fail_after(PATIENCE_S):
            while "tensor `Scaled`" not in (output := await told_of(made, template, "Scaled]")):
                pass  # the daemon is asked who reads the template
        assert output.startswith("tensor `Scaled`: f32, N × C in `scale/one@gfx942`")
        given = await told_of(made, template, "X]")
        assert given.startswith("tensor `X`: bf16, N × 2 * C in `scale/one@gfx942`")
        assert "GEMM" not in given
        words = await told_of(made, template, 'header("hip")')
        assert "The `#include` lines for a family of headers: `hip`, `ck`" in words
        assert "HEADER_FAMILIES" not in words
