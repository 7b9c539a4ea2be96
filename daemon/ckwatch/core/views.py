"""Client views: the units that a client sees differently from the workspace on disk.

A view is compared with the workspace unit by unit: whenever an unsaved text changes or is dropped, a kernel changes on
either side, or a render shows that a unit reads an unsaved text. Only where they differ has the view a state of its
own.
"""

from __future__ import annotations

from ckwatch.core.effects import Changed
from ckwatch.core.events import MAIN, Cause, ViewOverrides
from ckwatch.core.notify import notify_checked, publish, reconsider
from ckwatch.core.phases import Phase, move
from ckwatch.core.state import Effects, State, View, Wanted, stop
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import compiles_alike, create, difference, has_moved, remove, renew
from ckwatch.model.kernels import Unit
from ckwatch.model.topics import Topic


def differs(state: State, view: View, unit: Unit) -> bool:
    """Return True if a client's unit differs from the workspace's: by the kernel file, the options, the settings or a
    text that it reads."""
    main = state.main.units.get(unit.id)
    options = view.options
    if main is None or not view.alike or not options.rules or options.header_warnings is not None:
        return True
    if main.unit is not unit and (difference(main.unit, unit) is not None or has_moved(main.unit, unit)):
        return True
    # Two renders of equal units part ways at the first file that both read with different contents.
    return state.graph.differs(main.key, view.digests)


def compare(state: State, out: Effects, view: View, name: str, cause: Cause) -> None:
    """Give the view a state of its own, let it follow the workspace's, or renew its own."""
    main, own = state.main.units.get(name), view.units.get(name)
    unit = view.members.get(name) if view.started else own.unit if own else main.unit if main else None
    if unit is None:
        return
    if not differs(state, view, unit):
        follow_rendered(state, out, view, name, cause.at)
    elif own is not None:
        renew(state, out, own, cause, recompile=False, edit=True)
    else:
        create(state, out, view, unit, cause, edit=True, main=main)


def part_views(state: State, out: Effects, unit: UnitState, at: float) -> None:
    """A unit of the workspace has been rendered: give views whose unsaved texts it reads a state of their own."""
    name = unit.key.unit
    if unit.key.scope != MAIN:
        return
    for view in state.client_views:
        if name in view.units or (view.started and name not in view.members):
            continue
        seen = view.members.get(name, unit.unit)
        if differs(state, view, seen):
            cause = Cause("it reads a file with unsaved text", at)
            create(state, out, view, seen, cause, edit=True, main=unit)


def join_views(state: State, out: Effects, unit: UnitState, at: float) -> None:
    """A unit has been rendered, in the workspace or in a view: views in which it no longer differs follow."""
    name = unit.key.unit
    main = state.main.units.get(name)
    if main is None or main.unrendered:
        return  # compared after its render
    for view in state.client_views:
        own = view.units.get(name)
        if own is not None and (unit is own or unit is main) and view.started and not differs(state, view, own.unit):
            follow_main(state, out, view, name, at)


def follow_rendered(state: State, out: Effects, view: View, name: str, at: float) -> None:
    """The client sees the workspace's unit from now on; after its next render if a compiler may go on for it then."""
    own, main = view.units.get(name), state.main.units.get(name)
    compiles = own is not None and own.compile.compiler is not None
    if compiles and view.started and main is not None and main.unrendered:
        return  # `join_views` comes then
    follow_main(state, out, view, name, at)


def follow_main(state: State, out: Effects, view: View, name: str, at: float) -> None:
    """The client sees the workspace's unit from now on."""
    own, main = view.units.get(name), state.main.units.get(name)
    if own is None:
        reconsider(state, out, name, at)
        return
    if main is not None and view.workspace is not None and compiles_alike(state, view, main.unit, own.unit):
        _hand_over(state, out, own, main, at)
    remove(state, out, view, name, at)
    if main is not None:
        out.extend(Changed(view.name, Topic.file(path)) for path in sorted(main.published_files - own.published_files))
    if view.name in state.focus:
        state.wants.append(Wanted(view.name, name, Cause("opened in an editor", at)))


def _hand_over(state: State, out: Effects, own: UnitState, main: UnitState, at: float) -> None:
    """The compiler of an unsaved text goes on for the saved one."""
    work, render = own.compile.compiler, main.render.facts
    if work is None or render is None or main.phase not in (Phase.LOOKING, Phase.QUEUED) or main.demand.force:
        return
    if own.phase is not Phase.COMPILING or work.tokens != render.tokens:
        return
    own.compile.compiler = None
    stop(state, out, main.compile.look_up)
    main.compile.look_up = None
    state.look_queue.remove(main.key)
    state.compile_queue.remove(main.key)
    state.adopted[work.number] = main.key
    main.compile.compiler = work
    move(main, Phase.COMPILING)
    main.cause = Cause("its unsaved text was saved: the compiler goes on", at, main.cause)
    publish(out, main)
    notify_checked(state, out, main)


def compare_some(state: State, out: Effects, at: float) -> None:
    """Compare some of the units that may differ, and clear away some of what views have left."""
    for _ in range(state.units_at_once):
        if not state.compares:
            break
        name, unit, cause = state.compares.popleft()
        view = state.views.get(name)
        if view is not None and not view.leaving:
            compare(state, out, view, unit, cause)
    for view in [scope for scope in state.views.values() if scope.leaving]:
        for unit in list(view.units)[: state.units_at_once]:
            follow_main(state, out, view, unit, at)
        if not view.units:
            del state.views[view.name]


def drop_view(state: State, out: Effects, view: View, at: float) -> None:
    """The client sees the workspace as it is on disk."""
    stop(state, out, view.loading)
    for work in list(state.running.values()):
        if work.key.scope == view.name and work.key.unit in view.units and work.number not in state.cancelled:
            follow_main(state, out, view, work.key.unit, at)
    out.extend(Changed(view.name, Topic.file(path)) for path in view.diagnostics)
    ours, theirs = state.members(view.name), state.main.members
    others = [name for name in {**ours, **theirs} if (name in ours) != (name in theirs) and name not in view.units]
    out.extend(Changed(view.name, Topic.unit(name)) for name in others)
    view.leaving, view.alike = True, True
    view.overlays, view.digests, view.changed_at, view.options = {}, {}, {}, ViewOverrides()
    view.workspace, view.problem, view.diagnostics, view.aside = None, None, {}, None
    view.kernels, view.found, view.members, view.started = {}, {}, {}, False
    view.loading, view.load_again, view.pending, view.taking = None, None, {}, []
    for name in others:
        reconsider(state, out, name, at)


def new_view(state: State, out: Effects, client: str, at: float) -> View:
    """The client's view; what is left of an earlier one is compared anew."""
    view = state.views.get(client)
    if view is None:
        view = state.views[client] = View(client)
    elif view.leaving:
        view.leaving = False
        for unit in list(view.units.values()):
            out.append(Changed(client, Topic.unit(unit.key.unit)))
            state.compares.append((client, unit.key.unit, Cause("edited in an editor again", at)))
    return view
