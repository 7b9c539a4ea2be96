"""Reads files that users name or can put in place: they may be anything.

Only regular files up to a limit are read. Devices, FIFOs and sockets are refused before they are opened, and a file
that grows meanwhile, or that tells no size as those in `/proc`, is read up to the limit.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

TEXT_LIMIT_BYTES = 16 * 1024**2
"""Of what a person writes: templates, kernel files, sources."""

SIDE_FILE_LIMIT_BYTES = 256 * 1024**2
"""Of what programs write beside an artifact: lists of headers, messages, traces."""

BINARY_LIMIT_BYTES = 2 * 1024**3
"""Of headers, code objects and libraries; clang reads no file that is larger."""

_CHUNK_BYTES, _SMALL_BYTES = 1024**2, 16 * 1024

_Path = str | os.PathLike[str]

# The system's own functions, for thousands of files: `pathlib` is slower.
file_status, real_path = os.stat, os.path.realpath
is_folder, is_file, is_there = os.path.isdir, os.path.isfile, os.path.lexists


def read_file(path: _Path, limit_bytes: int = TEXT_LIMIT_BYTES) -> bytes:
    """The contents of a regular file. Raises OSError, also where it is larger than the limit or no such file."""
    return read_with_status(path, limit_bytes)[0]


def read_with_status(path: _Path, limit_bytes: int = TEXT_LIMIT_BYTES) -> tuple[bytes, os.stat_result]:
    """`read_file`, with the status of the very file that was read."""
    descriptor, status = _open(os.fspath(path), limit_bytes)
    try:
        return b"".join(pieces(descriptor, status.st_size, limit_bytes)), status
    finally:
        os.close(descriptor)


def digest_file(path: _Path, limit_bytes: int = BINARY_LIMIT_BYTES) -> str:
    """SHA-256, in hex, of the contents of a regular file. Raises OSError as `read_file`."""
    descriptor, status = _open(os.fspath(path), limit_bytes)
    try:
        return digest_of(pieces(descriptor, status.st_size, limit_bytes))
    finally:
        os.close(descriptor)


def digest_of(contents: Iterable[bytes]) -> str:
    """SHA-256, in hex, of contents in pieces."""
    digest = hashlib.sha256()
    for piece in contents:
        digest.update(piece)
    return digest.hexdigest()


def pieces(descriptor: int, size_bytes: int, limit_bytes: int = BINARY_LIMIT_BYTES) -> Iterator[bytes]:
    """The contents of an open file of about this size. Raises OSError where there are more than the limit, or nothing
    is there yet: some files in `/proc` block."""
    # A larger buffer is mapped and given back for each piece.
    length, left = min(_CHUNK_BYTES, max(size_bytes + 1, _SMALL_BYTES)), limit_bytes
    while piece := os.read(descriptor, min(length, left + 1)):
        left -= len(piece)
        if left < 0:
            raise _too_large(None, limit_bytes)
        yield piece


def file_statuses(paths: Iterable[str]) -> Iterator[os.stat_result | None]:
    """The status of each file, links followed; None where there is none.

    Of files in a folder that is not there only the first is looked for: of five paths that a compile depends on four
    are places where a header must not appear.
    """
    is_here: dict[str, bool] = {}
    for path in paths:
        folder = path.rpartition(os.sep)[0]
        if not is_here.get(folder, True):
            yield None
            continue
        try:
            yield os.stat(path)  # noqa: PTH116  # for thousands of files
        except (OSError, ValueError):
            if folder and folder not in is_here:
                is_here[folder] = is_there(folder)
            yield None


def broken_link(path: _Path) -> str:
    """`a link to TARGET, which does not exist`; empty for anything else."""
    with suppress(OSError, ValueError):
        target = os.readlink(path)  # noqa: PTH115
        try:
            os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            return f"a link to {target}, which does not exist"
    return ""


def _open(path: str, limit_bytes: int) -> tuple[int, os.stat_result]:
    """The descriptor of a regular file, and its status."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        if os.path.islink(path):  # noqa: PTH114
            raise FileNotFoundError(errno.ENOENT, "it is a link to a file that does not exist", path) from None
        raise
    _require_plain(path, status, limit_bytes)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        _require_plain(path, status, limit_bytes)  # what was there may have been replaced
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def _require_plain(path: str, status: os.stat_result, limit_bytes: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > limit_bytes:
        raise _too_large(path, limit_bytes)


def _too_large(path: str | None, limit_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {limit_bytes // 1024**2} MiB", path)
