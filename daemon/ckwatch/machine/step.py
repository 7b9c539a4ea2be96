"""`step`: the only place where the daemon's state changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ckwatch.effects import Changed, Continue, Effect, Follow
from ckwatch.events import (
    MAIN,
    Analyzed,
    AnalyzeRequested,
    AnyEvent,
    ArtifactsLost,
    BuildRequested,
    CancelRequested,
    Checked,
    ClientLost,
    CompileBegan,
    Compiled,
    Continued,
    Ended,
    FilesChanged,
    Focused,
    Loaded,
    LookedUp,
    Measured,
    MeasureDropped,
    MeasureRequested,
    MemoryMeasured,
    Narrowed,
    OptionsChanged,
    OverlayChanged,
    Recorded,
    Rendered,
    RequestDropped,
    Said,
    Scanned,
    Warned,
    Work,
    WorkKind,
)
from ckwatch.machine import analyzing, clients, files, loading, measuring, requests, units, views
from ckwatch.machine.loads import end_load, request_load
from ckwatch.machine.schedule import start_work
from ckwatch.machine.state import Effects, Phase, State, Touch, UnitState
from ckwatch.machine.tasks import release
from ckwatch.machine.telling import show
from ckwatch.model.outcome import Outcome


def start(state: State) -> tuple[Effect, ...]:
    """The first effects of a daemon."""
    out: Effects = []
    request_load(state, out, state.main, urgent=True)
    return tuple(out)


def step(state: State, event: AnyEvent) -> tuple[Effect, ...]:
    """Take in one event; what is to be done now, in this order."""
    out: Effects = []
    busy = state.busy
    HANDLERS[type(event)](state, out, event)
    # A bounded piece of all that waits.
    files.act(state, out)
    loading.act(state, out, event.at)
    views.act(state, out, event.at)
    clients.act(state, out)
    requests.act(state, out, event.at)
    requests.resolve(state, out)
    analyzing.act(state, out)
    measuring.act(state, out)
    if state.has_news and not state.continuing:
        state.continuing = True
        out.append(Continue())
    start_work(state, out)
    if state.graph.version != state.followed:
        state.followed = state.graph.version
        out.append(Follow())
    if state.busy != busy:
        out.append(Changed(MAIN, "workspace"))
    return tuple(out)


def _continued(state: State, out: Effects, event: Continued) -> None:  # noqa: ARG001  # `step` goes on by itself
    state.continuing = False


def _unit_at(state: State, work: Work) -> UnitState | None:
    """The unit for which `work` still matters."""
    unit = state.find(state.heirs.get(work.number, work.key))
    return unit if unit is not None and (unit.working is work or unit.compiler is work) else None


def _rendered(state: State, out: Effects, event: Rendered) -> None:
    unit = _unit_at(state, event.work)
    missed = None if unit is None else files.missed_change(state, unit, event.work, event.facts)
    release(state, event.work)
    if unit is None:
        return
    unit.working = None
    state.graph.set_reads(unit.key, event.facts.reads, event.facts.missed)
    if missed is not None:
        state.touch([unit.key], missed)
    if files.apply_touch(state, out, unit.key):
        return
    views.part_views(state, out, unit, event.at)
    units.rendered(state, out, unit, event.facts, event.at)
    views.join_views(state, out, unit, event.at)


def _looked_up(state: State, out: Effects, event: LookedUp) -> None:
    unit = _unit_at(state, event.work)
    missed = None
    if unit is not None:
        missed = files.missed_change(state, unit, event.work, unit.render)
        if missed is None and event.facts is not None:
            missed = files.missed_header(state, unit, event.work, event.facts)
    release(state, event.work)
    if unit is None:
        return
    unit.working = None
    if missed is not None:
        state.touch([unit.key], missed)
    if not files.apply_touch(state, out, unit.key):
        units.looked_up(state, out, unit, event.facts, event.at)


def _is_outdated(state: State, out: Effects, unit: UnitState, missed: Touch | None) -> bool:
    """Whether there is news that the unit's compiler, which has ended, has not seen; then it is acted upon."""
    if missed is not None:
        state.touch([unit.key], missed)
    if unit.key not in state.touched:
        return False
    unit.compiler = None
    files.apply_touch(state, out, unit.key)
    return True


def _compiled(state: State, out: Effects, event: Compiled) -> None:
    unit = _unit_at(state, event.work)
    missed = None
    if unit is not None and unit.phase is Phase.COMPILING:
        missed = files.missed_header(state, unit, event.work, event.facts)
        missed = missed or files.missed_change(state, unit, event.work, unit.render, event.facts.outcome)
    release(state, event.work)
    if unit is None or _is_outdated(state, out, unit, missed):
        return
    units.compiled(state, out, unit, event.work, event.facts, event.at)


def _checked(state: State, out: Effects, event: Checked) -> None:
    unit = _unit_at(state, event.work)
    missed = None
    if unit is not None and unit.phase is Phase.COMPILING:
        missed = files.missed_change(state, unit, event.work, unit.render)
    release(state, event.work)
    if unit is None or _is_outdated(state, out, unit, missed):
        return
    units.checked(state, out, unit, event.work, event.diagnostics)


def _said(state: State, out: Effects, event: Said) -> None:
    unit = _unit_at(state, event.work)
    if unit is not None:
        units.said(out, unit, event.work, event.diagnostics)


def _narrowed(state: State, out: Effects, event: Narrowed) -> None:  # noqa: ARG001  # as all handlers
    if event.work.number in state.running:
        state.narrow.add(event.work.number)


def _ended(state: State, out: Effects, event: Ended) -> None:
    work = event.work
    unit = _unit_at(state, work)
    missed = None
    if unit is not None and (unit.working is work or unit.phase is Phase.COMPILING):
        missed = files.missed_change(state, unit, work, unit.render, Outcome.FAULTED)
    ran = release(state, work)
    fault = event.fault or ("" if not ran else f"{work.kind} was stopped from outside")
    match work.kind:
        case WorkKind.LOAD:
            scope = state.scopes.get(work.key.scope)
            if scope is not None and scope.loading is work:
                end_load(state, out, scope)
                scope.problem = fault or scope.problem
                out.append(Changed(scope.name, "workspace"))
                if scope.name == MAIN:
                    loading.accept_views(state, out, event.at)
        case WorkKind.SCAN:
            files.end_scan(state, out)
        case WorkKind.ANALYZE:
            analyzing.ended(state, out, event, ran=ran)
        case WorkKind.MEASURE:
            measuring.ended(state, out, event, ran=ran)
        case WorkKind.RECORD:
            state.recording = None
            _warn(state, out, "history", fault or None)
        case _:
            if unit is None:
                return
            if missed is not None:
                state.touch([unit.key], missed)
            if unit.key in state.touched:
                if unit.compiler is work:
                    unit.compiler = None
                files.apply_touch(state, out, unit.key)
            else:
                units.failed(state, out, unit, work, fault or "it was stopped", event.at)


def _recorded(state: State, out: Effects, event: Recorded) -> None:
    release(state, event.work)
    state.recording = None
    _warn(state, out, "history", event.problem)


def _loaded(state: State, out: Effects, event: Loaded) -> None:
    release(state, event.work)
    loading.loaded(state, out, event)


def _scanned(state: State, out: Effects, event: Scanned) -> None:
    # Renders that began before the scan found the news may have missed it: noted before the work is released.
    files.scanned(state, out, event)
    release(state, event.work)


def _compile_began(state: State, out: Effects, event: CompileBegan) -> None:
    unit = _unit_at(state, event.work)
    if unit is not None:
        show(out, unit)


def _memory_measured(state: State, out: Effects, event: MemoryMeasured) -> None:  # noqa: ARG001  # as all handlers
    state.memory_bytes = event.capacity_bytes


def _warned(state: State, out: Effects, event: Warned) -> None:
    _warn(state, out, event.topic, event.message)


def _warn(state: State, out: Effects, topic: str, message: str | None) -> None:
    if state.warnings.get(topic) == message:
        return
    if message is None:
        del state.warnings[topic]
    else:
        state.warnings[topic] = message
    out.append(Changed(MAIN, "workspace"))


HANDLERS: dict[type, Callable[[State, Effects, Any], None]] = {
    Loaded: _loaded,
    Scanned: _scanned,
    Rendered: _rendered,
    LookedUp: _looked_up,
    Checked: _checked,
    Compiled: _compiled,
    Analyzed: analyzing.analyzed,
    AnalyzeRequested: analyzing.analyze_requested,
    Measured: measuring.measured,
    MeasureRequested: measuring.measure_requested,
    MeasureDropped: measuring.measure_dropped,
    Recorded: _recorded,
    Ended: _ended,
    CompileBegan: _compile_began,
    Said: _said,
    Narrowed: _narrowed,
    FilesChanged: files.files_changed,
    OverlayChanged: clients.overlay_changed,
    OptionsChanged: clients.options_changed,
    Focused: clients.focused,
    BuildRequested: requests.build_requested,
    RequestDropped: requests.request_dropped,
    CancelRequested: clients.cancel_requested,
    ClientLost: clients.client_lost,
    MemoryMeasured: _memory_measured,
    Warned: _warned,
    ArtifactsLost: files.artifacts_lost,
    Continued: _continued,
}
"""One handler for each event."""
