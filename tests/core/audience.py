"""Messages that clients have received: topics as they were when a change was published, and answers to requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from ckwatch.core.effects import Changed, Notify
from ckwatch.core.events import MAIN, BuildRequested
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState

CLIENTS = ("ann", "bob")


@dataclass(slots=True)
class Asked:
    """A request as its maker sees it. `version` is the disk's and `order` the machine's when it was made."""

    event: BuildRequested
    version: int
    order: int
    answers: dict[str, str | None] = field(default_factory=dict)
    done: bool = False


class Audience:
    """Everybody who listens, from the beginning on."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.requests: dict[str, Asked] = {}
        self.units: dict[str, dict[str, object]] = {client: {} for client in (MAIN, *CLIENTS)}
        self.files: dict[tuple[str, str], object] = {}

    def changed(self, change: Changed) -> None:
        """A topic changed: its followers fetch it."""
        kind, _, name = change.topic.partition("/")
        if kind == "unit":
            for client in self.units if change.scope == MAIN else self.units.keys() & {change.scope}:
                self.units[client][name] = visible(self.state.seen(client, name))
        if kind == "file":
            self.files[change.scope, name] = self._file(change.scope, name)

    def answered(self, line: Notify) -> Asked:
        """A line of the answer to a request: each unit once, then the end once."""
        asked = self.requests[line.request]
        assert not asked.done, f"{line} after the end"
        if line.unit is None:
            asked.done = True
        else:
            assert line.unit not in asked.answers, f"{line} twice"
            asked.answers[line.unit] = line.problem
        return asked

    def verify(self) -> None:
        """Check that clients show what was published."""
        for client, units in self.units.items():
            for name in {*self.state.main.members, *self.state.members(client), *units}:
                now = visible(self.state.seen(client, name))
                assert units.get(name) == now, f"{client or 'main'} was not notified of {name}"
        for scope in self.state.views.values():
            paths = {*scope.diagnostics, *(one.span.path for unit in scope.units.values() for one in unit.diagnostics)}
            for path in paths | {path for name, path in self.files if name == scope.name}:
                known = self.files.get((scope.name, path), ((), {}))
                assert known == self._file(scope.name, path), f"{path} was not published"

    def _file(self, scope: str, path: str) -> object:
        known = self.state.views.get(scope)
        if known is None:
            return ((), {})
        units = {
            name: [diagnostic for diagnostic in unit.diagnostics if diagnostic.span.path == path]
            for name, unit in known.units.items()
        }
        return (known.diagnostics.get(path, ()), {name: found for name, found in units.items() if found})


def visible(unit: UnitState | None) -> object:
    """Return a client's view of a unit, diagnostics included."""
    if unit is None:
        return None
    timed = (
        unit.timing.by_shape,
        unit.timing.work is not None,
        frozenset(unit.timing.requested),
        unit.timing.untimed_because,
        (unit.verification.latest, unit.verification.request, unit.verification.unverified_because),
    )
    shown = (unit.diagnostics, unit.cause, unit.unit.instance.span, unit.figures.latest)
    return (unit.phase, unit.settled, unit.outcome, shown, timed)
