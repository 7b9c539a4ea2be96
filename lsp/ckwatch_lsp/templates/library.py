"""Keeps the templates of each workspace, with the words that its daemon knows, and the values of its instances."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.errors import CkwatchError
from ckwatch_lsp.documents import Document, Kind
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.jinja.index import File, Index
from ckwatch_lsp.jinja.words import words
from ckwatch_lsp.parts import Part
from ckwatch_lsp.templates.files import Opened, Shelf, TemplateFiles
from ckwatch_templates import ROOT

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

_log = logging.getLogger(__name__)


class _Keeper:
    """What is known of one workspace's templates."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.files = TemplateFiles()
        self.words = words()
        self.has_words = False
        self.learns = False
        self.folders: tuple[str, ...] = (str(folder.root / "templates"), str(ROOT))
        self.look = True
        self.lock = anyio.Lock()


class TemplateLibrary(Part):
    """The templates of all workspaces."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keepers: dict[Path, _Keeper] = {}

    async def shelf(self, folder: Folder) -> Shelf:
        """The templates of a workspace as they are now, on disk or open."""
        keeper = self._keeper(folder)
        async with keeper.lock:
            look, keeper.look = keeper.look, False
            opened = {
                each.path: Opened(each.text, each.revision)
                for each in self._session.documents.values()
                if each.kind is Kind.TEMPLATE
                and each.path is not None
                and self._session.folder_of(each.path) in (folder, None)
            }
            return await to_thread.run_sync(lambda: keeper.files.shelf(keeper.folders, opened, keeper.words, look=look))

    async def of(self, document: Document) -> tuple[Folder, Shelf, File] | None:
        """The workspace and templates that a document belongs to, and its own; None where it is in no workspace."""
        if document.path is None:
            return None
        folder = self._session.folder_of(document.path) or await self._session.find_folder(document.path)
        if folder is None and Path(document.path).is_relative_to(ROOT):
            folder = next(iter(self._session.folders.values()), None)  # a built-in template that somebody went to
        if folder is None:
            return None
        shelf = await self.shelf(folder)
        file = shelf.index.files.get(document.path)
        if file is None or file.template.text != document.text:
            file = await to_thread.run_sync(File, document.path, document.text)
            names, files = shelf.names, {**shelf.index.files, document.path: file}
            shelf = Shelf(Index(files, names.get, shelf.index.words), names)
        return folder, shelf, file

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Another daemon may know other words; other settings may name other folders."""
        keeper = self._keeper(folder)
        keeper.look = True
        settings = f"file/{folder.root / 'ckwatch.toml'}"
        known = keeper.has_words or keeper.learns
        if folder.client is not None and ("standing" in topics or settings in topics or not known):
            self._session.start(self._learn, keeper)

    def opened(self, document: Document) -> None:
        """There may be a file more."""
        self._look(document)

    def saved(self, document: Document) -> None:
        """There may be a file more, and other folders."""
        self._look(document)
        folder = self._session.folder_of(document.path)
        if document.kind is Kind.SETTINGS and folder is not None:
            self._session.start(self._learn, self._keeper(folder))

    def closed(self, document: Document) -> None:
        """What is on disk counts again."""
        self._look(document)

    def _look(self, document: Document) -> None:
        folder = self._session.folder_of(document.path)
        if folder is not None:
            self._keeper(folder).look = True

    def _keeper(self, folder: Folder) -> _Keeper:
        keeper = self._keepers.get(folder.root)
        if keeper is None or keeper.folder is not folder:
            keeper = self._keepers[folder.root] = _Keeper(folder)
        return keeper

    async def _learn(self, keeper: _Keeper) -> None:
        keeper.learns = True
        try:
            client = keeper.folder.ready
            known = await client.vocabulary()
            detail = await client.workspace()
        except CkwatchError as error:
            _log.info("%s: %s", keeper.folder.root, error)
            return
        finally:
            keeper.learns = False
        found = words(known.hooks, known.filters, known.tests, known.globals, known.tags)
        changed = found != keeper.words or detail.template_folders != keeper.folders
        keeper.words, keeper.has_words = (found if found != keeper.words else keeper.words), True
        if detail.template_folders:
            keeper.folders = detail.template_folders
        if changed:
            keeper.look = True
            if self._session.abilities.refreshes_tokens:
                self._session.server.workspace_semantic_tokens_refresh(None)
