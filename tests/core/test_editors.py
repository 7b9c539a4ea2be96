"""Which clients are asked to show a place, and when."""

from __future__ import annotations

from ckwatch.core.effects import Changed
from ckwatch.core.events import MAIN, Continued, EditorsChanged, ShowRequested
from ckwatch.core.state import State
from ckwatch.core.step import step
from ckwatch.model.topics import Topic


def test_a_place_is_for_the_editors_that_are_there() -> None:
    state = State(root="/ws")
    step(state, Continued())
    first, second = ShowRequested("/ck/ck.hpp", 41, 3), ShowRequested("/ws/k.hip.j2", 0, 0)
    assert step(state, first) == ()
    both = EditorsChanged(frozenset({"vim", "code"}))
    assert step(state, both) == (Changed(MAIN, Topic("workspace")),)
    assert step(state, both) == ()
    assert step(state, second) == (Changed("code", Topic("show")), Changed("vim", Topic("show")))
    assert state.shown is second
    assert step(state, EditorsChanged(frozenset({"vim"}))) == (Changed(MAIN, Topic("workspace")),)
    assert step(state, first) == (Changed("vim", Topic("show")),)
