"""Names across templates, kernel files and references; and files that are renamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lsp.editing import Editor, LspError, capabilities, editor, lasting

TEMPLATE = '{% include "parts/tail.j2" %}\n// {{ Tile }}\nvoid {{ def_kernel(inputs=[X]) }} {}\n'
KERNEL = """\
template = "k.cpp.j2"

[operation]
kind = "custom"
sizes = ["N"]
inputs = { x = { dtype = "f32", shape = ["N"] } }
outputs = { y = { dtype = "f32", shape = ["N"] } }
reference = "refs/right.py:tiles"

[[instance]]
name = "one"
Tile = 4
"""
REFERENCE = "def tiles(x, Tile):\n    rows = len(x) // Tile\n    return x * rows\n"
BUILT_IN = """\
template = "ck/gemm_universal.hip.j2"

[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }

[[instance]]
name = "one"
MPerBlock = 128
"""
RENAMES = capabilities(workspace__fileOperations__willRename=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("across")
    files = {
        "ckwatch.toml": '[workspace]\narchs = ["gfx942"]\n',
        "templates/k.cpp.j2": TEMPLATE,
        "templates/parts/tail.j2": "// {{ Tile }}\n",
        "kernels/k.kernel.toml": KERNEL,
        "kernels/refs/right.py": REFERENCE,
        "b.kernel.toml": BUILT_IN,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with lasting(folder) as lasted:
        yield lasted


async def loaded(made: Editor, kernel: Path) -> None:
    await made.open(kernel)
    await made.heard_of("ckwatch/unitsChanged")
    await made.until(lambda: made.all("workspace/semanticTokens/refresh"))  # the words of templates are known


def texts(edit: Any, root: Path) -> dict[str, list[str]]:
    """The lines that an edit touches, as they are afterwards, by file."""
    found: dict[str, list[str]] = {}
    for change in edit["documentChanges"]:
        path = Path(change["textDocument"]["uri"].removeprefix("file://"))
        lines = path.read_text().split("\n")
        for one in change["edits"]:
            start, end = one["range"]["start"], one["range"]["end"]
            line = lines[start["line"]]
            new = line[: start["character"]] + one["newText"] + line[end["character"] :]
            found.setdefault(str(path.relative_to(root)), []).append(new)
    return {name: sorted(each) for name, each in sorted(found.items())}


@pytest.mark.parametrize("file", ["kernels/k.kernel.toml", "templates/k.cpp.j2"])
async def test_a_parameter_is_renamed_in_references_too(root: Path, file: str) -> None:
    async with editor(root) as made:
        await loaded(made, root / "kernels/k.kernel.toml")
        if file.endswith("j2"):
            await made.open(root / file)
        before = "Tile" if file.endswith("j2") else "Tile = 4"
        found = await made.at("textDocument/references", root / file, before, context={"includeDeclaration": True})
        names = sorted({Path(one["uri"]).name for one in found})
        assert names == ["k.cpp.j2", "k.kernel.toml", "right.py", "tail.j2"]
        edit = await made.at("textDocument/rename", root / file, before, newName="Rows")
        assert texts(edit, root) == {
            "kernels/k.kernel.toml": ["Rows = 4"],
            "kernels/refs/right.py": ["    rows = len(x) // Rows", "def tiles(x, Rows):"],
            "templates/k.cpp.j2": ["// {{ Rows }}"],
            "templates/parts/tail.j2": ["// {{ Rows }}"],
        }
        with pytest.raises(LspError, match=r"'rows' means something else in right\.py, line 2"):
            await made.at("textDocument/rename", root / file, before, newName="rows")


@pytest.mark.parametrize(
    ("file", "before", "why"),
    [
        ("b.kernel.toml", "MPerBlock", "the built-in template 'ck/gemm_instance.j2' uses this name too"),
        ("b.kernel.toml", "ck/gemm", "rename a template by renaming its file"),
        ("b.kernel.toml", "kind", "there is nothing here that can be renamed"),
        ("templates/k.cpp.j2", "def_kernel", "'def_kernel' is a hook, which has this name everywhere"),
        ("templates/k.cpp.j2", "parts/tail", "rename a template by renaming its file"),
    ],
)
async def test_what_cannot_be_renamed_says_why_before_and_when_it_is_tried(
    root: Path, file: str, before: str, why: str
) -> None:
    async with editor(root) as made:
        await loaded(made, root / "b.kernel.toml")
        if file.endswith("j2"):
            await made.open(root / file)
        for method, more in (("prepareRename", {}), ("rename", {"newName": "Other"})):
            with pytest.raises(LspError) as refused:
                await made.at(f"textDocument/{method}", root / file, before, **more)
            assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("templates/parts/tail.j2", "templates/end.j2", {"templates/k.cpp.j2": ['{% include "end.j2" %}']}),
        ("templates/parts", "templates/pieces", {"templates/k.cpp.j2": ['{% include "pieces/tail.j2" %}']}),
        ("templates/k.cpp.j2", "templates/sub/k2.cpp.j2", {"kernels/k.kernel.toml": ['template = "sub/k2.cpp.j2"']}),
        ("kernels/refs/right.py", "kernels/r.py", {"kernels/k.kernel.toml": ['reference = "r.py:tiles"']}),
        ("kernels/refs", "references", {"kernels/k.kernel.toml": ['reference = "../references/right.py:tiles"']}),
    ],
)
async def test_renamed_files_have_their_new_names_where_they_are_named(
    root: Path, old: str, new: str, expected: dict[str, list[str]]
) -> None:
    async with editor(root, able=RENAMES) as made:
        await loaded(made, root / "kernels/k.kernel.toml")
        files = [{"oldUri": (root / old).as_uri(), "newUri": (root / new).as_uri()}]
        assert texts(await made.request("workspace/willRenameFiles", {"files": files}), root) == expected
        elsewhere = [{"oldUri": "file:///nowhere/a.j2", "newUri": "file:///nowhere/b.j2"}]
        assert await made.request("workspace/willRenameFiles", {"files": elsewhere}) is None
