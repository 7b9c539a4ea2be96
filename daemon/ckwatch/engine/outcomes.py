"""The outcome of units apart from their phases: rendered, compiled, analyzed and verified once, as the store has it.

Nothing of it is a unit's state or in the history. What is made goes to the store by its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from anyio import CapacityLimiter, to_thread

from ckwatch.checks.fold import in_one_line
from ckwatch.compile.store.entries import ProductKind
from ckwatch.core.events import CompileFacts, HeaderFacts, UnitKey, ViewOverrides
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.analyze import ReportCache
from ckwatch.engine.handlers.other_toolchains import OtherToolchains
from ckwatch.engine.handlers.verify import VerifyRunner, why_not_emulated
from ckwatch.engine.shape_predictions import shape_predictions
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.unit_changes import CountedWork, UnitOutcome

ERRORS_SHOWN = 20
"""Of a unit's errors; a compiler stops after as many."""

OnStage = Callable[[str], None]

_UNBUILT: Mapping[Outcome, Literal["failed", "skipped", "faulted"]] = {
    Outcome.FAILED: "failed",
    Outcome.SKIPPED: "skipped",
    Outcome.FAULTED: "faulted",
}


@dataclass(frozen=True, slots=True)
class ViewedUnit:
    """A unit as a view has it."""

    key: UnitKey
    unit: Unit
    overlays: Mapping[str, str]
    options: ViewOverrides


@dataclass(frozen=True, slots=True)
class BuiltUnit:
    """A unit's outcome, its text, what its compile came to, and all diagnostics."""

    outcome: UnitOutcome
    text: str = ""
    result: CompileFacts | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def headers(self) -> HeaderFacts | None:
        """The headers that its compile read."""
        return None if self.result is None else self.result.headers


@dataclass(frozen=True, slots=True)
class BuiltState:
    """A unit in one of two states, and the result of its compile."""

    unit: Unit
    result: CompileFacts


class OutcomeBuilds:
    """Builds units with one toolchain, beside the units' phases."""

    def __init__(
        self, tools: BuildTools, toolchains: OtherToolchains, verifier: VerifyRunner, compiler: CompilerWithStore
    ) -> None:
        self._toolchains = toolchains
        self._verifier = verifier
        self._compiler = compiler
        self._reports = ReportCache(tools, compiler=compiler)

    async def built(
        self,
        one: ViewedUnit,
        compilers: CapacityLimiter,
        *,
        verify: bool,
        profile: bool = False,
        on_stage: OnStage,
    ) -> BuiltUnit:
        """Compile, analyze and verify a unit in its view, and count the work of a launch for a `profile`.

        Raises CkwatchError when the host cannot."""
        async with compilers:
            on_stage("compiling")
            made = await self._toolchains.unit(
                *(one.key, one.unit, self._compiler, one.overlays, one.options), build=True, awaited=True
            )
        result, text = made.result, made.render.rendered
        if result is None or made.outcome is not Outcome.BUILT or text is None:
            errors = made.errors[:ERRORS_SHOWN]
            problem = in_one_line(errors[0].message) if errors else "its template cannot be rendered"
            outcome = UnitOutcome(outcome=_UNBUILT[made.outcome], problem=problem, errors=errors)
            if result is not None:
                outcome = replace(outcome, artifact_key=result.artifact, from_store=result.from_store)
        else:
            outcome = await self._outcome(one.unit, result, verify, on_stage)
            if profile and not why_not_emulated(one.unit):
                on_stage("counting")
                outcome = replace(outcome, counted=await self._counted(one.unit, result))
        found = dict.fromkeys((*made.render.diagnostics, *made.errors, *(() if result is None else result.diagnostics)))
        return BuiltUnit(outcome, "" if text is None else text.text, result, tuple(found))

    async def _counted(self, unit: Unit, result: CompileFacts) -> CountedWork | None:
        """The work of a launch on the unit's first shape; None where it does not come to an end."""
        try:
            trial, launched = await self._verifier.counted(unit, result, None)
        except CkwatchError:
            return None
        workgroups = max((one.workgroups for one in launched.kernels), default=0)
        if launched.failure or not workgroups:
            return None
        counts = [count for one in launched.kernels for count in one.instructions.values()]
        turns, phases = sum(one.turns for one in counts), sum(one.phases for one in counts)
        return CountedWork(
            shape=trial.name,
            instructions=sum(one.issued for one in counts) / workgroups,
            cache_lines=sum(one.cache_lines for one in counts) / workgroups,
            lds_turns=turns / workgroups,
            lds_conflicts=(turns - phases) / workgroups,
        )

    async def _outcome(self, unit: Unit, result: CompileFacts, verify: bool, on_stage: OnStage) -> UnitOutcome:
        report, shapes = None, tuple[ShapePrediction, ...]()
        path = result.products.get(ProductKind.CODE_OBJECT.value)
        if path is not None and unit.arch.startswith("gfx"):
            with suppress(CkwatchError):
                report = await self._reports.report(result.artifact, Path(path), unit.arch, unit)
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
