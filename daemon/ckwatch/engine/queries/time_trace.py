"""The compile time of a unit: compiles it once more with clang's time trace, and keeps nothing of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from heapq import nlargest
from pathlib import Path

import anyio
from anyio import CancelScope, CapacityLimiter, TemporaryDirectory, to_thread

from ckwatch.checks.compiler.sources import CompilerInputs
from ckwatch.compile.rendered_unit import build_diagnostics, compile_request, compiler_inputs
from ckwatch.compile.request import BuildOutcome, CompileOutcome, CompileRequest
from ckwatch.compile.timetrace.summary import BACK_END, FRONT_END
from ckwatch.compile.timetrace.traced_compile import GRANULARITY_US, TracedPass, trace_compile
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.compiler_messages import line_reader
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.side_work import SideWork
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.render.outcome import Rendered
from ckwatch.system.durable_files import temporary_beside
from ckwatch.wire.messages import PassTime, TimeTrace

TEMPLATES_BY_SELF_TIME, TEMPLATES_BY_INCLUSIVE_TIME = 200, 50
"""Templates of each pass that an answer names."""


@dataclass(eq=False)
class TimeTraceQuery:
    """Makes time traces, of one unit at a time: builds come first."""

    _loop: EngineLoop
    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _lookup: UnitLookup
    _side_work: SideWork
    _turn: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    async def time_trace(self, scope: str, unit: str, path: str | None) -> TimeTrace:
        """Return the time of each pass, or why the unit does not compile. `path`: a file for the traces. Raises
        UnknownUnitError, CkwatchError when `path` cannot be written or somebody cancels it, ToolchainError when there
        is no compiler, or when it fails for a reason other than the kernel."""
        state = await self._lookup.one(scope, unit)
        with self._side_work.of(state.key):
            return await self._time_trace(state, path)
        raise CkwatchError(f"the time trace of {state.key.unit} was cancelled", "ask for it again")

    async def _time_trace(self, unit: UnitState, path: str | None) -> TimeTrace:
        target = None if path is None else Path(path)
        answer = TimeTrace(unit=unit.key.unit, granularity_us=GRANULARITY_US)
        overlays = dict(self._loop.state.views[unit.key.scope].overlays)
        outcome = await self._renders.present(self._loop.state, unit)
        rendered = outcome.rendered
        if rendered is None or not outcome.ok:
            return replace(answer, diagnostics=outcome.diagnostics)
        compiler = self._tools.present_compiler()
        workspace = self._view_loader.workspace(unit.key.scope)
        request = compile_request(workspace, unit.unit, rendered, awaited=True)
        inputs = compiler_inputs(workspace, unit.unit, rendered, compiler.toolchain)
        limiter = CapacityLimiter(min(2, self._loop.state.jobs))
        async with (
            self._turn,
            _partial_file(target) as traces,
            TemporaryDirectory(prefix="ckwatch-time-") as work,
        ):
            traced = await trace_compile(request, compiler.toolchain, folder=Path(work), target=traces, limiter=limiter)
            if traced.failure is None and traces is not None and target is not None:
                await to_thread.run_sync(_place, traces, target)
        if traced.failure is not None:
            if traced.failure.fault is not None:
                raise ToolchainError(traced.failure.message, "this says nothing about the kernel; try again")
            found = await to_thread.run_sync(_placed, unit, rendered, request, inputs, traced.failure, overlays)
            return replace(answer, diagnostics=tuple(found))
        return replace(
            answer, passes=tuple(map(_pass_time, traced.passes)), path=None if target is None else str(target)
        )


def _pass_time(traced: TracedPass) -> PassTime:
    summary = traced.summary
    costliest = {
        cost.name
        for cost in nlargest(TEMPLATES_BY_INCLUSIVE_TIME, summary.templates, key=lambda cost: cost.inclusive_s)
    }
    costliest |= {cost.name for cost in summary.templates[:TEMPLATES_BY_SELF_TIME]}
    return PassTime(
        side=traced.side.value,
        name=traced.name,
        seconds=traced.seconds,
        stages={stage.value: seconds for stage, seconds in summary.stages.items()},
        templates=tuple(cost for cost in summary.templates if cost.name in costliest),
        template_count=len(summary.templates),
        instantiation_count=sum(cost.count for cost in summary.templates),
        front_end=sum(summary.stages[stage] for stage in FRONT_END),
        back_end=sum(summary.stages[stage] for stage in BACK_END),
    )


def _placed(
    unit: UnitState,
    rendered: Rendered,
    request: CompileRequest,
    inputs: CompilerInputs,
    failure: CompileOutcome,
    overlays: Mapping[str, str],
) -> tuple[Diagnostic, ...]:
    result = BuildOutcome("", None, failure, from_store=False, log=failure.log, source_text=request.source)
    read_line = line_reader(overlays)
    return build_diagnostics(unit.unit, rendered, result, read_line, header_warnings=False, inputs=inputs)


@asynccontextmanager
async def _partial_file(target: Path | None) -> AsyncIterator[Path | None]:
    """An empty file in the folder of `target`, removed afterwards; made before the compile to find out that it can be.
    Raises CkwatchError."""
    if target is None:
        yield None
        return
    made = await to_thread.run_sync(_create, target)
    try:
        yield made
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(_remove, made)


def _create(target: Path) -> Path:
    try:
        real = Path(os.path.realpath(target))
        if real.exists() and not real.is_file():
            raise CkwatchError(f"cannot write {target}: it is {'a folder' if real.is_dir() else 'not a regular file'}")
        made = temporary_beside(real)
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except OSError as error:
        raise CkwatchError(f"cannot write {target}: {error.strerror}") from error
    return made


def _remove(made: Path) -> None:
    with suppress(OSError):
        made.unlink()


def _place(made: Path, target: Path) -> None:
    try:
        made.replace(os.path.realpath(target))
    except OSError as error:
        raise CkwatchError(f"cannot write {target}: {error.strerror}") from error
