"""Imported timings in memory: what is asked is noted in the engine's list. No figure here was measured by anyone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ckwatch.wire.imported_timings import ImportedTiming, ImportedTimingsFile, ImportTimingsRequest, TimingsImport


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


class FakeImportedTimings:
    """Fits `ckwatch.server.engine_api.ImportedTimingsEngine`; `ask` notes a call and raises what a test wants raised."""

    def __init__(self, ask: Callable[..., None]) -> None:
        self._ask = ask

    async def import_file(self, request: ImportTimingsRequest) -> TimingsImport:
        self._ask("import_timings", request)
        return TimingsImport(file=imported_file(request.path))

    async def timings(self, kernel: str | None, shape: str | None, arch: str | None) -> list[ImportedTiming]:
        self._ask("imported_timings", kernel, shape, arch)
        return [imported_timing()]

    async def files(self) -> list[ImportedTimingsFile]:
        self._ask("imported_files")
        return [imported_file()]

    async def remove(self, path: str) -> None:
        self._ask("remove_imported", path)
