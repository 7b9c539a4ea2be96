"""Writes that are whole or not there: in one step, and flushed before the name under which they are trusted appears."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path


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


def take_flushed(source: Path, target: Path) -> None:
    """Move `source` to `target`, across file systems if need be, and flush it."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copyfile(source, target)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(
    path: Path, content: bytes, *, temporary: Path | None = None, mode: int = 0o666, flushed: bool = True
) -> None:
    """Put a file in place in one step, by way of a new file, which an error leaves no trace of.

    `temporary` is a free name on the same file system, by default one beside `path`.
    `mode` is less the umask. Without `flushed` the file may be lost or empty after a crash of the host, as is good
    enough for what can be made again.
    """
    if temporary is None:
        temporary = path.with_name(f".{path.name[:200]}.{os.urandom(6).hex()}")
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
