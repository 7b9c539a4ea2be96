"""Every file's diagnostics at their places in the text as it is now.

The daemon's diagnostics refer to the text that it has. When it reports a file again, most of them are as before: these
keep the place to which edits have moved them, unless their unit was rendered again. A diagnostic that it does not
report any more is kept while the unit is on its way to a result, so that none disappears for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ckwatch.client.events import UnitInBrief
from ckwatch.model.diagnostics import Diagnostic, Fix, Related
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Range, Span
from ckwatch.wire.state import File, Unit
from ckwatch_lsp.diagnostics.edit_tracking import shifted
from ckwatch_lsp.session.documents import TextChange, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

RENDERED = frozenset({"jinja", "rule", "kernel-file", "workspace"})
"""Sources whose diagnostics are there when a unit has been rendered; for others a compiler has to run."""

EditsByPath = Mapping[str, Sequence[TextChange]]
"""Edits of files by absolute path."""


@dataclass(frozen=True, slots=True)
class TrackedDiagnostic:
    """A diagnostic: as it was `reported`, and as it is `now`, None where its text was deleted. `kept`: the last report
    did not have it. `counted` are its units, and of how many, as they were when all had been rendered; None while
    that was never so. `otherwise` is where it is unless it was reported for an older text, as it seems. `touched`:
    its text, or that of its fixes, was edited since."""

    reported: Diagnostic
    now: Diagnostic | None
    kept: bool = False
    counted: tuple[tuple[str, ...], int] | None = None
    otherwise: Diagnostic | None = None
    touched: bool = False

    @property
    def holds(self) -> bool:
        """True if it is about the present text, as far as is known."""
        return not (self.kept or self.reported.stale or self.touched)


def moved(diagnostic: Diagnostic, edits: EditsByPath) -> Diagnostic | None:
    """The diagnostic after edits of some files; None where its own text was deleted. A fix that an edit touches is
    lost, and so are the others that belong to it."""
    span = moved_span(diagnostic.span, edits)
    if span is None:
        return None
    related = tuple(_moved_related(one, edits) for one in diagnostic.related)
    fixes: tuple[Fix, ...] = ()
    for fix in diagnostic.fixes:
        place = _untouched(fix.span, edits)
        if place is None:
            fixes = ()
            break
        fixes += (fix if place is fix.span else replace(fix, span=place),)
    new: dict[str, Any] = {}
    if span is not diagnostic.span:
        new["span"] = span
    if any(one is not other for one, other in zip(related, diagnostic.related, strict=True)):
        new["related"] = related
    if fixes != diagnostic.fixes:
        new["fixes"] = fixes
    return replace(diagnostic, **new) if new else diagnostic


def moved_span(span: Span, edits: EditsByPath) -> Span | None:
    """The place after edits of its file; None if it was deleted."""
    own = edits.get(span.path)
    if not own or all(edit.before.start.line > span.end.line for edit in own):
        return span
    before = span.range
    found = shifted(before, own)
    return None if found is None else span if found == before else span_at(span.path, found)


def span_at(path: str, found: Range) -> Span:
    """The inverse."""
    return Span(path, found.start, found.end)


def paths_of(diagnostic: Diagnostic) -> set[str]:
    """The files that it speaks of."""
    related = (one.span.path for one in diagnostic.related if one.span is not None)
    return {diagnostic.span.path, *related, *(fix.span.path for fix in diagnostic.fixes)}


def edited(known: Iterable[TrackedDiagnostic], edits: EditsByPath) -> list[TrackedDiagnostic]:
    """The same after edits of some files."""
    return [
        one
        if one.now is None or paths_of(one.now).isdisjoint(edits)
        else replace(
            one,
            now=moved(one.now, edits),
            otherwise=one.otherwise and moved(one.otherwise, edits),
            touched=one.touched or is_touched(one.now, edits),
        )
        for one in known
    ]


def is_touched(diagnostic: Diagnostic, edits: EditsByPath) -> bool:
    """Return True if edits change its text or that of its fixes."""
    spans = (diagnostic.span, *(fix.span for fix in diagnostic.fixes))
    return any(_untouched(span, edits) is None for span in spans)


def taken(
    known: Sequence[TrackedDiagnostic],
    reported: Sequence[Diagnostic],
    *,
    places: Callable[[Diagnostic], Iterator[Diagnostic | None]],
    is_new: Callable[[Diagnostic], bool],
    waiting: Callable[[Diagnostic], tuple[str, ...] | None],
) -> list[TrackedDiagnostic]:
    """Return the known diagnostics after this report.

    `places` moves one from the daemon's text to the present one, then from older texts that it may be of; that is
    believed where the same is known to be at that place. `is_new`: whether it was found again, though it reads as
    before; `waiting` gives the units for whose sake one that is not reported any more is kept, None if it is not.
    """
    present = {identity(one.now) for one in known if one.now is not None}

    def placed(diagnostic: Diagnostic, count: tuple[tuple[str, ...], int] | None) -> TrackedDiagnostic:
        candidates = places(diagnostic)
        first = next(candidates)
        if first is None or identity(first) in present:
            return TrackedDiagnostic(diagnostic, first, counted=count)
        for other in candidates:
            if other is not None and identity(other) in present:
                return TrackedDiagnostic(diagnostic, other, counted=count, otherwise=first)
        return TrackedDiagnostic(diagnostic, first, counted=count)

    before = _by(identity, known)
    matched = [_first(before, identity(diagnostic)) for diagnostic in reported]
    left = [one for rest in before.values() for one in rest]
    # of a text between the last reported one and the present one
    alike = _by(_words, left) if any(one is None for one in matched) else {}
    found = []
    for diagnostic, same in zip(reported, matched, strict=True):
        old = same
        if old is None and diagnostic.stale and (old := _first(alike, _words(diagnostic))) is not None:
            left.remove(old)
        if old is None:
            found.append(placed(diagnostic, None))
        elif not diagnostic.stale and is_new(diagnostic):
            found.append(placed(diagnostic, old.counted))
        else:
            again = (_with_units(old.now, diagnostic), _with_units(old.otherwise, diagnostic))
            found.append(TrackedDiagnostic(diagnostic, again[0], counted=old.counted, otherwise=again[1]))
    for one in left:
        units = waiting(one.reported)
        if units is not None:
            now = None if one.now is None else replace(one.now, units=units, stale=True)
            was = replace(one.reported, units=units, stale=True)
            found.append(TrackedDiagnostic(was, now, kept=True, counted=one.counted))
    return found


def _by(
    key: Callable[[Diagnostic], tuple[object, ...]], known: Iterable[TrackedDiagnostic]
) -> dict[tuple[object, ...], list[TrackedDiagnostic]]:
    found: dict[tuple[object, ...], list[TrackedDiagnostic]] = {}
    for one in known:
        found.setdefault(key(one.reported), []).append(one)
    return found


def _first(
    known: Mapping[tuple[object, ...], list[TrackedDiagnostic]], key: tuple[object, ...]
) -> TrackedDiagnostic | None:
    same = known.get(key)
    return same.pop(0) if same else None


def _words(diagnostic: Diagnostic) -> tuple[object, ...]:
    return (diagnostic.severity, diagnostic.source, diagnostic.code, diagnostic.message)


def identity(diagnostic: Diagnostic) -> tuple[object, ...]:
    """Return the identity of a diagnostic among those of a file, as the daemon sees it."""
    place = diagnostic.span.range
    return (diagnostic.severity, diagnostic.source, diagnostic.code, diagnostic.message, place)


def counted(known: Iterable[TrackedDiagnostic]) -> list[TrackedDiagnostic]:
    """The same when all units have been rendered: nothing speaks of an older text, and how many have each is known."""
    settled = (one if one.otherwise is None else replace(one, now=one.otherwise, otherwise=None) for one in known)
    return [one if one.now is None else replace(one, counted=_count(one, one.now)) for one in settled]


def _count(one: TrackedDiagnostic, now: Diagnostic) -> tuple[tuple[str, ...], int]:
    before = one.counted
    if before is not None and before[1] == now.unit_count and set(before[0]) == set(now.units):
        return before
    return now.units, now.unit_count


def shown(known: Iterable[TrackedDiagnostic]) -> list[Diagnostic]:
    """Return the diagnostics to show, in the order of the text; those at one place become one.

    Units are those that were counted last, so that a message does not change with each unit that is rendered. What a
    unit that is on its way has reported is hidden by what another reports for the new text.
    """
    present = [one for one in known if one.now is not None]
    new: dict[tuple[object, ...], list[Diagnostic]] = {}
    for one in present:
        if one.counted is None and one.now is not None and not one.now.stale:
            new.setdefault(_kind(one.now), []).append(one.now)
    found: dict[tuple[object, ...], Diagnostic] = {}
    for one in present:
        if one.now is None or _is_replaced(one.now, new):
            continue
        units, count = one.counted or ((), 0)
        now = replace(one.now, units=units, unit_count=count)
        key = identity(now)
        other = found.get(key)
        found[key] = now if other is None else _joined(other, now)
    return sorted(found.values(), key=lambda one: (one.span.range, one.code, one.message))


def _is_replaced(now: Diagnostic, new: Mapping[tuple[object, ...], Sequence[Diagnostic]]) -> bool:
    if not now.stale or now.source not in RENDERED:
        return False
    place = now.span.range
    here = [one for one in new.get(_kind(now), ()) if place.meets(one.span.range)]
    return bool(here) and all(one.message != now.message for one in here)


def _kind(now: Diagnostic) -> tuple[object, ...]:
    return (now.severity, now.source, now.code)


def units_waiting(
    diagnostic: Diagnostic,
    unit_of: Callable[[str], UnitInBrief | Unit | None],
    reported_units: Mapping[str, int],
    *,
    loaded: bool,
    is_left_out: Callable[[str], bool],
) -> tuple[str, ...] | None:
    """The units of a diagnostic of which there is no result yet that could do without it; None if there are none.

    `loaded`: the daemon knows its workspace. `reported_units`: units of which the file's state has something new.
    `is_left_out`: of a unit that is not there, whether a mistake in its kernel file may be the reason.
    """
    if not loaded:
        return diagnostic.units
    rendered = diagnostic.source in RENDERED
    found = []
    for name in diagnostic.units:
        unit = unit_of(name)
        if unit is None:
            if is_left_out(name):
                found.append(name)
        elif not unit.fresh and (unit.phase in ("waiting", "rendering") or not (rendered or name in reported_units)):
            found.append(name)
    return tuple(found) or None


def _joined(one: Diagnostic, other: Diagnostic) -> Diagnostic:
    first, second = (other, one) if one.stale and not other.stale else (one, other)
    units = tuple(dict.fromkeys((*first.units, *second.units)))
    count = max(first.unit_count, second.unit_count, len(units))
    return replace(first, units=units, unit_count=count)


def _with_units(now: Diagnostic | None, reported: Diagnostic) -> Diagnostic | None:
    if now is None:
        return None
    return replace(now, units=reported.units, unit_count=reported.unit_count, stale=reported.stale)


def _moved_related(one: Related, edits: EditsByPath) -> Related:
    if one.span is None:
        return one
    span = moved_span(one.span, edits)
    return one if span is one.span else Related(one.message, span)


def _untouched(span: Span, edits: EditsByPath) -> Span | None:
    place = span.range
    for edit in edits.get(span.path, ()):
        if place.meets(edit.before):
            return None
        after = shifted(place, (edit,))
        if after is None:
            return None
        place = after
    return span if place == span.range else span_at(span.path, place)


OLDER = 4
"""Revisions before the one that the daemon has of which a result may still arrive."""


@dataclass(slots=True)
class _File:
    """A file as one workspace's daemon sees it. `state` is what was taken last."""

    state: File | None = None
    known: list[TrackedDiagnostic] = field(default_factory=list)


class _Files:
    """A workspace's files with diagnostics, and which of them an event concerns."""

    def __init__(self) -> None:
        self.by_path: dict[str, _File] = {}
        self.kept: dict[str, None] = {}
        """Those with diagnostics that the last report did not have."""
        self.of_no_unit: dict[str, None] = {}
        """Those with diagnostics that are about the workspace and not about units."""
        self._mentioned: dict[str, dict[str, None]] = {}
        """By path the files whose diagnostics speak of it."""
        self._mentions: dict[str, set[str]] = {}
        """The inverse."""

    def mentioning(self, path: str) -> list[str]:
        """The files whose diagnostics speak of the file at `path`, as it is open now."""
        return list(self._mentioned.get(path, ()))

    def know(self, path: str, known: list[TrackedDiagnostic]) -> None:
        """These are the diagnostics of the file at `path`, which is there."""
        self.by_path[path].known = known
        _include(self.kept, path, included=any(one.kept for one in known))
        _include(self.of_no_unit, path, included=any(not one.reported.units for one in known))
        before = self._mentions.get(path, set())
        now = self._mentions[path] = set[str]().union(*(paths_of(one.now) for one in known if one.now is not None))
        for other in now - before:
            self._mentioned.setdefault(other, {})[path] = None
        for other in before - now:
            self._mentioned[other].pop(path)

    def remove(self, path: str) -> None:
        """There is nothing about the file at `path`."""
        self.know(path, [])
        del self.by_path[path], self._mentions[path]


def _include(paths: dict[str, None], path: str, *, included: bool) -> None:
    if included:
        paths[path] = None
    else:
        paths.pop(path, None)


class DiagnosticStore:
    """The diagnostics of all workspaces' files at their present places."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folders: dict[Path, _Files] = {}
        self._reported: dict[tuple[Path, str], None] = {}
        self._settled: set[Path] = set()
        self._uncounted: dict[Path, set[str]] = {}
        self._to_count: set[Path] = set()
        self._kernel_files: dict[Path, dict[str, str]] = {}
        self._changed: set[str] = set()

    @property
    def pending(self) -> bool:
        """True if there are reports that have not been taken."""
        return bool(self._reported or self._to_count or self._changed)

    def paths(self) -> Iterable[str]:
        """The files of which something is known."""
        return dict.fromkeys(
            path for files in self._folders.values() for path, file in files.by_path.items() if file.known
        )

    def at(self, path: str, *, holding: bool = False) -> list[Diagnostic]:
        """Return the diagnostics of a file, in the order of the text. Diagnostics that two workspaces report for it are
        listed once.

        `holding`: without what was found in a text that has been replaced.
        """
        return shown(one for one in self._known(path) if one.holds or not holding)

    def _known(self, path: str) -> Iterator[TrackedDiagnostic]:
        for files in self._folders.values():
            if (file := files.by_path.get(path)) is not None:
                yield from file.known

    def is_awaited(self, path: str) -> bool:
        """Return True if something in the file was found in a text that has been replaced, and its unit is on its
        way."""
        return any(one.now is not None and (one.kept or one.reported.stale) for one in self._known(path))

    def settle(self, folder: WorkspaceFolder) -> None:
        """The daemon's reports are about the open texts as they are: what it has found stands where it says."""
        self._take_all()
        files = self._folders.get(folder.root, _Files())
        for path, file in files.by_path.items():
            present = [self._placed(one, folder.overlays.sent()) for one in file.known]
            if any(one is not other for one, other in zip(present, file.known, strict=True)):
                files.know(path, present)
                self._changed.add(path)

    def _placed(self, one: TrackedDiagnostic, sent: Mapping[str, int]) -> TrackedDiagnostic:
        if one.kept or one.reported.stale:
            return one
        edits = {path: self._unseen(path, sent.get(path)) for path in paths_of(one.reported)}
        now, touched = moved(one.reported, edits), is_touched(one.reported, edits)
        if (now, touched, None) == (one.now, one.touched, one.otherwise):
            return one
        return replace(one, now=now, otherwise=None, touched=touched)

    def is_moving(self, path: str) -> bool:
        """Return True if units are being rendered that may change the file's diagnostics."""
        return any(path in paths for paths in self._uncounted.values())

    def concerns(self, path: str, units: Collection[str]) -> bool:
        """Return True if any of `units` has diagnostics in the file."""
        files = (files.by_path[path] for files in self._folders.values() if path in files.by_path)
        return any(not set(one.reported.units).isdisjoint(units) for file in files for one in file.known)

    # Documents.

    def changed(self, document: TextDocument, edits: Sequence[TextChange]) -> set[str]:
        """Move what is known; the files that speak of this one."""
        path = document.path or ""
        concerned = set()
        for files in self._folders.values():
            for other in files.mentioning(path):
                files.know(other, edited(files.by_path[other].known, {path: edits}))
                concerned.add(other)
        return concerned

    def closed(self, document: TextDocument) -> None:
        """The file counts from now on: the next report is about it."""
        path = document.path or ""
        if self._session.open_at(path) is None:
            for files in self._folders.values():
                if path in files.by_path:
                    files.by_path[path].state = None

    # The daemon.

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Note what changed, for `take`."""
        files = self._folders.setdefault(folder.root, _Files())
        kernel_files = self._kernel_files.setdefault(folder.root, {})
        for path in topics.named("file"):
            self._reported[folder.root, path] = None
        for name in topics.named("unit"):
            if (kernel_file := folder.units.path(name)) is not None:
                kernel_files[name] = kernel_file
        if topics.any_of("workspace", "connection") or topics.named("unit"):
            for path in files.kept:
                self._reported.setdefault((folder.root, path), None)
        if folder.root in self._uncounted:
            self._to_count.add(folder.root)
        if topics.any_of("workspace") and folder.workspace is not None and not folder.workspace.busy:
            self._settled.add(folder.root)
            for path in files.of_no_unit:
                self._reported.setdefault((folder.root, path), None)

    def take(self) -> set[str]:
        """Take the daemon's reports; the files whose shown diagnostics may change."""
        self._take_all()
        changed, self._changed = self._changed, set()
        return changed

    def _take_all(self) -> None:
        found = self._changed
        reported, self._reported = self._reported, {}
        settled, self._settled = self._settled, set()
        for root, path in reported:
            folder = self._session.folders.get(root)
            if folder is not None:
                self._take(folder, path, settled=root in settled)
                self._uncounted.setdefault(root, set()).add(path)
                found.add(path)
        self._to_count |= {root for root, _ in reported}
        to_count, self._to_count = self._to_count, set()
        found.update(*(self._count(root) for root in to_count if root in self._uncounted))

    def _count(self, root: Path) -> set[str]:
        """Count units again if none waits for its render."""
        folder = self._session.folders.get(root)
        if folder is None or not folder.is_loaded or folder.is_rendering:
            return set()
        paths = self._uncounted.pop(root)
        files = self._folders.get(root, _Files())
        for path in paths & files.by_path.keys():
            files.know(path, counted(files.by_path[path].known))
        return paths

    def _take(self, folder: WorkspaceFolder, path: str, *, settled: bool) -> None:
        for state, revisions in folder.take_states(path):
            self._take_state(folder, path, state, revisions, settled=settled)

    def _take_state(
        self, folder: WorkspaceFolder, path: str, state: File, revisions: Mapping[str, int], *, settled: bool
    ) -> None:
        files = self._folders.setdefault(folder.root, _Files())
        file = files.by_path.setdefault(path, _File())
        before = {} if file.state is None else file.state.generations
        is_first = file.state is None
        loaded = folder.is_loaded
        edits: dict[str, Sequence[TextChange]] = {}
        broken: dict[str, bool] = {}
        older = (
            [revisions[path] - count for count in range(1, OLDER + 1)]
            if path in revisions and folder.is_rendering
            else ()
        )

        def places(diagnostic: Diagnostic) -> Iterator[Diagnostic | None]:
            for one in paths_of(diagnostic) - edits.keys():
                edits[one] = self._unseen(one, revisions.get(one))
            yield moved(diagnostic, edits)
            for revision in older:
                yield moved(diagnostic, {**edits, path: self._unseen(path, revision)})

        def is_new(diagnostic: Diagnostic) -> bool:
            if not diagnostic.units:
                return settled
            present = state.generations
            return is_first or any(before.get(unit) != present[unit] for unit in diagnostic.units if unit in present)

        def waiting(diagnostic: Diagnostic) -> tuple[str, ...] | None:
            unit = folder.units.brief
            return units_waiting(diagnostic, unit, state.generations, loaded=loaded, is_left_out=is_left_out)

        def is_left_out(unit: str) -> bool:
            kernel_file = self._kernel_files.get(folder.root, {}).get(unit, "")
            if kernel_file not in broken:
                found = folder.diagnostics(kernel_file)
                broken[kernel_file] = any(not one.units and one.severity == "error" for one in found)
            return broken[kernel_file]

        known = taken(file.known, state.diagnostics, places=places, is_new=is_new, waiting=waiting)
        files.know(path, known)
        file.state = state
        if not known and path not in folder.files:
            files.remove(path)

    def _unseen(self, path: str, revision: int | None) -> list[TextChange]:
        """The edits of a file since the text that the daemon had: a revision that was sent, else the file's."""
        document = self._session.open_at(path)
        if document is None:
            return []
        return document.edits_since_saved() if revision is None else document.edits_since(revision)
