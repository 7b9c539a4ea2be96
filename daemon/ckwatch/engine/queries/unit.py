"""One unit in detail: its state, rendered text, artifact, and past compiles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from anyio import to_thread

from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.single_call import shown_command
from ckwatch.compile.store.entries import Artifact as Stored
from ckwatch.compile.store.entries import read_entry
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import MAIN
from ckwatch.core.phases import Phase
from ckwatch.core.unit_state import UnitState
from ckwatch.engine import to_wire
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.handlers.verify import VerifyRunner, why_not_emulated
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.following import NOT_BUILT
from ckwatch.engine.queries.runner import write_runner
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Operation, Outcome
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.source_map import Segment, SourceMap
from ckwatch.model.targets import Language, language_of
from ckwatch.render.outcome import RenderOutcome
from ckwatch.wire.messages import Artifact, ChainLink, PlannedUnit, RenderedText, Run, UnitDetail
from ckwatch.wire.messages import Segment as WireSegment
from ckwatch.wire.state import Cause
from ckwatch.wire.verification import UnitVerification

NOT_EXECUTED = "it was not verified yet"


@dataclass(eq=False)
class UnitQueries:
    """Questions about one unit; all of them raise UnknownUnitError."""

    _loop: EngineLoop
    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _history: HistoryRecorder
    _verify: VerifyRunner
    _lookup: UnitLookup

    async def unit(self, scope: str, unit: str) -> UnitDetail:
        """All about one unit."""
        state = await self._lookup.one(scope, unit)
        render = state.render.facts
        instance = state.unit.instance
        artifact = await to_thread.run_sync(artifact_to_wire, state, self._tools)
        return UnitDetail(
            unit=to_wire.unit_to_wire(state),
            parameters=dict(instance.parameters),
            parameter_places=dict(instance.spans),
            template=state.unit.kernel.template,
            tensors=_tensors(state.unit.kernel.operation),
            reads={} if render is None else dict(render.reads),
            missed=() if render is None else tuple(sorted(render.missed)),
            headers=self._loop.state.graph.header_count(state.key),
            token_key=None if render is None else render.tokens or None,
            standing=status_text(state, self._toolchain_problem(state)),
            cause=to_wire.causes_to_wire(state.cause),
            diagnostics=tuple(replace(one, stale=not state.settled) for one in state.diagnostics),
            command=() if artifact is None else artifact.commands,
            peak_memory_bytes=0 if state.compile.result is None else state.compile.result.peak_memory_bytes,
        )

    async def plan(self, scope: str, patterns: Sequence[str] | None) -> list[PlannedUnit]:
        """The step of a build for each unit, once it is known which results the store has. Raises UnknownUnitError."""
        await self._lookup.loaded()
        names = await self._lookup.names(scope, patterns)
        units = [unit for name in names if (unit := self._loop.state.seen(scope, name)) is not None]
        known = await self._lookup.looked_up(units)
        return [_planned(unit, self._toolchain_problem(unit)) for unit in known]

    def _toolchain_problem(self, unit: UnitState) -> str | None:
        workspace = self._loop.state.views[unit.key.scope].workspace or self._loop.state.main.workspace
        return None if workspace is None else workspace.toolchain_problem

    async def rendered(self, scope: str, unit: str, *, with_map: bool) -> RenderedText:
        """The unit's text as it renders now."""
        state = await self._lookup.one(scope, unit)
        outcome = await self._renders.present(self._loop.state, state)
        found = await to_thread.run_sync(rendered_to_wire, state.key.unit, outcome, with_map)
        return replace(found, **self._call(state, outcome))

    def _call(self, state: UnitState, outcome: RenderOutcome) -> dict[str, Any]:
        """The fields of `RenderedText` that say how its text is compiled."""
        language = language_of(state.unit.kernel.template)
        known: dict[str, Any] = {"source_name": language.source_name}
        compiler = self._tools.compiler
        cuda = language is Language.CU
        if compiler is None or outcome.rendered is None or cuda is not isinstance(compiler.toolchain, NvccToolchain):
            return known
        toolchain = compiler.toolchain
        request = compile_request(self._view_loader.workspace(state.key.scope), state.unit, outcome.rendered)
        own = {name: text for name, text in toolchain.environment.items() if os.environ.get(name) != text}
        return known | {
            "command": tuple(shown_command(request, toolchain)),
            "environment": own,
            "clang": str(toolchain.clangxx),
        }

    async def artifact(self, scope: str, unit: str) -> Artifact | None:
        """The unit's last result in the store; None when there is none."""
        state = await self._lookup.one(scope, unit)
        return await to_thread.run_sync(artifact_to_wire, state, self._tools)

    async def verification(self, scope: str, unit: str) -> UnitVerification:
        """Return the verification of the unit's present artifact: nothing is executed."""
        state = await self._lookup.one(scope, unit)
        found, built, name = to_wire.verification_to_wire(state), state.built, state.key.unit
        if found is not None:
            return found
        kept = None if built is None else await self._verify.kept(state.unit, built.artifact)
        if kept is not None and built is not None:
            return to_wire.unit_verification(name, built.artifact, kept)
        why = state.verification.unverified_because or why_not_emulated(state.unit) or NOT_EXECUTED
        return UnitVerification(unit=name, outcome="not verified", summary=NOT_BUILT if built is None else why)

    async def runs(self, unit: str, limit: int) -> list[Run]:
        """Past compiles, newest first; those of a removed unit too. Raises HistoryError."""
        unit = await self._lookup.id_of(MAIN, unit)
        records = await self._history.runs(unit, limit)
        if not records:
            await self._lookup.one(MAIN, unit)
        return [
            Run(
                outcome=record.outcome,
                key=record.key,
                finished_at=record.finished_at,
                seconds=record.seconds,
                from_store=record.from_store,
                cause=tuple(Cause(what=what, at=at) for what, at in record.cause),
            )
            for record in records
        ]

    async def runner(self, scope: str, unit: str, path: str) -> None:
        """Write a standalone program for the unit. Raises CkwatchError when it has none, or was not built."""
        state = await self._lookup.one(scope, unit)
        artifact = await to_thread.run_sync(artifact_to_wire, state, self._tools)
        compiler = self._tools.compiler
        if artifact is None or artifact.outcome != "built" or compiler is None:
            raise CkwatchError(f"'{unit}' has not been built", "build it first")
        if not artifact.fresh:
            raise CkwatchError(f"'{unit}' has changed since it was built", "build it first")
        workspace = self._view_loader.workspace(state.key.scope)
        renderers = self._tools.renderers(workspace.template_folders)
        limits = workspace.settings.verify
        await write_runner(state.unit, artifact, renderers, compiler.toolchain, Path(path), limits)


def rendered_to_wire(unit: str, outcome: RenderOutcome, with_map: bool) -> RenderedText:
    """A render as an answer. Blocks; call from a worker thread."""
    text = outcome.rendered
    return RenderedText(
        unit=unit,
        text=None if text is None else text.text,
        symbol=None if text is None else text.symbol,
        token_key=None if text is None else text.token_key,
        diagnostics=outcome.diagnostics,
        read=dict(outcome.read),
        missed=tuple(sorted(outcome.missed)),
        map=None
        if text is None or not with_map
        else tuple(_segment(text.source_map, s) for s in text.source_map.segments),
    )


def _segment(source_map: SourceMap, segment: Segment) -> WireSegment:
    return WireSegment(
        start=segment.start,
        end=segment.end,
        verbatim=segment.verbatim,
        exact=segment.exact,
        position=segment.position,
        span=segment.site.span,
        label=segment.site.label,
        chain=tuple(
            ChainLink(
                kind=link.site.kind.value,
                label=link.site.label,
                iteration=link.iteration if link.iteration >= 0 else None,
                span=link.site.span,
            )
            for link in source_map.chain(segment.frame)
        ),
    )


def artifact_to_wire(unit: UnitState, tools: BuildTools) -> Artifact | None:
    """The stored result of the unit; None when there is none, or it was evicted. Blocks; call from a worker thread."""
    result, compiler, store = unit.compile.result, tools.compiler, tools.store
    if result is None or not result.key or compiler is None or store is None:
        return None
    stored: Stored | None = None
    product = next(iter(result.products.values()), None)
    try:
        if product is not None:
            folder = Path(product).parent
            stored = read_entry(folder)
        else:
            stored = store.lookup(result.key, compiler.roots)
        if stored is None:
            return None
        return Artifact(
            unit=unit.key.unit,
            key=result.key,
            fresh=unit.present_result is result,
            outcome="built" if stored.ok else "failed",
            folder=str(stored.folder),
            symbol=stored.record.symbol,
            products={name: str(stored.folder / file) for name, file in stored.products.items()},
            commands=tuple(tuple(command.arguments) for command in stored.record.commands),
            log=stored.log,
        )
    except (OSError, ValueError):
        return None


def _planned(unit: UnitState, toolchain_problem: str | None) -> PlannedUnit:
    facts = unit.render.facts
    step: Literal["compile", "wait", "nothing", "refuse"] = "nothing" if unit.settled else "wait"
    if facts is not None and not facts.ok:
        step = "refuse"
    elif unit.phase is Phase.IDLE:
        step = "refuse" if toolchain_problem is not None or (facts is not None and facts.lacks) else "compile"
    elif unit.settled and unit.outcome is Outcome.FAULTED:
        step = "compile"
    why = status_text(unit, toolchain_problem)
    return PlannedUnit(unit=unit.key.unit, step=step, why=why, cause=to_wire.causes_to_wire(unit.cause))


def status_text(unit: UnitState, toolchain_problem: str | None) -> str:
    """The unit's state in a sentence."""
    match unit.phase:
        case Phase.WAITING | Phase.RENDERING:
            return "being rendered"
        case Phase.LOOKING:
            return "rendered; looking it up in the store"
        case Phase.QUEUED:
            return "waiting for a free compiler"
        case Phase.COMPILING:
            waits = f"waits for {unit.compile.waits_for}" if unit.compile.waits_for else ""
            return "; ".join(filter(None, ("being compiled", to_wire.slow_compile(unit) or waits)))
        case Phase.IDLE if unit.render.facts is not None and unit.render.facts.lacks:
            return f"checked; {unit.render.facts.lacks}"
        case Phase.IDLE if toolchain_problem is not None:
            return "checked; there is no compiler"
        case Phase.IDLE:
            return "checked; not compiled, because nothing has requested it since it changed"
    if unit.render.facts is not None and not unit.render.facts.ok:
        if unit.render.facts.skipped:
            return "skipped by its sweep: an instance rule refuses it"
        return "refused before any compiler ran: the template or the instance has errors"
    if unit.outcome is Outcome.FAULTED:
        return "the host failed; this says nothing about the kernel"
    if unit.outcome is Outcome.FAILED:
        return "the compiler found errors"
    return "built: nothing to do"


def _tensors(operation: Operation) -> dict[str, str]:
    return {
        name: "absent" if tensor is None else f"{tensor.dtype}, {' × '.join(tensor.sizes) or 'one element'}"
        for name, tensor in (*operation.inputs, *operation.outputs)
    }
