"""What is wrong in every file, followed: what the daemons tell, and the edits since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ckwatch.wire.values import Diagnostic, File
from ckwatch_lsp.diagnostics.journal import Journal
from ckwatch_lsp.diagnostics.known import Edits, Known, counted, edited, moved, paths_of, shown, taken, units_waiting
from ckwatch_lsp.documents import Document, Edit, Kind
from ckwatch_lsp.folder import Folder, Standing

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session


OLDER = 4
"""Revisions before the one that the daemon has of which a result may still arrive."""


@dataclass(slots=True)
class _File:
    """A file as one workspace's daemon sees it. `state` is what was taken last."""

    state: File | None = None
    known: list[Known] = field(default_factory=list)


class Tracker:
    """The diagnostics of all workspaces' files at their present places."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folders: dict[Path, dict[str, _File]] = {}
        self._journals: dict[str, Journal] = {}
        self._told: dict[tuple[Path, str], None] = {}
        self._settled: set[Path] = set()
        self._uncounted: dict[Path, set[str]] = {}
        self._looked_at: set[Path] = set()
        self._kernel_files: dict[Path, dict[str, str]] = {}

    @property
    def pending(self) -> bool:
        """Whether something was told that has not been taken."""
        return bool(self._told or self._looked_at)

    def paths(self) -> Iterable[str]:
        """The files of which something is known."""
        return dict.fromkeys(path for files in self._folders.values() for path, file in files.items() if file.known)

    def at(self, path: str) -> list[Diagnostic]:
        """What is wrong in a file, in the order of the text. What two workspaces tell of it is there once."""
        return shown(
            known for files in self._folders.values() if (file := files.get(path)) is not None for known in file.known
        )

    def is_moving(self, path: str) -> bool:
        """Whether units are being rendered that may have something else to tell of the file."""
        return any(path in paths for paths in self._uncounted.values())

    def concerns(self, path: str, units: Collection[str]) -> bool:
        """Whether any of `units` has diagnostics in the file."""
        files = (files[path] for files in self._folders.values() if path in files)
        return any(not set(one.told.units).isdisjoint(units) for file in files for one in file.known)

    # Documents.

    def opened(self, document: Document) -> None:
        """It is taken to be what is saved, as far as nobody has said otherwise."""
        if document.path is not None and document.kind is not Kind.OTHER:
            self._journals[document.path] = Journal(document.text)

    def changed(self, document: Document, edits: Sequence[Edit]) -> set[str]:
        """The files that speak of this one."""
        path = document.path
        journal = self._journals.get(path or "")
        if path is None or journal is None:
            return set()
        journal.note(document.revision, edits)
        return self._shift({path: edits})

    def saved(self, document: Document) -> None:
        """The file has the document's text."""
        journal = self._journals.get(document.path or "")
        if journal is not None:
            journal.saved = document.text

    def closed(self, document: Document) -> None:
        """The file counts from now on: whatever is told next is said of it."""
        path = document.path or ""
        if self._session.open_at(path) is None and self._journals.pop(path, None) is not None:
            for files in self._folders.values():
                if path in files:
                    files[path].state = None

    def _shift(self, edits: Edits) -> set[str]:
        concerned = set()
        for files in self._folders.values():
            for path, file in files.items():
                if any(one.now is not None and not paths_of(one.now).isdisjoint(edits) for one in file.known):
                    file.known = edited(file.known, edits)
                    concerned.add(path)
        return concerned

    # The daemon.

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """These topics are others."""
        files = self._folders.setdefault(folder.root, {})
        kernel_files = self._kernel_files.setdefault(folder.root, {})
        for topic in topics:
            kind, _, name = topic.partition("/")
            if kind == "file":
                self._told[folder.root, name] = None
            elif kind == "unit" and name in folder.units:
                kernel_files[name] = folder.units[name].place.path
        if any(topic in ("workspace", "standing") or topic.startswith("unit/") for topic in topics):
            for path, file in files.items():
                if any(one.kept for one in file.known):
                    self._told.setdefault((folder.root, path), None)
        if folder.root in self._uncounted:
            self._looked_at.add(folder.root)
        if "workspace" in topics and folder.workspace is not None and not folder.workspace.busy:
            self._settled.add(folder.root)
            for path, file in files.items():
                if any(not one.told.units for one in file.known):
                    self._told.setdefault((folder.root, path), None)

    def take(self) -> set[str]:
        """Take what was told; the files of which something else may have to be shown."""
        found = set()
        told, self._told = self._told, {}
        settled, self._settled = self._settled, set()
        for root, path in told:
            folder = self._session.folders.get(root)
            if folder is not None:
                self._take(folder, path, settled=root in settled)
                self._uncounted.setdefault(root, set()).add(path)
                found.add(path)
        self._looked_at |= {root for root, _ in told}
        looked_at, self._looked_at = self._looked_at, set()
        return found.union(*(self._count(root) for root in looked_at if root in self._uncounted))

    def _count(self, root: Path) -> set[str]:
        """Count units anew if none is on its way to be rendered."""
        folder = self._session.folders.get(root)
        if folder is None or not _is_loaded(folder) or folder.renders:
            return set()
        paths = self._uncounted.pop(root)
        files = self._folders.get(root, {})
        for path in paths & files.keys():
            files[path].known = counted(files[path].known)
        return paths

    def _take(self, folder: Folder, path: str, *, settled: bool) -> None:
        for state, lent in folder.news_of(path):
            self._take_state(folder, path, state, lent, settled=settled)

    def _take_state(self, folder: Folder, path: str, state: File, lent: dict[str, int], *, settled: bool) -> None:
        files = self._folders.setdefault(folder.root, {})
        file = files.setdefault(path, _File())
        before = {} if file.state is None else file.state.generations
        anew = file.state is None
        loaded = _is_loaded(folder)
        edits: dict[str, Sequence[Edit]] = {}
        broken: dict[str, bool] = {}
        older = [lent[path] - count for count in range(1, OLDER + 1)] if path in lent and folder.renders else ()

        def places(diagnostic: Diagnostic) -> Iterator[Diagnostic | None]:
            for one in paths_of(diagnostic) - edits.keys():
                edits[one] = self._unseen(one, lent.get(one))
            yield moved(diagnostic, edits)
            for revision in older:
                yield moved(diagnostic, {**edits, path: self._unseen(path, revision)})

        def is_new(diagnostic: Diagnostic) -> bool:
            if not diagnostic.units:
                return settled
            present = state.generations
            return anew or any(before.get(unit) != present[unit] for unit in diagnostic.units if unit in present)

        def waiting(diagnostic: Diagnostic) -> tuple[str, ...] | None:
            return units_waiting(diagnostic, folder.units, state.generations, loaded=loaded, is_left_out=is_left_out)

        def is_left_out(unit: str) -> bool:
            kernel_file = self._kernel_files.get(folder.root, {}).get(unit, "")
            if kernel_file not in broken:
                told = folder.diagnostics(kernel_file)
                broken[kernel_file] = any(not one.units and one.severity == "error" for one in told)
            return broken[kernel_file]

        file.known = taken(file.known, state.diagnostics, places=places, is_new=is_new, waiting=waiting)
        file.state = state
        if not file.known and path not in folder.files:
            del files[path]

    def _unseen(self, path: str, lent: int | None) -> list[Edit]:
        """The edits of a file since the text that the daemon had: that of a revision that was lent, else the file's."""
        document, journal = self._session.open_at(path), self._journals.get(path)
        if document is None or journal is None:
            return []
        return journal.since_saved(document.text) if lent is None else journal.since(lent)


def _is_loaded(folder: Folder) -> bool:
    """Whether there is a daemon that knows its workspace."""
    return folder.standing is Standing.READY and folder.workspace is not None and folder.workspace.loaded
