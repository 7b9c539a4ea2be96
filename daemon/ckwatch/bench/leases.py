"""Device leases: one benchmark at a time on a device, across daemons and users.

A lease is a `flock` on a file that is named by the device's PCI address and lies in a folder that all users share. The
kernel releases it when the process that took it ends, however it ends, so that a device that still runs a lost kernel
is never measured. The file stays: deleting a file while it is locked would allow two leases.

Another user may have written what the file says of its holder: it is shown, never trusted.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

from ckwatch.model.errors import DeviceError
from ckwatch.system.file_locks import try_lock

FOLDER_VARIABLE = "CKWATCH_LEASE_FOLDER"
"""Names another folder, which must be the same for all who share devices."""

_SHARED_FOLDERS = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))  # noqa: S108  # the same for every user: TMPDIR is not
_POLL_S = 0.02
_HOLDER_BYTES = 200


class Lease:
    """A device that is held. It ends with `release` or with the process, whichever comes first."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

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
    path = _folder() / _name(identity)
    deadline = time.monotonic() + wait_s
    reported: str | None = None
    while True:
        try:
            descriptor = try_lock(path, _open, follow_symlinks=False)
        except OSError as error:
            raise DeviceError(
                f"the device cannot be leased: {path}: {error.strerror}",
                f"Set {FOLDER_VARIABLE} to a folder that everybody who uses the device can write to.",
            ) from error
        if descriptor is not None:
            _sign(descriptor, holder)
            return Lease(descriptor)
        present = held_by(identity)
        if present != reported:
            reported = present
            waiting(present)
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        time.sleep(min(_POLL_S, left_s))


def held_by(identity: str) -> str:
    """What the last holder of the device wrote of itself; empty when nothing can be read."""
    try:
        descriptor = os.open(_folder() / _name(identity), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        text = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return "".join(c if c.isprintable() else " " for c in text.partition("\n")[0]).strip()


def _folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    for folder in _SHARED_FOLDERS:
        try:
            mode = folder.stat().st_mode
        except OSError:
            continue
        # Others must be able to write there, and not to rename what is ours.
        if stat.S_ISDIR(mode) and mode & 0o002 and mode & stat.S_ISVTX:
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
