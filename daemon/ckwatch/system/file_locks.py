"""File locks that end with their process.

They rest on `flock`: the kernel releases the lock when the process ends, however it ends. A lock file may be deleted
by its holder, so a process that gets the lock checks that the name still leads to the file it holds.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def _open(path: Path) -> int:
    return _regular(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))


def _regular(path: Path, descriptor: int) -> int:
    """The descriptor. Raises OSError where it is that of a FIFO or a device, which might block who opens it."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def try_lock(path: Path, opened: Callable[[Path], int] = _open, *, follow_symlinks: bool = True) -> int | None:
    """The descriptor of an exclusive lock on the file at `path`, which is created; None when another holds it.

    `opened` opens the file in another way.
    """
    while True:
        descriptor = opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        if is_in_place(path, descriptor, follow_symlinks=follow_symlinks):
            return descriptor
        os.close(descriptor)


def is_in_place(path: Path, descriptor: int, *, follow_symlinks: bool = True) -> bool:
    """Return True if the lock file at `path` is still the held one: it may have been deleted and made anew by another
    process."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=follow_symlinks))
    except OSError:
        return False


def unlock(path: Path, descriptor: int) -> None:
    """Delete the lock file, unless another process has replaced it, and release the lock."""
    try:
        if is_in_place(path, descriptor):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file at `path`, which is created and stays; waits for another that holds it."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return True if a process holds the lock; shares it for a moment if none does. A missing file or a symbolic link
    is not a lock. Raises OSError for a file that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        raise
    _regular(path, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
