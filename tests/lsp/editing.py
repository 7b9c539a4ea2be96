"""An editor for tests: it speaks to the language server message by message, and waits for what the server reports.

The server is `serve` with a socket, on the event loop of the test: a process takes half a second to start. Daemons are
processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ckwatch.wire.endpoint import endpoint_of, owner
from ckwatch.workspace.trust import trust
from ckwatch_lsp.main import serve
from fakes.patience import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples"
CAPTURES = Path(__file__).parent / "captures"

_lasting: set[Path] = set()
"""Workspaces whose daemon outlives an editor."""

ALL: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "workspaceEdit": {"documentChanges": True},
        "inlayHint": {"refreshSupport": True},
        "codeLens": {"refreshSupport": True},
        "semanticTokens": {"refreshSupport": True},
        "diagnostics": {"refreshSupport": True},
    },
    "textDocument": {
        "inlayHint": {},
        "codeLens": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "publishDiagnostics": {
            "relatedInformation": True,
            "versionSupport": True,
            "codeDescriptionSupport": True,
            "dataSupport": True,
            "tagSupport": {"valueSet": [1, 2]},
        },
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "refactor.rewrite"]}}},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {"prepareSupport": True},
        "callHierarchy": {},
        "completion": {"completionItem": {"snippetSupport": True}},
        "semanticTokens": {
            "requests": {"range": True, "full": {"delta": True}},
            "tokenTypes": [],
            "tokenModifiers": [],
            "formats": ["relative"],
        },
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    "experimental": {"serverStatusNotification": True, "ckwatchUnits": True},
}
"""An editor that can do everything; diagnostics are pushed to it."""


def capabilities(**changes: Any) -> dict[str, Any]:
    """`ALL` with other values, `textDocument__inlayHint=None` takes one away."""
    found: dict[str, Any] = json.loads(json.dumps(ALL))
    for name, value in changes.items():
        *path, last = name.split("__")
        inner = found
        for part in path:
            inner = inner.setdefault(part, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return found


class LspError(Exception):
    """The server's answer is an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]


@dataclass(frozen=True, slots=True)
class Connection:
    """A server. `pid` is that of its process, 0 for a task; `wait` returns its exit status."""

    stdin: ByteSendStream
    stdout: ByteReceiveStream
    wait: Callable[[], Awaitable[int]]
    hang_up: Callable[[], Awaitable[None]]
    pid: int = 0


class Editor:
    """One editor and its server. `heard` are all notifications and requests that came, in order."""

    def __init__(self, server: Connection, settings: Mapping[str, Any] | None) -> None:
        self.server = server
        self.settings: dict[str, Any] = {"buildFirst": "none", "cpp": False, "profile": False} | dict(settings or {})
        self.choices: list[str] = []
        """Titles of actions that are chosen in messages, in this order."""
        self.unanswered: set[str] = set()
        """Methods of requests that get no answer."""
        self.heard: list[dict[str, Any]] = []
        self.ended = False
        self._stdin, self._stdout = server.stdin, BufferedByteReceiveStream(server.stdout)
        self._number = 0
        self._turns = anyio.Lock()
        self.answers: dict[int | str, dict[str, Any]] = {}
        self._changed = anyio.Condition()
        self._versions: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    # Messages.

    async def send_bytes(self, data: bytes) -> None:
        """Anything at all."""
        async with self._turns:
            await self._stdin.send(data)

    async def send(self, message: Mapping[str, Any]) -> None:
        """One message."""
        body = json.dumps(message).encode()
        await self.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    async def notify(self, method: str, params: Any = None) -> None:
        """A notification."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: Any = None) -> int:
        """Send a request; `answer` waits for what becomes of it."""
        self._number += 1
        await self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    async def answer(self, number: int | str) -> dict[str, Any]:
        """The answer as it came."""
        await self.until(lambda: number in self.answers)
        return self.answers.pop(number)

    async def request(self, method: str, params: Any = None) -> Any:
        """The result. Raises LspError for an error."""
        answer = await self.answer(await self.ask(method, params))
        if "error" in answer:
            raise LspError(answer["error"])
        return answer["result"]

    async def command(self, name: str, **argument: Any) -> Any:
        """workspace/executeCommand"""
        return await self.request("workspace/executeCommand", {"command": name, "arguments": [argument]})

    async def until(self, what: Callable[[], Any]) -> Any:
        """Wait until `what()` is true, which is looked at with each message."""
        with anyio.fail_after(PATIENCE_S):
            async with self._changed:
                while not (found := what()):
                    if self.ended:
                        raise EOFError("the server has ended")
                    await self._changed.wait()
        return found

    def all(self, method: str) -> list[Any]:
        """The parameters of each message of this method, in order."""
        return [message.get("params") for message in self.heard if message.get("method") == method]

    async def heard_of(self, method: str, where: Callable[[Any], Any] = lambda _params: True) -> Any:
        """Wait for a message, which may have come before; its parameters."""
        return await self.until(lambda: next((params for params in self.all(method) if where(params)), None))

    async def listen(self) -> None:
        """Take messages until the server ends."""
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                header = await self._stdout.receive_until(b"\r\n\r\n", 4096)
                length = next(
                    int(line.split(b":")[1]) for line in header.split(b"\r\n") if line.lower().startswith(b"content-l")
                )
                message = json.loads(await self._stdout.receive_exactly(length))
                async with self._changed:
                    await self._take(message)
                    self._changed.notify_all()
        async with self._changed:
            self.ended = True
            self._changed.notify_all()

    async def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.answers[message["id"]] = message
            return
        self.heard.append(message)
        if "id" in message and message["method"] not in self.unanswered:
            await self.send({"jsonrpc": "2.0", "id": message["id"], "result": self._result(message)})

    def _result(self, message: Mapping[str, Any]) -> Any:
        method, params = message["method"], message.get("params") or {}
        if method == "workspace/configuration":
            return [self.settings for _ in params["items"]]
        if method == "window/showMessageRequest":
            titles = [action["title"] for action in params.get("actions") or ()]
            chosen = next((choice for choice in self.choices if choice in titles), None)
            if chosen is None:
                return None
            self.choices.remove(chosen)
            return {"title": chosen}
        if method == "window/showDocument":
            return {"success": True}
        if method == "workspace/applyEdit":
            return {"applied": True}
        return None

    # Documents.

    def uri(self, path: Path | str) -> str:
        """The URI of a path, or a URI as it is."""
        return path if isinstance(path, str) else path.as_uri()

    def text(self, path: Path | str) -> str:
        """The text of an open document."""
        return self._texts[self.uri(path)]

    async def open(self, path: Path | str, text: str | None = None, language: str = "") -> str:
        """Open a document, with its text on disk if none is given; its URI."""
        uri = self.uri(path)
        if text is None:
            assert isinstance(path, Path)
            text = (await anyio.Path(path).read_bytes()).decode()
        self._versions[uri], self._texts[uri] = 1, text
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        await self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    async def replace(self, path: Path | str, old: str, new: str) -> int:
        """Replace the first `old` in a document, as an incremental change in UTF-16; the new version."""
        uri = self.uri(path)
        text = self._texts[uri]
        start = text.index(old)
        change = {"range": {"start": place(text, start), "end": place(text, start + len(old))}, "text": new}
        self._texts[uri] = text[:start] + new + text[start + len(old) :]
        return await self.change(uri, [change])

    async def change(self, path: Path | str, changes: Iterable[Mapping[str, Any]]) -> int:
        """Send changes as they are; the new version."""
        uri = self.uri(path)
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        await self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})
        return self._versions[uri]

    async def save(self, path: Path) -> None:
        """Write the document, as editors do, and say so."""
        await anyio.Path(path).write_bytes(self.text(path).encode())
        await self.notify("textDocument/didSave", {"textDocument": {"uri": self.uri(path)}})

    async def close(self, path: Path | str) -> None:
        """Close a document."""
        await self.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(path)}})

    async def at(self, method: str, path: Path | str, before: str, **more: Any) -> Any:
        """Ask about the place right before the first `before` in an open document."""
        uri = self.uri(path)
        text = self._texts[uri]
        position = place(text, text.index(before))
        return await self.request(method, {"textDocument": {"uri": uri}, "position": position, **more})

    async def of(self, method: str, path: Path | str, **more: Any) -> Any:
        """Ask about a document."""
        return await self.request(method, {"textDocument": {"uri": self.uri(path)}, **more})

    def diagnostics(self, path: Path | str) -> list[dict[str, Any]] | None:
        """The diagnostics that were published last for a document; None if there were none yet."""
        uri = self.uri(path)
        found = [params for params in self.all("textDocument/publishDiagnostics") if params["uri"] == uri]
        return found[-1]["diagnostics"] if found else None

    async def diagnosed(
        self, path: Path | str, where: Callable[[list[dict[str, Any]]], Any] = bool
    ) -> list[dict[str, Any]]:
        """Wait until the published diagnostics of a document are such."""

        def known() -> list[dict[str, Any]] | None:
            published = self.diagnostics(path)
            return published if published is not None and where(published) else None

        await self.until(lambda: known() is not None)
        return known() or []


def place(text: str, offset: int) -> dict[str, int]:
    """The LSP position of a code point, in UTF-16."""
    before = text[:offset]
    line = before.rpartition("\n")[2]
    return {"line": before.count("\n"), "character": len(line.encode("utf-16-le")) // 2}


def copy_of(example: str, folder: Path) -> Path:
    """A workspace of one's own."""
    root = folder / example
    shutil.copytree(EXAMPLES / example, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


@asynccontextmanager
async def editor(
    *roots: Path,
    able: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    initialize: bool = True,
    process: bool = False,
) -> AsyncIterator[Editor]:
    """An editor with these workspace folders, which must be trusted already if a daemon shall be started.

    Nothing is compiled, and clangd not asked, unless `settings` say so (`buildFirst`, `cpp`, `profile`). The server must end by itself, with status 0, when the
    context is left without an error; daemons of the folders are stopped, but for those of `lasting` workspaces.
    `process`: the server is `ckwatch lsp`, in a process of its own.
    """
    own = {name: value for name, value in os.environ.items() if name != "CKWATCH_NO_DAEMON"} | dict(environment or {})
    running = server_process(own) if process else server_task(own)
    try:
        async with running as server, anyio.create_task_group() as tasks:
            made = Editor(server, settings)
            tasks.start_soon(made.listen)
            if initialize:
                await start(made, *roots, able=able, options=options)
            yield made
            if initialize and not made.ended:
                await made.request("shutdown")
                await made.notify("exit")
                with anyio.fail_after(PATIENCE_S):
                    assert await server.wait() == 0
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            for root in roots:
                if root not in _lasting:
                    await stop_daemon(root, own)


@asynccontextmanager
async def server_process(environment: Mapping[str, str]) -> AsyncIterator[Connection]:
    """`ckwatch lsp`, which is killed when the context is left."""
    command = [sys.executable, "-m", "ckwatch", "lsp"]
    async with await anyio.open_process(command, env=environment, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Connection(process.stdin, process.stdout, process.wait, process.stdin.aclose, process.pid)
        finally:
            with anyio.CancelScope(shield=True):
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL)
                await process.wait()


@asynccontextmanager
async def server_task(environment: Mapping[str, str]) -> AsyncIterator[Connection]:
    """The same server as a task, which is cancelled when the context is left."""
    ours, theirs = socket.socketpair()
    status: list[int] = []
    ended = anyio.Event()

    async def run() -> None:
        stdin, stdout = os.fdopen(os.dup(theirs.fileno()), "rb"), os.fdopen(os.dup(theirs.fileno()), "wb", buffering=0)
        with theirs, stdout:
            try:
                found = await serve(stdin, stdout)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()  # the event loop closes the input
        assert isinstance(found, int)
        status.append(found)
        ended.set()

    async def wait() -> int:
        await ended.wait()
        return status[0]

    async with await SocketStream.from_socket(ours) as stream, anyio.create_task_group() as tasks:
        with pytest.MonkeyPatch.context() as patch:
            for name in os.environ.keys() - environment.keys():
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            tasks.start_soon(run)
            try:
                yield Connection(stream, stream, wait, stream.send_eof)
            finally:
                tasks.cancel_scope.cancel()


async def start(
    made: Editor, *roots: Path, able: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None
) -> Any:
    """Initialize; the server's answer."""
    folders = [{"uri": root.as_uri(), "name": root.name} for root in roots]
    params = {
        "processId": os.getpid(),
        "rootUri": folders[0]["uri"] if folders else None,
        "workspaceFolders": folders,
        "capabilities": ALL if able is None else able,
        "initializationOptions": options,
    }
    answer = await made.request("initialize", params)
    await made.notify("initialized", {})
    return answer


@contextmanager
def lasting(root: Path) -> Iterator[Path]:
    """A trusted workspace whose daemon the first editor starts and those of later tests meet; stopped at the end.

    For tests that neither write files nor build: what an editor lends to the daemon goes with the editor.
    """
    trust(root)
    _lasting.add(root)
    try:
        yield root
    finally:
        _lasting.remove(root)
        anyio.run(stop_daemon, root, os.environ)


async def stop_daemon(root: Path, environment: Mapping[str, str]) -> None:
    """End the daemon of a workspace, if there is one, as the system does; it closes everything and is waited for."""
    process = await to_thread.run_sync(owner, endpoint_of(root, environment))
    if process is None:
        return
    with suppress(ProcessLookupError), open_process_descriptor(process) as descriptor:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        with anyio.fail_after(PATIENCE_S):
            await anyio.wait_readable(descriptor)


@contextmanager
def open_process_descriptor(process: int) -> Iterator[int]:
    """A descriptor that becomes readable when the process ends. Raises ProcessLookupError if it has."""
    descriptor = os.pidfd_open(process)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
