"""`step` takes in one event and returns the effects; nothing else changes the daemon's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ckwatch.core import (
    advice_schedule,
    analysis_schedule,
    build_requests,
    clients,
    events,
    files,
    loading,
    recall,
    timing_schedule,
    toolchain_schedule,
    units,
    verification_schedule,
    views,
)
from ckwatch.core.effects import Changed, Continue, Effect, UpdateWatches
from ckwatch.core.loading import end_load, request_load
from ckwatch.core.notify import publish
from ckwatch.core.phases import Phase
from ckwatch.core.schedule import start_work
from ckwatch.core.state import Effects, Invalidation, State, release
from ckwatch.core.unit_state import UnitState
from ckwatch.model.kernels import Outcome
from ckwatch.model.topics import WORKSPACE


def start(state: State) -> tuple[Effect, ...]:
    """The first effects of a daemon."""
    out: Effects = []
    request_load(state, out, state.main, urgent=True)
    return tuple(out)


def step(state: State, event: events.AnyEvent) -> tuple[Effect, ...]:
    """Take in one event and return what is to be done now, in this order."""
    out: Effects = []
    busy, waited_for = state.busy, state.waits_for
    HANDLERS[type(event)](state, out, event)
    # A bounded piece of all that waits.
    files.apply_changes(state, out)
    loading.take_over(state, out, event.at)
    recall.take_some(state, out, event.at)
    views.compare_some(state, out, event.at)
    clients.apply_demand(state, out)
    build_requests.ask_some(state, out, event.at)
    build_requests.resolve(state, out)
    analysis_schedule.stop_useless(state, out)
    verification_schedule.stop_useless(state, out)
    advice_schedule.stop_useless(state, out)
    toolchain_schedule.stop_useless(state, out)
    timing_schedule.consider_settled(state, out)
    recall.consider(state, out)
    if state.has_news and not state.continuing:
        state.continuing = True
        out.append(Continue())
    start_work(state, out)
    if state.graph.version != state.followed:
        state.followed = state.graph.version
        out.append(UpdateWatches())
    if (state.busy, state.waits_for) != (busy, waited_for):
        out.append(Changed(events.MAIN, WORKSPACE))
    return tuple(out)


def _continued(state: State, out: Effects, event: events.Continued) -> None:  # noqa: ARG001  # `step` goes on by itself
    state.continuing = False


def _unit_at(state: State, work: events.Work) -> UnitState | None:
    """The unit that this is still the work of."""
    unit = state.find(state.adopted.get(work.number, work.key))
    return unit if unit is not None and unit.is_at_work(work) else None


def _render_finished(state: State, out: Effects, event: events.RenderFinished) -> None:
    unit = _unit_at(state, event.work)
    missed = None if unit is None else files.missed_change(state, unit, event.work, event.facts)
    release(state, event.work)
    if unit is None:
        return
    unit.render.work = None
    state.graph.set_reads(unit.key, event.facts.reads, event.facts.missed)
    if missed is not None:
        state.invalidate([unit.key], missed)
    if files.apply_invalidation(state, out, unit.key):
        return
    views.part_views(state, out, unit, event.at)
    units.rendered(state, out, unit, event.facts, event.at)
    views.join_views(state, out, unit, event.at)


def _look_up_finished(state: State, out: Effects, event: events.LookUpFinished) -> None:
    unit = _unit_at(state, event.work)
    missed = None
    if unit is not None:
        missed = files.missed_change(state, unit, event.work, unit.render.facts)
        if missed is None and event.facts is not None:
            missed = files.missed_header(state, unit, event.work, event.facts.headers)
    release(state, event.work)
    if unit is None:
        return
    unit.compile.look_up = None
    if missed is not None:
        state.invalidate([unit.key], missed)
    if not files.apply_invalidation(state, out, unit.key):
        units.looked_up(state, out, unit, event.facts, event.at)


def _is_outdated(state: State, out: Effects, unit: UnitState, missed: Invalidation | None) -> bool:
    """Return True if the unit's compiler, which has ended, missed a change; then the unit is renewed."""
    if missed is not None:
        state.invalidate([unit.key], missed)
    if unit.key not in state.invalidated:
        return False
    unit.compile.compiler = None
    files.apply_invalidation(state, out, unit.key)
    return True


def _compile_finished(state: State, out: Effects, event: events.CompileFinished) -> None:
    unit = _unit_at(state, event.work)
    missed = None
    if unit is not None and unit.phase is Phase.COMPILING:
        missed = files.missed_header(state, unit, event.work, event.facts.headers)
        missed = missed or files.missed_change(state, unit, event.work, unit.render.facts, event.facts.outcome)
    release(state, event.work)
    if unit is None or _is_outdated(state, out, unit, missed):
        return
    units.compiled(state, out, unit, event.work, event.facts, event.at)


def _without_result(state: State, out: Effects, event: events.CheckFinished | events.FarmFailed) -> None:
    """Handle the end of a host pass, or of a compile on the farm that has to be done here."""
    unit = _unit_at(state, event.work)
    missed = None
    if unit is not None and unit.phase is Phase.COMPILING:
        missed = files.missed_change(state, unit, event.work, unit.render.facts)
    release(state, event.work)
    if unit is None or _is_outdated(state, out, unit, missed):
        return
    if isinstance(event, events.CheckFinished):
        units.checked(state, out, unit, event.work, event.diagnostics)
    else:
        units.farm_failed(state, out, unit)


def _check_with_finished(state: State, out: Effects, event: events.CheckWithFinished) -> None:
    unit = state.find(event.work.key)
    missed = None if unit is None else files.missed_header(state, unit, event.work, event.facts.depends_on)
    wanted = release(state, event.work) and missed is None
    toolchain_schedule.check_ended(state, out, event.work, event.facts if wanted else None)


def _farm_changed(state: State, out: Effects, event: events.FarmChanged) -> None:  # noqa: ARG001  # as all handlers
    state.farm_slots = event.slots


def _compiler_output(state: State, out: Effects, event: events.CompilerOutput) -> None:
    unit = _unit_at(state, event.work)
    if unit is not None:
        units.compiler_output(out, unit, event.work, event.diagnostics)


def _pass_finished(state: State, out: Effects, event: events.PassFinished) -> None:  # noqa: ARG001  # as all handlers
    if event.work.number in state.running:
        state.single_pass_compiles.add(event.work.number)


def _work_aborted(state: State, out: Effects, event: events.WorkAborted) -> None:
    work = event.work
    unit = _unit_at(state, work)
    missed = None
    if unit is not None and (unit.compile.compiler is not work or unit.phase is Phase.COMPILING):
        missed = files.missed_change(state, unit, work, unit.render.facts, Outcome.FAULTED)
    ran = release(state, work)
    fault = event.fault or ("" if not ran else f"{work.kind} was stopped from outside")
    match work.kind:
        case events.WorkKind.LOAD:
            _load_aborted(state, out, event, fault)
        case events.WorkKind.SCAN:
            files.end_scan(state, out)
        case events.WorkKind.RECALL:
            recall.recall_aborted(state, work)
        case kind if kind in ABORTED:
            ABORTED[kind](state, out, event, ran=ran)
        case events.WorkKind.RECORD:
            state.recording = None
            _set_warning(state, out, "history", fault or None)
        case _ if unit is not None:
            if missed is not None:
                state.invalidate([unit.key], missed)
            if unit.key in state.invalidated and unit.compile.compiler is work:
                unit.compile.compiler = None
            if not files.apply_invalidation(state, out, unit.key):
                units.failed(state, out, unit, work, fault or "it was stopped", event.at)


class _Aborted(Protocol):
    def __call__(self, state: State, out: Effects, event: events.WorkAborted, *, ran: bool) -> None: ...


ABORTED: dict[events.WorkKind, _Aborted] = {
    events.WorkKind.ANALYZE: analysis_schedule.analyze_aborted,
    events.WorkKind.MEASURE: timing_schedule.measure_aborted,
    events.WorkKind.VERIFY: verification_schedule.verify_aborted,
    events.WorkKind.ADVISE: advice_schedule.advise_aborted,
    events.WorkKind.CHECK_WITH: toolchain_schedule.check_aborted,
}
"""Who handles the end without a result of work on what a unit compiled to."""

DROPPED: dict[events.WorkKind, Callable[[State, Effects, events.WorkDropped], None]] = {
    events.WorkKind.MEASURE: timing_schedule.measure_dropped,
    events.WorkKind.VERIFY: verification_schedule.verify_dropped,
    events.WorkKind.CHECK_WITH: toolchain_schedule.check_dropped,
}


def _load_aborted(state: State, out: Effects, event: events.WorkAborted, fault: str) -> None:
    view = state.views.get(event.work.key.scope)
    if view is None or view.loading is not event.work:
        return
    end_load(state, out, view)
    view.problem = fault or view.problem
    out.append(Changed(view.name, WORKSPACE))
    if view.name == events.MAIN:
        loading.accept_views(state, out, event.at)


def _record_finished(state: State, out: Effects, event: events.RecordFinished) -> None:
    release(state, event.work)
    state.recording = None
    state.recallable = state.recallable or event.problem is None
    _set_warning(state, out, "history", event.problem)


def _compiler_ended(state: State, out: Effects, event: events.CompilerEnded) -> None:  # noqa: ARG001  # as all handlers
    if event.work.number in state.running:
        state.storing.add(event.work.number)
        state.compilers.pop(event.work.number, None)


def _load_finished(state: State, out: Effects, event: events.LoadFinished) -> None:
    release(state, event.work)
    before = state.main.workspace
    loading.load_finished(state, out, event)
    recall.workspace_loaded(state, out, before)


def _scan_finished(state: State, out: Effects, event: events.ScanFinished) -> None:
    # Renders that began before the scan found the news may have missed it: noted before the work is released.
    files.scan_finished(state, out, event)
    release(state, event.work)


def _compile_waits(state: State, out: Effects, event: events.CompileWaits) -> None:
    unit = _unit_at(state, event.work)
    if unit is not None and unit.compile.waits_for != event.waits_for:
        unit.compile.waits_for = event.waits_for
        publish(out, unit)


def _memory_measured(state: State, out: Effects, event: events.MemoryMeasured) -> None:  # noqa: ARG001  # as all handlers
    state.memory_bytes = event.capacity_bytes


def _warning_changed(state: State, out: Effects, event: events.WarningChanged) -> None:
    _set_warning(state, out, event.topic, event.message)


def _set_warning(state: State, out: Effects, topic: str, message: str | None) -> None:
    if state.warnings.get(topic) == message:
        return
    if message is None:
        del state.warnings[topic]
    else:
        state.warnings[topic] = message
    out.append(Changed(events.MAIN, WORKSPACE))


def _timings_imported(state: State, out: Effects, event: events.TimingsImported) -> None:
    state.imported_at = event.at
    out.append(Changed(events.MAIN, WORKSPACE))


def _device_profile_kept(state: State, out: Effects, event: events.DeviceProfileKept) -> None:
    for scope in state.views:
        unit = state.find(events.UnitKey(scope, event.unit))
        if unit is not None and unit.built is not None and unit.built.artifact == event.artifact:
            unit.profiled_at = event.at
            publish(out, unit)


HANDLERS: dict[type, Callable[[State, Effects, Any], None]] = {
    events.LoadFinished: _load_finished,
    events.ScanFinished: _scan_finished,
    events.RecallFinished: recall.recall_finished,
    events.RenderFinished: _render_finished,
    events.LookUpFinished: _look_up_finished,
    events.CheckFinished: _without_result,
    events.FarmFailed: _without_result,
    events.FarmChanged: _farm_changed,
    events.CompileFinished: _compile_finished,
    events.AnalyzeFinished: analysis_schedule.analyze_finished,
    events.AnalyzeRequested: analysis_schedule.analyze_requested,
    events.DevicesFound: timing_schedule.devices_found,
    events.MeasureFinished: timing_schedule.measure_finished,
    events.MeasureRequested: timing_schedule.measure_requested,
    events.VerifyFinished: verification_schedule.verify_finished,
    events.VerifyRequested: verification_schedule.verify_requested,
    events.AdviseFinished: advice_schedule.advise_finished,
    events.AdviceRequested: advice_schedule.advice_requested,
    events.CheckWithFinished: _check_with_finished,
    events.CheckWithRequested: toolchain_schedule.check_requested,
    events.WorkDropped: lambda state, out, event: DROPPED[event.kind](state, out, event),
    events.RecordFinished: _record_finished,
    events.WorkAborted: _work_aborted,
    events.CompileWaits: _compile_waits,
    events.CompilerOutput: _compiler_output,
    events.PassFinished: _pass_finished,
    events.CompilerEnded: _compiler_ended,
    events.FilesChanged: files.files_changed,
    events.OverlayChanged: clients.overlay_changed,
    events.OptionsChanged: clients.options_changed,
    events.FocusChanged: clients.focus_changed,
    events.EditorsChanged: clients.editors_changed,
    events.ShowRequested: clients.show_requested,
    events.BuildRequested: build_requests.build_requested,
    events.RequestDropped: build_requests.request_dropped,
    events.CancelRequested: clients.cancel_requested,
    events.ClientLost: clients.client_lost,
    events.MemoryMeasured: _memory_measured,
    events.WarningChanged: _warning_changed,
    events.TimingsImported: _timings_imported,
    events.DeviceProfileKept: _device_profile_kept,
    events.ArtifactsLost: files.artifacts_lost,
    events.Continued: _continued,
}
"""One handler for each event."""
