"""What clients do: lend texts, look at units, ask for builds, give up, go away."""

from __future__ import annotations

from ckwatch.events import (
    MAIN,
    BuildRequested,
    CancelRequested,
    Cause,
    Changed,
    ClientLost,
    Focused,
    OptionsChanged,
    OverlayChanged,
    RequestDropped,
    Tell,
)
from ckwatch.machine.files import is_quiet, request_scan
from ckwatch.machine.loading import differs, drop_view, follow_main, request_load, unused
from ckwatch.machine.state import BuildRequest, Focus, Phase, Scope, State, Touch, UnitState
from ckwatch.machine.units import Effects, create, give_up, is_wanted, reconsider, renew
from ckwatch.model.outcome import Outcome
from ckwatch.model.selection import chosen


def overlay_changed(state: State, out: Effects, event: OverlayChanged) -> None:
    """A client's unsaved text: the units that read the file get a state of their own in the client's view."""
    view = state.scopes.get(event.client)
    if event.text is None:
        if view is None or event.path not in view.overlays:
            return
        del view.overlays[event.path]
        view.digests.pop(event.path, None)
    else:
        if view is None:
            view = state.scopes[event.client] = Scope(event.client)
        if view.overlays.get(event.path) == event.text:
            return
        view.overlays[event.path] = event.text
        view.digests[event.path] = event.digest
    if unused(view):
        drop_view(state, out, view)
        return
    file = event.path.rsplit("/", 1)[-1]
    cause = Cause(
        f"{file} was edited in an editor" if event.text is not None else f"{file}: unsaved text dropped", event.at
    )
    readers = state.graph.readers(event.path)
    for key in [key for key in readers if key.scope == view.name]:
        unit = view.units[key.unit]
        if event.text is None and view.workspace is not None and not differs(state, view, unit.unit):
            follow_main(state, out, view, key.unit)
        else:
            renew(state, out, unit, cause, recompile=False, edit=True)
    if event.text is not None:
        for key in [key for key in readers if key.scope == MAIN and key.unit not in view.units]:
            _own(state, out, view, state.main.units[key.unit], cause)
    request_load(state, out, view, urgent=True)


def join_views(state: State, out: Effects, unit: UnitState, at: float) -> None:
    """A unit of the workspace has been rendered: clients that lend a text which it reads see another one."""
    for view in state.scopes.values():
        if view.name != MAIN and unit.key.unit not in view.units and state.graph.depends_on(unit.key, view.overlays):
            _own(state, out, view, unit, Cause("it reads a file that is edited in an editor", at))


def _own(state: State, out: Effects, view: Scope, unit: UnitState, cause: Cause) -> None:
    create(state, out, view, view.members.get(unit.key.unit, unit.unit), cause, like=unit)
    own = view.units[unit.key.unit]
    own.wanted = True
    own.edited = state.next()


def options_changed(state: State, out: Effects, event: OptionsChanged) -> None:
    """A client's view has other archs, rules or warnings."""
    view = state.scopes.get(event.client)
    if view is None:
        view = state.scopes[event.client] = Scope(event.client)
    if view.options == event.options:
        if unused(view):
            drop_view(state, out, view)
        return
    view.options = event.options
    if unused(view):
        drop_view(state, out, view)
        return
    for unit in view.units.values():
        state.touched[unit.key] = Touch(Cause("other options", event.at), recompile=True, edit=False)
    request_load(state, out, view, urgent=True)


def focused(state: State, out: Effects, event: Focused) -> None:  # noqa: ARG001  # as all handlers
    """What a client looks at comes first from now on."""
    if event.units or event.everything:
        state.focus[event.client] = Focus(event.units, event.everything)
    else:
        state.focus.pop(event.client, None)
    names = list(state.main.units) if event.everything else event.units
    cause = Cause("somebody looks at it", event.at)
    for name in names:
        unit = state.seen(event.client, name)
        if unit is not None:
            state.wants.append((unit.key, cause))


def build_requested(state: State, out: Effects, event: BuildRequested) -> None:
    """Somebody wants fresh results. Files that have just been written are looked at first."""
    request = BuildRequest(event.request, event.scope, event.patterns, event.force, event.check_only)
    state.requests[event.request] = request
    request.scan = request_scan(state, out)


def resolve_requests(state: State, out: Effects, at: float) -> None:
    """Requests whose units can be told now: the files are known as they were when it was made, or later."""
    if not state.requests or not is_quiet(state) or (state.main.workspace is None and state.main.problem is None):
        return
    for request in list(state.requests.values()):
        if request.pending is None and state.scanned >= request.scan:
            _resolve(state, out, request, at)


def _resolve(state: State, out: Effects, request: BuildRequest, at: float) -> None:
    names, unknown = chosen(state.members(request.scope), request.patterns)
    if unknown is not None:
        out.append(Tell(request.name, None, unknown))
        del state.requests[request.name]
        return
    request.pending = set(names)
    cause = Cause("asked for", at)
    for name in names:
        state.waiting.setdefault(name, set()).add(request.name)
        unit = state.seen(request.scope, name)
        if unit is None:
            continue
        if request.force:
            unit.force = True
            state.touched[unit.key] = Touch(cause, recompile=True, edit=False)
        elif request.check_only:
            continue
        elif unit.phase is Phase.DONE and unit.result is not None and unit.result.outcome is Outcome.FAULTED:
            # Nothing was learned the last time.
            state.touched[unit.key] = Touch(cause, recompile=True, edit=False)
        elif unit.phase is not Phase.DONE:
            state.wants.append((unit.key, cause))
    for name in names:
        reconsider(state, out, name)
    if not names:
        out.append(Tell(request.name, None))
        del state.requests[request.name]


def request_dropped(state: State, out: Effects, event: RequestDropped) -> None:
    """Nobody waits any more: what nobody else wants is not compiled."""
    request = state.requests.get(event.request)
    if request is None:
        return
    del state.requests[request.name]
    for name in request.pending or ():
        waiting = state.waiting[name]
        waiting.discard(request.name)
        if not waiting:
            del state.waiting[name]
        unit = state.seen(request.scope, name)
        if unit is None:
            continue
        if request.force:
            unit.force = False
        if not is_wanted(state, unit):
            give_up(state, out, unit, Cause("the request for it was given up", event.at), "cancelled")


def cancel_requested(state: State, out: Effects, event: CancelRequested) -> None:
    """Somebody wants these units not to be compiled now."""
    for name in sorted(event.units):
        unit = state.seen(event.scope, name)
        if unit is not None:
            give_up(state, out, unit, Cause("cancelled", event.at), "cancelled")


def client_lost(state: State, out: Effects, event: ClientLost) -> None:
    """The client's requests, focus and view go with it."""
    for request in [request for request in state.requests.values() if request.scope == event.client]:
        request_dropped(state, out, RequestDropped(request.name, at=event.at))
    if state.focus.pop(event.client, None) is not None:
        out.append(Changed(MAIN, "workspace"))
    view = state.scopes.get(event.client)
    if view is not None:
        drop_view(state, out, view)
