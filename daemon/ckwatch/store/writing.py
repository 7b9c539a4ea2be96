"""Writes that survive: everything is flushed before the name under which it is trusted appears."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ckwatch.errors import CkwatchError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class StoreError(CkwatchError):
    """The artifact store cannot be written. `no_space` tells a full file system from a read-only one."""

    def __init__(self, message: str, hint: str | None = None, *, no_space: bool = False) -> None:
        super().__init__(message, hint)
        self.no_space = no_space


@contextmanager
def storing_in(folder: Path) -> Iterator[None]:
    """Turn the host's refusals to write into `StoreError`."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StoreError(
                f"no space left for the artifact store in {folder}",
                "Free some space, or name another folder or a smaller size limit for the store.",
                no_space=True,
            ) from error
        raise StoreError(
            f"the artifact store in {folder} cannot be written: {error.strerror or error}",
            "Name a folder of your own for the store.",
        ) from error


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


def replace_file(path: Path, content: bytes, temporary: Path) -> None:
    """Put a file in place in one step; `temporary` is a free name on the same file system."""
    write_flushed(temporary, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.replace(path)
    flush_folder(path.parent)
