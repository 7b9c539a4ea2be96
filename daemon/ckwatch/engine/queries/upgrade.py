"""The changes that another toolchain would make: units are built with it and with the present one, and compared.

Nothing of it is a unit's state or in the history: what is compiled, analyzed and verified goes to the store by its
keys, so that it is there after the upgrade.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.checks.class_templates import declared_templates, rewritten_uses, used_templates
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import MAIN, CompileFacts, HeaderFacts
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import expected_memory_bytes
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.analyze import ReportCache
from ckwatch.engine.handlers.other_toolchains import OtherToolchains
from ckwatch.engine.handlers.verify import VerifyRunner, why_not_emulated
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.analysis import shape_predictions
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.side_work import SideWork
from ckwatch.headers.masked_text import masked
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.system.user_files import read_file
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.unit_changes import UnitOutcome, UpgradeLine, unit_change

ERRORS_SHOWN = 20
"""Of a unit's errors; a compiler stops after as many."""

CANCELLED = "it was cancelled"

_UNBUILT: Mapping[Outcome, Literal["failed", "skipped", "faulted"]] = {
    Outcome.FAILED: "failed",
    Outcome.SKIPPED: "skipped",
    Outcome.FAULTED: "faulted",
}


@dataclass(frozen=True)
class _Built:
    """A unit with one toolchain: what is known of it, its text, and the headers that its compile read."""

    outcome: UnitOutcome
    text: str = ""
    headers: HeaderFacts | None = None


@dataclass(frozen=True)
class _Side:
    """One of the toolchains that are compared."""

    name: str
    compiler: CompilerWithStore
    reports: ReportCache


@dataclass(eq=False)
class UpgradeQuery:
    """Compares toolchains."""

    _loop: EngineLoop
    _tools: BuildTools
    _toolchains: OtherToolchains
    _verifier: VerifyRunner
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
        present = self._tools.present_compiler()
        other = await self._toolchains.compiler(scope, to)
        sides = [
            _Side(name, compiler, ReportCache(self._tools, compiler=compiler))
            for name, compiler in (("present", present), ("other", other))
        ]
        before, after = (_title(side.compiler.toolchain) for side in sides)
        send, receive = anyio.create_memory_object_stream[UpgradeLine](float("inf"))
        send.send_nowait(UpgradeLine(event="start", units=len(units), before=before, after=after))
        async with plain_errors(), anyio.create_task_group() as tasks, send, receive:
            tasks.start_soon(self._compare_all, units, sides, verify, send)
            yield receive
            tasks.cancel_scope.cancel()

    async def _compare_all(
        self,
        units: Sequence[UnitState],
        sides: Sequence[_Side],
        verify: bool,
        send: MemoryObjectSendStream[UpgradeLine],
    ) -> None:
        state = self._loop.state
        memory = max((expected_memory_bytes(state, unit) for unit in units), default=1)
        room = state.jobs if state.memory_bytes is None else min(state.jobs, state.memory_bytes // memory)
        compilers = CapacityLimiter(max(1, room))
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(self._compare, unit, sides, compilers, verify, send)
        send.send_nowait(UpgradeLine(event="done"))
        send.close()

    async def _compare(
        self,
        unit: UnitState,
        sides: Sequence[_Side],
        compilers: CapacityLimiter,
        verify: bool,
        send: MemoryObjectSendStream[UpgradeLine],
    ) -> None:
        def stage(which: str, text: str) -> None:
            send.send_nowait(UpgradeLine(event="stage", unit=unit.key.unit, text=f"{text} with the {which} toolchain"))

        found: list[_Built] = []
        with self._side_work.of(unit.key):
            for side in sides:
                try:
                    found.append(await self._built(unit, side, compilers, verify, partial(stage, side.name)))
                except CkwatchError as error:
                    found.append(_Built(UnitOutcome(outcome="faulted", problem=str(error))))
        found += [_Built(UnitOutcome(outcome="faulted", problem=CANCELLED))] * (2 - len(found))
        old, new = found
        rewrites: list[str] = []
        if old.outcome.outcome == "built" and old.headers and new.headers and old.headers != new.headers:
            rewrites = await to_thread.run_sync(_rewrites, new.text, old.headers, new.headers)
        change = unit_change(unit.key.unit, old.outcome, new.outcome, rewrites)
        send.send_nowait(UpgradeLine(event="unit", unit=unit.key.unit, change=change))

    async def _built(
        self,
        unit: UnitState,
        side: _Side,
        compilers: CapacityLimiter,
        verify: bool,
        on_stage: Callable[[str], None],
    ) -> _Built:
        """Compile, analyze and verify a unit in its view."""
        view = self._loop.state.views[unit.key.scope]
        async with compilers:
            on_stage("compiling")
            made = await self._toolchains.unit(
                *(unit.key, unit.unit, side.compiler, view.overlays.copy(), view.options), build=True, awaited=True
            )
        result, text = made.result, made.render.rendered
        if result is None or made.outcome is not Outcome.BUILT or text is None:
            errors = made.errors[:ERRORS_SHOWN]
            problem = errors[0].message if errors else "its template cannot be rendered"
            outcome = UnitOutcome(outcome=_UNBUILT[made.outcome], problem=problem, errors=errors)
            if result is not None:
                outcome = outcome.model_copy(update={"artifact_key": result.artifact, "from_store": result.from_store})
        else:
            outcome = await self._outcome(unit.unit, side, result, verify, on_stage)
        return _Built(outcome, "" if text is None else text.text, None if result is None else result.headers)

    async def _outcome(
        self, unit: Unit, side: _Side, result: CompileFacts, verify: bool, on_stage: Callable[[str], None]
    ) -> UnitOutcome:
        report, shapes = None, tuple[ShapePrediction, ...]()
        path = result.products.get(ProductKind.CODE_OBJECT.value)
        if path is not None and unit.arch.startswith("gfx"):
            with suppress(CkwatchError):
                report = await side.reports.report(result.artifact, Path(path), unit.arch, unit)
                shapes = await to_thread.run_sync(partial(shape_predictions, unit, report))
        verification, not_verified = None, "" if verify else "it was not asked for"
        if verify:
            try:
                if not_verified := why_not_emulated(unit):
                    raise CkwatchError(not_verified)
                on_stage("verifying")
                checks = self._verifier.settings.checks
                verification, _ = await self._verifier.verification_of(unit, result, checked=checks, awaited=True)
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
