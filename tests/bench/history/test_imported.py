"""Imported timings come back with their source, and are never among those that were measured here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.bench.history.database import MIGRATIONS, HistoryDatabase, HistoryError
from ckwatch.bench.history.imported import ImportedTimings
from ckwatch.bench.history.runs import History
from ckwatch.bench.imports.aiter import read_aiter
from ckwatch.bench.imports.matching import sizes_key
from ckwatch.bench.imports.records import ImportedTiming, ImportedTimingsFile
from helpers.imported_workspaces import TABLE

RECORDS = read_aiter(TABLE).records
KEY = sizes_key({"K": 8192, "M": 128, "N": 1280, "LDA": 8192})


def source(path: str = "/their ü.csv", at: float = 1.0) -> ImportedTimingsFile:
    return ImportedTimingsFile(path=path, format="aiter", source="AITER", imported_at=at)


def kept(record: ImportedTiming, of: ImportedTimingsFile | None = None) -> ImportedTiming:
    of = of or source()
    return replace(record, source=of.source, format=of.format, file=of.path, imported_at=of.imported_at)


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(tmp_path / "history.sqlite")
    made.open()
    return made


def test_what_was_imported_comes_back(history: History) -> None:
    history.imported.replace(source(), RECORDS)
    assert history.imported.every() == [kept(record) for record in RECORDS]
    assert history.imported.about("k", {KEY}) == [kept(one) for one in RECORDS if one.sizes["M"] == 128]
    assert history.imported.about("k", ()) == []
    assert history.timings.of_kernel("k") == []


def test_another_import_of_a_file_replaces_the_first(history: History) -> None:
    history.imported.replace(source(), RECORDS)
    history.imported.replace(source("/other.csv", 2.0), RECORDS[:1])
    history.imported.replace(source(at=3.0), RECORDS[:2])
    assert [(one.path, one.timings, one.imported_at) for one in history.imported.sources()] == [
        ("/their ü.csv", 2, 3.0),
        ("/other.csv", 1, 2.0),
    ]
    assert history.imported.remove("/their ü.csv")
    assert not history.imported.remove("/their ü.csv")
    assert history.imported.every() == [kept(RECORDS[0], source("/other.csv", 2.0))]


def test_those_of_a_kernel_s_name(history: History) -> None:
    history.imported.replace(source(), [replace(RECORDS[0], for_kernel="k"), replace(RECORDS[1], for_kernel="other")])
    assert [record.time_us for record in history.imported.about("k", {KEY})] == [RECORDS[0].time_us]


def test_a_history_of_before_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    old = HistoryDatabase(path, migrations=MIGRATIONS[:3])
    old.open()
    old.close()
    history = History(path)
    history.open()
    history.imported.replace(source(), RECORDS)
    assert len(history.imported.every()) == len(RECORDS)


def test_a_closed_history(tmp_path: Path) -> None:
    closed = HistoryDatabase(tmp_path / "none")
    with pytest.raises(HistoryError, match="is not open"):
        ImportedTimings(closed).every()
