"""What a change of a file means for whom.

Changes are noted at once (`State.recent` makes results that missed one void) and acted upon a few units at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.events import Cause, CompileFacts, FilesChanged, RenderFacts, Scan, Scanned, UnitKey, Work, WorkKind
from ckwatch.machine.loading import request_loads
from ckwatch.machine.state import State, Touch, UnitState
from ckwatch.machine.units import Effects, begin, renew, want

UNITS_AT_ONCE = 50
"""Units that one step renews: half a millisecond."""

PATHS_AT_ONCE = 200


def files_changed(state: State, out: Effects, event: FilesChanged) -> None:
    """Note the changes; read the workspace anew where kernels may be concerned."""
    note(state, event.digests, event.at)
    if event.reload:
        request_loads(state, out, urgent=True)
    elif event.digests:
        # What templates mention decides on hints in kernel files only.
        request_loads(state, out, urgent=False)
    if not event.complete:
        request_scan(state, out)


def note(state: State, digests: Mapping[str, str | None], at: float) -> None:
    """Remember the changes until they are acted upon, and as long as running work may have missed them."""
    order = state.next()
    for path, digest in digests.items():
        state.changed.append((path, digest, at))
        if state.running:
            state.recent[path] = (order, digest)


def request_scan(state: State, out: Effects) -> int:
    """Look at all tracked files; the number of a scan that begins after this moment."""
    if state.scanning is not None:
        state.scan_again = True
        return state.scanning.number + 1
    state.scanning = begin(state, WorkKind.SCAN, UnitKey("", ""))
    out.append(Scan(state.scanning))
    return state.scanning.number


def scanned(state: State, out: Effects, event: Scanned) -> None:
    """A look at all tracked files has ended."""
    note(state, event.digests, event.at)
    end_scan(state, out)


def end_scan(state: State, out: Effects) -> None:
    """Look again if that was asked for meanwhile; and read the workspace, which the scan did not."""
    state.scanned = state.scanning.number if state.scanning else state.scanned
    state.scanning = None
    if state.scan_again:
        state.scan_again = False
        request_scan(state, out)
    request_loads(state, out, urgent=True)


def act(state: State, out: Effects) -> None:
    """Act on some of the news."""
    for _ in range(PATHS_AT_ONCE):
        if not state.changed or len(state.touched) >= UNITS_AT_ONCE:
            break
        path, digest, at = state.changed.popleft()
        _touch_readers(state, path, digest, at)
    for key in list(state.touched)[:UNITS_AT_ONCE]:
        apply_touch(state, out, key)
    for _ in range(UNITS_AT_ONCE):
        if not state.wants:
            break
        key, cause = state.wants.popleft()
        wanted = state.find(key)
        if wanted is not None:
            want(state, out, wanted, cause)


def apply_touch(state: State, out: Effects, key: UnitKey) -> bool:
    """Renew the unit if there is news for it; whether there was."""
    touch = state.touched.pop(key, None)
    unit = state.find(key)
    if touch is None or unit is None:
        return False
    renew(state, out, unit, touch.cause, recompile=touch.recompile, edit=touch.edit)
    return True


def _touch_readers(state: State, path: str, digest: str | None, at: float) -> None:
    touched = state.graph.touched(path, digest)
    if not touched.rerender and not touched.recompile:
        return
    known = any(path in state.graph.reads_of(key) for key in touched.rerender)
    what = "is gone" if digest is None else "changed" if known or touched.recompile else "appeared"
    cause = Cause(f"{short(state, path)} {what}", at)
    for key in touched.rerender:
        # What a client lends hides the file.
        if path not in state.scopes[key.scope].overlays:
            _touch(state, key, Touch(cause, recompile=False, edit=True))
    for key in touched.recompile:
        _touch(state, key, Touch(cause, recompile=True, edit=True))


def _touch(state: State, key: UnitKey, touch: Touch) -> None:
    known = state.touched.get(key)
    if known is not None and known.recompile:
        touch = Touch(touch.cause, recompile=True, edit=True)
    state.touched[key] = touch


def short(state: State, path: str) -> str:
    """A path as a person would name it: relative to the workspace when it is in it."""
    root = state.root.rstrip("/") + "/"
    return path.removeprefix(root)


def missed_change(state: State, unit: UnitState, work: Work, render: RenderFacts | None) -> Touch | None:
    """News that reached us while `work` ran, which it has not seen: its result is void."""
    if not state.recent or render is None:
        return None
    overlays = state.scopes[unit.key.scope].overlays
    for path in (*render.reads, *render.missed):
        change = state.recent.get(path)
        if change and change[0] > work.number and render.reads.get(path) != change[1] and path not in overlays:
            return Touch(Cause(f"{short(state, path)} changed meanwhile", unit.cause.at), recompile=False, edit=True)
    return None


def missed_header(state: State, unit: UnitState, work: Work, facts: CompileFacts) -> Touch | None:
    """The same for the headers of a compile or a look-up."""
    if not state.recent or facts.headers is None:
        return None
    present, absent = facts.headers.present, facts.headers.absent
    for path, (order, digest) in state.recent.items():
        if order > work.number and (path in present or path in absent) and present.get(path) != digest:
            return Touch(Cause(f"{short(state, path)} changed meanwhile", unit.cause.at), recompile=True, edit=True)
    return None


def is_quiet(state: State) -> bool:
    """Whether all news is acted upon: what is fresh now belongs to the files as they are known."""
    scopes = state.scopes.values()
    return not (
        state.changed
        or state.touched
        or state.wants
        or state.scanning
        or any(scope.loading or scope.pending or scope.load_again is not None for scope in scopes)
    )
