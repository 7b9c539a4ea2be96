"""Results of units that remain valid as long as all their inputs are unchanged.

A row holds a built unit's result without messages; of each unit the last few are kept, so that a branch that is checked
out again is known. Thousands of units depend on the same few sets of files: each set is stored once, under its hash. A
row is sealed over all that it says and over the unit's input: one of another input, of another version, or a damaged
one, is none.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from sys import intern
from typing import Any

from ckwatch.bench.history.database import HistoryDatabase, read_name, stored_name
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The files that a result depends on: templates that were read with their SHA-256, paths at which none was found,
    the name of the set of headers, and the names of the products by kind and of all files in the store's entry. `name`
    is the SHA-256 of all this."""

    reads: Mapping[str, str]
    missed: tuple[str, ...]
    headers: str
    products: Mapping[str, str]
    entry: tuple[str, ...]
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _digest(self.text))

    @property
    def text(self) -> str:
        reads, products = dict(sorted(self.reads.items())), dict(self.products)
        return json.dumps([reads, sorted(self.missed), self.headers, products, self.entry], separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A unit's result. `tokens` and `key` are of what was rendered and compiled, `stamp` of the files of the store's
    entry; `finished_at` is in Unix seconds, `seconds` and `peak_memory_bytes` are what the compilers took."""

    unit: str
    files: ResultFiles
    tokens: str
    key: str
    stamp: int
    finished_at: float
    seconds: float
    peak_memory_bytes: int
    seal: bytes = b""

    def sealed(self, unit_input: bytes) -> StoredResult:
        """The result with its seal: `unit_input` is what went into the unit's render and compile."""
        return replace(self, seal=self._seal(unit_input))

    def has_input(self, unit_input: bytes) -> bool:
        """Return True if it is the undamaged result of this input."""
        return self.seal == self._seal(unit_input)

    def _seal(self, unit_input: bytes) -> bytes:
        numbers = (self.stamp, self.finished_at, self.seconds, self.peak_memory_bytes)
        text = repr((self.unit, self.files.name, self.tokens, self.key, numbers))
        return hashlib.sha256(unit_input + text.encode("utf-8", "surrogatepass")).digest()


KEPT = 4
"""Results of a unit."""

_ADD = """
INSERT OR REPLACE INTO result (unit, files, seal, tokens, key, stamp, finished_at, seconds, peak_memory_bytes)
VALUES (?, (SELECT id FROM result_files WHERE sha256 = ?), ?, ?, ?, ?, ?, ?, ?)
"""

_ALL = """
SELECT unit, files, seal, tokens, key, stamp, finished_at, seconds, peak_memory_bytes FROM result ORDER BY id DESC
"""

_DROP_OLD = """
DELETE FROM result
WHERE unit = ?1 AND id NOT IN (SELECT id FROM result WHERE unit = ?1 ORDER BY id DESC LIMIT ?2)
"""


class Results:
    """The results in a history's file; `History.results` shares its connection.

    Every method raises HistoryError where the file cannot be used. Safe to use from several threads.
    """

    def __init__(self, database: HistoryDatabase) -> None:
        self._database = database

    def put(self, results: Sequence[StoredResult]) -> None:
        """Each is the last of its unit."""
        files = {one.files.name: one.files for one in results}
        rows = [
            (
                *(stored_name(one.unit), one.files.name, one.seal, one.tokens, one.key, one.stamp),
                *(one.finished_at, one.seconds, one.peak_memory_bytes),
            )
            for one in results
        ]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT OR IGNORE INTO result_files (sha256, content) VALUES (?, ?)",
                [(name, one.text) for name, one in files.items()],
            )
            connection.executemany(_ADD, rows)
            connection.executemany(_DROP_OLD, {(row[0], KEPT) for row in rows})

        if rows:
            self._database.write(work)

    def any(self) -> bool:
        return bool(self._database.rows("SELECT 1 FROM result LIMIT 1"))

    def all(self) -> dict[str, list[StoredResult]]:
        """Those of all units that have one, the newest first; a set of files that is damaged is none."""

        def work(connection: sqlite3.Connection) -> tuple[list[Any], list[Any]]:
            files = connection.execute("SELECT id, sha256, content FROM result_files").fetchall()
            return files, connection.execute(_ALL).fetchall()

        stored, rows = self._database.read(work)
        files = {number: one for number, name, text in stored if (one := _files_of(name, text)) is not None}
        found: dict[str, list[StoredResult]] = {}
        for unit, number, seal, tokens, key, stamp, finished_at, seconds, memory in rows:
            if number in files:
                name = read_name(unit)
                values = (key, stamp, finished_at, seconds, memory)
                result = StoredResult(name, files[number], intern(tokens), *values, seal=seal)
                found.setdefault(name, []).append(result)
        return found

    def prune(self) -> None:
        """Drop those of units that are no more."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM result WHERE unit NOT IN (SELECT name FROM unit WHERE present)")
            connection.execute("DELETE FROM result_files WHERE id NOT IN (SELECT files FROM result)")

        self._database.write(work)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _files_of(name: str, text: str) -> ResultFiles | None:
    """The files of a stored text; None where it is damaged."""
    if _digest(text) != name:
        return None
    reads, missed, headers, products, entry = json.loads(text)
    reads = {intern(path): intern(digest) for path, digest in reads.items()}
    return ResultFiles(reads, tuple(map(intern, missed)), headers, products, tuple(entry))
