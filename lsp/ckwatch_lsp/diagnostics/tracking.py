"""What is wrong in every file, followed: what the daemons tell, and the edits since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ckwatch.wire.values import Diagnostic, File
from ckwatch_lsp.diagnostics.journal import Journal
from ckwatch_lsp.diagnostics.known import Edits, Known, edited, moved, paths_of, shown, taken, units_waiting
from ckwatch_lsp.documents import Document, Edit, Kind
from ckwatch_lsp.folder import Folder, Standing

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

PATIENCE = 10
"""How often a file is looked at again before what is told of it is taken although the daemon has an older text."""


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
        self._told: dict[tuple[Path, str], int] = {}
        self._settled: set[Path] = set()
        self._kernel_files: dict[Path, dict[str, str]] = {}

    @property
    def pending(self) -> bool:
        """Whether something was told that has not been taken."""
        return bool(self._told)

    def paths(self) -> Iterable[str]:
        """The files of which something is known."""
        return dict.fromkeys(path for files in self._folders.values() for path, file in files.items() if file.known)

    def at(self, path: str) -> list[Diagnostic]:
        """What is wrong in a file, in the order of the text. What two workspaces tell of it is there once."""
        return shown(
            known for files in self._folders.values() if (file := files.get(path)) is not None for known in file.known
        )

    def concerns(self, path: str, units: Collection[str]) -> bool:
        """Whether any of `units` has diagnostics in the file."""
        return any(not set(one.units).isdisjoint(units) for one in self.at(path))

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
                self._told[folder.root, name] = 0
            elif kind == "unit" and name in folder.units:
                kernel_files[name] = folder.units[name].place.path
        if any(topic in ("workspace", "standing") or topic.startswith("unit/") for topic in topics):
            for path, file in files.items():
                if any(one.kept for one in file.known):
                    self._told.setdefault((folder.root, path), 0)
        if "workspace" in topics and folder.workspace is not None and not folder.workspace.busy:
            self._settled.add(folder.root)
            for path, file in files.items():
                if any(not one.told.units for one in file.known):
                    self._told.setdefault((folder.root, path), 0)

    def take(self) -> set[str]:
        """Take what was told where the daemon is not behind the editor; the files of which it was."""
        found = set()
        settled, self._settled = self._settled, set()
        for (root, path), tries in list(self._told.items()):
            folder = self._session.folders.get(root)
            if folder is None:
                del self._told[root, path]
            elif tries < PATIENCE and self._is_behind(folder, path):
                self._told[root, path] = tries + 1
                if root in settled:
                    self._settled.add(root)
            else:
                del self._told[root, path]
                self._take(folder, path, settled=root in settled)
                found.add(path)
        return found

    def _is_behind(self, folder: Folder, path: str) -> bool:
        document = self._session.open_at(path)
        if document is None:
            return False
        given = folder.lender.given(path)
        return given not in (-1, document.revision)

    def _take(self, folder: Folder, path: str, *, settled: bool) -> None:
        files = self._folders.setdefault(folder.root, {})
        file = files.setdefault(path, _File())
        state = folder.files.get(path) or File.model_construct(path=path, diagnostics=(), generations={})
        before = {} if file.state is None else file.state.generations
        anew = file.state is None
        loaded = folder.standing is Standing.READY and folder.workspace is not None and folder.workspace.loaded
        edits: dict[str, Sequence[Edit]] = {}
        broken: dict[str, bool] = {}

        def place(diagnostic: Diagnostic) -> Diagnostic | None:
            for one in paths_of(diagnostic) - edits.keys():
                edits[one] = self._unseen(folder, one)
            return moved(diagnostic, {one: made for one, made in edits.items() if made})

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

        file.known = taken(file.known, state.diagnostics, place=place, is_new=is_new, waiting=waiting)
        file.state = state
        if not file.known and path not in folder.files:
            del files[path]

    def _unseen(self, folder: Folder, path: str) -> list[Edit]:
        """The edits of a file that the daemon has not seen."""
        document, journal = self._session.open_at(path), self._journals.get(path)
        if document is None or journal is None:
            return []
        given = folder.lender.given(path)
        if given == -1:
            return journal.since_saved(document.text)
        journal.forget(given)
        return journal.since(given)
