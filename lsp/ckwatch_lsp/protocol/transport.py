"""Reads messages from the editor's pipe and writes messages to it.

What is no message is reported, and reading goes on. A slow editor blocks nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from typing import Any, BinaryIO

import anyio
from anyio import to_thread

from ckwatch.system.message_framing import FramingError, MessageFramer

READ_BYTES = 64 * 1024
"""Bytes that are read at once."""

THREAD_BYTES = 256 * 1024
"""Bytes from which on a message is decoded in a thread."""


class UnreadableMessageError(Exception):
    """A header that cannot be used, or a body that is no JSON object."""


async def message_source(stream: BinaryIO, unread: bytes = b"") -> MessageReader:
    """A reader of `stream`, after `unread`. The event loop itself waits for pipes and sockets: a thread would have to
    be woken for every message. A file is read at once."""
    reader = asyncio.StreamReader(limit=READ_BYTES)
    loop = asyncio.get_running_loop()
    if not (_is_pipe(stream.fileno()) or stream.isatty()):
        reader.feed_data(await to_thread.run_sync(stream.read))
        reader.feed_eof()
        return MessageReader(reader, None, unread)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    return MessageReader(reader, transport, unread)


class MessageReader:
    """Reads on the event loop. A task that waits for a message may be cancelled: nothing of it is lost."""

    def __init__(
        self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport | None, unread: bytes = b""
    ) -> None:
        self._reader = reader
        self._transport = transport
        self._framer = MessageFramer()
        self._framer.feed(unread)
        self._body: bytes | None = None
        """A body that is being decoded."""

    async def next(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises UnreadableMessageError for what is none; the next call goes on
        behind it."""
        while self._body is None:
            try:
                self._body = self._framer.next()
            except FramingError as error:
                raise UnreadableMessageError(str(error)) from None
            if self._body is None:
                try:
                    data = await self._reader.read(READ_BYTES)
                except OSError:
                    return None
                if not data:
                    return None
                self._framer.feed(data)
        is_long = len(self._body) > THREAD_BYTES
        try:
            message = await to_thread.run_sync(_decoded, self._body) if is_long else _decoded(self._body)
        except UnreadableMessageError:
            self._body = None
            raise
        self._body = None
        return message

    async def rest(self) -> bytes:
        """Read no more; what was read and is no whole message."""
        if self._transport is not None:
            self._transport.pause_reading()
            self._reader.feed_eof()
        body = b"" if self._body is None else b"Content-Length: %d\r\n\r\n%b" % (len(self._body), self._body)
        rest = body + self._framer.rest + await self._reader.read()
        self.close()
        return rest

    def close(self) -> None:
        """Close the pipe."""
        if self._transport is not None:
            self._transport.close()


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableMessageError(str(error)) from None
    if not isinstance(message, dict):
        raise UnreadableMessageError("a message must be a JSON object")
    return message


BACKLOG_BYTES = 256 * 1024 * 1024
"""An editor that has not read so much is taken for dead."""


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class MessageWriter:
    """Messages in order. What the editor does not take at once waits until it does. Once the editor has gone, what is
    written is dropped, and `lost` says so."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting = bytearray()
        self._sent = anyio.Event()
        self.lost = False
        self._is_pipe = _is_pipe(stream.fileno())
        if self._is_pipe:
            os.set_blocking(stream.fileno(), False)

    def write(self, data: bytes) -> None:
        """Send `data` when everything before it was sent."""
        if self.lost:
            return
        is_first = not self._waiting
        self._waiting += data
        if is_first:
            self._sent = anyio.Event()
            self._send()
        elif len(self._waiting) > BACKLOG_BYTES:
            self._lose()

    async def finish(self, limit_s: float = 2.0) -> None:
        """Send what is left, for at most so long."""
        with anyio.move_on_after(limit_s):
            if self._waiting:
                await self._sent.wait()

    def close(self) -> None:
        """Close the pipe."""
        self._stream.close()

    def _send(self) -> None:
        """Send as much as the editor takes, and the rest when the event loop finds that it takes more."""
        descriptor, loop = self._stream.fileno(), asyncio.get_running_loop()
        try:
            del self._waiting[: os.write(descriptor, self._waiting)]
            while self._waiting and not self._is_pipe:
                del self._waiting[: os.write(descriptor, self._waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()
        if self._waiting:
            loop.add_writer(descriptor, self._send)
            return
        if self._is_pipe:
            loop.remove_writer(descriptor)
        self._sent.set()

    def _lose(self) -> None:
        self.lost = True
        self._waiting.clear()
