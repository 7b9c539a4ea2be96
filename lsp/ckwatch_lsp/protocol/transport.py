"""Reads messages from the editor's pipe and writes messages to it.

Messages are framed by headers. A body that is no JSON object is reported, and reading goes on. Output that the editor
does not take at once is written by a thread, so that a slow editor blocks nothing.
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

MESSAGE_LIMIT = 128 * 1024 * 1024
"""Bytes of one message."""

HEADER_LIMIT = 64 * 1024

THREAD_BYTES = 256 * 1024
"""Bytes from which on a message is decoded in a thread."""


class UnreadableMessageError(Exception):
    """A body that is no JSON object."""


class MessageSource(Protocol):
    """Where messages come from."""

    async def next(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises UnreadableError for a body that is no JSON object."""

    def close(self) -> None:
        """Read no more."""


async def message_source(stream: BinaryIO, unread: bytes = b"") -> MessageSource:
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
        self.close()
        return rest

    def close(self) -> None:
        """Close the pipe."""
        self._transport.close()


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

    def close(self) -> None:
        """The thread ends with the process."""

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
