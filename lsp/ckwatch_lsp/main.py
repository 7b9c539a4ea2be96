"""`ckwatch lsp`: serves one editor on standard input and output."""

from __future__ import annotations

import base64
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

import anyio
from anyio.abc import TaskGroup
from lsprotocol import converters, types
from pygls.lsp.server import LanguageServer

from ckwatch.model.errors import CkwatchError
from ckwatch.model.garbage_collection import collect_when_idle, young_only
from ckwatch.model.version import __version__
from ckwatch_lsp.protocol.client_capabilities import capabilities_of
from ckwatch_lsp.protocol.server import PARSE_ERROR, CkwatchProtocol, RequestFailedError
from ckwatch_lsp.protocol.transport import MessageSource, MessageWriter, UnreadableMessageError, message_source
from ckwatch_lsp.reexec import HandedOverState, UpgradeWatcher, read_state, reexec, replay
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.setup import set_up

_log = logging.getLogger(__name__)

PARENT_S = 5.0
"""How often it is looked whether the editor's process is still there."""

QUIET_S = 10.0
"""Who has said nothing for so long is not at work."""

SWITCH_S = 0.0005
"""How long a thread may keep the event loop from the interpreter, in seconds."""

CommandHandler = Callable[[dict[str, Any]], Awaitable[Any]]


class CkwatchServer(LanguageServer):
    """pygls' server with one session. Commands are called with their one argument, an object."""

    protocol: CkwatchProtocol

    def __init__(self, tasks: TaskGroup) -> None:
        super().__init__(
            "ckwatch", __version__, protocol_cls=CkwatchProtocol, converter_factory=converters.get_converter
        )
        self.session = Session(self, tasks)
        self.commands: dict[str, CommandHandler] = {}
        self.ended = anyio.Event()
        self.heard_s = time.monotonic()
        self.status = 1
        self.successor: HandedOverState | None = None
        """What takes the place of this process must know this."""
        self.feature(types.INITIALIZE)(self._initialize)

    def feature(self, feature_name: str, options: Any | None = None) -> Callable[[Any], Any]:
        """As pygls' own, which marks what it registers: a bound method cannot be marked."""
        register = super().feature(feature_name, options)
        return lambda answer: register(partial(answer))

    def end(self, status: int) -> None:
        """End the process with this status."""
        self.status = status
        self.ended.set()

    def add_command(self, name: str, run: CommandHandler) -> None:
        """Offer a command."""
        self.commands[name] = run
        self.command(name)(partial(run))

    async def run_command(self, name: str, arguments: Sequence[Any]) -> Any:
        """What a command answers. Raises RequestFailedError with the reason where it cannot."""
        run = self.commands.get(name)
        if run is None:
            raise RequestFailedError(f"there is no command {name}")
        given = arguments[0] if arguments else {}
        if len(arguments) > 1 or not isinstance(given, dict):
            raise RequestFailedError(f"{name} takes one object")
        try:
            return await run(given)
        except CkwatchError as error:
            raise RequestFailedError.of_error(error) from None

    def report_server_error(self, error: Exception, source: Any) -> None:  # noqa: ARG002  # pygls' signature
        """What goes wrong is logged; the editor hears of it in the answer."""
        _log.debug("%s", error)

    def _initialize(self, params: types.InitializeParams) -> None:
        self.session.abilities = capabilities_of(
            params.capabilities,
            self.workspace.position_encoding or types.PositionEncodingKind.Utf16,
            params.client_info.name if params.client_info is not None else "",
        )
        set_up(self, params)
        if params.process_id is not None:
            self.session.start(self._watch, params.process_id)

    async def _watch(self, editor: int) -> None:
        while _is_there(editor):  # noqa: ASYNC110  # nothing tells of the end of another's process
            await anyio.sleep(PARENT_S)
        self.end(1)


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


async def serve(stdin: BinaryIO, stdout: BinaryIO, before: HandedOverState | None = None) -> int | HandedOverState:
    """Serve one editor until it says goodbye or goes away; the exit status. Or what has to be known to whatever takes
    the place of this process, as `before` is known to this one."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # it writes every message into the log
    unread = b"" if before is None else base64.b64decode(before.unread)
    reader, writer = await message_source(stdin, unread), MessageWriter(stdout)
    with young_only():
        async with anyio.create_task_group() as tasks:
            server = CkwatchServer(tasks)
            server.protocol.set_writer(writer)
            if before is not None:
                await replay(server, before)
            renewal = UpgradeWatcher(server, reader)
            tasks.start_soon(_read, server, reader, renewal.reading)
            tasks.start_soon(renewal.watch)
            tasks.start_soon(collect_when_idle, lambda: time.monotonic() - server.heard_s < QUIET_S)
            await server.ended.wait()
            tasks.cancel_scope.cancel()
    if server.successor is None:
        server.session.generated.files.remove()
    writer.close()
    return server.status if server.successor is None else server.successor


async def _read(server: CkwatchServer, reader: MessageSource, until: anyio.CancelScope) -> None:
    with until:
        await _read_all(server, reader)


async def _read_all(server: CkwatchServer, reader: MessageSource) -> None:
    while True:
        try:
            message = await reader.next()
        except UnreadableMessageError as error:
            server.protocol.refuse(None, PARSE_ERROR, f"this is no message: {error}")
            continue
        if message is None:
            server.end(1)
            return
        server.heard_s = time.monotonic()
        try:
            server.protocol.take(message)
        except Exception:  # noqa: BLE001  # whatever one message does, the next is heard
            _log.exception("unexpected")
        await anyio.lowlevel.checkpoint()


def main(resumed: int | None = None) -> int:
    """Serve on standard input and output; what anything else prints goes to standard error. `resumed`: the descriptor
    with what the version before has left."""
    before = None if resumed is None else read_state(resumed)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # of their own: the interpreter cannot end while a thread reads from its standard input
    stdin = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.setswitchinterval(SWITCH_S)
    ended = anyio.run(serve, stdin, stdout, before)
    if isinstance(ended, HandedOverState):
        os.dup2(stdout.fileno(), sys.stdout.fileno())
        reexec(ended)
    return ended
