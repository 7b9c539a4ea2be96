"""Hashes of file contents, remembered by what `stat` says of the file.

A hash is reused while path, size, modification and change time, and inode are the same. A file that was modified
within two seconds of now is hashed but not remembered: it could change again without its times showing it. Clocks may
be set, and those of file servers differ: a time is compared for being equal or close, not for being earlier.

The memo is a SQLite file, shared by processes, and asked file by file: a store of 5,000 entries has 30,000. It is never
needed: where it cannot be read or written some hashes live in memory only.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ckwatch.system.user_files import digest_file, file_status, file_statuses, is_there

_SETTLED_NS = 2_000_000_000
_Stamp = bytes
_STAMP = struct.Struct("3qQ")
"""Size, times of modification and change, inode: packed, as they are remembered of 16,000 files."""

_Known = tuple[_Stamp, str]
_Value = TypeVar("_Value")

_READINGS = 4
"""How often two clocks are read: the process may have to wait between them."""

_RECENT = 4096
_UNWRITTEN = 1000
"""Hashes that are held in memory: those asked for last, and those to be written together."""

_SEEN = 16_384
"""Files of which is remembered since when they are as they are; a compile reads 1,500."""

_AT_REST = 2000
"""Files of which something is remembered while nothing happens."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS content (
  path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, sha256 TEXT
) WITHOUT ROWID
"""


def steady_ns() -> int:
    """Nanoseconds since the host was started, suspensions included: no setting of the clock changes it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _stamp(status: os.stat_result) -> _Stamp:
    return _STAMP.pack(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _seen_at(stamp: _Stamp, since_ns: int) -> bytes:
    return stamp + since_ns.to_bytes(8, "little", signed=True)


def _since_ns(seen: bytes) -> int:
    return int.from_bytes(seen[_STAMP.size :], "little", signed=True)


class ContentHashes:
    """Hashes of files; safe to use from several threads."""

    def __init__(
        self,
        database: Path | None,
        *,
        settled_ns: int = _SETTLED_NS,
        clock: Callable[[], int] = time.time_ns,
        digest_file: Callable[[str], str] = digest_file,
    ) -> None:
        self._digest_file = digest_file
        self._database = database
        self._settled_ns = settled_ns
        self._clock = clock
        self._lock = threading.RLock()
        self._recent: dict[str, _Known] = {}
        self._new: dict[str, _Known] = {}
        self._seen: dict[str, bytes] = {}
        """Stamps, and since when files have them (`_seen_at`)."""
        self._standing: dict[str, tuple[bytes, str]] = {}
        """Files whose hash is reused while they are as they were seen."""
        self._looked: tuple[Sequence[str], list[_Stamp | None], tuple[list[str | None], int]] = ((), [], ([], 0))
        """The files of the last `digests`, where all of them are among those, and what came of it."""
        self._reader: sqlite3.Connection | None = None

    def digest(self, path: str, *, is_input: bool = True) -> str | None:
        """The hash of the file at `path` as it is now, None if there is none that can be read.

        Of an input it is remembered since when it is so.
        """
        try:
            status = file_status(path)
        except (OSError, ValueError):
            return None
        stamp = _stamp(status)
        with self._lock:
            if is_input:
                self._see(path, stamp, status.st_ctime_ns)
            known = self._ask(path)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            found = self._digest_file(path)
        except OSError:
            return None
        if abs(self._clock() - status.st_ctime_ns) > self._settled_ns:
            with self._lock:
                self._recent.pop(path, None)
                self._new[path] = (stamp, found)
                if len(self._new) >= _UNWRITTEN:
                    self.save()
        return found

    def digests(self, paths: Sequence[str]) -> tuple[list[str | None], int]:
        """The hash of each file as it is now, None where there is none that can be read, and since when (`steady_ns`)
        all of them are as they are.

        A file that was asked for before is compared with what it was then; one that was not has been as it is for as
        long as its times say. Where these lie in the future, the answer may be too late, but not twice.
        """
        found: list[str | None] = []
        newest_ns = 0
        standing = self._standing
        stamps = [None if status is None else _stamp(status) for status in file_statuses(paths)]
        looked, last, result = self._looked
        if looked is paths and stamps == last:
            return result
        for path, stamp in zip(paths, stamps, strict=True):
            known = standing.get(path)
            if known is None or stamp is None or not known[0].startswith(stamp):
                digest = None if stamp is None else self.digest(path)
                with self._lock:
                    seen = self._seen.get(path)
                    since_ns = steady_ns() if seen is None else _since_ns(seen)
                    if digest is not None and seen is not None and self._is_kept(path, seen):
                        standing[path] = (seen, digest)
                        if len(standing) > _SEEN:
                            del standing[next(iter(standing))]
            else:
                since_ns, digest = _since_ns(known[0]), known[1]
            newest_ns = max(newest_ns, since_ns)
            found.append(digest)
        if all(
            path in standing and stamp is not None and standing[path][0].startswith(stamp)
            for path, stamp in zip(paths, stamps, strict=True)
        ):
            self._looked = (paths, stamps, (found, newest_ns))
        return found, newest_ns

    def rest(self) -> None:
        """Write what was learned, and forget all but what was learned last."""
        with self._lock:
            self.save()
            self._recent = _last(self._recent, _AT_REST)
            self._seen = _last(self._seen, _AT_REST)
            self._standing = _last(self._standing, _AT_REST)
            self._looked = ((), [], ([], 0))

    def _is_kept(self, path: str, seen: bytes) -> bool:
        """Return True if the file's hash is reused while it is as it was seen."""
        known = self._new.get(path) or self._recent.get(path)
        return known is not None and seen.startswith(known[0])

    def look(self) -> ContentSnapshot:
        """One look at the files, for the units of one build."""
        return ContentSnapshot(self)

    def forget_below(self, folder: Path) -> None:
        """Drop what is known of files in `folder`, which was removed."""
        prefix = f"{folder}{os.sep}"
        with self._lock:
            for memo in (self._recent, self._new):
                for path in [path for path in memo if path.startswith(prefix)]:
                    del memo[path]
            self._execute(
                "DELETE FROM content WHERE substr(path, 1, ?) = ?", [(len(prefix), prefix)], only_if_known=True
            )

    def save(self) -> None:
        """Write what was learned. Where that cannot be, a part of it is forgotten when it becomes much."""
        with self._lock:
            if self._new and self._execute(
                "INSERT OR REPLACE INTO content VALUES (?, ?, ?, ?, ?, ?)",
                [(path, *_STAMP.unpack(stamp), digest) for path, (stamp, digest) in self._new.items()],
            ):
                self._recent |= self._new
                self._new.clear()
            self._recent = _last(self._recent, _RECENT)
            self._new = _last(self._new, 10 * _UNWRITTEN)

    def _see(self, path: str, stamp: _Stamp, changed_ns: int) -> None:
        if not self._seen.get(path, b"").startswith(stamp):
            self._seen[path] = _seen_at(stamp, self._steady_time_of(changed_ns))
            if len(self._seen) > _SEEN:
                del self._seen[next(iter(self._seen))]

    def _steady_time_of(self, changed_ns: int) -> int:
        """Return the value of `steady_ns` when the clock showed `changed_ns`: now, less the time since then.

        The clocks are read one after the other, several times: what counts is the time with the least in between.
        """
        readings = [(steady_ns(), self._clock(), steady_ns()) for _ in range(_READINGS)]
        _, now_ns, steady = min(readings, key=lambda reading: reading[2] - reading[0])
        return steady - max(0, now_ns - changed_ns)

    def _ask(self, path: str) -> _Known | None:
        """Return what is known of the file; the memo has many more than are asked for again."""
        known = self._new.get(path) or self._recent.get(path)
        if known is not None or self._database is None:
            return known
        try:
            if self._reader is None:
                if not self._database.exists():
                    return None
                uri = f"{self._database.as_uri()}?mode=ro"
                self._reader = sqlite3.connect(uri, uri=True, timeout=5, check_same_thread=False)
                weakref.finalize(self, self._reader.close)
                self._reader.execute("PRAGMA cache_size=-200")
            query = "SELECT size, mtime_ns, ctime_ns, inode, sha256 FROM content WHERE path = ?"
            row = self._reader.execute(query, (path,)).fetchone()
            if row is None:
                return None
            known = self._recent[path] = (_STAMP.pack(*row[:4]), row[4])
        except (sqlite3.Error, struct.error):
            self._close_reader()
            return None
        if len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]
        return known

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _execute(self, statement: str, rows: list[tuple[object, ...]], *, only_if_known: bool = False) -> bool:
        if self._database is None or (only_if_known and not self._database.exists()):
            return False
        for attempt in range(2):
            try:
                connection = sqlite3.connect(self._database, timeout=5)
                try:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute("PRAGMA synchronous=NORMAL")
                    connection.execute(_SCHEMA)
                    with connection:
                        connection.executemany(statement, rows)
                finally:
                    connection.close()
            except sqlite3.OperationalError:
                return False
            except sqlite3.DatabaseError:
                # Not a database any more. It is only a memo: begin a new one.
                self._close_reader()
                if attempt or not _remove_database(self._database):
                    return False
            else:
                return True
        return False


class ContentSnapshot:
    """Looks at each file once, so that eight units that read the same thousand headers cost a thousand `stat` calls.

    What changes after it was read is not seen: make a new one for each build.
    """

    def __init__(self, contents: ContentHashes) -> None:
        self._contents = contents
        self._digests: dict[str, str | None] = {}
        self._exists: dict[str, bool] = {}
        self.held: dict[str, bool] = {}
        """Which sets of headers (`HeaderSet.key`) were found to be as they were, by who looked."""

    def digest(self, path: str) -> str | None:
        """The hash of the file at `path`, None if there is none that can be read."""
        if path not in self._digests:
            self._digests[path] = self._contents.digest(path)
        return self._digests[path]

    def exists(self, path: str) -> bool:
        """Return True if anything is at `path`."""
        if path not in self._exists:
            self._exists[path] = is_there(path)
        return self._exists[path]


def _last(memo: dict[str, _Value], count: int) -> dict[str, _Value]:
    """The newest of them, in a new dict if any go: the table of one never shrinks."""
    return memo if len(memo) <= count else dict(islice(memo.items(), len(memo) - count, None))


def _remove_database(database: Path) -> bool:
    try:
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)
    except OSError:
        return False
    return True
