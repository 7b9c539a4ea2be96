"""Counts the units that a macro affects: those that read its file, and of which a template calls it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from anyio import to_thread

from ckwatch.model.delays import REFRESH
from ckwatch_lsp.figures.anchors import FigureAnchors
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.templates.language.index import TemplateIndex, Variable
from ckwatch_lsp.templates.language.tags import Role

CALLS = frozenset({Role.LOAD, Role.ATTRIBUTE, Role.SOURCE})
"""Mentions that may be calls; that it is imported is none, unless under another name (`SOURCE`)."""


class AffectedUnits(SessionListener):
    """Looks for calls in the background, for all documents at once; answers from memory."""

    def __init__(self, session: Session, anchors: FigureAnchors, library: TemplateLibrary) -> None:
        self._session = session
        self._anchors = anchors
        self._library = library
        self._counts: dict[str, dict[str, int]] = {}
        self._callers: dict[str, frozenset[str]] = {}
        """The paths of what defines or calls a document's macros, by the URI of the document."""
        self._count_soon = Debouncer(session.start, self._count, REFRESH)

    def count(self, document: TextDocument, macro: str, readers: int) -> int:
        """The units that a macro of this document affects; as many as read the document, `readers`, until more is
        known."""
        return self._counts.get(document.uri, {}).get(macro, readers)

    def opened(self, document: TextDocument) -> None:
        """Count the units that its macros affect."""
        self._ask([document])

    def saved(self, document: TextDocument) -> None:
        """There may be more calls, or fewer, of what this one calls or defines."""
        if document.kind is DocumentKind.TEMPLATE:
            self._ask(self._session.documents.values())

    def closed(self, document: TextDocument) -> None:
        """Nobody looks at it any more."""
        self._counts.pop(document.uri, None)
        self._callers.pop(document.uri, None)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Other units may read what calls them."""
        documents = self._session.documents
        if topics.moves_units:
            self._ask(each for each in documents.values() if self._session.folder_for(each) is folder)
        changed = topics.named("readers")
        if changed:
            self._ask(documents[uri] for uri, paths in self._callers.items() if not paths.isdisjoint(changed))

    def _ask(self, documents: Iterable[TextDocument]) -> None:
        wanted = [each.uri for each in documents if each.kind is DocumentKind.TEMPLATE]
        if wanted:
            self._count_soon(*wanted)

    async def _count(self, *asked: str) -> None:
        """Count the units that macros of these documents affect."""
        by_folder: dict[WorkspaceFolder, list[TextDocument]] = {}
        for uri in asked:
            document = self._session.documents.get(uri)
            if document is not None and self._anchors.landmarks(document).macros:
                folder = await self._library.folder_of(document)
                if folder is not None:
                    by_folder.setdefault(folder, []).append(document)
        for folder, documents in by_folder.items():
            self._session.start(self._count_in, folder, documents)

    async def _count_in(self, folder: WorkspaceFolder, documents: Sequence[TextDocument]) -> None:
        templates = await self._library.templates(folder)
        macros = [
            (each, Variable(each.path, 0, macro.name))
            for each in documents
            if each.path is not None and each.path in templates.index.files
            for macro in self._anchors.landmarks(each).macros
        ]
        users = await to_thread.run_sync(callers, templates.index, {macro for _, macro in macros})
        paths = {macro.path for _, macro in macros}.union(*users.values())
        related = {document.uri: {document.path or ""} for document in documents}
        for document, macro in macros:
            related[document.uri] |= {macro.path, *users[macro]}
        self._callers |= {uri: frozenset(each) for uri, each in related.items() if uri in self._session.documents}
        readers = {path: set(units) for path, units in (await folder.ready.readers_of(paths)).items()}
        counts: dict[str, dict[str, int]] = {document.uri: {} for document in documents}
        for document, macro in macros:
            calling = set[str]().union(*(readers[path] for path in users[macro]))
            counts[document.uri][macro.name] = len(calling & readers[macro.path])
        for document in documents:
            found = counts[document.uri]
            if document.uri in self._session.documents and self._counts.get(document.uri) != found:
                self._counts[document.uri] = found
                folder.mark_changed(f"affected/{document.path}")


def callers(index: TemplateIndex, macros: Collection[Variable]) -> dict[Variable, set[str]]:
    """The files (paths) in which each of these macros is called. One that its own file calls may be meant wherever that
    file is read."""
    found: dict[Variable, set[str]] = {macro: set() for macro in macros}
    names = {macro.name for macro in macros}
    for path, file in index.files.items():
        for name in names.intersection(file.names.by_name):
            for mention in file.names.by_name[name]:
                if mention.role in CALLS:
                    for entity in index.entities(file, mention):
                        if entity in found:
                            found[entity].add(path)
    return found
