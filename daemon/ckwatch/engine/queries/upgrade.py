"""The changes that another toolchain would make: units are built with it and with the present one, and compared.

Nothing of it is a unit's state or in the history: what is compiled, analyzed and verified goes to the store by its
keys, so that it is there after the upgrade.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.checks.class_templates import declared_templates, rewritten_uses, used_templates
from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.effects import Compile, Render, RenderPriority
from ckwatch.core.events import MAIN, CompileFacts, HeaderFacts, Work, WorkKind
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import expected_memory_bytes
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.analyze import ReportCache
from ckwatch.engine.handlers.compile import CompileHandler
from ckwatch.engine.handlers.farm_link import FarmLink
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.look_up import RecentSnapshot
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.handlers.verify import VerifyRunner, why_not_emulated
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.analysis import shape_predictions
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.side_work import SideWork
from ckwatch.headers.masked_text import masked
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.kernels import Outcome
from ckwatch.system.user_files import read_file
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.unit_changes import UnitOutcome, UpgradeLine, unit_change

ERRORS_SHOWN = 20
"""Of a unit's errors; a compiler stops after as many."""

CANCELLED = "it was cancelled"


@dataclass(frozen=True)
class _Built:
    """A unit with one toolchain: what is known of it, its text, and the headers that its compile read."""

    outcome: UnitOutcome
    text: str = ""
    headers: HeaderFacts | None = None


class ToolchainBuilds:
    """Builds units with a toolchain, beside the units' phases."""

    def __init__(
        self,
        loop: EngineLoop,
        tools: BuildTools,
        view_loader: ViewLoader,
        verifier: VerifyRunner,
        farm: FarmLink,
        *,
        compilers: CapacityLimiter,
    ) -> None:
        threads = CapacityLimiter(4)
        self._loop = loop
        self._tools = tools
        self._verifier = verifier
        self._limiter = compilers
        self._renders = RenderHandler(tools, view_loader, threads)
        self._reports = ReportCache(tools)
        background = BackgroundPch(lambda: True)
        handlers = (tools, view_loader, self._renders, RecentSnapshot(), background, lambda _event: None)
        self._compiles = CompileHandler(*handlers, threads, farm)

    async def built(self, unit: UnitState, *, verify: bool, on_stage: Callable[[str], None]) -> _Built:
        """Render, compile, analyze and verify a unit in its view."""
        view = self._loop.state.views[unit.key.scope]
        subject = (unit.unit, view.overlays.copy(), view.options)
        work = partial(Work, 0, key=unit.key, generation=unit.input.generation)
        rendered = await self._renders.run(Render(work(kind=WorkKind.RENDER), *subject, RenderPriority.ASKED_FOR))
        facts = rendered.facts
        if not facts.ok or facts.lacks:
            errors = tuple(one for one in facts.diagnostics if one.severity is Severity.ERROR)[:ERRORS_SHOWN]
            problem = facts.lacks if facts.ok else errors[0].message if errors else "its template cannot be rendered"
            outcome = UnitOutcome(outcome="skipped" if facts.skipped else "failed", problem=problem, errors=errors)
            return _Built(outcome)
        effect = Compile(work(kind=WorkKind.COMPILE, tokens=facts.tokens), *subject, force=False, awaited=True)
        async with self._limiter:
            on_stage("compiling")
            finished = await self._compiles.compile(effect)
            result = getattr(finished, "facts", None)
        text = await self._renders.text_of(effect)
        if not isinstance(result, CompileFacts) or text is None:
            return _Built(UnitOutcome(outcome="faulted", problem="it was edited meanwhile"))
        outcome = await self._outcome(unit, result, verify=verify, on_stage=on_stage)
        return _Built(outcome, text.text, result.headers)

    async def _outcome(
        self, unit: UnitState, result: CompileFacts, *, verify: bool, on_stage: Callable[[str], None]
    ) -> UnitOutcome:
        if result.outcome is not Outcome.BUILT:
            errors = tuple(one for one in result.diagnostics if one.severity is Severity.ERROR)[:ERRORS_SHOWN]
            problem = errors[0].message if errors else "the compiler failed"
            failed = result.outcome is Outcome.FAILED
            return UnitOutcome(
                outcome="failed" if failed else "faulted",
                problem=problem,
                errors=errors,
                artifact_key=result.artifact,
                from_store=result.from_store,
            )
        report, shapes = None, tuple[ShapePrediction, ...]()
        path = result.products.get(ProductKind.CODE_OBJECT.value)
        if path is not None and unit.unit.arch.startswith("gfx"):
            with suppress(CkwatchError):
                report = await self._reports.report(result.artifact, Path(path), unit.unit.arch, unit.unit)
                shapes = await to_thread.run_sync(partial(shape_predictions, unit.unit, report))
        verification, not_verified = None, "" if verify else "it was not asked for"
        if verify:
            try:
                if not_verified := why_not_emulated(unit.unit):
                    raise CkwatchError(not_verified)
                on_stage("verifying")
                checks = self._verifier.settings.checks
                verification, _ = await self._verifier.verification_of(unit.unit, result, checked=checks, awaited=True)
            except CkwatchError as error:
                not_verified = str(error)
        return UnitOutcome(
            outcome="built",
            artifact_key=result.artifact,
            from_store=result.from_store,
            report=report,
            shapes=shapes,
            verification=verification,
            not_verified=not_verified,
        )


@dataclass(eq=False)
class UpgradeQuery:
    """Compares toolchains. `make_tools` makes the other one's tools."""

    _loop: EngineLoop
    _tools: BuildTools
    _make_tools: Callable[[], BuildTools]
    _view_loader: ViewLoader
    _verifier: VerifyRunner
    _farm: FarmLink
    _lookup: UnitLookup
    _side_work: SideWork

    @asynccontextmanager
    async def upgrade(
        self, client: str | None, patterns: Sequence[str] | None, to: str, *, verify: bool
    ) -> AsyncIterator[AsyncIterator[UpgradeLine]]:
        """The lines of a comparison; leaving the context ends what it does.

        Raises UnknownUnitError for a pattern that means no unit, ToolchainError without one of the toolchains.
        """
        scope = client or MAIN
        await self._lookup.loaded()
        names = await self._lookup.names(scope, patterns)
        units = [unit for name in names if (unit := self._loop.state.seen(scope, name)) is not None]
        present = self._tools.present_compiler().toolchain
        tools = self._make_tools()
        try:
            workspace = self._view_loader.workspace(scope)
            find = partial(tools.configure, workspace.settings, root=workspace.root, called=to)
            await to_thread.run_sync(find)
            other = tools.present_compiler().toolchain
            send, receive = anyio.create_memory_object_stream[UpgradeLine](float("inf"))
            send.send_nowait(UpgradeLine(event="start", units=len(units), before=_title(present), after=_title(other)))
            async with plain_errors(), anyio.create_task_group() as tasks, send, receive:
                tasks.start_soon(self._compare_all, units, tools, verify, send)
                yield receive
                tasks.cancel_scope.cancel()
        finally:
            with CancelScope(shield=True):
                await tools.aclose()

    async def _compare_all(
        self, units: Sequence[UnitState], tools: BuildTools, verify: bool, send: MemoryObjectSendStream[UpgradeLine]
    ) -> None:
        state = self._loop.state
        memory = max((expected_memory_bytes(state, unit) for unit in units), default=1)
        room = state.jobs if state.memory_bytes is None else min(state.jobs, state.memory_bytes // memory)
        compilers = CapacityLimiter(max(1, room))
        parts = (self._view_loader, self._verifier, self._farm)
        before, after = (ToolchainBuilds(self._loop, one, *parts, compilers=compilers) for one in (self._tools, tools))
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(self._compare, unit, before, after, verify, send)
        send.send_nowait(UpgradeLine(event="done"))
        send.close()

    async def _compare(
        self,
        unit: UnitState,
        before: ToolchainBuilds,
        after: ToolchainBuilds,
        verify: bool,
        send: MemoryObjectSendStream[UpgradeLine],
    ) -> None:
        def stage(which: str, text: str) -> None:
            send.send_nowait(UpgradeLine(event="stage", unit=unit.key.unit, text=f"{text} with the {which} toolchain"))

        sides: list[_Built] = []
        with self._side_work.of(unit.key):
            for which, builds in (("present", before), ("other", after)):
                try:
                    sides.append(await builds.built(unit, verify=verify, on_stage=partial(stage, which)))
                except CkwatchError as error:
                    sides.append(_Built(UnitOutcome(outcome="faulted", problem=str(error))))
        sides += [_Built(UnitOutcome(outcome="faulted", problem=CANCELLED))] * (2 - len(sides))
        old, new = sides
        rewrites: list[str] = []
        if old.outcome.outcome == "built" and old.headers and new.headers and old.headers != new.headers:
            rewrites = await to_thread.run_sync(_rewrites, new.text, old.headers, new.headers)
        change = unit_change(unit.key.unit, old.outcome, new.outcome, rewrites)
        send.send_nowait(UpgradeLine(event="unit", unit=unit.key.unit, change=change))


def _rewrites(text: str, before: HeaderFacts, after: HeaderFacts) -> list[str]:
    """Replacements in a text where templates in headers have other parameters than before. Blocks; call from a worker
    thread."""
    code = masked(text)
    names = used_templates(code)
    old, new = (declared_templates(_texts(one, other), names) for one, other in ((before, after), (after, before)))
    return rewritten_uses(code, old, new)


def _texts(headers: HeaderFacts, others: HeaderFacts) -> list[str]:
    """The headers that are not the same in the other set."""
    same = set(others.present.values())
    found: list[str] = []
    for path, digest in headers.present.items():
        if digest not in same:
            try:
                found.append(read_file(Path(path)).decode("utf-8", "replace"))
            except OSError:
                continue
    return found


def _title(toolchain: Toolchain | NvccToolchain) -> str:
    """`ROCm 7.2.4 at /opt/rocm with CK 1.2.0 at /opt/rocm/include`."""
    if not isinstance(toolchain, Toolchain):
        return str(toolchain.hipcc)
    ck = toolchain.ck or toolchain.ck_tile
    return (
        toolchain.title if ck is None else f"{toolchain.title}, CK {ck.version or 'without a version'} at {ck.folder}"
    )
