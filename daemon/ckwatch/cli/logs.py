"""`ckwatch logs`: the end of the daemon's log, and what is added to it.

The file itself is read, so that a daemon that has ended, or hangs, can be asked too.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

import anyio
from anyio import to_thread

from ckwatch.cli.daemon import known_workspace
from ckwatch.cli.signals import INTERRUPTED, stoppable
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.endpoint import endpoint_of

POLL_S = 0.25
"""How often a followed log is read."""

_CHUNK_BYTES = 65_536


def run(options: argparse.Namespace) -> int:
    """Print the last lines, and with `--follow` go on."""
    root = known_workspace(options)
    log = endpoint_of(root).log
    if not options.follow and not log.exists():
        raise CkwatchError(f"there is no log {log}: no daemon has run for {root}", "`ckwatch start` starts one")
    try:
        return anyio.run(partial(_print, log, options.lines, follow=options.follow))
    except KeyboardInterrupt:  # the usual end
        return INTERRUPTED


async def _print(log: Path, lines: int, *, follow: bool) -> int:
    async with stoppable():
        following = LogFollower(log)
        try:
            await to_thread.run_sync(_write, following.last(lines))
            while follow:
                await anyio.sleep(POLL_S)
                if added := await to_thread.run_sync(following.added):
                    await to_thread.run_sync(_write, added, abandon_on_cancel=True)
        finally:
            following.close()
    return 0


class LogFollower:
    """A log file that grows, and is moved to `NAME.1` now and then for a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def last(self, lines: int) -> bytes:
        """The last lines, those of the moved file before those of this one; `added` goes on after them."""
        self._open()
        here = b"" if self._file is None else _tail(self._file, lines)
        missing = lines - here.count(b"\n")
        if missing <= 0:
            return here
        with suppress(OSError), self._path.with_name(f"{self._path.name}.1").open("rb") as before:
            return _tail(before, missing) + here
        return here

    def added(self) -> bytes:
        """Return the bytes written since then, across a rotation: the rest of the old file, then the new one."""
        parts = []
        if self._file is not None:
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                self._file.seek(0)  # the file was truncated
            parts.append(self._file.read())
        if self._was_moved():
            if self._file is not None:
                parts.append(self._file.read())
                self.close()
            self._open()
            if self._file is not None:
                parts.append(self._file.read())
        return b"".join(parts)

    def close(self) -> None:
        """Give up the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        with suppress(FileNotFoundError):
            self._file = self._path.open("rb")

    def _was_moved(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            return False
        if self._file is None:
            return True
        here = os.fstat(self._file.fileno())
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)


def _tail(file: IO[bytes], lines: int) -> bytes:
    """The last lines, read from the end; the file stands at its end afterwards."""
    end = file.seek(0, os.SEEK_END)
    start, tail = end, b""
    while start > 0 and tail.count(b"\n") <= lines:
        start = max(0, start - _CHUNK_BYTES)
        file.seek(start)
        tail = file.read(end - start)
    file.seek(end)
    return b"".join(tail.splitlines(keepends=True)[-lines:])


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
