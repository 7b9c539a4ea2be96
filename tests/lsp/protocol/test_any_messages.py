"""Random sequences of messages, sensible, out of order and malformed: every request has one answer, and the server
goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lsp.editing import ALL, Editor, copy_of, editor, lasting

REQUESTS = (
    *("hover", "completion", "signatureHelp", "definition", "references", "rename", "prepareRename"),
    *("documentHighlight", "documentSymbol", "foldingRange", "documentLink", "codeLens", "inlayHint", "codeAction"),
    *("selectionRange", "semanticTokens/full", "semanticTokens/range", "diagnostic", "nothing"),
)
COMMANDS = (
    *("ckwatch.units", "ckwatch.openSource", "ckwatch.document", "ckwatch.toGenerated", "ckwatch.toTemplate"),
    *("ckwatch.chooseInstance", "ckwatch.cancel", "ckwatch.none", ""),
)
PIECES = (
    *(
        "{{ ",
        " }}",
        "{% macro m(a) %}",
        "{% endmacro %}",
        "{% for i in",
        "{#",
        "#}",
        "[[instance]]\n",
        '"""',
        "\r",
        "\r\n",
    ),
    *("MPerBlock = 12", "\n", "é𝒳", "\0", "\ud800", "a.b|c(", "{% include 'x' %}", "= [1, 2", "'", "{% endblock %}"),
)
JUNK: tuple[Any, ...] = (None, 0, -1, 2**40, 1.5, "", "x", [], {}, [None], {"line": 1}, True)
MESSAGES = 150


class Chaos:
    """Sends what comes to mind."""

    def __init__(self, made: Editor, root: Path, seed: int) -> None:
        self.made = made
        self.chance = random.Random(seed)  # noqa: S311  # the same sequence again for the same seed
        self.uris = [
            *(path.as_uri() for path in sorted(root.iterdir()) if path.suffix == ".toml"),
            (root / "templates/new.hip.j2").as_uri(),
            "untitled:new.hip.j2",
            "ckwatch://source/gemm_f16/x@gfx942.hip?folder=/x",
            "file:///no/such/file.kernel.toml",
        ]
        self.texts = {path.as_uri(): path.read_text() for path in root.iterdir() if path.suffix == ".toml"}
        self.asked: list[int] = []

    def position(self) -> Any:
        if self.chance.random() < 0.05:
            return self.chance.choice(JUNK)
        return {"line": self.chance.choice((0, 3, 20, 60, 10**6)), "character": self.chance.choice((0, 4, 17, 10**6))}

    def range(self) -> Any:
        return {"start": self.position(), "end": self.position()}

    def text(self) -> str:
        return "".join(self.chance.choices(PIECES, k=self.chance.randrange(8)))

    async def step(self) -> None:
        chance, uri = self.chance, self.chance.choice(self.uris)
        document: Any = {"uri": uri, "version": chance.randrange(100)}
        if chance.random() < 0.03:
            document = chance.choice(JUNK)
        match chance.randrange(12):
            case 0:
                text = self.texts.get(uri, "") + self.text()
                item = {"uri": uri, "languageId": "", "version": 1, "text": text}
                await self.made.notify("textDocument/didOpen", {"textDocument": item})
            case 1:
                await self.made.notify("textDocument/didClose", {"textDocument": document})
            case 2:
                await self.made.notify("textDocument/didSave", {"textDocument": document})
            case 3 | 4 | 5:
                changes: list[Any] = [{"range": self.range(), "text": self.text()} for _ in range(chance.randrange(3))]
                if chance.random() < 0.2:
                    changes.append({"text": self.text()})
                await self.made.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})
            case 6:
                argument = {
                    "uri": uri,
                    "position": self.position(),
                    "unit": chance.choice((None, "gemm_f16/*", 7, "x")),
                }
                await self.ask(
                    "workspace/executeCommand", {"command": chance.choice(COMMANDS), "arguments": [argument]}
                )
            case 7:
                await self.made.notify("$/cancelRequest", {"id": chance.choice([*self.asked[-3:], "none"])})
            case 8:
                method = chance.choice(("workspace/symbol", "shutdow", "workspace/diagnostic", "$/unknown"))
                await self.ask(method, chance.choice(({"query": "v3"}, {"previousResultIds": []}, *JUNK)))
            case _:
                await self.ask(
                    f"textDocument/{chance.choice(REQUESTS)}",
                    {
                        "textDocument": document,
                        "position": self.position(),
                        "positions": [self.position()],
                        "range": self.range(),
                        "context": {"diagnostics": [], "includeDeclaration": True},
                        "newName": chance.choice(("name", "", "1", "for")),
                    },
                )

    async def ask(self, method: str, params: Any) -> None:
        self.asked.append(await self.made.ask(method, params))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace whose daemon the first editor starts."""
    with lasting(copy_of("gemm", tmp_path_factory.mktemp("messages"))) as root:
        yield root


@pytest.mark.parametrize("seed", range(4))
async def test_every_request_has_an_answer(seed: int, root: Path) -> None:
    able = ALL if seed % 2 else {"textDocument": {"diagnostic": {}}, "general": {"positionEncodings": ["utf-8"]}}
    async with editor(root, able=able) as made:
        chaos = Chaos(made, root, seed)
        for _ in range(MESSAGES):
            await chaos.step()
        for number in chaos.asked:
            answer = await made.answer(number)
            assert ("result" in answer) != ("error" in answer), answer
            assert answer.get("error", {}).get("code") != -32603, answer
        assert not made.ended


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
