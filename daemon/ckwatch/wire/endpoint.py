"""The daemon's address: a socket and a lock in a folder that only the user can enter.

The lock is held as long as the daemon lives and makes it the only one; the socket file may be a dead daemon's. The
names depend on the workspace, the version and the code itself, so that a new version never talks to an old daemon. A
client imports this before its first answer, so nothing slow is imported here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.version import __version__
from ckwatch.system.file_locks import is_locked, try_lock, unlock
from ckwatch.system.processes import is_running, is_stopped
from ckwatch.system.user_files import read_file

LONGEST_SOCKET_PATH_BYTES = 107
"""`sun_path` of unix(7) has 108 bytes, one of them for the end."""

PACKAGE = Path(__file__).parents[1]
_NAME_SECONDS = 1.0
"""How long a process that has just got the lock may take to write its number into it; microseconds are usual."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The daemon's socket and lock, and the log, which its successors continue."""

    socket: Path
    lock: Path
    log: Path


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds the lock; `starting` is what it does until it answers requests, empty from then on.

    `stopped`: a signal has suspended it.
    """

    process: int
    starting: str
    stopped: bool


def endpoint_of(
    root: Path, environment: Mapping[str, str] = os.environ, package: Path = PACKAGE, version: str = __version__
) -> Endpoint:
    """The endpoint of the workspace at `root`; two names of one folder lead to the same. Creates nothing.

    The folder is `$XDG_RUNTIME_DIR/ckwatch` where that variable names a folder of the user's own, else
    `ckwatch-UID` in the folder for temporary files. It is not kept: an edited checkout has another endpoint.
    """
    real = os.fsencode(os.path.realpath(root))
    workspace = hashlib.sha256(real).hexdigest()[:16]
    identity = b"\0".join((real, version.encode(), code_identity(package)))
    name = hashlib.sha256(identity).hexdigest()[:20]
    folder = _folder(environment, len(f"/{name}.sock"))
    log = _state_folder(environment) / "workspaces" / workspace / "daemon.log"
    return Endpoint(folder / f"{name}.sock", folder / f"{name}.lock", log)


def prepare_folder(folder: Path) -> None:
    """Create `folder`, or make sure that it is the user's own and nobody else's.

    Raises CkwatchError for a symlink, what is no folder, another owner, or rights of others: who could write there may
    have put a socket of theirs in our place. Such a folder is left as it is.
    """
    refused = f"the daemon's folder {folder} cannot be used"
    try:
        parent = folder.parent.stat()
        if parent.st_mode & 0o022 and not parent.st_mode & stat.S_ISVTX:
            raise CkwatchError(
                f"{refused}: others may rename what is in {folder.parent}",
                f"`chmod go-w {folder.parent}`, or set XDG_RUNTIME_DIR to a folder of your own.",
            )
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise CkwatchError(
            f"{refused}: {error.strerror or error}", "Set XDG_RUNTIME_DIR to a folder of your own."
        ) from error
    if stat.S_ISLNK(found.st_mode):
        raise CkwatchError(f"{refused}: it is a symlink", "Remove it; ckwatch creates the folder.")
    if not stat.S_ISDIR(found.st_mode):
        raise CkwatchError(f"{refused}: it is not a folder", "Remove it; ckwatch creates the folder.")
    if found.st_uid != os.getuid():
        raise CkwatchError(
            f"{refused}: it belongs to user {found.st_uid}", "Set XDG_RUNTIME_DIR to a folder of your own."
        )
    if found.st_mode & 0o077:
        raise CkwatchError(
            f"{refused}: its mode {stat.S_IMODE(found.st_mode):04o} lets others in",
            "Remove it; ckwatch creates it with the mode 0700.",
        )


def acquire(endpoint: Endpoint) -> int | None:
    """Become the workspace's daemon: the descriptor of the lock, to keep until the end; None when another one runs.

    The folder must be prepared. `release` gives it up, as does the end of the process. Raises CkwatchError for a lock
    file that cannot be written.
    """
    try:
        while True:
            descriptor = try_lock(endpoint.lock)
            if descriptor is not None:
                break
            # Who only looks (`owner`) shares the lock for a moment, which must not pass for a daemon.
            if _is_held(endpoint.lock):
                return None
    except OSError as error:
        raise unusable_lock(endpoint.lock, error) from error
    try:
        os.ftruncate(descriptor, 0)
        line = _own_line()
        if os.pwrite(descriptor, line, 0) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as the next byte would
    except OSError as error:
        unlock(endpoint.lock, descriptor)
        raise unusable_lock(endpoint.lock, error) from error
    return descriptor


def note_start(lock: int, doing: str) -> None:
    """Write into the daemon's lock what it does until it answers requests; nothing when it does."""
    line = _own_line()
    with suppress(OSError):  # on a full disk clients wait without a word
        os.ftruncate(lock, len(line))
        os.pwrite(lock, doing.replace("\n", " ")[:200].encode("utf-8", "replace"), len(line))


def holder(endpoint: Endpoint) -> LockHolder | None:
    """Return the holder that the lock names; None if it names none."""
    with suppress(OSError, ValueError):
        if is_locked(endpoint.lock):
            process, _, starting = read_file(endpoint.lock).partition(b"\n")
            return LockHolder(int(process), starting.decode("utf-8", "replace"), is_stopped(int(process)))
    return None


def _own_line() -> bytes:
    return f"{os.getpid()}\n".encode()


def unusable_lock(path: Path, error: OSError) -> CkwatchError:
    """Return the error for a lock file that cannot be written."""
    return CkwatchError(
        f"the lock {path} cannot be used: {error.strerror or error}",
        "Remove it, make room, or set XDG_RUNTIME_DIR to another folder of your own.",
    )


def owner(endpoint: Endpoint, patience_s: float = _NAME_SECONDS) -> int | None:
    """The process id of the running daemon, None when there is none.

    Raises CkwatchError when the lock is held by a process that cannot be seen from here.
    """
    deadline = time.monotonic() + patience_s
    while _is_held(endpoint.lock):
        with suppress(OSError, ValueError):
            line, ended, _ = read_file(endpoint.lock).partition(b"\n")
            number = int(line)
            if ended and number > 0 and is_running(number):
                return number
        if time.monotonic() > deadline:
            raise CkwatchError(
                f"{endpoint.lock} is held by a process that cannot be seen from here",
                "Stop the ckwatch that runs in another container, or set XDG_RUNTIME_DIR to another folder.",
            )
        time.sleep(0.001)
    return None


def bind(endpoint: Endpoint) -> socket.socket:
    """The listening socket, which nobody else may connect to. Call it only with the lock held.

    A socket file that a dead daemon left is replaced. Raises CkwatchError when something else has its name.
    """
    path = endpoint.socket
    try:
        found = path.lstat()
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
            raise CkwatchError(f"{path} is not a socket of ckwatch", "Remove it.")
        path.unlink()
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        os.fchmod(listener.fileno(), 0o600)  # Linux creates the file with the mode that the socket has
        listener.bind(str(path))
        listener.listen(128)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise CkwatchError(f"the socket {path} cannot be created: {error.strerror or error}") from error
    return listener


def is_in_place(endpoint: Endpoint, lock: int) -> bool:
    """Return True if clients still find the daemon with `lock`; marks its files as used, so that no clean-up removes
    them."""
    try:
        os.utime(lock)
        return _has_name(endpoint, lock) and stat.S_ISSOCK(endpoint.socket.lstat().st_mode)
    except OSError:
        return False


def withdraw(endpoint: Endpoint, lock: int) -> None:
    """Remove the socket file, unless another daemon has taken the place because the lock file was gone."""
    with suppress(OSError):
        if _has_name(endpoint, lock) and stat.S_ISSOCK(endpoint.socket.lstat().st_mode):
            endpoint.socket.unlink()


def release(endpoint: Endpoint, lock: int) -> None:
    """The daemon with `lock` ends: remove its files, and release the lock last."""
    withdraw(endpoint, lock)
    try:
        with suppress(OSError):
            if _has_name(endpoint, lock):
                endpoint.lock.unlink()
    finally:
        os.close(lock)


def _has_name(endpoint: Endpoint, lock: int) -> bool:
    return os.path.samestat(os.fstat(lock), endpoint.lock.lstat())


def _folder(environment: Mapping[str, str], name_bytes: int) -> Path:
    """The first place that exists, is safe, and leaves room for the name."""
    ours = f"ckwatch-{os.getuid()}"
    runtime = Path(environment.get("XDG_RUNTIME_DIR", ""))
    if _is_private(runtime) and len(os.fsencode(runtime / "ckwatch")) + name_bytes <= LONGEST_SOCKET_PATH_BYTES:
        return runtime / "ckwatch"
    from tempfile import gettempdir  # slow to import, and seldom needed

    temporary = Path(gettempdir()) / ours
    if len(os.fsencode(temporary)) + name_bytes <= LONGEST_SOCKET_PATH_BYTES:
        return temporary
    return Path("/tmp") / ours  # noqa: S108 - `prepare_folder` makes it a private folder or refuses it


def _is_private(folder: Path) -> bool:
    if not folder.is_absolute():
        return False
    try:
        found = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _state_folder(environment: Mapping[str, str]) -> Path:
    """As platformdirs, but for the given environment."""
    named = environment.get("XDG_STATE_HOME", "").strip()
    if named:
        return Path(named) / "ckwatch"
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / ".local" / "state" / "ckwatch"


def code_identity(package: Path) -> bytes:
    """Changes with every edit of the package's Python files: the newest change, how many they are, their total size."""
    newest = count = size = 0
    folders = [os.fspath(package)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found = entry.stat()
                    newest = max(newest, found.st_mtime_ns)
                    count += 1
                    size += found.st_size
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return f"{package}:{newest}:{count}:{size}".encode(errors="surrogateescape")


def _is_held(lock: Path) -> bool:
    try:
        return is_locked(lock)
    except OSError as error:
        raise CkwatchError(f"{lock} cannot be read: {error.strerror or error}") from error
