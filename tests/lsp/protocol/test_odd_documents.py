"""Documents that nobody writes: the server goes on. Random messages are in `torture.lsp`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lsp.editing import copy_of, editor, lasting


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace whose daemon the first editor starts."""
    with lasting(copy_of("gemm", tmp_path_factory.mktemp("messages"))) as root:
        yield root


async def test_a_large_document_and_a_binary_one(root: Path) -> None:
    async with editor(root) as made:
        large = "{{ value }} {% if a %} x {% endif %}\n" * 280_000
        uri = await made.open(str((root / "templates/large.hip.j2").as_uri()), large)
        for at in range(5):
            await made.change(uri, [{"range": _at(at * 1000), "text": "{{"}])
        await made.of("textDocument/hover", uri, position={"line": 100, "character": 4})
        binary = await made.open(
            str((root / "templates/binary.hip.j2").as_uri()), bytes(range(256)).decode("latin1") * 50
        )
        for method in ("documentSymbol", "semanticTokens/full", "foldingRange"):
            await made.of(f"textDocument/{method}", binary)


def _at(line: int) -> dict[str, Any]:
    place = {"line": line, "character": 3}
    return {"start": place, "end": place}
