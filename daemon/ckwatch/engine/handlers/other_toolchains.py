"""Checks and builds units with any toolchain, beside the units' phases.

A unit is rendered and compiled anew for each: nothing of it but the store, which knows the toolchain by its keys, is
shared with the unit's own state. A check analyzes the text pass by pass and makes no code; where the store has what a
whole compile came to, that is taken instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from anyio import CapacityLimiter, to_thread

from ckwatch.compile import build_events
from ckwatch.compile.rendered_unit import compile_request, compiler_inputs, lacking_headers
from ckwatch.core.effects import CheckWith
from ckwatch.core.events import (
    MAIN,
    CheckWithFacts,
    CheckWithFinished,
    CompileFacts,
    HeaderFacts,
    UnitKey,
    ViewOverrides,
)
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.compile_facts import facts_of
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.render.outcome import RenderOutcome


@dataclass(frozen=True, slots=True)
class UnitWithToolchain:
    """A unit as one toolchain has it.

    `result` is None where there was nothing to compile: the template or the instance has errors, or the toolchain lacks
    headers. `errors` are all that are known, of the render too.
    """

    outcome: Outcome
    render: RenderOutcome
    result: CompileFacts | None
    errors: tuple[Diagnostic, ...]


class OtherToolchains:
    """Renders and compiles units for any toolchain, on this machine."""

    def __init__(
        self, tools: BuildTools, view_loader: ViewLoader, renders: RenderHandler, threads: CapacityLimiter
    ) -> None:
        self._tools = tools
        self._view_loader = view_loader
        self._renders = renders
        self._threads = threads

    async def run(self, effect: CheckWith) -> CheckWithFinished:
        """Check or build a unit with a toolchain; its errors are kept. Raises CkwatchError when the host cannot."""
        work = effect.work
        compiler = await self.compiler(work.key.scope, effect.toolchain.name)
        made = await self.unit(
            *(work.key, effect.unit, compiler, effect.overlays, effect.options),
            build=effect.build,
            force=effect.force,
            awaited=effect.awaited,
        )
        depends_on = None if work.key.scope != MAIN else _read_by(made)
        facts = CheckWithFacts(made.outcome, made.errors, result=made.result, depends_on=depends_on)
        return CheckWithFinished(work, facts)

    async def compiler(self, scope: str, name: str) -> CompilerWithStore:
        """The compiler of a toolchain by its name or folder. Raises ToolchainError."""
        find = partial(self._view_loader.toolchains.compiler, name, self._view_loader.workspace(scope))
        return await to_thread.run_sync(find, limiter=self._threads)

    async def unit(
        self,
        key: UnitKey,
        unit: Unit,
        compiler: CompilerWithStore,
        overlays: Mapping[str, str],
        options: ViewOverrides,
        *,
        build: bool,
        force: bool = False,
        awaited: bool = False,
    ) -> UnitWithToolchain:
        """Check a unit with a toolchain, or `build` it.

        `force`: although the store has the result; `awaited`: compilers make way for nothing. Raises CkwatchError when
        the host cannot.
        """
        folders = compiler.toolchain.feature_folders
        render = await self._renders.outcome(key, unit, overlays, options, header_folders=folders)
        text = render.rendered
        if text is None or not render.ok:
            outcome = Outcome.SKIPPED if render.skipped else Outcome.FAILED
            return UnitWithToolchain(outcome, render, None, _errors(render.diagnostics))
        workspace, toolchain = self._view_loader.workspace(key.scope), compiler.toolchain
        lacking = partial(lacking_headers, toolchain, workspace, unit, text)
        if lacks := await to_thread.run_sync(lacking, limiter=self._threads):
            place = unit.kernel.template_span
            found = Diagnostic(Severity.ERROR, Source.HOST, "host/no-headers", lacks, place, units=(unit.id,))
            return UnitWithToolchain(Outcome.FAILED, render, None, (found,))
        request = compile_request(workspace, unit, text, awaited=awaited)
        built = None if force else await compiler.builder.find(request)
        if built is None:
            if not build:
                request = replace(request, products=frozenset())
            built = await compiler.builder.build(request, build_events.BuildOptions(force=force))
        take = partial(
            facts_of,
            *(self._tools, unit, text, overlays, self._view_loader.shows_header_warnings(key.scope, options)),
            *(partial(compiler_inputs, workspace, unit, text, toolchain), built, compiler),
        )
        result = await to_thread.run_sync(take, limiter=self._threads)
        is_check = result.outcome is Outcome.BUILT and built.artifact is not None and not built.artifact.products
        outcome = Outcome.CHECKED if is_check else result.outcome
        return UnitWithToolchain(outcome, render, result, _errors(result.diagnostics))


def _read_by(made: UnitWithToolchain) -> HeaderFacts:
    """The files that the render and the compiler have read."""
    read, missed = made.render.read, frozenset(made.render.missed)
    compiled = HeaderFacts("", {}) if made.result is None or made.result.headers is None else made.result.headers
    name = f"{compiled.name} {hash((frozenset(read.items()), missed))}"
    return HeaderFacts(name, {**read, **compiled.present}, missed | compiled.absent)


def _errors(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(one for one in found if one.severity is Severity.ERROR)
