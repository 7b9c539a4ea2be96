"""Rendered source as a document: shown, linked both ways, live, and marked when it is not of the present text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import pytest

from ckwatch.workspace.trust import trust
from helpers.workspaces import gemm_kernel
from lsp.editing import Editor, LspError, capabilities, editor, lasting

UNIT = "saxpy/small@gfx942"

TEMPLATE = """\
{% macro body(n) %}
  y[{{ n }}] = 0;
{% endmacro %}
{{ header("hip") }}
// tile {{ Tile }}
void f() {
{{ body(Tile) }}
}
"""

KERNEL = gemm_kernel("saxpy.hip.j2", {"small": {"Tile": 64}})

SHOWS = capabilities(workspace__textDocumentContent={})


def workspace(folder: Path) -> Path:
    """One whose template needs no compiler to be looked at."""
    (folder / "templates").mkdir()
    (folder / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (folder / "templates/saxpy.hip.j2").write_text(TEMPLATE)
    (folder / "saxpy.kernel.toml").write_text(KERNEL)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with lasting(workspace(tmp_path_factory.mktemp("generated"))) as root:
        yield root


async def ready(made: Editor) -> None:
    """The unit is rendered: until then it is not known which templates it is made of."""
    await made.heard_of("ckwatch/unitsChanged")
    while True:
        seen = len(made.all("ckwatch/unitsChanged"))
        units = await made.command("ckwatch.units")
        if any(unit["id"] == UNIT and unit["phase"] not in ("waiting", "rendering") for unit in units):
            return
        await more(made, "ckwatch/unitsChanged", seen)


async def more(made: Editor, method: str, seen: int) -> None:
    """Wait for one more message of this method."""
    await made.until(lambda: len(made.all(method)) > seen)


def place_of(text: str, what: str) -> dict[str, int]:
    before = text[: text.index(what)]
    return {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}


async def test_the_source_is_shown_and_linked_both_ways(root: Path) -> None:
    template = root / "templates/saxpy.hip.j2"
    async with editor(root, able=SHOWS) as made:
        await made.open(template)
        await ready(made)
        shown = await made.command("ckwatch.openSource", unit=UNIT, uri=template.as_uri())
        assert shown["uri"].startswith("ckwatch://source/saxpy/small@gfx942.hip?folder=")
        assert (await made.heard_of("window/showDocument"))["uri"] == shown["uri"]
        text = (await made.request("workspace/textDocumentContent", {"uri": shown["uri"]}))["text"]
        assert "// tile 64" in text
        await made.open(shown["uri"], text)

        there = await made.command(
            "ckwatch.toGenerated", uri=template.as_uri(), position=place_of(TEMPLATE, "tile"), kind="source"
        )
        assert there["uri"] == shown["uri"]
        assert there["range"]["start"] == place_of(text, "tile")
        back = await made.command("ckwatch.toTemplate", uri=shown["uri"], position=there["range"]["start"])
        assert back == {
            "uri": template.as_uri(),
            "range": {"start": place_of(TEMPLATE, "tile"), "end": place_of(TEMPLATE, "tile")},
        }
        value = await made.command("ckwatch.toTemplate", uri=shown["uri"], position=place_of(text, "64] = 0"))
        assert value["range"]["start"] == place_of(TEMPLATE, "{{ n }}")
        [location] = await made.at("textDocument/definition", shown["uri"], "y[64]")
        assert location["range"]["start"] == place_of(TEMPLATE, "y[")
        hover = await made.at("textDocument/hover", shown["uri"], "64] = 0")
        assert "saxpy.hip.j2:2:" in hover["contents"]["value"]


async def test_it_is_live_and_says_when_it_is_old(root: Path) -> None:
    template = root / "templates/saxpy.hip.j2"
    async with editor(root, able=SHOWS) as made:
        await made.open(template)
        await ready(made)
        uri = (await made.command("ckwatch.openSource", unit=UNIT, uri=template.as_uri()))["uri"]
        assert "// tile" in (await made.request("workspace/textDocumentContent", {"uri": uri}))["text"]

        await made.replace(template, "// tile", "// size")
        await refreshed(made, uri, lambda text: "// size 64" in text)
        await made.replace(template, "{{ Tile }}", "{{ Tile")
        broken = await refreshed(made, uri, lambda text: text.startswith("// ckwatch: "))
        assert "last text without errors" in broken.splitlines()[0]
        assert "// size 64" in broken
        there = await made.command("ckwatch.toTemplate", uri=uri, position=place_of(broken, "y[64]"))
        assert there["range"]["start"] == place_of(TEMPLATE, "y[")
        await made.replace(template, "{{ Tile", "{{ Tile }}")
        await refreshed(made, uri, lambda text: not text.startswith("// ckwatch: ") and "// size 64" in text)


async def refreshed(made: Editor, uri: str, where: Any) -> str:
    """Wait, by the server's refreshes, until the text is such."""
    method = "workspace/textDocumentContent/refresh"
    while True:
        seen = len(made.all(method))
        text: str = (await made.request("workspace/textDocumentContent", {"uri": uri}))["text"]
        if where(text):
            return text
        await more(made, method, seen)


async def test_editors_that_show_files_only_get_a_file(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = workspace(tmp_path)
    trust(root)
    runtime = tmp_path_factory.mktemp("run")
    runtime.chmod(0o700)
    async with editor(root, environment={"XDG_RUNTIME_DIR": str(runtime)}) as made:
        await made.open(root / "templates/saxpy.hip.j2")
        await ready(made)
        shown = await made.command("ckwatch.openSource", unit=UNIT)
        path = Path(unquote(shown["uri"].removeprefix("file://")))
        assert path.is_relative_to(runtime)
        assert path.name == "small@gfx942.hip"
        assert mode_and_text(path)[0] == 0o400
        assert "// tile 64" in mode_and_text(path)[1]
        await made.open(path)
        [location] = await made.at("textDocument/definition", path, "y[64]")
        assert location["uri"] == (root / "templates/saxpy.hip.j2").as_uri()
    assert not await anyio.Path(path).exists()


def mode_and_text(path: Path) -> tuple[int, str]:
    return path.stat().st_mode & 0o777, path.read_text()


async def test_what_is_not_there_is_said(root: Path) -> None:
    async with editor(root, able=SHOWS) as made:
        await made.open(root / "templates/saxpy.hip.j2")
        await ready(made)
        for uri in (
            "file:///a",
            "ckwatch://source/x",
            "ckwatch://other/saxpy/small@gfx942.hip?folder=/x",
            "ckwatch:///",
        ):
            with pytest.raises(LspError, match="generated document"):
                await made.request("workspace/textDocumentContent", {"uri": uri})
        await made.open(root / "saxpy.kernel.toml")
        anyhow = await made.command("ckwatch.openSource")
        assert "saxpy/small@gfx942" in anyhow["uri"], "that of the document that was opened last"
        unknown = f"ckwatch://source/saxpy/none@gfx942.hip?folder={root}"
        with pytest.raises(LspError, match="no unit saxpy/none"):
            await made.request("workspace/textDocumentContent", {"uri": unknown})
        isa = await made.command("ckwatch.document", uri=f"ckwatch://isa/{UNIT}.s?folder={root}")
        assert isa["languageId"] == "asm"
        assert isa["stale"]
        assert isa["text"].startswith("; ckwatch: ")
        wrong: list[tuple[str, dict[str, Any], str]] = [
            ("ckwatch.openSource", {"unit": 5}, "must be a string"),
            ("ckwatch.openSource", {"unit": "nothing"}, "no unit is called"),
            ("ckwatch.toTemplate", {"uri": unknown}, "no unit saxpy"),
            ("ckwatch.toGenerated", {"uri": "file:///none", "position": {"line": 0, "character": 0}}, "no document"),
            ("ckwatch.document", {}, "`uri` must be given"),
        ]
        for name, argument, message in wrong:
            with pytest.raises(LspError, match=message):
                await made.command(name, **argument)
