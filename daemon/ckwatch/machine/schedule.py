"""Which work starts now: bounded by renderers, cores and memory, the most wanted unit first."""

from __future__ import annotations

from ckwatch.events import Compile, LookUp, Record, Render, UnitKey, WorkKind
from ckwatch.machine.queue import WorkQueue
from ckwatch.machine.state import Effects, Phase, Scope, State, UnitState
from ckwatch.machine.tasks import begin
from ckwatch.machine.telling import show
from ckwatch.machine.units import expected_memory_bytes

RECORDED_AT_ONCE = 500


def start_work(state: State, out: Effects) -> None:
    """Start what there is room for."""
    while state.render_queue and state.at_work(WorkKind.RENDER) < state.renders:
        unit, scope = _next(state, state.render_queue)
        unit.phase = Phase.RENDERING
        unit.working = begin(state, WorkKind.RENDER, unit.key, unit.generation)
        show(out, unit)
        out.append(Render(unit.working, unit.unit, scope.overlays.copy(), scope.options))
    while state.look_queue and state.at_work(WorkKind.LOOK_UP) < state.look_ups:
        unit, scope = _next(state, state.look_queue)
        unit.working = begin(state, WorkKind.LOOK_UP, unit.key, unit.generation, _tokens(unit))
        out.append(LookUp(unit.working, unit.unit, scope.overlays.copy(), scope.options))
    # Of those that wait for a compiler some may turn out not to be wanted any more.
    while state.compile_queue and not state.unwanted and _fits(state):
        unit, scope = _next(state, state.compile_queue)
        unit.phase = Phase.COMPILING
        memory = expected_memory_bytes(state, unit)
        unit.compiler = begin(state, WorkKind.COMPILE, unit.key, unit.generation, _tokens(unit), memory)
        show(out, unit)
        out.append(Compile(unit.compiler, unit.unit, scope.overlays.copy(), scope.options, unit.force))
    if (state.unrecorded or state.removed) and state.recording is None:
        units = tuple(state.unrecorded)[:RECORDED_AT_ONCE]
        for name in units:
            del state.unrecorded[name]
        state.recording = begin(state, WorkKind.RECORD, UnitKey("", ""))
        out.append(Record(state.recording, units, tuple(state.removed)))
        state.removed.clear()


def _next(state: State, queue: WorkQueue) -> tuple[UnitState, Scope]:
    key = queue.pop()
    scope = state.scopes[key.scope]
    return scope.units[key.unit], scope


def _tokens(unit: UnitState) -> str:
    return "" if unit.render is None else unit.render.tokens


def _fits(state: State) -> bool:
    """Whether the next compiler has a core and memory. One may always run, however little memory there is."""
    compilers = [work for work in state.running.values() if work.kind is WorkKind.COMPILE]
    if not compilers:
        return True
    if len(compilers) >= state.jobs:
        return False
    first = state.compile_queue.first()
    unit = None if first is None else state.find(first)
    if unit is None or state.memory_bytes is None:
        return True
    reserved = sum(work.expected_memory_bytes for work in compilers)
    return reserved + expected_memory_bytes(state, unit) <= state.memory_bytes
