"""Reads messages from the editor's pipe and writes messages to it.

What is no message is reported, and reading goes on. Output that the editor does not take at once is written by a
thread, so that a slow editor blocks nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import select
import stat
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

import anyio
from anyio import to_thread

from ckwatch_lsp.protocol.framing import FramingError, MessageFramer

READ_BYTES = 64 * 1024
"""Bytes that are read at once."""

THREAD_BYTES = 256 * 1024
"""Bytes from which on a message is decoded in a thread."""


class UnreadableMessageError(Exception):
    """A header that cannot be used, or a body that is no JSON object."""


class MessageSource(Protocol):
    """Where messages come from."""

    async def next(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises UnreadableMessageError for what is none; the next call goes on
        behind it."""

    def close(self) -> None:
        """Read no more."""


async def message_source(stream: BinaryIO, unread: bytes = b"") -> MessageSource:
    """What reads from `stream`, after `unread`: the event loop itself where that can wait for it, as for pipes and
    sockets; a thread would have to be woken for every message, which takes its time on a machine whose cores are busy.
    """
    reader = asyncio.StreamReader(limit=READ_BYTES)
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    except ValueError:
        thread = ThreadReader(stream)
        thread.start()
        return thread
    return PipeReader(reader, transport, unread)


class PipeReader:
    """Reads on the event loop. A task that waits for a message may be cancelled: nothing of it is lost."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport, unread: bytes = b"") -> None:
        self._reader = reader
        self._transport = transport
        self._framer = MessageFramer()
        self._framer.feed(unread)
        self._body: bytes | None = None
        """A body that is being decoded."""

    async def next(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises UnreadableMessageError for what is none."""
        while self._body is None:
            self._body = _next_body(self._framer)
            if self._body is None:
                try:
                    data = await self._reader.read(READ_BYTES)
                except OSError:
                    return None
                if not data:
                    return None
                self._framer.feed(data)
        try:
            message = await _message_in(self._body)
        except UnreadableMessageError:
            self._body = None
            raise
        self._body = None
        return message

    async def rest(self) -> bytes:
        """Read no more; what was read and is no whole message."""
        self._transport.pause_reading()
        self._reader.feed_eof()
        body = b"" if self._body is None else b"Content-Length: %d\r\n\r\n%b" % (len(self._body), self._body)
        rest = body + self._framer.rest + await self._reader.read()
        self.close()
        return rest

    def close(self) -> None:
        """Close the pipe."""
        self._transport.close()


class ThreadReader:
    """Reads from a stream in a thread that does not keep the process alive."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._bodies: queue.SimpleQueue[bytes | UnreadableMessageError | None] = queue.SimpleQueue()
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
        """The next message; None at the end. Raises UnreadableMessageError for what is none."""
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
            if isinstance(body, UnreadableMessageError):
                raise body
            return await _message_in(body)

    def close(self) -> None:
        """The thread ends with the process."""

    def _run(self) -> None:
        framer = MessageFramer()
        try:
            while data := os.read(self._stream.fileno(), READ_BYTES):
                framer.feed(data)
                while (found := _body_or_problem(framer)) is not None:
                    self._bodies.put(found)
                    self._arrived()
        except (OSError, ValueError):
            pass
        self._bodies.put(None)
        self._arrived()


def _next_body(framer: MessageFramer) -> bytes | None:
    try:
        return framer.next()
    except FramingError as error:
        raise UnreadableMessageError(str(error)) from None


def _body_or_problem(framer: MessageFramer) -> bytes | UnreadableMessageError | None:
    try:
        return _next_body(framer)
    except UnreadableMessageError as error:
        return error


async def _message_in(body: bytes) -> dict[str, Any]:
    return await to_thread.run_sync(_decoded, body) if len(body) > THREAD_BYTES else _decoded(body)


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


def _nonblocking(stream: BinaryIO) -> int | None:
    """The descriptor of a pipe or socket, which does not block from now on; None for anything else."""
    try:
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
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
        """Whether the thread is writing."""
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
