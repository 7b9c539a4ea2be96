"""One editor's documents, workspaces, settings, listeners and providers."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from lsprotocol import types

from ckwatch.client import find_workspace
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range, Span
from ckwatch.wire.state import Unit
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.server import CkwatchServer
from ckwatch_lsp.protocol.uris import VirtualUri, path_of, uri_of
from ckwatch_lsp.session.documents import (
    WORKSPACE_KINDS,
    DocumentKind,
    OpenDocuments,
    TextChange,
    TextDocument,
    editor_range,
    read_text,
)
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.given_tokens import GivenTokens
from ckwatch_lsp.session.providers import LanguageProvider, SessionListener
from ckwatch_lsp.session.settings import EditorSettings
from ckwatch_lsp.session.topics import Topics

_log = logging.getLogger(__name__)

KEPT_TEXTS = 64
"""Files that are not open whose lines are kept to translate places in them."""

PATHS = 50_000
"""Paths whose workspaces are kept: far more than documents are open at a time."""


class Session:
    """One editor's documents, workspaces and settings, and the listeners and providers that serve them.

    `virtual_at`: what the file at a path shows, if it shows a virtual document.
    """

    def __init__(self, tasks: TaskGroup, virtual_at: Callable[[str | None], VirtualUri | None]) -> None:
        self.editor: CkwatchServer
        """Known once the editor has initialized the server."""
        self.capabilities = EditorCapabilities()
        self.settings = EditorSettings()
        self.documents = OpenDocuments()
        self.folders: dict[Path, WorkspaceFolder] = {}
        self._folder_of: dict[str, WorkspaceFolder | None] = {}
        """By the paths of files that were requested."""
        self.information: Callable[[str], Sequence[types.Diagnostic]] = lambda _path: ()
        """Diagnostics with figures, beside the daemon's: of the file at a path, for the text as it is now."""
        self.information_changed: Callable[[Iterable[str]], None] = lambda _paths: None
        """To be called with the paths of files that have others."""
        self.listeners: list[SessionListener] = []
        self.providers: dict[DocumentKind, list[LanguageProvider]] = {}
        """By the kind of document that they answer for; their answers are joined."""
        self.is_header: Callable[[str], bool] = lambda _path: False
        """Returns True if the file at a path is a header; its name does not tell."""
        self.cursors: dict[str, int] = {}
        """The lines of open documents, by URI, on which the cursor was as last reported by the editor."""
        self.given_tokens = GivenTokens()
        self._tasks = tasks
        self._virtual_at = virtual_at
        self._texts: dict[str, tuple[tuple[int, int], TextDocument]] = {}
        self._introducing: dict[TextDocument, anyio.Event] = {}

    def start(self, run: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        """Run a task in the background. What it raises is logged, and ends nothing else."""
        self._tasks.start_soon(self._guarded, run, arguments)

    async def _guarded(self, run: Callable[..., Coroutine[Any, Any, object]], arguments: Sequence[object]) -> None:
        try:
            await run(*arguments)
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # at shutdown pygls cancels what waits for an answer, and that must not end everything else
        except CkwatchError as error:
            _log.warning("%s", error)
        except Exception:  # noqa: BLE001  # the editor goes on with what works
            _log.exception("unexpected")

    # Workspaces.

    def folder_of(self, path: str | None) -> WorkspaceFolder | None:
        """The workspace that a file lies in, once it is known; the innermost."""
        if path is None:
            return None
        if path not in self._folder_of:
            if len(self._folder_of) >= PATHS:
                self._folder_of.clear()
            parents = Path(path).parents
            self._folder_of[path] = next((self.folders[each] for each in parents if each in self.folders), None)
        return self._folder_of[path]

    def folder_for(self, document: TextDocument) -> WorkspaceFolder | None:
        """The workspace of a document, also of one that is no file."""
        if document.virtual is not None:
            return self.folders.get(document.virtual.folder)
        return self.folder_of(document.path)

    async def find_folder(self, path: str) -> WorkspaceFolder | None:
        """The workspace that a file lies in, which is connected to if it is new; None if it lies in none."""
        root = await to_thread.run_sync(_workspace_of, path)
        return None if root is None else self.open_folder(root)

    def open_folder(self, root: Path) -> WorkspaceFolder:
        """The workspace at `root`."""
        folder = self.folders.get(root)
        if folder is None:
            folder = self.folders[root] = WorkspaceFolder(
                root,
                self.on_daemon_change,
                start=self.settings.start_daemon,
                shows=self.capabilities.shows_documents,
                is_open=lambda path: path in self.documents.paths(),
            )
            self._folder_of.clear()
            self.start(folder.run)
        return folder

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """The daemon of `folder` has reported changes."""
        for listener in self.listeners:
            listener.on_daemon_change(folder, topics)

    def unit(self, name: str) -> tuple[WorkspaceFolder, Unit] | None:
        """The unit `KERNEL/INSTANCE@ARCH`, of whatever workspace has it."""
        for folder in self.folders.values():
            if name in folder.units:
                return folder, folder.units[name]
        return None

    def kernel_file(self, name: str) -> str | None:
        """The kernel file in which the unit `KERNEL/INSTANCE@ARCH` stands, of whatever workspace has it."""
        paths = (folder.units.path(name) for folder in self.folders.values())
        return next((path for path in paths if path is not None), None)

    # Documents.

    def opened(self, item: types.TextDocumentItem) -> None:
        """The editor has opened a document."""
        document = TextDocument(item.uri, item.text, item.version, self.capabilities.encoding, item.language_id)
        shown = self._virtual_at(document.path)
        if shown is not None:
            document.virtual, document.kind = shown, DocumentKind.VIRTUAL
        self._find_kind(document)
        self.documents[item.uri] = document
        self._introducing[document] = anyio.Event()
        self.start(self._introduce, document)

    def _find_kind(self, document: TextDocument) -> None:
        if document.kind is DocumentKind.OTHER and document.path is not None and self.is_header(document.path):
            document.kind = DocumentKind.HEADER

    async def introduced(self, document: TextDocument) -> None:
        """Return when the workspace of an open document is known."""
        if document in self._introducing:
            await self._introducing[document].wait()

    async def _introduce(self, document: TextDocument) -> None:
        try:
            await self._introduce_to_folder(document)
        finally:
            self._introducing.pop(document).set()

    async def _introduce_to_folder(self, document: TextDocument) -> None:
        if document.path is not None and document.kind in WORKSPACE_KINDS:
            folder = await self.find_folder(document.path)
            if folder is not None and self.documents.get(document.uri) is document:
                folder.wake()
                if self.settings.check_on_type:
                    folder.overlays.changed(document)
        if self.documents.get(document.uri) is document:
            for listener in self.listeners:
                listener.opened(document)

    def changed(self, uri: str, version: int | None, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """The editor has changed a document. A change of one that is not open is passed over."""
        document = self.documents.get(uri)
        if document is None:
            _log.warning("a change of %s, which is not open", uri)
            return
        edits: list[TextChange] = document.change(changes, version)
        folder = self.folder_of(document.path)
        if folder is not None and document.kind in WORKSPACE_KINDS and self.settings.check_on_type:
            folder.overlays.changed(document)
        for listener in self.listeners:
            listener.changed(document, edits)
        if edits and edits[-1].before.start != Position(0, 0):  # else it may be a new text
            self.point(document, edits[-1].end.line)

    def point(self, document: TextDocument, line: int) -> None:
        """The cursor is on this line."""
        if document.uri in self.documents and self.cursors.get(document.uri) != line:
            self.cursors[document.uri] = line
            for listener in self.listeners:
                listener.pointed(document)

    def saved(self, uri: str) -> None:
        """The editor has saved a document."""
        document = self.documents.get(uri)
        if document is None:
            return
        document.saved = document.text
        folder = self.folder_of(document.path)
        if folder is not None:
            folder.wake()
            folder.overlays.saved(document)
        for listener in self.listeners:
            listener.saved(document)

    def closed(self, uri: str) -> None:
        """The editor has closed a document."""
        document = self.documents.pop(uri, None)
        self.cursors.pop(uri, None)
        if document is None:
            return
        folder = self.folder_of(document.path)
        if folder is not None:
            folder.overlays.closed(document)
            folder.units.forget()
        for listener in self.listeners:
            listener.closed(document)

    def open_at(self, path: str) -> TextDocument | None:
        """The open document of the file at `path`."""
        document = self.documents.get(uri_of(path))
        if document is not None:
            return document
        return next(iter(self.documents.at(path)), None)

    async def document(self, uri: str) -> TextDocument | None:
        """An open document, or the file at `uri` as it is on disk; None where there is neither."""
        known = self.documents.get(uri)
        if known is not None:
            return known
        path = path_of(uri)
        return None if path is None else await self.text_at(path)

    async def text_at(self, path: str) -> TextDocument | None:
        """The file at `path`, as it is open or else on disk; None if it cannot be read."""
        open_one = self.open_at(path)
        if open_one is not None:
            return open_one
        kept = self._texts.get(path)
        stamp = await to_thread.run_sync(_stamp, path)
        if stamp is None:
            self._texts.pop(path, None)
            return None
        if kept is not None and kept[0] == stamp:
            return kept[1]
        try:
            text = await to_thread.run_sync(read_text, path)
        except OSError:
            return None
        document = TextDocument(uri_of(path), text, None, self.capabilities.encoding)
        self._find_kind(document)
        self._texts[path] = (stamp, document)
        if len(self._texts) > KEPT_TEXTS:
            del self._texts[next(iter(self._texts))]
        return document

    def uri_at(self, path: str) -> str:
        """The URI of a file, as the editor writes it if it has it open."""
        document = self.open_at(path)
        return uri_of(path) if document is None else document.uri

    async def location(self, span: Span) -> types.Location:
        """Convert a place of the daemon's for the editor."""
        return types.Location(self.uri_at(span.path), await self.encode_range(span.path, span.range))

    async def encode_range(self, path: str, given: Range) -> types.Range:
        """Our range in the file at `path`, in the editor's units."""
        return editor_range(await self.text_at(path), given)

    def workspace_edit(self, edits: Mapping[str, Sequence[types.TextEdit]]) -> types.WorkspaceEdit:
        """Edits by URI, with the versions of open documents where the editor takes them."""
        if not self.capabilities.versioned_edits:
            return types.WorkspaceEdit(changes={uri: list(made) for uri, made in edits.items()})
        changes = []
        for uri, made in edits.items():
            document = self.documents.get(uri)
            named = types.OptionalVersionedTextDocumentIdentifier(uri, None if document is None else document.version)
            changes.append(types.TextDocumentEdit(named, list(made)))
        return types.WorkspaceEdit(document_changes=list(changes))


def _workspace_of(path: str) -> Path | None:
    try:
        return find_workspace(Path(path))
    except (CkwatchError, OSError, ValueError):
        return None


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  # Path cannot hold every name
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size
