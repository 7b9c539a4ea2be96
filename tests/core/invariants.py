"""Invariants after every step of the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ckwatch.core.effects import (
    Advise,
    Analyze,
    Cancel,
    Check,
    CheckWith,
    Compile,
    Effect,
    LookUp,
    Measure,
    Render,
    Verify,
)
from ckwatch.core.events import (
    MAIN,
    AnyEvent,
    Continued,
    LoadFinished,
    MemoryMeasured,
    ScanFinished,
    WarningChanged,
    WorkKind,
)
from ckwatch.core.files import is_quiet
from ckwatch.core.phases import TRANSITIONS, Phase
from ckwatch.core.state import COMPILING, State
from ckwatch.core.timing_schedule import DISTURBING_WORK
from ckwatch.core.unit_state import UnitState
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Outcome


class InvalidStateError(CkwatchError):
    """A bug of ours: the state contradicts itself. The hint is the unit's story, newest first."""


QUEUED_IN: Mapping[Phase, str] = {
    Phase.WAITING: "render_queue",
    Phase.LOOKING: "look_queue",
    Phase.QUEUED: "compile_queue",
}
"""The queue in which a unit waits in a phase; in LOOKING only until its look-up runs."""


def check_invariants(state: State) -> None:
    """Raise InvalidStateError for the first contradiction."""
    for unit in state.all_units():
        _check_unit(state, unit)
    _check_queues(state)
    _check_work(state)
    _check_analyzing(state)
    _check_measuring(state)
    _check_verifying(state)
    _check_advising(state)
    _check_toolchains(state)
    _check_requests(state)
    _check_views(state)


def is_at_rest(state: State) -> bool:
    """Return True if nothing is left to do: every unit is settled and no client waits."""
    return not state.busy and is_quiet(state)


UnitWork = Render | LookUp | Check | Compile | Analyze | Measure | Verify | Advise | CheckWith


class ProgressCheck:
    """Follows the steps of a daemon: no unit's task that has ended by itself is begun anew unless something is new.

    The same would come of it, and it would be begun for ever.
    """

    def __init__(self) -> None:
        self._running: dict[int, UnitWork] = {}
        self._ended: list[UnitWork] = []

    def follow(self, state: State, event: AnyEvent, effects: tuple[Effect, ...]) -> None:
        """Take in a step. Raise InvalidStateError where it begins what has just been done."""
        for number in self._running.keys() - state.running.keys():
            self._ended.append(self._running.pop(number))
        if _is_news(event) or state.has_news:
            self._running.clear()
            self._ended.clear()
        for effect in effects:
            if isinstance(effect, Cancel):
                self._running.pop(effect.work.number, None)
            elif isinstance(effect, UnitWork):
                work = effect.work
                same = replace(effect, work=replace(work, number=0))
                _require(same not in self._ended, f"the {work.kind} gets somewhere", state.find(work.key))
                self._running[work.number] = same


def _is_news(event: AnyEvent) -> bool:
    """Return True if the event may give reason to do something again: it is not the result of a unit's task."""
    if isinstance(event, Continued | MemoryMeasured | WarningChanged):
        return False
    return isinstance(event, LoadFinished | ScanFinished) or not hasattr(event, "work")


def _require(condition: bool, what: str, unit: UnitState | None = None) -> None:
    if condition:
        return
    story = "" if unit is None else "\n".join(cause.what for cause in unit.cause.chain)
    raise InvalidStateError(f"{what}{'' if unit is None else f': {unit.key} is {unit.phase}'}", story or None)


def _check_unit(state: State, unit: UnitState) -> None:
    phase, render, result = unit.phase, unit.render.facts, unit.compile.result
    rendering, looking_up, compiler = unit.render.work, unit.compile.look_up, unit.compile.compiler
    _require(phase in TRANSITIONS, "is in a phase of the table", unit)
    for waiting, name in QUEUED_IN.items():
        queued = phase is waiting and looking_up is None
        _require((unit.key in getattr(state, name)) == queued, f"is in the {name} while it is {waiting}", unit)
    _require((rendering is not None) == (phase is Phase.RENDERING), "has a render in its phase", unit)
    _require(looking_up is None or phase is Phase.LOOKING, "has a look-up in its phase only", unit)
    for work, kind in ((rendering, WorkKind.RENDER), (looking_up, WorkKind.LOOK_UP)):
        if work is not None:
            _require(work.kind is kind, f"its {kind} is one", unit)
            _require(work.number in state.running, f"its {kind} runs", unit)
            _require(work.number not in state.cancelled, f"its {kind} is wanted", unit)
            _require(work.generation == unit.input.generation, f"its {kind} is of the present generation", unit)
    if phase is Phase.COMPILING:
        same = compiler is not None and render is not None and compiler.tokens == render.tokens
        _require(same, "has a compiler, which compiles what was rendered", unit)
    if compiler is not None:
        _require(compiler.number in state.running, "its compiler runs", unit)
        _require(compiler.number not in state.cancelled, "its compiler is wanted", unit)
        _require(phase in (Phase.WAITING, Phase.RENDERING, Phase.COMPILING), "its compiler may be of use", unit)
    _require(not (unit.compile.live_diagnostics and unit.settled), "its result replaces live diagnostics", unit)
    between_passes = phase in (Phase.QUEUED, Phase.COMPILING)
    _require(not unit.compile.host_pass_done or between_passes, "its device pass follows the host pass", unit)
    if phase is Phase.DONE and render is not None and render.ok:
        _require(result is not None, "is done with a result", unit)
        if unit.compile.reusable and result is not None:
            _require(result.tokens == render.tokens, "its result is that of the present tokens", unit)


def _check_queues(state: State) -> None:
    keys = {unit.key for unit in state.all_units()}
    for queue in (state.render_queue, state.look_queue, state.compile_queue):
        _require(queue.keys <= keys, "only units wait")
    _require(state.invalidated.keys() <= keys, "only units are invalidated")
    waiting = {key.unit for key in state.render_queue.keys if key.scope == MAIN}
    _require(state.unrecalled.keys() <= waiting, "what may be remembered waits for a render")


def _check_work(state: State) -> None:
    _require(state.cancelled <= state.running.keys(), "what is being stopped still runs")
    owned = {
        work.number
        for unit in state.all_units()
        for work in (unit.render.work, unit.compile.look_up, unit.compile.compiler)
        if work is not None
    }
    _require(state.adopted.keys() <= state.running.keys(), "an adopted compiler runs")
    for work in state.running.values():
        if work.kind in (WorkKind.RENDER, WorkKind.LOOK_UP, WorkKind.CHECK, WorkKind.COMPILE):
            _require(
                (work.number in owned) != (work.number in state.cancelled),
                f"{work} belongs to a unit, or is being stopped",
            )
    _require(state.single_pass_compiles <= state.running.keys(), "a pass that runs alone runs")
    _require(state.storing <= state.running.keys(), "a compile that is being stored runs")
    _require(state.on_farm <= state.running.keys(), "a compile on the farm runs")
    kinds = [work.kind for work in state.running.values()]
    _require(all(state.at_work[kind] == kinds.count(kind) for kind in WorkKind), "all that runs is counted")
    compilers = {number for number, work in state.running.items() if work.kind in COMPILING}
    _require(state.compilers.keys() == compilers - state.storing - state.on_farm, "compilers of this machine are known")
    _require(state.at_work[WorkKind.RENDER] <= 2 * state.renders, "renders are bounded")
    _require(state.at_work[WorkKind.LOOK_UP] <= state.look_ups, "look-ups are bounded")


def _check_analyzing(state: State) -> None:
    work = state.analyzing
    _require(state.at_work[WorkKind.ANALYZE] == (work is not None), "one analysis at a time")
    for unit in state.all_units():
        _require(unit.figures.work is None or unit.figures.work is work, "is analyzed by the one analysis", unit)
        waits = unit.key in state.analyze_queue
        _require(not waits or unit.figures.depth is not None, "waits to be analyzed", unit)
        if unit.settled and unit.figures.depth is not None:
            _require(waits or unit.figures.work is not None, "what is to be analyzed is queued or at work", unit)
            _require(unit.outcome is Outcome.BUILT, "is analyzed with an artifact", unit)
    _require(state.analyze_queue.keys <= {unit.key for unit in state.all_units()}, "only units are analyzed")


def _check_measuring(state: State) -> None:
    works = list(state.measuring.values())
    _require(state.at_work[WorkKind.MEASURE] == len(works), "one measurement at a time on a device")
    for work in works:
        if work.exclusive and work.number not in state.cancelled:
            disturbing = (other for other in state.running.values() if other.number not in state.on_farm)
            others = any(other.kind in DISTURBING_WORK for other in disturbing) or len(works) > 1
            _require(not others, "what needs the processor for itself has it")
    for unit in state.all_units():
        mine = unit.timing.work
        _require(mine is None or any(mine is work for work in works), "is timed by a measurement", unit)
        waits = unit.key in state.measure_queue
        _require(not waits or bool(unit.timing.requested), "waits for a device with a shape", unit)
        if unit.timing.requested and unit.settled:
            _require(waits or unit.timing.work is not None, "what is to be timed is queued or at work", unit)
    _require(not state.newly_settled, "settled units have been considered")
    _require(state.measure_queue.keys <= {unit.key for unit in state.all_units()}, "only units wait for a device")


def _check_advising(state: State) -> None:
    work = state.advising
    _require(state.at_work[WorkKind.ADVISE] == (work is not None), "one search for advice at a time")
    for unit in state.all_units():
        mine = unit.advice.work
        _require(mine is None or mine is work, "is looked into by the one search", unit)
        waits = unit.key in state.advise_queue
        _require(not waits or unit.advice.wanted, "waits for advice", unit)
        if unit.settled and unit.advice.wanted:
            _require(waits or mine is not None, "what needs advice is queued or at work", unit)
            _require(unit.built is not None and unit.key.scope == MAIN, "has advice with an artifact", unit)
    _require(state.advise_queue.keys <= {unit.key for unit in state.all_units()}, "only units get advice")


def _check_toolchains(state: State) -> None:
    works = [work for work in state.running.values() if work.kind is WorkKind.CHECK_WITH]
    owned = {work.number for unit in state.all_units() if (work := unit.toolchains.work) is not None}
    for work in works:
        _require(work.number in owned or work.number in state.cancelled, "a check belongs to a unit, or is stopped")
    _require(owned <= {work.number for work in works}, "the check of a unit runs")
    for unit in state.all_units():
        now, waits = unit.toolchains, unit.key in state.with_queue
        _require((now.work is None) == (now.serving is None), "is checked for a request", unit)
        _require(not waits or bool(now.requested), "waits to be checked with a toolchain", unit)
        if unit.settled and now.requested:
            _require(waits or now.work is not None, "what is to be checked is queued or at work", unit)
    _require(state.with_queue.keys <= {unit.key for unit in state.all_units()}, "only units are checked")


def _check_verifying(state: State) -> None:
    work = state.verifying
    _require(state.at_work[WorkKind.VERIFY] == (work is not None), "one verification at a time")
    for unit in state.all_units():
        mine = unit.verification.work
        _require(mine is None or mine is work, "is verified by the one verification", unit)
        _require((mine is None) == (unit.verification.serving is None), "is verified for a request", unit)
        waits = unit.key in state.verify_queue
        _require(not waits or unit.verification.request is not None, "waits to be verified", unit)
        if unit.settled and unit.verification.request is not None:
            _require(waits or mine is not None, "what is to be verified is queued or at work", unit)
            _require(unit.built is not None, "is verified with an artifact", unit)
    _require(state.verify_queue.keys <= {unit.key for unit in state.all_units()}, "only units are verified")


def _check_requests(state: State) -> None:
    for request in state.requests.values():
        if request.pending is None:
            continue
        _require(bool(request.pending), f"{request.name} waits for something")
        unasked = set(request.not_yet_asked)
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
    for view in state.views.values():
        for name, unit in view.units.items():
            _require(unit.key == (view.name, name), "a unit knows its view", unit)
            known = view.name == MAIN or not view.started or name in view.members
            _require(known or bool(view.taking or view.pending), "a view knows its units", unit)
        if view.name == MAIN:
            _require(view.units.keys() == view.members.keys(), "the workspace has the states of all its units")
