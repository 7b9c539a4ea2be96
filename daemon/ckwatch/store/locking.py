"""Folders that die with their process, and locks that do.

Both rest on `flock`: the kernel lets go of it when the process ends, however it ends. A lock file may be deleted by its
holder, so whoever gets the lock checks that the name still leads to the file it holds.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
from contextlib import suppress
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


class RunFolder:
    """A folder for this process's temporary files: `NAME/`, beside `NAME.lock` which is held while it lives."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            name = f"{os.getpid()}-{secrets.token_hex(6)}"
            lock = try_lock(parent / f"{name}.lock")
            if lock is not None:
                break
        self._lock = lock
        self._lock_file = parent / f"{name}.lock"
        self._owner = os.getpid()
        self._count = 0
        self.path = parent / name
        try:
            self.path.mkdir()
        except BaseException:
            unlock(self._lock_file, self._lock)
            raise

    @property
    def is_there(self) -> bool:
        """Whether nobody has deleted it, as `rm -rf` of the whole store does."""
        return self._lock >= 0 and is_in_place(self._lock_file, self._lock) and self.path.is_dir()

    def new_name(self) -> Path:
        """A name in the folder that is not in use."""
        self._count += 1
        return self.path / f"{self._count}-{secrets.token_hex(4)}"

    def new_folder(self) -> Path:
        """A new, empty folder in it."""
        path = self.new_name()
        path.mkdir()
        return path

    def close(self) -> None:
        """Remove the folder and all in it; does nothing in a forked child or when called again."""
        if self._lock >= 0 and os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            unlock(self._lock_file, self._lock)
            self._lock = -1


def remove_leftovers(parent: Path) -> int:
    """Remove the run folders in `parent` whose process has ended; returns how many there were.

    Processes that still work there (compilers of a process that was killed) are killed: nobody waits for them.
    """
    removed = 0
    try:
        names = sorted({path.name.removesuffix(".lock") for path in parent.iterdir()})
    except OSError:
        return 0
    for name in names:
        lock_file = parent / f"{name}.lock"
        try:
            lock = try_lock(lock_file)
        except OSError:
            continue
        if lock is None:
            continue
        try:
            folder = parent / name
            if folder.exists():
                removed += 1
                _end_processes_in(folder)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            unlock(lock_file, lock)
    return removed


def _end_processes_in(folder: Path) -> None:
    inside = f"{os.path.realpath(folder)}{os.sep}"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            working_folder = os.readlink(entry / "cwd")  # noqa: PTH115  # as it is, resolved or deleted
        except OSError:
            continue  # it has ended, or is another user's
        if working_folder.startswith(inside):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(entry.name), signal.SIGKILL)
