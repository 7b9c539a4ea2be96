"""Timings that others measured, as clients see them: always with their source, never among the timings taken here."""

from __future__ import annotations

from dataclasses import field

from ckwatch.bench.imports.records import FormatName, ImportedTimingsFile, LeftOut
from ckwatch.model.kernels import ParameterValue
from ckwatch.wire.values import Value


class ImportedTiming(Value):
    """A timing that was imported, on a shape of a kernel here.

    `source` says whose it is, `device` where it was measured: a part (`MI300X`) where it is known, else what the source
    says; `arch` is empty where it is not known. `kernel` and `instance` are names in the source; `parameters` and
    `runtime` (`kBatch`) are those that it gives, under CK's names where they are CK's. `sizes` are the problem's,
    `dtype` the operands', empty where the source does not say it. `shape` is a shape's name in the kernel file, empty
    where no kernel was asked for; `instances` are those of the kernel file that have all these parameters. `file`: what
    it was imported from, at `imported_at` (Unix seconds).
    """

    source: str
    format: FormatName
    device: str
    arch: str
    time_us: float
    kernel: str
    instance: str
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    runtime: dict[str, int | float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    dtype: str = ""
    shape: str = ""
    instances: tuple[str, ...] = ()
    file: str
    imported_at: float


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
