"""Writes that survive a crash: everything is flushed before the name under which it is trusted appears."""

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


def replace_file(path: Path, content: bytes, temporary: Path) -> None:
    """Put a file in place in one step; `temporary` is a free name on the same file system."""
    write_flushed(temporary, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.replace(path)
    flush_folder(path.parent)
