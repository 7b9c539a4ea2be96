"""What tuning runs of a workspace found, in an SQLite file: a run that was killed at any moment goes on from it.

A row is an artifact on a problem on one kind of device, and never changes what it is about: results of an edited
template belong to other artifacts. It is written as soon as a result is there. The file is a write-ahead log, which a
kill does not damage.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from ckwatch.tuning.results import EvaluationStatus, ShapeResult

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
CREATE TABLE IF NOT EXISTS run (
  name TEXT PRIMARY KEY,
  seconds REAL NOT NULL,
  ended TEXT NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """A result as it was written. `artifact` is what the instance compiled to; of a compile that was given up, a digest
    of its text. `problem` are sizes and runtime arguments as JSON, empty where the result holds for all."""

    parameters: Mapping[str, ParameterValue]
    artifact: str
    problem: str
    result: ShapeResult
    taken_at: float = 0.0


class TuningJournal:
    """The file. Every method is for a thread, one at a time, and raises CkwatchError where it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def rows(self, kernel: str, device: str) -> list[JournalRow]:
        """All that is known of a kernel on a kind of device, in the order in which it was found."""
        found = self._all(
            "SELECT parameters, artifact, problem, status, median_us, low_us, high_us, reason, taken_at FROM result "
            "WHERE kernel = ? AND device = ? ORDER BY taken_at",
            (kernel, device),
        )
        rows = []
        for parameters, artifact, problem, status, median, low, high, reason, at in found:
            result = ShapeResult(
                shape="",
                status=EvaluationStatus(status),
                median_us=median,
                low_us=low,
                high_us=high,
                reason=reason,
            )
            rows.append(JournalRow(_parameters_of(parameters), artifact, problem, result, at))
        return rows

    def add(self, kernel: str, device: str, row: JournalRow) -> None:
        """Keep a result; it is safe when this returns."""
        result = row.result
        values = (kernel, parameters_text(row.parameters), row.artifact, row.problem, device, result.status.value)
        figures = (result.median_us, result.low_us, result.high_us, result.reason, row.taken_at or time.time())
        self._change("INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, *figures))

    def forget(self, kernel: str) -> None:
        """Drop all results of a kernel."""
        self._change("DELETE FROM result WHERE kernel = ?", (kernel,))

    def seconds(self, run: str) -> float:
        """How long a run has gone on that has not ended; 0 for one that has, or is not known."""
        found = self._all("SELECT seconds FROM run WHERE name = ? AND ended = ''", (run,))
        return float(found[0][0]) if found else 0.0

    def note(self, run: str, seconds: float, ended: str = "") -> None:
        """Keep how long a run has gone on, and why it has ended."""
        self._change("INSERT OR REPLACE INTO run VALUES (?, ?, ?)", (run, seconds, ended))

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _all(self, query: str, values: tuple[object, ...]) -> list[Any]:
        try:
            with closing(self._opened().execute(query, values)) as cursor:
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _change(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._opened().execute(statement, values)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise self._unusable(error) from error
            connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)
            self._connection = connection
        return self._connection

    def _unusable(self, error: Exception) -> CkwatchError:
        return CkwatchError(
            f"the results of tuning cannot be kept: {self.path}: {error}",
            "remove the file if it is damaged: what was tuned is then searched again",
        )


def parameters_text(parameters: Mapping[str, ParameterValue]) -> str:
    """Parameters as JSON, equal for equal ones."""
    return json.dumps(parameters, sort_keys=True)


def _parameters_of(text: str) -> dict[str, ParameterValue]:
    return {name: _value(value) for name, value in json.loads(text).items()}


def _value(value: ParameterValue | list[ParameterValue]) -> ParameterValue:
    if isinstance(value, list):
        return cast("ParameterValue", tuple(_value(one) for one in value))
    return value
