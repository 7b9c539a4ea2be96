"""The history of timings: what was measured of each unit, and the baselines that timings are compared with.

Nothing is rounded or summarized: a record is stored as JSON, its raw samples beside it as 64-bit floats, and statistics
are computed when they are asked for.
"""

from __future__ import annotations

import sqlite3
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ckwatch.bench.history.database import HistoryDatabase, adapter, read_name, stored_json, stored_name
from ckwatch.bench.report import DETERMINISTIC_FAILURES, BenchmarkFailure, BenchmarkReport, ContestantResult, Samples
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.timings import Baseline, TimedArtifact

FLUSHED_INSTRUCTIONS = "instruction caches flushed"

_COUNTS = struct.Struct("<II")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRecord(TimedArtifact):
    """A benchmark of a unit on one shape: either a `report` or a `failure`. `contestant` is the unit's name among those
    that the report measured."""

    contestant: str
    problem: KernelProblem | None = None
    report: BenchmarkReport | None = None
    failure: BenchmarkFailure | None = None

    @property
    def device(self) -> DeviceFacts | None:
        """The device of the measurement; None if it ended before one was chosen."""
        if self.report is not None:
            return self.report.device
        return None if self.failure is None else self.failure.device

    @property
    def place(self) -> tuple[str, ...]:
        """Values that tell one device from another: its identity, what it is, another machine's name, and the content
        of its instruction caches, since times with and without their flush are as those of two devices."""
        if self.device is None:
            return ("", "")
        machine = (self.device.machine,) if self.device.machine else ()
        return (self.device.identity, self.device.description, *machine, *self._flushed)

    @property
    def product(self) -> tuple[str, ...]:
        """Values that devices of one product share."""
        return ("", "") if self.device is None else (self.device.description, self.device.arch, *self._flushed)

    @property
    def _flushed(self) -> tuple[str, ...]:
        return (FLUSHED_INSTRUCTIONS,) if self.report is not None and self.report.flushed_instructions else ()

    @property
    def measured(self) -> ContestantResult | None:
        """The unit's own samples."""
        return None if self.report is None else self.measured_of(self.contestant)

    def measured_of(self, contestant: str) -> ContestantResult | None:
        """The samples of a contestant of the same report."""
        every = () if self.report is None else self.report.measured
        return next((one for one in every if one.contestant == contestant), None)


TIMING_COLUMNS = "unit, kernel, shape, device, artifact_key, benchmark_key, taken_at, failure, content, samples"
"""The columns of a timing, but for its number."""


def values_of(record: TimingRecord) -> tuple[Any, ...]:
    """The values of `COLUMNS`."""
    report = record.report
    samples = b"".join(_pack_samples(one) for one in _samples_of(report))
    if report is not None:
        bare = tuple(
            replace(one, samples=tuple(replace(kept, times_us=(), clocks_mhz=()) for kept in one.samples))
            for one in report.measured
        )
        report = replace(report, measured=bare)
    content = stored_json(replace(record, unit="", kernel="", report=report, id=0))
    return (
        *(stored_name(record.unit), stored_name(record.kernel), stored_name(record.shape)),
        *(stored_place(record), record.artifact_key, record.benchmark_key, record.taken_at),
        *(None if record.failure is None else record.failure.kind.value, content, samples),
    )


def record_of(number: int, unit: str | bytes, kernel: str | bytes, content: str, samples: bytes) -> TimingRecord:
    """The record with this number. Raises ValueError for what `values_of` did not write."""
    record: TimingRecord = adapter(TimingRecord).validate_json(content)
    report = record.report
    if report is not None:
        blocks = list(_unpack_samples(samples))
        if len(blocks) != len(list(_samples_of(report))):
            raise ValueError("samples are missing")
        left = iter(blocks)
        whole = tuple(
            replace(
                one,
                samples=tuple(
                    replace(kept, times_us=times, clocks_mhz=clocks)
                    for kept, (times, clocks) in zip(one.samples, left, strict=False)
                ),
            )
            for one in report.measured
        )
        report = replace(report, measured=whole)
    return replace(record, id=number, unit=read_name(unit), kernel=read_name(kernel), report=report)


def stored_place(record: TimingRecord) -> str | bytes:
    return stored_name("\n".join(record.place))


def _samples_of(report: BenchmarkReport | None) -> Iterator[Samples]:
    for measured in () if report is None else report.measured:
        yield from measured.samples


def _pack_samples(samples: Samples) -> bytes:
    """How many times and clocks there are, and then they: little-endian."""
    values = array("d", (*samples.times_us, *samples.clocks_mhz))
    if sys.byteorder == "big":
        values.byteswap()
    return _COUNTS.pack(len(samples.times_us), len(samples.clocks_mhz)) + values.tobytes()


def _unpack_samples(packed: bytes) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """The times and clocks of each `_packed` piece."""
    at = 0
    while at < len(packed):
        if at + _COUNTS.size > len(packed):
            raise ValueError("samples are cut off")
        times, clocks = _COUNTS.unpack_from(packed, at)
        at += _COUNTS.size
        end = at + 8 * (times + clocks)
        if end > len(packed):
            raise ValueError("samples are cut off")
        values = array("d")
        values.frombytes(packed[at:end])
        if sys.byteorder == "big":
            values.byteswap()
        yield tuple(values[:times]), tuple(values[times:])
        at = end


_ANY_ID = 2**63 - 1
"""No record has a higher number."""

_ROW = "timing.id, timing.unit, timing.kernel, timing.content, timing.samples"

_ADD = f"INSERT INTO timing ({TIMING_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # put together from constants

_OF_UNIT = (
    f"SELECT {_ROW} FROM timing WHERE unit = :unit AND (:shape IS NULL OR shape = :shape) ORDER BY id DESC LIMIT :limit"  # noqa: S608
)

# The newest good one of each shape and device; failures that came after the newest good one of their shape, the newest.
_LATEST_IDS = """
SELECT max(id) FROM timing WHERE {which} AND failure IS NULL GROUP BY unit, shape, device
UNION ALL
SELECT max(id) FROM timing WHERE {which} GROUP BY unit, shape
"""

_LATEST = f"SELECT {_ROW} FROM timing WHERE id IN ({_LATEST_IDS}) ORDER BY id DESC"  # noqa: S608

_PREVIOUS = f"""
SELECT {_ROW} FROM timing WHERE unit = :unit AND shape = :shape AND device = :device AND artifact_key != :artifact
AND failure IS NULL AND id < :id
ORDER BY id DESC LIMIT 1
"""  # noqa: S608

_GOOD_IDS = "SELECT max(id) FROM timing WHERE unit = ? AND failure IS NULL GROUP BY shape, device"

_BASELINE = f"""
SELECT {_ROW} FROM baseline JOIN timing ON timing.id = baseline.timing
WHERE baseline.unit = :unit AND baseline.name = coalesce(
  :name, (SELECT name FROM baseline WHERE unit = :unit ORDER BY id DESC LIMIT 1)
) ORDER BY timing.id DESC
"""  # noqa: S608

_BASELINE_ARTIFACT = """
SELECT baseline.name, timing.artifact_key FROM baseline JOIN timing ON timing.id = baseline.timing
WHERE baseline.unit = ? ORDER BY baseline.id DESC LIMIT 1
"""

_BASELINES = """
SELECT name, max(set_at), count(DISTINCT unit), count(*) FROM baseline GROUP BY name ORDER BY max(id) DESC
"""

_PRUNE = """
DELETE FROM timing WHERE id IN (
  SELECT id FROM (
    SELECT id, row_number() OVER (PARTITION BY unit, shape, device, failure IS NULL ORDER BY id DESC) AS place
    FROM timing
  ) WHERE place > ?
) AND id NOT IN (SELECT timing FROM baseline)
"""


class Timings:
    """The timings in a history's file; `History.timings` shares the history's own connection to it.

    Every method raises HistoryError where the file cannot be used; nothing is changed then. Safe to use
    from several threads. A unit that is there no more keeps its timings.
    """

    def __init__(self, database: HistoryDatabase) -> None:
        self._database = database

    def add(self, records: Sequence[TimingRecord]) -> list[int]:
        """Add records, all of them or none; their numbers."""
        rows = [values_of(record) for record in records]

        def work(connection: sqlite3.Connection) -> list[int]:
            return [int(connection.execute(_ADD, row).lastrowid or 0) for row in rows]

        return self._database.write(work) if rows else []

    def one(self, number: int) -> TimingRecord | None:
        return self._first(f"SELECT {_ROW} FROM timing WHERE id = :id", id=number)  # noqa: S608

    def by_key(self, benchmark_key: str) -> TimingRecord | None:
        """The newest record of a benchmark that need not be done again: one that went well, or would fail again."""
        again = ", ".join(f"'{kind.value}'" for kind in sorted(DETERMINISTIC_FAILURES))
        query = (
            f"SELECT {_ROW} FROM timing WHERE benchmark_key = :key AND (failure IS NULL OR failure IN ({again}))"  # noqa: S608
            " ORDER BY id DESC LIMIT 1"
        )
        return self._first(query, key=benchmark_key)

    def of_unit(self, unit: str, shape: str | None = None, limit: int = 50) -> list[TimingRecord]:
        """The last records of a unit, newest first, failures too."""
        return self._found(_OF_UNIT, unit=stored_name(unit), shape=_stored_or_none(shape), limit=limit)

    def latest(self, unit: str) -> list[TimingRecord]:
        """Of each shape the newest record on each device that went well, and the newest failure where it came after
        all of those; newest first."""
        return self._found(_LATEST.format(which="unit = :unit"), unit=stored_name(unit))

    def of_kernel(self, kernel: str, shape: str | None = None) -> list[TimingRecord]:
        """Return the rows of `latest` of all units of a kernel, including units that no longer exist."""
        which = "kernel = :kernel AND (:shape IS NULL OR shape = :shape)"
        return self._found(_LATEST.format(which=which), kernel=stored_name(kernel), shape=_stored_or_none(shape))

    def previous(self, record: TimingRecord) -> TimingRecord | None:
        """The newest record that went well of an earlier artifact of the same unit, on the same shape and device."""
        return self._first(
            _PREVIOUS,
            unit=stored_name(record.unit),
            shape=stored_name(record.shape),
            device=stored_place(record),
            artifact=record.artifact_key,
            id=record.id or _ANY_ID,
        )

    def set_baseline(self, unit: str, name: str, at: float) -> int:
        """Let `name` mean what `latest` has of this unit now that went well, instead of what it meant; how many timings
        these are. With none, nothing is changed. `at`: the time, in Unix seconds."""
        stored = stored_name(unit)

        def work(connection: sqlite3.Connection) -> int:
            numbers = connection.execute(_GOOD_IDS, (stored,)).fetchall()
            if numbers:
                connection.execute("DELETE FROM baseline WHERE unit = ? AND name = ?", (stored, name))
                connection.executemany(
                    "INSERT INTO baseline (name, unit, timing, set_at) VALUES (?, ?, ?, ?)",
                    [(name, stored, number, at) for (number,) in numbers],
                )
            return len(numbers)

        return self._database.write(work)

    def baseline(self, unit: str, name: str | None = None) -> list[TimingRecord]:
        """The timings that a baseline has of a unit, newest first; `name` None: of the one that was set last for it."""
        return self._found(_BASELINE, unit=stored_name(unit), name=name)

    def baseline_artifact(self, unit: str) -> tuple[str, str] | None:
        """The name of the baseline that was set last for a unit, and the artifact that was timed last for it."""
        found = self._database.rows(_BASELINE_ARTIFACT, (stored_name(unit),))
        return (str(found[0][0]), str(found[0][1])) if found else None

    def units_of_baseline(self, name: str) -> list[str]:
        """The units that a baseline has timings of."""
        rows = self._database.rows("SELECT DISTINCT unit FROM baseline WHERE name = ? ORDER BY unit", (name,))
        return [read_name(unit) for (unit,) in rows]

    def baselines(self) -> list[Baseline]:
        """All baselines, the one that was set last first."""
        rows = self._database.rows(_BASELINES)
        return [Baseline(name=name, set_at=at, units=units, timings=count) for name, at, units, count in rows]

    def remove_baseline(self, name: str) -> int:
        """Remove the baseline. Return the number of units that it had timings of."""

        def work(connection: sqlite3.Connection) -> int:
            (count,) = connection.execute(
                "SELECT count(DISTINCT unit) FROM baseline WHERE name = ?", (name,)
            ).fetchone()
            connection.execute("DELETE FROM baseline WHERE name = ?", (name,))
            return int(count)

        return self._database.write(work)

    def prune(self, keep: int = 200) -> None:
        """Drop all but the newest `keep` of each unit, shape and device; baselines stay. Failures count apart."""
        self._database.write(lambda connection: connection.execute(_PRUNE, (max(keep, 1),)))

    def _first(self, query: str, **values: object) -> TimingRecord | None:
        return next(iter(self._found(query, **values)), None)

    def _found(self, query: str, **values: object) -> list[TimingRecord]:
        """The records of the rows of `query`, which gives `_ROW`."""
        return self._database.parsed(query, record_of, **values)


def _stored_or_none(name: str | None) -> str | bytes | None:
    return None if name is None else stored_name(name)
