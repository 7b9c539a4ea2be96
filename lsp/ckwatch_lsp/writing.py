"""The way to the editor: a thread of its own writes, so that an editor that reads slowly holds up nothing."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import BinaryIO

BACKLOG_BYTES = 256 * 1024 * 1024
"""An editor that has not read so much is taken for dead."""


class Writer:
    """Messages in order. Once the editor has gone, what is written is dropped, and `lost` says so."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._closed = False
        self.lost = False
        self._thread = threading.Thread(target=self._run, name="to the editor", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Send `data` when everything before it was sent."""
        with self._changed:
            if self.lost or self._closed:
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
            try:
                self._stream.write(data)
                self._stream.flush()
            except (OSError, ValueError):
                with self._changed:
                    self.lost = True
                    self._waiting.clear()
                with suppress(OSError, ValueError):
                    self._stream.close()
                return
