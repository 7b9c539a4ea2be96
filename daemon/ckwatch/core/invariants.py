"""What must hold after every step. Tests check it each time; a daemon never needs to."""

from __future__ import annotations

from ckwatch.core.events import MAIN, WorkKind
from ckwatch.core.files import is_quiet
from ckwatch.core.state import Phase, State, UnitState
from ckwatch.core.timing_schedule import DISTURBING_WORK
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Outcome


class InvalidStateError(CkwatchError):
    """A bug of ours: the state contradicts itself. The message tells the unit's story."""


def check_invariants(state: State) -> None:
    """Raise InvalidStateError for the first contradiction."""
    for unit in state.all_units():
        _check_unit(state, unit)
    _check_queues(state)
    _check_work(state)
    _check_analyzing(state)
    _check_measuring(state)
    _check_requests(state)
    _check_views(state)


def is_at_rest(state: State) -> bool:
    """Whether nothing is left to do: then every unit is settled and nobody waits."""
    return not state.busy and is_quiet(state)


def _require(condition: bool, what: str, unit: UnitState | None = None) -> None:
    if condition:
        return
    story = "" if unit is None else "\n".join(cause.what for cause in unit.cause.chain)
    raise InvalidStateError(f"{what}{'' if unit is None else f': {unit.key} is {unit.phase}'}", story or None)


def _check_unit(state: State, unit: UnitState) -> None:
    phase = unit.phase
    _require(unit.fresh == (phase in (Phase.DONE, Phase.IDLE)), "settled and fresh are one", unit)
    _require((unit.key in state.render_queue) == (phase is Phase.WAITING), "waits for a renderer", unit)
    looking = phase is Phase.LOOKING and unit.working is None
    _require((unit.key in state.look_queue) == looking, "waits for a look-up", unit)
    _require((unit.key in state.compile_queue) == (phase is Phase.QUEUED), "waits for a compiler", unit)
    if phase is Phase.RENDERING:
        _require(unit.working is not None and unit.working.kind is WorkKind.RENDER, "is rendered by somebody", unit)
    if phase not in (Phase.RENDERING, Phase.LOOKING):
        _require(unit.working is None, "has no work without a phase for it", unit)
    if unit.working is not None:
        _require(unit.working.number in state.running, "its work runs", unit)
        _require(unit.working.number not in state.cancelled, "its work is wanted", unit)
        _require(unit.working.generation == unit.generation, "its work is of the present generation", unit)
    if phase is Phase.COMPILING:
        _require(unit.compiler is not None, "has a compiler", unit)
        _require(
            unit.compiler is not None and unit.render is not None and unit.compiler.tokens == unit.render.tokens,
            "compiles what was rendered",
            unit,
        )
    if unit.compiler is not None:
        _require(unit.compiler.number in state.running, "its compiler runs", unit)
        _require(unit.compiler.number not in state.cancelled, "its compiler is wanted", unit)
        _require(phase in (Phase.WAITING, Phase.RENDERING, Phase.COMPILING), "its compiler may be of use", unit)
    _require(not (unit.heard and unit.fresh), "what was heard is replaced by the result", unit)
    _require(not unit.checked or phase in (Phase.QUEUED, Phase.COMPILING), "checked is what goes on", unit)
    if unit.fresh and phase is Phase.DONE and unit.render is not None and unit.render.ok:
        _require(unit.result is not None, "is done with a result", unit)
    if unit.fresh and phase is Phase.DONE and unit.reusable and unit.result and unit.render and unit.render.ok:
        _require(unit.result.tokens == unit.render.tokens, "its result is that of the present tokens", unit)


def _check_queues(state: State) -> None:
    keys = {unit.key for unit in state.all_units()}
    for queue in (state.render_queue, state.look_queue, state.compile_queue):
        _require(queue.keys <= keys, "only units wait")
    _require(state.touched.keys() <= keys, "only units are touched")


def _check_work(state: State) -> None:
    _require(state.cancelled <= state.running.keys(), "what is being stopped still runs")
    owned = {work.number for unit in state.all_units() for work in (unit.working, unit.compiler) if work is not None}
    _require(state.heirs.keys() <= state.running.keys(), "a compiler that was taken over runs")
    for work in state.running.values():
        if work.kind in (WorkKind.RENDER, WorkKind.LOOK_UP, WorkKind.CHECK, WorkKind.COMPILE):
            _require((work.number in owned) != (work.number in state.cancelled), f"{work} is somebody's, or stopped")
    _require(state.narrow <= state.running.keys(), "a pass that runs alone runs")
    _require(state.at_work(WorkKind.RENDER) <= state.renders, "renders are bounded")
    _require(state.at_work(WorkKind.LOOK_UP) <= state.look_ups, "look-ups are bounded")


def _check_analyzing(state: State) -> None:
    work = state.analyzing
    _require(state.at_work(WorkKind.ANALYZE) == (work is not None), "one analysis at a time")
    for unit in state.all_units():
        _require(unit.analyzing is None or unit.analyzing is work, "is looked into by the one analysis", unit)
        waits = unit.key in state.analyze_queue
        _require(not waits or unit.to_analyze is not None, "waits to be looked into", unit)
        if unit.settled and unit.to_analyze is not None:
            _require(waits or unit.analyzing is not None, "what is to be looked into is queued or at work", unit)
            _require(unit.outcome is Outcome.BUILT, "is looked into with an artifact", unit)
    _require(state.analyze_queue.keys <= {unit.key for unit in state.all_units()}, "only units are looked into")


def _check_measuring(state: State) -> None:
    work = state.measuring
    _require(state.at_work(WorkKind.MEASURE) == (work is not None), "one measurement at a time")
    if work is not None and work.exclusive and work.number not in state.cancelled:
        others = any(other.kind in DISTURBING_WORK for other in state.running.values())
        _require(not others, "what needs the processor for itself has it")
    for unit in state.all_units():
        _require(unit.measuring is None or unit.measuring is work, "is timed by the one measurement", unit)
        waits = unit.key in state.measure_queue
        _require(not waits or bool(unit.to_measure), "waits for a device with a shape", unit)
        _require(not waits or unit.key.scope == MAIN, "only the workspace's units are timed", unit)
        if unit.to_measure and unit.settled:
            _require(waits or unit.measuring is not None, "what is wished is queued or at work", unit)
    _require(not state.settled, "settled units have been looked at")
    _require(state.measure_queue.keys <= {unit.key for unit in state.all_units()}, "only units wait for a device")


def _check_requests(state: State) -> None:
    for request in state.requests.values():
        if request.pending is None:
            continue
        _require(bool(request.pending), f"{request.name} waits for something")
        unasked = set(request.unasked)
        _require(unasked <= request.pending, f"{request.name} asks for what it waits for")
        for name in request.pending - unasked:
            _require(request.name in state.waiting.get(name, ()), f"{request.name} is known to wait for {name}")
            unit = state.seen(request.scope, name)
            _require(unit is not None, f"{request.name} waits for {name}, which there is")
    for name, requests in state.waiting.items():
        for waiting in requests:
            known = state.requests.get(waiting)
            _require(known is not None and name in (known.pending or ()), f"{waiting} waits for {name}")
    if is_at_rest(state):
        _require(all(unit.settled for unit in state.all_units()), "at rest, every unit is settled")
        done = state.main.workspace is None or not state.requests
        _require(done, "at rest, nobody waits")


def _check_views(state: State) -> None:
    for scope in state.scopes.values():
        for name, unit in scope.units.items():
            _require(unit.key == (scope.name, name), "a unit knows its scope", unit)
            known = scope.name == MAIN or not scope.started or name in scope.members
            _require(known or bool(scope.taking or scope.pending), "a view knows its units", unit)
        if scope.name == MAIN:
            _require(scope.units.keys() == scope.members.keys(), "the workspace has the states of all its units")
