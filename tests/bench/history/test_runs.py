"""Recorded runs come back; migrations; files that cannot be used."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckwatch.bench.history.database import MIGRATIONS, HistoryError
from ckwatch.bench.history.runs import History, UnitRecord

FIRST = UnitRecord(
    unit="gemm/first@gfx942",
    token_key="t1",  # noqa: S106  # of C++ tokens
    key="k1",
    outcome="built",
    finished_at=1000.5,
    seconds=12.25,
    peak_memory_bytes=3 * 1024**3,
    from_store=False,
    reads={"/w/templates/größe.j2": "aa", "/w/templates/gemm.hip.j2": "bb"},
    cause=(("edited gemm.hip.j2", 1000.0), ("start", 990.0)),
)
SECOND = replace(FIRST, key="", outcome="failed", finished_at=2000.0, from_store=True, cause=())
OTHER = replace(FIRST, unit="gemm/ö \udcff@gfx942", reads={})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.sqlite"


def opened(path: Path, migrations: tuple[str, ...] = MIGRATIONS) -> History:
    history = History(path, migrations=migrations, busy_timeout_s=0.05)
    history.open()
    return history


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608  # rows of the test


def test_what_is_recorded_comes_back(path: Path) -> None:
    with closing(opened(path)) as history:
        assert history.units() == {}
        history.record([FIRST, OTHER])
        history.record([SECOND])
    with closing(opened(path)) as history:
        assert history.units() == {FIRST.unit: SECOND, OTHER.unit: OTHER}
        assert history.runs(FIRST.unit) == [SECOND, FIRST]
        assert history.runs(FIRST.unit, limit=1) == [SECOND]
        assert history.runs(OTHER.unit) == [OTHER]
        assert history.runs("nobody") == []
        assert history.notice is None


def test_removed_units_keep_their_runs(path: Path) -> None:
    with closing(opened(path)) as history:
        history.record([FIRST, OTHER])
        history.record([], removed=[FIRST.unit, "nobody"])
        assert (set(history.units()), history.runs(FIRST.unit)) == ({OTHER.unit}, [FIRST])
        history.record([SECOND], removed=[FIRST.unit, OTHER.unit])
        assert (history.units(), history.runs(FIRST.unit)) == ({FIRST.unit: SECOND}, [SECOND, FIRST])


def test_equal_read_sets_are_stored_once(path: Path) -> None:
    turned = dict(reversed([*FIRST.reads.items()]))
    with closing(opened(path)) as history:
        for number in range(3):
            history.record([replace(FIRST, unit=f"k/{index}@host", reads=turned) for index in range(number, 50)])
        history.record([FIRST, replace(FIRST, unit="x", reads={"/w/x": "cc"})])
        assert history.units()["x"].reads == {"/w/x": "cc"}
        assert history.units()["k/7@host"].reads == FIRST.reads
    assert count(path, "read_set") == 2


def test_thousands_of_units_take_little_room(path: Path) -> None:
    reads = [{f"/w/{index}/{'template' * 20}": "a" * 64, "/w/common": "b" * 64} for index in range(10)]
    with closing(opened(path)) as history:
        history.record([replace(FIRST, unit=f"k/{index}@host", reads=dict(reads[index % 10])) for index in range(5000)])
        assert len(history.units()) == 5000
    assert path.stat().st_size < 5000 * 250


def test_a_record_that_cannot_be_stored_changes_nothing(path: Path) -> None:
    with closing(opened(path)) as history:
        history.record([FIRST])
        with pytest.raises(HistoryError, match="NOT NULL"):
            history.record([SECOND, replace(OTHER, seconds=float("nan"))], removed=[FIRST.unit])
        assert (history.units(), history.runs(FIRST.unit)) == ({FIRST.unit: FIRST}, [FIRST])
        history.record([SECOND])
        assert history.units() == {FIRST.unit: SECOND}


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ("s", [True]),
        ("ses", [True, True]),
        ("ss", [True, False]),
        ("sses", [True, False, True]),
        ("sess", [True, True, False]),
        ("es", [True]),
        ("s" * 150 + "es", [True, *[False] * 149, True]),
    ],
)
def test_a_daemon_that_did_not_end_is_noticed(path: Path, notes: str, expected: list[bool]) -> None:
    found = []
    with closing(opened(path)) as history:
        for at, note in enumerate(notes):
            if note == "s":
                found.append(history.note_start(float(at), 4000 + at, "1.2"))
            else:
                history.note_end(float(at))
    assert found == expected
    assert count(path, "daemon") == min(notes.count("s"), 100)


def test_pruning(path: Path) -> None:
    def runs_of(unit: str, finished: range) -> list[UnitRecord]:
        return [replace(FIRST, unit=unit, finished_at=float(at), reads={f"/{unit}": str(at)}) for at in finished]

    with closing(opened(path)) as history:
        for unit, finished in (("many", range(10)), ("few", range(2)), ("gone", range(50, 55))):
            history.record(runs_of(unit, finished))
        history.record([], removed=["gone"])
        history.prune(3)
        assert {unit: [run.finished_at for run in history.runs(unit)] for unit in ("many", "few", "gone")} == {
            "many": [9, 8, 7],
            "few": [1, 0],
            "gone": [54, 53, 52],
        }
        assert {unit: one.finished_at for unit, one in history.units().items()} == {"many": 9, "few": 1}
        history.prune(0)
        assert {unit: one.finished_at for unit, one in history.units().items()} == {"many": 9, "few": 1}
    assert (count(path, "run"), count(path, "read_set"), count(path, "unit")) == (3, 3, 3)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=4),
            st.lists(st.sampled_from("abcd"), max_size=2),
        ),
        max_size=6,
    )
)
def test_any_records(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[tuple[str, int]], list[str]]]
) -> None:
    """Recording is what a dictionary and a list would do."""
    latest: dict[str, UnitRecord] = {}
    runs: list[UnitRecord] = []
    path = tmp_path_factory.mktemp("any") / "history.sqlite"
    with closing(opened(path)) as history:
        for given_records, removed in steps:
            records = [
                replace(FIRST, unit=unit, seconds=float(number), reads={"/t": str(number)})
                for unit, number in given_records
            ]
            history.record(records, removed)
            for unit in removed:
                latest.pop(unit, None)
            latest.update({one.unit: one for one in records})
            runs += records
            assert history.units() == latest
            for unit in "abcd":
                assert history.runs(unit) == [one for one in reversed(runs) if one.unit == unit]


def test_threads_take_turns(path: Path) -> None:
    with closing(opened(path)) as history:

        def record(number: int) -> None:
            for _ in range(5):
                history.record([replace(FIRST, unit=f"k/{number}@host")])
                assert f"k/{number}@host" in history.units()

        threads = [threading.Thread(target=record, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(history.units()) == 6
        assert [len(history.runs(f"k/{number}@host")) for number in range(6)] == [5] * 6


def test_a_folder_that_is_made_is_the_users_own(path: Path) -> None:
    assert not path.parent.exists()
    with closing(opened(path)):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_folder_that_is_there_keeps_its_mode(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    with closing(opened(path)):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o1777


ADDED = """
ALTER TABLE run ADD COLUMN note TEXT NOT NULL DEFAULT ';';
UPDATE run SET note = 'old; but good';
CREATE INDEX run_note ON run (note);
"""

VERSION_1 = """
INSERT INTO unit VALUES (1, 'gemm/first@gfx942', 1), (2, 'gone', 0);
INSERT INTO read_set VALUES (7, 'hash', '{"/w/t": "aa"}');
INSERT INTO run VALUES
  (1, 1, 7, 't1', 'k1', 'built', 1.5, 2.5, 3, 0, '[["start", 1.0]]'),
  (2, 2, 7, 't2', '', 'faulted', 2.5, 0.5, 0, 1, '[]');
INSERT INTO daemon VALUES (1, 10.0, 4000, '0.1', NULL);
PRAGMA user_version = 1;
"""


@pytest.fixture
def version_1(path: Path) -> Path:
    """A database of the first version, written by hand."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(MIGRATIONS[0] + VERSION_1)
    return path


def test_a_migration_keeps_what_is_there(version_1: Path) -> None:
    with closing(opened(version_1, (MIGRATIONS[0], ADDED))) as history:
        (found,) = history.units().values()
        assert (found.unit, found.reads, found.cause) == ("gemm/first@gfx942", {"/w/t": "aa"}, (("start", 1.0),))
        assert [one.outcome for one in history.runs("gone")] == ["faulted"]
        assert history.note_start(20.0, 5000, "0.2") is False
        history.record([FIRST])
        assert history.units() == {FIRST.unit: FIRST}
    with closing(sqlite3.connect(version_1)) as connection:
        assert connection.execute("SELECT note FROM run ORDER BY id").fetchall() == [
            ("old; but good",),
            ("old; but good",),
            (";",),
        ]
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_migration_that_fails_leaves_the_old_version(version_1: Path) -> None:
    with pytest.raises(HistoryError, match="no such table: nowhere"):
        opened(version_1, (MIGRATIONS[0], f"{ADDED} DROP TABLE nowhere;"))
    with closing(opened(version_1)) as history:
        assert list(history.units()) == ["gemm/first@gfx942"]


def test_a_newer_version_is_left_alone(path: Path) -> None:
    with closing(opened(path)) as old, closing(opened(path, (*MIGRATIONS, ADDED))) as new:
        new.record([FIRST])
        with pytest.raises(HistoryError, match="newer version") as caught:
            old.record([SECOND])
        assert caught.value.hint is not None
        with pytest.raises(HistoryError, match="newer version"):
            opened(path)
        assert new.units() == {FIRST.unit: FIRST}
    assert [file.name for file in path.parent.iterdir()] == ["history.sqlite"]


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database, and was never one\n" * 200)


def cut(path: Path) -> None:
    os.truncate(path, 4096 * 3)


def trampled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    path.write_bytes(content)


def other_text(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE run SET cause = 'no JSON'")


def no_text(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE run SET key = CAST(x'ff' AS TEXT)")


def lost_set(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM read_set")


@pytest.mark.parametrize("damage", [garbage, cut, trampled, other_text, no_text, lost_set])
def test_a_damaged_file_is_moved_aside(path: Path, damage: Callable[[Path], None]) -> None:
    for number in (1, 2):
        with closing(opened(path)) as history:
            history.record([FIRST])
            assert history.units() == {FIRST.unit: FIRST}
        damage(path)
        content = path.read_bytes()
        with closing(opened(path)) as history:
            assert history.units() == {}
            aside = path.with_name(f"history.sqlite.damaged-{number}")
            assert str(aside) in str(history.notice)
            assert aside.read_bytes() == content
            history.record([SECOND])
            assert history.units() == {SECOND.unit: SECOND}


def test_damage_under_the_daemon(path: Path) -> None:
    with closing(opened(path)) as history:
        history.record([replace(FIRST, unit=f"k/{index}@host") for index in range(500)])
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        trampled(path)
        history.record([FIRST])
        assert history.units() == {FIRST.unit: FIRST}
        assert history.notice is not None


def test_an_empty_file_is_a_new_history(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with closing(opened(path)) as history:
        assert (history.units(), history.notice) == ({}, None)


def test_a_folder_in_its_place(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(HistoryError, match="is not a regular file"):
        opened(path)
    path.rmdir()
    path.parent.rmdir()
    path.parent.write_text("a file where a folder has to be")
    with pytest.raises(HistoryError, match=r"File exists|Not a directory"):
        opened(path)


def set_at_connect(monkeypatch: pytest.MonkeyPatch, pragma: str) -> None:
    """Each new connection begins with `pragma`, as a file system would have it."""
    connect = sqlite3.connect

    def connected(*arguments: object, **more: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **more)  # type: ignore[call-overload]  # passed on
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connected)


def test_no_space(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_at_connect(monkeypatch, "PRAGMA max_page_count = 28")
    with closing(opened(path)) as history:
        history.record([FIRST])
        with pytest.raises(HistoryError, match="no space left") as caught:
            history.record([SECOND, *[replace(OTHER, unit=f"k/{index}@host") for index in range(1000)]])
        assert caught.value.no_space
        assert history.units() == {FIRST.unit: FIRST}
        history.record([SECOND])
        assert history.units() == {FIRST.unit: SECOND}


def test_read_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(path)) as history:
        history.record([FIRST])
    set_at_connect(monkeypatch, "PRAGMA query_only = ON")
    with closing(opened(path)) as history:
        with pytest.raises(HistoryError, match="cannot be written") as caught:
            history.record([SECOND])
        assert not caught.value.no_space
        assert history.units() == {FIRST.unit: FIRST}


def test_readers_see_what_is_complete_while_another_writes(path: Path) -> None:
    with closing(opened(path)) as history:
        history.record([FIRST])
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE run SET outcome = 'half'")
            assert history.units() == {FIRST.unit: FIRST}
            with pytest.raises(HistoryError, match="in use by another process"):
                history.record([SECOND])
            writer.execute("ROLLBACK")
        history.record([SECOND])


def test_a_history_that_is_not_open(path: Path) -> None:
    history = History(path)
    history.close()
    with pytest.raises(HistoryError, match="not open"):
        history.units()
    history.open()
    history.open()
    assert history.units() == {}
    history.close()
