"""The history's SQLite file: its tables, transactions, and what happens when it is damaged or cannot be written.

The journal is a write-ahead log. With it, `synchronous = NORMAL` is safe: the file is flushed before what was logged is
copied into the database, so that no crash damages it, and a process may be killed at any moment without losing what it
has committed. Only a crash of the host may lose the last transactions, whole: those units are checked again.

`PRAGMA user_version` is the number of migrations that were applied. A migration is one transaction that also sets that
number: a daemon that is killed leaves the old tables or the new ones. What was released is never edited, only added to.

A unit's latest result is its newest run; a unit that is no longer `present` keeps its runs. Thousands of units read the
same few sets of templates: each set is stored once, under its hash.

A timing's `content` is its record as JSON, and `samples` holds the raw samples, which would be most of it; the other
columns are there to find it. `baseline` names timings to compare with: those that a unit had on its shapes when the
baseline was set.

An `artifact` of a unit has the figures of its code object as `content`, as JSON in a `format` of its own; the newest
row of a unit is the artifact that it had last.

A `result` is what can be taken for known of a unit, the newest has the highest `id`, and `result_files` are the files
that it depends on, once for all units that depend on the same (`ckwatch.bench.history.results`).

What others measured is in `imported_timing`, as JSON, by the `imported_file` that it was read from: never in `timing`,
whose rows were all measured here. `for_kernel` is empty where the operation tells which kernels a row is about.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ckwatch.model.errors import CkwatchError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE unit (
      id INTEGER PRIMARY KEY,
      name TEXT NOT NULL UNIQUE,
      present INTEGER NOT NULL
    );
    CREATE TABLE read_set (
      id INTEGER PRIMARY KEY,
      sha256 TEXT NOT NULL UNIQUE,
      reads TEXT NOT NULL
    );
    CREATE TABLE run (
      id INTEGER PRIMARY KEY,
      unit INTEGER NOT NULL REFERENCES unit,
      read_set INTEGER NOT NULL REFERENCES read_set,
      token_key TEXT NOT NULL,
      key TEXT NOT NULL,
      outcome TEXT NOT NULL,
      finished_at REAL NOT NULL,
      seconds REAL NOT NULL,
      peak_memory_bytes INTEGER NOT NULL,
      from_store INTEGER NOT NULL,
      cause TEXT NOT NULL
    );
    CREATE INDEX run_of_unit ON run (unit);
    CREATE TABLE daemon (
      id INTEGER PRIMARY KEY,
      started_at REAL NOT NULL,
      pid INTEGER NOT NULL,
      version TEXT NOT NULL,
      ended_at REAL
    );
    """,
    """
    CREATE TABLE timing (
      id INTEGER PRIMARY KEY,
      unit TEXT NOT NULL,
      kernel TEXT NOT NULL,
      shape TEXT NOT NULL,
      device TEXT NOT NULL,
      artifact_key TEXT NOT NULL,
      benchmark_key TEXT NOT NULL,
      taken_at REAL NOT NULL,
      failure TEXT,
      content TEXT NOT NULL,
      samples BLOB NOT NULL
    );
    CREATE INDEX timing_of_unit ON timing (unit, shape, id);
    CREATE INDEX timing_of_kernel ON timing (kernel, shape, unit, id);
    CREATE INDEX timing_by_key ON timing (benchmark_key);
    CREATE TABLE baseline (
      id INTEGER PRIMARY KEY,
      name TEXT NOT NULL,
      unit TEXT NOT NULL,
      timing INTEGER NOT NULL REFERENCES timing,
      set_at REAL NOT NULL,
      UNIQUE (unit, name, timing)
    );
    CREATE INDEX baseline_timing ON baseline (timing);
    """,
    """
    CREATE TABLE artifact (
      id INTEGER PRIMARY KEY,
      unit TEXT NOT NULL,
      artifact_key TEXT NOT NULL,
      seen_at REAL NOT NULL,
      format INTEGER NOT NULL,
      content TEXT NOT NULL,
      UNIQUE (unit, artifact_key)
    );
    CREATE INDEX artifact_of_unit ON artifact (unit, id);
    """,
    """
    CREATE TABLE imported_file (
      id INTEGER PRIMARY KEY,
      path TEXT NOT NULL UNIQUE,
      format TEXT NOT NULL,
      source TEXT NOT NULL,
      imported_at REAL NOT NULL
    );
    CREATE TABLE imported_timing (
      id INTEGER PRIMARY KEY,
      file INTEGER NOT NULL REFERENCES imported_file,
      for_kernel TEXT NOT NULL,
      sizes TEXT NOT NULL,
      content TEXT NOT NULL
    );
    CREATE INDEX imported_timing_of_file ON imported_timing (file);
    CREATE INDEX imported_timing_of_sizes ON imported_timing (for_kernel, sizes);
    """,
    """
    CREATE TABLE result_files (
      id INTEGER PRIMARY KEY,
      sha256 TEXT NOT NULL UNIQUE,
      content TEXT NOT NULL
    );
    CREATE TABLE result (
      unit TEXT PRIMARY KEY,
      files INTEGER NOT NULL REFERENCES result_files,
      seal BLOB NOT NULL,
      tokens TEXT NOT NULL,
      key TEXT NOT NULL,
      stamp INTEGER NOT NULL,
      finished_at REAL NOT NULL,
      seconds REAL NOT NULL,
      peak_memory_bytes INTEGER NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    DROP TABLE result;
    CREATE TABLE result (
      id INTEGER PRIMARY KEY,
      unit TEXT NOT NULL,
      files INTEGER NOT NULL REFERENCES result_files,
      seal BLOB NOT NULL,
      tokens TEXT NOT NULL,
      key TEXT NOT NULL,
      stamp INTEGER NOT NULL,
      finished_at REAL NOT NULL,
      seconds REAL NOT NULL,
      peak_memory_bytes INTEGER NOT NULL,
      UNIQUE (unit, seal)
    );
    """,
)


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Make the migrations that were not made yet; the connection must be in autocommit mode. Raises sqlite3.Error; the
    migration that fails leaves nothing."""
    for number, script in enumerate(migrations, 1):
        if version_of(connection) >= number:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            # another process may have made it while this one waited
            if version_of(connection) < number:
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. `executescript` would end the transaction."""
    statement = ""
    for piece in script.split(";")[:-1]:
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


BUSY_TIMEOUT_S = 5.0
"""How long one process waits for another's transaction."""

LOG_SIZE_LIMIT_BYTES = 16 * 1024 * 1024
"""The size to which the write-ahead log is cut after it was copied."""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REFUSED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_IN_USE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}

SPACE_NEEDED_BYTES = 256 * 1024
"""If less space is free, a failed write is blamed on it."""

Result = TypeVar("Result")


class HistoryError(CkwatchError):
    """The history cannot be read or written. `no_space` tells a full file system from all else."""

    def __init__(self, message: str, hint: str | None = None, *, no_space: bool = False) -> None:
        super().__init__(message, hint)
        self.no_space = no_space


class DamagedRowError(sqlite3.DatabaseError):
    """A row that this code did not write."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


class HistoryDatabase:
    """The file at `path`; safe to use from several threads, one transaction at a time.

    `notice` says that a damaged file was moved aside.
    """

    def __init__(
        self, path: Path, *, migrations: Sequence[str] = MIGRATIONS, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> None:
        self.path = path
        self.notice: str | None = None
        self._migrations = migrations
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open the file, or create it; does nothing when it is open. Raises HistoryError."""
        with self._lock:
            if self._connection is None:
                self._guarded(self._connected)

    def close(self) -> None:
        """Close it; it may be opened again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()

    def rest(self) -> None:
        """Give back the memory of the pages that were read. Blocks; call from a worker thread."""
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.execute("PRAGMA shrink_memory")

    def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """The result of `work`, which sees one state of the file. Raises HistoryError."""
        return self._transaction("BEGIN", work)

    def write(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """The result of `work`, whose changes are made together or not at all. Raises HistoryError."""
        return self._transaction("BEGIN IMMEDIATE", work)

    def rows(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """The rows of one query. Raises HistoryError."""
        return self.read(lambda connection: connection.execute(query, values).fetchall())

    def parsed(self, query: str, parse: Callable[..., Result], **values: object) -> list[Result]:
        """Rows as `parse` reads them. A row that it raises ValueError or TypeError for damages the file. Raises
        HistoryError."""

        def work(connection: sqlite3.Connection) -> list[Result]:
            try:
                return [parse(*row) for row in connection.execute(query, values)]
            except (ValueError, TypeError) as error:
                raise DamagedRowError(str(error)) from error

        return self.read(work)

    def _transaction(self, begin: str, work: Callable[[sqlite3.Connection], Result]) -> Result:
        def attempt() -> Result:
            connection = self._connected()
            connection.execute(begin)
            try:
                # a newer version may have migrated it while this process had it open
                self._check_version(connection)
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                # some errors have ended the transaction already
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return result

        with self._lock:
            if self._connection is None:
                raise HistoryError(f"the history in {self.path} is not open")
            return self._guarded(attempt)

    def _guarded(self, attempt: Callable[[], Result]) -> Result:
        """The result of `attempt`; tried once more with a new file where the present one is damaged."""
        try:
            return attempt()
        except (sqlite3.Error, OSError) as error:
            if _code(error) not in _DAMAGED:
                raise self._refusal(error) from error
        try:
            self._move_aside()
            return attempt()
        except (sqlite3.Error, OSError) as error:
            raise self._refusal(error) from error

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = self._connect()
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        # a folder that is there already may be anybody's: its mode stays
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.exists() and not self.path.is_file():  # a FIFO would block who reads it
            raise HistoryError(f"the history {self.path} is not a regular file", "Remove it.")
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        # text that is none raises a ValueError then, which `DamagedRowError` stands for
        connection.text_factory = bytes.decode
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._check_version(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_SIZE_LIMIT_BYTES}")
        migrate(connection, self._migrations)

    def _check_version(self, connection: sqlite3.Connection) -> None:
        if version_of(connection) > len(self._migrations):
            raise HistoryError(
                f"the history in {self.path} was written by a newer version of ckwatch",
                "Use that version, or move the file away to begin a new history.",
            )

    def _move_aside(self) -> None:
        self.close()
        number = 1
        while os.path.lexists(aside := self.path.with_name(f"{self.path.name}.damaged-{number}")):
            number += 1
        with suppress(FileNotFoundError):
            self.path.rename(aside)
        # closing has removed them, unless another process has the file open
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.notice = f"the history was damaged: it is in {aside} now, and a new one was begun"

    def _is_full(self, code: int | None) -> bool:
        """Return True if an input/output error comes from a full file system: SQLite reports it for some writes
        only."""
        if code not in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            return False
        try:
            found = os.statvfs(self.path.parent)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize < SPACE_NEEDED_BYTES

    def _refusal(self, error: sqlite3.Error | OSError) -> HistoryError:
        place = self.path
        code = _code(error)
        if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) in _NO_SPACE or self._is_full(code):
            return HistoryError(f"no space left for the history in {place}", "Free some space.", no_space=True)
        if code in _REFUSED:
            return HistoryError(
                f"the history in {place} cannot be written: {error}", "Look at the rights of its folder."
            )
        if code in _IN_USE:
            return HistoryError(f"the history in {place} is in use by another process", "Try again.")
        if code in _DAMAGED:
            return HistoryError(f"the history in {place} is damaged", "Start the daemon: it sees to the file.")
        why = error.strerror if isinstance(error, OSError) else None
        return HistoryError(f"the history in {place} cannot be used: {why or error}")


def _code(error: sqlite3.Error | OSError) -> int | None:
    """SQLite's primary result code."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if code is not None else None


def read_name(stored: str | bytes) -> str:
    """The name that `stored_name` stands for."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def stored_name(unit: str) -> str | bytes:
    """A unit's name as it is stored: as text where it is text.

    A kernel may be called after a file whose name is not UTF-8; SQLite takes only bytes then.
    """
    try:
        unit.encode()
    except UnicodeEncodeError:
        return unit.encode("utf-8", "surrogatepass")
    return unit


def stored_json(record: Any) -> str:
    """A dataclass as JSON. Names of files that are not UTF-8 are in other columns only."""
    text = json.dumps(asdict(record), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


@cache
def adapter(kind: type) -> TypeAdapter[Any]:
    """Reads what `stored_json` wrote; pydantic is loaded when a record is read."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
