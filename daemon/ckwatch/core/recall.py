"""Takes over results that are remembered and hold for the files as they are: when a daemon starts, and when many files
have changed at once, as a checkout of another branch changes them.

A unit whose result holds goes from WAITING to DONE without a render and without a look-up in the store. Any doubt
leaves it to them: another input, a request to compile it whatever the store has, a file that changed while the results
were looked at. Renders wait for this, so that none is begun in vain.
"""

from __future__ import annotations

from itertools import islice

from ckwatch.core import views
from ckwatch.core.effects import Recall
from ckwatch.core.events import MAIN, LoadedWorkspace, RecalledUnit, RecallFinished, UnitKey, Work, WorkKind
from ckwatch.core.files import missed_change, missed_header
from ckwatch.core.notify import can_compile
from ckwatch.core.phases import Phase
from ckwatch.core.state import Effects, State, begin, release
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import difference, has_moved, recalled
from ckwatch.model.kernels import Unit


def workspace_loaded(state: State, out: Effects, before: LoadedWorkspace | None) -> None:
    """The workspace has been loaded: the first time, see what is known of its units; later, stop where all has to be
    compiled with other settings."""
    workspace = state.main.workspace
    if workspace is None or workspace is before:
        return
    if before is None and _can_recall(state):
        _begin(state, out, [unit for kernel in workspace.kernels for unit in kernel.units])
    elif before is not None and before.settings != workspace.settings:
        _give_up(state)


def consider(state: State, out: Effects) -> None:
    """When all that has changed is known: see which results hold, if it was much."""
    main = state.main
    known = main.is_current and not state.changed and not state.invalidated and state.scanning is None
    if not known or state.recalling is not None:
        return
    if is_due(state):
        _begin(state, out, [main.units[name].unit for name in state.unrecalled])
    state.files_changed = 0


def is_due(state: State) -> bool:
    """Return True if so many files have changed that results are looked up before units are rendered."""
    return state.files_changed >= state.recall_after_files and bool(state.unrecalled) and _can_recall(state)


def _can_recall(state: State) -> bool:
    workspace = state.main.workspace
    return state.recallable and workspace is not None and workspace.toolchain_problem is None


def _begin(state: State, out: Effects, units: list[Unit]) -> None:
    assert state.main.workspace is not None  # noqa: S101  # `_can_recall`
    state.unrecalled.clear()
    state.recalling = begin(state, WorkKind.RECALL, UnitKey(MAIN, ""))
    out.append(Recall(state.recalling, tuple(units), state.main.workspace.settings))


def recall_finished(state: State, out: Effects, event: RecallFinished) -> None:  # noqa: ARG001  # as all handlers
    """The results have been looked at. The work goes on until they are taken over: changes of files that are reported
    until then are noted (`State.recent_changes`)."""
    if state.recalling is not event.work:
        release(state, event.work)
        return
    state.recalled = dict(event.units)
    _end_if_done(state)


def recall_aborted(state: State, work: Work) -> None:
    """Nothing is known of the results."""
    if state.recalling is work:
        state.recalling = None


def _give_up(state: State) -> None:
    """Nothing of it holds. Where the results are still looked at, renders wait no longer."""
    if state.recalled and state.recalling is not None:
        release(state, state.recalling)
    state.recalled.clear()
    state.recalling = None


def take_some(state: State, out: Effects, at: float) -> None:
    """Take over some of what was found, when all units are known."""
    main = state.main
    if not state.recalled or main.pending or main.taking:
        return
    for name in list(islice(state.recalled, state.units_at_once)):
        found = state.recalled.pop(name)
        unit = main.units.get(name)
        if unit is None or not _holds(state, unit, found):
            continue
        state.graph.set_reads(unit.key, found.render.reads, found.render.missed)
        views.part_views(state, out, unit, at)
        recalled(state, out, unit, found, at)
        views.join_views(state, out, unit, at)
    _end_if_done(state)


def _end_if_done(state: State) -> None:
    if state.recalling is not None and not state.recalled:
        release(state, state.recalling)
        state.recalling = None


def _holds(state: State, unit: UnitState, found: RecalledUnit) -> bool:
    """Return True if a render and a look-up would find the same now."""
    work, facts, result = state.recalling, found.render, found.result
    if work is None or unit.phase is not Phase.WAITING or unit.demand.force or unit.key in state.invalidated:
        return False
    same = unit.unit is found.unit or not (difference(found.unit, unit.unit) or has_moved(found.unit, unit.unit))
    if not same or not can_compile(state, unit):
        return False
    if missed_change(state, unit, work, facts) or missed_header(state, unit, work, result.headers):
        return False
    return not state.graph.contradicts(facts.reads, facts.missed, result.headers)
