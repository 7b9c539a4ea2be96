"""When to read the workspace anew."""

from __future__ import annotations

from ckwatch.effects import Load
from ckwatch.events import UnitKey, WorkKind
from ckwatch.machine.state import Effects, Scope, State
from ckwatch.machine.tasks import begin, stop


def request_load(state: State, out: Effects, scope: Scope, *, urgent: bool) -> None:
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


def end_load(state: State, out: Effects, scope: Scope) -> None:
    """The scope's load has ended; begin another one if that was asked for."""
    scope.loading = None
    again, scope.load_again = scope.load_again, None
    if again is not None:
        request_load(state, out, scope, urgent=again)
