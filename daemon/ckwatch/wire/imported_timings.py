"""Timings that others measured, as clients see them: always with their source, never among the timings taken here."""

from __future__ import annotations

from dataclasses import field

from ckwatch.bench.imports.records import FormatName as FormatName
from ckwatch.bench.imports.records import ImportedTiming as ImportedTiming
from ckwatch.bench.imports.records import ImportedTimingsFile, LeftOut
from ckwatch.wire.values import Value


class MatchedKernel(Value):
    """How many timings of a file are of a shape of this kernel, and how many of one of its instances too."""

    timings: int
    instances: int


class TimingsImport(Value):
    """The result of importing a file: its timings, and by kernels here how many match.

    `unused` are the first rows that were left out, of `unused_count` in all; `failed` counts, by how they did, the
    configurations that failed where it was measured.
    """

    file: ImportedTimingsFile
    matches: dict[str, MatchedKernel] = field(default_factory=dict)
    unused: tuple[LeftOut, ...] = ()
    unused_count: int = 0
    failed: dict[str, int] = field(default_factory=dict)
