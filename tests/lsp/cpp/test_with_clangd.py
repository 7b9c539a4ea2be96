"""The real clangd behind a daemon, through the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckwatch.workspace.trust import trust
from helpers.workspaces import gemm_kernel
from lsp.editing import Editor, LspError, capabilities, editor, place

pytestmark = pytest.mark.toolchain

TEMPLATE = """\
{% macro body(n) %}
  y[{{ n }}] = 0;
{% endmacro %}
#include <vector>
using T = {{ Elem }};
int add(int left, T right) { return left + static_cast<int>(right); }
void f(T* y, int first) {
{{ body(Tile) }}
{{ body(Tile) }}
  int value = add(first, y[0]);
  y[0] = value;
}
"""

SHOWS = capabilities(workspace__textDocumentContent={}, textDocument__callHierarchy={})


def workspace(root: Path) -> Path:
    """Two instances with other element types; the template in it."""
    (root / "templates").mkdir()
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    kernel = gemm_kernel("s.hip.j2", {"small": {"Tile": 64, "Elem": "float"}, "big": {"Tile": 3, "Elem": "int"}})
    (root / "s.kernel.toml").write_text(kernel)
    template = root / "templates/s.hip.j2"
    template.write_text(TEMPLATE)
    trust(root)
    return template


async def answered(made: Editor, method: str, path: Path, before: str, *, of: str = "", **more: Any) -> Any:
    """The answer, once what is made of the template is known: with `of`, one that has this text, as a later instance
    may be known before the first."""
    while True:
        seen = len(made.all("ckwatch/unitsChanged"))
        found = await made.at(method, path, before, **more)
        if found is not None and of in str(found):
            return found
        await told_again(made, seen)


async def told_again(made: Editor, seen: int) -> None:
    """Wait for another message that units have changed."""
    await made.until(lambda: len(made.all("ckwatch/unitsChanged")) > seen)


async def test_a_template_is_cpp(tmp_path: Path) -> None:
    template = workspace(tmp_path)
    async with editor(tmp_path, able=SHOWS, settings={"cpp": True}) as made:
        uri = await made.open(template)
        hover = await answered(made, "textDocument/hover", template, "T right", of="in `s/small@gfx942`")
        assert "float" in hover["contents"]["value"]

        [found] = await made.at("textDocument/definition", template, "add(first")
        assert (found["uri"], found["range"]["start"]) == (uri, place(TEMPLATE, TEMPLATE.index("add(int")))

        await made.replace(template, "int value", "  long value")
        hover = await made.at("textDocument/hover", template, "value =")
        assert "`long`" in hover["contents"]["value"]

        edit = await made.at("textDocument/rename", template, "value =", newName="other")
        assert [len(one["edits"]) for one in edit["documentChanges"]] == [2]
        with pytest.raises(LspError, match="stands 2 times"):
            await made.at("textDocument/rename", template, "] = 0", newName="other")

        await made.replace(template, "return left", "return le")
        items = (await made.at("textDocument/completion", template, " + static"))["items"]
        assert "left" in [one["label"] for one in items]

        outline = await made.of("textDocument/documentSymbol", template)
        assert {"body", "T", "add", "f"} <= {one["name"] for one in outline}


async def test_headers_and_rendered_sources_go_on_from_there(tmp_path: Path) -> None:
    template = workspace(tmp_path)
    async with editor(tmp_path, able=SHOWS, settings={"cpp": True}) as made:
        uri = await made.open(template)
        [found] = await answered(made, "textDocument/definition", template, "vector>")
        header = Path(found["uri"].removeprefix("file://"))
        assert header.name == "vector"
        assert await made.request("ckwatch/isHeader", {"uri": found["uri"]}) == {"header": True, "readOnly": True}
        await made.open(header)
        assert (
            "_GLIBCXX_VECTOR" in (await made.at("textDocument/hover", header, "_GLIBCXX_VECTOR"))["contents"]["value"]
        )

        shown = (await made.command("ckwatch.openSource", unit="s/small@gfx942", uri=uri))["uri"]
        text = (await made.request("workspace/textDocumentContent", {"uri": shown}))["text"]
        await made.open(shown, text)
        [found] = await made.at("textDocument/definition", shown, "add(first")
        assert (found["uri"], found["range"]["start"]) == (shown, place(text, text.index("add(int")))
        [item] = await made.at("textDocument/prepareCallHierarchy", shown, "add(int")
        [call] = await made.request("callHierarchy/incomingCalls", {"item": item})
        assert call["from"]["name"] == "f"
