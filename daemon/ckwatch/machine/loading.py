"""Taking over what a load of the workspace found: which units are new, other, or no more."""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.events import MAIN, Cause, Changed, KernelUnits, Load, Loaded, LoadedWorkspace, UnitKey, WorkKind
from ckwatch.machine.state import Scope, State, Touch
from ckwatch.machine.units import Effects, begin, create, reconsider, remove, renew, show
from ckwatch.model.diagnostic import Diagnostic
from ckwatch.model.kernel import Unit

KERNELS_AT_ONCE = 20
"""Kernels that one step takes over."""


def request_load(state: State, out: Effects, scope: Scope, *, urgent: bool) -> None:
    """Read the workspace anew; once more when it is being read already."""
    if scope.loading is not None:
        scope.load_again = bool(scope.load_again) or urgent
        return
    scope.loading = begin(state, WorkKind.LOAD, UnitKey(scope.name, ""))
    out.append(Load(scope.loading, dict(scope.overlays), scope.options, urgent))


def request_loads(state: State, out: Effects, *, urgent: bool) -> None:
    """Read the workspace anew for everybody."""
    for scope in state.scopes.values():
        request_load(state, out, scope, urgent=urgent)


def end_load(state: State, out: Effects, scope: Scope) -> bool:
    """The scope's load has ended; whether what it found is still of interest."""
    scope.loading = None
    again, scope.load_again = scope.load_again, None
    if again is not None:
        request_load(state, out, scope, urgent=again)
    return again is None


def loaded(state: State, out: Effects, event: Loaded) -> None:
    """Compare with what was there; kernels that differ are taken over a few at a time."""
    scope = state.scopes.get(event.work.key.scope)
    if scope is None or scope.loading is not event.work or not end_load(state, out, scope):
        return
    scope.problem = event.problem
    out.append(Changed(scope.name, "workspace"))
    workspace = event.workspace
    if workspace is None:
        return
    before = scope.workspace
    scope.workspace = workspace
    if scope.name == MAIN:
        state.jobs = workspace.jobs
        if workspace.build_everything and not state.build_everything:
            cause = Cause("every unit is to be built", event.at)
            state.wants.extend((unit.key, cause) for unit in scope.units.values())
        state.build_everything = workspace.build_everything
    _show_diagnostics(out, scope, workspace)
    found = {kernel.kernel.name: kernel for kernel in workspace.kernels}
    if before is not None and before.settings != workspace.settings:
        cause = Cause("the settings or the compiler changed", event.at)
        for unit in scope.units.values():
            state.touched[unit.key] = Touch(cause, recompile=True, edit=False)
    gone: list[tuple[str, KernelUnits | None]] = [(name, None) for name in scope.kernels if name not in found]
    first = scope.name != MAIN
    other = [(name, new) for name, new in found.items() if first or scope.kernels.get(name) is not new]
    # What a later load says of a kernel replaces what an earlier one said.
    scope.pending = [*gone, *other]
    scope.started = scope.started or not scope.pending


def take_kernels(state: State, out: Effects, scope: Scope, at: float) -> None:
    """Take over some of the kernels that differ."""
    now, scope.pending = scope.pending[:KERNELS_AT_ONCE], scope.pending[KERNELS_AT_ONCE:]
    for name, kernel in now:
        _take_kernel(state, out, scope, name, kernel, at)
    scope.started = scope.started or not scope.pending
    out.append(Changed(scope.name, "workspace"))


def _take_kernel(state: State, out: Effects, scope: Scope, name: str, new: KernelUnits | None, at: float) -> None:
    old = scope.kernels.get(name)
    units = {} if new is None else {unit.id: unit for unit in new.units}
    for unit in old.units if old else ():
        if unit.id not in units:
            _take_away(state, out, scope, unit, at)
    if new is None:
        del scope.kernels[name]
    else:
        scope.kernels[name] = new
    for unit in units.values():
        scope.members[unit.id] = unit
        if scope.name == MAIN or differs(state, scope, unit):
            _take_unit(state, out, scope, unit, at)
        else:
            follow_main(state, out, scope, unit.id)


def _take_away(state: State, out: Effects, scope: Scope, unit: Unit, at: float) -> None:
    del scope.members[unit.id]
    if scope.name == MAIN:
        for view in state.scopes.values():
            if view.name != MAIN and unit.id in view.members and unit.id not in view.units:
                # What the client sees stays until its own view has been read anew.
                cause = Cause("no longer in the workspace", at)
                create(state, out, view, view.members[unit.id], cause, like=scope.units.get(unit.id))
    if unit.id in scope.units:
        remove(state, out, scope, unit.id)
    else:
        out.append(Changed(scope.name, f"unit/{unit.id}"))
        reconsider(state, out, unit.id)


def differs(state: State, view: Scope, unit: Unit) -> bool:
    """Whether a client sees another unit than the workspace has: the kernel file, the options or a text read differ."""
    main = state.main.units.get(unit.id)
    options = view.options
    if main is None or not options.rules or options.header_warnings is not None:
        return True
    key = main.key if main.render is not None else None
    if key is not None and state.graph.depends_on(key, view.overlays):
        return True
    if main.unit is not unit and main.unit != unit:
        return True
    own = view.units.get(unit.id)
    return own is not None and state.graph.depends_on(own.key, view.overlays)


def follow_main(state: State, out: Effects, view: Scope, name: str) -> None:
    """The client sees the workspace's unit from now on."""
    if name in view.units:
        remove(state, out, view, name)
    else:
        reconsider(state, out, name)


def _take_unit(state: State, out: Effects, scope: Scope, unit: Unit, at: float) -> None:
    known = scope.units.get(unit.id)
    if known is None:
        like = state.main.units.get(unit.id) if scope.name != MAIN else None
        what = "new in the workspace" if scope.name == MAIN else "an editor's text or options differ from the file"
        if like is not None:
            what = _difference(like.unit, unit) or what
        create(state, out, scope, unit, Cause(what, at), like=like)
        if like is not None or scope.started:
            created = scope.units[unit.id]
            created.wanted = True
            created.edited = state.next()
        return
    old = known.unit
    if old is unit or old == unit:
        known.unit = unit
        return
    known.unit = unit
    difference = _difference(old, unit)
    if difference is not None:
        flags = old.kernel.flags != unit.kernel.flags
        renew(state, out, known, Cause(difference, at), recompile=flags, edit=True)
    elif known.diagnostics or not known.settled:
        renew(state, out, known, Cause("its place in the kernel file moved", at), recompile=False, edit=False)
    else:
        show(out, known)


def _difference(old: Unit, new: Unit) -> str | None:
    """What makes `new` another input than `old`; None when only places in the kernel file differ."""
    file = new.kernel.path.rsplit("/", 1)[-1]
    changes = _changes(old.instance.parameters, new.instance.parameters)
    if changes:
        return f"{file}: {changes}"
    if old.kernel.template != new.kernel.template:
        return f"{file}: template {old.kernel.template} → {new.kernel.template}"
    if old.kernel.operation != new.kernel.operation:
        return f"{file}: the operation changed"
    if old.kernel.flags != new.kernel.flags:
        return f"{file}: the flags changed"
    return None


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, '(none)')} → {new.get(name, '(none)')}" for name in names)


def _show_diagnostics(out: Effects, scope: Scope, workspace: LoadedWorkspace) -> None:
    by_file: dict[str, list[Diagnostic]] = {}
    for diagnostic in workspace.diagnostics:
        by_file.setdefault(diagnostic.span.path, []).append(diagnostic)
    new = {path: tuple(found) for path, found in by_file.items()}
    for path in new.keys() | scope.diagnostics.keys():
        if new.get(path) != scope.diagnostics.get(path):
            out.append(Changed(scope.name, f"file/{path}"))
    scope.diagnostics = new


def drop_view(state: State, out: Effects, view: Scope) -> None:
    """The client has no view of its own any more."""
    own = list(view.units)
    for name in own:
        remove(state, out, view, name)
    out.extend(Changed(view.name, f"file/{path}") for path in view.diagnostics)
    members = {name for name in view.members if name not in state.main.members}
    out.extend(
        Changed(view.name, f"unit/{name}") for name in members ^ (state.main.members.keys() - view.members.keys())
    )
    del state.scopes[view.name]
    for name in [*own, *(members & state.waiting.keys())]:
        reconsider(state, out, name)


def unused(view: Scope) -> bool:
    """Whether a view is like the workspace."""
    options = view.options
    return not view.overlays and not options.archs and options.rules and options.header_warnings is None
