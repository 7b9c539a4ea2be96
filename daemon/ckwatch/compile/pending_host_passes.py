"""Host passes that have ended and wait for their device pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ckwatch.compile.build_events import OnBuildEvent
from ckwatch.compile.request import CompileRequest, CompilerToolchain, CompileStatus
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import StoreError
from ckwatch.compile.store.header_sets import HeaderObserver, PathRoots
from ckwatch.compile.work_folder import remove_work_folder
from ckwatch.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ckwatch.compile.staged_build import PendingHostPass, StagedCompiler

LIMIT = 64
"""So many are kept, about 200 kB each."""


@dataclass(frozen=True, slots=True)
class HostPassReport:
    """The report of the host pass alone. `transient`: it could not be run, which says nothing about the kernel."""

    ok: bool
    log: str
    transient: bool


class PendingHostPasses:
    """By the key of what was compiled. One event loop's; a key is one task's at a time."""

    def __init__(self, toolchain: CompilerToolchain, store: ArtifactStore) -> None:
        self._toolchain = toolchain
        self._store = store
        self._roots = PathRoots(toolchain.roots)
        self._kept: dict[str, PendingHostPass] = {}

    async def check(
        self, key: str, request: CompileRequest, ladder: StagedCompiler, on_event: OnBuildEvent
    ) -> HostPassReport | None:
        """Run the host pass unless it is kept, and keep it; None where a compile cannot be taken apart."""
        checked = await self.take(key, request) or await self._run(request, ladder, on_event)
        if checked is None:
            return None
        failure = checked.host.failure
        transient = failure is not None and failure.status is CompileStatus.TRANSIENT
        if transient:
            await remove_work_folder(checked.folder)
        else:
            await self.keep(key, checked)
        return HostPassReport(checked.ok, checked.host.log, transient)

    async def _run(
        self, request: CompileRequest, ladder: StagedCompiler, on_event: OnBuildEvent
    ) -> PendingHostPass | None:
        try:
            folder = await anyio.to_thread.run_sync(self._store.work_folder)
        except StoreError:
            return None
        checked = None
        try:
            checked = await ladder.check(request, folder, on_event)
        finally:
            if checked is None:
                await remove_work_folder(folder)
        return checked

    async def keep(self, key: str, checked: PendingHostPass) -> None:
        """Keep it and its folder, and remove the oldest beyond the limit."""
        self._kept[key] = checked
        while len(self._kept) > LIMIT:
            await remove_work_folder(self._kept.pop(next(iter(self._kept))).folder)

    async def take(self, key: str, request: CompileRequest) -> PendingHostPass | None:
        """The host pass of this very text, unless a header has changed since. From now on it is the caller's."""
        checked = self._kept.pop(key, None)
        if checked is None:
            return None
        holds = False
        try:
            # Texts that differ in blanks and comments have one key, and messages at other places.
            same = checked.host.job.request.source == request.source
            holds = same and await anyio.to_thread.run_sync(self._holds, checked)
        finally:
            if not holds:
                await remove_work_folder(checked.folder)
        return checked if holds else None

    def _holds(self, checked: PendingHostPass) -> bool:
        if self._store.disturbed(checked.folder):
            return False
        host = checked.host
        folders = (*host.job.request.include_folders, *self._toolchain.include_folders)
        missing = () if host.failure is None else host.failure.missing
        contents = self._store.contents
        observer = HeaderObserver(contents, self._roots)
        headers = observer.observe(host.headers, missing, folders, host.job.begun_ns)
        return headers is not None and headers.holds(contents.look(), self._roots)
