"""Reads rocpd databases (SQLite), rocprofv3's default output since ROCm 7.0: launches, their times and counters.

The schema is `source/share/rocprofiler-sdk-rocpd/*.sql` of rocprofiler-sdk. Each table ends in the id of a run
(`rocpd_pmc_event_0199…`), and a view without it is their union; views such as `kernels` join them. A launch's counters
are rows of `rocpd_pmc_event` with the launch's event, one for each instance of a counter. Rocprofv3 as AMD ships it
keeps no PC samples there; builds that do have the table `rocpd_pc_sampling` with the columns of its CSV.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

from ckwatch.codeobject.device_profiles import sampled_rows
from ckwatch.codeobject.launch_counters import LaunchCounters
from ckwatch.model.device_profiles import COUNTERS, KERNEL_TIMES, DeviceProfile, NoProfileError

HEAD = b"SQLite format 3\0"

SCHEMA_VERSIONS = ("3", "4")
"""Those whose tables are known: major versions of `rocpd_metadata`'s `schema_version`."""

_VERSIONS_AT = slice(18, 20)
"""Bytes of a database's head that say whether it was written with a write-ahead log."""
_LAUNCHES = """
    SELECT K.guid, K.event_id, COALESCE(NULLIF(S.display_name, ''), S.kernel_name, '')
    FROM rocpd_kernel_dispatch K
    LEFT JOIN rocpd_info_kernel_symbol S ON S.id = K.kernel_id AND S.guid = K.guid
"""
_TIMES = 'SELECT guid, event_id, "end" - "start" FROM kernels'
_VALUES = """
    SELECT E.guid, E.event_id, I.name, E.value
    FROM rocpd_pmc_event E
    LEFT JOIN rocpd_info_pmc I ON I.id = E.pmc_id AND I.guid = E.guid
"""
_AGENTS = "SELECT DISTINCT COALESCE(NULLIF(product_name, ''), name) FROM rocpd_info_agent WHERE type = 'GPU'"
_SAMPLES = "rocpd_pc_sampling"


def read_database(content: bytes) -> DeviceProfile:
    """The profile in a database. Raises NoProfileError."""
    head = bytearray(content[:100])
    head[_VERSIONS_AT] = b"\1\1"  # what is in memory has no log
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.deserialize(bytes(head) + content[100:])
            return _read(database)
        except NoProfileError:
            raise
        except (sqlite3.Error, OverflowError, ValueError, TypeError) as error:
            raise NoProfileError(f"it cannot be read as a rocpd database: {error}") from None


def _read(database: sqlite3.Connection) -> DeviceProfile:
    tables = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    names = {str(name) for (name,) in tables}
    if "rocpd_metadata" not in names:
        raise NoProfileError("it is a SQLite database without `rocpd_metadata`, which rocpd has")
    versions = {str(value) for (value,) in database.execute(
        "SELECT value FROM rocpd_metadata WHERE tag = 'schema_version'"
    )}  # fmt: skip
    if unknown := sorted(one for one in versions if one.partition(".")[0] not in SCHEMA_VERSIONS):
        raise NoProfileError(
            f"it is a rocpd database of schema {unknown[0]}; those of {' and '.join(SCHEMA_VERSIONS)} are read"
        )
    found, kernels, notes = LaunchCounters(), {}, []
    times = dict(_keyed(database.execute(_TIMES))) if "kernels" in names else {}
    for guid, event, name in database.execute(_LAUNCHES):
        kernels[guid, event] = str(name)
        found.launch((guid, event), str(name), times.get((guid, event)))
    strays = broken = 0
    for guid, event, counter, value in database.execute(_VALUES):
        launch = (guid, event)
        if launch not in kernels or counter is None:
            strays += 1
            continue
        try:
            found.add(launch, kernels[launch], str(counter), float(value), times.get(launch))
        except (ValueError, TypeError):
            broken += 1
    if strays:
        notes.append(f"{strays} values of counters belong to no launch of a kernel")
    if broken:
        notes.append(f"{broken} values of counters could not be read")
    devices = [str(name) for (name,) in database.execute(_AGENTS) if name]
    profile = DeviceProfile(method=KERNEL_TIMES, unit="samples", places=())
    if _SAMPLES in names:
        profile = _samples(database)
    measured = found.kernels()
    if any(one.counters for one in measured):
        profile = replace(profile, method=COUNTERS if not profile.places else f"{profile.method}, {COUNTERS}")
    if not measured and not profile.places:
        raise NoProfileError("it has no launch of a kernel: rocprofv3 needs `--kernel-trace`, or `--pmc` for counters")
    notes = [*profile.notes, *notes]
    return replace(profile, kernels=measured, device=", ".join(devices), notes=tuple(notes))


def _keyed(rows: Iterable[tuple[Any, Any, Any]]) -> Iterable[tuple[tuple[Any, Any], int]]:
    return (((guid, event), int(time)) for guid, event, time in rows if time is not None)


def _samples(database: sqlite3.Connection) -> DeviceProfile:
    found = database.execute(f"SELECT * FROM {_SAMPLES}")  # noqa: S608  # a constant
    columns = ["_".join(part.capitalize() for part in column[0].split("_")) for column in found.description]
    if "Instruction" not in columns:
        raise NoProfileError(f"its `{_SAMPLES}` has no column `instruction`")
    rows = [dict(zip(columns, row, strict=True)) for row in found]
    rows = [row for row in rows if row["Instruction"] is not None]
    return sampled_rows(rows, stochastic=any(row.get("Wave_Issued_Instruction") is not None for row in rows))
