"""File locks that end with their process.

They rest on `flock`: the kernel lets go of the lock when the process ends, however it ends. A lock file may be deleted
by its holder, so whoever gets the lock checks that the name still leads to the file it holds.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def try_lock(path: Path) -> int | None:
    """The descriptor of an exclusive lock on the file at `path`, which is created; None when another holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        if is_in_place(path, descriptor):
            return descriptor
        os.close(descriptor)


def is_in_place(path: Path, descriptor: int) -> bool:
    """Whether the lock file at `path` is the one that is held: it may have been deleted, and made anew by another."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def unlock(path: Path, descriptor: int) -> None:
    """Delete the lock file, unless it is another's by now, and let go of it."""
    try:
        if is_in_place(path, descriptor):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
