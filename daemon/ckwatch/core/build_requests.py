"""Build requests: which units a request means, and asking for them.

A request waits until the files on disk have been scanned and the workspace has been read after it was made; then its
units are known, and each is reported once when it is settled.
"""

from __future__ import annotations

from ckwatch.core.effects import Notify
from ckwatch.core.events import BuildRequested, Cause, RequestDropped
from ckwatch.core.files import request_scan
from ckwatch.core.notify import notify, notify_if_answered
from ckwatch.core.phases import Phase
from ckwatch.core.state import Effects, Invalidation, PendingBuild, State, Unwanted
from ckwatch.core.units import CANCELLED, want
from ckwatch.model.kernels import Outcome
from ckwatch.model.unit_patterns import select_units


def build_requested(state: State, out: Effects, event: BuildRequested) -> None:
    """A client wants fresh results. The files on disk are scanned first."""
    force = event.force and not event.check_only
    request = PendingBuild(
        event.request, event.scope, event.patterns, force, event.check_only, event.finish, event.lines
    )
    state.requests[event.request] = request
    request.scan = request_scan(state, out)


def resolve(state: State, out: Effects) -> None:
    """Find the units of requests: the files are known now as they were when the request was made, or later.

    No unit is reported in the same step, so that `pending` is complete when it ends.
    """
    if not state.requests or state.changed or state.invalidated or state.compares:
        return
    for request in list(state.requests.values()):
        if request.pending is None and state.scanned >= request.scan and _is_current(state, request.scope):
            _resolve(state, out, request)


def _is_current(state: State, name: str) -> bool:
    main, view = state.main, state.views.get(name, state.main)
    read = main.workspace is not None or main.problem is not None
    return read and main.is_current and view.is_current and not view.leaving


def _resolve(state: State, out: Effects, request: PendingBuild) -> None:
    names, unknown = select_units(state.members(request.scope), request.patterns)
    if unknown is not None or not names:
        out.append(Notify(request.name, None, unknown))
        del state.requests[request.name]
        return
    request.pending = set(names)
    request.not_yet_asked = names[::-1]


def ask_some(state: State, out: Effects, at: float) -> None:
    """Ask for some of the units of requests that were resolved."""
    left = state.units_at_once
    for request in list(state.requests.values()):
        while request.not_yet_asked and left > 0:
            _ask(state, out, request, request.not_yet_asked.pop(), at)
            left -= 1


def _ask(state: State, out: Effects, request: PendingBuild, name: str, at: float) -> None:
    state.waiting.setdefault(name, set()).add(request.name)
    unit = state.seen(request.scope, name)
    if name in request.cancelled and unit is not None:
        if not notify_if_answered(state, out, request, name):
            notify(state, out, request, name, CANCELLED)
        return
    if unit is not None:
        cause = Cause("requested", at)
        result = unit.compile.result
        faulted = unit.phase is Phase.DONE and result is not None and result.outcome is Outcome.FAULTED
        # A fault of the host says nothing about the unit: try again.
        if faulted and (not request.check_only or unit.render.facts is None):
            state.invalidate([unit.key], Invalidation(cause, recompile=True, edit=False))
        elif request.force:
            unit.demand.force = True
            state.invalidate([unit.key], Invalidation(cause, recompile=True, edit=False))
        elif not request.check_only:
            unit.demand.paused = False
            want(state, out, unit, cause)
    notify_if_answered(state, out, request, name)


def request_dropped(state: State, out: Effects, event: RequestDropped) -> None:  # noqa: ARG001  # as all handlers
    """The client does not wait any more: units that no other client wants are not compiled."""
    request = state.requests.pop(event.request, None)
    if request is None:
        return
    cause = Cause("its request was cancelled", event.at)
    for name in sorted(request.pending or ()):
        waiting = state.waiting.get(name, set())
        waiting.discard(request.name)
        if not waiting:
            state.waiting.pop(name, None)
        state.unwanted.append(Unwanted(request.scope, name, cause, spare=request.finish))
