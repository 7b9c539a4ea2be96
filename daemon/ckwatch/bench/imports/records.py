"""The content of another tuner's file: timings with their source, and what could not be used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass

PARTS: Mapping[tuple[str, int], str] = {
    ("gfx942", 304): "MI300X",
    ("gfx942", 228): "MI300A",
    ("gfx942", 80): "MI308X",
    ("gfx950", 256): "MI355X",
}
"""AMD's parts by arch and compute units, as their data sheets count them."""

_ARCHS: Mapping[str, tuple[str, ...]] = {
    "gfx90a": ("MI210", "MI250", "MI250X"),
    "gfx942": ("MI300A", "MI300X", "MI308X", "MI325X"),
    "gfx950": ("MI350X", "MI355X"),
    "sm_80": ("A100",),
    "sm_86": ("A10",),
    "sm_89": ("L4", "L40S"),
    "sm_90": ("H100", "H200", "GH200"),
    "sm_100": ("B200",),
}


class TimingsFileError(ValueError):
    """A text that has no timings of this format; the message is why."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that was not used: its `line`, counted from one, and `why`."""

    line: int
    why: str


FormatName = Literal["aiter", "kernel-tuner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTimingsFile:
    """A file that timings were imported from (its absolute path), whose they are, and how many there are of each
    device. `imported_at` is in Unix seconds."""

    path: str
    format: FormatName
    source: str
    timings: int = 0
    devices: Mapping[str, int] = field(default_factory=dict)
    imported_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTiming:
    """A timing that someone else measured; nothing of it was measured here.

    `source` says whose it is, `device` where it was measured: a part (`MI300X`) where it is known, else what the source
    says; `arch` is empty where it is not known. `kernel` and `instance` are names in the source; `parameters` and
    `runtime` (`kBatch`) are those that it gives, under CK's names where they are CK's, empty where only the instance's
    name is known. `sizes` are the problem's, by the names of size arguments (`M`, `N`, `K`, `B`), or `x`, `y`, `z`
    where the source does not name them; `dtype` is the operands', empty where the source does not say it. `shape` is a
    shape's name in the kernel file, empty where no kernel was asked for; `instances` are those of the kernel file that
    have all these parameters. `file`: what it was imported from, at `imported_at` (Unix seconds). `for_kernel`: the
    kernel here that it is about, empty where its operation tells that.
    """

    source: str = ""
    format: FormatName = "aiter"
    device: str = ""
    arch: str = ""
    time_us: float
    kernel: str
    instance: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    runtime: Mapping[str, int | float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    dtype: str = ""
    shape: str = ""
    instances: tuple[str, ...] = ()
    file: str = ""
    imported_at: float = 0.0
    for_kernel: str = ""


@dataclass(frozen=True, slots=True)
class ReadTimings:
    """The timings in a file, the rows that were left out, and how many runs had `failed` where it was measured."""

    records: tuple[ImportedTiming, ...]
    left_out: tuple[LeftOut, ...] = ()
    failed: Mapping[str, int] = field(default_factory=dict)


def shown(text: str) -> str:
    """Quote a file's text for a message."""
    return text if len(text) <= 60 else text[:59] + "…"


def arch_of(device: str) -> str:
    """The arch of a device that is called by its product's name, as drivers do; empty where it is not known."""
    words = set(re.split(r"[^A-Z0-9]+", device.upper()))
    return next((arch for arch, parts in _ARCHS.items() if not words.isdisjoint(parts)), "")
