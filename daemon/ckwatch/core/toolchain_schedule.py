"""Decides when units are checked with other toolchains than the workspace's own: in the background, and on request.

In the background it is done for what `[toolchain] also` names, with units that are edited or in focus, once nothing of
the workspace's own toolchain is left to do. Anything of that stops it; it begins anew afterwards, with what the store
has. What a client asks for waits for a free processor only, and may name any toolchain.

A toolchain is a dimension of what a unit is checked with, as a shape is of what it is timed on: it makes no units. A
result belongs to the artifact that the unit has with the workspace's toolchain (`UnitState.basis`), which stands for
its text and headers, and its messages to one generation.
"""

from __future__ import annotations

from dataclasses import replace

from ckwatch.core import events
from ckwatch.core.demand import EDITED, IN_FOCUS, OTHERS, REQUESTED, is_in_focus
from ckwatch.core.effects import CheckWith
from ckwatch.core.notify import publish
from ckwatch.core.state import Effects, State, begin, stop
from ckwatch.core.unit_state import NOTHING_TO_CHECK, ToolchainRequest, UnitState
from ckwatch.model.kernels import Outcome
from ckwatch.model.targets import Language

RANKS = {REQUESTED: 0, IN_FOCUS: 1, EDITED: 2, OTHERS: 3}

BEFORE_COMPILES = (events.WorkKind.LOAD, events.WorkKind.RENDER, events.WorkKind.LOOK_UP)
"""Work that may lead to a compile."""


def consider(state: State, unit: UnitState) -> None:
    """The unit is settled, or the demand for it changed: decide which toolchains to check it with."""
    now, policy = unit.toolchains, state.toolchains
    if not unit.settled or not (policy.others or now.requested or now.results):
        return
    names = {one.name for one in policy.others}
    mended = now.policy != policy
    now.policy = policy
    for name, known in tuple(now.results.items()):
        if not (name in names or unit.holds(known)) or (mended and known.outcome is Outcome.FAULTED):
            now.results = {other: found for other, found in now.results.items() if other != name}
            state.graph.set_headers(unit.key, None, name)
    wanted = {name: request for name, request in now.requested.items() if request.requested}
    if _is_cared_for(state, unit):
        for one in policy.others:
            if not _knows(unit, one, build=policy.build):
                wanted.setdefault(one.name, ToolchainRequest(one, build=policy.build))
    serving = None if now.work is None else now.serving
    if serving is not None and serving.toolchain.name in wanted:  # the one at work stays the first
        wanted = {serving.toolchain.name: wanted[serving.toolchain.name], **wanted}
    now.requested = wanted or NOTHING_TO_CHECK
    if not wanted:
        state.with_queue.remove(unit.key)
    elif now.work is None:
        requested = any(request.requested for request in wanted.values())
        rank = REQUESTED if requested else IN_FOCUS if is_in_focus(state, unit) else EDITED
        rank = rank if requested or rank is IN_FOCUS or unit.input.last_edit else OTHERS
        state.with_queue.add(unit.key, (RANKS[rank], -unit.input.last_edit, state.next()))


def _is_cared_for(state: State, unit: UnitState) -> bool:
    """Return True if the unit is checked with other toolchains without a request: it has a compiler's result, or what
    is known of it with them is outdated."""
    if unit.key.scope != events.MAIN or unit.demand.paused or unit.toolchains.given_up == unit.basis:
        return False
    if any(one.is_outdated for one in unit.toolchains.results.values()):
        return True
    result = unit.present_result
    if result is None or result.outcome is Outcome.FAULTED or not has_other_toolchains(unit):
        return False
    return bool(unit.input.last_edit) or state.build_everything or is_in_focus(state, unit)


def has_other_toolchains(unit: UnitState) -> bool:
    """Return True if the unit is not for NVIDIA's compiler, of which there is one."""
    return not unit.unit.kernel.template.endswith(f".{Language.CU}.j2")


def _knows(unit: UnitState, toolchain: events.OtherToolchain, *, build: bool) -> bool:
    known = unit.with_toolchain(toolchain)
    return known is not None and known.covers(build=build)


def check_requested(state: State, out: Effects, event: events.CheckWithRequested) -> None:
    """A client wants units checked with these toolchains, or built. What is known is looked up again, as the compiler
    behind a name may be another by now."""
    state.check_requests = event.number
    known = {one.name: one for one in state.toolchains.others}
    for name in event.units:
        unit = state.seen(event.scope, name)
        if unit is None:
            continue
        for toolchain in event.toolchains:
            other = known.get(toolchain, events.OtherToolchain(toolchain))
            request = ToolchainRequest(other, event.build, event.force, requested=True)
            former = unit.toolchains.requested
            unit.toolchains.requested = {**former, toolchain: request.joined(former.get(toolchain))}
        consider(state, unit)
        publish(out, unit)


def check_dropped(state: State, out: Effects, event: events.WorkDropped) -> None:
    """Drop requested checks; with `everything` also those in the background, until the unit has another input."""
    for name in event.units:
        unit = state.seen(event.scope, name)
        if unit is None or not unit.toolchains.requested:
            continue
        unit.toolchains.given_up = unit.basis if event.everything else unit.toolchains.given_up
        unit.toolchains.requested = NOTHING_TO_CHECK
        state.with_queue.remove(unit.key)
        consider(state, unit)
        publish(out, unit)


def stop_useless(state: State, out: Effects) -> None:
    """Stop checks that are of no use any more, and those in the background when there is anything else to do."""
    if not state.at_work[events.WorkKind.CHECK_WITH]:
        return
    works = [work for work in state.running.values() if work.kind is events.WorkKind.CHECK_WITH]
    busy = _is_busy(state)
    for work in works:
        unit = state.find(work.key)
        now = None if unit is None else unit.toolchains
        request = None if now is None or now.serving is None else now.requested.get(now.serving.toolchain.name)
        useful = unit is not None and now is not None and now.work is work and _is_present(unit, work)
        if not useful or request is None or (busy and not request.requested):
            stop(state, out, work)


def _is_present(unit: UnitState, work: events.Work) -> bool:
    return unit.settled and (unit.basis, unit.input.generation) == (work.tokens, work.generation)


def _is_busy(state: State) -> bool:
    """Return True if anything of the workspace's own toolchain is to be done, or is about to be."""
    if state.is_compiling or state.measuring or state.has_news:
        return True
    if state.analyze_queue or state.measure_queue or state.verify_queue or state.advise_queue:
        return True
    at_work = (state.analyzing, state.verifying, state.advising)
    return any(at_work) or any(work.kind in BEFORE_COMPILES for work in state.running.values())


def start_next(state: State, out: Effects, memory_bytes: int) -> bool:
    """Check the unit that is wanted most with a toolchain, if it may be now; whether it was begun."""
    while (key := state.with_queue.first()) is not None:
        unit = state.find(key)
        now = None if unit is None else unit.toolchains
        if unit is None or now is None or not now.requested or now.work is not None or not unit.settled:
            state.with_queue.remove(key)  # it comes back when it is settled
            continue
        request = next((one for one in now.requested.values() if one.requested), None)
        if request is None and _is_busy(state):
            return False
        request = request or next(iter(now.requested.values()))
        state.with_queue.remove(key)
        where = (events.WorkKind.CHECK_WITH, key, unit.input.generation, unit.basis, memory_bytes)
        now.work, now.serving = begin(state, *where), request
        view = state.views[key.scope]
        how = (request.toolchain, request.build, request.force, request.requested)
        out.append(CheckWith(now.work, unit.unit, view.overlays.copy(), view.options, *how))
        publish(out, unit)
        return True
    return False


def outdate(state: State, out: Effects, key: events.UnitKey, toolchain: str) -> None:
    """A file changed that the unit's result with a toolchain depends on: check it with that again. Until then its
    errors are shown."""
    unit = state.find(key)
    known = None if unit is None else unit.toolchains.results.get(toolchain)
    if unit is None or known is None:
        return
    unit.toolchains.given_up = ""
    unit.toolchains.results = {**unit.toolchains.results, toolchain: replace(known, is_outdated=True)}
    consider(state, unit)
    publish(out, unit)


def _besides_templates(unit: UnitState, read: events.HeaderFacts | None) -> events.HeaderFacts | None:
    """The files without the templates that the workspace's own render reads: these make a new input of the unit."""
    own = unit.render.facts
    if read is None or own is None:
        return read
    templates = own.reads.keys() - own.headers
    return replace(read, present={path: digest for path, digest in read.present.items() if path not in templates})


def check_aborted(state: State, out: Effects, event: events.WorkAborted, *, ran: bool) -> None:
    """A check was stopped, and may still be wanted; or it failed."""
    problem = event.fault or "it was stopped from outside"
    check_ended(state, out, event.work, events.CheckWithFacts(Outcome.FAULTED, problem=problem) if ran else None)


def check_ended(state: State, out: Effects, work: events.Work, facts: events.CheckWithFacts | None) -> None:
    """A check has ended; without `facts` it has no result, and may still be wanted. That of an earlier input is in the
    store only."""
    unit = state.find(work.key)
    if unit is None or unit.toolchains.work is not work:
        return
    now = unit.toolchains
    request, now.work, now.serving = now.serving, None, None
    if facts is not None and request is not None and _is_present(unit, work):
        name = request.toolchain.name
        known = replace(facts, toolchain=request.toolchain, basis=work.tokens, generation=work.generation)
        now.results = {**now.results, name: replace(known, is_build=request.build, depends_on=None)}
        state.graph.set_headers(unit.key, _besides_templates(unit, facts.depends_on), name)
        waiting = now.requested.get(name)
        if waiting is not None and waiting.is_served_by(request):
            now.requested = {other: one for other, one in now.requested.items() if other != name} or NOTHING_TO_CHECK
    consider(state, unit)
    publish(out, unit)
