"""Demand: who wants a unit compiled, and with which priority."""

from __future__ import annotations

from ckwatch.core.events import AutoBuild
from ckwatch.core.notify import awaiting
from ckwatch.core.state import Priority, State
from ckwatch.core.unit_state import UnitState

IN_FOCUS, ASKED_FOR, EDITED, OTHERS = range(4)
CHECKED_LATER = 2
"""Ranks in a queue."""


def priority(state: State, unit: UnitState) -> Priority:
    """Where the unit stands in a queue: looked at, asked for, edited, the rest; the most recently edited first.

    Nobody waits for the device pass of those that follow: all host passes come first.
    """
    if is_in_focus(state, unit):
        rank = IN_FOCUS
    elif awaiting(state, unit):
        rank = ASKED_FOR
    else:
        rank = (EDITED if unit.input.last_edit else OTHERS) + (CHECKED_LATER if unit.compile.host_pass_done else 0)
    return (rank, -unit.input.last_edit, state.next())


def is_in_focus(state: State, unit: UnitState) -> bool:
    """Whether a client looks at this state of the unit."""
    name = unit.key.unit
    return any(name in focus.units and state.seen(client, name) is unit for client, focus in state.focus.items())


def auto_build_of(state: State, unit: UnitState) -> AutoBuild:
    """Which units of the client's own view are compiled unasked; of the workspace all that were edited."""
    focus = state.focus.get(unit.key.scope)
    return AutoBuild.EDITED if focus is None else focus.auto_build


def is_wanted(state: State, unit: UnitState) -> bool:
    """Whether to compile the unit when the store does not have it."""
    if unit.demand.wanted or unit.demand.force or any(not request.check_only for request in awaiting(state, unit)):
        return True
    if unit.demand.paused or auto_build_of(state, unit) is AutoBuild.NONE:
        return False
    name = unit.key.unit
    return state.build_everything or any(
        (focus.everything or name in focus.units) and state.seen(client, name) is unit
        for client, focus in state.focus.items()
    )
