"""Demand: who wants a unit compiled, and with which priority."""

from __future__ import annotations

from ckwatch.core.events import MAIN, AutoBuild
from ckwatch.core.notify import awaiting
from ckwatch.core.state import Priority, State
from ckwatch.core.unit_state import UnitState

IN_FOCUS, REQUESTED, EDITED, OTHERS = range(4)
"""Ranks in a queue, the first first."""

DEVICE_PASS_LATER = 2
"""Added to the rank of units whose host pass is done."""


def priority(state: State, unit: UnitState) -> Priority:
    """The unit's place in a queue: in focus, requested, edited, the rest; the most recently edited first.

    Unless it is in focus or requested, its device pass comes after the host passes of all others.
    """
    if is_in_focus(state, unit):
        rank = IN_FOCUS
    elif awaiting(state, unit):
        rank = REQUESTED
    else:
        rank = (EDITED if unit.input.last_edit else OTHERS) + (DEVICE_PASS_LATER if unit.compile.host_pass_done else 0)
    return (rank, -unit.input.last_edit, state.next())


def is_in_focus(state: State, unit: UnitState) -> bool:
    """Return True if this state of the unit is in a client's focus."""
    name = unit.key.unit
    return any(name in focus.units and state.seen(client, name) is unit for client, focus in state.focus.items())


def is_awaited(state: State, unit: UnitState) -> bool:
    """Return True if a client waits for this state of the unit, or shows it: its compilers make way for nothing."""
    name = unit.key.unit
    return any(not request.check_only for request in awaiting(state, unit)) or any(
        (focus.everything or name in focus.units) and state.seen(client, name) is unit
        for client, focus in state.focus.items()
    )


def wants_lines(state: State, unit: UnitState) -> bool:
    """Return True if a client shows the unit, or has asked for the source lines of its code."""
    return is_in_focus(state, unit) or any(request.lines for request in awaiting(state, unit))


def auto_build_of(state: State, unit: UnitState) -> AutoBuild:
    """Which units of the unit's view are compiled without a request.

    `edits_unwatched` decides of a client that looks at nothing, and of the workspace while no client looks at anything.
    """
    focus = state.focus.get(unit.key.scope)
    if focus is not None:
        return focus.auto_build
    watched = unit.key.scope == MAIN and (state.focus or state.build_everything)
    return AutoBuild.EDITED if watched or state.edits_unwatched else AutoBuild.NONE


def is_wanted(state: State, unit: UnitState) -> bool:
    """Return True if the unit is to be compiled when the store does not have it."""
    if unit.demand.wanted or unit.demand.force or any(not request.check_only for request in awaiting(state, unit)):
        return True
    if unit.demand.paused or auto_build_of(state, unit) is AutoBuild.NONE:
        return False
    name = unit.key.unit
    return state.build_everything or any(
        (focus.everything or name in focus.units) and state.seen(client, name) is unit
        for client, focus in state.focus.items()
    )
