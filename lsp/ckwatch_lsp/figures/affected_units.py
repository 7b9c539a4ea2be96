"""Counts the units that a macro affects: those that read its file, and of which a template calls it."""

from __future__ import annotations

from collections.abc import Iterable

from anyio import to_thread

from ckwatch_lsp.figures.anchors import FigureAnchors
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.templates.language.index import TemplateIndex, Variable
from ckwatch_lsp.templates.language.tags import Role

CALLS = frozenset({Role.LOAD, Role.ATTRIBUTE, Role.SOURCE})
"""Mentions that may be calls; that it is imported is none, unless under another name (`SOURCE`)."""

OTHERS = frozenset({"readers", "units", "connection"})
"""Topics after which other units may call a macro."""


class AffectedUnits(SessionListener):
    """Looks for calls in the background; answers from memory."""

    def __init__(self, session: Session, anchors: FigureAnchors, library: TemplateLibrary) -> None:
        self._session = session
        self._anchors = anchors
        self._library = library
        self._counts: dict[str, dict[str, int]] = {}
        self._asked: set[str] = set()

    def count(self, document: TextDocument, macro: str, readers: int) -> int:
        """The units that a macro of this document affects; as many as read the document, `readers`, until more is
        known."""
        return self._counts.get(document.uri, {}).get(macro, readers)

    def opened(self, document: TextDocument) -> None:
        """Count the units that its macros affect."""
        self._ask(document)

    def saved(self, document: TextDocument) -> None:  # noqa: ARG002  # it may call macros of any other
        """There may be more calls, or fewer."""
        for each in self._session.documents.values():
            self._ask(each)

    def closed(self, document: TextDocument) -> None:
        """Nobody looks at it any more."""
        self._counts.pop(document.uri, None)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: frozenset[str]) -> None:
        """Other units may read what calls them."""
        if topics & OTHERS:
            for each in self._session.documents.values():
                if self._session.folder_for(each) is folder:
                    self._ask(each)

    def _ask(self, document: TextDocument) -> None:
        wanted = document.kind is DocumentKind.TEMPLATE and document.uri not in self._asked
        if wanted and self._anchors.landmarks(document).macros:
            self._asked.add(document.uri)
            self._session.start(self._find, document)

    async def _find(self, document: TextDocument) -> None:
        try:
            found = await self._library.of(document)
            if found is None:
                return
            folder, templates, file = found
            names = [macro.name for macro in self._anchors.landmarks(document).macros]
            users = await to_thread.run_sync(callers, templates.index, file.path, names)
            client = folder.ready
            readers = {path: set(await client.readers(path)) for path in {file.path}.union(*users.values())}
        finally:
            self._asked.discard(document.uri)
        here = readers[file.path]
        units = {name: {unit for path in paths for unit in readers[path]} for name, paths in users.items()}
        counts = {name: len(calling & here) for name, calling in units.items()}
        if document.uri in self._session.documents and self._counts.get(document.uri) != counts:
            self._counts[document.uri] = counts
            folder.mark_changed("affected")


def callers(index: TemplateIndex, path: str, macros: Iterable[str]) -> dict[str, frozenset[str]]:
    """The files (paths) in which macros of the template at `path` are called. One that its own file calls may be meant
    wherever that file is read."""
    return {
        name: frozenset(place.path for place in index.places(Variable(path, 0, name)) if place.role in CALLS)
        for name in macros
    }
