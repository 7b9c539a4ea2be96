"""Decides when units are timed: after a build of an edited or focused unit, and on request.

A unit lists the shapes to be timed (`UnitState.to_measure`), whichever artifact it has when its turn comes. One
measurement runs at a time. On this machine's processor it runs alone: it begins when no compiler is at work, and makes
room for one that is wanted.
"""

from __future__ import annotations

from ckwatch.core.demand import ASKED_FOR, EDITED, LOOKED_AT, is_looked_at
from ckwatch.core.effects import Measure
from ckwatch.core.events import MAIN, MeasureDropped, MeasureFinished, MeasureRequested, WorkAborted, WorkKind
from ckwatch.core.notify import show
from ckwatch.core.state import Effects, Phase, Priority, State, TimingRequest, UnitState, begin, release, stop
from ckwatch.model.kernels import Outcome
from ckwatch.model.targets import Language

DISTURBING_WORK = (WorkKind.CHECK, WorkKind.COMPILE, WorkKind.ANALYZE)
"""Work that would disturb a measurement on this machine's processor."""

OVER_BUDGET = "the time that one save may take for benchmarks is used up"


def consider_settled(state: State, out: Effects) -> None:
    """Look at units that have become settled, and whether what is being timed is still of use."""
    while state.settled:
        unit = state.find(state.settled.popleft())
        if unit is not None and unit.settled:
            _settled(state, out, unit)
    work = state.measuring
    if work is None:
        return
    unit = state.find(work.key)
    if unit is None or not unit.has_built(work.tokens) or next(iter(unit.to_measure), None) is None:
        stop(state, out, work)


def _settled(state: State, out: Effects, unit: UnitState) -> None:
    result = unit.result
    if unit.phase is not Phase.DONE or result is None or unit.outcome is not Outcome.BUILT:
        _forget(state, out, unit)
        return
    before = (set(unit.to_measure), unit.unmeasured)
    shapes = {shape.name for shape in unit.unit.kernel.shapes}
    for shape in [shape for shape in unit.to_measure if shape not in shapes]:
        del unit.to_measure[shape]
    if state.benchmarks.automatic and (unit.edited or is_looked_at(state, unit)):
        unit.unmeasured = ""
        for one in unit.unit.kernel.shapes:
            known = unit.timings.get(one.name)
            if known is None or known.artifact != result.artifact:
                unit.to_measure.setdefault(one.name, TimingRequest())
    _queue(state, unit)
    if (set(unit.to_measure), unit.unmeasured) != before:
        show(out, unit)


def _queue(state: State, unit: UnitState) -> None:
    if unit.to_measure and unit.measuring is None:
        state.measure_queue.add(unit.key, _priority(state, unit))
    elif not unit.to_measure:
        state.measure_queue.remove(unit.key)


def _priority(state: State, unit: UnitState) -> Priority:
    rank = EDITED
    if is_looked_at(state, unit):
        rank = LOOKED_AT
    elif any(wish.requested for wish in unit.to_measure.values()):
        rank = ASKED_FOR
    return (rank, -unit.edited, state.next())


def _forget(state: State, out: Effects, unit: UnitState) -> None:
    """Nothing of the unit is to be timed."""
    if unit.to_measure:
        unit.to_measure.clear()
        show(out, unit)
    state.measure_queue.remove(unit.key)
    stop(state, out, unit.measuring)


def measure_requested(state: State, out: Effects, event: MeasureRequested) -> None:
    """Somebody wants timings. What is known is not measured again, unless by `force`."""
    state.measure_requests = event.number
    for name in event.units:
        unit = state.main.units.get(name)
        if unit is None:
            continue
        unit.unmeasured = ""
        for shape in unit.unit.kernel.shapes:
            if event.shapes is not None and shape.name not in event.shapes:
                continue
            known = unit.timings.get(shape.name)
            fresh = known is not None and unit.result is not None and known.artifact == unit.result.artifact
            if event.force or event.device is not None or not fresh:
                unit.to_measure[shape.name] = TimingRequest(requested=True, force=event.force, device=event.device)
        show(out, unit)
        state.settled.append(unit.key)


def measure_dropped(state: State, out: Effects, event: MeasureDropped) -> None:
    """Nobody waits any more."""
    for name in event.units:
        unit = state.main.units.get(name)
        if unit is None:
            continue
        running = next(iter(unit.to_measure), None) if unit.measuring is not None else None
        dropped = [shape for shape, wish in unit.to_measure.items() if wish.requested or event.everything]
        for shape in dropped:
            del unit.to_measure[shape]
        if running in dropped:
            stop(state, out, unit.measuring)
        _queue(state, unit)
        show(out, unit)


def is_alone(state: State, unit: UnitState) -> bool:
    """Whether timing the unit needs this machine's processor for itself."""
    return unit.unit.kernel.template.endswith(f".{Language.CPP}.j2") and not state.benchmarks.elsewhere


def make_room(state: State, out: Effects) -> None:
    """A compiler is wanted: what needs the processor for itself comes later."""
    if state.measuring is not None and state.measuring.exclusive and state.compile_queue:
        stop(state, out, state.measuring)


def start(state: State, out: Effects) -> None:
    """Time the shape that is wanted most, if nothing is being timed."""
    busy = any(work.kind in DISTURBING_WORK for work in state.running.values())
    while state.measuring is None and (key := state.measure_queue.first()) is not None:
        unit = state.find(key)
        if unit is None or not unit.to_measure or unit.result is None or not unit.settled:
            state.measure_queue.remove(key)  # it comes back when it is settled
            continue
        exclusive = is_alone(state, unit)
        if exclusive and (busy or state.compile_queue or state.render_queue or state.look_queue):
            return
        shape, wish = next(iter(unit.to_measure.items()))
        if not wish.requested and state.measured_s >= state.benchmarks.save_budget_s:
            unit.to_measure = {name: other for name, other in unit.to_measure.items() if other.requested}
            unit.unmeasured = OVER_BUDGET
            _queue(state, unit)
            show(out, unit)
            continue
        state.measure_queue.remove(key)
        work = begin(state, WorkKind.MEASURE, key, unit.generation, unit.result.artifact, exclusive=exclusive)
        unit.measuring = state.measuring = work
        out.append(Measure(work, unit.unit, unit.result, shape, wish.force, wish.device))
        show(out, unit)


def measure_finished(state: State, out: Effects, event: MeasureFinished) -> None:
    """A timing has come, or why there is none. That of an earlier artifact is in the history only."""
    work, timing = event.work, event.timing
    ran = release(state, work)
    unit = _end(state, work)
    if timing is not None:
        state.measured_s += timing.seconds
    if unit is None:
        return
    if timing is None and ran:
        unit.to_measure.clear()
        unit.unmeasured = event.problem
    elif timing is not None and unit.result is not None and unit.result.artifact == timing.artifact:
        unit.timings = {**unit.timings, timing.shape: timing}
        unit.to_measure.pop(timing.shape, None)
    _queue(state, unit)
    show(out, unit)


def measure_aborted(state: State, out: Effects, event: WorkAborted, *, ran: bool) -> None:
    """A measurement was stopped, and is wanted still or not; or it broke down."""
    unit = _end(state, event.work)
    if unit is None:
        return
    if ran:
        unit.to_measure.clear()
        unit.unmeasured = event.fault or "the measurement was stopped from outside"
    _queue(state, unit)
    show(out, unit)


def _end(state: State, work: object) -> UnitState | None:
    """The unit that was being timed, if there still is one."""
    measuring, state.measuring = state.measuring, None
    assert measuring is work, "one measurement at a time"  # noqa: S101
    unit = state.find(measuring.key) if measuring is not None else None
    if unit is None or unit.measuring is not work or unit.key.scope != MAIN:
        return None
    unit.measuring = None
    return unit
