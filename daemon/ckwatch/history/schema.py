"""The tables of the history, as the migrations that make them.

`PRAGMA user_version` is the number of migrations that were made. A migration is one transaction that also sets that
number: a daemon that is killed leaves the old tables or the new ones. What was released is never edited, only added to.

A unit's latest result is its newest run; a unit that is `present` no more keeps its runs. Thousands of units read the
same few sets of templates: each set is stored once, under its hash.

A timing's `content` is its record as JSON, and `samples` holds the raw samples, which would be most of it; the other
columns are there to find it. `baseline` names timings that are to be compared with: those that a unit had on its shapes
when it was set.

An `artifact` of a unit has as its `content` what its code object tells, as JSON in a `format` of its own; the newest
row of a unit is the artifact that it had last.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

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
)


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations were made."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Make the migrations that were not made yet; the connection must be in autocommit mode.

    Raises sqlite3.Error; the migration that fails leaves nothing.
    """
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
