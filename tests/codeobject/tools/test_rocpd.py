"""rocpd databases: made here by the schema of rocprofiler-sdk, since no AMD GPU has written one for this project."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing

import pytest

from ckwatch.codeobject.tools.rocpd import read_database
from ckwatch.model.device_profiles import DeviceProfile, NoProfileError

RUN = "_01990000_1111"
TABLES = {
    "rocpd_metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "rocpd_info_agent": "id INTEGER PRIMARY KEY, guid TEXT, type TEXT, name TEXT, product_name TEXT",
    "rocpd_info_kernel_symbol": "id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT",
    "rocpd_info_pmc": "id INTEGER PRIMARY KEY, guid TEXT, agent_id INTEGER, name TEXT, symbol TEXT",
    "rocpd_timestamp": "id INTEGER PRIMARY KEY, guid TEXT, value BIGINT",
    "rocpd_kernel_dispatch": "id INTEGER PRIMARY KEY, guid TEXT, kernel_id INTEGER, dispatch_id INTEGER, "
    "start_id INTEGER, end_id INTEGER, event_id INTEGER",
    "rocpd_pmc_event": "id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER, pmc_id INTEGER, value REAL",
}
KERNELS = """
    CREATE VIEW kernels AS SELECT K.guid, K.event_id, S.display_name AS name, B.value AS "start", E.value AS "end"
    FROM rocpd_kernel_dispatch K JOIN rocpd_info_kernel_symbol S ON S.id = K.kernel_id
    JOIN rocpd_timestamp B ON B.id = K.start_id JOIN rocpd_timestamp E ON E.id = K.end_id
"""
SAMPLES = """
    CREATE TABLE rocpd_pc_sampling (method TEXT, timestamp BIGINT, exec_mask BIGINT, dispatch_id INTEGER,
    instruction TEXT, instruction_comment TEXT, wave_issued_instruction INTEGER, stall_reason TEXT)
"""


NO_LAUNCH = ("DROP VIEW kernels", f"DELETE FROM rocpd_kernel_dispatch{RUN}")  # noqa: S608


def database(*statements: str, version: str = "3.0.1", leave_out: Iterable[str] = ()) -> bytes:
    """Two launches of a transpose and one of a copy, with an SQ counter of two instances."""
    with closing(sqlite3.connect(":memory:")) as made:
        for name, columns in TABLES.items():
            if name not in leave_out:
                made.execute(f"CREATE TABLE {name}{RUN} ({columns})")
                made.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}{RUN}")  # noqa: S608

        def insert(table: str, *rows: tuple[object, ...]) -> None:
            if table not in leave_out:
                made.executemany(f"INSERT INTO {table}{RUN} VALUES ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608

        insert("rocpd_metadata", (1, "schema_version", version))
        insert("rocpd_info_agent", (1, "g", "CPU", "host", "host"), (2, "g", "GPU", "gfx942", "AMD Instinct MI300X"))
        insert(
            "rocpd_info_kernel_symbol", (1, "g", "_Z9transposePDF16_", "transpose(_Float16*)"), (2, "g", "copy.kd", "")
        )
        insert("rocpd_info_pmc", (70, "g", 2, "SQ_LDS_BANK_CONFLICT", "a"), (71, "g", 2, "SQ_LDS_BANK_CONFLICT", "b"))
        insert("rocpd_timestamp", *((number, "g", 1000 * number) for number in range(1, 7)))
        insert(
            "rocpd_kernel_dispatch",
            (1, "g", 1, 1, 1, 2, 11),
            (2, "g", 1, 2, 3, 4, 12),
            (3, "g", 2, 3, 5, 6, 13),
        )
        values = [(11, 70, 1_835_008.0), (11, 71, 1_835_008.0), (12, 70, 1_835_007.0), (12, 71, 1_835_009.0)]
        insert("rocpd_pmc_event", *((at, "g", *value) for at, value in enumerate(values)))
        for statement in (KERNELS, *statements):
            made.execute(statement)
        made.commit()
        return made.serialize()


def read(content: bytes) -> DeviceProfile:
    return read_database(content)


def test_counters_and_times_of_kernels() -> None:
    found = read(database())
    assert (found.method, found.device, found.notes) == ("counters", "AMD Instinct MI300X", ())
    transpose, copied = found.kernels
    assert (transpose.name, transpose.launches, transpose.time_ns) == ("transpose(_Float16*)", 2, 2000)
    assert transpose.counters == {"SQ_LDS_BANK_CONFLICT": 2 * 3_670_016}
    assert transpose.counted == {"SQ_LDS_BANK_CONFLICT": 2}
    assert (copied.name, copied.counters) == ("copy.kd", {})


def test_a_database_that_was_written_with_a_log() -> None:
    content = bytearray(database())
    content[18:20] = b"\2\2"
    assert len(read(bytes(content)).kernels) == 2


def test_times_alone_and_values_of_no_launch() -> None:
    clear = f"DELETE FROM rocpd_pmc_event{RUN}"  # noqa: S608
    assert read(database(clear)).method == "kernel times"
    stray = f"UPDATE rocpd_pmc_event{RUN} SET event_id = 99 WHERE id = 0"  # noqa: S608
    found = read(database(stray))
    assert found.notes == ("1 values of counters belong to no launch of a kernel",)
    assert found.kernels[0].counters == {"SQ_LDS_BANK_CONFLICT": 3 * 1_835_008}


def test_a_value_that_is_no_number_is_counted() -> None:
    found = read(database(f"UPDATE rocpd_pmc_event{RUN} SET value = 'x' WHERE id = 0"))  # noqa: S608
    assert found.notes == ("1 values of counters could not be read",)
    assert found.kernels[0].counters == {"SQ_LDS_BANK_CONFLICT": 3 * 1_835_008}


def test_samples_where_a_build_keeps_them() -> None:
    reason = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_WAITCNT"
    rows = [
        f"('stochastic', 1, -1, 1, 's_waitcnt vmcnt(0)', '/k.hip:4', 0, '{reason}')",
        "('stochastic', 2, 255, 1, 'v_add_f32 v0, v1, v2', '/k.hip:5', 1, '')",
    ]
    found = read(database(SAMPLES, f"INSERT INTO rocpd_pc_sampling VALUES {', '.join(rows)}"))  # noqa: S608
    assert (found.method, found.total) == ("PC sampling, stochastic, counters", 2)
    assert sorted((one.line, one.issued, one.lanes) for one in found.places) == [(3, 0, 64), (4, 1, 8)]
    assert found.places[0].stalls == {"waitcnt": 1}
    assert len(found.kernels) == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (database(version="9"), "it is a rocpd database of schema 9; those of 3 and 4 are read"),
        (database(leave_out=["rocpd_metadata"]), "without `rocpd_metadata`, which rocpd has"),
        (database(leave_out=["rocpd_pmc_event"]), "cannot be read as a rocpd database: no such table"),
        (database(*NO_LAUNCH), "it has no launch of a kernel"),
        (database(SAMPLES.replace("instruction TEXT", "text TEXT")), "has no column `instruction`"),
        (database()[:5000], "cannot be read as a rocpd database"),
        (b"SQLite format 3\0", "cannot be read as a rocpd database"),
    ],
)  # fmt: skip
def test_what_is_no_such_database_is_said(content: bytes, why: str) -> None:
    with pytest.raises(NoProfileError, match=why):
        read(content)
