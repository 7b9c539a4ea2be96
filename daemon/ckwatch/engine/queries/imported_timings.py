"""Imports what others measured into the history, and answers what of it is about a kernel here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from anyio import to_thread

from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.imported import ImportedTimings
from ckwatch.bench.imports.aiter import read_aiter
from ckwatch.bench.imports.kernel_tuner import read_kernel_tuner
from ckwatch.bench.imports.matching import InstanceIndex, is_for_arch, matched, sizes_key
from ckwatch.bench.imports.records import (
    FormatName,
    ImportedTiming,
    ImportedTimingsFile,
    ReadTimings,
    TimingsFileError,
    arch_of,
)
from ckwatch.core.events import TimingsImported
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Kernel
from ckwatch.model.unit_patterns import unknown_kernel
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file
from ckwatch.wire.imported_timings import MatchedKernel, TimingsImport
from ckwatch.workspace.shapes import find_shape

SOURCES: dict[FormatName, str] = {"aiter": "AITER", "kernel-tuner": "Kernel Tuner"}
"""Whose timings a file has if nothing else is said."""

UNUSED_SHOWN = 1000


class ImportedTimingsQueries:
    """Imported timings, about the workspace as it is on disk."""

    def __init__(self, loop: EngineLoop, history: HistoryRecorder, lookup: UnitLookup) -> None:
        self._loop = loop
        self._history = history
        self._lookup = lookup

    async def import_file(
        self,
        path: str,
        format: FormatName | None = None,  # noqa: A002  # as the option is called
        source: str | None = None,
        kernel: str | None = None,
        device: str | None = None,
    ) -> TimingsImport:
        """Read a file and keep its timings. Raises CkwatchError for one that has none, HistoryError."""
        await self._lookup.loaded()
        stored, kernels, at = self._stored(), list(self._kernels().values()), time.time()
        if kernel is not None:
            self._kernel(kernel)

        def work() -> TimingsImport:
            form, read = _read(path, format, kernel or "", device or "")
            if not read.records:
                raise CkwatchError(f"{path} has no timings that can be used", _why_none(read))
            imported = ImportedTimingsFile(path=path, format=form, source=source or SOURCES[form], imported_at=at)
            stored.replace(imported, read.records)
            return _report(imported, read, kernels)

        found = await to_thread.run_sync(work)
        await self._loop.post(TimingsImported(at=at))
        return found

    async def timings(self, kernel: str | None, shape: str | None, arch: str | None) -> list[ImportedTiming]:
        """Return the timings about a kernel, or all, the fastest first. Raises CkwatchError for an unknown one."""
        await self._lookup.loaded()
        stored = self._stored()
        if kernel is None:
            every = await to_thread.run_sync(stored.every)
            return [one for one in every if arch is None or is_for_arch(one, arch)]
        known = self._kernel(kernel)
        shapes = known.shapes if shape is None else (find_shape(known, shape),)
        known = known if shape is None else replace(known, shapes=shapes)

        def work() -> list[ImportedTiming]:
            rows = stored.about(known.name, {sizes_key(one.sizes) for one in shapes})
            rows = [one for one in rows if arch is None or is_for_arch(one, arch)]
            return sorted(chain(*matched(rows, known, InstanceIndex(known))), key=lambda one: one.time_us)

        return await to_thread.run_sync(work)

    async def files(self) -> list[ImportedTimingsFile]:
        """The files that timings were imported from, the last one first. Raises HistoryError."""
        stored = self._stored()

        def work() -> list[ImportedTimingsFile]:
            devices: dict[str, Counter[str]] = {}
            for one in stored.every():
                devices.setdefault(one.file, Counter())[one.device] += 1
            return [_file(one, devices.get(one.path, Counter())) for one in stored.sources()]

        return await to_thread.run_sync(work)

    async def remove(self, path: str) -> None:
        """Drop what was imported from a file. Raises CkwatchError where nothing was, HistoryError."""
        if not await to_thread.run_sync(self._stored().remove, path):
            raise CkwatchError(
                f"no timings were imported from {path}", "`ckwatch import timings --list` lists the files"
            )
        await self._loop.post(TimingsImported())

    def _stored(self) -> ImportedTimings:
        stored = self._history.imported
        if stored is None:
            raise HistoryError(self._history.problem or "the history cannot be used")
        return stored

    def _kernels(self) -> dict[str, Kernel]:
        return {one.kernel.name: one.kernel for one in self._loop.state.main.kernels.values()}

    def _kernel(self, name: str) -> Kernel:
        kernels = self._kernels()
        if name not in kernels:
            raise unknown_kernel(kernels, name)
        return kernels[name]


def _read(path: str, given: FormatName | None, kernel: str, device: str) -> tuple[FormatName, ReadTimings]:
    try:
        text = read_file(path, SIDE_FILE_LIMIT_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise CkwatchError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise CkwatchError(f"{path} is not UTF-8") from None
    form: FormatName = given or ("kernel-tuner" if text.lstrip().startswith("{") else "aiter")
    try:
        if form == "aiter":
            read = read_aiter(text)
            records = [
                replace(one, for_kernel=kernel, device=one.device or device, arch=one.arch or arch_of(device))
                for one in read.records
            ]
            return form, replace(read, records=tuple(records))
        return form, read_kernel_tuner(text, kernel, device)
    except TimingsFileError as error:
        hint = {
            "aiter": "one is aiter/configs/a8w8_tuned_gemm.csv of AITER",
            "kernel-tuner": "Kernel Tuner writes one with cache=; a T4 file needs --kernel",
        }
        raise CkwatchError(f"{path} is not a file of {SOURCES[form]}: {error}", hint[form]) from None


def _why_none(read: ReadTimings) -> str | None:
    if read.left_out:
        return f"line {read.left_out[0].line}: {read.left_out[0].why}"
    return "all of its configurations have failed" if read.failed else None


def _report(source: ImportedTimingsFile, read: ReadTimings, kernels: Iterable[Kernel]) -> TimingsImport:
    matches = {}
    for kernel in kernels:
        found = [bool(first.instances) for first, *_ in matched(read.records, kernel, InstanceIndex(kernel))]
        if found:
            matches[kernel.name] = MatchedKernel(timings=len(found), instances=sum(found))
    return TimingsImport(
        file=_file(source, Counter(one.device for one in read.records)),
        matches=matches,
        unused=read.left_out[:UNUSED_SHOWN],
        unused_count=len(read.left_out),
        failed=dict(read.failed),
    )


def _file(source: ImportedTimingsFile, devices: Counter[str]) -> ImportedTimingsFile:
    return replace(source, timings=devices.total(), devices=dict(devices.most_common()))
