"""Starts renders, look-ups and compiles: bounded by renderers, cores and memory, the most wanted unit first."""

from __future__ import annotations

from ckwatch.core import (
    advice_schedule,
    analysis_schedule,
    recall,
    timing_schedule,
    toolchain_schedule,
    verification_schedule,
)
from ckwatch.core.demand import REQUESTED, is_awaited, is_in_focus, priority, wants_lines
from ckwatch.core.effects import Check, Compile, LookUp, Record, Render, RenderPriority
from ckwatch.core.events import MAIN, UnitKey, WorkKind
from ckwatch.core.notify import awaiting, publish
from ckwatch.core.phases import Phase, move
from ckwatch.core.state import Effects, State, View, WorkQueue, begin
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import COMPILER_MEMORY_BYTES, expected_memory_bytes
from ckwatch.model.targets import Language

RECORDED_AT_ONCE = 500

STORED_AT_ONCE = 64
"""Compiles whose results are being stored when the next compiler starts: one look at the headers serves them all."""

PASSES = 2
"""Processes of one compile, where they run side by side."""

WAITING_SKIPPED = 16
"""So many units at the head of the queue that are not for the farm keep nothing behind them from it."""

HOST_MEMORY = 0.5
"""The memory of a host pass, as a part of a device pass's: 340 of 660 MB for a CK GEMM instance."""


def start_work(state: State, out: Effects) -> None:
    """Start what there is room for."""
    while state.render_queue and not _awaits_recall(state) and state.at_work[WorkKind.RENDER] < _renders(state):
        unit, view = _next(state, state.render_queue)
        if view.name == MAIN:
            state.unrecalled.pop(unit.key.unit, None)
        move(unit, Phase.RENDERING)
        work = unit.render.work = begin(state, WorkKind.RENDER, unit.key, unit.input.generation)
        publish(out, unit)
        if view.overlays or is_in_focus(state, unit):
            priority = RenderPriority.LOOKED_AT
        else:
            priority = RenderPriority.ASKED_FOR if awaiting(state, unit) else RenderPriority.OTHERS
        out.append(Render(work, unit.unit, view.overlays.copy(), view.options, priority))
    while state.look_queue and state.at_work[WorkKind.LOOK_UP] < state.look_ups:
        unit, view = _next(state, state.look_queue)
        work = begin(state, WorkKind.LOOK_UP, unit.key, unit.input.generation, _tokens(unit))
        unit.compile.look_up = work
        out.append(LookUp(work, unit.unit, view.overlays.copy(), view.options))
    if not state.unwanted:  # some that wait for a compiler may turn out not to be wanted any more
        if state.focus:
            if _first_is_in_focus(state):
                timing_schedule.make_room(state, out)
                _start_here(state, out, only_in_focus=True)
            _fill_farm(state, out)
        timing_schedule.make_room(state, out)
        _start_here(state, out)
        _fill_farm(state, out)
    state.waits_for = _waits_for(state)
    analysis_schedule.start(state, out)
    timing_schedule.start(state, out)
    verification_schedule.start(state, out)
    advice_schedule.start(state, out)
    while _fits_other(state) and toolchain_schedule.start_next(state, out, COMPILER_MEMORY_BYTES):
        pass
    if (state.unrecorded or state.removed) and state.recording is None:
        units = tuple(state.unrecorded)[:RECORDED_AT_ONCE]
        for name in units:
            del state.unrecorded[name]
        state.recording = begin(state, WorkKind.RECORD, UnitKey("", ""))
        out.append(Record(state.recording, units, tuple(state.removed)))
        state.removed.clear()


def _awaits_recall(state: State) -> bool:
    """Return True if the next unit may have a remembered result. Unsaved texts have none, and somebody is typing
    them."""
    first = state.render_queue.first()
    return first is not None and first.scope == MAIN and (state.recalling is not None or recall.is_due(state))


def _renders(state: State) -> int:
    """How many renders may be begun. What is looked at or asked for does not wait until others have ended, and beside
    those it takes three times as long to find out what a request asks for."""
    rank = state.render_queue.rank
    if rank is not None and rank <= REQUESTED:
        return 2 * state.renders
    return 1 if any(request.pending is None for request in state.requests.values()) else state.renders


def _next(state: State, queue: WorkQueue) -> tuple[UnitState, View]:
    key = queue.pop()
    view = state.views[key.scope]
    return view.units[key.unit], view


def _tokens(unit: UnitState) -> str:
    return "" if unit.render.facts is None else unit.render.facts.tokens


def _compiler(state: State, unit: UnitState, view: View) -> Check | Compile:
    """The host pass alone, while others wait for theirs and no client for this unit; else all that is left to do."""
    memory = expected_memory_bytes(state, unit)
    unit.compile.waits_for = ""
    room = state.jobs - _processes(state)
    apart = state.passes_apart and not unit.compile.host_pass_done and unit.unit.arch.startswith("gfx")
    more = state.compile_queue or state.render_queue or state.look_queue or room < PASSES
    if apart and more and priority(state, unit)[0] > REQUESTED:
        unit.compile.compiler = begin(
            state, WorkKind.CHECK, unit.key, unit.input.generation, _tokens(unit), int(memory * HOST_MEMORY)
        )
        return Check(
            unit.compile.compiler, unit.unit, view.overlays.copy(), view.options, awaited=is_awaited(state, unit)
        )
    both = int(memory * (1 + HOST_MEMORY))
    wide = apart and room >= PASSES and (state.memory_bytes is None or _reserved(state) + both <= state.memory_bytes)
    unit.compile.compiler = begin(
        state, WorkKind.COMPILE, unit.key, unit.input.generation, _tokens(unit), both if wide else memory
    )
    if not wide:
        state.single_pass_compiles.add(unit.compile.compiler.number)
    return Compile(
        *(unit.compile.compiler, unit.unit, view.overlays.copy(), view.options, unit.demand.force),
        side_by_side=wide,
        waiting=len(state.compile_queue),
        awaited=is_awaited(state, unit),
        lines=wants_lines(state, unit),
        usual_s=state.compile_seconds.get(unit.unit.kernel.name, 0.0),
    )


def _start_here(state: State, out: Effects, *, only_in_focus: bool = False) -> None:
    """Start compilers of this machine, as many as there is room for."""
    while state.compile_queue and not _is_occupied(state) and _fits(state):
        if only_in_focus and not _first_is_in_focus(state):
            return
        unit, view = _next(state, state.compile_queue)
        move(unit, Phase.COMPILING)
        out.append(_compiler(state, unit, view))
        publish(out, unit)


def _first_is_in_focus(state: State) -> bool:
    first = state.compile_queue.first()
    unit = None if first is None else state.find(first)
    return unit is not None and is_in_focus(state, unit)


def _fill_farm(state: State, out: Effects) -> None:
    """Give the farm what it has room for.

    While somebody looks at something, this machine's compilers are kept for that as long as the farm has room, so that
    an edit does not wait for the network; else they take what comes first, as one more worker.
    """
    room = state.farm_slots - len(state.on_farm - state.storing)
    if room <= 0 or not state.compile_queue:
        return
    here = not _is_occupied(state) and _fits(state)
    for key in state.compile_queue.next_ones(room + WAITING_SKIPPED):
        view = state.views[key.scope]
        unit = view.units[key.unit]
        if not _goes_to_farm(unit) or (here and is_in_focus(state, unit)):
            continue
        state.compile_queue.remove(key)
        move(unit, Phase.COMPILING)
        work = begin(state, WorkKind.COMPILE, key, unit.input.generation, _tokens(unit))
        state.on_farm.add(work.number)
        state.compilers.pop(work.number)
        unit.compile.compiler, unit.compile.waits_for = work, ""
        out.append(
            Compile(
                *(work, unit.unit, view.overlays.copy(), view.options, unit.demand.force),
                waiting=len(state.compile_queue),
                lines=wants_lines(state, unit),
                usual_s=state.compile_seconds.get(unit.unit.kernel.name, 0.0),
                on_farm=True,
            )
        )
        publish(out, unit)
        room -= 1
        if not room:
            return


def _goes_to_farm(unit: UnitState) -> bool:
    """Return True if any machine can compile the unit: not code for this machine's processor, or for its CUDA."""
    host = unit.unit.kernel.template.endswith(f".{Language.CPP}.j2")
    return not unit.compile.not_on_farm and not host and unit.unit.arch.startswith("gfx")


def _is_occupied(state: State) -> bool:
    """Return True if a measurement is running that must not be disturbed."""
    return state.is_measuring_alone


def _processes(state: State) -> int:
    """How many compiler processes may be running."""
    return sum(
        PASSES if work.kind is WorkKind.COMPILE and work.number not in state.single_pass_compiles else 1
        for work in state.compilers.values()
    )


def _reserved(state: State) -> int:
    return sum(work.expected_memory_bytes for work in state.compilers.values())


def _waits_for(state: State) -> str:
    """Return what the units in the queue wait for, after all compilers that fit have been started."""
    if not state.compile_queue or state.unwanted:
        return ""
    if _is_occupied(state):
        return "a measurement that needs the processor for itself"
    processes = _processes(state)
    if processes >= state.jobs:
        return f"a compiler: {processes} run, of {state.jobs} at a time"
    return "memory for another compiler"


def _fits_other(state: State) -> bool:
    """Return True if a check with another toolchain has a core and memory."""
    processes = _processes(state)
    if not state.with_queue or state.compile_queue or _is_occupied(state) or processes >= state.jobs:
        return False
    return not processes or state.memory_bytes is None or _reserved(state) + COMPILER_MEMORY_BYTES <= state.memory_bytes


def _fits(state: State) -> bool:
    """Return True if the next compiler has a core and memory. One may always run, however little memory there is."""
    if len(state.storing) >= STORED_AT_ONCE:
        return False
    processes = _processes(state)
    if not processes:
        return True
    if processes >= state.jobs:
        return False
    first = state.compile_queue.first()
    unit = None if first is None else state.find(first)
    if unit is None or state.memory_bytes is None:
        return True
    return _reserved(state) + expected_memory_bytes(state, unit) <= state.memory_bytes
