"""Messages from the editor, framed by headers. What is no message is answered with an error, and reading goes on."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

import anyio
from anyio import to_thread

MESSAGE_LIMIT = 128 * 1024 * 1024
"""Bytes of one message."""

HEADER_LIMIT = 64 * 1024

LARGE = 256 * 1024
"""Bytes from which on a message is decoded in a thread."""


class UnreadableError(Exception):
    """A body that is no JSON object."""


class Source(Protocol):
    """Where messages come from."""

    async def next(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises UnreadableError for a body that is no JSON object."""


async def source_of(stream: BinaryIO, unread: bytes = b"") -> Source:
    """What reads from `stream`, after `unread`: the event loop itself where that can wait for it, as for pipes and
    sockets; a thread would have to be woken for every message, which takes its time on a machine whose cores are busy.
    """
    reader = asyncio.StreamReader(limit=2 * HEADER_LIMIT)
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    except ValueError:
        thread = ThreadReader(stream)
        thread.start()
        return thread
    reader.feed_data(unread)
    return PipeReader(reader, transport)


class PipeReader:
    """Reads on the event loop. A task that waits for a message may be cancelled: nothing of it is lost."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self._reader = reader
        self._transport = transport
        self._head = b""
        """The header of the next message, as far as it has been read."""

    async def next(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises UnreadableError for a body that is no JSON object."""
        length = next((found for line in self._head.split(b"\n") if (found := _length_in(line)) is not None), None)
        is_whole = self._head.endswith((b"\n\n", b"\r\n\r\n"))
        try:
            while True:
                if not is_whole:
                    line = await self._reader.readuntil(b"\n")
                    self._head = (self._head + line)[-HEADER_LIMIT:]
                    length = _length_in(line) or length
                    is_whole = not line.strip()
                if length is not None and length > MESSAGE_LIMIT:
                    return None
                if is_whole and length is not None:
                    body = await self._reader.readexactly(length)
                    self._head = b""
                    return await _message_in(body)
                if is_whole:
                    self._head, is_whole = b"", False
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return None

    async def rest(self) -> bytes:
        """Read no more; what was read and is no whole message."""
        self._transport.pause_reading()
        self._reader.feed_eof()
        rest = self._head + await self._reader.read()
        self._transport.close()
        return rest


class ThreadReader:
    """Reads from a stream in a thread that does not keep the process alive."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._bodies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._arrived: Callable[[], None] = lambda: None
        self._event = anyio.Event()

    def start(self) -> None:
        """Begin to read; to be called on the event loop."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            self._event.set()

        def arrived() -> None:
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:
                return  # the loop has ended

        self._arrived = arrived
        threading.Thread(target=self._run, name="from the editor", daemon=True).start()

    async def next(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises UnreadableError for a body that is no JSON object."""
        while True:
            try:
                body = self._bodies.get_nowait()
            except queue.Empty:
                self._event = anyio.Event()
                if self._bodies.empty():
                    await self._event.wait()
                continue
            if body is None:
                return None
            return await _message_in(body)

    def _run(self) -> None:
        try:
            while (body := _read_body(self._stream)) is not None:
                self._bodies.put(body)
                self._arrived()
        except (OSError, ValueError):
            pass
        self._bodies.put(None)
        self._arrived()


def _read_body(stream: BinaryIO) -> bytes | None:
    """The next body; None at the end, or where nothing more can be understood."""
    length: int | None = None
    while True:
        line = stream.readline(HEADER_LIMIT)
        if not line:
            return None
        length = _length_in(line) or length
        if length is not None and length > MESSAGE_LIMIT:
            return None
        if not line.strip() and length is not None:
            body = stream.read(length)
            return body if len(body) == length else None


def _length_in(line: bytes) -> int | None:
    name, _, value = line.partition(b":")
    return int(value) if name.strip().lower() == b"content-length" and value.strip().isdigit() else None


async def _message_in(body: bytes) -> dict[str, Any]:
    return await to_thread.run_sync(_decoded, body) if len(body) > LARGE else _decoded(body)


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from None
    if not isinstance(message, dict):
        raise UnreadableError("a message must be a JSON object")
    return message
