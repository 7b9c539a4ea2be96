"""The history of runs: the last result of each unit, the runs before it, and when daemons started and ended."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any

from ckwatch.bench.history.artifacts import Artifacts
from ckwatch.bench.history.database import (
    BUSY_TIMEOUT_S,
    MIGRATIONS,
    DamagedRowError,
    HistoryDatabase,
    read_name,
    stored_name,
)
from ckwatch.bench.history.imported import ImportedTimings
from ckwatch.bench.history.results import Results
from ckwatch.bench.history.timings import Timings
from ckwatch.model.lazy_dataclass import dataclass

ReadSet = Mapping[str, str]
"""Paths of the templates that a unit read, with the SHA-256 of their contents."""


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """The result of a unit.

    `unit` is `KERNEL/INSTANCE@ARCH`; `token_key` and `key` are of what was rendered and compiled, `key` empty where it
    never was. `outcome` is built, failed or faulted. `finished_at` is in Unix seconds, for display; `seconds` and
    `peak_memory_bytes` are what the compilers took, and `from_store` is true where they did not have to run.
    `cause` says why it ran: what happened and when (Unix seconds), newest first.
    """

    unit: str
    token_key: str
    key: str
    outcome: str
    finished_at: float
    seconds: float
    peak_memory_bytes: int
    from_store: bool
    reads: ReadSet
    cause: tuple[tuple[str, float], ...]


RUN_COLUMNS = "token_key, key, outcome, finished_at, seconds, peak_memory_bytes, from_store, cause"
"""The columns of a run that are a record's own."""


def values_of(record: UnitRecord) -> tuple[Any, ...]:
    """The values of `COLUMNS`."""
    return (
        *(record.token_key, record.key, record.outcome, record.finished_at, record.seconds),
        *(record.peak_memory_bytes, record.from_store, json.dumps(record.cause)),
    )


def record_of(unit: str | bytes, reads: ReadSet, values: tuple[Any, ...]) -> UnitRecord:
    """The record of a unit, as `stored_name` gives it, from the values of `COLUMNS`."""
    token_key, key, outcome, finished_at, seconds, peak_memory_bytes, from_store, cause = values
    return UnitRecord(
        unit=read_name(unit),
        token_key=intern(token_key),
        key=key,
        outcome=outcome,
        finished_at=finished_at,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes,
        from_store=bool(from_store),
        reads=reads,
        cause=tuple((intern(what), at) for what, at in json.loads(cause)),
    )


def stored_reads(reads: ReadSet) -> tuple[str, str]:
    """The hash by which equal read sets are one, and the set as it is stored."""
    text = json.dumps(dict(sorted(reads.items())), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest(), text


STARTS_KEPT = 100

_LATEST = f"""
SELECT unit.name, run.read_set, {RUN_COLUMNS} FROM unit
JOIN run ON run.id = (SELECT max(id) FROM run AS any_run WHERE any_run.unit = unit.id)
WHERE unit.present ORDER BY unit.id
"""  # noqa: S608  # put together from constants

_RUNS = f"""
SELECT unit.name, run.read_set, {RUN_COLUMNS} FROM unit JOIN run ON run.unit = unit.id
WHERE unit.name = ? ORDER BY run.id DESC LIMIT ?
"""  # noqa: S608

_ADD_RUN = f"""
INSERT INTO run (unit, read_set, {RUN_COLUMNS}) VALUES (
  (SELECT id FROM unit WHERE name = ?), (SELECT id FROM read_set WHERE sha256 = ?), ?, ?, ?, ?, ?, ?, ?, ?
)
"""  # noqa: S608

_OLD_RUNS = """
DELETE FROM run WHERE unit = :unit
AND id <= (SELECT id FROM run WHERE unit = :unit ORDER BY id DESC LIMIT 1 OFFSET :kept)
"""


class History(HistoryDatabase):
    """The history in a file, for the daemon that writes it.

    Every method but `close` raises HistoryError where the file cannot be used; nothing is changed then. A damaged file
    is moved aside and a new one begun, which `notice` then says. Safe to use from several threads.
    """

    def __init__(
        self, path: Path, *, migrations: Sequence[str] = MIGRATIONS, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> None:
        super().__init__(path, migrations=migrations, busy_timeout_s=busy_timeout_s)
        self.timings = Timings(self)
        self.artifacts = Artifacts(self)
        """Which artifacts units had."""
        self.results = Results(self)
        """The results that the next daemon takes over."""
        self.imported = ImportedTimings(self)
        """Timings that others measured."""

    def units(self) -> dict[str, UnitRecord]:
        """The latest record of each unit that was not removed."""
        return self.read(lambda connection: {one.unit: one for one in _records(connection, _LATEST, ())})

    def runs(self, unit: str, limit: int = 50) -> list[UnitRecord]:
        """The last runs of a unit, newest first; those of a removed unit too."""
        return self.read(lambda connection: _records(connection, _RUNS, (stored_name(unit), limit)))

    def record(self, records: Sequence[UnitRecord], removed: Sequence[str] = ()) -> None:
        """Add runs, each the latest of its unit then, and remove units that are no more; all of it or nothing."""
        hashes: dict[tuple[tuple[str, str], ...], str] = {}
        sets: dict[str, str] = {}
        rows = []
        for record in records:
            reads = tuple(record.reads.items())
            if reads not in hashes:
                hashes[reads], text = stored_reads(record.reads)
                sets[hashes[reads]] = text
            rows.append((stored_name(record.unit), hashes[reads], *values_of(record)))

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE unit SET present = 0 WHERE name = ?", [(stored_name(name),) for name in removed]
            )
            connection.executemany("INSERT OR IGNORE INTO read_set (sha256, reads) VALUES (?, ?)", sets.items())
            connection.executemany(
                "INSERT INTO unit (name, present) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET present = 1",
                [(row[0],) for row in rows],
            )
            connection.executemany(_ADD_RUN, rows)

        if rows or removed:
            self.write(work)

    def note_start(self, at: float, pid: int, version: str) -> bool:
        """Note that a daemon starts at `at` (Unix seconds); False if the one before it did not end by `note_end`."""

        def work(connection: sqlite3.Connection) -> bool:
            before = connection.execute("SELECT ended_at FROM daemon ORDER BY id DESC LIMIT 1").fetchone()
            connection.execute("INSERT INTO daemon (started_at, pid, version) VALUES (?, ?, ?)", (at, pid, version))
            connection.execute("DELETE FROM daemon WHERE id <= (SELECT max(id) FROM daemon) - ?", (STARTS_KEPT,))
            return before is None or before[0] is not None

        return self.write(work)

    def note_end(self, at: float) -> None:
        """Note that the daemon that started last ends in good order."""
        self.write(
            lambda connection: connection.execute(
                "UPDATE daemon SET ended_at = ? WHERE id = (SELECT max(id) FROM daemon)", (at,)
            )
        )

    def prune(self, keep_runs_per_unit: int = 200) -> None:
        """Drop all but the last runs of each unit.

        Of timings the last ones of each unit, shape and device are kept, and baselines; of artifacts the last ones of
        each unit.
        """
        kept = max(keep_runs_per_unit, 1)

        def work(connection: sqlite3.Connection) -> None:
            many = connection.execute("SELECT unit FROM run GROUP BY unit HAVING count(*) > ?", (kept,)).fetchall()
            connection.executemany(_OLD_RUNS, [{"unit": unit, "kept": kept} for (unit,) in many])
            connection.execute("DELETE FROM read_set WHERE id NOT IN (SELECT read_set FROM run)")

        self.write(work)
        self.timings.prune()
        self.artifacts.prune()
        self.results.prune()


def _records(connection: sqlite3.Connection, query: str, values: tuple[object, ...]) -> list[UnitRecord]:
    """The records of the rows that `query` gives: name, read set, `COLUMNS`."""
    try:
        rows = connection.execute(query, values).fetchall()
        sets: dict[int, ReadSet] = {}
        for number in {row[1] for row in rows}:
            (text,) = connection.execute("SELECT reads FROM read_set WHERE id = ?", (number,)).fetchone()
            sets[number] = json.loads(text)
        return [record_of(row[0], sets[row[1]], row[2:]) for row in rows]
    except (ValueError, TypeError) as error:
        raise DamagedRowError(str(error)) from error
