"""A running clangd: texts that it gets from memory, requests in their order, and its end.

A request is about the text that was sent before it, also when the text changes while it is answered: clangd takes
messages in their order. What it says of its own accord is passed over, diagnostics included; of the regions that the
preprocessor skips the last ones are kept.

Messages are put in a queue, which one task writes: who asks never waits for a clangd that does not read.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import anyio
from anyio import CancelScope, to_thread

from ckwatch.cpp.places import range_from
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Range
from ckwatch.model.version import __version__
from ckwatch.system.async_processes import AsyncProcess, start_process
from ckwatch.system.message_framing import MessageFramer
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

ON_LOOP_LENGTH = 200_000
"""Messages that are longer are read and written in a thread."""

LAST_WORDS_BYTES = 4000

CONTENT_MODIFIED, CANCELLED = -32801, -32800


class ClangdEndedError(CkwatchError):
    """clangd has ended while it was asked."""


class ClangdRefusalError(CkwatchError):
    """clangd does not do what it is asked, and says why."""


class OvertakenError(CkwatchError):
    """The text has changed since; ask again."""


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A text at a path, which need not exist, and the command that compiles it (without the path).

    `generation` changes with the files that it includes. `in_memory`: it is no file.
    """

    path: str
    text: str
    arguments: tuple[str, ...]
    folder: Path
    generation: int = 0
    in_memory: bool = True

    @property
    def uri(self) -> str:
        """The URI that clangd knows it by."""
        return Path(self.path).as_uri()


@dataclass(slots=True)
class _Pending:
    number: int
    key: object = None
    """The key under which equal requests share an answer."""
    waiting: int = 0
    """Those that wait for its answer."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    message: Mapping[str, Any] | None = None


class Clangd:
    """One process. `run` has to run as long as it is asked."""

    def __init__(self, process: AsyncProcess) -> None:
        self.process = process
        self.token_types: Sequence[str] = ()
        self.token_modifiers: Sequence[str] = ()
        self.ended = anyio.Event()
        self.to_end = anyio.Event()
        """To be set when it is not wanted any more."""
        self.how_ended = ""
        self.unread_length = 0
        """Characters of texts that wait to be written to it."""
        self.skipped: dict[str, list[Range]] = {}
        """Ranges that the preprocessor skips in a text, by URI."""
        self._texts: dict[str, tuple[int, MemoryText]] = {}
        """By path with their versions, those that were asked about last at the end."""
        self._pending: dict[int, _Pending] = {}
        self._shared: dict[object, _Pending] = {}
        """Requests that wait, by text, method and parameters: an editor may ask the same again and again."""
        self._number = 0
        self._outgoing: deque[tuple[Mapping[str, Any], int]] = deque()
        self._more = anyio.Event()
        self._edits: list[Mapping[str, Any]] = []
        self._editing = anyio.Lock()
        self._abandoned: _Pending | None = None
        """A command whose edits are not awaited any more."""
        self._last_words = b""

    @classmethod
    async def start(cls, program: Path, environment: Mapping[str, str], folder: Path, *, settings: Path) -> Clangd:
        """Start it in `folder`; `settings` is a folder for its configuration. Raises CkwatchError."""
        try:
            await to_thread.run_sync(write_settings, settings)
        except OSError as error:
            raise CkwatchError(f"clangd's settings cannot be written: {error}") from error
        own = {**environment, "XDG_CONFIG_HOME": str(settings)}
        return cls(await start_process([program, *OPTIONS], environment=own, folder=folder, stdin=PIPE))

    async def run(self, note_end: Callable[[], None] = lambda: None) -> None:
        """Read what it says, until its end; then `note_end` is called, unless this was cancelled, and everything that
        waits fails."""
        problem: str | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain)
                tasks.start_soon(self._write)
                tasks.start_soon(self._cancelled_at_end, tasks.cancel_scope)
                problem = await self._read()
                tasks.cancel_scope.cancel()
        finally:
            with CancelScope(shield=True):
                await self.process.kill()
                end = await to_thread.run_sync(self.process.reap)
                self.process.close()
            name = signal_name(-end.status) if end.status < 0 else None
            self.how_ended = problem or (f"was ended by {name}" if name else f"ended with status {end.status}")
            if self._last_words:
                log.info("clangd %s: %s", self.how_ended, self._last_words.decode(errors="replace"))
            self.ended.set()
            if problem is not None or self.to_end.is_set():
                note_end()
            for pending in self._pending.values():
                pending.answered.set()

    async def end(self) -> None:
        """End it, also when cancelled; returns when it has ended."""
        self.to_end.set()
        with CancelScope(shield=True):
            await self.ended.wait()

    async def _cancelled_at_end(self, reading: CancelScope) -> None:
        await self.to_end.wait()
        reading.cancel()

    async def initialize(self) -> None:
        """The first request. Raises CkwatchError."""
        given = {
            "processId": os.getpid(),
            "clientInfo": {"name": "ckwatch", "version": __version__},
            "rootUri": None,
            "capabilities": CAPABILITIES,
        }
        answer = await self._answer(self._post("initialize", given))
        try:
            legend = answer["capabilities"]["semanticTokensProvider"]["legend"]
            self.token_types, self.token_modifiers = legend["tokenTypes"], legend["tokenModifiers"]
        except (LookupError, TypeError) as error:
            raise CkwatchError("clangd does not say what it can do") from error
        self._send({"method": "initialized", "params": {}})

    async def ask(self, text: MemoryText, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a request about `text`, whose URI is added to `params`. Raises ClangdEndedError, OvertakenError
        and ClangdRefusalError. It is given up when all who ask it at the same time are cancelled."""
        self._show(text)
        key = (text, method, json.dumps(params))
        pending = self._shared.get(key)
        if pending is None:
            pending = self._post(method, {"textDocument": {"uri": text.uri}, **params})
            pending.key = key
            self._shared[key] = pending
        return await self._answer(pending)

    async def ask_alone(self, text: MemoryText, method: str, params: Mapping[str, Any]) -> Any:
        """As `ask`, for what clangd looks for in all texts that it has read: other texts are emptied before.

        They may be of other instances, or of the other side: to clangd a name in them would be the same.
        """
        others = [opened for path, (_, opened) in self._texts.items() if path != text.path and opened.in_memory]
        emptied = [replace(other, text=headers_alone(other.text)) for other in others]
        changed = [each for each in emptied if each not in others]
        for each in (*changed, text):
            await self.ask(each, "textDocument/documentSymbol", {})  # it has been read when this is answered
        return await self.ask(text, method, params)

    async def edits_of(self, text: MemoryText, command: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The edit that one of its commands would make. Raises as `ask`."""
        given = {"command": command["command"], "arguments": command.get("arguments", [])}
        async with self._editing:
            if self._abandoned is not None:  # its edits would be taken for those of this one
                await self._abandoned.answered.wait()
            self._edits.clear()
            self._show(text)
            pending = self._post("workspace/executeCommand", given)
            self._abandoned = pending
            await self._answer(pending)
            self._abandoned = None
            return self._edits[-1] if self._edits else None

    def _show(self, text: MemoryText) -> None:
        version, known = self._texts.pop(text.path, (-1, None))
        if known is None or known.arguments != text.arguments:
            command = {"workingDirectory": str(text.folder), "compilationCommand": [*text.arguments, text.path]}
            changes = {"settings": {"compilationDatabaseChanges": {text.path: command}}}
            self._send({"method": "workspace/didChangeConfiguration", "params": changes})
        version += known != text
        self._texts[text.path] = (version, text)
        if known is None:
            item = {"uri": text.uri, "languageId": "cpp", "version": version, "text": text.text}
            self._send({"method": "textDocument/didOpen", "params": {"textDocument": item}}, len(text.text))
            while len(self._texts) > TEXTS_KEPT:
                _, old = self._texts.pop(next(iter(self._texts)))
                self.skipped.pop(old.uri, None)
                self._send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": old.uri}}})
        elif known != text:
            named = {"uri": text.uri, "version": version}
            changed = {"textDocument": named, "contentChanges": [{"text": text.text}]}
            self._send({"method": "textDocument/didChange", "params": changed}, len(text.text))

    def _post(self, method: str, params: Mapping[str, Any]) -> _Pending:
        if self.ended.is_set():
            raise ClangdEndedError(f"clangd {self.how_ended}")
        self._number += 1
        pending = self._pending[self._number] = _Pending(self._number)
        self._send({"id": self._number, "method": method, "params": params})
        return pending

    async def _answer(self, pending: _Pending) -> Any:
        pending.waiting += 1
        try:
            await pending.answered.wait()
        except BaseException:
            pending.waiting -= 1
            if not pending.waiting:
                self._shared.pop(pending.key, None)
                self._send({"method": "$/cancelRequest", "params": {"id": pending.number}})
            raise
        message = pending.message
        if message is None:
            raise ClangdEndedError(f"clangd {self.how_ended}")
        error = message.get("error")
        if error is None:
            return message.get("result")
        if error.get("code") in (CONTENT_MODIFIED, CANCELLED):
            raise OvertakenError("the text has changed meanwhile")
        raise ClangdRefusalError(str(error.get("message", "clangd refuses it")))

    def _send(self, message: Mapping[str, Any], length: int = 0) -> None:
        """Put a message in the queue; `length` is that of the text in it."""
        self.unread_length += length
        self._outgoing.append((message, length))
        self._more.set()

    async def _write(self) -> None:
        while True:
            while self._outgoing:
                message, length = self._outgoing.popleft()
                if length > ON_LOOP_LENGTH:
                    body = await to_thread.run_sync(_body, message)
                else:
                    body = _body(message)
                await self.process.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
                self.unread_length -= length
            self._more = anyio.Event()
            await self._more.wait()

    async def _read(self) -> str:
        """Take its messages, until its output ends; what it wrote that is none."""
        try:
            async for body in _messages(self.process):
                is_long = len(body) > ON_LOOP_LENGTH
                self._take(await to_thread.run_sync(json.loads, body) if is_long else json.loads(body))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            return f"wrote something other than a message ({error})"
        return ""

    def _take(self, message: Mapping[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if method is None:
            pending = self._pending.pop(number, None) if isinstance(number, int) else None
            if pending is not None:
                self._shared.pop(pending.key, None)
                pending.message = message
                pending.answered.set()
        elif number is not None:
            applied = method == "workspace/applyEdit"
            if applied:
                self._edits.append(message["params"]["edit"])
            self._send({"id": number, "result": {"applied": True} if applied else None})
        elif method == "textDocument/inactiveRegions":
            params = message["params"]
            self.skipped[params["textDocument"]["uri"]] = [range_from(each) for each in params["regions"]]

    async def _drain(self) -> None:
        while printed := await self.process.read_stderr():
            self._last_words = (self._last_words + printed)[-LAST_WORDS_BYTES:]


def _body(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


_HEAD = re.compile(r"(?:[ \t]*(?://[^\n]*|#(?:[^\n\\]|\\.)*)?\n|[ \t]*/\*.*?\*/)*", re.DOTALL)


def headers_alone(text: str) -> str:
    """The part of a text from which clangd makes its preamble: comments and directives before anything else."""
    found = _HEAD.match(text)
    return "" if found is None else found[0]


async def _messages(process: AsyncProcess) -> AsyncIterator[bytes]:
    """The bodies of the messages that it writes. Raises ValueError for what is no message."""
    framer = MessageFramer()
    while more := await process.read_stdout():
        framer.feed(more)
        while (body := framer.next()) is not None:
            yield body


def write_settings(folder: Path) -> None:
    """Write its configuration into a folder that `XDG_CONFIG_HOME` is to name. Raises OSError."""
    own = folder / "clangd"
    own.mkdir(parents=True, exist_ok=True)
    (own / "config.yaml").write_text(SETTINGS)
