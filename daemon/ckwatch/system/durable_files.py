"""Writes that are whole or not there: in one step, and flushed before the name under which they are trusted appears."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from ckwatch.system.user_files import digest_of, pieces


def flush_folder(folder: Path) -> None:
    """Make the names in `folder` survive a crash of the host."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_flushed(path: Path, content: bytes) -> None:
    """Write a new file and flush it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flushed_if_holding(path: Path, content: bytes) -> bool:
    """Flush the file if it is there with these contents; whether it is."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        if file.read() != content:
            return False
        os.fsync(descriptor)
    return True


def take_flushed(source: Path, target: Path) -> tuple[int, str]:
    """Move `source` to `target`, across file systems if need be, and flush it; it may be there already. Its size and
    SHA-256."""
    try:
        if source != target:
            source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copyfile(source, target)
    descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        size_bytes = os.fstat(descriptor).st_size
        return size_bytes, digest_of(pieces(descriptor, size_bytes))
    finally:
        os.close(descriptor)


def overwrite_file(path: Path, content: bytes) -> None:
    """Write a file in place, for readers who can tell a half-written one: to put another there frees the blocks of the
    old one, which takes milliseconds on some file systems."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666), "wb") as file:
        file.write(content)
        file.truncate()


def temporary_beside(path: Path) -> Path:
    """A free name on the file system of `path`, for a file that takes its place. Raises OSError where `path` is neither
    a file nor a link: a device or a FIFO would be lost."""
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    # short: a name that fits need not leave room for more
    return path.with_name(f".{os.urandom(8).hex()}.partial")


NAME_LIMIT_BYTES = 255
"""The limit of Linux file systems."""

_MARK_DIGITS = 12


def fitting_name(name: str, *, room: int, separator: str = "-") -> str:
    """`name`, or, where a file could not be called that with `room` more bytes behind it, its beginning and a hash."""
    limit = NAME_LIMIT_BYTES - room
    encoded = os.fsencode(name)
    if len(encoded) <= limit:
        return name
    mark = separator + hashlib.sha256(encoded).hexdigest()[:_MARK_DIGITS]
    return encoded[: limit - len(mark)].decode(errors="ignore") + mark


def replace_file(
    path: Path, content: bytes, *, temporary: Path | None = None, mode: int = 0o666, flushed: bool = True
) -> None:
    """Put a file in place in one step, by way of a new file, which an error leaves no trace of.

    `temporary` is a free name on the same file system, by default one beside `path`.
    `mode` is less the umask. Without `flushed` the file may be lost or empty after a crash of the host, as is good
    enough for what can be made again.
    """
    if temporary is None:
        temporary = temporary_beside(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if flushed:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if flushed:
        flush_folder(path.parent)
