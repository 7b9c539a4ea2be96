"""Loads of the workspace: when to load it again, and which units are new, changed or removed afterwards.

Kernels that differ (`View.pending`) are taken over one after the other, their units (`View.taking`) a few at a time.
"""

from __future__ import annotations

from ckwatch.core import advice_schedule, toolchain_schedule, verification_schedule
from ckwatch.core.effects import Changed, Load
from ckwatch.core.events import MAIN, Cause, LoadedWorkspace, LoadFinished, UnitKey, WorkKind
from ckwatch.core.notify import HEADERS_TOPIC, publish, reconsider
from ckwatch.core.state import Effects, Invalidation, State, Unwanted, View, Wanted, begin, stop
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import create, difference, has_moved, remove, renew
from ckwatch.core.views import differs, follow_rendered
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.kernels import Unit
from ckwatch.model.topics import WORKSPACE, Topic


def request_load(state: State, out: Effects, view: View, *, urgent: bool) -> None:
    """Load the workspace for the view; once more when a load is running. Nobody waits for one that is not urgent."""
    if view.loading is not None:
        view.load_again = bool(view.load_again) or urgent
        if urgent and not view.urgent:
            stop(state, out, view.loading)
        return
    view.loading = begin(state, WorkKind.LOAD, UnitKey(view.name, ""))
    view.urgent = urgent
    out.append(Load(view.loading, dict(view.overlays), view.options, urgent))


def request_loads(state: State, out: Effects, *, urgent: bool) -> None:
    """Load the workspace for every view."""
    for view in (state.main, *state.client_views):
        request_load(state, out, view, urgent=urgent)


def end_load(state: State, out: Effects, view: View) -> None:
    """The view's load has ended; begin another one if that was requested."""
    view.loading = None
    again, view.load_again = view.load_again, None
    if again is not None:
        request_load(state, out, view, urgent=again)


def load_finished(state: State, out: Effects, event: LoadFinished) -> None:
    """Compare with what was there. A client's load is set aside while the workspace itself is being read."""
    view = state.views.get(event.work.key.scope)
    if view is None or view.loading is not event.work:
        return
    end_load(state, out, view)
    view.problem = event.problem
    out.append(Changed(view.name, WORKSPACE))
    if event.workspace is not None and view.name != MAIN and state.main.loading is not None and state.main.urgent:
        view.aside = event.workspace
    elif event.workspace is not None:
        _accept(state, out, view, event.workspace, event.at)
    if view.name == MAIN:
        accept_views(state, out, event.at)


def accept_views(state: State, out: Effects, at: float) -> None:
    """The workspace has been loaded: compare the views that waited for it."""
    for client_view in state.client_views:
        workspace, client_view.aside = client_view.aside, None
        if workspace is not None:
            _accept(state, out, client_view, workspace, at)


def _accept(state: State, out: Effects, view: View, workspace: LoadedWorkspace, at: float) -> None:
    before, view.workspace = view.workspace, workspace
    if view.name == MAIN:
        state.jobs = workspace.jobs
        state.passes_apart = workspace.passes_apart
        if state.benchmarks != workspace.benchmarks:
            state.benchmarks = workspace.benchmarks
            # Units that were edited before are timed from now on.
            state.newly_settled.extend(
                unit.key for unit in state.main.units.values() if unit.input.last_edit or unit.timing.requested
            )
        _take_policies(state, out, workspace)
        state.edits_unwatched = workspace.edits_unwatched
        _build_everything(state, workspace.build_everything, at)
    _show_diagnostics(out, view, workspace)
    known = before or state.main.workspace or workspace
    others = _settings(known) != _settings(workspace)
    if others:
        unread = [other for other in state.client_views if other.workspace is None]
        affected = (view, *unread) if view.name == MAIN else (view,)
        keys = [unit.key for one in affected for unit in one.units.values()]
        cause = Cause("the settings or the compiler changed", at)
        state.invalidate(keys, Invalidation(cause, recompile=True, edit=False))
        if view.name == MAIN and state.warnings.pop(HEADERS_TOPIC, None) is not None:
            out.append(Changed(MAIN, WORKSPACE))
    view.found = {kernel.kernel.name: kernel for kernel in workspace.kernels}
    first = before is None
    gone = [name for name in view.kernels if name not in view.found]
    every = False
    if view.name == MAIN and others:
        for client_view in state.client_views:
            request_load(state, out, client_view, urgent=True)
    elif view.name != MAIN:
        theirs = state.main.workspace
        alike = theirs is None or _settings(theirs) == _settings(workspace)
        every = first or others or alike != view.alike
        view.alike = alike
    other = [name for name, new in view.found.items() if every or view.kernels.get(name) is not new]
    if view.name == MAIN and not first:
        state.files_changed += len(gone) + len(other)
    # Of each kernel, the last load counts.
    view.pending = dict.fromkeys((*gone, *other, *(name for name in view.pending if name in view.kernels)))
    _start(state, out, view, at)


def _take_policies(state: State, out: Effects, workspace: LoadedWorkspace) -> None:
    """Take over what is to be done with units that are compiled."""
    if state.verification != workspace.verification:
        state.verification = workspace.verification
        for unit in state.main.units.values():
            verification_schedule.consider(state, out, unit)
    if state.advice != workspace.advice:
        state.advice = workspace.advice
        for unit in state.main.units.values():
            advice_schedule.consider(state, unit)
    if state.toolchains != workspace.toolchains:
        state.toolchains = workspace.toolchains
        for unit in state.main.units.values():
            known = unit.toolchains.results
            toolchain_schedule.consider(state, unit)
            if known:
                publish(out, unit)


def _build_everything(state: State, everything: bool, at: float) -> None:
    if everything == state.build_everything:
        return
    state.build_everything = everything
    keys = [unit.key for unit in state.all_units()]
    if everything:
        cause = Cause('[daemon] build = "everything"', at)
        state.wants.extend(Wanted(*key, cause) for key in keys)
    else:
        cause = Cause('[daemon] build = "wanted"', at)
        state.unwanted.extend(Unwanted(*key, cause, spare=True) for key in keys)


def _settings(workspace: LoadedWorkspace) -> tuple[str, bool]:
    return (workspace.settings, workspace.toolchain_problem is None)


def take_over(state: State, out: Effects, at: float) -> None:
    """Take over some of what differs."""
    left = state.units_at_once
    for view in (state.main, *state.client_views):
        if not left or not (view.pending or view.taking):
            continue
        while left > 0 and (view.pending or view.taking):
            if not view.taking:
                _begin_kernel(state, out, view, next(iter(view.pending)))
                left -= 1
            else:
                name, unit = view.taking.pop()
                _take(state, out, view, name, unit, at)
                left -= 1
        if not (view.pending or view.taking):
            _order_as_in_files(view)
        _start(state, out, view, at)
        out.append(Changed(view.name, WORKSPACE))


def _order_as_in_files(view: View) -> None:
    """Restore the order of the files: units that were added last may stand first."""
    members = {unit.id: unit for kernel in view.found.values() for unit in kernel.units if unit.id in view.members}
    if members.keys() == view.members.keys():
        view.members = {name: view.members[name] for name in members}
        view.units = {name: view.units[name] for name in {**members, **view.units} if name in view.units}


def _begin_kernel(state: State, out: Effects, view: View, name: str) -> None:
    del view.pending[name]
    old, new = view.kernels.get(name), view.found.get(name)
    here = {} if new is None else {unit.id: unit for unit in new.units}
    gone = [unit.id for unit in (old.units if old else ()) if unit.id not in here]
    if new is None:
        view.kernels.pop(name, None)
    else:
        view.kernels[name] = new
        if new is not old and new.kernel.shapes:
            out.append(Changed(view.name, Topic.file(new.kernel.path)))  # instances may refuse others of its shapes
    if view.name == MAIN:
        for client_view in state.client_views:
            if name in client_view.kernels:
                client_view.pending[name] = None
    view.taking = [*reversed(here.items()), *((name, None) for name in reversed(gone))]


def _start(state: State, out: Effects, view: View, at: float) -> None:
    """Note that the first load has been taken over, when it has."""
    if view.started or view.workspace is None or view.pending or view.taking:
        return
    # States that an unsaved text led to before the view was loaded, of units that it does not have.
    view.taking = [(name, None) for name in view.units if name not in view.members]
    if view.taking:
        return
    view.started = True
    if view.name == MAIN:
        return
    for name in [name for name in state.main.members if name not in view.members]:
        # The client has seen the workspace's unit so far.
        out.append(Changed(view.name, Topic.unit(name)))
        reconsider(state, out, name, at)


def _take(state: State, out: Effects, view: View, name: str, unit: Unit | None, at: float) -> None:
    if unit is None:
        _take_away(state, out, view, name, at)
        return
    if view.started and name not in view.members:
        out.append(Changed(view.name, Topic.unit(name)))
    view.members[name] = unit
    if view.name == MAIN or differs(state, view, unit):
        _take_unit(state, out, view, unit, at)
    else:
        follow_rendered(state, out, view, name, at)


def _take_away(state: State, out: Effects, view: View, name: str, at: float) -> None:
    view.members.pop(name, None)
    if view.name == MAIN:
        for client_view in state.client_views:
            if client_view.started and name in client_view.members and name not in client_view.units:
                # What the client sees stays until its own view has been loaded again.
                cause = Cause("no longer in the workspace", at)
                create(state, out, client_view, client_view.members[name], cause, edit=False, main=view.units.get(name))
    if name in view.units:
        remove(state, out, view, name, at)
    else:
        out.append(Changed(view.name, Topic.unit(name)))
        reconsider(state, out, name, at)


def _take_unit(state: State, out: Effects, view: View, unit: Unit, at: float) -> None:
    known = view.units.get(unit.id)
    if known is None:
        main = state.main.units.get(unit.id) if view.name != MAIN else None
        what = "new in the workspace" if view.name == MAIN else "unsaved text or options differ from the file"
        if main is not None:
            what = difference(main.unit, unit) or what
        # Units from the first load, or for another arch, were not written just now.
        edit = view.started if view.name == MAIN else main is not None or not view.options.archs
        create(state, out, view, unit, Cause(what, at), edit=edit, main=main)
        return
    old, known.unit = known.unit, unit
    if old is unit:
        return
    if view.name == MAIN and old.kernel.shapes != unit.kernel.shapes:
        _take_shapes(state, out, known, old)
    if view.name == MAIN and _is_compared_otherwise(old, unit):
        _take_reference(state, out, known)
    other = difference(old, unit)
    if other is not None:
        flags = old.kernel.flags != unit.kernel.flags
        renew(state, out, known, Cause(other, at), recompile=flags, edit=True)
    elif has_moved(old, unit):
        if known.diagnostics or not known.settled:
            renew(state, out, known, Cause("it moved in the kernel file", at), recompile=False, edit=False)
        else:
            publish(out, known)


def _take_shapes(state: State, out: Effects, unit: UnitState, old: Unit) -> None:
    """Drop the timings of shapes that changed."""
    before = {shape.name: (shape.sizes, shape.runtime) for shape in old.kernel.shapes}
    now = {shape.name: (shape.sizes, shape.runtime) for shape in unit.unit.kernel.shapes}
    if before == now:
        return
    unit.timing.by_shape = {
        name: timing for name, timing in unit.timing.by_shape.items() if before.get(name) == now.get(name)
    }
    unit.input.last_edit = state.next()
    state.newly_settled.append(unit.key)
    verification_schedule.consider(state, out, unit)
    publish(out, unit)


def _is_compared_otherwise(old: Unit, new: Unit) -> bool:
    before, now = old.kernel.operation, new.kernel.operation
    return (before.reference, before.comparisons) != (now.reference, now.comparisons)


def _take_reference(state: State, out: Effects, unit: UnitState) -> None:
    """Drop the timings, whose results were compared with another reference or otherwise."""
    unit.timing.by_shape = {}
    unit.timing.mistakes = ()
    unit.input.last_edit = state.next()
    state.newly_settled.append(unit.key)
    verification_schedule.consider(state, out, unit)
    publish(out, unit)


def _show_diagnostics(out: Effects, view: View, workspace: LoadedWorkspace) -> None:
    by_file: dict[str, list[Diagnostic]] = {}
    for diagnostic in workspace.diagnostics:
        by_file.setdefault(diagnostic.span.path, []).append(diagnostic)
    new = {path: tuple(found) for path, found in by_file.items()}
    for path in new.keys() | view.diagnostics.keys():
        if new.get(path) != view.diagnostics.get(path):
            out.append(Changed(view.name, Topic.file(path)))
    view.diagnostics = new
