"""Upgrades a running server: the process executes the new version, on the same pipes, and keeps its state.

The editor notices nothing: it has initialized a server once, and goes on speaking to it. The old version hands the
messages that still count to the new one.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
from anyio import to_thread
from lsprotocol import types

from ckwatch.client.launch import installed_code
from ckwatch.system.python_process import module_command, module_environment
from ckwatch_lsp.protocol.server import SERVER_CANCELLED
from ckwatch_lsp.protocol.transport import MessageSource, PipeReader

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer

_log = logging.getLogger(__name__)

LOOK_S = 10.0
"""How often it is looked whether other code has been installed. Twice the same, and the installation is over."""

ANSWERS_S = 2.0
"""How long requests may take that are being answered; the editor is told to ask the others again."""

COMMAND = module_command("ckwatch", "lsp")
RESUME = "--resume"


@dataclass(frozen=True, slots=True)
class HandedOverState:
    """What the new version must know: messages of the editor that still count, in order, and the opening of its
    documents; what of the next ones has been read already, in base64; and what parts leave."""

    first: list[dict[str, Any]]
    documents: list[dict[str, Any]]
    unread: str
    parts: dict[str, dict[str, Any]]


class UpgradeWatcher:
    """Looks for other code, and ends the server with `successor` set when there is some that works."""

    def __init__(self, server: CkwatchServer, reader: MessageSource) -> None:
        self._server = server
        self._reader = reader
        self.reading = anyio.CancelScope()
        """Of the task that reads messages."""

    async def watch(self) -> None:
        """Until cancelled, or there is a successor."""
        if not isinstance(self._reader, PipeReader):
            return
        began = seen = await to_thread.run_sync(_identity)
        refused = b""
        while True:
            await anyio.sleep(LOOK_S)
            now = await to_thread.run_sync(_identity)
            if now and now == seen and now not in (began, refused):
                if await _can_start():
                    await self._renew(self._reader)
                    return
                refused = now
                _log.warning("what has been installed cannot be started")
            seen = now

    async def _renew(self, reader: PipeReader) -> None:
        self.reading.cancel()
        protocol = self._server.protocol
        with anyio.move_on_after(ANSWERS_S):
            await protocol.answered_all()
        for number in protocol.open_requests():
            protocol.refuse(number, SERVER_CANCELLED, "ckwatch has been upgraded: ask again")
        self._server.successor = self._state(await reader.rest())
        self._server.end(0)

    def _state(self, unread: bytes) -> HandedOverState:
        session = self._server.session
        opened = [
            {
                "jsonrpc": "2.0",
                "method": types.TEXT_DOCUMENT_DID_OPEN,
                "params": {
                    "textDocument": {
                        "uri": document.uri,
                        "languageId": document.language,
                        "version": document.version,
                        "text": document.text,
                    }
                },
            }
            for document in session.documents.values()
        ]
        parts = {type(part).__name__: remains for part in session.parts if (remains := part.remains())}
        return HandedOverState(self._server.protocol.lasting, opened, base64.b64encode(unread).decode(), parts)


async def replay(server: CkwatchServer, state: HandedOverState) -> None:
    """Say to a new server what the editor said to the old one."""
    for message in state.first:
        await server.protocol.take_again(message)
        if message["method"] == types.INITIALIZE:
            for part in server.session.parts:
                part.resume(state.parts.get(type(part).__name__, {}))
    for message in state.documents:
        await server.protocol.take_again(message)


def read_state(descriptor: int) -> HandedOverState:
    """What the old version left."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return HandedOverState(**json.load(file))


def reexec(state: HandedOverState) -> NoReturn:
    """Go on as what is installed now, with the same standard streams. Does not return."""
    descriptor = os.memfd_create("ckwatch-lsp", 0)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(json.dumps(asdict(state)).encode())
    os.execve(COMMAND[0], [*COMMAND, RESUME, str(descriptor)], module_environment())  # noqa: S606  # no shell is wanted


def _identity() -> bytes:
    try:
        return installed_code(Path(__file__).parent)
    except OSError:
        return b""


async def _can_start() -> bool:
    """Whether what is installed can be started, and knows how to go on."""
    try:
        asked = await anyio.run_process(
            [*COMMAND, "--help"], stdin=subprocess.DEVNULL, env=module_environment(), check=False
        )
    except OSError:
        return False
    return asked.returncode == 0 and RESUME.encode() in asked.stdout
