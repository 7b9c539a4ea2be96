"""Decides when it is found out why kernels use scratch or have few waves: once their figures say that they do.

It takes compiles of changed sources, so one unit at a time has its turn, that which needs it most, and only while
nothing else needs a compiler, an emulator or the processor for itself. Whatever does stops it; it begins anew
afterwards, with what the store has of it. Only the workspace's own units are advised on, those that are edited, in
focus or requested.
"""

from __future__ import annotations

from ckwatch.core.demand import EDITED, IN_FOCUS, REQUESTED, is_in_focus
from ckwatch.core.effects import Advise
from ckwatch.core.events import MAIN, AdviceRequested, AdviseFinished, Work, WorkAborted, WorkKind
from ckwatch.core.notify import publish
from ckwatch.core.state import Effects, State, begin, release, stop
from ckwatch.core.unit_state import UnitState


def consider(state: State, unit: UnitState) -> None:
    """The unit is settled, its figures are known, or the demand for it changed: decide whether it needs advice."""
    if not unit.settled:
        return
    unit.advice.wanted = _needs(state, unit) and _is_cared_for(state, unit)
    if not unit.advice.wanted:
        unit.advice.requested = unit.advice.requested and unit.figures.depth is not None
        state.advise_queue.remove(unit.key)
    elif unit.advice.work is None:
        rank = REQUESTED if unit.advice.requested else IN_FOCUS if is_in_focus(state, unit) else EDITED
        state.advise_queue.add(unit.key, (rank, -_need(unit), state.next()))


def _need(unit: UnitState) -> int:
    """How much the present artifact needs advice; 0 as long as its figures are not known."""
    figures, result = unit.figures.latest, unit.built
    return figures.need if figures is not None and result is not None and figures.artifact == result.artifact else 0


def _needs(state: State, unit: UnitState) -> bool:
    if not state.advice or unit.key.scope != MAIN or not _need(unit) or unit.has_placed_advice:
        return False
    return unit.built is not None and unit.advice.given_up_artifact != unit.built.artifact


def _is_cared_for(state: State, unit: UnitState) -> bool:
    return bool(unit.input.last_edit) or unit.advice.requested or is_in_focus(state, unit)


def advice_requested(state: State, out: Effects, event: AdviceRequested) -> None:
    """A client wants advice on units that are built."""
    state.advice_requests = event.number
    for name in event.units:
        unit = state.seen(event.scope, name)
        if unit is None or unit.built is None:
            continue
        unit.advice.requested = True
        unit.advice.given_up_artifact = ""
        consider(state, unit)
        publish(out, unit)  # also when it is known: the client that asked waits for it


def stop_useless(state: State, out: Effects) -> None:
    """Stop a search that is of no use any more, or whose processor somebody needs."""
    work = state.advising
    if work is None:
        return
    unit = state.find(work.key)
    useless = unit is None or unit.advice.work is not work or not unit.advice.wanted or not unit.has_built(work.tokens)
    if useless or _is_busy(state):
        stop(state, out, work)


BEFORE_COMPILES = (WorkKind.LOAD, WorkKind.RENDER, WorkKind.LOOK_UP)
"""Work that may lead to a compile."""


def _is_busy(state: State) -> bool:
    """Return True if somebody needs the processor, or is about to."""
    if state.is_compiling or state.is_measuring_alone or state.has_news:
        return True
    return any(work.kind in BEFORE_COMPILES for work in state.running.values())


def start(state: State, out: Effects) -> None:
    """Look into the unit that needs it most, if nothing else is to be done."""
    while state.advising is None and (key := state.advise_queue.first()) is not None:
        unit = state.find(key)
        if unit is None or not unit.advice.wanted or unit.built is None:
            state.advise_queue.remove(key)  # it comes back when it is settled
            continue
        if _is_busy(state) or state.analyzing is not None or state.verifying is not None:
            return
        state.advise_queue.remove(key)
        work = begin(state, WorkKind.ADVISE, key, unit.input.generation, unit.built.artifact)
        unit.advice.work = state.advising = work
        out.append(Advise(work, unit.unit, unit.built, awaited=unit.advice.requested))


def advise_finished(state: State, out: Effects, event: AdviseFinished) -> None:
    """A search has ended. Advice on an earlier artifact is dropped."""
    ran = release(state, event.work)
    unit = _end(state, event.work)
    if unit is None:
        return
    if ran and unit.has_built(event.work.tokens):
        if event.found is None:
            unit.advice.given_up_artifact = event.work.tokens
        else:
            unit.advice.latest = event.found
    consider(state, unit)
    publish(out, unit)


def advise_aborted(state: State, out: Effects, event: WorkAborted, *, ran: bool) -> None:
    """A search was stopped, and may still be wanted; or it failed."""
    unit = _end(state, event.work)
    if unit is None:
        return
    if ran:
        unit.advice.given_up_artifact = event.work.tokens
    consider(state, unit)
    publish(out, unit)


def _end(state: State, work: Work) -> UnitState | None:
    """The unit that was looked into, if there still is one."""
    advising, state.advising = state.advising, None
    assert advising is work, "one search at a time"  # noqa: S101
    unit = state.find(work.key)
    if unit is None or unit.advice.work is not work:
        return None
    unit.advice.work = None
    return unit
