"""Notifies clients: publishes changed states, and answers the build requests that wait for a unit."""

from __future__ import annotations

from ckwatch.core.effects import Changed, Notify
from ckwatch.core.events import AnalysisDepth, Cause
from ckwatch.core.phases import Phase
from ckwatch.core.state import Effects, PendingBuild, State, Wanted
from ckwatch.core.unit_state import UnitState
from ckwatch.model.topics import Topic

NO_COMPILER = "no compiler"

HEADERS_TOPIC = "headers"
"""Of `State.warnings`: which library's headers the compiler lacks."""

NOWHERE: frozenset[str] = frozenset()


def publish(out: Effects, unit: UnitState) -> None:
    """Publish the unit's state and its diagnostics."""
    shown = frozenset(diagnostic.span.path for diagnostic in unit.diagnostics)
    out.append(Changed(unit.key.scope, Topic.unit(unit.key.unit)))
    out.extend(Changed(unit.key.scope, Topic.file(path)) for path in shown | unit.published_files)
    unit.published_files = shown or NOWHERE


def awaiting(state: State, unit: UnitState) -> list[PendingBuild]:
    """The requests that wait for this state of the unit."""
    name = unit.key.unit
    if name not in state.waiting:
        return []
    requests = [state.requests[request] for request in sorted(state.waiting[name])]
    return [request for request in requests if state.seen(request.scope, name) is unit]


def notify(state: State, out: Effects, request: PendingBuild, name: str, problem: str | None = None) -> None:
    """Answer the request for one of its units, which is as requested or never will be."""
    requests = state.waiting[name]
    requests.discard(request.name)
    if not requests:
        del state.waiting[name]
    pending = request.pending or set()
    pending.discard(name)
    out.append(Notify(request.name, name, problem))
    if not pending:
        out.append(Notify(request.name, None))
        del state.requests[request.name]


def notify_checked(state: State, out: Effects, unit: UnitState) -> None:
    """Answer requests for checks, which need no compiler."""
    for request in awaiting(state, unit):
        if request.check_only:
            notify(state, out, request, unit.key.unit)


def reconsider(state: State, out: Effects, name: str, at: float) -> None:
    """Some views have another state of the unit now, or none: answer those that wait, or let them wait for that."""
    for request in [state.requests[request] for request in sorted(state.waiting.get(name, ()))]:
        if not notify_if_answered(state, out, request, name) and not request.check_only:
            state.wants.append(Wanted(request.scope, name, Cause("requested", at)))


def notify_if_answered(state: State, out: Effects, request: PendingBuild, name: str) -> bool:
    """Answer the request if the unit's present state is what it waits for; whether it is."""
    unit = state.seen(request.scope, name)
    if unit is None:
        notify(state, out, request, name, "removed")
        return True
    if unit.key in state.invalidated or unit.demand.force:
        return False
    if request.check_only:
        if unit.phase in (Phase.QUEUED, Phase.COMPILING) or unit.settled:
            notify(state, out, request, name)
            return True
        return False
    if unit.phase is Phase.DONE and not awaits_figures(request, unit):
        notify(state, out, request, name)
        return True
    if unit.phase is Phase.IDLE and not can_compile(state, unit):
        notify(state, out, request, name, NO_COMPILER)
        return True
    return False


def awaits_figures(request: PendingBuild, unit: UnitState) -> bool:
    """Return True if the answer for the unit, which is done, waits for the analysis of its code object."""
    if request.check_only or unit.figures.depth is None or unit.compile.result is None:
        return False
    kept = unit.figures.depth is AnalysisDepth.KEPT or not unit.compile.result.from_store
    return kept or unit.key.unit in request.awaits_analysis_of


def can_compile(state: State, unit: UnitState) -> bool:
    """Return True if there is a compiler, and it has all the headers of libraries that the unit includes."""
    if unit.render.facts is not None and unit.render.facts.lacks:
        return False
    workspace = state.views[unit.key.scope].workspace or state.main.workspace
    return workspace is None or workspace.toolchain_problem is None
