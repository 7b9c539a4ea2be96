"""An engine in memory: it records what it is asked, and changes what a test tells it to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.core.events import AutoBuild, ViewOverrides
from ckwatch.model.errors import UnknownUnitError
from ckwatch.wire.analysis import Analysis, Calibrated, Isa, OccupancySteps, PredictedRanking
from ckwatch.wire.messages import (
    Artifact,
    BuildLine,
    RenderedText,
    Run,
    Status,
    TimeTrace,
    UnitDetail,
    WorkspaceDetail,
)
from ckwatch.wire.state import Change, Figures, File, Position, Snapshot, Span, Unit, Workspace
from ckwatch.wire.verification import UnitVerification
from fake_benchmarks import FakeBenchmarks
from fake_imported_timings import FakeImportedTimings
from fake_language import FakeCpp, FakeLanguage
from fake_verifications import FakeVerifications, unit_verification

HERE = Span(path="/w/a b.kernel.toml", start=Position(line=1, column=2), end=Position(line=1, column=5))


def unit_of(name: str = "gemm/m128@gfx942", **fields: Any) -> Unit:
    """A unit, built unless `fields` say otherwise."""
    kernel, _, rest = name.partition("/")
    instance, _, arch = rest.partition("@")
    values: dict[str, Any] = {
        "id": name, "kernel": kernel, "instance": instance, "arch": arch, "place": HERE, "phase": "done",
        "outcome": "built", "fresh": True, "generation": 1, "errors": 0, "warnings": 0,
    }  # fmt: skip
    return Unit(**(values | fields))


def figures_of(**fields: Any) -> Figures:
    """What a code object with one kernel tells, unless `fields` say otherwise."""
    values: dict[str, Any] = {
        "artifact_key": "ab.cd", "standing": "fresh", "kernel": "gemm<full>", "kernels": 1, "vgprs": 194, "agprs": 0,
        "sgprs": 50, "vgpr_spills": 0, "sgpr_spills": 0, "scratch_bytes": 0, "lds_bytes": 32768, "occupancy": 2,
        "limited_by": "VGPR", "next_step": "26 VGPR fewer → 3 waves", "matrix_use": 0.92, "loop_clocks": 278.0,
        "headline": "194 VGPR, 32768 B LDS, 2 waves/SIMD (VGPR), MFMA use 92 % predicted",
    }  # fmt: skip
    return Figures(**(values | fields))


class FakeEngine:
    """`asked` holds calls as (name, *arguments)."""

    def __init__(self, *names: str) -> None:
        self.seq = 0
        self.oldest = 0
        """Numbers before this one get a reset."""
        self.asked: list[tuple[Any, ...]] = []
        self.busy = False
        self.fault: Exception | None = None
        """Raised by the next call."""
        self.fault_in_build: Exception | None = None
        """Raised after `lines`."""
        self.states: dict[str, tuple[int, Unit | File | Workspace | None]] = {}
        self.lines: list[BuildLine] = []
        self.endless = False
        self.traced = True
        """Whether time traces end, with `fault_in_trace` where it is given."""
        self.fault_in_trace: Exception | None = None
        self.tracing = 0
        self.building = 0
        self.waiting = 0
        """Followers that wait for a change."""
        self.idle_exit_s = 0.0
        self.listing = ""
        self.benchmarks = FakeBenchmarks(self._ask)
        self.imported = FakeImportedTimings(self._ask)
        self.verifications = FakeVerifications(self._ask)
        self.language = FakeLanguage(self._ask)
        self.cpp = FakeCpp(self._ask)
        self.changed = anyio.Event()
        for name in names or ("gemm/m128@gfx942",):
            self.change(f"unit/{name}", unit_of(name))

    def change(self, topic: str, state: Unit | File | Workspace | None) -> int:
        """A new state; returns its number."""
        self.seq += 1
        self.states[topic] = (self.seq, state)
        self.moved()
        return self.seq

    def moved(self) -> None:
        """Wake whoever waits for something to happen here."""
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, *calls: str) -> None:
        """Wait until the calls were made."""
        while not {call[0] for call in self.asked} >= set(calls):
            await self.changed.wait()

    async def until_building(self, count: int) -> None:
        """Wait until so many builds run."""
        while self.building != count:
            await self.changed.wait()

    async def until_waiting(self, count: int) -> None:
        """Wait until so many followers wait for the next change."""
        while self.waiting != count:
            await self.changed.wait()

    def of(self, call: str) -> list[tuple[Any, ...]]:
        """The arguments of the calls of one name."""
        return [asked[1:] for asked in self.asked if asked[0] == call]

    def _ask(self, *call: Any) -> None:
        self.asked.append(call)
        self.moved()
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault

    def _unit(self, name: str) -> Unit:
        _, state = self.states.get(f"unit/{name}", (0, None))
        if not isinstance(state, Unit):
            raise UnknownUnitError(f"no unit is called `{name}`", "`ckwatch status` lists them.")
        return state

    async def status(self) -> Status:
        self._ask("status")
        return Status(
            version="0", pid=1, root="/w", started_at=1.5, uptime_s=2.5, seq=self.seq, unit_count=1, phases={"done": 1},
            outcomes={"built": 1}, busy=self.busy, clients=0, memory_bytes=3, idle_exit_s=self.idle_exit_s, log_file=None,
            toolchain=None, warnings={},
        )  # fmt: skip

    async def snapshot(self, client: str | None) -> Snapshot:
        self._ask("snapshot", client)
        return Snapshot(seq=self.seq, states={topic: state for topic, (_, state) in self.states.items() if state})

    async def changes(self, client: str | None, after: int) -> list[Change]:
        self._ask("changes", client, after)
        if after > self.seq or after < self.oldest:
            return [Change(seq=self.seq, topic="reset")]
        while True:
            newer = sorted((seq, topic, state) for topic, (seq, state) in self.states.items() if seq > after)
            if newer:
                return [Change(seq=seq, topic=topic, state=state) for seq, topic, state in newer]
            self.waiting += 1
            changed = self.changed
            self.moved()
            try:
                await changed.wait()
                while self.seq == after:
                    await self.changed.wait()
            finally:
                self.waiting -= 1
                self.moved()

    async def units(self, client: str | None, patterns: Sequence[str] | None) -> list[Unit]:
        self._ask("units", client, patterns)
        units = [state for _, state in self.states.values() if isinstance(state, Unit)]
        return [unit for unit in units if patterns is None or unit.kernel in patterns]

    async def unit(self, client: str | None, unit: str) -> UnitDetail:
        self._ask("unit", client, unit)
        return UnitDetail(
            unit=self._unit(unit), parameters={"MPerBlock": 128}, parameter_places={"MPerBlock": HERE},
            template="/w/gemm.hip.j2", reads={}, missed=(), headers=3, token_key="a" * 2, standing="built", cause=(),
            diagnostics=(),
        )  # fmt: skip

    async def rendered(self, client: str | None, unit: str, *, with_map: bool) -> RenderedText:
        self._ask("rendered", client, unit, with_map)
        return RenderedText(unit=self._unit(unit).id, text="int a = 1; // ü\n", map=() if with_map else None)

    async def artifact(self, client: str | None, unit: str) -> Artifact | None:
        self._ask("artifact", client, unit)
        found = self._unit(unit)
        if found.outcome != "built":
            return None
        return Artifact(
            unit=unit, key="ab", fresh=True, outcome="built", folder="/s/ab", symbol="ck_gemm",
            products={"shared-object": "/s/ab/kernel.so"}, commands=(("hipcc", "-c"),), log="",
        )  # fmt: skip

    async def verification(self, client: str | None, unit: str) -> UnitVerification:
        self._ask("verification", client, unit)
        return unit_verification(unit=unit)

    async def runs(self, unit: str, limit: int) -> list[Run]:
        self._ask("runs", unit, limit)
        run = Run(outcome="built", key=self._unit(unit).id, finished_at=1, seconds=2, from_store=False, cause=())
        return [run] * min(limit, 3)

    async def analysis(self, client: str | None, unit: str) -> Analysis:
        self._ask("analysis", client, self._unit(unit).id)
        return Analysis(unit=unit, artifact_key="ab", fresh=True, report=CodeObjectReport(arch="gfx942", kernels=()))

    async def occupancy_steps(self, client: str | None, unit: str) -> OccupancySteps:
        self._ask("occupancy_steps", client, self._unit(unit).id)
        return OccupancySteps(unit=unit, artifact_key="ab")

    async def isa(self, client: str | None, unit: str, symbol: str | None, *, lines: bool) -> Isa:
        self._ask("isa", client, self._unit(unit).id, symbol, lines)
        kernel = symbol or "main"
        text = self.listing or f"{kernel}: 1 instruction\n  000000  s_endpgm\n"
        return Isa(
            unit=unit, artifact_key="ab", fresh=True, kernel=kernel, kernels=(kernel,), text=text, has_lines=lines
        )

    async def calibration(self) -> Calibrated:
        self._ask("calibration")
        return Calibrated()

    async def predicted(self, kernel: str, shape: str, arch: str | None, part: str) -> PredictedRanking:
        self._ask("predicted", kernel, shape, arch, part)
        return PredictedRanking(
            kernel=kernel,
            shape=shape,
            arch=arch or "gfx942",
            part=part or "MI300X",
            cache="cold",
            rows=(),
            measured_us={},
        )

    async def workspace(self, client: str | None) -> WorkspaceDetail:
        self._ask("workspace", client)
        return WorkspaceDetail(
            root="/w", problem=None, diagnostics=(), files=("/w/ckwatch.toml",), template_folders=("/w",),
            toolchain="clang 22", toolchain_problem=None,
        )  # fmt: skip

    async def runner(self, client: str | None, unit: str, path: str) -> None:
        self._ask("runner", client, self._unit(unit).id, path)

    async def time_trace(self, client: str | None, unit: str, path: str | None) -> TimeTrace:
        self._ask("time_trace", client, self._unit(unit).id, path)
        self.tracing += 1
        self.moved()
        try:
            while not self.traced:  # `moved` tells
                await self.changed.wait()
        finally:
            self.tracing -= 1
            self.moved()
        if self.fault_in_trace is not None:
            raise self.fault_in_trace
        return TimeTrace(unit=unit, granularity_us=100, path=path)

    async def file(self, client: str | None, path: str) -> File:
        self._ask("file", client, path)
        return File(path=path, diagnostics=())

    @asynccontextmanager
    async def build(
        self, client: str | None, patterns: Sequence[str] | None, *, force: bool, check_only: bool, finish: bool = False
    ) -> AsyncIterator[AsyncIterator[BuildLine]]:
        self._ask("build", client, patterns, force, check_only, *(["finish"] if finish else []))
        for pattern in patterns or ():
            self._unit(pattern)
        self.building += 1
        self.moved()

        async def lines() -> AsyncIterator[BuildLine]:
            for line in self.lines:
                yield line
            if self.fault_in_build:
                raise self.fault_in_build
            if self.endless:
                await anyio.sleep_forever()
            yield BuildLine(event="done")

        try:
            yield lines()
        finally:
            self.building -= 1
            self.moved()

    async def cancel(self, client: str | None, patterns: Sequence[str] | None) -> list[str]:
        self._ask("cancel", client, patterns)
        return [unit.id for unit in await self.units(client, patterns)]

    async def overlay(self, client: str, path: str, text: str | None) -> None:
        self._ask("overlay", client, path, text)

    async def focus(
        self, client: str, patterns: Sequence[str], files: Sequence[str], *, everything: bool, unsaved: AutoBuild
    ) -> None:
        self._ask("focus", client, list(patterns), list(files), everything, unsaved.value)

    async def view(self, client: str, options: ViewOverrides) -> None:
        self._ask("view", client, options)

    async def editor(self, client: str, *, shows: bool) -> None:
        self._ask("editor", client, shows)

    async def show(self, path: str, line: int, column: int) -> int:
        self._ask("show", path, line, column)
        return 2

    async def forget(self, client: str) -> None:
        self._ask("forget", client)

    async def log(self, lines: int) -> str:
        self._ask("log", lines)
        return "a line\nund noch eine: ü\n"

    def stop(self) -> None:
        """What a server is given to end itself by."""
        self._ask("stop")
