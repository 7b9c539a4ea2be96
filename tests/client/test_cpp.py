"""Questions about C++ by a client, to a daemon whose clangd is a stand-in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from benches.client_bench import Bench as SocketBench
from benches.daemon_bench import Bench
from ckwatch.client import Client, connect
from ckwatch.client.blocking import SyncClient
from ckwatch.cpp.places import uri_of
from ckwatch.model.errors import CkwatchError
from fakes.clangd_stand_in import ClangdStandIn
from fakes.fake_engine import HOVER, FakeEngine
from fakes.patience import PATIENCE_S

TEMPLATE = "int tile = {{ Tile }};\nint two = tile;\n"
UNIT = "k/one"


class CppBench(Bench):
    """A workspace whose clangd is a stand-in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clangd = ClangdStandIn(folder / "clangd")
        self.template = self.write("templates/k.hip.j2", TEMPLATE)
        settings = (self.root / "ckwatch.toml").read_text()
        self.write("ckwatch.toml", f"{settings}[toolchain]\nclangd = {json.dumps(str(self.clangd.path))}\n")

    @property
    def uri(self) -> str:
        """As clangd knows the text."""
        return str(self.clangd.of("textDocument/didOpen")[0]["params"]["textDocument"]["uri"])


@pytest.fixture
def bench(tmp_path: Path) -> CppBench:
    return CppBench(tmp_path)


@asynccontextmanager
async def client_of(bench: CppBench) -> AsyncIterator[Client]:
    with anyio.fail_after(PATIENCE_S):
        async with connect(bench.root, private=True, open_engine=lambda _root: bench.open()) as client:
            yield client


def reach(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


FUNCTION = {"name": "f", "kind": 12, "range": reach(1, 0, 14), "selectionRange": reach(1, 4, 7)}


def saved(uri: str) -> dict[str, Any]:
    """Answers of clangd by method."""
    function = {**FUNCTION, "uri": uri}
    place = {"uri": uri, "range": reach(0, 4, 8)}
    kinds = ("definition", "typeDefinition", "implementation", "references")
    action = {
        "title": "Do",
        "kind": "refactor",
        "edit": {"changes": {uri: [{"range": reach(0, 4, 8), "newText": "a"}]}},
    }
    return {
        **{f"textDocument/{kind}": [place] for kind in kinds},
        "textDocument/completion": [{"label": " tile", "textEdit": {"range": reach(1, 10, 12), "newText": "tile"}}],
        "textDocument/signatureHelp": {"signatures": [{"label": "f()"}]},
        "textDocument/documentHighlight": [{"range": reach(1, 10, 14), "kind": 2}],
        "textDocument/documentSymbol": [{**FUNCTION, "name": "two"}],
        "textDocument/semanticTokens/full": {"data": [0, 4, 4, 0, 1]},
        "textDocument/inlayHint": [{"position": reach(1, 4, 4)["start"], "label": "x:"}],
        "textDocument/prepareRename": reach(0, 4, 8),
        "textDocument/rename": {
            "changes": {uri: [{"range": reach(at, *ends), "newText": "w"} for at, ends in RENAMED]}
        },
        "textDocument/codeAction": [action],
        "textDocument/prepareCallHierarchy": [function],
        "callHierarchy/incomingCalls": [{"from": function, "fromRanges": [reach(1, 10, 14)]}],
        "callHierarchy/outgoingCalls": [{"to": function, "fromRanges": [reach(1, 10, 14)]}],
    }


def said(hover: Mapping[str, Any] | None) -> str:
    return "" if hover is None else str(hover["contents"]["value"])


RENAMED = ((0, (4, 8)), (1, (10, 14)))


async def answers(bench: CppBench, client: Client) -> None:
    """Let clangd answer all there is."""
    await client.cpp.hover(bench.template, 0, 5, unit=UNIT)
    for method, answer in saved(bench.uri).items():
        bench.clangd.answers(method, answer)


async def test_every_question(bench: CppBench) -> None:
    async with client_of(bench) as client:
        await answers(bench, client)
        cpp, path = client.cpp, bench.template
        hover = await cpp.hover(path, 0, 14, unit=UNIT)
        assert hover is not None
        assert (said(hover), hover["produced"]) == ("Type: `1`", "1")
        offered = await cpp.completion(path, 1, 12, unit=UNIT)
        assert offered is not None
        assert [one["label"] for one in offered["items"]] == ["tile"]
        signatures = await cpp.signatures(path, 1, 12, unit=UNIT)
        assert signatures is not None
        assert signatures["signatures"][0]["label"] == "f()"
        for places in (cpp.definition, cpp.type_definition, cpp.implementation, cpp.references):
            [place] = await places(path, 1, 12, unit=UNIT)
            assert (place["uri"], place["range"]["start"]["character"]) == (uri_of(path), 4)
        assert [one["kind"] for one in await cpp.highlights(path, 1, 12, unit=UNIT)] == [2]
        assert [one["name"] for one in await cpp.symbols(path, unit=UNIT)] == ["two"]
        assert await cpp.tokens(path, unit=UNIT) == [[0, 4, 4, "variable", ["readonly"]]]
        assert [one["label"] for one in await cpp.hints(path, unit=UNIT)] == ["x:"]
        name = await cpp.prepare_rename(path, 0, 5, unit=UNIT)
        assert name is not None
        assert name["placeholder"] == "tile"
        edit = await cpp.rename(path, 0, 5, "w", unit=UNIT)
        assert edit is not None
        assert [one["newText"] for one in edit["changes"][uri_of(path)]] == ["w", "w"]
        assert [one["title"] for one in await cpp.actions(path, 0, 4, end=(0, 8), unit=UNIT)] == ["Do"]
        [function] = await cpp.calls(path, 1, 5, unit=UNIT)
        for calls, side in ((cpp.incoming_calls, "from"), (cpp.outgoing_calls, "to")):
            [call] = await calls(function)
            assert (call[side]["name"], call[side]["uri"]) == ("f", uri_of(path))
            assert call["fromRanges"] == [reach(1, 10, 14)]
        answer = await cpp.ask("hover", None, 0, 5, unit=UNIT)
        assert (answer.unit, answer.ready) == ("k/one@gfx942", True)


async def test_a_rename_that_cannot_be_made_is_an_error(bench: CppBench) -> None:
    async with client_of(bench) as client:
        cpp = client.cpp
        for ask in (
            cpp.prepare_rename(bench.template, 0, 14, unit=UNIT),
            cpp.rename(bench.template, 0, 14, "w", unit=UNIT),
        ):
            with pytest.raises(CkwatchError, match=r"`\{\{ Tile \}\}` at k.hip.j2:1:12 writes it"):
                await ask


async def test_unsaved_text(bench: CppBench) -> None:
    async with client_of(bench) as client, client.overlay(bench.template, TEMPLATE.replace("tile", "wide")):
        found = ""
        while found != "Type: `wide`":  # the daemon is told of it some time
            hover = await client.cpp.hover("templates/k.hip.j2", 0, 5, unit=UNIT)
            found = said(hover)


async def test_what_is_given_up_is_cancelled(bench: CppBench) -> None:
    bench.clangd.will("hang", "textDocument/hover")
    async with client_of(bench) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.cpp.hover(bench.template, 0, 5, unit=UNIT))
            await bench.clangd.got("textDocument/hover")
            tasks.cancel_scope.cancel()
        await bench.clangd.got("$/cancelRequest")
        answer = await client.cpp.ask("hover", bench.template, 0, 5, unit=UNIT, patience_s=0.1)
        assert not answer.ready


def test_without_await(bench: CppBench) -> None:
    chosen = connect(bench.root, private=True, open_engine=lambda _root: bench.open())
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(chosen) as client:
        hover = SyncClient(client, portal).cpp.hover(bench.template, 0, 5, unit=UNIT)
    assert said(hover) == "Type: `tile`"


async def test_over_the_socket(client: Client, daemon: SocketBench) -> None:
    assert await client.cpp.hover("a b.j2", 1, 2, side="device") == HOVER
    engine = daemon.engine
    assert isinstance(engine, FakeEngine)
    [[_, request]] = engine.of("ask_cpp")
    assert request.path == str(client.root / "a b.j2")
    assert (request.side, request.start.line, request.start.character) == ("device", 1, 2)
