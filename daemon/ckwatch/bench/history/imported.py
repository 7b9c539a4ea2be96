"""Timings that others measured, by the file that they were read from; kept apart from the timings taken here."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ckwatch.bench.history.database import HistoryDatabase, adapter, read_name, stored_json, stored_name
from ckwatch.bench.imports.matching import sizes_key
from ckwatch.bench.imports.records import FormatName, ImportedTiming, ImportedTimingsFile

_ROW = "path, format, source, imported_at, content"
_FROM = f"SELECT {_ROW} FROM imported_timing JOIN imported_file ON imported_file.id = file"  # noqa: S608  # put together from constants
_ABOUT = f"""
{_FROM} WHERE for_kernel = :kernel OR for_kernel = '' AND sizes IN (SELECT value FROM json_each(:sizes))
ORDER BY imported_timing.id
"""  # noqa: S608
_FILES = """
SELECT path, format, source, imported_at, count(imported_timing.id) FROM imported_file
LEFT JOIN imported_timing ON imported_file.id = file GROUP BY imported_file.id ORDER BY imported_at DESC, path
"""
_REMOVE = "DELETE FROM imported_timing WHERE file = (SELECT id FROM imported_file WHERE path = ?)"


class ImportedTimings:
    """The imported timings in a history's file; `History.imported` shares the history's own connection to it.

    Every method raises HistoryError where the file cannot be used; nothing is changed then. Safe to use from several
    threads.
    """

    def __init__(self, database: HistoryDatabase) -> None:
        self._database = database

    def replace(self, source: ImportedTimingsFile, records: Sequence[ImportedTiming]) -> None:
        """Let a file have these timings, instead of those that it had."""
        path = stored_name(source.path)
        rows = [(stored_name(one.for_kernel), sizes_key(one.sizes), stored_json(one)) for one in records]

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_REMOVE, (path,))
            connection.execute("DELETE FROM imported_file WHERE path = ?", (path,))
            added = connection.execute(
                "INSERT INTO imported_file (path, format, source, imported_at) VALUES (?, ?, ?, ?)",
                (path, source.format, source.source, source.imported_at),
            )
            connection.executemany(
                "INSERT INTO imported_timing (file, for_kernel, sizes, content) VALUES (?, ?, ?, ?)",
                [(added.lastrowid, *row) for row in rows],
            )

        self._database.write(work)

    def remove(self, path: str) -> bool:
        """Drop a file's timings; whether there was such a file."""
        stored = stored_name(path)

        def work(connection: sqlite3.Connection) -> bool:
            connection.execute(_REMOVE, (stored,))
            return connection.execute("DELETE FROM imported_file WHERE path = ?", (stored,)).rowcount > 0

        return self._database.write(work)

    def sources(self) -> list[ImportedTimingsFile]:
        """All files, the one that was imported last first."""
        return [
            ImportedTimingsFile(path=read_name(path), format=form, source=source, imported_at=at, timings=count)
            for path, form, source, at, count in self._database.rows(_FILES)
        ]

    def every(self) -> list[ImportedTiming]:
        """All timings, in the order of import."""
        return self._found(f"{_FROM} ORDER BY imported_timing.id")

    def about(self, kernel: str, sizes: Iterable[str]) -> list[ImportedTiming]:
        """Those for a kernel by its name, and those of an operation on `sizes`, as `sizes_key` gives them."""
        return self._found(_ABOUT, kernel=stored_name(kernel), sizes=json.dumps(list(sizes)))

    def _found(self, query: str, **values: object) -> list[ImportedTiming]:
        def parse(path: str | bytes, form: FormatName, source: str, at: float, content: str) -> ImportedTiming:
            timing: ImportedTiming = adapter(ImportedTiming).validate_json(content)
            return replace(timing, file=read_name(path), format=form, source=source, imported_at=at)

        return self._database.parsed(query, parse, **values)
