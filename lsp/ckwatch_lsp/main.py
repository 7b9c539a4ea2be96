"""`ckwatch lsp`: serves one editor on standard input and output."""

from __future__ import annotations

import base64
import logging
import os
import sys
import time
from contextlib import closing
from functools import partial
from typing import BinaryIO

import anyio

from ckwatch.system.garbage_collection import collect_when_idle, young_only
from ckwatch_lsp.protocol.server import PARSE_ERROR, CkwatchServer
from ckwatch_lsp.protocol.transport import MessageReader, MessageWriter, UnreadableMessageError, message_source
from ckwatch_lsp.reexec import HandedOverState, UpgradeWatcher, read_state, reexec, replay
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.setup import set_up
from ckwatch_lsp.virtual_documents.store import VirtualFiles

_log = logging.getLogger(__name__)

QUIET_S = 10.0
"""An editor that has sent nothing for so long is idle."""

SWITCH_S = 0.0005
"""How long a thread may keep the event loop from the interpreter, in seconds."""


async def serve(stdin: BinaryIO, stdout: BinaryIO, before: HandedOverState | None = None) -> int | HandedOverState:
    """Serve one editor until it exits; the exit status, or the state for the version that replaces this one.

    `before` is the state of the version that this one replaces.
    """
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # it writes every message into the log
    unread = b"" if before is None else base64.b64decode(before.unread)
    reader, writer = await message_source(stdin, unread), MessageWriter(stdout)
    with closing(reader), young_only():
        async with anyio.create_task_group() as tasks:
            files = VirtualFiles()
            session = Session(tasks, files.virtual_at)
            server = CkwatchServer(partial(set_up, session, files), tasks)
            server.protocol.set_writer(writer)
            if before is not None:
                await replay(server, session, before)
            upgrade = UpgradeWatcher(server, session, reader)
            tasks.start_soon(_read, server, reader, upgrade.reading)
            tasks.start_soon(upgrade.watch)
            tasks.start_soon(collect_when_idle, lambda: time.monotonic() - server.last_message_s < QUIET_S)
            await server.ended.wait()
            tasks.cancel_scope.cancel()
    if upgrade.successor is None:
        files.remove()
    await writer.finish()
    return server.status if upgrade.successor is None else upgrade.successor


async def _read(server: CkwatchServer, reader: MessageReader, until: anyio.CancelScope) -> None:
    with until:
        while True:
            try:
                message = await reader.next()
            except UnreadableMessageError as error:
                server.protocol.refuse(None, PARSE_ERROR, f"not a message: {error}")
                continue
            if message is None:
                server.end(1)
                return
            server.last_message_s = time.monotonic()
            try:
                server.protocol.take(message)
            except Exception:  # noqa: BLE001  # whatever one message does, the next is handled
                _log.exception("unexpected")
            await anyio.lowlevel.checkpoint()


def main(resumed: int | None = None) -> int:
    """Serve on standard input and output; what anything else prints goes to standard error. `resumed`: the descriptor
    of the previous version's state."""
    before = None if resumed is None else read_state(resumed)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # duplicates: the interpreter cannot end while a thread reads from its standard input
    stdin = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.setswitchinterval(SWITCH_S)
    ended = anyio.run(serve, stdin, stdout, before)
    if isinstance(ended, HandedOverState):
        os.dup2(stdout.fileno(), sys.stdout.fileno())
        reexec(ended)
    return ended
