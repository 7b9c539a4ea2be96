"""What `stat` says of a file, and when that can stand for the file's contents.

A file that was modified within the last two seconds could change again without its times showing it: file systems
keep them to a few milliseconds at best. So what was read of such a file is not remembered by its stamp.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

SETTLED_NS = 2_000_000_000

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, times of modification and of change in nanoseconds."""

Clock = Callable[[], int]
"""The time since 1970 in nanoseconds, to compare a file's times with."""

Known = TypeVar("Known")


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(stamp: Stamp, now_ns: int) -> bool:
    """Whether a change after the time `now_ns` shows in the stamp."""
    return now_ns - max(stamp[3], stamp[4]) > SETTLED_NS


class ByStamp(Generic[Known]):
    """What is known of files, for as long as their stamps stay as they were."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, Known]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, path: str, stamp: Stamp) -> Known | None:
        """What is known of the file at `path`, which has this stamp now."""
        found = self._known.get(path)
        return found[1] if found is not None and found[0] == stamp else None

    def put(self, path: str, stamp: Stamp, read_at_ns: int, known: Known) -> None:
        """Remember what was read from the time `read_at_ns` on, if a change since then would show.

        `stamp` was taken before that time.
        """
        if is_settled(stamp, read_at_ns):
            self._known[path] = (stamp, known)
        else:
            self._known.pop(path, None)

    def keep(self, paths: Collection[str]) -> None:
        """Forget all files but `paths`."""
        self._known = {path: known for path, known in self._known.items() if path in paths}
