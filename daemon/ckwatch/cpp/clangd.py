"""A running clangd: texts that are lent to it from memory, requests in their order, and its end.

A request is about the text that was sent before it, also when the text changes while it is answered: clangd takes
messages in their order. What it says of its own accord is passed over, diagnostics included; of the regions that the
preprocessor skips the last ones are kept.
"""

from __future__ import annotations

import json
import logging
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch.model.version import __version__
from ckwatch.system.async_processes import AsyncProcess, start_process
from ckwatch.system.processes import PIPE, signal_name

log = logging.getLogger(__name__)

OPTIONS = (
    "--background-index=false",
    "--clang-tidy=false",
    "--header-insertion=never",
    "--limit-references=1000",
    "--log=error",
)

SETTINGS = """\
Index:
  StandardLibrary: No
Diagnostics:
  Suppress: "*"
  UnusedIncludes: None
  MissingIncludes: None
"""
"""Diagnostics are the compiler's; and clangd is not to index the standard library beside compilers."""

CAPABILITIES: Mapping[str, Any] = {
    "general": {"positionEncodings": ["utf-32"]},
    "window": {"workDoneProgress": False},
    "workspace": {"applyEdit": True},
    "textDocument": {
        "hover": {"contentFormat": ["markdown"]},
        "completion": {
            "completionItem": {
                "snippetSupport": True,
                "documentationFormat": ["markdown"],
                "deprecatedSupport": True,
            },
            "contextSupport": True,
        },
        "signatureHelp": {
            "signatureInformation": {
                "documentationFormat": ["markdown"],
                "parameterInformation": {"labelOffsetSupport": True},
            }
        },
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["refactor"]}}},
        "rename": {"prepareSupport": True},
        "inactiveRegionsCapabilities": {"inactiveRegions": True},
        "semanticTokens": {
            "requests": {"full": True},
            "tokenTypes": [],
            "tokenModifiers": [],
            "formats": ["relative"],
        },
    },
}

TEXTS_KEPT = 8
"""Texts that clangd has open; each has a preamble of its own, tens of megabytes on disk."""

HANDLED_ON_LOOP = 200_000
"""Bytes of an answer, and characters of a text, above which JSON is read and written in a thread."""

HEADER_LIMIT_BYTES = 4096
LAST_WORDS_BYTES = 4000

CONTENT_MODIFIED, CANCELLED = -32801, -32800


class ClangdEndedError(CkwatchError):
    """clangd has ended while it was asked."""


class ClangdRefusedError(CkwatchError):
    """clangd answers with an error."""


class OvertakenError(CkwatchError):
    """The text has changed since; ask again."""


@dataclass(frozen=True, slots=True)
class LentText:
    """A text at a path, which need not exist, and the command that compiles it (without the path)."""

    path: str
    text: str
    arguments: tuple[str, ...]
    folder: Path

    @property
    def uri(self) -> str:
        """As clangd is told."""
        return Path(self.path).as_uri()


@dataclass(slots=True)
class _OpenText:
    version: int
    lent: LentText


@dataclass(slots=True)
class _Pending:
    answered: anyio.Event = field(default_factory=anyio.Event)
    message: Mapping[str, Any] | None = None


class Clangd:
    """One process. `run` has to run as long as it is asked."""

    def __init__(self, process: AsyncProcess) -> None:
        self.process = process
        self.token_types: Sequence[str] = ()
        self.token_modifiers: Sequence[str] = ()
        self.ended = anyio.Event()
        self.how_ended = ""
        self.skipped: dict[str, list[Range]] = {}
        """What the preprocessor skips in a text, by URI."""
        self._texts: OrderedDict[str, _OpenText] = OrderedDict()
        self._pending: dict[int, _Pending] = {}
        self._number = 0
        self._sending = anyio.Lock()
        self._edits: list[Mapping[str, Any]] = []
        self._editing = anyio.Lock()
        self._last_words = b""

    @classmethod
    async def start(cls, program: Path, environment: Mapping[str, str], folder: Path, *, settings: Path) -> Clangd:
        """Start it in `folder`; `settings` is a folder for its configuration. Raises ProcessStartError."""
        await to_thread.run_sync(_write_settings, settings)
        own = {**environment, "XDG_CONFIG_HOME": str(settings)}
        return cls(await start_process([program, *OPTIONS], environment=own, folder=folder, stdin=PIPE))

    async def run(self) -> None:
        """Read what it says, until its end; then everything that waits fails."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain)
                await self._read(tasks)
                tasks.cancel_scope.cancel()
        finally:
            with CancelScope(shield=True):
                await self.process.kill()
                end = await to_thread.run_sync(self.process.reap)
                self.process.close()
            name = signal_name(-end.status) if end.status < 0 else None
            self.how_ended = f"was ended by {name}" if name else f"ended with status {end.status}"
            if self._last_words:
                log.info("clangd %s: %s", self.how_ended, self._last_words.decode(errors="replace"))
            self.ended.set()
            for pending in self._pending.values():
                pending.answered.set()

    async def initialize(self) -> None:
        """The first request."""
        given = {
            "processId": os.getpid(),
            "clientInfo": {"name": "ckwatch", "version": __version__},
            "rootUri": None,
            "capabilities": CAPABILITIES,
        }
        async with self._sending:
            pending = await self._post("initialize", given)
        answer = await self._answer(*pending)
        legend = answer["capabilities"].get("semanticTokensProvider", {}).get("legend", {})
        self.token_types, self.token_modifiers = legend.get("tokenTypes", ()), legend.get("tokenModifiers", ())
        async with self._sending:
            await self._send({"method": "initialized", "params": {}})

    async def ask(self, text: LentText, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a request about `text`, whose URI is added to `params`.

        Raises ClangdEndedError, OvertakenError, and CkwatchError for what clangd refuses. Cancelled, it is given up.
        """
        async with self._sending:
            await self._show(text)
            pending = await self._post(method, {"textDocument": {"uri": text.uri}, **params})
        return await self._answer(*pending)

    async def edits_of(self, text: LentText, command: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The edit that one of its commands would make."""
        given = {"command": command["command"], "arguments": command.get("arguments", [])}
        async with self._editing:
            self._edits.clear()
            async with self._sending:
                await self._show(text)
                pending = await self._post("workspace/executeCommand", given)
            await self._answer(*pending)
            return self._edits[-1] if self._edits else None

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a request that is not about a text. Raises as `ask`."""
        async with self._sending:
            pending = await self._post(method, params)
        return await self._answer(*pending)

    async def _show(self, text: LentText) -> None:
        known, is_large = self._texts.get(text.path), len(text.text) > HANDLED_ON_LOOP
        if known is None or known.lent.arguments != text.arguments:
            command = {"workingDirectory": str(text.folder), "compilationCommand": [*text.arguments, text.path]}
            await self._send(
                {
                    "method": "workspace/didChangeConfiguration",
                    "params": {"settings": {"compilationDatabaseChanges": {text.path: command}}},
                }
            )
        if known is None:
            item = {"uri": text.uri, "languageId": "cpp", "version": 0, "text": text.text}
            opened = {"method": "textDocument/didOpen", "params": {"textDocument": item}}
            await self._send(opened, is_large=is_large)
            self._texts[text.path] = _OpenText(0, text)
            while len(self._texts) > TEXTS_KEPT:
                path, old = self._texts.popitem(last=False)
                self.skipped.pop(old.lent.uri, None)
                uri = {"uri": Path(path).as_uri()}
                await self._send({"method": "textDocument/didClose", "params": {"textDocument": uri}})
            return
        self._texts.move_to_end(text.path)
        if known.lent != text:
            known.version += 1
            changed = {
                "textDocument": {"uri": text.uri, "version": known.version},
                "contentChanges": [{"text": text.text}],
            }
            await self._send({"method": "textDocument/didChange", "params": changed}, is_large=is_large)
            known.lent = text

    async def _post(self, method: str, params: Mapping[str, Any]) -> tuple[int, _Pending]:
        if self.ended.is_set():
            raise ClangdEndedError(f"clangd {self.how_ended}")
        self._number += 1
        pending = self._pending[self._number] = _Pending()
        await self._send({"id": self._number, "method": method, "params": params})
        return self._number, pending

    async def _answer(self, number: int, pending: _Pending) -> Any:
        try:
            await pending.answered.wait()
        except BaseException:
            with CancelScope(shield=True):
                async with self._sending:
                    await self._send({"method": "$/cancelRequest", "params": {"id": number}})
            raise
        finally:
            del self._pending[number]
        message = pending.message
        if message is None:
            raise ClangdEndedError(f"clangd {self.how_ended}")
        error = message.get("error")
        if error is None:
            return message.get("result")
        if error.get("code") in (CONTENT_MODIFIED, CANCELLED):
            raise OvertakenError("the text has changed meanwhile")
        raise ClangdRefusedError(str(error.get("message", "clangd refuses it")))

    async def _send(self, message: Mapping[str, Any], *, is_large: bool = False) -> None:
        """Write a message whole, also when this is cancelled: half of one would be the end of all."""
        with CancelScope(shield=True):
            body = await to_thread.run_sync(_encoded, message) if is_large else _encoded(message)
            await self.process.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read(self, tasks: TaskGroup) -> None:
        async for body in _messages(self.process):
            if len(body) > HANDLED_ON_LOOP:
                message = await to_thread.run_sync(json.loads, body)
            else:
                message = json.loads(body)
            self._take(message, tasks)

    def _take(self, message: Mapping[str, Any], tasks: TaskGroup) -> None:
        method, number = message.get("method"), message.get("id")
        if method is None:
            pending = self._pending.get(number) if isinstance(number, int) else None
            if pending is not None:
                pending.message = message
                pending.answered.set()
        elif number is not None:
            applied = method == "workspace/applyEdit"
            if applied:
                self._edits.append(message["params"]["edit"])
            # not here: it may have stopped reading until its own output is read
            tasks.start_soon(self._reply, number, {"applied": True} if applied else None)
        elif method == "textDocument/inactiveRegions":
            params = message["params"]
            self.skipped[params["textDocument"]["uri"]] = [range_from(each) for each in params["regions"]]

    async def _reply(self, number: object, result: object) -> None:
        async with self._sending:
            await self._send({"id": number, "result": result})

    async def _drain(self) -> None:
        while said := await self.process.read_stderr():
            self._last_words = (self._last_words + said)[-LAST_WORDS_BYTES:]


async def _messages(process: AsyncProcess) -> AsyncIterator[bytes]:
    """The bodies of the messages that it writes. Ends with its output, or with what is no message."""
    waiting = bytearray()
    while True:
        end = waiting.find(b"\r\n\r\n")
        if end >= 0:
            length = next((int(value) for name, value in _headers(waiting[:end]) if name == b"content-length"), None)
            if length is None:
                return
            while len(waiting) < end + 4 + length:
                if not (more := await process.read_stdout()):
                    return
                waiting += more
            yield bytes(waiting[end + 4 : end + 4 + length])
            del waiting[: end + 4 + length]
            continue
        if len(waiting) > HEADER_LIMIT_BYTES or not (more := await process.read_stdout()):
            return
        waiting += more


def _encoded(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def _headers(head: bytearray) -> Iterator[tuple[bytes, bytes]]:
    for line in bytes(head).split(b"\r\n"):
        name, _, value = line.partition(b":")
        yield name.strip().lower(), value.strip()


def range_from(given: Mapping[str, Any]) -> Range:
    """A range of the protocol, whose columns are code points here."""
    return Range(_position(given["start"]), _position(given["end"]))


def _position(given: Mapping[str, Any]) -> Position:
    return Position(given["line"], given["character"])


def _write_settings(folder: Path) -> None:
    own = folder / "clangd"
    own.mkdir(parents=True, exist_ok=True)
    (own / "config.yaml").write_text(SETTINGS)
