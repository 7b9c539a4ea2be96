"""An engine in memory: it records what it is asked, and changes what a test tells it to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio

from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.core.events import MAIN
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.figures import Figures
from ckwatch.model.roofline import ProcessorRoof
from ckwatch.model.text import Position, Span
from ckwatch.model.topics import Topic
from ckwatch.questions.clients import ClientQuestions
from ckwatch.questions.endpoint import AnyEndpoint, Question
from ckwatch.questions.table import Answers, answers
from ckwatch.questions.timings import TimingQuestions
from ckwatch.questions.units import UnitQuestions
from ckwatch.questions.workspace import WorkspaceQuestions
from ckwatch.wire.analysis import (
    Analysis,
    Calibrated,
    Isa,
    OccupancySteps,
    PredictedRanking,
    UnitDeviceProfile,
    UnitProfile,
)
from ckwatch.wire.benchmarks import Baseline, BenchLine, Compared, Device, Devices, RankedTiming, TimingDetail
from ckwatch.wire.cpp import CppAnswer
from ckwatch.wire.imported_timings import TimingsImport
from ckwatch.wire.language import (
    KeyDescription,
    ParameterDetail,
    ParameterValue,
    TemplateDetail,
    TemplateName,
    Vocabulary,
    Word,
    WordParameter,
)
from ckwatch.wire.messages import (
    Artifact,
    PlannedUnit,
    RenderedText,
    Run,
    TimeTrace,
    UnitDetail,
    UnsavedText,
)
from ckwatch.wire.requests import EditorRequest, FocusRequest, OverlayRequest, ViewRequest
from ckwatch.wire.rows import Overview, unit_row
from ckwatch.wire.state import BuildLine, Change, File, Snapshot, Status, Unit, Workspace, WorkspaceDetail
from ckwatch.wire.unit_changes import UpgradeLine
from ckwatch.wire.verification import VerifyLine
from fakes.fake_benchmarks import UNIT, timing_of
from fakes.fake_imported_timings import imported_file, imported_timing
from fakes.fake_verifications import unit_verification

Answer = TypeVar("Answer")
Line = TypeVar("Line")

TEMPLATE = "k.hip.j2"
HOVER = {"contents": {"kind": "markdown", "value": "`int`"}, "produced": "", "others": []}
WORDS = Vocabulary(
    hooks=(Word(name="size", signature="size(tensor)", parameters=(WordParameter(name="tensor"),), doc="a size"),),
    filters=(),
    tests=(),
    globals=(),
    tags=(),
    kernel_file=(KeyDescription(path="operation.a.dtype", doc="the element type", type="string", values=('"f16"',)),),
    settings=(),
)
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
    """Return the report of a code object with one kernel, unless `fields` say otherwise."""
    values: dict[str, Any] = {
        "artifact_key": "ab.cd", "standing": "fresh", "kernel": "gemm<full>", "kernels": 1, "vgprs": 194, "agprs": 0,
        "sgprs": 50, "vgpr_spills": 0, "sgpr_spills": 0, "scratch_bytes": 0, "lds_bytes": 32768, "occupancy": 2,
        "limited_by": "VGPR", "next_step": "26 VGPR fewer → 3 waves", "matrix_use": 0.92, "loop_clocks": 278.0,
        "headline": "194 VGPR, 32768 B LDS, 2 waves/SIMD (VGPR), MFMA use 92 % predicted",
    }  # fmt: skip
    return Figures(**(values | fields))


def _unit(engine: FakeEngine, unit: str) -> Unit:
    _, state = engine.states.get(f"unit/{unit}", (0, None))
    if not isinstance(state, Unit):
        raise UnknownUnitError(f"no unit is called `{unit}`", "`ckwatch status` lists them.")
    return state


def _units(engine: FakeEngine, patterns: list[str] | None) -> list[Unit]:
    units = [state for _, state in engine.states.values() if isinstance(state, Unit)]
    return [unit for unit in units if patterns is None or unit.kernel in patterns]


def _unit_detail(engine: FakeEngine, unit: str) -> UnitDetail:
    return UnitDetail(
        unit=_unit(engine, unit), parameters={"MPerBlock": 128}, parameter_places={"MPerBlock": HERE},
        template="/w/gemm.hip.j2", reads={}, missed=(), headers=3, token_key="a" * 2, standing="built", cause=(),
        diagnostics=(),
    )  # fmt: skip


def _artifact(engine: FakeEngine, unit: str) -> Artifact | None:
    if _unit(engine, unit).outcome != "built":
        return None
    return Artifact(
        unit=unit, key="ab", fresh=True, outcome="built", folder="/s/ab", symbol="ck_gemm",
        products={"shared-object": "/s/ab/kernel.so"}, commands=(("hipcc", "-c"),), log="",
    )  # fmt: skip


def _runs(engine: FakeEngine, unit: str, limit: int) -> list[Run]:
    run = Run(outcome="built", key=_unit(engine, unit).id, finished_at=1, seconds=2, from_store=False, cause=())
    return [run] * min(limit, 3)


def _isa(engine: FakeEngine, unit: str, kernel: str | None, lines: bool) -> Isa:
    name = kernel or "main"
    text = engine.listing or f"{name}: 1 instruction\n  000000  s_endpgm\n"
    return Isa(
        unit=_unit(engine, unit).id, artifact_key="ab", fresh=True, kernel=name, kernels=(name,), text=text, has_lines=lines
    )  # fmt: skip


def _template(_engine: FakeEngine, name: str | None, path: str | None) -> TemplateDetail:
    if name not in (None, TEMPLATE):
        raise CkwatchError(f"there is no template '{name}'", "looked in: /w/templates")
    file = path or f"/w/templates/{TEMPLATE}"
    parameter = ParameterDetail(name="Tile", kind="integer", doc="a tile")
    return TemplateDetail(
        name=TEMPLATE, path=file, files={TEMPLATE: file}, parameters=(parameter,), units=("gemm/m128",)
    )


def _values(_engine: FakeEngine, values: list[Any] | None, **_asked: Any) -> list[ParameterValue]:
    found = [ParameterValue(value=one, accepted=one != 96) for one in ([128, 64, 96] if values is None else values)]
    return sorted(found, key=lambda one: not one.accepted)


ANSWERS: dict[AnyEndpoint, Any] = {
    WorkspaceQuestions.status: lambda engine: engine.present_status(),
    WorkspaceQuestions.workspace: WorkspaceDetail(
        root="/w", problem=None, diagnostics=(), files=("/w/ckwatch.toml",), template_folders=("/w",),
        toolchain="clang 22", toolchain_problem=None,
    ),
    WorkspaceQuestions.log: "a line\nund noch eine: ü\n",
    WorkspaceQuestions.show: 2,
    WorkspaceQuestions.vocabulary: WORDS,
    WorkspaceQuestions.templates: [TemplateName(name=TEMPLATE, path=f"/w/templates/{TEMPLATE}")],
    WorkspaceQuestions.template: _template,
    WorkspaceQuestions.readers: [UNIT],
    WorkspaceQuestions.values: _values,
    UnitQuestions.units: _units,
    UnitQuestions.unit: _unit_detail,
    UnitQuestions.plan: [PlannedUnit(unit=UNIT, step="nothing", why="built: nothing to do", cause=())],
    UnitQuestions.rendered: lambda engine, unit, with_map: RenderedText(
        unit=_unit(engine, unit).id, text="int a = 1; // ü\n", map=() if with_map else None
    ),
    UnitQuestions.artifact: _artifact,
    UnitQuestions.verification: lambda _, unit: unit_verification(unit=unit),
    UnitQuestions.runs: _runs,
    UnitQuestions.runner: None,
    UnitQuestions.analysis: lambda engine, unit: Analysis(
        unit=_unit(engine, unit).id, artifact_key="ab", fresh=True, report=CodeObjectReport(arch="gfx942", kernels=())
    ),
    UnitQuestions.occupancy_steps: lambda engine, unit: OccupancySteps(unit=_unit(engine, unit).id, artifact_key="ab"),
    UnitQuestions.isa: _isa,
    UnitQuestions.profile: lambda engine, unit, shape, **_: UnitProfile(
        unit=_unit(engine, unit).id, artifact_key="ab", device="emulated:gfx942", shape=shape or "M=1", shape_name="",
        kernels=(),
    ),
    **dict.fromkeys(
        (UnitQuestions.profile_on_device, UnitQuestions.import_profile),
        lambda engine, unit, **_: engine.device_profile(_unit(engine, unit)),
    ),
    UnitQuestions.advice: [],
    UnitQuestions.calibration: Calibrated(),
    UnitQuestions.predicted: lambda _, kernel, shape, arch, part: PredictedRanking(
        kernel=kernel, shape=shape, arch=arch or "gfx942", part=part or "MI300X", cache="cold", rows=(), measured_us={}
    ),
    UnitQuestions.cancel: lambda engine, patterns: [unit.id for unit in _units(engine, patterns)],
    TimingQuestions.devices: Devices(
        devices=(Device(name="hip:0", description="test data, no device", arch="gfx942"),),
        absent={"cuda": "no driver"}, host="here",
    ),
    TimingQuestions.processor_roof: ProcessorRoof(
        processor="test data", threads=2, tflops=0.1, bandwidth_tbs=0.02, measured_at=1.0
    ),
    TimingQuestions.timings: [timing_of()],
    TimingQuestions.timing: lambda _, number: [TimingDetail(timing=timing_of(id=number), times_us=(9.0, 10.0, 11.0))],
    TimingQuestions.best: [RankedTiming(unit=UNIT, instance="m128", shape="test", rank=1, timing=timing_of())],
    TimingQuestions.compare: [Compared(shape="test", cache="cold", ours=UNIT, theirs=UNIT, why_not="test data")],
    TimingQuestions.set_baseline: [UNIT],
    TimingQuestions.baselines: [Baseline(name="before", set_at=1.0, units=1, timings=2)],
    TimingQuestions.remove_baseline: 1,
    TimingQuestions.import_timings: TimingsImport(file=imported_file()),
    TimingQuestions.imported_timings: [imported_timing()],
    TimingQuestions.imported_files: [imported_file()],
    TimingQuestions.remove_imported: None,
    WorkspaceQuestions.unsaved: [UnsavedText(path="/w/a.j2", text="unsaved")],
    ClientQuestions.snapshot: lambda engine: Snapshot(seq=engine.seq, states=engine.known_states()),
    ClientQuestions.overview: lambda engine: Overview(seq=engine.seq, states=engine.known_states(rows=True)),
    UnitQuestions.unit_rows: lambda _, units: [unit_row(unit_of(name, timings=(timing_of(),))) for name in units],
    ClientQuestions.file: lambda _, path: File(path=path, diagnostics=()),
    ClientQuestions.readers_of: lambda _, paths: [[UNIT] for _ in paths],
    ClientQuestions.ask_cpp: lambda _, request: CppAnswer(unit=request.unit or UNIT, result=HOVER),
    **dict.fromkeys((ClientQuestions.overlay, ClientQuestions.focus, ClientQuestions.view, ClientQuestions.editor)),
}  # fmt: skip
"""Answer to each question, or a function of the engine and the arguments that makes it."""


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
        """Set if time traces end, with `fault_in_trace` where it is given."""
        self.fault_in_trace: Exception | None = None
        self.tracing = 0
        self.building = 0
        self.following = 0
        """Benchmarks and verifications that are followed."""
        self.waiting = 0
        """Followers that wait for a change."""
        self.idle_exit_s = 0.0
        self.listing = ""
        self.bench_lines: list[BenchLine] = [BenchLine(event="timing", unit=UNIT, shape="test", timing=timing_of())]
        self.verify_lines: list[VerifyLine] = [
            VerifyLine(event="unit", unit=UNIT, outcome="built", result=unit_verification())
        ]
        self.upgrade_lines: list[UpgradeLine] = []
        own: Answers = answers(
            UnitQuestions.building.answered_by(self.build),
            UnitQuestions.bench.answered_by(self.bench),
            UnitQuestions.verifying.answered_by(self.verify),
            UnitQuestions.upgrading.answered_by(self.upgrade),
            UnitQuestions.time_trace.answered_by(self.time_trace),
        )
        self.answers: dict[AnyEndpoint, Callable[..., Any]] = {
            **{one: partial(self.answer, one) for one in ANSWERS},
            **own,
        }
        self.changed = anyio.Event()
        for name in names or ("gemm/m128@gfx942",):
            self.change(f"unit/{name}", unit_of(name))

    def change(self, topic: str, state: Unit | File | Workspace | None) -> int:
        """A new state; returns its number."""
        self.seq += 1
        self.states[topic] = (self.seq, state)
        self.moved()
        return self.seq

    def device_profile(self, unit: Unit) -> UnitDeviceProfile:
        """Answer with a profile from a device, and announce it as the daemon does."""
        self.change(f"unit/{unit.id}", replace(unit, profiled_at=2.0))
        return UnitDeviceProfile(
            unit=unit.id, artifact_key="ab", source="test data, no device", device="", method="counters",
            weighed_by="cycles", shape_name="", total=0, lines=(), at=2.0,
        )  # fmt: skip

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

    async def answer(self, endpoint: AnyEndpoint, **given: Any) -> Any:
        """The answer in the table; the call is noted with the client first."""
        client = [given.pop("scope") or None] if endpoint.viewed else []
        values = list(given.values())
        if isinstance(given.get("request"), (OverlayRequest, FocusRequest, ViewRequest, EditorRequest)):
            values = [given["client"], *dict(given["request"]).values()]
        self._ask(endpoint.name, *client, *values)
        found = ANSWERS[endpoint]
        return found(self, **given) if callable(found) else found

    async def ask(self, question: Question[..., Answer], scope: str = MAIN, **given: Any) -> Answer:
        """Return a test's answer."""
        answer: Answer = await self.answer(question, scope=scope, **given)
        return answer

    def present_status(self) -> Status:
        """Return the daemon's own status."""
        return Status(
            version="0", pid=1, root="/w", started_at=1.5, uptime_s=2.5, seq=self.seq, unit_count=1, phases={"done": 1},
            outcomes={"built": 1}, busy=self.busy, clients=0, memory_bytes=3, idle_exit_s=self.idle_exit_s, log_file=None,
            toolchain=None, warnings={},
        )  # fmt: skip

    async def status(self) -> Status:
        self._ask("status")
        return self.present_status()

    def known_states(self, *, rows: bool = False) -> dict[Topic, Any]:
        known: dict[Topic, Any] = {Topic(topic): state for topic, (_, state) in self.states.items() if state}
        if rows:
            known |= {topic: unit_row(one, untimed=True) for topic, one in known.items() if isinstance(one, Unit)}
        return known

    async def changes(self, scope: str, after: int, *, rows: bool = False) -> list[Change]:
        self._ask("changes", scope or None, after)

        def shown(state: Any) -> Any:
            return unit_row(state) if rows and isinstance(state, Unit) else state

        if after > self.seq or after < self.oldest:
            return [Change(seq=self.seq, topic=Topic("reset"))]
        while True:
            newer = sorted((seq, topic, state) for topic, (seq, state) in self.states.items() if seq > after)
            if newer:
                return [Change(seq=seq, topic=Topic(topic), state=shown(state)) for seq, topic, state in newer]
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

    async def time_trace(self, scope: str, unit: str, path: str | None) -> TimeTrace:
        self._ask("time_trace", scope or None, _unit(self, unit).id, path)
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

    @asynccontextmanager
    async def build(
        self,
        scope: str,
        patterns: Sequence[str] | None,
        *,
        force: bool,
        check_only: bool,
        toolchains: Sequence[str] | None = None,
        **more: bool,
    ) -> AsyncIterator[AsyncIterator[BuildLine]]:
        named = (name for name, given in more.items() if given)
        self._ask("build", scope or None, patterns, force, check_only, *named, *toolchains or ())
        for pattern in patterns or ():
            _unit(self, pattern)
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

    @asynccontextmanager
    async def bench(
        self, scope: str, patterns: list[str] | None, **options: Any
    ) -> AsyncIterator[AsyncIterator[BenchLine]]:
        self._ask("bench", scope or None, patterns, *options.values())
        async with self._followed(self.bench_lines, BenchLine(event="done")) as lines:
            yield lines

    @asynccontextmanager
    async def verify(
        self,
        scope: str,
        patterns: list[str] | None,
        shapes: list[str],
        *,
        force: bool,
        against: str | None,
        seed: int | None,
    ) -> AsyncIterator[AsyncIterator[VerifyLine]]:
        self._ask("verify", scope or None, patterns, *shapes, force, *(() if against is None else (against, seed)))
        async with self._followed(self.verify_lines, VerifyLine(event="done")) as lines:
            yield lines

    @asynccontextmanager
    async def upgrade(
        self, scope: str, patterns: list[str] | None, to: str, *, verify: bool
    ) -> AsyncIterator[AsyncIterator[UpgradeLine]]:
        self._ask("upgrade", scope or None, patterns, to, verify)
        async with self._followed(self.upgrade_lines, UpgradeLine(event="done")) as lines:
            yield lines

    @asynccontextmanager
    async def _followed(self, given: list[Line], last: Line) -> AsyncIterator[AsyncIterator[Line]]:
        async def lines() -> AsyncIterator[Line]:
            for line in (*given, last):
                yield line

        self.following += 1
        try:
            yield lines()
        finally:
            self.following -= 1

    async def forget(self, client: str) -> None:
        self._ask("forget", client)

    def stop(self) -> None:
        """Return the function by which a server ends itself."""
        self._ask("stop")
