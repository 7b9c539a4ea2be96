"""Decides when artifacts are verified by an emulator: after a build of an edited or focused unit, and on request.

A verification takes this machine's cores for seconds, so one runs at a time, and one that no client asked for waits
until no unit needs a compiler, and tries essential problems only. Its result holds as long as the artifact and the
kernel file's shapes and reference. What was found belongs to lines of a text, which takes a compile with line tables to
know: findings are shown at the instance first, and then verified once more, for their places, which executes nothing.
The same when only the text changed.

A verification counts as what it was begun as, whatever it says of itself: another one would say the same.
"""

from __future__ import annotations

from dataclasses import replace

from ckwatch.core.demand import EDITED, IN_FOCUS, REQUESTED, is_in_focus
from ckwatch.core.effects import Verify
from ckwatch.core.events import (
    MAIN,
    ArtifactVerification,
    CompileFacts,
    VerifyFinished,
    VerifyRequested,
    Work,
    WorkAborted,
    WorkDropped,
    WorkKind,
)
from ckwatch.core.notify import publish
from ckwatch.core.state import Effects, Priority, State, begin, release, stop
from ckwatch.core.unit_state import UnitState, VerificationRequest
from ckwatch.model.verification import Verification, VerificationDepth

RANKS = {REQUESTED: 0, IN_FOCUS: 1, EDITED: 2}
"""The order of verifications: requested ones come first and do not wait for compilers either."""


def consider(state: State, out: Effects, unit: UnitState) -> None:
    """The unit is settled, or the demand for it changed: decide whether its artifact is to be verified."""
    if not unit.settled:
        return
    now = unit.verification
    result, before = unit.built, now.request
    if result is None:
        now.request = None
    elif now.request is None and _is_automatic(state, unit, result) and not _knows(state, unit, result):
        now.request = VerificationRequest()
    _queue(state, unit)
    if now.request != before:
        now.unverified_because = ""
        publish(out, unit)


def _is_automatic(state: State, unit: UnitState, result: CompileFacts) -> bool:
    if unit.key.scope != MAIN or unit.unit.arch.partition(":")[0] not in state.verification.archs:
        return False
    cared_for = unit.input.last_edit or is_in_focus(state, unit)
    return bool(cared_for) and unit.verification.given_up_artifact != result.artifact


def _known(state: State, unit: UnitState, result: CompileFacts, *, thorough: bool) -> Verification | None:
    """The last verification if it is of this artifact and these shapes, and tried what it is to."""
    latest = unit.verification.latest
    if (
        latest is not None
        and latest.artifact == result.artifact
        and latest.is_of(unit.unit.kernel)
        and latest.verification.checked == state.verification.checks
        and (not thorough or latest.verification.depth is VerificationDepth.THOROUGH)
    ):
        return latest.verification
    return None


def _knows(state: State, unit: UnitState, result: CompileFacts, *, thorough: bool = False) -> bool:
    """Return True if the result also belongs to this text."""
    known = _known(state, unit, result, thorough=thorough)
    return known is not None and (not known.findings or unit.has_placed_findings)


def _queue(state: State, unit: UnitState) -> None:
    if unit.verification.request is None:
        state.verify_queue.remove(unit.key)
    elif unit.verification.work is None:
        state.verify_queue.add(unit.key, _priority(state, unit, unit.verification.request))


def _priority(state: State, unit: UnitState, request: VerificationRequest) -> Priority:
    rank = REQUESTED if request.requested else IN_FOCUS if is_in_focus(state, unit) else EDITED
    return (RANKS[rank], -unit.input.last_edit, state.next())


def verify_requested(state: State, out: Effects, event: VerifyRequested) -> None:
    """A client wants verifications. Known ones are done again only by `force`."""
    state.verify_requests = event.number
    for name in event.units:
        unit = state.seen(event.scope, name)
        result = None if unit is None else unit.built
        if unit is None or result is None:
            continue
        waiting = unit.verification.request
        latest = unit.verification.latest
        again = latest is not None and not latest.verification.is_final
        if event.force or again or waiting is not None or not _knows(state, unit, result, thorough=True):
            force = event.force or again or (waiting is not None and waiting.force)
            unit.verification.request = VerificationRequest(requested=True, force=force)
            unit.verification.unverified_because = unit.verification.given_up_artifact = ""
        _queue(state, unit)
        publish(out, unit)  # also when it is known: the client that asked waits for it


def verify_dropped(state: State, out: Effects, event: WorkDropped) -> None:
    """Drop requested verifications; of everything, until the artifact is another or a client asks again."""
    for name in event.units:
        unit = state.seen(event.scope, name)
        request = None if unit is None else unit.verification.request
        if unit is None or request is None or not (request.requested or event.everything):
            continue
        unit.verification.request = None
        if event.everything and unit.compile.result is not None:
            unit.verification.given_up_artifact = unit.compile.result.artifact
        consider(state, out, unit)
        _queue(state, unit)
        publish(out, unit)


def stop_useless(state: State, out: Effects) -> None:
    """Stop a verification that is of no use any more."""
    work = state.verifying
    if work is None:
        return
    unit = state.find(work.key)
    if (
        unit is None
        or unit.verification.work is not work
        or unit.verification.request is None
        or not unit.has_built(work.tokens)
    ):
        stop(state, out, work)


def start(state: State, out: Effects) -> None:
    """Verify the unit that is wanted most, if no verification is running."""
    while state.verifying is None and (key := state.verify_queue.first()) is not None:
        unit = state.find(key)
        request = None if unit is None else unit.verification.request
        result = None if unit is None else unit.built
        if unit is None or request is None or result is None:
            state.verify_queue.remove(key)  # it comes back when it is settled
            continue
        if state.is_measuring_alone:
            return
        if not request.requested and state.is_compiling:
            return
        state.verify_queue.remove(key)
        work = begin(state, WorkKind.VERIFY, key, unit.input.generation, result.artifact)
        known = None if request.force else _known(state, unit, result, thorough=request.requested)
        how = (request.force, request.requested, state.verification.checks, known)
        unit.verification.work = state.verifying = work
        unit.verification.serving = Verify(work, unit.unit, result, *how)
        out.append(unit.verification.serving)
        publish(out, unit)


def verify_finished(state: State, out: Effects, event: VerifyFinished) -> None:
    """A verification has ended, with a result or without. That of an earlier artifact is kept on disk only."""
    ran = release(state, event.work)
    unit, serving = _end(state, event.work)
    if unit is None:
        return
    if ran and serving is not None and unit.has_built(event.work.tokens):
        if event.found is None:
            _give_up(unit, event.work, event.problem)
        else:
            _take(unit, event.found, serving)
    _go_on(state, out, unit)


def _take(unit: UnitState, found: ArtifactVerification, serving: Verify) -> None:
    depth = VerificationDepth.THOROUGH if serving.awaited else found.verification.depth
    verification = replace(found.verification, checked=serving.checked, depth=depth)
    generation = found.generation or (serving.work.generation if serving.known is not None else 0)
    unit.verification.latest = replace(found, verification=verification, generation=generation)
    unit.verification.unverified_because = unit.verification.given_up_artifact = ""
    request = unit.verification.request
    if request is None or (request.force and not serving.force):
        return
    if request.requested and depth is not VerificationDepth.THOROUGH:
        return
    unplaced = verification.findings and not generation
    unit.verification.request = VerificationRequest(request.requested) if unplaced else None


def verify_aborted(state: State, out: Effects, event: WorkAborted, *, ran: bool) -> None:
    """A verification was stopped, and may still be wanted; or it failed."""
    unit, _ = _end(state, event.work)
    if unit is None:
        return
    if ran:
        _give_up(unit, event.work, event.fault or "the verification was stopped from outside")
    _go_on(state, out, unit)


def _give_up(unit: UnitState, work: Work, why: str) -> None:
    unit.verification.request = None
    unit.verification.unverified_because, unit.verification.given_up_artifact = why, work.tokens


def _end(state: State, work: Work) -> tuple[UnitState | None, Verify | None]:
    """The unit that was verified, if there still is one, and as what."""
    verifying, state.verifying = state.verifying, None
    assert verifying is work, "one verification at a time"  # noqa: S101
    unit = state.find(work.key)
    if unit is None or unit.verification.work is not work:
        return None, None
    serving = unit.verification.serving
    unit.verification.work = unit.verification.serving = None
    return unit, serving


def _go_on(state: State, out: Effects, unit: UnitState) -> None:
    consider(state, out, unit)
    _queue(state, unit)
    publish(out, unit)
