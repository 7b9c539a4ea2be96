"""Changed files: which units have a new input.

Changes are noted at once, acted upon a few units at a time, and make results void that missed one
(`State.recent_changes`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.core import events, toolchain_schedule
from ckwatch.core.effects import Scan
from ckwatch.core.loading import request_loads
from ckwatch.core.state import Effects, Invalidation, State, begin
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import renew
from ckwatch.model.causes import ARTIFACT_LOST
from ckwatch.model.kernels import Outcome

UNKNOWN = "?"
"""In place of a SHA-256: equal to none."""


def files_changed(state: State, out: Effects, event: events.FilesChanged) -> None:
    """Note the changes; load the workspace again when they may concern kernels."""
    note(state, event.digests, event.at)
    if event.reload:
        request_loads(state, out, urgent=True)
    elif event.digests:
        # Templates decide on hints in kernel files, which can wait.
        request_loads(state, out, urgent=False)
    if not event.complete:
        request_scan(state, out)


def note(state: State, digests: Mapping[str, str | None], at: float) -> None:
    """Remember the changes until they are acted upon, and as long as running work may have missed them."""
    state.changed.extend((path, digest, at) for path, digest in digests.items())
    state.files_changed += len(digests)
    if state.running:
        order = state.next()
        state.recent_changes.update({path: (order, digest) for path, digest in digests.items()})


def request_scan(state: State, out: Effects) -> int:
    """Scan all tracked files; the number of a scan that begins after this moment."""
    if state.scanning is not None:
        state.scan_again = True
        return state.scanning.number + 1
    state.scanning = begin(state, events.WorkKind.SCAN, events.UnitKey("", ""))
    out.append(Scan(state.scanning))
    return state.scanning.number


def scan_finished(state: State, out: Effects, event: events.ScanFinished) -> None:
    """A scan has ended. What was reported of a file while it ran may be newer than what it saw."""
    doubtful = [
        path
        for path, digest in event.digests.items()
        if path in state.recent_changes
        and state.recent_changes[path][0] > event.work.number
        and state.recent_changes[path][1] != digest
    ]
    note(state, event.digests, event.at)
    state.recent_changes.update(dict.fromkeys(doubtful, (state.order, UNKNOWN)))
    end_scan(state, out)


def end_scan(state: State, out: Effects) -> None:
    """Scan again if that was requested meanwhile, and load the workspace, which a scan does not."""
    state.scanned = state.scanning.number if state.scanning else state.scanned
    state.scanning = None
    if state.scan_again:
        state.scan_again = False
        request_scan(state, out)
    request_loads(state, out, urgent=True)


def artifacts_lost(state: State, out: Effects, event: events.ArtifactsLost) -> None:
    """Build again what the store has lost, wanted or not."""
    cause = events.Cause(ARTIFACT_LOST, event.at)
    lost = [
        unit
        for unit in state.all_units()
        if unit.compile.reusable and unit.compile.result is not None and unit.compile.result.artifact in event.artifacts
    ]
    for unit in lost:
        # Those that are on their way to a result look for it in the store.
        unit.demand.wanted, unit.compile.reusable = True, False
    settled = [unit.key for unit in lost if unit.settled]
    state.invalidate(settled, Invalidation(cause, recompile=True, edit=False))
    for key in settled[: state.units_at_once]:  # at once, before work on the lost artifact answers those that wait
        apply_invalidation(state, out, key)


def apply_changes(state: State, out: Effects) -> None:
    """Act on some of the news."""
    for _ in range(state.paths_at_once):
        if not state.changed or len(state.invalidated) >= state.units_at_once:
            break
        path, digest, at = state.changed.popleft()
        _invalidate_dependents(state, out, path, digest, at)
    for key in list(state.invalidated)[: state.units_at_once]:
        apply_invalidation(state, out, key)


def apply_invalidation(state: State, out: Effects, key: events.UnitKey) -> bool:
    """Renew the unit if it has a new input; whether it has."""
    invalidation = state.invalidated.pop(key, None)
    unit = state.find(key)
    if invalidation is None or unit is None:
        return False
    renew(state, out, unit, invalidation.cause, recompile=invalidation.recompile, edit=invalidation.edit)
    return True


def _invalidate_dependents(state: State, out: Effects, path: str, digest: str | None, at: float) -> None:
    is_news = state.graph.note_change(path, digest)
    dependents = state.graph.dependents_of_change(path, digest)
    # A save may be reported twice. The compilers that the first report has started have read what it reported.
    recompile = [key for key in dependents.recompile if is_news or (unit := state.find(key)) is None or unit.settled]
    for key, toolchain in dependents.recheck:
        toolchain_schedule.outdate(state, out, key, toolchain)
    if not dependents.rerender and not recompile:
        return
    known = any(path in state.graph.reads_of(key) for key in dependents.rerender)
    what = "was removed" if digest is None else "changed" if known or recompile else "appeared"
    cause = events.Cause(f"{short(state, path)} {what}", at)
    hidden = {view.name for view in state.views.values() if path in view.overlays}
    # A client's unsaved text hides the file.
    seen = [key for key in dependents.rerender if key.scope not in hidden] if hidden else dependents.rerender
    state.invalidate(seen, Invalidation(cause, recompile=False, edit=True))
    state.invalidate(recompile, Invalidation(cause, recompile=True, edit=True))


def short(state: State, path: str) -> str:
    """A path as a person would name it: relative to the workspace when it is in it."""
    root = state.root.rstrip("/") + "/"
    return path.removeprefix(root)


def missed_change(
    state: State, unit: UnitState, work: events.Work, render: events.RenderFacts | None, outcome: Outcome | None = None
) -> Invalidation | None:
    """A change that was reported while `work` ran and that it has not seen: its result is void.

    It is not known what a work has seen that failed for reasons of the host.
    """
    if render is None:
        return None
    view = state.views[unit.key.scope]
    if not state.recent_changes and not view.changed_at:
        return None
    for path in (*render.reads, *render.missed):
        change = state.recent_changes.get(path)
        seen = outcome is not Outcome.FAULTED and change is not None and render.reads.get(path) == change[1]
        missed = change is not None and change[0] > work.number and not seen and path not in view.overlays
        if missed or view.changed_at.get(path, 0) > work.number:
            return Invalidation(
                events.Cause(f"{short(state, path)} changed meanwhile", unit.cause.at), recompile=False, edit=True
            )
    return None


def missed_header(
    state: State, unit: UnitState, work: events.Work, headers: events.HeaderFacts | None
) -> Invalidation | None:
    """The same for the headers of a compile or a look-up."""
    if not state.recent_changes or headers is None:
        return None
    present, absent = headers.present, headers.absent
    for path, (order, digest) in state.recent_changes.items():
        if order > work.number and (path in present or path in absent) and present.get(path) != digest:
            return Invalidation(
                events.Cause(f"{short(state, path)} changed meanwhile", unit.cause.at), recompile=True, edit=True
            )
    return None


def is_quiet(state: State) -> bool:
    """Return True if all news is acted upon: settled units belong to the files as they are known."""
    return not (
        state.has_news
        or state.scanning
        or any(view.loading or view.aside or view.load_again is not None for view in state.views.values())
    )
