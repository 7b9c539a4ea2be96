"""Upgrades a running server: the process executes the new version, on the same pipes, and keeps its state.

The editor notices nothing: it has initialized a server once, and goes on speaking to it. The old version hands the
messages that still count to the new one.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import anyio
from anyio import to_thread
from lsprotocol import types

from ckwatch.client.launch import installed_code
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import run_process
from ckwatch.system.python_process import module_command, module_environment
from ckwatch_lsp.protocol.server import SERVER_CANCELLED, CkwatchServer
from ckwatch_lsp.protocol.transport import MessageReader
from ckwatch_lsp.session.session import Session

_log = logging.getLogger(__name__)

CHECK_S = 10.0
"""How often the installation is checked for other code. Twice the same, and the installation is over."""

ANSWERS_S = 2.0
"""How long requests in progress may take; after that the editor is asked to repeat them."""

COMMAND = module_command("ckwatch", "lsp")
RESUME = "--resume"


@dataclass(frozen=True, slots=True)
class HandedOverState:
    """The state for the next version: messages of the editor that still count, in order; the opening of its documents;
    input that has been read and not handled, in base64; and the state of listeners by `SessionListener.state_key`.

    Versions hand it over to each other: fields may be added, with defaults.
    """

    first: list[dict[str, Any]]
    documents: list[dict[str, Any]]
    unread: str
    parts: dict[str, dict[str, Any]]


class UpgradeWatcher:
    """Watches for other code, and ends the server with `successor` set when that code starts."""

    def __init__(
        self,
        server: CkwatchServer,
        session: Session,
        reader: MessageReader,
        *,
        check_s: float = CHECK_S,
        identity: Callable[[], bytes] | None = None,
        can_start: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._server = server
        self._session = session
        self._reader = reader
        self._check_s = check_s
        self._identity = identity or _identity
        self._can_start = can_start or _can_start
        self.reading = anyio.CancelScope()
        """Of the task that reads messages."""
        self.successor: HandedOverState | None = None
        """The state for the version that replaces this one."""

    async def watch(self) -> None:
        """Until cancelled, or there is a successor."""
        started = seen = await to_thread.run_sync(self._identity)
        refused = b""
        while True:
            await anyio.sleep(self._check_s)
            now = await to_thread.run_sync(self._identity)
            if now and now == seen and now not in (started, refused):
                if await self._can_start():
                    await self._hand_over()
                    return
                refused = now
                _log.warning("the installed version does not start")
            seen = now

    async def _hand_over(self) -> None:
        self.reading.cancel()
        protocol = self._server.protocol
        with anyio.move_on_after(ANSWERS_S):
            await protocol.answered_all()
        for number in protocol.open_requests():
            protocol.refuse(number, SERVER_CANCELLED, "ckwatch was upgraded: repeat the request")
        self.successor = self._state(await self._reader.rest())
        self._server.end(0)

    def _state(self, unread: bytes) -> HandedOverState:
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
            for document in self._session.documents.values()
        ]
        states = {each.state_key: state for each in self._session.listeners if (state := each.state_to_hand_over())}
        return HandedOverState(self._server.protocol.lasting, opened, base64.b64encode(unread).decode(), states)


async def replay(server: CkwatchServer, session: Session, state: HandedOverState) -> None:
    """Have a new server handle what the editor sent to the old one."""
    for message in state.first:
        await server.protocol.take_again(message)
        if message["method"] == types.INITIALIZE:
            for listener in session.listeners:
                listener.restore(state.parts.get(listener.state_key, {}))
    for message in state.documents:
        await server.protocol.take_again(message)


def read_state(descriptor: int) -> HandedOverState:
    """Read the previous version's state. Raises CkwatchError."""
    try:
        with os.fdopen(descriptor, "rb") as file:
            file.seek(0)
            return HandedOverState(**json.load(file))
    except (OSError, ValueError, TypeError):
        raise CkwatchError(f"{RESUME} {descriptor} has no state of a language server", "leave it out") from None


def reexec(state: HandedOverState) -> NoReturn:
    """Execute the installed version, with the same standard streams. Does not return."""
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
    """Return True if the installed version starts, and can resume."""
    try:
        answer = await run_process([*COMMAND, "--help"], environment=module_environment())
    except CkwatchError:
        return False
    return answer.exit_status == 0 and RESUME in answer.stdout
