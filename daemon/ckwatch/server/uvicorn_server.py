"""Runs uvicorn on a socket that is already open, until cancelled.

uvicorn's own `Server.serve` takes over signals, polls ten times a second whether it should end, and cuts open streams
with a traceback. Its parts are used here without that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import anyio
import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import Server

from ckwatch.questions.endpoint import NDJSON
from ckwatch.server.responses import json_bytes, problem_response
from ckwatch.wire.messages import Problem

_log = logging.getLogger(__name__)

HEAD_LIMIT_BYTES = 2**18
"""Of a request's line and headers together; unit patterns may stand in it."""

KEEP_ALIVE_S = 60
HEAD_S = 60.0
"""How long a connection may take to send the next request's line and headers, however slowly they come."""

_END_S = 0.4
"""Twice this is what requests in progress are given when the server ends."""


async def serve_on(
    listener: socket.socket, app: ASGIApp, *, started: Callable[[], None], head_s: float = HEAD_S
) -> None:
    """Serve `app` until cancelled. `started` is called as soon as requests are answered. Closes `listener`."""
    requests = _ActiveRequests(app)
    config = Config(
        requests,
        http=cast("type[asyncio.Protocol]", partial(_Protocol, head_s=head_s)),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=HEAD_LIMIT_BYTES,
    )
    config.load()
    server = Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        started()
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            for accepting in server.servers:
                accepting.close()
            listener.close()
            state = server.server_state
            for connection in list(state.connections):
                connection.shutdown()
            await requests.end()
            for connection in list(state.connections):
                connection.transport.abort()


class _Protocol(H11Protocol):
    """One connection. The request's `state` holds `abort`, which cuts it.

    uvicorn closes connections that are idle after an answer; half a request is closed here.
    """

    def __init__(self, *arguments: Any, head_s: float, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_s = head_s
        self._head_limit: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Bytes alone give no more time; a whole head does."""
        super().data_received(data)
        self._limit_head()

    def on_response_complete(self) -> None:
        """From now on the next request's head is awaited."""
        super().on_response_complete()
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        if self._head_limit is not None:
            self._head_limit.cancel()
        super().connection_lost(exc)

    def _limit_head(self) -> None:
        awaited = self.cycle is None or self.cycle.response_complete
        if awaited and self._head_limit is None:
            self._head_limit = self.loop.call_later(self._head_s, self.transport.close)
        elif not awaited and self._head_limit is not None:
            self._head_limit.cancel()
            self._head_limit = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort}
        if not _is_ours(transport.get_extra_info("socket")):
            _log.warning("a connection of another user was refused")
            transport.abort()
        else:
            self._limit_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP like any other mistake; in the middle of an answer that is impossible."""
        body = json_bytes(Problem(error=msg))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        try:
            events = [h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body)]
            for event in [*events, h11.EndOfMessage()]:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            self.transport.abort()
        else:
            self.transport.close()


class _ActiveRequests:
    """The application, with a way to end the requests that it answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: set[_ActiveRequest] = set()
        self._none_left = anyio.Event()
        self._ending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        running = _ActiveRequest(send)
        self._running.add(running)
        try:
            if not self._ending:
                with running.scope:
                    await self._app(scope, receive, running.send)
            if not running.complete:
                await running.give_up(scope, receive)
        finally:
            self._running.discard(running)
            if not self._running:
                self._none_left.set()

    async def end(self) -> None:
        """End streams at once, all else a little later."""
        self._ending = True
        for streams_only in (True, False):
            for running in list(self._running):
                if running.streaming or not streams_only:
                    running.scope.cancel()
            if self._running:
                self._none_left = anyio.Event()
                with anyio.move_on_after(_END_S):
                    await self._none_left.wait()


class _ActiveRequest:
    """A request that is being answered."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.scope = anyio.CancelScope()
        self.started = False
        self.streaming = False
        self.complete = False

    async def send(self, message: Message) -> None:
        """Pass on what the application sends."""
        if message["type"] == "http.response.start":
            self.started = True
            self.streaming = (b"content-type", NDJSON.encode()) in message["headers"]
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True

    async def give_up(self, scope: Scope, receive: Receive) -> None:
        """End the answer as well as can be: a stream of lines is whole after each of them."""
        if self.streaming:
            with anyio.move_on_after(_END_S):
                await self.send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not self.started:
            answer = problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "the daemon is ending", "Start it again.")
            await answer(scope, receive, self._send)
        if not self.complete:
            scope["state"]["abort"]()


def _is_ours(connection: socket.socket) -> bool:
    """Return True if the process at the other end is the user's."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())
