"""Reads messages from the editor's pipe and writes messages to it.

What is no message is reported, and reading goes on. Output that the editor does not take at once is written by a
thread, so that a slow editor blocks nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import stat
import threading
from collections import deque
from contextlib import suppress
from typing import Any, BinaryIO

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


def _nonblocking(stream: BinaryIO) -> int | None:
    """The descriptor of a pipe or socket, which does not block from now on; None for anything else."""
    try:
        descriptor = stream.fileno()
        is_pipe = _is_pipe(descriptor)
    except (OSError, ValueError):
        return None
    if not is_pipe:
        return None
    os.set_blocking(descriptor, False)
    return descriptor


class MessageWriter:
    """Messages in order. Once the editor has gone, what is written is dropped, and `lost` says so."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._closed = False
        self._busy = False
        """True while the thread is writing."""
        self.lost = False
        self._direct = _nonblocking(stream)
        self._thread = threading.Thread(target=self._run, name="to the editor", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Send `data` when everything before it was sent."""
        with self._changed:
            if self.lost or self._closed:
                return
            if self._direct is not None and not self._waiting and not self._busy:
                data = data[self._write_some(data) :]
                if not data:
                    return
            self._waiting.append(data)
            self._bytes += len(data)
            if self._bytes > BACKLOG_BYTES:
                self.lost = True
                self._waiting.clear()
            self._changed.notify()

    def close(self, limit_s: float = 2.0) -> None:
        """Send what is left, for at most so long."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(limit_s)

    def _write_some(self, data: bytes) -> int:
        """How much the editor takes at once, so that no thread has to be woken for it."""
        assert self._direct is not None  # noqa: S101  # the caller has looked
        try:
            return os.write(self._direct, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.lost = True
            return len(data)

    def _write_all(self, data: bytes) -> None:
        if self._direct is None:
            self._stream.write(data)
            self._stream.flush()
            return
        view = memoryview(data)
        while view:
            select.select([], [self._direct], [])
            with suppress(BlockingIOError):
                view = view[os.write(self._direct, view) :]

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                data = b"".join(self._waiting)
                self._waiting.clear()
                self._bytes = 0
                self._busy = True
            try:
                self._write_all(data)
                with self._changed:
                    self._busy = False
            except (OSError, ValueError):
                with self._changed:
                    self.lost = True
                    self._waiting.clear()
                with suppress(OSError, ValueError):
                    self._stream.close()
                return
