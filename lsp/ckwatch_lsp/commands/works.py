"""Builds and benchmarks that commands have started: which units they cover, and how they are ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from ckwatch.wire.values import Unit
from ckwatch_lsp.commands.progress import Progress
from ckwatch_lsp.folder import Folder

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer


class Work:
    """One of them. `cancelled`: somebody wanted it to end."""

    def __init__(self, folder: Folder, units: Sequence[Unit], report: Callable[[str, int, int], None]) -> None:
        self.folder = folder
        self.units = frozenset(unit.id for unit in units)
        self.report = report
        self.scope = anyio.CancelScope()

    @property
    def cancelled(self) -> bool:
        """Whether it was ended early."""
        return self.scope.cancel_called


class Works:
    """All that go on."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._works: list[Work] = []

    @contextmanager
    def begin(self, title: str, folder: Folder, units: Sequence[Unit]) -> Iterator[Work]:
        """The work goes on as long as the context is open, or until somebody cancels it: then the context is left."""
        scope_of: list[anyio.CancelScope] = []
        progress = Progress(self._server, title, lambda: scope_of[0].cancel())
        work = Work(folder, units, progress.report)
        scope_of.append(work.scope)
        self._works.append(work)
        try:
            with work.scope:
                yield work
        finally:
            self._works.remove(work)
            progress.end()

    def covers(self, folder: Folder, unit: str) -> bool:
        """Whether one of them is about this unit."""
        return any(work.folder is folder and unit in work.units for work in self._works)

    def cancel(self, folder: Folder, units: frozenset[str]) -> None:
        """End those that are about none but these units."""
        for work in self._works:
            if work.folder is folder and work.units <= units:
                work.scope.cancel()


def title_of(what: str, units: Sequence[Unit]) -> str:
    """`Timing gemm_f16/v3`, `Building 12 units of gemm_f16`."""
    if len(units) == 1:
        return f"{what} {units[0].kernel}/{units[0].instance}"
    kernels = {unit.kernel for unit in units}
    return f"{what} {len(units)} units of {' and '.join(sorted(kernels)) if len(kernels) < 3 else 'several kernels'}"
