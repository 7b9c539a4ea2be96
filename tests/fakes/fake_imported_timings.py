"""Imported timings in memory: what is asked is noted in the engine's list. No figure here was measured by anyone."""

from __future__ import annotations

from typing import Any

from ckwatch.bench.imports.records import ImportedTimingsFile
from ckwatch.wire.imported_timings import ImportedTiming


def imported_timing(**fields: Any) -> ImportedTiming:
    """A timing of test data."""
    values: dict[str, Any] = {
        "source": "AITER", "format": "aiter", "device": "MI300X", "arch": "gfx942", "time_us": 15.1,
        "kernel": "a8w8_rowwise", "instance": "theirs", "sizes": {"M": 128, "N": 128, "K": 128}, "shape": "test",
        "file": "/their.csv", "imported_at": 1.0,
    }  # fmt: skip
    return ImportedTiming(**(values | fields))


def imported_file(path: str = "/their.csv") -> ImportedTimingsFile:
    """A file of test data."""
    return ImportedTimingsFile(
        path=path, format="aiter", source="AITER", timings=1, devices={"MI300X": 1}, imported_at=1.0
    )
