"""Checks and builds units with other toolchains than the workspace's own.

A unit is rendered and compiled anew for each: nothing of it but the store, which knows the toolchain by its keys, is
shared with the unit's own state. A check analyzes the text pass by pass and makes no code; where the store has what a
whole compile came to, that is taken instead.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from anyio import CapacityLimiter, to_thread

from ckwatch.compile import build_events
from ckwatch.compile.rendered_unit import build_diagnostics, compile_request, compiler_inputs, lacking_headers
from ckwatch.compile.request import BuildOutcome
from ckwatch.core.effects import CheckWith
from ckwatch.core.events import CheckWithFacts, CheckWithFinished, UnitKey, ViewOverrides
from ckwatch.engine.build_tools import CompilerWithStore
from ckwatch.engine.handlers.compiler_messages import line_reader
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.render.outcome import RenderOutcome


@dataclass(frozen=True, slots=True)
class UnitWithToolchain:
    """A unit as one toolchain has it.

    `result` is None where there was nothing to compile: the template or the instance has errors, or the toolchain lacks
    headers. `diagnostics` are all that are known, of the render too.
    """

    outcome: Outcome
    render: RenderOutcome
    result: BuildOutcome | None
    diagnostics: tuple[Diagnostic, ...]


class OtherToolchains:
    """Renders and compiles units for any toolchain."""

    def __init__(self, view_loader: ViewLoader, renders: RenderHandler, threads: CapacityLimiter) -> None:
        self._view_loader = view_loader
        self._renders = renders
        self._threads = threads

    async def run(self, effect: CheckWith) -> CheckWithFinished:
        """Check or build a unit with a toolchain; its errors are kept. Raises CkwatchError when the host cannot."""
        work = effect.work
        compiler = await self.compiler(work.key.scope, effect.toolchain.name)
        made = await self.unit(
            *(work.key, effect.unit, compiler),
            build=effect.build,
            force=effect.force,
            awaited=effect.awaited,
            overlays=effect.overlays,
            options=effect.options,
        )
        result = made.result
        artifact = None if result is None else result.artifact
        folder, names = (None, {}) if artifact is None else (artifact.folder, artifact.products)
        facts = CheckWithFacts(
            made.outcome,
            tuple(one for one in made.diagnostics if one.severity is Severity.ERROR),
            key="" if result is None else result.key,
            products={kind: f"{folder}/{name}" for kind, name in names.items()},
            from_store=result is not None and result.from_store,
            seconds=0.0 if artifact is None else artifact.record.duration_s,
        )
        return CheckWithFinished(work, facts, at=time.time())

    async def compiler(self, scope: str, name: str) -> CompilerWithStore:
        """The compiler of a toolchain by its name or folder. Raises ToolchainError."""
        find = partial(self._view_loader.toolchains.compiler, name, self._view_loader.workspace(scope))
        return await to_thread.run_sync(find, limiter=self._threads)

    async def unit(
        self,
        key: UnitKey,
        unit: Unit,
        compiler: CompilerWithStore,
        *,
        build: bool,
        force: bool = False,
        awaited: bool = False,
        overlays: Mapping[str, str] | None = None,
        options: ViewOverrides = ViewOverrides(),  # noqa: B008  # it is frozen
    ) -> UnitWithToolchain:
        """Check a unit with a toolchain, or `build` it.

        `force`: although the store has the result; `awaited`: compilers make way for nothing. Raises CkwatchError when
        the host cannot.
        """
        overlays = overlays or {}
        folders = compiler.toolchain.include_folders
        render = await self._renders.outcome(key, unit, overlays, options, header_folders=folders)
        text = render.rendered
        if text is None or not render.ok:
            outcome = Outcome.SKIPPED if render.skipped else Outcome.FAILED
            return UnitWithToolchain(outcome, render, None, render.diagnostics)
        workspace, toolchain = self._view_loader.workspace(key.scope), compiler.toolchain
        lacking = partial(lacking_headers, toolchain, workspace, unit, text)
        if lacks := await to_thread.run_sync(lacking, limiter=self._threads):
            place = unit.kernel.template_span
            found = Diagnostic(Severity.ERROR, Source.HOST, "host/no-headers", lacks, place, units=(unit.id,))
            return UnitWithToolchain(Outcome.FAILED, render, None, (*render.diagnostics, found))
        request = compile_request(workspace, unit, text, awaited=awaited)
        result = None if force else await compiler.builder.find(request)
        if result is None:
            if not build:
                request = replace(request, products=frozenset())
            result = await compiler.builder.build(request, build_events.BuildOptions(force=force))
        place_messages = partial(
            build_diagnostics,
            *(unit, text, result, line_reader(overlays)),
            header_warnings=self._view_loader.shows_header_warnings(key.scope, options),
            inputs=compiler_inputs(workspace, unit, text, toolchain),
        )
        found_by_compiler = await to_thread.run_sync(place_messages, limiter=self._threads)
        outcome = Outcome.FAILED
        if result.fault is not None:
            outcome = Outcome.FAULTED
        elif result.ok:
            outcome = Outcome.CHECKED if result.artifact is not None and not result.artifact.products else Outcome.BUILT
        return UnitWithToolchain(outcome, render, result, (*render.diagnostics, *found_by_compiler))
