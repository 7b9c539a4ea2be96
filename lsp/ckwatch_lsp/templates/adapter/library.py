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

SCAN_S = 2.0
"""How old a scan of the folders may be."""

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
        self._scanned_at = -1.0
        self._files: dict[str, tuple[object, TemplateFile]] = {}
        self._templates: TemplateSet | None = None
        self._made_of: object = None

    def templates(
        self, folders: Sequence[str], opened: Mapping[str, OpenTemplate], words: BuiltinWords, *, rescan: bool = False
    ) -> TemplateSet:
        """The templates as they are on disk or open. `rescan`: scan the folders, however old the last scan is."""
        now = time.monotonic()
        if rescan or tuple(folders) != self._folders or now - self._scanned_at > SCAN_S:
            self._names = dict(_found(folders))
            self._folders, self._scanned_at = tuple(folders), now
            self._read_all(opened)
        self._read_opened(opened)
        files = {path: file for path, (_, file) in self._files.items()}
        names = {name: path for name, path in self._names.items() if path in files}
        made_of = (tuple(files.items()), tuple(names.items()), id(words))
        if self._templates is None or made_of != self._made_of:
            self._templates = TemplateSet(TemplateIndex(files, names.get, words), names)
            self._made_of = made_of
        return self._templates

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
    """One workspace's templates."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self.folder = folder
        self.files = TemplateFiles()
        self.words = builtin_words()
        self.has_words = False
        self.is_fetching = False
        self.folders: tuple[str, ...] = (str(folder.root / "templates"), str(ROOT))
        self.rescan = True
        self.lock = anyio.Lock()


class TemplateLibrary(SessionListener):
    """The templates of all workspaces."""

    def __init__(self, session: Session, editor: EditorClient) -> None:
        self._session = session
        self._editor = editor
        self._workspaces: dict[Path, _WorkspaceTemplates] = {}

    async def templates(self, folder: WorkspaceFolder) -> TemplateSet:
        """The templates of a workspace as they are now, on disk or open."""
        workspace = self._workspace(folder)
        async with workspace.lock:
            rescan, workspace.rescan = workspace.rescan, False
            opened = {
                each.path: OpenTemplate(each.text, each.revision)
                for each in self._session.documents.values()
                if each.kind is DocumentKind.TEMPLATE
                and each.path is not None
                and self._session.folder_of(each.path) in (folder, None)
            }
            return await to_thread.run_sync(
                lambda: workspace.files.templates(workspace.folders, opened, workspace.words, rescan=rescan)
            )

    async def of(self, document: TextDocument) -> tuple[WorkspaceFolder, TemplateSet, TemplateFile] | None:
        """The workspace and templates that a document belongs to, and its own; None where it is in no workspace."""
        if document.path is None:
            return None
        folder = self._session.folder_of(document.path) or await self._session.find_folder(document.path)
        if folder is None and Path(document.path).is_relative_to(ROOT):
            folder = next(iter(self._session.folders.values()), None)  # a built-in template
        if folder is None:
            return None
        templates = await self.templates(folder)
        file = templates.index.files.get(document.path)
        if file is None or file.template.text != document.text:
            file = await to_thread.run_sync(TemplateFile, document.path, document.text)
            names, files = templates.names, {**templates.index.files, document.path: file}
            templates = TemplateSet(TemplateIndex(files, names.get, templates.index.words), names)
        return folder, templates, file

    def on_daemon_change(self, folder: WorkspaceFolder, topics: frozenset[str]) -> None:
        """Another daemon may know other words; other settings may name other folders."""
        workspace = self._workspace(folder)
        workspace.rescan = True
        settings = f"file/{folder.root / 'ckwatch.toml'}"
        known = workspace.has_words or workspace.is_fetching
        if folder.client is not None and ("connection" in topics or settings in topics or not known):
            self._session.start(self._fetch_vocabulary, workspace)

    def opened(self, document: TextDocument) -> None:
        """It may be a new file."""
        self._rescan(document)

    def saved(self, document: TextDocument) -> None:
        """It may be a new file, or settings with other folders."""
        self._rescan(document)
        folder = self._session.folder_of(document.path)
        if document.kind is DocumentKind.SETTINGS and folder is not None:
            self._session.start(self._fetch_vocabulary, self._workspace(folder))

    def closed(self, document: TextDocument) -> None:
        """The file on disk counts again."""
        self._rescan(document)

    def _rescan(self, document: TextDocument) -> None:
        folder = self._session.folder_of(document.path)
        if folder is not None:
            self._workspace(folder).rescan = True

    def _workspace(self, folder: WorkspaceFolder) -> _WorkspaceTemplates:
        workspace = self._workspaces.get(folder.root)
        if workspace is None or workspace.folder is not folder:
            workspace = self._workspaces[folder.root] = _WorkspaceTemplates(folder)
        return workspace

    async def _fetch_vocabulary(self, workspace: _WorkspaceTemplates) -> None:
        workspace.is_fetching = True
        try:
            client = workspace.folder.ready
            known = await client.vocabulary()
            detail = await client.workspace()
        except CkwatchError as error:
            _log.info("%s: %s", workspace.folder.root, error)
            return
        finally:
            workspace.is_fetching = False
        found = builtin_words(known.hooks, known.filters, known.tests, known.globals, known.tags)
        changed = found != workspace.words or detail.template_folders != workspace.folders
        workspace.words, workspace.has_words = (found if found != workspace.words else workspace.words), True
        if detail.template_folders:
            workspace.folders = detail.template_folders
        if changed:
            workspace.rescan = True
            if self._editor.capabilities.refreshes_tokens:
                await self._editor.refresh("tokens")
