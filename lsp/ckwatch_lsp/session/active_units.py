"""The units of a document, and the active one among them, whose figures, values and rendered text are shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import anyio

from ckwatch.model.delays import FOCUS, READERS
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.state import Unit
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics


class ActiveUnits(SessionListener):
    """The units of documents, and the active one of each: the user's choice, else the first."""

    state_key: ClassVar[str] = "Active"

    def __init__(self, session: Session) -> None:
        self._session = session
        self._chosen: dict[str, str] = {}
        self._readers: dict[str, tuple[str, ...]] = {}
        self._first: dict[str, str] = {}
        """The first unit of each open document, by URI, until there are other units."""
        self._active: dict[WorkspaceFolder, dict[str, None]] = {}
        """The cached result of `of_documents`."""
        self._requested: dict[WorkspaceFolder, set[str]] = {}
        """The templates whose readers are not known."""
        self._requested_again: dict[WorkspaceFolder, set[str]] = {}
        self._focus_soon = Debouncer(session.start, self._update_focus, FOCUS)

    def units(self, document: TextDocument) -> list[Unit]:
        """The units that are made of a document, in the order of the kernel files."""
        folder = self._session.folder_for(document)
        if folder is None:
            return []
        virtual = document.virtual
        if virtual is not None:
            return [folder.units[virtual.unit]] if virtual.unit in folder.units else []
        path = document.path or ""
        if document.kind is DocumentKind.KERNEL_FILE:
            return folder.units_at(path)
        if document.kind is not DocumentKind.TEMPLATE:
            return []
        if path not in self._readers:
            self._request_readers(folder, path)
        return [folder.units[name] for name in self._readers.get(path, ()) if name in folder.units]

    def unit(self, document: TextDocument) -> Unit | None:
        """The active unit of a document; None where nothing is made of it, as far as is known."""
        folder = self._session.folder_for(document)
        if folder is None:
            return None
        for place in (document.path or "", "", None):
            name = self._first.get(document.uri, "") if place is None else self._chosen.get(place, "")
            unit = folder.units.get(name)
            if unit is not None and self._is_of(unit, document):
                return unit
        first = next(iter(self.units(document)), None)
        if first is not None and document.uri in self._session.documents:
            self._first[document.uri] = first.id
        return first

    async def find_units(self, document: TextDocument) -> list[Unit]:
        """The same; the daemon is asked where none is known. Raises CkwatchError where there is no daemon."""
        folder = self._session.folder_for(document)
        if folder is not None and document.kind is DocumentKind.TEMPLATE and not self.units(document):
            await self._fetch_readers(folder, {document.path or ""})
        return self.units(document)

    def of_documents(self, folder: WorkspaceFolder) -> Collection[str]:
        """The active units of a workspace's open documents, in the order in which these were opened."""
        found = self._active.get(folder)
        if found is None:
            units = (self.unit(each) for each in self._documents(folder))
            found = self._active[folder] = dict.fromkeys(unit.id for unit in units if unit is not None)
        return found

    def excludes(self, document: TextDocument, unit: str) -> bool:
        """Return True if the unit is known not to be made of the document. One without readers may not be rendered
        yet."""
        readers = self._readers.get(document.path or "", ())
        return bool(readers) and unit not in readers

    def choose(self, document: TextDocument | None, unit: Unit) -> None:
        """Make `unit` the active one of the document, and of every other that is made of it and has no choice yet; the
        choice holds as long as the server lives."""
        if document is not None and document.path is not None:
            self._chosen[document.path] = unit.id
        self._chosen[""] = unit.id
        self._active.clear()
        self._focus_soon()
        for folder in self._session.folders.values():
            folder.mark_changed("active")

    def state_to_hand_over(self) -> dict[str, Any]:
        """The units that were chosen, by the paths of documents; the last one under an empty path."""
        return dict(self._chosen)

    def restore(self, state: dict[str, Any]) -> None:
        """Take the choices."""
        self._chosen.update(state)
        self._active.clear()

    def current(self) -> tuple[WorkspaceFolder, Unit] | None:
        """The unit that was chosen last, else the active one of the document that was opened last and has any."""
        found = self._session.unit(self._chosen.get("", ""))
        if found is not None:
            return found
        for document in reversed(list(self._session.documents.values())):
            unit, folder = self.unit(document), self._session.folder_for(document)
            if unit is not None and folder is not None:
                return folder, unit
        return None

    def is_chosen(self, document: TextDocument) -> bool:
        """Return True if the user has chosen the document's active unit."""
        unit = self.unit(document)
        return unit is not None and unit.id in (self._chosen.get(document.path or ""), self._chosen.get(""))

    def opened(self, document: TextDocument) -> None:  # noqa: ARG002  # all of them are in focus
        """Work on its unit first."""
        self._active.clear()
        self._focus_soon()

    def closed(self, document: TextDocument) -> None:  # noqa: ARG002  # as above
        """Its unit is not in focus any more."""
        self._active.clear()
        self._focus_soon()

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Units may be new, gone, or made of other files."""
        templates = topics.named("readers")
        if topics.moves_units:
            self._first.clear()
        for path in templates:
            for document in self._session.documents.at(path):
                self._first.pop(document.uri, None)
        if templates or topics.moves_units:
            self._active.clear()
            self._focus_soon()
        if topics.any_of("rendered", "connection"):
            for document in self._documents(folder):
                if document.kind is DocumentKind.TEMPLATE:
                    self._request_readers(folder, document.path or "")

    def configured(self) -> None:
        """Other units may be built first."""
        self._focus_soon()

    def _is_of(self, unit: Unit, document: TextDocument) -> bool:
        if document.virtual is not None:
            return document.virtual.unit == unit.id
        if document.kind is DocumentKind.KERNEL_FILE:
            return unit.place.path == document.path
        return unit.id in self._readers.get(document.path or "", ())

    def _documents(self, folder: WorkspaceFolder) -> list[TextDocument]:
        return [each for each in self._session.documents.values() if self._session.folder_for(each) is folder]

    async def _update_focus(self) -> None:
        for folder in self._session.folders.values():
            settings = self._session.settings
            units: Sequence[str] = ()
            files: Sequence[str] = ()
            if settings.build_first == "all":
                files = [each.path for each in self._documents(folder) if each.path is not None]
            elif settings.build_first == "active":
                units = tuple(self.of_documents(folder))
            folder.focus(units, files=files, compile_unsaved=settings.host_check_on_type)

    def _request_readers(self, folder: WorkspaceFolder, path: str) -> None:
        requested = self._requested_again if path in self._readers else self._requested
        paths = requested.setdefault(folder, set())
        if not paths:
            self._session.start(self._follow_readers, folder, requested)
        paths.add(path)

    async def _follow_readers(self, folder: WorkspaceFolder, requested: dict[WorkspaceFolder, set[str]]) -> None:
        """Fetch those of all templates that are requested until then."""
        if requested is self._requested_again:
            await anyio.sleep(READERS.seconds)
        paths = requested.pop(folder)  # what changes from now on is a reason to ask once more
        with suppress(CkwatchError):
            await self._fetch_readers(folder, paths)

    async def _fetch_readers(self, folder: WorkspaceFolder, paths: Collection[str]) -> None:
        found = {path: tuple(readers) for path, readers in (await folder.ready.readers_of(paths)).items()}
        for path, readers in found.items():
            if self._readers.get(path) != readers:
                self._readers[path] = readers
                folder.mark_changed(f"readers/{path}")
