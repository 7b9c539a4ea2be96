"""Linux's inotify: one watch per folder, without a thread and without a wakeup while nothing happens.

`describe` explains an exhausted limit, and how to raise it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import anyio

from ckwatch.engine.watch.events import (
    APPEARED,
    CHANGED,
    CLOSED,
    FOLDER,
    GONE,
    VANISHED,
    WRITING,
    WatchEvent,
    WatchEvents,
)

_LIMITS_FOLDER = Path("/proc/sys/fs/inotify")
ENOUGH_WATCHES = 524_288
ENOUGH_INSTANCES = 1_024


def describe_shortage(error: OSError) -> tuple[str, str]:
    """The message and the hint for an error of inotify. Reads one small file of `/proc`."""
    if error.errno == errno.ENOSPC:
        return _limit("max_user_watches", "file watches", ENOUGH_WATCHES)
    if error.errno == errno.EMFILE:
        message, hint = _limit("max_user_instances", "inotify instances (or of open files)", ENOUGH_INSTANCES)
        return message, f"{hint}\nIf that changes nothing, raise the number of open files: ulimit -n 4096"
    if error.errno == errno.ENOSYS:
        return "This system has no inotify; folders are polled instead.", "ckwatch watches files best on Linux."
    return (
        f"Folders cannot be watched ({error.strerror or error}); they are polled instead.",
        "Changes are noticed a little later. It is tried again every few seconds.",
    )


def _limit(name: str, what: str, enough: int) -> tuple[str, str]:
    try:
        now = int((_LIMITS_FOLDER / name).read_text())
    except (OSError, ValueError):
        now = 0
    number = max(enough, 2 * now)
    known = f" ({now})" if now else ""
    return (
        f"The limit of {what}{known} is reached; some folders are polled instead.",
        (
            f"sudo sysctl fs.inotify.{name}={number}\n"
            f"To keep it: echo fs.inotify.{name}={number} | sudo tee /etc/sysctl.d/60-ckwatch.conf"
        ),
    )


# <sys/inotify.h>
IN_MODIFY = 0x0000_0002
IN_ATTRIB = 0x0000_0004
IN_CLOSE_WRITE = 0x0000_0008
IN_MOVED_FROM = 0x0000_0040
IN_MOVED_TO = 0x0000_0080
IN_CREATE = 0x0000_0100
IN_DELETE = 0x0000_0200
IN_DELETE_SELF = 0x0000_0400
IN_MOVE_SELF = 0x0000_0800
IN_UNMOUNT = 0x0000_2000
IN_Q_OVERFLOW = 0x0000_4000
IN_IGNORED = 0x0000_8000
IN_ONLYDIR = 0x0100_0000
IN_EXCL_UNLINK = 0x0400_0000
IN_ISDIR = 0x4000_0000

NAME_MASK = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
SELF_MASK = IN_DELETE_SELF | IN_MOVE_SELF

_MEANING = {
    IN_MODIFY: WRITING,
    IN_ATTRIB: CHANGED,
    IN_CLOSE_WRITE: CHANGED | CLOSED,
    IN_MOVED_FROM: VANISHED,
    IN_MOVED_TO: APPEARED,
    IN_CREATE: APPEARED,
    IN_DELETE: VANISHED,
}
_MEANINGS = _MEANING | {mask | IN_ISDIR: meaning | FOLDER for mask, meaning in _MEANING.items()}

_EVENT = struct.Struct("iIII")  # wd, mask, cookie, length of the name that follows
_READ_BYTES = 32 * 1024  # about 1,000 events: 2 ms to take apart, so that the event loop is never held up
_EARLY_LIMIT = 20_000


class Inotify:
    """One inotify instance. `add` may be called from a worker thread, everything else from the event loop's.

    Raises OSError (EMFILE: too many instances or open files; ENOSYS: not Linux) when there is none to be had.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
        if self._fd < 0:
            raise _last_error("inotify")
        self._folders: dict[int, str] = {}
        self._descriptors: dict[str, int] = {}
        self._added: deque[tuple[str, int]] = deque()
        """Watches that another thread has added and that the event loop has not seen yet."""
        self._adding = 0
        self._early: dict[int, list[WatchEvent]] = {}
        """What already happened in folders whose watch is still on its way from that thread."""
        self._late: list[WatchEvent] = []
        """What of it has found its folder and was not read yet."""

    def add(self, folder: str, *, only_itself: bool = False) -> None:
        """Watch a folder (a real path), not what lies in its folders; the last call counts. One thread at a time.

        `only_itself`: nothing that happens in it, only whether it is deleted or moved.
        Raises OSError: ENOSPC when the user has no watch left, EACCES, ENOENT, ENOTDIR.
        """
        self._adding += 1
        try:
            mask = SELF_MASK | IN_ONLYDIR | (0 if only_itself else NAME_MASK | IN_EXCL_UNLINK)
            descriptor = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
            if descriptor < 0:
                raise _last_error(folder)
            self._added.append((folder, descriptor))
        finally:
            self._adding -= 1

    def remove(self, folders: Iterable[str]) -> None:
        """Watch these no more."""
        self._install()
        for folder in folders:
            descriptor = self._descriptors.pop(folder, None)
            # A renamed folder keeps its descriptor, which then belongs to its new name.
            if descriptor is not None and self._folders.get(descriptor) == folder:
                del self._folders[descriptor]
                self._libc.inotify_rm_watch(self._fd, descriptor)  # fails when the kernel was faster: as well

    def watched(self) -> frozenset[str]:
        """The folders that are watched."""
        self._install()
        return frozenset(self._descriptors)

    async def wait(self) -> None:
        """Return when there may be something to read."""
        if self._late:
            return
        if self._early or self._added:
            with anyio.move_on_after(0.005):
                await anyio.wait_readable(self._fd)
        else:
            await anyio.wait_readable(self._fd)

    def read(self) -> WatchEvents:
        """What happened, up to about 1,000 events; nothing when nothing did."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            data = b""
        self._install()
        happenings, self._late = self._late, []
        lost = False
        offset, end = 0, len(data)
        while offset < end:
            descriptor, mask, _, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size
            name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            offset += length
            if mask & IN_Q_OVERFLOW:
                lost = True
                continue
            folder = self._folders.get(descriptor)
            if mask & IN_IGNORED and folder is not None:
                self._forget(descriptor)
                continue
            meaning = GONE if mask & (SELF_MASK | IN_UNMOUNT | IN_IGNORED) else _MEANINGS.get(mask, 0) if name else 0
            if not meaning:
                continue
            if folder is None:
                self._early.setdefault(descriptor, []).append(("", name, meaning))
            else:
                happenings.append((folder, name, meaning))
        if self._early and not self._adding and not self._added:
            self._early.clear()  # of watches that were removed
        elif len(self._early) > _EARLY_LIMIT:
            self._early.clear()
            lost = True
        return WatchEvents(happenings, lost)

    def close(self) -> None:
        """Give the instance back; no thread may be in `add` any more."""
        os.close(self._fd)

    def _install(self) -> None:
        while self._added:
            folder, descriptor = self._added.popleft()
            before = self._descriptors.get(folder)
            if before is not None and before != descriptor and self._folders.get(before) == folder:
                del self._folders[before]
                self._libc.inotify_rm_watch(self._fd, before)
            self._descriptors[folder] = descriptor
            self._folders[descriptor] = folder
            self._late += [(folder, name, meaning) for _, name, meaning in self._early.pop(descriptor, ())]

    def _forget(self, descriptor: int) -> None:
        folder = self._folders.pop(descriptor, None)
        if folder is not None and self._descriptors.get(folder) == descriptor:
            del self._descriptors[folder]


def _last_error(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
