"""A language server on its standard input and output, spoken to as an editor does; how long each answer takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from ckwatch.model.errors import CkwatchError
from ckwatch.system.processes import signal_group

LIMIT_S = 120.0

_HEADER_LIMIT = 4096

ABLE: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {"configuration": False, "inlayHint": {"refreshSupport": True}, "codeLens": {"refreshSupport": True}},
    "textDocument": {
        "inlayHint": {},
        "codeLens": {},
        "hover": {"contentFormat": ["markdown"]},
        "publishDiagnostics": {"versionSupport": True, "relatedInformation": True},
        "completion": {"completionItem": {"snippetSupport": True}},
    },
}


Diagnostics = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Publication:
    """Diagnostics of one document: when they came, by the performance counter, and of which version."""

    at_s: float
    version: int | None
    diagnostics: Diagnostics


class Peer:
    """One server; a task must be in `listen`."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)
        self._number = 0
        self._version = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._published: dict[str, list[Publication]] = {}
        """By URI, since the document's last edit."""
        self._told_s = 0.0
        self._changed = anyio.Condition()

    async def start(self, root: Path, options: Mapping[str, Any] | None = None) -> None:
        """Initialize."""
        params = {
            "processId": os.getpid(),
            "rootUri": root.as_uri(),
            "workspaceFolders": [{"uri": root.as_uri(), "name": root.name}],
            "capabilities": ABLE,
            "initializationOptions": options,
        }
        await self.ask("initialize", params)
        await self.tell("initialized", {})

    async def open(self, path: Path, text: str, language: str) -> None:
        """Open a document."""
        item = {"uri": path.as_uri(), "languageId": language, "version": 0, "text": text}
        await self.tell("textDocument/didOpen", {"textDocument": item})

    async def change(self, path: Path, edit: Mapping[str, Any], where: Callable[[Diagnostics], object]) -> float:
        """Make one edit; seconds until such diagnostics are published of the version that it leads to."""
        begun_s = time.perf_counter()
        await self.edit(path, edit)
        return await self.published(path, where, self._version) - begun_s

    async def edit(self, path: Path, edit: Mapping[str, Any]) -> None:
        """Make one edit."""
        self._version += 1
        self._published.pop(path.as_uri(), None)
        document = {"uri": path.as_uri(), "version": self._version}
        await self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [edit]})

    async def published(self, path: Path, where: Callable[[Diagnostics], object], version: int | None = None) -> float:
        """When such diagnostics were first published, of this version if one is given."""
        with anyio.fail_after(LIMIT_S):
            async with self._changed:
                while True:
                    for each in self._published.get(path.as_uri(), ()):
                        if version in (None, each.version) and where(each.diagnostics):
                            return each.at_s
                    await self._changed.wait()

    def shown(self, path: Path) -> Diagnostics:
        """The diagnostics that were published last since the document's last edit."""
        known = self._published.get(path.as_uri())
        return known[-1].diagnostics if known else []

    async def rest(self, quiet_s: float) -> None:
        """Return when the server has sent nothing of its own accord for so long."""
        while (left_s := self._told_s + quiet_s - time.perf_counter()) > 0:
            await anyio.sleep(left_s)

    async def timed(self, method: str, params: Any) -> float:
        """Seconds that one answer takes."""
        begun_s = time.perf_counter()
        await self.ask(method, params)
        return time.perf_counter() - begun_s

    async def ask(self, method: str, params: Any) -> Any:
        """The result. Raises CkwatchError for an error."""
        self._number += 1
        number = self._number
        await self._send({"id": number, "method": method, "params": params})
        with anyio.fail_after(LIMIT_S):
            async with self._changed:
                while number not in self._answers:
                    await self._changed.wait()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise CkwatchError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    async def tell(self, method: str, params: Any) -> None:
        """A notification."""
        await self._send({"method": method, "params": params})

    async def listen(self) -> None:
        """Take messages until cancelled."""
        while True:
            header = await self._output.receive_until(b"\r\n\r\n", _HEADER_LIMIT)
            lines = (line.partition(b":") for line in header.split(b"\r\n"))
            length = next(int(value) for name, _, value in lines if name.lower() == b"content-length")
            body = await self._output.receive_exactly(length)
            now_s = time.perf_counter()
            message = json.loads(body)
            async with self._changed:
                if "method" not in message:
                    self._answers[message["id"]] = message
                else:
                    self._told_s = now_s
                if "method" in message and "id" in message:
                    await self._send({"id": message["id"], "result": None})
                elif message.get("method") == "textDocument/publishDiagnostics":
                    told = message["params"]
                    publication = Publication(now_s, told.get("version"), told["diagnostics"])
                    self._published.setdefault(told["uri"], []).append(publication)
                self._changed.notify_all()

    async def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        await self._input.send(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


@asynccontextmanager
async def peer(command: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> AsyncIterator[Peer]:
    """Start a server; it is gone at the end."""
    process = await anyio.open_process(
        command, cwd=cwd, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        async with anyio.create_task_group() as tasks:
            found = Peer(process)
            tasks.start_soon(found.listen)
            yield found
            tasks.cancel_scope.cancel()
    finally:
        signal_group(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()
