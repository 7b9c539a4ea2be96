"""A clangd on one rendered source, spoken to as an editor does: open, change, wait for what it publishes."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from benchmarks.hipcc import Hipcc
from benchmarks.lsp_peer import Peer, peer
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.clangd import ClangdProgram
from ckwatch.cpp.arguments import clangd_arguments
from ckwatch.cpp.clangd import OPTIONS, write_settings
from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import run_process
from ckwatch.system.processes import signal_group

OPEN_LIMIT_S = 180.0
CHANGE_LIMIT_S = 120.0
_HEADER_LIMIT = 4096


class Clangd:
    """One document, `path`."""

    def __init__(self, process: Process, path: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)
        self._uri = path.as_uri()
        self._version = 0
        self._number = 0

    async def start(self, text: str) -> list[dict[str, Any]]:
        """Open the document; what is published for it, when its preamble has been made."""
        await self._ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        await self._tell("initialized", {})
        document = {"uri": self._uri, "languageId": "cpp", "version": self._version, "text": text}
        await self._tell("textDocument/didOpen", {"textDocument": document})
        return await self._published(OPEN_LIMIT_S)

    async def change(self, text: str) -> tuple[float, list[dict[str, Any]]]:
        """Replace the text; seconds until diagnostics of this version are published, and these."""
        self._version += 1
        begun_s = time.monotonic()
        document = {"uri": self._uri, "version": self._version}
        await self._tell("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        found = await self._published(CHANGE_LIMIT_S)
        return time.monotonic() - begun_s, found

    async def _published(self, limit_s: float) -> list[dict[str, Any]]:
        with anyio.fail_after(limit_s):
            while True:
                message = await self._next()
                told = message.get("params", {})
                if message.get("method") != "textDocument/publishDiagnostics" or told["uri"] != self._uri:
                    continue
                if told.get("version", self._version) == self._version:
                    return list(told["diagnostics"])

    async def _ask(self, method: str, parameters: dict[str, Any]) -> None:
        self._number += 1
        await self._send({"id": self._number, "method": method, "params": parameters})
        with anyio.fail_after(OPEN_LIMIT_S):
            while (await self._next()).get("id") != self._number:
                pass

    async def _tell(self, method: str, parameters: dict[str, Any]) -> None:
        await self._send({"method": method, "params": parameters})

    async def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        await self._input.send(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _next(self) -> dict[str, Any]:
        header = await self._output.receive_until(b"\r\n\r\n", _HEADER_LIMIT)
        lines = (line.partition(b":") for line in header.split(b"\r\n"))
        length = next(int(value) for name, _, value in lines if name.lower() == b"content-length")
        message: dict[str, Any] = json.loads(await self._output.receive_exactly(length))
        return message


@asynccontextmanager
async def clangd_on(program: Path, hipcc: Hipcc, request: CompileRequest) -> AsyncIterator[Clangd]:
    """Start a clangd for `kernel.hip`, with the flags of the compile; it is gone at the end.

    Raises CkwatchError when it ends by itself.
    """
    toolchain = hipcc.toolchain
    path = hipcc.folder / "kernel.hip"
    resources = await run_process([toolchain.clang, "-print-resource-dir"], environment=hipcc.environment, timeout_s=60)
    # by the name of clang++, clangd takes the arguments as clang's own
    arguments = [str(toolchain.clangxx), *hipcc.compile_command(request)[1:]]
    arguments += ["-resource-dir", resources.stdout.strip()]
    _write_database(path, arguments)
    options = [f"--compile-commands-dir={hipcc.folder}", "--background-index=false", "--clang-tidy=false"]
    command: Sequence[str] = [str(program), *options, "--log=error"]
    process = await anyio.open_process(
        command, env=hipcc.environment, cwd=hipcc.folder, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield Clangd(process, path)
    except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError) as error:
        raise CkwatchError(f"clangd has ended by itself: {error!r}") from error
    finally:
        signal_group(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


@asynccontextmanager
async def clangd_as_the_daemon_runs_it(
    program: ClangdProgram, hipcc: Hipcc, request: CompileRequest
) -> AsyncIterator[tuple[Peer, Path]]:
    """Start a clangd by itself, with the options, settings and command that the daemon gives to its own; the path of
    the document to open, which is `request`'s source as a file. It is gone at the end."""
    path = hipcc.folder / "kernel.hip"
    command = clangd_arguments(request, hipcc.toolchain, "host", resources=program.resource_folder)
    _write_database(path, [*command, str(path)])
    settings = hipcc.folder / "settings"
    write_settings(settings)
    environment = {**hipcc.toolchain.environment, "XDG_CONFIG_HOME": str(settings)}
    async with peer([str(program.path), *OPTIONS], hipcc.folder, environment) as clangd:
        await clangd.start(hipcc.folder)
        yield clangd, path


def _write_database(path: Path, arguments: Sequence[str]) -> None:
    database = [{"directory": str(path.parent), "file": str(path), "arguments": list(arguments)}]
    (path.parent / "compile_commands.json").write_text(json.dumps(database))
