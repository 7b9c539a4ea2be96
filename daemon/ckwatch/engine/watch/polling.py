"""Polls folders where the kernel tells nothing: inotify is exhausted, missing, or blind (network shares)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ckwatch.engine.watch.events import APPEARED, CHANGED, FOLDER, GONE, VANISHED, WatchEvent, WatchEvents

Stamp: TypeAlias = tuple[int, int, int, int, bool]
"""Inode, size, mtime and ctime (ns), and whether it is a folder. Of a folder only the inode counts: what happens in it
is its own affair. A second's resolution, as some tools have it, would miss the second save of a second."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    inode: int
    stamps: dict[str, Stamp]


class FolderPoller:
    """Snapshots of folders (real paths), compared by `scan`. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._snapshots: dict[str, _Snapshot] = {}
        self._lock = threading.Lock()  # held for a dictionary access, never for I/O

    def add(self, folder: str) -> None:
        """Remember what is in the folder now. Raises OSError."""
        snapshot = _snapshot(folder)
        with self._lock:
            self._snapshots.setdefault(folder, snapshot)

    def remove(self, folders: Iterable[str]) -> None:
        """Look at these no more."""
        with self._lock:
            for folder in folders:
                self._snapshots.pop(folder, None)

    def watched(self) -> frozenset[str]:
        """The folders that are looked at."""
        with self._lock:
            return frozenset(self._snapshots)

    def scan(self, folders: Iterable[str] | None = None, stopped: Callable[[], bool] = lambda: False) -> WatchEvents:
        """What is different from the last time, in these folders or in all."""
        happenings: list[WatchEvent] = []
        with self._lock:
            before = dict(self._snapshots)
        for folder in before if folders is None else folders:
            old = before.get(folder)
            if old is None:
                continue
            if stopped():
                break
            try:
                new = _snapshot(folder)
            except OSError:
                new = None
            with self._lock:
                if self._snapshots.get(folder) is not old:
                    continue  # removed, or added anew, meanwhile
                if new is None or new.inode != old.inode:
                    del self._snapshots[folder]
                else:
                    self._snapshots[folder] = new
            if new is None or new.inode != old.inode:
                happenings.append((folder, "", GONE))
            else:
                happenings += _differences(folder, old.stamps, new.stamps)
        return WatchEvents(happenings)


def _snapshot(folder: str) -> _Snapshot:
    inode = os.stat(folder).st_ino  # noqa: PTH116  # strings all the way, as everywhere in this room
    stamps: dict[str, Stamp] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it vanished: the next scan says so
            if entry.is_dir(follow_symlinks=False):
                stamps[entry.name] = (status.st_ino, 0, 0, 0, True)
            else:
                times = (status.st_mtime_ns, status.st_ctime_ns)
                stamps[entry.name] = (status.st_ino, status.st_size, *times, False)
    return _Snapshot(inode, stamps)


def _differences(folder: str, old: dict[str, Stamp], new: dict[str, Stamp]) -> Iterable[WatchEvent]:
    for name, stamp in old.items():
        now = new.get(name)
        if now is None:
            yield folder, name, VANISHED | (FOLDER if stamp[4] else 0)
        elif now != stamp:
            if stamp[4] or now[4]:
                yield folder, name, VANISHED | (FOLDER if stamp[4] else 0)
                yield folder, name, APPEARED | (FOLDER if now[4] else 0)
            else:
                yield folder, name, APPEARED if now[0] != stamp[0] else CHANGED
    for name, stamp in new.items():
        if name not in old:
            yield folder, name, APPEARED | (FOLDER if stamp[4] else 0)
