"""The history of artifacts: which ones each unit had, in order, with the figures of their code objects.

A daemon that starts shows the last one without analyzing anything, and compares it with the one before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ckwatch.bench.history.database import HistoryDatabase, stored_name

KEPT = 20
"""Artifacts of each unit that are remembered."""

_ADD = "INSERT INTO artifact (unit, artifact_key, seen_at, format, content) VALUES (?, ?, ?, ?, ?)"

_OTHERS = "SELECT artifact_key FROM artifact WHERE unit = ? AND artifact_key != ? ORDER BY id DESC"

_LATEST = """
SELECT unit, artifact_key, content FROM artifact
WHERE format = ? AND id IN (SELECT max(id) FROM artifact GROUP BY unit)
"""

_PRUNE = """
DELETE FROM artifact WHERE id IN (
  SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY unit ORDER BY id DESC) AS place FROM artifact)
  WHERE place > ?
)
"""


class Artifacts:
    """The artifacts in a history's file, by `CompileFacts.artifact`; `History.artifacts` shares its connection.

    Every method raises HistoryError where the file cannot be used. Safe to use from several threads.
    """

    def __init__(self, database: HistoryDatabase) -> None:
        self._database = database

    def add(self, unit: str, artifact: str, at: float, content: str, *, form: int) -> None:
        """The unit has this artifact now, whose figures are `content`, written in the format number `form`.

        `at`: the time, in Unix seconds.
        """
        stored = stored_name(unit)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM artifact WHERE unit = ? AND artifact_key = ?", (stored, artifact))
            connection.execute(_ADD, (stored, artifact, at, form, content))

        self._database.write(work)

    def before(self, unit: str, artifact: str) -> str | None:
        """The unit's most recent artifact that differs from this one."""
        return next(iter(self.others(unit, artifact)), None)

    def others(self, unit: str, artifact: str) -> list[str]:
        """The unit's artifacts that differ from this one, the most recent first."""
        return [str(key) for (key,) in self._database.rows(_OTHERS, (stored_name(unit), artifact))]

    def latest(self, units: Iterable[str], *, form: int) -> dict[str, tuple[str, str]]:
        """Of those units that have one in this format: the last artifact and its content."""
        wanted = {stored_name(unit): unit for unit in units}
        rows = self._database.rows(_LATEST, (form,))
        return {wanted[name]: (artifact, content) for name, artifact, content in rows if name in wanted}

    def prune(self, keep: int = KEPT) -> None:
        """Drop all but the last `keep` of each unit."""
        self._database.write(lambda connection: connection.execute(_PRUNE, (max(keep, 1),)))
