"""One edit as each editor sees it, by the capabilities that it really announces: an edit that breaks the example, and its way back."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from lsprotocol import converters, types
from pytest_lsp import ClientServerConfig, LanguageClient

from lsp.editing import CAPTURES, copy_of, lasting, place

EDITORS = sorted(path.stem for path in CAPTURES.glob("*.json"))
MISTAKE = ("MPerBlock = 128", "MPerBlock = 96")


def capture(name: str) -> dict[str, Any]:
    """The editor's `initialize` parameters, with its version."""
    found: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text())
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A trusted copy of the example; all editors meet one daemon."""
    with lasting(copy_of("gemm", tmp_path_factory.mktemp("captures"))) as root:
        yield root


@asynccontextmanager
async def connected(name: str, root: Path) -> AsyncIterator[tuple[LanguageClient, types.ServerCapabilities]]:
    """The editor, initialized. Not pytest-lsp's own fixture, which brings an event loop that anyio's tests do not run in."""
    config = ClientServerConfig(server_command=[sys.executable, "-m", "ckwatch", "lsp"])
    client = await config.start()
    assert isinstance(client, LanguageClient)
    params = converters.get_converter().structure(capture(name)["initialize"], types.InitializeParams)
    params.process_id = None
    params.root_uri, params.root_path = root.as_uri(), str(root)
    params.workspace_folders = [types.WorkspaceFolder(root.as_uri(), root.name)]
    params.initialization_options = {"buildFirst": "none"}
    client.set_configuration({"ckwatch": {"buildFirst": "none"}})
    try:
        yield client, (await client.initialize_session(params)).capabilities
        await client.shutdown_session()
    finally:
        server = client._server
        if server is not None and server.returncode is None:
            server.kill()  # it would be waited for without end
        await client.stop()  # type: ignore[no-untyped-call]  # pytest-lsp has no annotation there


async def errors_of(client: LanguageClient, uri: str, *, pulls: bool, wanted: bool) -> list[types.Diagnostic]:
    """Wait until the document has errors, or has none, pulled where the server offers that, else pushed."""
    while True:
        renewed = refreshes(client)
        found = await diagnostics_of(client, uri, pulls=pulls)
        errors = [one for one in found or () if one.severity == types.DiagnosticSeverity.Error]
        if found is not None and bool(errors) == wanted:
            return errors
        if pulls:
            await renewed.wait()
        else:
            await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)


def refreshes(client: LanguageClient) -> anyio.Event:
    """Set when the server asks to be asked again."""
    asked = anyio.Event()

    def answer(_params: object) -> None:
        asked.set()

    client.protocol.fm.features[types.WORKSPACE_DIAGNOSTIC_REFRESH] = answer
    return asked


async def diagnostics_of(client: LanguageClient, uri: str, *, pulls: bool) -> list[types.Diagnostic] | None:
    if not pulls:
        return list(client.diagnostics[uri]) if uri in client.diagnostics else None
    params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
    report = await client.text_document_diagnostic_async(params)
    return list(report.items) if isinstance(report, types.RelatedFullDocumentDiagnosticReport) else []


@pytest.mark.parametrize("name", EDITORS)
async def test_a_mistake_and_its_way_back(name: str, root: Path) -> None:
    async with connected(name, root) as (client, answer):
        await break_and_mend(client, answer, root)
        document = types.TextDocumentIdentifier((root / "gemm_f16.kernel.toml").as_uri())
        tokens = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
        assert tokens is not None
        # Neovim would apply what has changed in them to those of a range
        assert (tokens.result_id is not None) == (name == "vscode")


async def break_and_mend(client: LanguageClient, answer: types.ServerCapabilities, root: Path) -> None:
    pulls = answer.diagnostic_provider is not None
    path = root / "gemm_f16.kernel.toml"
    uri, text = path.as_uri(), path.read_text()
    document = types.TextDocumentItem(uri, "toml", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    start = place(text, text.index(MISTAKE[0]))
    broken = text.replace(*MISTAKE, 1)
    change(client, uri, 2, broken)
    found = await errors_of(client, uri, pulls=pulls, wanted=True)
    assert all(one.source == "ckwatch" for one in found)
    end = text.index("[[instance]]", text.index(MISTAKE[0]))
    lines = range(text[: text.index("[[instance]]")].count("\n"), text[:end].count("\n"))
    assert any(one.range.start.line in lines and "MPerBlock" in one.message for one in found), found
    hover = await client.text_document_hover_async(
        types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(start["line"], 2))
    )
    assert hover is not None
    assert "MPerBlock" in str(hover.contents)
    await inline(client, answer, uri, text)
    change(client, uri, 3, text)
    await errors_of(client, uri, pulls=pulls, wanted=False)


def change(client: LanguageClient, uri: str, version: int, text: str) -> None:
    document = types.VersionedTextDocumentIdentifier(uri=uri, version=version)
    changes: list[types.TextDocumentContentChangeEvent] = [types.TextDocumentContentChangeWholeDocument(text)]
    client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))


async def inline(client: LanguageClient, answer: types.ServerCapabilities, uri: str, text: str) -> None:
    """Only what an editor can show inline is offered."""
    assert client.capabilities is not None
    able = client.capabilities.text_document
    assert able is not None
    assert (answer.inlay_hint_provider is not None) == (able.inlay_hint is not None)
    space = client.capabilities.workspace
    lenses = able.code_lens is not None or (space is not None and space.code_lens is not None)
    assert (answer.code_lens_provider is not None) == lenses
    document = types.TextDocumentIdentifier(uri)
    header = text[: text.index("[[instance]]")].count("\n")
    if able.inlay_hint is not None:
        whole = types.Range(types.Position(0, 0), types.Position(text.count("\n"), 0))
        hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document, whole))
        assert any(hint.position.line == header for hint in hints or ())
    if lenses:
        found = await client.text_document_code_lens_async(types.CodeLensParams(document))
        titles = {lens.command.title for lens in found or () if lens.command and lens.range.start.line == header}
        assert {"run", "source"} <= titles, titles


@pytest.mark.parametrize("name", EDITORS)
def test_captures_say_of_which_editor_they_are(name: str) -> None:
    assert capture(name)["version"]
    assert "capabilities" in capture(name)["initialize"]
