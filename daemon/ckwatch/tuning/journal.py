"""The results of a workspace's tuning runs in an SQLite file: a run that was killed at any moment resumes from it, and
other processes see it.

A result is of an artifact on a problem on one kind of device, and never changes what it is about: results of an edited
template belong to other artifacts. It is written as soon as it is there. Beside the results stand the runs, each with
the points that it has evaluated. A run holds the lock on a file beside this one as long as it goes on. The file is a
write-ahead log, which a kill does not damage.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from ckwatch.system.file_locks import is_locked, try_lock, unlock
from ckwatch.tuning.results import (
    EvaluatedPoint,
    EvaluationStatus,
    KnownResult,
    RunBest,
    ShapeResult,
    TuningRecord,
    TuningRun,
)
from ckwatch.tuning.space import GoneValue, RefusedShare, SpaceCoverage
from ckwatch.wire.endpoint import endpoint_of

FILE_NAME = "tuning.sqlite"

_TABLES = """
CREATE TABLE IF NOT EXISTS result (
  kernel TEXT NOT NULL,
  parameters TEXT NOT NULL,
  artifact TEXT NOT NULL,
  problem TEXT NOT NULL,
  device TEXT NOT NULL,
  status TEXT NOT NULL,
  median_us REAL,
  low_us REAL,
  high_us REAL,
  reason TEXT NOT NULL,
  taken_at REAL NOT NULL,
  PRIMARY KEY (artifact, problem, device, parameters)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS result_of_kernel ON result (kernel, device);
CREATE TABLE IF NOT EXISTS tuning_run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  kernel TEXT NOT NULL,
  facts TEXT NOT NULL,
  coverage TEXT NOT NULL,
  pid INTEGER NOT NULL,
  began_at REAL NOT NULL,
  last_active REAL NOT NULL,
  seconds REAL NOT NULL,
  ended TEXT NOT NULL,
  error TEXT NOT NULL,
  measured INTEGER NOT NULL,
  points INTEGER NOT NULL,
  best TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tuning_point (
  run INTEGER NOT NULL,
  number INTEGER NOT NULL,
  seconds REAL NOT NULL,
  instance TEXT NOT NULL,
  parameters TEXT NOT NULL,
  device TEXT NOT NULL,
  results TEXT NOT NULL,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
"""
"""Earlier versions have a table `run` of names, seconds and ends, which they still find."""

_FACTS = (
    *("arch", "device", "devices", "problems", "resumable"),
    *("strategy", "seed", "budget_s", "measurements", "patience", "racing", "jobs"),
)
"""The fields of a `TuningRun` in `facts`, as JSON."""

_PROGRESS = (
    "UPDATE tuning_run SET last_active = ?, seconds = ?, ended = ?, error = ?, measured = ?, points = ?, best = ?"
    " WHERE id = ?"
)
_RUN = "SELECT id, kernel, facts, began_at, last_active, seconds, ended, error, measured, points, best FROM tuning_run"

RUNS_KEPT = 200
"""Older runs are dropped when another begins; their results stay."""


class RunActivity(NamedTuple):
    """The part of a run that changes while it goes on, and when it ends. `pid`: of the process that began it last."""

    last_active: float
    ended: str
    pid: int
    running: bool


class TuningJournal:
    """The file. Every method blocks, and raises CkwatchError where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._turn = threading.RLock()
        self._held: dict[int, int] = {}
        self._file = 0

    def rows(self, kernel: str, device: str) -> list[KnownResult]:
        """All that is known of a kernel on a kind of device, in the order in which it was found."""
        found = self._all(
            "SELECT parameters, artifact, problem, taken_at, '' AS shape, status, median_us, low_us, high_us, reason "
            "FROM result WHERE kernel = ? AND device = ? ORDER BY taken_at",
            (kernel, device),
        )
        rows = []
        for row in found:
            parameters, artifact, problem, taken_at = (row.pop(name) for name in list(row)[:4])
            rows.append(KnownResult(_parameters_of(parameters), artifact, problem, _result_of(row), taken_at))
        return rows

    def add(self, kernel: str, device: str, row: KnownResult) -> None:
        """Keep a result; it is safe when this returns."""
        result = row.result
        values = (kernel, parameters_text(row.parameters), row.artifact, row.problem, device, result.status.value)
        figures = (result.median_us, result.low_us, result.high_us, result.reason, row.taken_at or time.time())
        self._change("INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, *figures))

    def forget(self, kernel: str) -> None:
        """Drop all results of a kernel."""
        self._change("DELETE FROM result WHERE kernel = ?", (kernel,))

    def begin(
        self, name: str, run: TuningRun, coverage: SpaceCoverage, *, anew: bool
    ) -> tuple[TuningRun, list[EvaluatedPoint]]:
        """Begin a run, or, unless `anew`, go on with the last one of this name if it was interrupted; with what it had.

        Equal names search the same space in the same order. The run is shown as running until `leave`, or until the
        process ends.
        """
        facts = json.dumps({fact: getattr(run, fact) for fact in _FACTS})
        covered = json.dumps(asdict(coverage))
        with self._transaction() as database:
            last = "SELECT id FROM tuning_run WHERE name = ? AND ended = '' ORDER BY id DESC LIMIT 1"
            found = None if anew else database.execute(last, (name,)).fetchone()
            if found is not None and self._hold(found[0]):
                number = int(found[0])
                statement = "UPDATE tuning_run SET facts = ?, coverage = ?, pid = ?, last_active = ? WHERE id = ?"
                database.execute(statement, (facts, covered, os.getpid(), run.last_active, number))
            else:
                statement = "INSERT INTO tuning_run VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                identity = (name, run.kernel, facts, covered, os.getpid())
                progress = (run.began_at, run.last_active, 0.0, "", "", 0, 0, "{}")
                number = int(database.execute(statement, (*identity, *progress)).lastrowid or 0)
                self._hold(number)
                self._drop_runs(database, number - RUNS_KEPT)
        return self.run(number), self._points(number)

    def keep(self, run: TuningRun, points: Sequence[EvaluatedPoint]) -> None:
        """Keep how far a run is, and points that are new or have new results; it is all safe when this returns."""
        with self._transaction() as database:
            self._keep(database, run, points)

    def leave(self, run: TuningRun, points: Sequence[EvaluatedPoint], outdated: Sequence[int]) -> None:
        """Keep the last of a run, without points that are `outdated`, by their numbers; it does not go on."""
        try:
            with self._transaction() as database:
                self._keep(database, run, points)
                statement = "DELETE FROM tuning_point WHERE run = ? AND number = ?"
                database.executemany(statement, [(run.id, number) for number in outdated])
        finally:
            unlock(self._lock_of(run.id), self._held.pop(run.id))

    def runs(self, kernel: str | None = None) -> list[TuningRun]:
        """All runs, or those of a kernel, newest first."""
        where, values = ("", ()) if kernel is None else (" WHERE kernel = ?", (kernel,))
        return [self._run_of(row) for row in self._all(f"{_RUN}{where} ORDER BY id DESC", values)]

    def run(self, number: int) -> TuningRun:
        """A run. Raises CkwatchError for an unknown number."""
        found = self._all(f"{_RUN} WHERE id = ?", (number,))
        if not found:
            raise unknown_run(number)
        return self._run_of(found[0])

    def record(self, number: int) -> TuningRecord:
        """All of a run. Raises CkwatchError for an unknown number."""
        with self._transaction():  # of one moment
            run = self.run(number)
            points = self._points(number)
            covered = json.loads(self._all("SELECT coverage FROM tuning_run WHERE id = ?", (number,))[0]["coverage"])
        refused = tuple(RefusedShare(**one) for one in covered.pop("refused"))
        gone = tuple(GoneValue(**(one | {"value": _value(one["value"])})) for one in covered.pop("gone"))
        coverage = SpaceCoverage(**covered, refused=refused, gone=gone)
        return TuningRecord(run=run, points=tuple(points), coverage=coverage)

    def activity(self) -> dict[int, RunActivity]:
        """Return the changes of runs, by their numbers; nothing without a file, which this does not create."""
        if not self._is_in_place():
            self.close()
        if not self.path.exists():
            return {}
        rows = self._all("SELECT id, last_active, ended, pid FROM tuning_run", ())
        return {
            (number := row.pop("id")): RunActivity(**row, running=self._is_running(number, row["ended"]))
            for row in rows
        }

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _keep(self, database: sqlite3.Connection, run: TuningRun, points: Sequence[EvaluatedPoint]) -> None:
        database.executemany(
            "INSERT OR REPLACE INTO tuning_point VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(run.id, point.order, point.seconds, point.instance, json.dumps(point.parameters), point.device),
                    json.dumps([asdict(result) for result in point.results]),
                )
                for point in points
            ],
        )
        best = json.dumps({shape: asdict(found) for shape, found in run.best.items()})
        progress = (run.last_active, run.seconds, run.ended, run.error, run.measured, run.points, best)
        database.execute(_PROGRESS, (*progress, run.id))

    def _points(self, number: int) -> list[EvaluatedPoint]:
        query = (
            'SELECT number AS "order", seconds, instance, parameters, device, results FROM tuning_point '
            "WHERE run = ? ORDER BY number"
        )
        return [
            EvaluatedPoint(
                **{
                    **row,
                    "parameters": _parameters_of(row["parameters"]),
                    "results": tuple(map(_result_of, json.loads(row["results"]))),
                }
            )
            for row in self._all(query, (number,))
        ]

    def _run_of(self, row: dict[str, Any]) -> TuningRun:
        known, best = json.loads(row.pop("facts")), json.loads(row.pop("best"))
        return TuningRun(
            **row,
            running=self._is_running(row["id"], row["ended"]),
            best={shape: RunBest(**found) for shape, found in best.items()},
            **{fact: known[fact] for fact in _FACTS} | {"devices": tuple(known["devices"])},
        )

    def _lock_of(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.stem}-{number}.lock")

    def _hold(self, number: int) -> bool:
        """Return True if the run is this process's now, and no other's."""
        path = self._lock_of(number)
        with self._usable():
            while (descriptor := try_lock(path)) is None:
                if is_locked(path):  # else somebody only looked
                    return False
        self._held[number] = descriptor
        return True

    def _is_running(self, number: int, ended: str) -> bool:
        with self._usable():
            return not ended and is_locked(self._lock_of(number))

    def _drop_runs(self, database: sqlite3.Connection, last: int) -> None:
        for (number,) in database.execute("SELECT id FROM tuning_run WHERE id <= ?", (last,)).fetchall():
            self._lock_of(number).unlink(missing_ok=True)
        database.execute("DELETE FROM tuning_point WHERE run <= ?", (last,))
        database.execute("DELETE FROM tuning_run WHERE id <= ?", (last,))

    def _is_in_place(self) -> bool:
        """Return True if the open file still has the name: it may have been removed as damaged."""
        try:
            return self._file == self.path.stat().st_ino
        except OSError:
            return False

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._turn, self._usable():
            database = self._opened()
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def _all(self, query: str, values: tuple[object, ...]) -> list[dict[str, Any]]:
        with self._usable(), self._turn, closing(self._opened().execute(query, values)) as cursor:
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _change(self, statement: str, values: tuple[object, ...]) -> None:
        with self._usable(), self._turn:
            self._opened().execute(statement, values)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)
            self._file = self.path.stat().st_ino
            self._connection = connection
        return self._connection

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise CkwatchError(
                f"the results of tuning cannot be kept: {self.path}: {error}",
                "remove the file if it is damaged: what was tuned is then searched again",
            ) from error


def journal_path(root: Path) -> Path:
    """Return where the runs of a workspace are kept. Blocks."""
    return endpoint_of(root).log.with_name(FILE_NAME)


def runs_of(root: Path, kernel: str | None) -> list[TuningRun]:
    """Return the runs of a workspace, or those of one kernel, newest first. Blocks; raises CkwatchError."""
    with closing(TuningJournal(journal_path(root))) as journal:
        return journal.runs(kernel) if journal.path.exists() else []


def record_of(root: Path, number: int) -> TuningRecord:
    """Return all of a run. Blocks; raises CkwatchError, also for an unknown number."""
    with closing(TuningJournal(journal_path(root))) as journal:
        if not journal.path.exists():
            raise unknown_run(number)
        return journal.record(number)


def unknown_run(number: int) -> CkwatchError:
    """Return the error for an unknown run."""
    return CkwatchError(f"there is no tuning run {number}", "`tuning_runs` has those that there are")


def parameters_text(parameters: Mapping[str, ParameterValue]) -> str:
    """Parameters as JSON, equal for equal ones."""
    return json.dumps(parameters, sort_keys=True)


def _result_of(fields: Mapping[str, Any]) -> ShapeResult:
    return ShapeResult(**{**fields, "status": EvaluationStatus(fields["status"])})


def _parameters_of(text: str) -> dict[str, ParameterValue]:
    return {name: _value(value) for name, value in json.loads(text).items()}


def _value(value: ParameterValue | list[ParameterValue]) -> ParameterValue:
    if isinstance(value, list):
        return cast("ParameterValue", tuple(_value(one) for one in value))
    return value
