"""The program of a process that watches folders with `watchfiles`, and prints the paths at which something happens.

A process of its own, because the library's constructor walks all folders, hidden ones as well, and holds Python's lock
for so long: 35 ms for 10,000 files. It imports nothing but the library's compiled part, which makes it 11 MB large and
lets it begin within 30 ms. It ends when its standard input does.

The library's reports have to be asked for, step by step. On Linux a bell does without: inotify once more, which rings
when the library has something to report, and knows which files are closed. Nothing else depends on it.

In: one line of JSON, `{"library": [FOLDER], "folders": [FOLDER, …], "recursive": true, "step_ms": 30,
"ring_ms": 2}`, with how long what follows a ring is gathered.
Out: lines of JSON. `{}` once the folders are watched, then `{"PATH": HINT, …}`: `GONE` where the library has reported
that what was at the path is gone, and `CLOSED` where whoever wrote the file has closed it, or moved it there; at last
`{"error": [CLASS, TEXT]}`, if it comes to that.
"""

from __future__ import annotations

import errno
import json
import os
import select
import struct
import sys
import threading
import time
from contextlib import suppress
from types import ModuleType

GROUP_MS = 60
"""Changes without a pause are printed after so long; less than the quiet that ends a batch of many."""

PATHS_AT_ONCE = 500
"""Paths in a line: the reader takes 0.3 ms for so many."""

DELETED = 3
"""`watchfiles.Change.deleted`."""

GONE, CLOSED = 1, 2

AGAIN_MS, UNASKED_MS = 20, 10_000
"""The library is asked so long after a ring once more, as it may be slower than the bell, then after twice as long, and
so on up to so often without a ring."""

LIMIT_MS = 100
"""So long after a ring the library is asked until it reports something."""

QUIET_S = 0.1
"""A ring behind so much quiet is a save; others are gathered as without a bell."""

BELL_FOLDERS = 1024
"""Folders beyond which there is no bell: users of older kernels may watch 8,192 in all."""

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_ONLY_FOLDERS, _IS_FOLDER = 0x1000000, 0x40000000
_EVENT = struct.Struct("iIII")


class Bell:
    """Rings when something in folders changes. Raises OSError, AttributeError or ImportError where there is none."""

    def __init__(self, folders: list[str], recursive: bool) -> None:
        from ctypes import CDLL, get_errno

        self._recursive = recursive
        self._folders: dict[int, str] = {}
        self._system, self._errno = CDLL(None, use_errno=True), get_errno
        self._descriptor: int = self._system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError("no more of them")
        for folder in folders:
            self._add(folder)

    def _add(self, folder: str) -> None:
        """Watch a folder, and all below where that is asked for; links are followed. Without room there is no bell."""
        waiting = [folder]
        mask = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS
        mask |= _DELETE_SELF | _MOVE_SELF  # whatever the library reports
        while waiting:
            path = waiting.pop()
            watch = self._system.inotify_add_watch(self._descriptor, os.fsencode(path), mask)
            if watch < 0 and self._errno() in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                continue  # it has gone, or may not be read
            if watch < 0 or len(self._folders) >= BELL_FOLDERS:
                os.close(self._descriptor)
                raise OSError("there are too many")
            if watch not in self._folders and self._recursive:
                with suppress(OSError), os.scandir(path) as entries:
                    waiting += [entry.path for entry in entries if entry.is_dir()]
            self._folders[watch] = path

    def wait(self, limit_ms: int) -> bool:
        """Return True when it rings, False when it has not for so long."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(limit_ms))

    def closed(self) -> dict[str, bool]:
        """Paths at which something has happened since, and whether a file there was closed at last. It watches new
        folders."""
        found: dict[str, bool] = {}
        while True:
            try:
                events = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at < len(events):
                watch, mask, _, size = _EVENT.unpack_from(events, at)
                name = os.fsdecode(events[at + _EVENT.size : at + _EVENT.size + size].rstrip(b"\0"))
                at += _EVENT.size + size
                path = f"{self._folders.get(watch, '')}/{name}"
                found[path] = bool(mask & (_CLOSE_WRITE | _MOVED_TO)) or bool(mask & _ATTRIB and found.get(path))
                if self._recursive and mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO):
                    self._add(path)


def main() -> None:
    """Watch until standard input or the library ends."""
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        return  # whoever started it has ended
    request = json.loads(line)
    package = sys.modules["watchfiles"] = ModuleType("watchfiles")
    package.__path__ = request["library"]
    from watchfiles._rust_notify import RustNotify

    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        notify = RustNotify(request["folders"], False, False, 0, request["recursive"], False)
        bell = _bell(request["folders"], request["recursive"])
        _print({})
        rang_s, wait_ms = 0.0, AGAIN_MS
        while True:
            step_ms, limit_ms, closed = request["step_ms"], 0, {}
            rings = bell is not None and bell.wait(wait_ms)
            wait_ms = AGAIN_MS if rings else min(2 * wait_ms, UNASKED_MS)
            if bell is not None and rings:
                quiet_s, rang_s = time.monotonic() - rang_s, time.monotonic()
                time.sleep((request["ring_ms"] if quiet_s >= QUIET_S else step_ms) / 1000)
                step_ms, limit_ms = request["ring_ms"], LIMIT_MS
                try:
                    closed = bell.closed()
                except OSError:
                    bell = None
            elif bell is not None:
                step_ms = limit_ms = 1
            changes = notify.watch(GROUP_MS, step_ms, limit_ms, None)
            if isinstance(changes, str):
                continue  # within the limit there was nothing
            paths: dict[str, int] = {}
            for change, path in changes:
                paths[path] = (
                    paths.get(path, 0) | (GONE if change == DELETED else 0) | (CLOSED * closed.get(path, False))
                )
                if len(paths) >= PATHS_AT_ONCE:
                    _print(paths)
                    paths = {}
            if paths:
                _print(paths)
    except (OSError, RuntimeError, UnicodeError) as error:
        _print({"error": [type(error).__name__, str(error)]})


def _bell(folders: list[str], recursive: bool) -> Bell | None:
    try:
        return Bell(folders, recursive)
    except (OSError, AttributeError, ImportError):
        return None


def _print(line: object) -> None:
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # nothing reads it any more


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
