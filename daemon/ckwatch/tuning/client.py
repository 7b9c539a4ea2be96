"""The client interface that a tuning run needs; `ckwatch.client.Client` is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.benchmarks import BenchLine, Devices, RankedTiming
    from ckwatch.wire.imported_timings import ImportedTiming
    from ckwatch.wire.state import Unit

TRIES = 3
"""How often what the daemon or the machine failed to do is tried."""

RETRY_S = 1.0


class TuningUnit(Protocol):
    """A unit that has settled; `problem` says why it has none."""

    @property
    def unit(self) -> Unit | None: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def first_error(self) -> Diagnostic | None: ...
    @property
    def skipped(self) -> bool: ...


class TuningBuild(Protocol):
    """The result of a build."""

    @property
    def units(self) -> Sequence[TuningUnit]: ...


class TextOverlay(Protocol):
    """Text below that of a file, in the view of one client."""

    async def change(self, text: str) -> None: ...


class TuningClient(Protocol):
    """A connection to the daemon, with a view of its own."""

    root: Path

    async def build(self, *patterns: str) -> TuningBuild: ...

    def bench(
        self, *patterns: str, shapes: Iterable[str] | None, device: str | None, race: bool, limit_us: float | None
    ) -> AbstractAsyncContextManager[AsyncIterator[BenchLine]]: ...

    def adding_to(self, path: str) -> AbstractAsyncContextManager[TextOverlay]: ...

    async def devices(self) -> Devices: ...

    async def best(self, kernel: str) -> Sequence[RankedTiming]: ...

    async def imported_timings(self, kernel: str, *, arch: str) -> Sequence[ImportedTiming]: ...
