"""The templates of each workspace: found in its template folders, parsed once, and parsed again when they change."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.protocol.editor_client import EditorClient
from ckwatch_lsp.session.documents import DocumentKind, TextDocument, read_text
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.language.index import BuiltinWords, TemplateFile, TemplateIndex, builtin_words
from ckwatch_templates import ROOT

LOOK_S = 2.0
"""Folders are looked through again when the last time was so long ago."""

FILE_LIMIT = 5_000
"""Templates of one workspace."""

SIZE_LIMIT = 2 * 1024 * 1024
"""Bytes of a template that is read from disk; larger ones are known by name only."""


@dataclass(frozen=True, slots=True)
class OpenTemplate:
    """The text of a document that is open, and the count of its changes."""

    text: str
    revision: int


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """The templates at one moment. `names` are those that kernel files and includes use, with the paths."""

    index: TemplateIndex
    names: Mapping[str, str]

    def name_of(self, path: str) -> str:
        """What the template at `path` is called."""
        return next((name for name, own in self.names.items() if own == path), os.path.basename(path))  # noqa: PTH119


class TemplateFiles:
    """Used by one thread at a time."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._folders: tuple[str, ...] = ()
        self._looked_at = -1.0
        self._files: dict[str, tuple[object, TemplateFile]] = {}
        self._shelf: TemplateSet | None = None
        self._made_of: object = None

    def shelf(
        self, folders: Sequence[str], opened: Mapping[str, OpenTemplate], words: BuiltinWords, *, look: bool = False
    ) -> TemplateSet:
        """The templates as they are on disk or open. `look`: look through the folders whenever that was last done."""
        now = time.monotonic()
        if look or tuple(folders) != self._folders or now - self._looked_at > LOOK_S:
            self._names = dict(_found(folders))
            self._folders, self._looked_at = tuple(folders), now
            self._read_all(opened)
        self._read_opened(opened)
        files = {path: file for path, (_, file) in self._files.items()}
        names = {name: path for name, path in self._names.items() if path in files}
        made_of = (tuple(files.items()), tuple(names.items()), id(words))
        if self._shelf is None or made_of != self._made_of:
            self._shelf = TemplateSet(TemplateIndex(files, names.get, words), names)
            self._made_of = made_of
        return self._shelf

    def _read_all(self, opened: Mapping[str, OpenTemplate]) -> None:
        paths = dict.fromkeys(self._names.values())
        for path in [path for path in self._files if path not in paths and path not in opened]:
            del self._files[path]
        for path in paths:
            if path in opened:
                continue
            try:
                status = os.stat(path)  # noqa: PTH116  # Path cannot hold every name
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                if status.st_size > SIZE_LIMIT:
                    self._files[path] = (stamp, TemplateFile(path, ""))
                elif path not in self._files or self._files[path][0] != stamp:
                    self._files[path] = (stamp, TemplateFile(path, read_text(path)))
            except OSError:
                self._files.pop(path, None)

    def _read_opened(self, opened: Mapping[str, OpenTemplate]) -> None:
        for path, one in opened.items():
            known = self._files.get(path)
            if known is None or known[0] != one.revision or known[1].template.text != one.text:
                self._files[path] = (one.revision, TemplateFile(path, one.text))
        closed = [path for path, (stamp, _) in self._files.items() if isinstance(stamp, int) and path not in opened]
        for path in closed:
            del self._files[path]
        if closed:
            self._read_all(opened)


def _found(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and paths; of two with one name the first counts."""
    seen: set[str] = set()
    for folder in folders:
        for parent, below, files in os.walk(folder):
            below[:] = sorted(name for name in below if not name.startswith(".") and name != "__pycache__")
            for file in sorted(files):
                path = os.path.join(parent, file)  # noqa: PTH118  # as above
                name = Path(os.path.relpath(path, folder)).as_posix()
                if file.endswith(".j2") and name not in seen:
                    seen.add(name)
                    yield name, path
                    if len(seen) >= FILE_LIMIT:
                        return


_log = logging.getLogger(__name__)


class _WorkspaceTemplates:
    """What is known of one workspace's templates."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self.folder = folder
        self.files = TemplateFiles()
        self.words = builtin_words()
        self.has_words = False
        self.learns = False
        self.folders: tuple[str, ...] = (str(folder.root / "templates"), str(ROOT))
        self.look = True
        self.lock = anyio.Lock()


class TemplateLibrary(SessionListener):
    """The templates of all workspaces."""

    def __init__(self, session: Session, editor: EditorClient) -> None:
        self._session = session
        self._editor = editor
        self._keepers: dict[Path, _WorkspaceTemplates] = {}

    async def shelf(self, folder: WorkspaceFolder) -> TemplateSet:
        """The templates of a workspace as they are now, on disk or open."""
        keeper = self._keeper(folder)
        async with keeper.lock:
            look, keeper.look = keeper.look, False
            opened = {
                each.path: OpenTemplate(each.text, each.revision)
                for each in self._session.documents.values()
                if each.kind is DocumentKind.TEMPLATE
                and each.path is not None
                and self._session.folder_of(each.path) in (folder, None)
            }
            return await to_thread.run_sync(lambda: keeper.files.shelf(keeper.folders, opened, keeper.words, look=look))

    async def of(self, document: TextDocument) -> tuple[WorkspaceFolder, TemplateSet, TemplateFile] | None:
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
            file = await to_thread.run_sync(TemplateFile, document.path, document.text)
            names, files = shelf.names, {**shelf.index.files, document.path: file}
            shelf = TemplateSet(TemplateIndex(files, names.get, shelf.index.words), names)
        return folder, shelf, file

    def on_daemon_change(self, folder: WorkspaceFolder, topics: frozenset[str]) -> None:
        """Another daemon may know other words; other settings may name other folders."""
        keeper = self._keeper(folder)
        keeper.look = True
        settings = f"file/{folder.root / 'ckwatch.toml'}"
        known = keeper.has_words or keeper.learns
        if folder.client is not None and ("standing" in topics or settings in topics or not known):
            self._session.start(self._learn, keeper)

    def opened(self, document: TextDocument) -> None:
        """There may be a file more."""
        self._look(document)

    def saved(self, document: TextDocument) -> None:
        """There may be a file more, and other folders."""
        self._look(document)
        folder = self._session.folder_of(document.path)
        if document.kind is DocumentKind.SETTINGS and folder is not None:
            self._session.start(self._learn, self._keeper(folder))

    def closed(self, document: TextDocument) -> None:
        """What is on disk counts again."""
        self._look(document)

    def _look(self, document: TextDocument) -> None:
        folder = self._session.folder_of(document.path)
        if folder is not None:
            self._keeper(folder).look = True

    def _keeper(self, folder: WorkspaceFolder) -> _WorkspaceTemplates:
        keeper = self._keepers.get(folder.root)
        if keeper is None or keeper.folder is not folder:
            keeper = self._keepers[folder.root] = _WorkspaceTemplates(folder)
        return keeper

    async def _learn(self, keeper: _WorkspaceTemplates) -> None:
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
        found = builtin_words(known.hooks, known.filters, known.tests, known.globals, known.tags)
        changed = found != keeper.words or detail.template_folders != keeper.folders
        keeper.words, keeper.has_words = (found if found != keeper.words else keeper.words), True
        if detail.template_folders:
            keeper.folders = detail.template_folders
        if changed:
            keeper.look = True
            if self._editor.capabilities.refreshes_tokens:
                await self._editor.refresh("tokens")
