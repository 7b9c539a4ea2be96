"""LookUp, Check and Compile of a unit.

A look-up asks the store for what a unit compiles to. A check runs the host pass, whose errors are known long before the
device pass ends. A compile reports diagnostics while the compiler still runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import assert_never

from anyio import CapacityLimiter, to_thread

from ckwatch.compile import build_events
from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.rendered_unit import compile_request, compiler_inputs
from ckwatch.compile.request import BuildOutcome, CompileFault, CompileRequest
from ckwatch.compile.slow_compile import SlowCompile, processor_wait
from ckwatch.core import events
from ckwatch.core.effects import Check, Compile, LookUp
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.compile_facts import facts_of
from ckwatch.engine.handlers.compiler_messages import LiveDiagnostics, PlaceLog, PostEvent, placing, reporting_to
from ckwatch.engine.handlers.farm_link import FarmLink
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.look_up import RecentSnapshot
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.model.kernels import Outcome
from ckwatch.model.lazy_dataclass import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    compiler: CompilerWithStore
    request: CompileRequest
    place: PlaceLog
    take: Callable[[BuildOutcome], events.CompileFacts]
    """Makes the core's facts of an outcome. Blocks; call from a worker thread."""


@dataclass(eq=False)
class CompileHandler:
    """Runs compilers, and finds results in the store. `compiled` counts the compiles so far."""

    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _snapshot: RecentSnapshot
    _background_pch: BackgroundPch
    _post: PostEvent
    _threads: CapacityLimiter
    _farm: FarmLink
    _disk_full: str | None = field(default=None, init=False)
    compiled: int = field(default=0, init=False)

    async def _prepared(self, effect: LookUp | Check | Compile) -> _Prepared | None:
        """None when the unit's text changed meanwhile: that event is on its way."""
        compiler = self._tools.require_compiler()
        text = await self._renders.text_of(effect)
        if text is None:
            return None
        scope, unit = effect.work.key.scope, effect.unit
        workspace = self._view_loader.workspace(scope)
        awaited = not isinstance(effect, LookUp) and effect.awaited
        lines = isinstance(effect, Compile) and effect.lines
        request = compile_request(workspace, unit, text, awaited=awaited, lines=lines)
        header_warnings = self._view_loader.shows_header_warnings(scope, effect.options)
        inputs = partial(compiler_inputs, workspace, unit, text, compiler.toolchain, self._renders.worked(unit))
        take = partial(facts_of, self._tools, unit, text, effect.overlays, header_warnings, inputs)
        return _Prepared(compiler, request, placing(effect, text, header_warnings, inputs), take)

    async def look_up(self, effect: LookUp) -> events.LookUpFinished:
        """Look up the unit in the store; nothing when the unit's text changed meanwhile."""
        unit = await self._prepared(effect)
        if unit is None:
            return events.LookUpFinished(effect.work, None)
        facts = await unit.compiler.builder.find_and(unit.request, unit.take, self._snapshot.of(unit.compiler))
        found = facts is not None and facts.outcome is Outcome.BUILT
        if found:
            self._renders.note_worked(effect.unit)
            self._renders.text_cache.settle(effect.work.key, effect.work.generation)
        self._background_pch.note(unit.request, effect.unit.id, self._tools.ladder_of, built=found, compiled=False)
        return events.LookUpFinished(effect.work, facts)

    async def check(self, effect: Check) -> events.CheckFinished:
        """The errors of the host pass. Raises CkwatchError when the host cannot run it."""
        unit = await self._prepared(effect)
        if unit is None:
            return events.CheckFinished(effect.work)  # `compile` comes next and reports it
        async with reporting_to(effect, unit.place, self._post).reporting() as lines:
            result = await unit.compiler.builder.check(
                unit.request,
                lambda event: (
                    lines.add_line(event.side, event.line, early=event.early)
                    if isinstance(event, build_events.CompilerLine)
                    else None
                ),
            )
        if result is None or result.ok or result.transient:
            return events.CheckFinished(effect.work)
        found = await to_thread.run_sync(unit.place, result.log, limiter=self._threads)
        return events.CheckFinished(effect.work, found)

    async def compile(self, effect: Compile) -> events.CompileFinished | events.FarmFailed:
        """Compile a unit, here or on the farm, or take what the store has by now. Raises CkwatchError when the host
        cannot."""
        if not effect.on_farm:
            return await self._compile(effect)
        from ckwatch.farm.packing import FarmError

        try:
            return await self._compile(effect)
        except FarmError as error:
            log.info("%s is compiled here: %s", effect.unit.id, error)
            return events.FarmFailed(effect.work, error.message)

    async def _compile(self, effect: Compile) -> events.CompileFinished:
        unit = await self._prepared(effect)
        if unit is None:
            facts = events.CompileFacts(Outcome.FAULTED, effect.work.tokens, finished_at=time.time())
            return events.CompileFinished(effect.work, facts)
        slow = SlowCompile(unit.request, effect.unit.instance.span, effect.usual_s)
        async with reporting_to(effect, unit.place, self._post).reporting() as lines:
            on_farm = partial(self._farm.compile, unit=effect.unit.id, waiting=effect.waiting, force=effect.force)
            options = build_events.BuildOptions(
                look=self._snapshot.of(unit.compiler),
                force=effect.force,
                side_by_side=effect.side_by_side,
                waiting=effect.waiting,
                elsewhere=on_farm if effect.on_farm else None,
            )
            progress = _Progress(effect.work, self._post, lines, slow, unit.take, effect.side_by_side)
            result = await unit.compiler.builder.build(unit.request, options, progress.tell)
        self.compiled += 1
        self._background_pch.note(unit.request, effect.unit.id, self._tools.ladder_of, built=result.ok, compiled=True)
        disk_full = result.message if result.fault is CompileFault.NO_SPACE else None
        if disk_full != self._disk_full:
            self._disk_full = disk_full
            self._post(events.WarningChanged("store", disk_full))
        stored = progress.stored
        facts = stored if stored is not None else await to_thread.run_sync(unit.take, result, limiter=self._threads)
        if facts.outcome is Outcome.BUILT:
            self._renders.note_worked(effect.unit)
        return events.CompileFinished(effect.work, facts)


@dataclass(slots=True)
class _Progress:
    """Passes on what a build tells, and what it has stored."""

    work: events.Work
    post: PostEvent
    lines: LiveDiagnostics
    slow: SlowCompile
    take: Callable[[BuildOutcome], events.CompileFacts]
    side_by_side: bool
    stored: events.CompileFacts | None = None
    _waits_for: str = ""
    _begun: dict[str, tuple[float, float]] = field(default_factory=dict)

    def tell(self, event: build_events.BuildEvent) -> None:
        match event:
            case build_events.CompilerLine(side, line, early):
                self.lines.add_line(side, line, early=early)
            case build_events.ProcessorUsed(stage, seconds):
                self._used(stage, seconds)
            case build_events.BuildWaits(what):
                self._waits(what)
            case build_events.BuildStored(outcome):
                self.stored = self.stored or self.take(outcome)
            case build_events.CompilerStarting():
                pass
            case build_events.OnePassLeft():
                if self.side_by_side:
                    self.post(events.PassFinished(self.work))
            case build_events.CompilersEnded():
                self.post(events.CompilerEnded(self.work))
            case _:
                assert_never(event)

    def _waits(self, what: str) -> None:
        if what != self._waits_for:
            self._waits_for = what
            self.post(events.CompileWaits(self.work, what))

    def _used(self, stage: str, seconds: float) -> None:
        now = time.monotonic()
        begun_s, used_s = self._begun.setdefault(stage, (now, seconds))
        self._waits(processor_wait(seconds - used_s, now - begun_s))
        found = self.slow.take(stage, seconds)
        if found is not None:
            self.lines.add_slow(found)
