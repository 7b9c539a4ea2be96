"""The way to the editor: what it does not take at once a thread writes, so that a slow editor holds up nothing."""

from __future__ import annotations

import os
import select
import stat
import threading
from collections import deque
from contextlib import suppress
from typing import BinaryIO

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


class Writer:
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
