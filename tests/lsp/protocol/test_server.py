"""Messages in and out: the order of life, and an answer to every request whatever it is."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import anyio
import pytest
from lsprotocol import types

from ckwatch.workspace.trust import trust
from ckwatch_lsp.protocol.server import CkwatchServer
from fakes.patience import PATIENCE_S
from lsp.editing import ALL, LspError, capabilities, copy_of, editor, start

ROOT: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}


async def test_nothing_is_answered_before_the_beginning() -> None:
    async with editor(initialize=False) as made:
        with pytest.raises(LspError, match="initialize") as error:
            await made.request("textDocument/hover", {})
        assert error.value.code == -32002
        await start(made)
        with pytest.raises(LspError, match="already initialized"):
            await made.request("initialize", ROOT)


async def test_nothing_is_answered_after_the_end() -> None:
    async with editor(initialize=False, process=True) as made:
        await start(made)
        assert await made.request("shutdown") is None
        with pytest.raises(LspError, match="shutting down"):
            await made.request("textDocument/hover", {})
        await made.notify("exit")
        assert await made.server.wait() == 0


async def test_an_exit_that_nobody_announced_is_a_failure() -> None:
    async with editor(initialize=False, process=True) as made:
        await start(made)
        await made.notify("exit")
        assert await made.server.wait() == 1


async def test_an_editor_that_goes_away_takes_the_server_with_it() -> None:
    async with editor(initialize=False, process=True) as made:
        await start(made)
        await made.server.hang_up()
        assert await made.server.wait() == 1


MALFORMED = [
    b"{",
    b"[]",
    b"1",
    b'"text"',
    b"\xff\xfe",
    b"{}",
    b'{"jsonrpc": "1.0", "id": 5, "method": "shutdown"}',
    b'{"jsonrpc": "2.0", "id": [1], "method": "shutdown"}',
    b'{"jsonrpc": "2.0", "id": null, "method": "shutdown"}',
    b'{"jsonrpc": "2.0", "id": 7, "method": 7}',
    b"[" * 100_000,
]


async def test_what_is_no_message_is_an_error() -> None:
    async with editor() as made:
        for body in MALFORMED:
            await made.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            errors = await made.until(lambda: [answer for answer in made.answers.values() if "error" in answer])
            assert errors[0]["error"]["message"], body[:60]
            assert await made.request("workspace/symbol", {"query": ""}) == [], body[:60]
            made.answers.clear()


BAD_HEADERS = [
    b"Content-Length: " + b"9" * 4300 + b"\r\n\r\n",
    b"Content-Length: 99999999999\r\n\r\n",
    b"Content-Length: -1\r\n\r\n{}",
    b"Content-Length: two\r\n\r\n{}",
    b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
    b"Content-Type: \xff\r\n\r\n{}",
    b"Content-Length: 1\r\n\r\n{}",
]


@pytest.mark.parametrize("process", [False, True])
async def test_a_header_that_cannot_be_used_is_an_error_and_the_next_message_is_read(process: bool) -> None:
    async with editor(process=process) as made:
        for data in BAD_HEADERS:
            await made.send_bytes(data)
            assert await made.request("workspace/symbol", {"query": ""}) == [], data[:60]
            errors = [answer["error"] for answer in made.answers.values() if "error" in answer]
            assert errors, data[:60]
            assert {error["code"] for error in errors} == {-32700}, errors
            made.answers.clear()


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize("depth", [50, 400, 900, 2000, 100_000])
async def test_parameters_that_are_nested_deeply_are_answered(depth: int) -> None:
    async with editor() as made:
        for number, method in enumerate(
            ("textDocument/hover", "workspace/executeCommand", "none", "inlayHint/resolve")
        ):
            body = b'{"jsonrpc":"2.0","id":"%d","method":"%s","params":{"command":"ckwatch.units","position":{},' % (
                number,
                method.encode(),
            ) + b'"arguments":[%s],"textDocument":%s,"data":%s}}' % ((nested(depth),) * 3)
            await made.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            assert await made.request("workspace/symbol", {"query": ""}) == []
            answers = list(made.answers)
            assert answers, method
            made.answers.clear()


REFUSED = [
    ("textDocument/hover", {}, -32602),
    ("textDocument/hover", None, -32602),
    ("textDocument/hover", {"textDocument": {"uri": "file:///a"}, "position": {"line": "x", "character": 0}}, -32602),
    ("textDocument/nothing", {}, -32601),
    ("workspace/executeCommand", {"command": "ckwatch.nothing"}, -32803),
    ("workspace/executeCommand", {"command": "ckwatch.nothing", "arguments": [1, 2]}, -32803),
]


async def test_requests_that_cannot_be_are_refused() -> None:
    async with editor() as made:
        for method, params, code in REFUSED:
            answer = await made.answer(await made.ask(method, params))
            assert answer.get("error", {}).get("code") == code, (method, params, answer)


async def test_a_command_whose_request_is_cancelled_ends() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def wait(_argument: object) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with anyio.create_task_group() as tasks:
        server = CkwatchServer(lambda made, _: made.add_command("wait", wait), tasks)
        server.protocol.set_writer(Mock())
        server.protocol.take({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ROOT})
        params = {"command": "wait", "arguments": []}
        server.protocol.take({"jsonrpc": "2.0", "id": 2, "method": "workspace/executeCommand", "params": params})
        with anyio.fail_after(PATIENCE_S):
            await began.wait()
            server.protocol.take({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 2}})
            await ended.wait()


async def test_an_answer_to_a_question_that_was_cancelled_is_too_late() -> None:
    asked, ended = anyio.Event(), anyio.Event()

    async with anyio.create_task_group() as tasks:
        server = CkwatchServer(lambda made, _: made.add_command("ask", ask), tasks)

        async def ask(_argument: object) -> None:
            question = types.ShowMessageRequestParams(types.MessageType.Info, "which one?")
            answer = server.window_show_message_request_async(question)
            asked.set()
            try:
                await answer
            finally:
                ended.set()

        sent = Mock()
        server.protocol.set_writer(sent)
        server.protocol.take({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ROOT})
        params = {"command": "ask", "arguments": []}
        server.protocol.take({"jsonrpc": "2.0", "id": 2, "method": "workspace/executeCommand", "params": params})
        with anyio.fail_after(PATIENCE_S):
            await asked.wait()
            number = list(server.protocol._request_futures)[-1]
            server.protocol.take({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 2}})
            await ended.wait()
        server.protocol.take({"jsonrpc": "2.0", "id": number, "result": {"title": "this one"}})
        assert number not in server.protocol._request_futures


async def test_documents_that_are_none_of_ours() -> None:
    async with editor() as made:
        for uri in ("untitled:Untitled-1", "git:/a/b.j2?x", "file://elsewhere/a.j2", "", ":", "file:///no/such.hip.j2"):
            await made.notify(
                "textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "", "version": 1, "text": "{{ a"}}
            )
            for method in ("documentSymbol", "foldingRange", "documentLink", "semanticTokens/full", "codeLens"):
                await made.of(f"textDocument/{method}", uri)
            far = {"line": 10**9, "character": 10**9}
            await made.of("textDocument/hover", uri, position=far)
            await made.of("textDocument/completion", uri, position=far)
            await made.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
            await made.notify(
                "textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": []}
            )


async def test_an_editor_that_can_do_nothing(tmp_path: Path) -> None:
    root = copy_of("gemm", tmp_path)
    async with editor(root, able={}) as made:
        assert made.all("window/workDoneProgress/create") == []
        assert not [message for message in made.heard if message["method"].startswith("experimental/")]


async def test_settings_that_are_wrong_are_told_once(tmp_path: Path) -> None:
    root = copy_of("gemm", tmp_path)
    async with editor(root, settings={"hintz": True, "lenses": "yes"}) as made:
        shown = await made.heard_of("window/showMessage", lambda params: "ckwatch." in params["message"])
        assert "unknown setting ckwatch.hintz; did you mean ckwatch.hints?" in shown["message"]
        assert "ckwatch.lenses is 'yes'; it must be true or false" in shown["message"]
        await made.notify("workspace/didChangeConfiguration", {"settings": None})
        await made.request("workspace/symbol", {"query": ""})
        told = [params for params in made.all("window/showMessage") if "ckwatch." in params["message"]]
        assert len(told) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_position_encodings(encoding: str, tmp_path: Path) -> None:
    root = copy_of("gemm", tmp_path)
    trust(root)
    async with editor(initialize=False) as made:
        answer = await start(made, able=capabilities(general__positionEncodings=[encoding, "utf-16"]))
        assert answer["capabilities"]["positionEncoding"] == encoding


def test_the_able_editor_is_not_changed_by_tests() -> None:
    assert "inlayHint" not in capabilities(textDocument__inlayHint=None)["textDocument"]
    assert "inlayHint" in ALL["textDocument"]
