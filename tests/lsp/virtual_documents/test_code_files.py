"""The documents of code objects: without a workspace, with hovers, and what is said of files that have none."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import ExitReason, ProcessResult
from ckwatch_lsp.protocol.uris import VirtualUri, parse_virtual_uri
from ckwatch_lsp.virtual_documents.code_files import code_text
from lsp.editing import LspError, capabilities, editor

TRITON = Path(__file__).parents[2] / "data/triton"
SHOWS = capabilities(workspace__textDocumentContent={})


def finished(stdout: str, stderr: str = "", status: int = 0) -> ProcessResult:
    return ProcessResult((), ExitReason.EXITED, status, stdout, stderr, 0, 0.0, 0)


def test_a_uri_of_a_file() -> None:
    virtual = VirtualUri("code", "a b.hsaco", Path("/x y"))
    assert virtual.uri == "ckwatch://code/a%20b.hsaco.s?folder=/x%20y"
    assert parse_virtual_uri(virtual.uri) == virtual


@pytest.mark.toolchain
async def test_a_code_object_is_shown_without_a_workspace(tmp_path: Path) -> None:
    for path in TRITON.glob("add_kernel.*"):
        shutil.copy(path, tmp_path)
    path = tmp_path / "add_kernel.hsaco"
    async with editor(able=SHOWS) as made:
        uri = VirtualUri("code", path.name, tmp_path).uri
        shown = await made.command("ckwatch.document", uri=uri)
        text = shown["text"]
        assert text.startswith("; add_kernel.hsaco, gfx942 (Triton: 4 warps, 0 B LDS)\n;   add_kernel\n")
        assert (shown["languageId"], shown["stale"]) == ("asm", False)
        assert (await made.request("workspace/textDocumentContent", {"uri": uri}))["text"] == text
        # Neovim: the file's own buffer.
        await made.open(path, text)
        hover = await made.at("textDocument/hover", path, "global_load_dword")
        assert "from `/kernels/kernels.py:11:1`" in hover["contents"]["value"]
        (place,) = await made.at("textDocument/definition", path, "global_load_dword")
        assert place["uri"] == "file:///kernels/kernels.py"
        assert len(await made.of("textDocument/foldingRange", path)) > 1
        path.write_bytes(b"\x7fELF")
        with pytest.raises(LspError, match="is not an ELF-64 file"):
            await made.command("ckwatch.document", uri=uri)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (
            finished('{"schema": 1, "file": "k.so", "objects": [], "notes": ["k.so holds no code."]}'),
            "k.so holds no code.",
        ),
        (finished("", "ckwatch: error: no ROCm\n", 2), "k.so cannot be shown: ckwatch: error: no ROCm"),
        (finished("", "", -9), "k.so cannot be shown: reading it ended with status -9"),
    ],
)
async def test_what_a_file_without_code_says(done: ProcessResult, said: str) -> None:
    asked: list[tuple[Sequence[str], Path]] = []

    async def run(arguments: Sequence[str], folder: Path) -> ProcessResult:
        asked.append((arguments, folder))
        return done

    with pytest.raises(CkwatchError) as raised:
        await code_text(Path("/f/k.so"), run)
    assert raised.value.message == said
    assert asked == [(["--isa", "--kernel", "*", "--json", "/f/k.so"], Path("/f"))]
