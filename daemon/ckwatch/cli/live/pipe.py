"""Standard output that is no terminal: its reader may be slow, or go away."""

from __future__ import annotations

import os
import select
import stat
import sys

import anyio
from anyio import to_thread

from ckwatch.errors import CkwatchError


async def write(text: str) -> None:
    """Write all of it, whenever the reader takes it.

    Raises BrokenPipeError when there is no reader any more, and CkwatchError for a disk that is full.
    """
    if text:
        await to_thread.run_sync(_write_all, text.encode(sys.stdout.encoding, "replace"), abandon_on_cancel=True)


async def reader_gone() -> None:
    """Wait for the end of a pipe's reader, and raise BrokenPipeError then."""
    descriptor = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return
    # nothing can be read there: it is an error that wakes us
    await anyio.wait_readable(descriptor)
    raise BrokenPipeError


def _write_all(data: bytes) -> None:
    descriptor = sys.stdout.fileno()
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CkwatchError(f"standard output cannot be written: {error.strerror}") from None
