"""After each step of a daemon its state is checked, and that no unit's task is begun anew for nothing new."""

from __future__ import annotations

from collections import defaultdict

import pytest

from ckwatch.core.effects import Effect
from ckwatch.core.events import AnyEvent
from ckwatch.core.state import State
from ckwatch.core.step import step
from ckwatch.engine import loop
from core.invariants import ProgressCheck, check_invariants


@pytest.fixture(autouse=True)
def checked_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon whose step leads to a contradiction ends with an InvalidStateError."""
    progress: dict[int, ProgressCheck] = defaultdict(ProgressCheck)

    def checked_step(state: State, event: AnyEvent) -> tuple[Effect, ...]:
        effects = step(state, event)
        check_invariants(state)
        progress[id(state)].follow(state, event, effects)
        return effects

    monkeypatch.setattr(loop, "step", checked_step)
