"""Decides when units are timed: after a build of an edited or focused unit, and on request.

A unit lists the shapes to be timed (`TimingState.requested`), whichever artifact it has when its turn comes. One
measurement runs at a time on each device. Devices that are alike work side by side, and a shape goes back to the one
that it was timed on before, so that its times compare. As long as the devices are not known, one measurement runs at a
time for each name that requests give. On this machine's processor it runs alone: it begins when no compiler is at work,
and makes room for one that is wanted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ckwatch.core import events
from ckwatch.core.demand import EDITED, IN_FOCUS, REQUESTED, is_in_focus
from ckwatch.core.effects import Measure
from ckwatch.core.notify import publish
from ckwatch.core.phases import Phase
from ckwatch.core.state import Effects, Priority, State, begin, release, stop
from ckwatch.core.unit_state import NOTHING_TO_TIME, TimingRequest, UnitState
from ckwatch.model.devices import devices_for, preferred
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernels import Outcome, Shape
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import DEVICE_KINDS, Language, language_of

DISTURBING_WORK = (
    events.WorkKind.CHECK,
    events.WorkKind.COMPILE,
    events.WorkKind.ANALYZE,
    events.WorkKind.VERIFY,
    events.WorkKind.ADVISE,
    events.WorkKind.CHECK_WITH,
)
"""Work that would disturb a measurement on this machine's processor."""

LOOKED_AT = 64
"""Units in the queue among which one is looked for whose device has nothing to do."""

OVER_BUDGET = "the time that one save may take for benchmarks is used up"


def consider_settled(state: State, out: Effects) -> None:
    """Decide which newly settled units are to be timed; stop a measurement that is of no use any more."""
    while state.newly_settled:
        unit = state.find(state.newly_settled.popleft())
        if unit is not None and unit.settled:
            _settled(state, out, unit)
    for work in list(state.measuring.values()):
        unit = state.find(work.key)
        if unit is None or not unit.has_built(work.tokens) or next(iter(unit.timing.requested), None) is None:
            stop(state, out, work)


def _settled(state: State, out: Effects, unit: UnitState) -> None:
    result = unit.compile.result
    if unit.phase is not Phase.DONE or result is None or unit.outcome is not Outcome.BUILT:
        _forget(state, out, unit)
        return
    before = (set(unit.timing.requested), unit.timing.untimed_because)
    shapes = {shape.name for shape in unit.unit.kernel.shapes}
    if gone := {shape for shape in before[0] if shape not in shapes and not is_written_as_sizes(shape)}:
        _drop(unit, gone)
    automatic = state.benchmarks.automatic and unit.key.scope == events.MAIN
    if automatic and (unit.input.last_edit or is_in_focus(state, unit)):
        unit.timing.untimed_because = ""
        for one in unit.unit.kernel.shapes:
            known = unit.timing.by_shape.get(one.name)
            is_timed = known is not None and known.artifact == result.artifact
            if not is_timed and one.name not in unit.timing.requested:
                unit.timing.requested = {**unit.timing.requested, one.name: TimingRequest()}
    _queue(state, unit)
    if (set(unit.timing.requested), unit.timing.untimed_because) != before:
        publish(out, unit)


def _queue(state: State, unit: UnitState) -> None:
    if unit.timing.requested and unit.timing.work is None:
        state.measure_queue.add(unit.key, _priority(state, unit))
    elif not unit.timing.requested:
        state.measure_queue.remove(unit.key)


def _priority(state: State, unit: UnitState) -> Priority:
    rank = EDITED
    if is_in_focus(state, unit):
        rank = IN_FOCUS
    elif any(timing_request.requested for timing_request in unit.timing.requested.values()):
        rank = REQUESTED
    return (rank, -unit.input.last_edit, state.next())


def _drop(unit: UnitState, shapes: Collection[str]) -> None:
    """Do not time these shapes."""
    left = {name: request for name, request in unit.timing.requested.items() if name not in shapes}
    unit.timing.requested = left or NOTHING_TO_TIME


def _forget(state: State, out: Effects, unit: UnitState) -> None:
    """Time none of the unit's shapes."""
    if unit.timing.requested:
        unit.timing.requested = NOTHING_TO_TIME
        publish(out, unit)
    state.measure_queue.remove(unit.key)
    stop(state, out, unit.timing.work)


def is_written_as_sizes(shape: str) -> bool:
    """Return True if it is `M=64,N=64,K=128`, which the kernel file need not have (`workspace.shapes.find_shape`)."""
    return "=" in shape


def measure_requested(state: State, out: Effects, event: events.MeasureRequested) -> None:
    """A client wants timings. Known ones are measured again only by `force`."""
    state.measure_requests = event.number
    for name in event.units:
        unit = state.seen(event.scope, name)
        if unit is None:
            continue
        unit.timing.untimed_because = ""
        for shape in _shapes_asked(unit.unit.kernel.shapes, event.shapes):
            known = unit.timing.by_shape.get(shape)
            result = unit.compile.result
            fresh = known is not None and result is not None and known.artifact == result.artifact and not known.raced
            asked_otherwise = event.device is not None or event.race is not None or event.flush_instructions
            if event.force or asked_otherwise or not fresh:
                request = TimingRequest(
                    requested=True,
                    force=event.force,
                    device=event.device,
                    race=event.race,
                    flush_instructions=event.flush_instructions,
                )
                unit.timing.requested = {**unit.timing.requested, shape: request}
        publish(out, unit)
        state.newly_settled.append(unit.key)


def _shapes_asked(there: tuple[Shape, ...], asked: tuple[str, ...] | None) -> list[str]:
    """Names of the kernel file's shapes, all or those that are asked for, and then what is written as sizes."""
    names = [shape.name for shape in there if asked is None or shape.name in asked]
    return [*names, *(shape for shape in asked or () if shape not in names and is_written_as_sizes(shape))]


def measure_dropped(state: State, out: Effects, event: events.WorkDropped) -> None:
    """Drop requested timings."""
    for name in event.units:
        unit = state.seen(event.scope, name)
        if unit is None:
            continue
        running = next(iter(unit.timing.requested), None) if unit.timing.work is not None else None
        dropped = [
            shape
            for shape, timing_request in unit.timing.requested.items()
            if timing_request.requested or event.everything
        ]
        _drop(unit, dropped)
        if running in dropped:
            stop(state, out, unit.timing.work)
        _queue(state, unit)
        publish(out, unit)


def is_alone(state: State, unit: UnitState) -> bool:
    """Return True if timing the unit needs this machine's processor for itself."""
    return unit.unit.kernel.template.endswith(f".{Language.CPP}.j2") and not state.benchmarks.elsewhere


def make_room(state: State, out: Effects) -> None:
    """Stop a measurement that needs the processor for itself when a unit waits for a compiler."""
    if state.compile_queue:
        for work in [work for work in state.measuring.values() if work.exclusive]:
            stop(state, out, work)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A unit in the queue whose first shape may be timed, on the device with this key of `State.measuring`."""

    unit: events.UnitKey
    key: str = ""
    device: DeviceFacts | None = None
    has_others: bool = False


def start(state: State, out: Effects) -> None:
    """Time on each device that has nothing to do the shape that is wanted most there."""
    if not state.measure_queue:
        if not state.measuring:
            state.doubtful_devices.clear()
        return
    busy = any(work.kind in DISTURBING_WORK and work.number not in state.on_farm for work in state.running.values())
    while not state.is_measuring_alone and (turn := _next_turn(state)) is not None:
        key = turn.unit
        unit = state.find(key)
        if unit is None or not unit.timing.requested or unit.compile.result is None or not unit.settled:
            state.measure_queue.remove(key)  # it comes back when it is settled
            continue
        exclusive = is_alone(state, unit) and not (turn.device is not None and turn.device.machine)
        if exclusive and (busy or state.measuring or state.compile_queue or state.render_queue or state.look_queue):
            return
        shape, timing_request = next(iter(unit.timing.requested.items()))
        if not timing_request.requested and state.device_seconds_used >= state.benchmarks.save_budget_s:
            unit.timing.requested = {name: other for name, other in unit.timing.requested.items() if other.requested}
            unit.timing.untimed_because = OVER_BUDGET
            _queue(state, unit)
            publish(out, unit)
            continue
        state.measure_queue.remove(key)
        work = begin(
            state,
            events.WorkKind.MEASURE,
            key,
            unit.input.generation,
            unit.compile.result.artifact,
            exclusive=exclusive,
        )
        unit.timing.work = state.measuring[turn.key] = work
        how = (timing_request.force, timing_request.device, timing_request.race, timing_request.flush_instructions)
        where = (turn.device, _last_device(unit, shape), turn.has_others)
        out.append(Measure(work, unit.unit, unit.compile.result, shape, *how, *where))
        publish(out, unit)


def _next_turn(state: State) -> _Turn | None:
    """That of the first unit in the queue whose device has nothing to do, or that is not to be measured any more."""
    for key in state.measure_queue.next_ones(LOOKED_AT if state.measuring else 1):
        unit = state.find(key)
        turn = _Turn(key) if unit is None or not unit.timing.requested else _turn_of(state, unit)
        if turn is not None:
            return turn
    return None


def _turn_of(state: State, unit: UnitState) -> _Turn | None:
    """Return where the unit's first shape is timed, or None while its device is busy."""
    shape, request = next(iter(unit.timing.requested.items()))
    fitting = _fitting(state, unit, request)
    if fitting and fitting.keys() <= state.measuring.keys():
        return None
    allowed = [key for key in fitting if key != request.failed_on]
    if not allowed:
        name = request.device or ""
        return None if name in state.measuring else _Turn(unit.key, name)
    usable = [key for key in allowed if key not in state.doubtful_devices] or allowed
    last = _last_device(unit, shape)
    candidates = [last] if last in usable else usable
    free = next((key for key in candidates if key not in state.measuring), None)
    if free is None:
        return None
    has_others = len(allowed) > 1 and free != last and not request.failed_on
    return _Turn(unit.key, free, fitting[free], has_others)


def _fitting(state: State, unit: UnitState, request: TimingRequest) -> dict[str, DeviceFacts]:
    """The devices that the request allows, which are alike, by key; none where they are not known."""
    if not state.devices:
        return {}
    kind = DEVICE_KINDS[language_of(unit.unit.kernel.template)]
    asked = (kind, unit.unit.arch, request.device or state.benchmarks.device)
    if asked not in state.fitting_devices:
        state.fitting_devices[asked] = {device.address: device for device in devices_for(state.devices, *asked)}
    return state.fitting_devices[asked]


def _last_device(unit: UnitState, shape: str) -> str:
    known = unit.timing.by_shape.get(shape)
    return "" if known is None else known.device


def devices_found(state: State, out: Effects, event: events.DevicesFound) -> None:  # noqa: ARG001  # as all handlers
    """The devices are known, or others than before. What was begun without a device has taken the preferred one."""
    state.devices = event.devices
    state.fitting_devices.clear()
    state.doubtful_devices.clear()
    for name, work in list(state.measuring.items()):
        unit = state.find(work.key)
        shape, request = next(iter(unit.timing.requested.items()), ("", None)) if unit is not None else ("", None)
        if unit is None or request is None or unit.timing.work is not work or name != (request.device or ""):
            continue
        fitting = _fitting(state, unit, request)
        if (
            fitting
            and (key := preferred([*fitting.values()], _last_device(unit, shape)).address) not in state.measuring
        ):
            state.measuring[key] = state.measuring.pop(name)


def measure_finished(state: State, out: Effects, event: events.MeasureFinished) -> None:
    """A measurement has ended, with a timing or without. A timing of an earlier artifact is in the history only."""
    work, timing = event.work, event.timing
    ran = release(state, work)
    unit = _end(state, work)
    if timing is not None:
        state.device_seconds_used += timing.seconds
    if unit is None:
        return
    if timing is None and ran and not _try_elsewhere(state, unit, event.failed_device):
        unit.timing.requested = NOTHING_TO_TIME
        unit.timing.untimed_because = event.problem
        unit.timing.mistakes = () if event.mistake is None else (event.mistake,)
    elif timing is not None and unit.compile.result is not None and unit.compile.result.artifact == timing.artifact:
        unit.timing.by_shape = {**unit.timing.by_shape, timing.shape: timing}
        _drop(unit, (timing.shape,))
        unit.timing.mistakes = ()
    _queue(state, unit)
    publish(out, unit)


def _try_elsewhere(state: State, unit: UnitState, failed: str) -> bool:
    """Return True if the shape waits for another device, once."""
    shape, request = next(iter(unit.timing.requested.items()), ("", None))
    if not failed or request is None:
        return False
    state.doubtful_devices.add(failed)
    if request.failed_on or not _fitting(state, unit, request).keys() - {failed}:
        return False
    unit.timing.requested = {**unit.timing.requested, shape: replace(request, failed_on=failed)}
    return True


def measure_aborted(state: State, out: Effects, event: events.WorkAborted, *, ran: bool) -> None:
    """A measurement was stopped, and may still be wanted; or it failed."""
    unit = _end(state, event.work)
    if unit is None:
        return
    if ran:
        unit.timing.requested = NOTHING_TO_TIME
        unit.timing.untimed_because = event.fault or "the measurement was stopped from outside"
    _queue(state, unit)
    publish(out, unit)


def _end(state: State, work: events.Work) -> UnitState | None:
    """The unit that was being timed, if there still is one."""
    device = next(name for name, running in state.measuring.items() if running is work)
    del state.measuring[device]
    unit = state.find(work.key)
    if unit is None or unit.timing.work is not work:
        return None
    unit.timing.work = None
    return unit
