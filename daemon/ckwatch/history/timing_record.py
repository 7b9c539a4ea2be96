"""What is kept of one benchmark of a unit, and how it stands in the database.

Nothing is rounded or summed up: the record is stored as JSON, its raw samples beside it as 64-bit floats, and what they
say is worked out when it is asked for.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ckwatch.history.record import stored_name
from ckwatch.model.kernel import ParameterValue
from ckwatch.timing.problem import Problem
from ckwatch.timing.report import DeviceFacts, Failure, Measured, Report, Samples

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_COUNTS = struct.Struct("<II")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRecord:
    """A benchmark of a unit on one shape.

    `unit` is `KERNEL/INSTANCE@ARCH` and `shape` a shape's name, with the `sizes` and `runtime` arguments that it stood
    for then. There is either a `report` or a `failure`; `contestant` is the unit's name among those that the report
    measured. `benchmark_key` is the same wherever the same was measured in the same way: artifact, problem, device,
    settings. `commit` is the workspace's, as `commit_of` gives it. `taken_at` is in Unix seconds, for display. `id` is
    the record's number in the history, 0 before it is there.
    """

    unit: str
    kernel: str
    instance: str
    arch: str
    shape: str
    contestant: str
    artifact_key: str
    benchmark_key: str
    taken_at: float
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    runtime: Mapping[str, int | float] = field(default_factory=dict)
    problem: Problem | None = None
    toolchain: str = ""
    commit: str | None = None
    report: Report | None = None
    failure: Failure | None = None
    id: int = 0

    @property
    def device(self) -> DeviceFacts | None:
        """Where it was measured; None where it did not come to that."""
        if self.report is not None:
            return self.report.device
        return None if self.failure is None else self.failure.device

    @property
    def place(self) -> tuple[str, str]:
        """What tells one device from another: its identity, and what it is."""
        return ("", "") if self.device is None else (self.device.identity, self.device.description)

    @property
    def measured(self) -> Measured | None:
        """The unit's own samples."""
        return None if self.report is None else self.measured_of(self.contestant)

    def measured_of(self, contestant: str) -> Measured | None:
        """The samples of a contestant of the same report."""
        every = () if self.report is None else self.report.measured
        return next((one for one in every if one.contestant == contestant), None)


COLUMNS = "unit, kernel, shape, device, artifact_key, benchmark_key, taken_at, failure, content, samples"
"""The columns of a timing, but for its number."""


def values_of(record: TimingRecord) -> tuple[Any, ...]:
    """The values of `COLUMNS`."""
    report = record.report
    samples = b"".join(_packed(one) for one in _samples_of(report))
    if report is not None:
        bare = tuple(
            replace(one, samples=tuple(replace(kept, times_us=(), clocks_mhz=()) for kept in one.samples))
            for one in report.measured
        )
        report = replace(report, measured=bare)
    # names of files that are not UTF-8 are in the columns only
    values = asdict(replace(record, unit="", kernel="", report=report, id=0))
    content = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
    return (
        *(stored_name(record.unit), stored_name(record.kernel), stored_name(record.shape)),
        *(stored_place(record), record.artifact_key, record.benchmark_key, record.taken_at),
        *(None if record.failure is None else record.failure.kind.value, content, samples),
    )


def record_of(number: int, unit: str | bytes, kernel: str | bytes, content: str, samples: bytes) -> TimingRecord:
    """The record with this number. Raises ValueError for what `values_of` did not write."""
    record = _adapter().validate_json(content)
    report = record.report
    if report is not None:
        blocks = list(_blocks(samples))
        if len(blocks) != len(list(_samples_of(report))):
            raise ValueError("samples are missing")
        left = iter(blocks)
        whole = tuple(
            replace(one, samples=tuple([_filled(kept, *next(left)) for kept in one.samples])) for one in report.measured
        )
        report = replace(report, measured=whole)
    return replace(record, id=number, unit=_name(unit), kernel=_name(kernel), report=report)


def stored_place(record: TimingRecord) -> str | bytes:
    """The value of the column `device`."""
    return stored_name("\n".join(record.place))


@cache
def _adapter() -> TypeAdapter[TimingRecord]:
    """Loaded when a record is read."""
    from pydantic import TypeAdapter

    return TypeAdapter(TimingRecord)


def _name(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def _samples_of(report: Report | None) -> Iterator[Samples]:
    for measured in () if report is None else report.measured:
        yield from measured.samples


def _packed(samples: Samples) -> bytes:
    """How many times and clocks there are, and then they: little-endian."""
    values = array("d", (*samples.times_us, *samples.clocks_mhz))
    if sys.byteorder == "big":
        values.byteswap()
    return _COUNTS.pack(len(samples.times_us), len(samples.clocks_mhz)) + values.tobytes()


def _blocks(packed: bytes) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
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


def _filled(samples: Samples, times_us: tuple[float, ...], clocks_mhz: tuple[float, ...]) -> Samples:
    return replace(samples, times_us=times_us, clocks_mhz=clocks_mhz)
