"""HTTP over a Unix socket: one request, one connection.

Connecting to a Unix socket takes some microseconds, so connections are not kept. Closing one is how a request is given
up, and the daemon notices.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import repeat
from socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

import anyio
import anyio.lowlevel
import h11

from ckwatch.client.http_state import RESTART, HttpState
from ckwatch.model.errors import DaemonGoneError, DaemonSilentError, ProtocolError

ANSWER_LIMIT_S = 60.0
"""Seconds until an answer begins, and between its parts; streams send a heartbeat every 15 s."""

LINE_LIMIT_BYTES = 256 * 1024 * 1024
"""The longest line of a stream."""

_CHUNK_BYTES = 256 * 1024
_BUSY_PAUSE_S = 0.01
_SILENT = f"the daemon has not answered for {ANSWER_LIMIT_S:.0f} s"


class Exchange:
    """An answer that is being read. The caller has to `close` it; dropping it does that too, sooner or later."""

    def __init__(self, connection: socket, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._socket = connection
        self._http = HttpState()
        self._finished = False
        self._lines: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    @classmethod
    async def begin(
        cls,
        path: str | os.PathLike[str],
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        limit_s: float = ANSWER_LIMIT_S,
    ) -> Exchange:
        """Send a request to the socket at `path` and read the head of the answer. Raises DaemonGoneError if no daemon
        listens or it goes away first, DaemonSilentError if it does nothing for `limit_s`, and ProtocolError for an
        answer that is no HTTP. So does reading."""
        exchange = cls(await connection_to(path), limit_s)
        try:
            await exchange._send(method, target, body)
            await exchange._next_event()
        except BaseException:
            exchange.close()
            raise
        return exchange

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self._http.status

    async def read(self) -> bytes:
        """The rest of the answer."""
        return b"".join([data async for data in self.parts()])

    async def parts(self) -> AsyncIterator[bytes]:
        """The rest of the answer, piece by piece."""
        while (data := await self._part()) is not None:
            yield data

    async def line(self, limit_bytes: int = LINE_LIMIT_BYTES) -> bytes | None:
        """The next line of the answer that is not empty; None at its end. Nothing is lost when this is cancelled."""
        while not self._lines:
            if self._finished:
                return None
            data = await self._part()
            if data is None:
                self._finished = True
                data = b"\n"
            first, *others = data.split(b"\n")
            self._begun.append(first)
            self._begun_bytes += len(first)
            if self._begun_bytes > limit_bytes:
                raise ProtocolError("the daemon sent a line without an end")
            if others:
                whole = (b"".join(self._begun), *others[:-1])
                self._begun, self._begun_bytes = [others[-1]], len(others[-1])
                self._lines.extend(line for line in whole if line)
        return self._lines.popleft()

    def close(self) -> None:
        """Close the connection; the daemon stops what it does for this request.

        A task that waits for more at this moment gets ClosedResourceError.
        """
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()

    def __del__(self) -> None:
        # an iterator over events that was left by `break`
        self._socket.close()

    async def _send(self, method: str, target: str, body: bytes | None) -> None:
        left = memoryview(self._http.request(method, target, body))
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                await self._until(anyio.wait_writable)
            except OSError:
                self._http.refused()
                return

    async def _part(self) -> bytes | None:
        while True:
            event = await self._next_event()
            if isinstance(event, h11.EndOfMessage):
                return None
            if isinstance(event, h11.Data):
                return bytes(event.data)

    async def _next_event(self) -> h11.Event:
        while (event := self._http.event()) is None:
            self._http.receive(await self._receive())
        return event

    async def _receive(self) -> bytes:
        while True:
            # a daemon that keeps up with the reader must not keep all others from their turn
            await self._until(anyio.wait_readable)
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            return data

    async def _until(self, ready: Callable[[socket], Awaitable[None]]) -> None:
        try:
            with anyio.fail_after(self._limit_s):
                await ready(self._socket)
        except TimeoutError:
            raise DaemonSilentError(_SILENT, RESTART) from None


async def connection_to(path: str | os.PathLike[str]) -> socket:
    """A connection to the Unix socket at `path`. Raises DaemonGoneError if no daemon listens."""
    await anyio.lowlevel.checkpoint_if_cancelled()
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    try:
        connection.setblocking(False)
        for pause_s in repeat(_BUSY_PAUSE_S, round(ANSWER_LIMIT_S / _BUSY_PAUSE_S)):
            try:
                connection.connect(os.fspath(path))
                return connection
            except BlockingIOError:  # more clients come at this moment than the daemon lets wait
                await anyio.sleep(pause_s)
        raise DaemonSilentError(_SILENT, RESTART)
    except BaseException as error:
        connection.close()
        if isinstance(error, OSError):
            raise DaemonGoneError(f"there is no daemon on {path}: {error.strerror or error}") from None
        raise
