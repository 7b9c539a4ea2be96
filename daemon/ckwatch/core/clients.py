"""Handles what clients do: change unsaved texts, focus on units, cancel builds, disconnect."""

from __future__ import annotations

from ckwatch.core import events
from ckwatch.core.build_requests import request_dropped
from ckwatch.core.demand import is_wanted
from ckwatch.core.effects import Changed
from ckwatch.core.loading import request_load
from ckwatch.core.notify import awaiting
from ckwatch.core.phases import Phase
from ckwatch.core.state import Effects, Focus, Invalidation, State, Unwanted, Wanted
from ckwatch.core.units import give_up, unforce, want
from ckwatch.core.views import drop_view, new_view
from ckwatch.model.topics import SHOW, WORKSPACE


def overlay_changed(state: State, out: Effects, event: events.OverlayChanged) -> None:
    """A client's unsaved text: the units that read the file are compared with the workspace's anew."""
    view = state.views.get(event.client)
    known = None if view is None else view.overlays.get(event.path)
    if known == event.text:
        return
    if event.text is None:
        assert view is not None  # noqa: S101  # it has the text that is dropped
        del view.overlays[event.path]
        view.digests.pop(event.path, None)
    else:
        view = new_view(state, out, event.client, event.at)
        view.overlays[event.path] = event.text
        view.digests[event.path] = event.digest
    view.changed_at[event.path] = state.next()
    if view.is_plain:
        drop_view(state, out, view, event.at)
        return
    file = event.path.rsplit("/", 1)[-1]
    what = f"{file} was edited in an editor" if event.text is not None else f"{file}: unsaved text dropped"
    cause = events.Cause(what, event.at)
    names = {key.unit: None for key in state.graph.readers(event.path) if key.scope in (events.MAIN, view.name)}
    state.compares.extend((view.name, name, cause) for name in names)
    loaded = view.workspace or state.main.workspace
    of_workspace = loaded is None or event.path in loaded.files or event.path.endswith(".toml")
    request_load(state, out, view, urgent=of_workspace)


def options_changed(state: State, out: Effects, event: events.OptionsChanged) -> None:
    """The archs, rules or warnings of a client's view changed."""
    known = state.views.get(event.client)
    if (known is None or known.leaving) and event.options == events.ViewOverrides():
        return
    view = new_view(state, out, event.client, event.at)
    if view.options == event.options:
        return
    view.options = event.options
    if view.is_plain:
        drop_view(state, out, view, event.at)
        return
    invalidation = Invalidation(events.Cause("the options changed", event.at), recompile=True, edit=False)
    state.invalidate([unit.key for unit in view.units.values()], invalidation)
    view.pending.update(dict.fromkeys(view.kernels))
    request_load(state, out, view, urgent=True)


def focus_changed(state: State, out: Effects, event: events.FocusChanged) -> None:  # noqa: ARG001  # as all handlers
    """The units in a client's focus come first from now on."""
    before = state.focus.pop(event.client, None)
    if event.units or event.everything or event.auto_build is not events.AutoBuild.EDITED:
        state.focus[event.client] = Focus(event.units, event.everything, event.auto_build)
    _unfocus(state, before, event.client, event.at)
    names = state.members(event.client) if event.everything else sorted(event.units)
    cause = events.Cause("opened in an editor", event.at)
    anew = event.everything and (before is None or not before.everything)
    state.wants.extend(Wanted(event.client, name, cause, anew=anew) for name in names)
    state.newly_settled.extend(events.UnitKey(events.MAIN, name) for name in sorted(event.units))


def _unfocus(state: State, before: Focus | None, client: str, at: float) -> None:
    if before is None:
        return
    names = state.members(client) if before.everything else sorted(before.units)
    cause = events.Cause("it went out of focus", at)
    state.unwanted.extend(Unwanted(client, name, cause, spare=True) for name in names)


def editors_changed(state: State, out: Effects, event: events.EditorsChanged) -> None:
    """Other clients than before show places."""
    if event.clients != state.editors:
        state.editors = event.clients
        out.append(Changed(events.MAIN, WORKSPACE))


def show_requested(state: State, out: Effects, event: events.ShowRequested) -> None:
    """Have every editor show a place; one that comes later does not see it."""
    state.shown = event
    out.extend(Changed(client, SHOW) for client in sorted(state.editors))


def cancel_requested(state: State, out: Effects, event: events.CancelRequested) -> None:  # noqa: ARG001  # as all handlers
    """A client wants these units not to be compiled now."""
    cause = events.Cause("cancelled", event.at)
    for request in state.requests.values():
        if request.scope == event.scope and not request.check_only and request.awaits_asking:
            request.cancelled |= event.units
    state.unwanted.extend(Unwanted(event.scope, name, cause, pause=True) for name in sorted(event.units))


def client_lost(state: State, out: Effects, event: events.ClientLost) -> None:
    """Drop the client's requests, focus and view."""
    for request in [request for request in state.requests.values() if request.scope == event.client]:
        request_dropped(state, out, events.RequestDropped(request.name, at=event.at))
    before = state.focus.pop(event.client, None)
    if before is not None:
        out.append(Changed(events.MAIN, WORKSPACE))
    view = state.views.get(event.client)
    if view is not None and not view.leaving:
        drop_view(state, out, view, event.at)
    _unfocus(state, before, event.client, event.at)


def apply_demand(state: State, out: Effects) -> None:
    """Act on some of the units that a client wants, or does not want any more."""
    for _ in range(state.units_at_once):
        if not state.unwanted:
            break
        unwanted = state.unwanted.popleft()
        unit = state.seen(unwanted.scope, unwanted.unit)
        if unit is None:
            continue
        if unit.demand.force and not any(request.force for request in awaiting(state, unit)):
            unforce(state, out, unit)
        if not unwanted.pause and is_wanted(state, unit):
            want(state, out, unit, unwanted.cause)
        elif not (unwanted.spare and unit.phase is Phase.COMPILING):
            give_up(state, out, unit, unwanted.cause, pause=unwanted.pause)
    for _ in range(state.units_at_once):
        if not state.wants:
            break
        wanted = state.wants.popleft()
        unit = state.seen(wanted.scope, wanted.unit)
        if unit is not None:
            unit.demand.paused &= not wanted.anew
            want(state, out, unit, wanted.cause)
