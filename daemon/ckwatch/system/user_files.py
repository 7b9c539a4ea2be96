"""Reads files that users name or can put in place: they may be anything.

Only regular files up to a limit are read. Devices, FIFOs and sockets are refused before they are opened, and a file
that grows meanwhile, or that tells no size as those in `/proc`, is read up to the limit.

A network file system that no longer answers blocks for good whoever asks it. So it is asked in a thread that is
left behind after some seconds, and then not asked for some more. This costs a change of threads, and is spared where
the file system is local, or where nothing goes on without it: that of `/`, and that of the home folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from typing import TypeVar

from ckwatch.system.left_behind import LeftBehindError, TimeLimitedCalls

TEXT_LIMIT_BYTES = 16 * 1024**2
"""Of what a person writes: templates, kernel files, sources."""

SIDE_FILE_LIMIT_BYTES = 256 * 1024**2
"""Of what programs write beside an artifact: lists of headers, messages, traces."""

BINARY_LIMIT_BYTES = 2 * 1024**3
"""Of headers, code objects and libraries; clang reads no file that is larger."""

ANSWER_LIMIT_S = 5.0
"""How long a file system may take to answer; then it is not asked for `SILENCE_S`."""

SILENCE_S = 30.0
MOUNTS_KNOWN_S = 1.0

_REMOTE = ("nfs", "fuse", "cifs", "smb", "9p", "ceph", "lustre", "gpfs", "afs", "beegfs", "autofs", "virtiofs")
_CHUNK_BYTES = 1024**2

_Answer = TypeVar("_Answer")
_Path = str | os.PathLike[str]


def read_file(path: _Path, limit_bytes: int = TEXT_LIMIT_BYTES) -> bytes:
    """The contents of a regular file. Raises OSError, also where it is larger than the limit or no such file."""
    return read_with_status(path, limit_bytes)[0]


def read_with_status(path: _Path, limit_bytes: int = TEXT_LIMIT_BYTES) -> tuple[bytes, os.stat_result]:
    """`read_file`, with the status of the very file that was read."""
    name = os.fspath(path)

    def read() -> tuple[bytes, os.stat_result]:
        descriptor, status = _open(name, limit_bytes)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            content = bytearray()
            while chunk := _read_some(file, min(_CHUNK_BYTES, limit_bytes + 1 - len(content))):
                content += chunk
        if len(content) > limit_bytes:
            raise _too_large(name, limit_bytes)
        return bytes(content), status

    return _FILE_SYSTEMS.ask(name, read)


def digest_file(path: _Path, limit_bytes: int = BINARY_LIMIT_BYTES) -> str:
    """SHA-256, in hex, of the contents of a regular file. Raises OSError as `read_file`."""
    name = os.fspath(path)

    def read() -> str:
        descriptor, _ = _open(name, limit_bytes)
        digest, left = hashlib.sha256(), limit_bytes
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while chunk := _read_some(file, _CHUNK_BYTES):
                digest.update(chunk)
                left -= len(chunk)
                if left < 0:
                    raise _too_large(name, limit_bytes)
        return digest.hexdigest()

    return _FILE_SYSTEMS.ask(name, read)


def file_status(path: _Path) -> os.stat_result:
    """As `os.stat`: raises OSError or ValueError."""
    name = os.fspath(path)
    folder = os.path.dirname(name)  # noqa: PTH120  # on hot paths, as all of this
    if not _FILE_SYSTEMS.may_hang(folder):
        found = os.lstat(name)
        if not stat.S_ISLNK(found.st_mode):
            return found
    return _FILE_SYSTEMS.ask(name, lambda: os.stat(name))  # noqa: PTH116


def file_statuses(paths: Iterable[str]) -> Iterator[os.stat_result | None]:
    """`file_status` of each, None where there is none: for thousands of files, those of a folder in a row."""
    last, hangs = None, ""
    for path in paths:
        folder = path.rpartition(os.sep)[0]
        if folder != last:
            last, hangs = folder, _FILE_SYSTEMS.may_hang(folder)
        try:
            found = os.lstat(path) if not hangs else file_status(path)
            yield found if not stat.S_ISLNK(found.st_mode) else file_status(path)
        except (OSError, ValueError):
            yield None


def link_status(path: str) -> os.stat_result:
    """As `os.lstat`: raises OSError or ValueError."""
    return _FILE_SYSTEMS.ask_of_name(path, lambda: os.lstat(path))


def broken_link(path: _Path) -> str:
    """`a link to TARGET, which does not exist`; empty for anything else."""
    name = os.fspath(path)
    try:
        if not stat.S_ISLNK(link_status(name).st_mode):
            return ""
        target = _FILE_SYSTEMS.ask_of_name(name, lambda: os.readlink(name))  # noqa: PTH115
        try:
            file_status(name)
        except FileNotFoundError:
            return f"a link to {target}, which does not exist"
    except (OSError, ValueError):
        pass
    return ""


def is_folder(path: _Path) -> bool:
    """Return True if a folder is at the path, links followed; False if the file system does not answer."""
    try:
        return stat.S_ISDIR(file_status(path).st_mode)
    except (OSError, ValueError):
        return False


def is_file(path: _Path) -> bool:
    """Return True if a regular file is at the path, links followed; False if the file system does not answer."""
    try:
        return stat.S_ISREG(file_status(path).st_mode)
    except (OSError, ValueError):
        return False


def real_path(path: str) -> str:
    """As `os.path.realpath`; `path` where nobody answers."""
    try:
        return _FILE_SYSTEMS.ask(path, lambda: os.path.realpath(path))
    except OSError:
        return path


def is_there(path: _Path) -> bool:
    """Return True if anything is at the path, links not followed; False if the file system does not answer."""
    name = os.fspath(path)
    try:
        if not _FILE_SYSTEMS.may_hang(os.path.dirname(name)):  # noqa: PTH120
            return os.path.lexists(name)
        return _FILE_SYSTEMS.ask(name, lambda: os.path.lexists(name))
    except OSError:
        return False


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


def _read_some(file: FileIO, size: int) -> bytes:
    """Read what is available, empty at the end. Raises OSError if nothing is there yet: some files in `/proc` block."""
    chunk = file.read(size)
    if chunk is None:
        raise BlockingIOError(errno.EAGAIN, "has nothing to read now", file.name)
    return chunk


def _require_plain(path: str, status: os.stat_result, limit_bytes: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > limit_bytes:
        raise _too_large(path, limit_bytes)


def _too_large(path: str, limit_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {limit_bytes // 1024**2} MiB", path)


class FileSystems:
    """Which file systems may not answer, and which did not. For use from threads.

    `mount_table` is a file like `/proc/self/mountinfo`; the file systems of `spared` folders are asked directly.
    """

    def __init__(self, mount_table: str, spared: tuple[str, ...], *, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._mount_table = mount_table
        self._spared = spared
        self._limit_s = limit_s
        self._calls = TimeLimitedCalls("ckwatch-files")
        self._table = b""
        self._looked_at = float("-inf")
        self._remote: tuple[str, ...] = ()
        self._folders: dict[str, str] = {}
        self._silent: dict[str, float] = {}

    def may_hang(self, folder: str) -> str:
        """The mount point that what is in the folder hangs on, if that may not answer; else an empty text."""
        now_s = time.monotonic()
        if now_s - self._looked_at > MOUNTS_KNOWN_S:
            self._look_at_mounts(now_s)
        if not self._remote:
            return ""
        known = self._folders.get(folder)
        if known is None:
            known = self._remote_part(folder)
            if not known:
                try:
                    known = self._remote_part(self._ask_apart(folder, folder, lambda: os.path.realpath(folder)))
                except OSError:
                    return folder
            self._folders[folder] = known
        return known

    def ask(self, path: str, question: Callable[[], _Answer]) -> _Answer:
        """Return what `question` about `path` returns, or raise what it raises. Raises OSError when no answer comes."""
        folder = os.path.dirname(path)  # noqa: PTH120
        mount = self.may_hang(folder) or (self._remote_part(path) if self._remote else "")
        if not mount and self._remote and os.path.islink(path):  # noqa: PTH114
            target = os.path.normpath(os.path.join(folder, os.readlink(path)))  # noqa: PTH115, PTH118
            mount = self._remote_part(target) or path
        return self._ask_apart(mount, path, question) if mount else question()

    def ask_of_name(self, path: str, question: Callable[[], _Answer]) -> _Answer:
        """`ask`, for a question about the name itself, wherever it leads."""
        mount = self.may_hang(os.path.dirname(path)) or self._remote_part(path)  # noqa: PTH120
        return self._ask_apart(mount, path, question) if mount else question()

    def _remote_part(self, path: str) -> str:
        return next((mount for mount in self._remote if f"{path}{os.sep}".startswith(mount)), "")

    def _ask_apart(self, about: str, path: str, question: Callable[[], _Answer]) -> _Answer:
        if time.monotonic() - self._silent.get(about, float("-inf")) < SILENCE_S:
            raise _no_answer(path)
        try:
            return self._calls.ask(question, self._limit_s)
        except LeftBehindError:
            self._silent[about] = time.monotonic()
            raise _no_answer(path) from None

    def _look_at_mounts(self, now_s: float) -> None:
        self._looked_at = now_s
        try:
            with open(self._mount_table, "rb") as file:  # noqa: PTH123
                table = file.read()
        except OSError:
            return
        if table != self._table:
            mounts = _mounts(table)
            spared = {
                max((mount for mount in mounts if f"{folder}{os.sep}".startswith(mount)), key=len, default="")
                for folder in self._spared
            }
            self._remote = tuple(mount for mount, remote in mounts.items() if remote and mount not in spared)
            self._table, self._folders = table, {}


def _mounts(table: bytes) -> dict[str, bool]:
    """The mount points, each with a `/` at its end, and whether a network may be behind it; later ones win."""
    found = {}
    for line in table.splitlines():
        words = line.split(b" ")
        if len(words) < 7 or b"-" not in words[6:]:
            continue
        point = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), words[4])
        kind = os.fsdecode(words[words.index(b"-", 6) + 1])
        found[f"{os.fsdecode(point).rstrip(os.sep)}{os.sep}"] = kind.startswith(_REMOTE) and kind != "fusectl"
    return found


def _no_answer(path: str) -> OSError:
    return OSError(errno.ETIMEDOUT, "its file system does not answer", path)


_FILE_SYSTEMS = FileSystems("/proc/self/mountinfo", ("", os.path.expanduser("~")))  # noqa: PTH111  # there may be no home
