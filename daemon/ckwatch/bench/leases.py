"""Device leases: one benchmark at a time on a device, across daemons and users.

A lease is a `flock` on a file that is named by the device's PCI address and lies in a folder that all users share. The
kernel releases it when the process that took it ends, however it ends, so that a device that still runs a lost kernel
is never measured. The file stays: deleting a file while it is locked would allow two leases.

Another user may have written what the file says of its holder: it is shown, never trusted. Another user may also have
put something there that cannot be locked: a FIFO, a folder, a file for nobody else. Then the lease is one among one's
own processes only, in a folder where others can put nothing, and says so.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shlex
import stat
import time
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_state_path

from ckwatch.model.errors import DeviceError
from ckwatch.system.file_locks import try_lock

FOLDER_VARIABLE = "CKWATCH_LEASE_FOLDER"
"""Names another folder, which must be the same for all who share devices."""

_SHARED_FOLDERS = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))  # noqa: S108  # the same for every user: TMPDIR is not
_POLL_S = 0.02
_HOLDER_BYTES = 200
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
)


class Lease:
    """A device that is held. It ends with `release` or with the process, whichever comes first.

    `warning` says why other users may measure on it at the same time; empty where they cannot.
    """

    def __init__(self, descriptor: int, warning: str = "") -> None:
        self._descriptor = descriptor
        self.warning = warning

    def release(self) -> None:
        """Give the device back; does nothing when called again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def lease(identity: str, holder: str, *, wait_s: float, waiting: Callable[[str], None]) -> Lease | None:
    """Take the device with this identity (`DeviceFacts.identity`), None when it is still in use after `wait_s`.

    `holder` is the line that others are shown; `waiting` is called with the present holder's line when one has to
    wait, and again when the holder changes. Raises DeviceError when no lease can be taken here at all.
    """
    folder = _folder()
    path = folder / _name(identity)
    warning = _folder_warning(folder)
    own = user_state_path("ckwatch", appauthor=False) / "devices" / path.name
    deadline = time.monotonic() + wait_s
    reported: str | None = None
    while True:
        try:
            descriptor = try_lock(path, _open, follow_symlinks=False)
        except OSError as error:
            blocked = "" if path == own else _blocked_by(path)
            if blocked and _is_made(own.parent):
                warning = (
                    f"{blocked} keeps users from taking turns on the device: others may have measured at the same "
                    f"time; an administrator can remove it: sudo rm -r {shlex.quote(str(path))}"
                )
                path = own
                continue
            raise DeviceError(
                f"the device cannot be leased: {path}: {error.strerror}",
                f"Set {FOLDER_VARIABLE} to a folder that everybody who uses the device can write to.",
            ) from error
        if descriptor is not None:
            _sign(descriptor, holder)
            return Lease(descriptor, warning)
        present = _present_holder(path)
        if present != reported:
            reported = present
            waiting(present)
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        time.sleep(min(_POLL_S, left_s))


def _written_in(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        text = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return "".join(c if c.isprintable() else " " for c in text.partition("\n")[0]).strip()


def _is_made(folder: Path) -> bool:
    """Return True if the folder exists, creating it if necessary."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return True


def _present_holder(path: Path) -> str:
    """Return the holder's description of itself; for another user's process, also the kernel's."""
    written = _written_in(path)
    try:
        status = path.lstat()
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            # "1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF"
            if words[1:2] == ["FLOCK"] and words[5].endswith(f":{status.st_ino}") and int(words[4]) > 0:
                owner = Path("/proc", words[4]).stat().st_uid
                if owner != os.geteuid():
                    return f"process {words[4]} of {_user(owner)}" + (f" ({written})" if written else "")
    except (OSError, ValueError, IndexError):
        pass  # ended meanwhile, or in another container
    return written


def _blocked_by(path: Path) -> str:
    """Name the file at the path that cannot be locked, and its owner; empty if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return ""
    kind = next((name for test, name in _KINDS if test(status.st_mode)), "a file")
    closed = " that only its owner may open" if kind == "a file" else ""
    return f"{path}, {kind} of {_user(status.st_uid)}{closed},"


def _folder_warning(folder: Path) -> str:
    """Why others could take away a lock in this folder; empty where they cannot."""
    try:
        status = folder.stat()
    except OSError:
        return ""  # whoever opens the lock says so
    if status.st_uid not in (0, os.geteuid()):
        return f"the folder of device locks {folder} belongs to {_user(status.st_uid)}, who could take a lock away"
    if status.st_mode & 0o002 and not status.st_mode & stat.S_ISVTX:
        return f"every user can take locks away in the folder of device locks {folder}: chmod +t it"
    return ""


def _user(number: int) -> str:
    try:
        return f"the user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"the user {number}"


def _folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    for folder in _SHARED_FOLDERS:
        try:
            status = folder.stat()
        except OSError:
            continue
        # Others must be able to write there, and not to rename what is ours.
        mode = status.st_mode
        if stat.S_ISDIR(mode) and mode & 0o002 and mode & stat.S_ISVTX and status.st_uid == 0:
            return folder
    return _SHARED_FOLDERS[-1]


def _name(identity: str) -> str:
    return f"ckwatch-device-{re.sub(r'[^0-9A-Za-z.:-]', '_', identity.lower())}.lock"


def _open(path: Path) -> int:
    """Open for writing, else for reading, which is enough for a lock; create it for everybody.

    O_CREAT never meets a file that is there: with `fs.protected_regular` the kernel refuses that for a file of another
    user in a folder like /tmp. Raises OSError also for what is no plain file.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            descriptor = _open_present(path, flags)
            break
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o666)
        except FileExistsError:
            continue
        os.fchmod(descriptor, 0o666)  # whatever the umask is
        break
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no plain file")
    return descriptor


def _open_present(path: Path, flags: int) -> int:
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def _sign(descriptor: int, holder: str) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(errors="replace")[: _HOLDER_BYTES - 1] + b"\n", 0)
    except OSError:
        pass  # locked for reading only, or no space: others then see no holder
