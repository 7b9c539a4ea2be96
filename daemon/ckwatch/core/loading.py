"""Loads of the workspace: when to read it again, and which units are new, changed or removed afterwards.

Kernels that differ (`View.pending`) are taken over one after the other, their units (`View.taking`) a few at a time.
"""

from __future__ import annotations

from ckwatch.core.effects import Changed, Load
from ckwatch.core.events import MAIN, Cause, LoadedWorkspace, LoadFinished, UnitKey, WorkKind
from ckwatch.core.notify import reconsider, show
from ckwatch.core.state import Effects, Invalidation, State, UnitState, Unwanted, View, begin, stop
from ckwatch.core.units import create, difference, has_moved, remove, renew
from ckwatch.core.views import differs, follow_main
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.kernels import Unit


def request_load(state: State, out: Effects, scope: View, *, urgent: bool) -> None:
    """Read the workspace anew; once more when it is being read already. What can wait makes nobody else wait."""
    if scope.loading is not None:
        scope.load_again = bool(scope.load_again) or urgent
        if urgent and not scope.urgent:
            stop(state, out, scope.loading)
        return
    scope.loading = begin(state, WorkKind.LOAD, UnitKey(scope.name, ""))
    scope.urgent = urgent
    out.append(Load(scope.loading, dict(scope.overlays), scope.options, urgent))


def request_loads(state: State, out: Effects, *, urgent: bool) -> None:
    """Read the workspace anew for everybody."""
    for scope in (state.main, *state.views):
        request_load(state, out, scope, urgent=urgent)


def end_load(state: State, out: Effects, scope: View) -> None:
    """The scope's load has ended; begin another one if that was asked for."""
    scope.loading = None
    again, scope.load_again = scope.load_again, None
    if again is not None:
        request_load(state, out, scope, urgent=again)


def load_finished(state: State, out: Effects, event: LoadFinished) -> None:
    """Compare with what was there. A view's load is set aside while the workspace itself is being read."""
    scope = state.scopes.get(event.work.key.scope)
    if scope is None or scope.loading is not event.work:
        return
    end_load(state, out, scope)
    scope.problem = event.problem
    out.append(Changed(scope.name, "workspace"))
    if event.workspace is not None and scope.name != MAIN and state.main.loading is not None and state.main.urgent:
        scope.aside = event.workspace
    elif event.workspace is not None:
        _accept(state, out, scope, event.workspace, event.at)
    if scope.name == MAIN:
        accept_views(state, out, event.at)


def accept_views(state: State, out: Effects, at: float) -> None:
    """The workspace has been read: compare the views that waited for it."""
    for view in state.views:
        workspace, view.aside = view.aside, None
        if workspace is not None:
            _accept(state, out, view, workspace, at)


def _accept(state: State, out: Effects, scope: View, workspace: LoadedWorkspace, at: float) -> None:
    before, scope.workspace = scope.workspace, workspace
    if scope.name == MAIN:
        state.jobs = workspace.jobs
        state.passes_apart = workspace.passes_apart
        if state.benchmarks != workspace.benchmarks:
            state.benchmarks = workspace.benchmarks
            # What was edited before it was to be timed is timed now.
            state.settled.extend(unit.key for unit in state.main.units.values() if unit.edited or unit.to_measure)
        _build_everything(state, workspace.build_everything, at)
    _show_diagnostics(out, scope, workspace)
    known = before or state.main.workspace or workspace
    others = _settings(known) != _settings(workspace)
    if others:
        unread = [view for view in state.views if view.workspace is None] if scope.name == MAIN else []
        keys = [unit.key for one in (scope, *unread) for unit in one.units.values()]
        state.touch(keys, Invalidation(Cause("the settings or the compiler changed", at), recompile=True, edit=False))
    scope.found = {kernel.kernel.name: kernel for kernel in workspace.kernels}
    first = before is None
    gone = [name for name in scope.kernels if name not in scope.found]
    every = False
    if scope.name == MAIN and others:
        for view in state.views:
            request_load(state, out, view, urgent=True)
    elif scope.name != MAIN:
        theirs = state.main.workspace
        alike = theirs is None or _settings(theirs) == _settings(workspace)
        every = first or others or alike != scope.alike
        scope.alike = alike
    other = [name for name, new in scope.found.items() if every or scope.kernels.get(name) is not new]
    # What a later load says of a kernel replaces what an earlier one said.
    scope.pending = dict.fromkeys((*gone, *other, *(name for name in scope.pending if name in scope.kernels)))
    _start(state, out, scope, at)


def _build_everything(state: State, everything: bool, at: float) -> None:
    if everything == state.build_everything:
        return
    state.build_everything = everything
    keys = [unit.key for unit in state.all_units()]
    if everything:
        cause = Cause("every unit is to be built", at)
        state.wants.extend((*key, cause) for key in keys)
    else:
        cause = Cause("not every unit is to be built any more", at)
        state.unwanted.extend(Unwanted(*key, cause, spare=True) for key in keys)


def _settings(workspace: LoadedWorkspace) -> tuple[str, bool]:
    return (workspace.settings, workspace.toolchain_problem is None)


def take_over(state: State, out: Effects, at: float) -> None:
    """Take over some of what differs."""
    left = state.units_at_once
    for scope in (state.main, *state.views):
        if not left or not (scope.pending or scope.taking):
            continue
        while left > 0 and (scope.pending or scope.taking):
            if not scope.taking:
                _begin_kernel(state, scope, next(iter(scope.pending)))
                left -= 1
            else:
                name, unit = scope.taking.pop()
                _take(state, out, scope, name, unit, at)
                left -= 1
        _start(state, out, scope, at)
        out.append(Changed(scope.name, "workspace"))


def _begin_kernel(state: State, scope: View, name: str) -> None:
    del scope.pending[name]
    old, new = scope.kernels.get(name), scope.found.get(name)
    here = {} if new is None else {unit.id: unit for unit in new.units}
    gone = [unit.id for unit in (old.units if old else ()) if unit.id not in here]
    if new is None:
        scope.kernels.pop(name, None)
    else:
        scope.kernels[name] = new
    if scope.name == MAIN:
        for view in state.views:
            if name in view.kernels:
                view.pending[name] = None
    scope.taking = [*reversed(here.items()), *((name, None) for name in reversed(gone))]


def _start(state: State, out: Effects, scope: View, at: float) -> None:
    """Everything of the first load has been taken over."""
    if scope.started or scope.workspace is None or scope.pending or scope.taking:
        return
    # What a text made differ before the view was read, and is not in it.
    scope.taking = [(name, None) for name in scope.units if name not in scope.members]
    if scope.taking:
        return
    scope.started = True
    if scope.name == MAIN:
        return
    for name in [name for name in state.main.members if name not in scope.members]:
        # The client has seen the workspace's unit so far.
        out.append(Changed(scope.name, f"unit/{name}"))
        reconsider(state, out, name, at)


def _take(state: State, out: Effects, scope: View, name: str, unit: Unit | None, at: float) -> None:
    if unit is None:
        _take_away(state, out, scope, name, at)
        return
    if scope.started and name not in scope.members:
        out.append(Changed(scope.name, f"unit/{name}"))
    scope.members[name] = unit
    if scope.name == MAIN or differs(state, scope, unit):
        _take_unit(state, out, scope, unit, at)
    else:
        follow_main(state, out, scope, name, at)


def _take_away(state: State, out: Effects, scope: View, name: str, at: float) -> None:
    scope.members.pop(name, None)
    if scope.name == MAIN:
        for view in state.views:
            if view.started and name in view.members and name not in view.units:
                # What the client sees stays until its own view has been read anew.
                cause = Cause("no longer in the workspace", at)
                create(state, out, view, view.members[name], cause, edit=False, like=scope.units.get(name))
    if name in scope.units:
        remove(state, out, scope, name, at)
    else:
        out.append(Changed(scope.name, f"unit/{name}"))
        reconsider(state, out, name, at)


def _take_unit(state: State, out: Effects, scope: View, unit: Unit, at: float) -> None:
    known = scope.units.get(unit.id)
    if known is None:
        like = state.main.units.get(unit.id) if scope.name != MAIN else None
        what = "new in the workspace" if scope.name == MAIN else "an editor's text or options differ from the file"
        if like is not None:
            what = difference(like.unit, unit) or what
        # What is there from the start, or for another arch, was not written just now.
        edit = scope.started if scope.name == MAIN else like is not None or not scope.options.archs
        create(state, out, scope, unit, Cause(what, at), edit=edit, like=like)
        return
    old, known.unit = known.unit, unit
    if old is unit:
        return
    if scope.name == MAIN and old.kernel.shapes != unit.kernel.shapes:
        _take_shapes(state, out, known, old)
    other = difference(old, unit)
    if other is not None:
        flags = old.kernel.flags != unit.kernel.flags
        renew(state, out, known, Cause(other, at), recompile=flags, edit=True)
    elif has_moved(old, unit):
        if known.diagnostics or not known.settled:
            renew(state, out, known, Cause("its place in the kernel file moved", at), recompile=False, edit=False)
        else:
            show(out, known)


def _take_shapes(state: State, out: Effects, unit: UnitState, old: Unit) -> None:
    """A shape that has become another is not timed yet."""
    before = {shape.name: (shape.sizes, shape.runtime) for shape in old.kernel.shapes}
    now = {shape.name: (shape.sizes, shape.runtime) for shape in unit.unit.kernel.shapes}
    if before == now:
        return
    unit.timings = {name: timing for name, timing in unit.timings.items() if before.get(name) == now.get(name)}
    unit.edited = state.next()
    state.settled.append(unit.key)
    show(out, unit)


def _show_diagnostics(out: Effects, scope: View, workspace: LoadedWorkspace) -> None:
    by_file: dict[str, list[Diagnostic]] = {}
    for diagnostic in workspace.diagnostics:
        by_file.setdefault(diagnostic.span.path, []).append(diagnostic)
    new = {path: tuple(found) for path, found in by_file.items()}
    for path in new.keys() | scope.diagnostics.keys():
        if new.get(path) != scope.diagnostics.get(path):
            out.append(Changed(scope.name, f"file/{path}"))
    scope.diagnostics = new
