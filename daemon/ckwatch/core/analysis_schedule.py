"""Decides when code objects are analyzed: after a compile, and for units that are edited, in focus or requested.

The store keeps most figures of an artifact on disk with it (`AnalysisDepth.KEPT`). They are read for units that
a client wants: thousands of units that a daemon finds at its start cost nothing, and little when a client wants
everything. Figures that are not kept take LLVM's tools a fraction of a second (`AnalysisDepth.WHOLE`). One analysis
runs at a time, beside compilers; those that no client waits for run when no compiler does.

A build request is answered for a unit when its figures are there, because its warnings are among them. The store may
have thousands of artifacts that were never analyzed: a request waits for some of them only
(`State.analyses_awaited`).
"""

from __future__ import annotations

from ckwatch.core import advice_schedule, events
from ckwatch.core.demand import EDITED, IN_FOCUS, OTHERS, REQUESTED, is_in_focus
from ckwatch.core.effects import Analyze
from ckwatch.core.notify import awaiting, awaits_figures, notify_if_answered, publish
from ckwatch.core.phases import Phase
from ckwatch.core.state import Effects, Priority, State, begin, release, stop
from ckwatch.core.unit_state import UnitState
from ckwatch.model.kernels import Outcome

CODE_OBJECT = "code-object"
"""The kind of product that can be analyzed, `ckwatch.compile.request.ProductKind`."""

LATER = OTHERS + 1
"""The rank of artifacts from the store that no client waits for: the tools run when no compiler does."""


def consider(state: State, unit: UnitState) -> None:
    """The unit is settled, or the demand for it changed: decide whether its artifact is to be analyzed."""
    result = unit.compile.result
    if result is None or not _can_analyze(unit, result) or unit.figures.unreadable_artifact == result.artifact:
        _forget(state, unit)
    elif _knows(unit, result):
        if unit.figures.depth is not None:  # once more, against another baseline
            _want(state, unit, events.AnalysisDepth.WHOLE)
    elif result.from_store and not _is_cared_for(state, unit) and not _is_seen(state, unit):
        _forget(state, unit)
    elif unit.figures.depth is None or unit.figures.work is None or unit.figures.work.tokens != result.artifact:
        _want(state, unit, events.AnalysisDepth.KEPT if result.from_store else events.AnalysisDepth.WHOLE)


def _can_analyze(unit: UnitState, result: events.CompileFacts) -> bool:
    built = unit.phase is Phase.DONE and unit.outcome is Outcome.BUILT
    return built and unit.unit.arch.startswith("gfx") and CODE_OBJECT in result.products


def _knows(unit: UnitState, result: events.CompileFacts) -> bool:
    return unit.figures.latest is not None and unit.figures.latest.artifact == result.artifact


def _is_cared_for(state: State, unit: UnitState) -> bool:
    asked = any(not request.check_only for request in awaiting(state, unit))
    return bool(unit.input.last_edit) or asked or is_in_focus(state, unit)


def _is_seen(state: State, unit: UnitState) -> bool:
    """Return True if a client requests everything: then it gets the stored figures."""
    name = unit.key.unit
    return any(focus.everything and state.seen(client, name) is unit for client, focus in state.focus.items())


def _want(state: State, unit: UnitState, depth: events.AnalysisDepth) -> None:
    unit.figures.depth = depth
    if unit.figures.work is None:
        state.analyze_queue.add(unit.key, _priority(state, unit))


def _forget(state: State, unit: UnitState) -> None:
    unit.figures.depth = None
    state.analyze_queue.remove(unit.key)


def _priority(state: State, unit: UnitState) -> Priority:
    return (_rank(state, unit), -unit.input.last_edit, state.next())


def _rank(state: State, unit: UnitState) -> int:
    if is_in_focus(state, unit):
        return IN_FOCUS
    if any(awaits_figures(request, unit) for request in awaiting(state, unit)):
        return REQUESTED
    if unit.input.last_edit:
        return EDITED
    return LATER if unit.compile.result is not None and unit.compile.result.from_store else OTHERS


def analyze_requested(state: State, out: Effects, event: events.AnalyzeRequested) -> None:
    """A client wants figures of units that are built; the others are analyzed after their build."""
    for name in event.units:
        unit = state.seen(event.scope, name)
        result = None if unit is None else unit.compile.result
        if unit is None or result is None or not _can_analyze(unit, result):
            continue
        if event.again:
            stop(state, out, unit.figures.work)
        if event.again or not _knows(unit, result):
            unit.figures.unreadable_artifact = ""
            _want(state, unit, events.AnalysisDepth.WHOLE)


def stop_useless(state: State, out: Effects) -> None:
    """Stop an analysis that is of no use any more."""
    work = state.analyzing
    if work is None:
        return
    unit = state.find(work.key)
    if unit is None or unit.figures.work is not work or unit.figures.depth is None or not unit.has_built(work.tokens):
        stop(state, out, work)


def start(state: State, out: Effects) -> None:
    """Analyze the unit that is wanted most, if no analysis is running."""
    while state.analyzing is None and (key := state.analyze_queue.first()) is not None:
        unit = state.find(key)
        if unit is None or unit.figures.depth is None or unit.compile.result is None or not unit.settled:
            state.analyze_queue.remove(key)  # it comes back when it is settled
            continue
        if state.is_measuring_alone:
            return
        if unit.figures.depth is events.AnalysisDepth.WHOLE and _rank(state, unit) == LATER and state.is_compiling:
            return
        state.analyze_queue.remove(key)
        work = begin(state, events.WorkKind.ANALYZE, key, unit.input.generation, unit.compile.result.artifact)
        unit.figures.work = state.analyzing = work
        before = "" if unit.figures.latest is None else unit.figures.latest.artifact
        out.append(Analyze(work, unit.unit, unit.compile.result, unit.figures.depth, before))


def analyze_finished(state: State, out: Effects, event: events.AnalyzeFinished) -> None:
    """An analysis has ended. The figures of an earlier artifact are dropped."""
    work, figures = event.work, event.figures
    ran = release(state, work)
    unit = _end(state, work)
    if unit is None:
        return
    present = (
        unit.compile.result is not None
        and unit.compile.result.artifact == work.tokens
        and unit.figures.depth is not None
    )
    if present and ran and figures is not None:
        unit.figures.latest, unit.figures.depth, unit.figures.unreadable_artifact = figures, None, ""
    elif present and ran and unit.figures.depth is events.AnalysisDepth.KEPT and not _is_cared_for(state, unit):
        unit.figures.depth = None
    elif present and ran and unit.figures.depth is events.AnalysisDepth.KEPT:
        unit.figures.depth = events.AnalysisDepth.WHOLE
        for request in awaiting(state, unit):
            if len(request.awaits_analysis_of) < state.analyses_awaited:
                request.awaits_analysis_of.add(unit.key.unit)
    elif present and ran:
        unit.figures.depth, unit.figures.unreadable_artifact = None, work.tokens
    _go_on(state, out, unit)


def analyze_aborted(state: State, out: Effects, event: events.WorkAborted, *, ran: bool) -> None:
    """An analysis was stopped, and may still be wanted; or it failed, and is tried again when the unit is wanted or
    settles the next time."""
    unit = _end(state, event.work)
    if unit is None:
        return
    if ran and unit.compile.result is not None and unit.compile.result.artifact == event.work.tokens:
        unit.figures.depth = None
    _go_on(state, out, unit)


def _end(state: State, work: events.Work) -> UnitState | None:
    """The unit that was analyzed, if there still is one."""
    analyzing, state.analyzing = state.analyzing, None
    assert analyzing is work, "one analysis at a time"  # noqa: S101
    unit = state.find(analyzing.key) if analyzing is not None else None
    if unit is None or unit.figures.work is not work:
        return None
    unit.figures.work = None
    return unit


def _go_on(state: State, out: Effects, unit: UnitState) -> None:
    if unit.figures.depth is not None:
        state.analyze_queue.add(unit.key, _priority(state, unit))
    else:
        state.analyze_queue.remove(unit.key)
    advice_schedule.consider(state, unit)
    publish(out, unit)
    if unit.phase is Phase.DONE:
        for request in awaiting(state, unit):
            notify_if_answered(state, out, request, unit.key.unit)
