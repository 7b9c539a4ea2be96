"""Converts states, diagnostics and causes to the types that clients receive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ckwatch.compile.slow_compile import SLOW_COMPILE
from ckwatch.core.events import Cause, CheckWithFacts, CompileFacts
from ckwatch.core.phases import Phase
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.model.diagnostics import Severity
from ckwatch.model.figures import Figures
from ckwatch.model.kernels import Outcome
from ckwatch.model.timings import Standing, Timing
from ckwatch.model.verification import Verification
from ckwatch.wire import state as wire
from ckwatch.wire.verification import UnitVerification


def unit_to_wire(unit: UnitState, *, timings: bool = True) -> wire.Unit:
    """A unit's state, with its timings or without."""
    last, render = unit.compile.result, unit.render.facts
    result = unit.present_result if unit.settled else last
    severities = Counter(diagnostic.severity for diagnostic in unit.diagnostics)
    outcome = unit.outcome
    return wire.Unit(
        id=unit.key.unit,
        kernel=unit.unit.kernel.name,
        instance=unit.unit.instance.name,
        arch=unit.unit.arch,
        place=unit.unit.instance.span,
        phase=shown_phase(unit).value,
        outcome=None if outcome is None else outcome.value,
        fresh=unit.settled,
        generation=unit.input.generation,
        errors=severities[Severity.ERROR],
        warnings=severities[Severity.WARNING],
        symbol=None if render is None else render.symbol or None,
        key=None if result is None else result.key or None,
        from_store=result is not None and result.from_store,
        seconds=0.0 if result is None else result.seconds,
        finished_at=None if result is None else result.finished_at or None,
        products={} if last is None else dict(last.products),
        cause=causes_to_wire(unit.cause),
        edited=unit.input.last_edit,
        timings=unit_timings_to_wire(unit) if timings else (),
        measuring=next(iter(unit.timing.requested), None) if unit.timing.work is not None else None,
        to_measure=tuple(unit.timing.requested),
        unmeasured=unit.timing.untimed_because,
        figures=unit_figures_to_wire(unit),
        verification=verification_brief(unit),
        verifying=unit.verification.request is not None,
        unverified=unit.verification.unverified_because,
        slow=slow_compile(unit),
        waits_for=compile_wait(unit),
        profiled_at=unit.profiled_at,
        toolchains=unit_toolchains(unit),
    )


def unit_toolchains(unit: UnitState) -> tuple[wire.UnitToolchain, ...]:
    """The unit with each of the other toolchains that are named."""
    now = unit.toolchains
    if not now.policy.others:
        return ()
    names = (one.name for one in now.policy.others)
    return tuple(
        unit_toolchain(unit, known)
        if (known := now.results.get(name)) is not None
        else wire.UnitToolchain(name=name, working=name in now.requested)
        for name in names
    )


def unit_toolchain(unit: UnitState, found: CheckWithFacts, *, checked: bool = False) -> wire.UnitToolchain:
    """A result with a toolchain; `checked`: as that of a check, although the store had more."""
    outcome = Outcome.CHECKED if checked and found.outcome is Outcome.BUILT else found.outcome
    result = found.result or CompileFacts(found.outcome, "")
    return wire.UnitToolchain(
        name=found.toolchain.name,
        outcome=outcome.value,
        fresh=unit.settled and unit.holds(found) and not found.is_outdated,
        errors=len(found.diagnostics),
        working=found.toolchain.name in unit.toolchains.requested,
        problem=found.problem,
        key=result.key or None,
        from_store=result.from_store,
        seconds=result.seconds,
        products=dict(result.products),
    )


def shown_phase(unit: UnitState) -> Phase:
    """The phase as clients see it: a compile that has begun is one, also between its compilers."""
    return Phase.COMPILING if unit.compile_has_begun else unit.phase


def compile_wait(unit: UnitState) -> str:
    """Return what the unit's compile waits for; empty for others."""
    if unit.phase is Phase.COMPILING:
        return unit.compile.waits_for
    return "a compiler for its device pass" if unit.compile_has_begun else ""


def slow_compile(unit: UnitState) -> str:
    """Return the warning about a compile that runs far longer than usual; empty for others."""
    return next((one.message for one in unit.compile.live_diagnostics if one.code == SLOW_COMPILE), "")


def unit_timings_to_wire(unit: UnitState) -> tuple[Timing, ...]:
    """The unit's last timings in the order of its shapes, then on others, each marked as fresh, stale or running."""
    return tuple(_timings_to_wire(unit)) if unit.timing.by_shape else ()


def _timings_to_wire(unit: UnitState) -> Iterator[Timing]:
    built = unit.built
    present = None if built is None else built.artifact
    for shape in dict.fromkeys((*(one.name for one in unit.unit.kernel.shapes), *unit.timing.by_shape)):
        timing = unit.timing.by_shape.get(shape)
        if timing is None:
            continue
        standing: Standing = "fresh" if timing.artifact == present else "stale"
        if shape in unit.timing.requested and unit.timing.work is not None:
            standing = "running"
        for row in timing.timings:
            yield row if row.standing == standing else replace(row, standing=standing)


def unit_figures_to_wire(unit: UnitState) -> Figures | None:
    """The figures of the unit's last analyzed artifact, and whether that is the present one."""
    figures, built = unit.figures.latest, unit.built
    if figures is None:
        return None
    fresh = built is not None and built.artifact == figures.artifact
    return figures.figures if fresh else replace(figures.figures, standing="stale")


def verification_brief(unit: UnitState) -> wire.VerificationBrief | None:
    """The unit's last verification, and whether it is of the present artifact."""
    latest, built = unit.verification.latest, unit.built
    if latest is None:
        return None
    found = latest.verification
    return wire.VerificationBrief(
        artifact_key=latest.artifact,
        standing="fresh" if built is not None and built.artifact == latest.artifact else "stale",
        outcome=found.outcome.value,
        device=found.device,
        summary=found.summary,
        problems=len(found.problems),
        findings=len(found.findings),
    )


def verification_to_wire(unit: UnitState) -> UnitVerification | None:
    """The verification of the unit's present artifact with everything in it; None without one."""
    latest, built = unit.verification.latest, unit.built
    if latest is None or built is None or latest.artifact != built.artifact:
        return None
    return unit_verification(unit.key.unit, latest.artifact, latest.verification)


def unit_verification(unit: str, artifact: str, found: Verification) -> UnitVerification:
    """A verification of a unit's artifact with everything in it."""
    return UnitVerification(
        unit=unit, outcome=found.outcome.value, summary=found.summary, artifact_key=artifact, verification=found
    )


def causes_to_wire(cause: Cause) -> tuple[wire.Cause, ...]:
    """A cause and those behind it, newest first."""
    return tuple(wire.Cause(what=link.what, at=link.at) for link in cause.chain)


def workspace_to_wire(state: State, scope: str) -> wire.Workspace:
    """The workspace as a whole."""
    view = state.views.get(scope, state.main)
    warnings = dict(state.warnings)
    if state.main.workspace is not None and state.main.workspace.toolchain_problem is not None:
        warnings["toolchain"] = state.main.workspace.toolchain_problem
    return wire.Workspace(
        root=state.root,
        loaded=state.main.started,
        busy=state.busy,
        unit_count=len(state.members(scope)),
        jobs=state.jobs,
        compiling=sum(work.kind in ("check", "compile") for work in state.running.values()),
        problem=view.problem or state.main.problem,
        warnings=warnings,
        imported_at=state.imported_at,
        waits_for=state.waits_for,
        editors=len(state.editors),
    )


def shown_to_wire(state: State) -> wire.ShownPlace | None:
    """The place that editors were asked to show last."""
    shown = state.shown
    return None if shown is None else wire.ShownPlace(path=shown.path, line=shown.line, column=shown.column)
