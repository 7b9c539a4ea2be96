"""A client whose daemon is made up: it says what a test gives it. Every timing in it is the test's invention."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.imports.records import ImportedTimingsFile
from ckwatch.cli import main, session
from ckwatch.client import Client
from ckwatch.engine.timings_to_wire import record_details_to_wire, record_to_wire
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.timings import Timing
from ckwatch.wire.benchmarks import Baseline, BenchLine, Compared, Devices, RankedTiming, TimingDetail
from ckwatch.wire.imported_timings import ImportedTiming, TimingsImport
from ckwatch.wire.state import Status, Unit, WorkspaceDetail
from ckwatch.wire.unit_changes import UnitChange, UpgradeLine
from ckwatch.wire.verification import VerifyLine
from fakes.fake_engine import unit_of
from fakes.fake_imported_timings import imported_file


class TimingClient:
    """`asked` holds calls as (name, *arguments); `fault` is raised by the next one that asks for timings."""

    def __init__(self, root: Path, *units: str) -> None:
        self.root = root
        self.asked: list[tuple[object, ...]] = []
        self.fault: CkwatchError | None = None
        self.there = [unit_of(unit) for unit in units]
        self.records: list[TimingRecord] = []
        self.lines: list[BenchLine] = []
        self.verified: tuple[VerifyLine, ...] = ()
        """Between `start` and `done`."""
        self.changes: list[UnitChange] = []
        self.found = Devices(devices=())
        self.ranked: list[RankedTiming] = []
        self.compared: list[Compared] = []
        self.known: list[Baseline] = []
        self.imported: list[ImportedTiming] = []
        self.files: list[ImportedTimingsFile] = []
        self.report = TimingsImport(file=imported_file())
        self.left_bench = False
        self.no_compiler: str | None = None
        self.warnings: dict[str, str] = {}
        self.mistakes: dict[str, tuple[Diagnostic, ...]] = {}
        """Of units, by their ids."""

    def _ask(self, *call: object) -> None:
        self.asked.append(call)
        if self.fault is not None:
            raise self.fault

    async def sync(self) -> None: ...

    async def status(self) -> Status:
        return Status(
            version="0", pid=1, root=str(self.root), started_at=0.0, uptime_s=0.0, seq=1, unit_count=1, phases={},
            outcomes={}, busy=False, clients=1, memory_bytes=0, idle_exit_s=0.0, log_file=None, toolchain=None,
            warnings=self.warnings,
        )  # fmt: skip

    async def workspace(self) -> WorkspaceDetail:
        return WorkspaceDetail(
            root=str(self.root), problem=None, diagnostics=(), files=(), template_folders=(), toolchain=None,
            toolchain_problem=self.no_compiler,
        )  # fmt: skip

    async def unit(self, unit: str) -> SimpleNamespace:
        return SimpleNamespace(diagnostics=self.mistakes.get(unit, ()))

    async def units(self, *patterns: str) -> list[Unit]:
        if not patterns:
            return self.there
        found = [unit for unit in self.there if any(unit.id.startswith(pattern) for pattern in patterns)]
        if not found:
            raise UnknownUnitError(f"no kernel, instance or unit is called '{patterns[0]}'")
        return found

    async def devices(self, *, again: bool = False) -> Devices:
        self._ask("devices", again)
        return self.found

    @asynccontextmanager
    async def bench(
        self,
        *patterns: str,
        shapes: Iterable[str] | None,
        device: str | None,
        force: bool = False,
        flush_instructions: bool = False,
    ) -> AsyncIterator[AsyncIterator[BenchLine]]:
        self._ask("bench", patterns, shapes, device, force, *["flush"] * flush_instructions)

        async def lines() -> AsyncIterator[BenchLine]:
            for line in self.lines:
                yield line
            yield BenchLine(event="done")

        try:
            yield lines()
        finally:
            self.left_bench = True

    @asynccontextmanager
    async def verifying(
        self,
        *patterns: str,
        shapes: Sequence[str] = (),
        force: bool = False,
        against: str | None = None,
        seed: int | None = None,
    ) -> AsyncIterator[AsyncIterator[VerifyLine]]:
        self._ask("verify", patterns, *shapes, *((force,) if against is None else (against, seed)))

        async def lines() -> AsyncIterator[VerifyLine]:
            yield VerifyLine(event="start", units=len(self.there))
            for line in self.verified:
                yield line
            yield VerifyLine(event="done")

        yield lines()

    @asynccontextmanager
    async def upgrading(self, *patterns: str, to: str, verify: bool) -> AsyncIterator[AsyncIterator[UpgradeLine]]:
        self._ask("upgrade", patterns, to, verify)

        async def lines() -> AsyncIterator[UpgradeLine]:
            yield UpgradeLine(event="start", units=len(self.there), before="ROCm 7.2.4 at /a", after="ROCm 7.14 at /b")
            for change in self.changes:
                yield UpgradeLine(event="stage", unit=change.unit, text="compiling with the other toolchain")
                yield UpgradeLine(event="unit", unit=change.unit, change=change)
            yield UpgradeLine(event="done")

        yield lines()

    async def timings(self, unit: str, shape: str | None = None, limit: int = 50) -> list[Timing]:
        self._ask("timings", unit, shape, limit)
        mine = [one for one in self.records if one.unit == unit and shape in (None, one.shape)]
        if not mine and unit not in {one.id for one in self.there}:
            raise UnknownUnitError(f"no kernel, instance or unit is called '{unit}'")
        return [row for one in reversed(mine[-limit:]) for row in record_to_wire(one, "a1")]

    async def timing(self, number: int) -> list[TimingDetail]:
        self._ask("timing", number)
        return [row for one in self.records if one.id == number for row in record_details_to_wire(one, "a1")]

    async def best(self, kernel: str, shape: str | None = None, cache: str | None = None) -> list[RankedTiming]:
        self._ask("best", kernel, shape, *([cache] if cache else []))
        return self.ranked

    async def compare(self, unit: str, against: str, shape: str | None = None) -> list[Compared]:
        self._ask("compare", unit, against, shape)
        return self.compared

    async def set_baseline(self, name: str, *patterns: str) -> list[str]:
        self._ask("set_baseline", name, patterns)
        return [unit.id for unit in await self.units(*patterns)]

    async def baselines(self) -> list[Baseline]:
        self._ask("baselines")
        return self.known

    async def remove_baseline(self, name: str) -> int:
        self._ask("remove_baseline", name)
        return 3

    async def import_timings(self, path: str, *given: str | None) -> TimingsImport:
        self._ask("import_timings", path, *given)
        return self.report

    async def imported_timings(self, kernel: str, shape: str | None = None) -> list[ImportedTiming]:
        self._ask("imported_timings", kernel, shape)
        return self.imported

    async def imported_files(self) -> list[ImportedTimingsFile]:
        self._ask("imported_files")
        return self.files

    async def remove_imported(self, path: str) -> None:
        self._ask("remove_imported", path)

    def run(self, *arguments: str) -> int:
        """Run a command that connects to this client, and return its exit status."""
        return main([*arguments], connected=connecting_to(self))

    def of(self, call: str) -> list[tuple[object, ...]]:
        """The arguments of the calls of one name."""
        return [asked[1:] for asked in self.asked if asked[0] == call]


Connect = Callable[[argparse.Namespace, Path], AbstractAsyncContextManager[TimingClient]]


def connecting_to(client: TimingClient) -> Connect:
    """In place of `ckwatch.cli.session.connected`."""

    @asynccontextmanager
    async def connected(options: argparse.Namespace, start: Path) -> AsyncIterator[TimingClient]:
        archs = tuple(getattr(options, "arch", ()))  # not every command takes them
        no_daemon = getattr(options, "no_daemon", False)
        client.asked.append(("connected", start, archs, no_daemon, options.trust))
        yield client

    return connected


class _KnowingClient:
    """Answers `best` with given timings, and everything else as the client does."""

    def __init__(self, client: Client, known: list[RankedTiming]) -> None:
        self._client = client
        self._known = known

    async def best(self, *_: object, **_options: object) -> list[RankedTiming]:
        return self._known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def knowing(known: list[RankedTiming], connected: Callable[..., Any] = session.connected) -> Callable[..., Any]:
    """As `connected`; the history of the workspace has these timings."""

    @asynccontextmanager
    async def to_client(options: argparse.Namespace, start: Path) -> AsyncIterator[_KnowingClient]:
        async with connected(options, start) as client:
            yield _KnowingClient(client, known)

    return to_client


def numbered(records: Sequence[TimingRecord]) -> list[TimingRecord]:
    """The records as a history would have numbered them."""
    from dataclasses import replace

    return [replace(record, id=number) for number, record in enumerate(records, 1)]
