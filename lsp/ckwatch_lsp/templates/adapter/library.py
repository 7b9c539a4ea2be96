"""The templates of each workspace: found in its template folders, parsed once, and parsed again when they change."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import file_status
from ckwatch_lsp.session.documents import DocumentKind, TextChange, TextDocument, read_text
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import NoAnswerError, SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.templates.language.index import BuiltinWords, TemplateFile, TemplateIndex, builtin_words
from ckwatch_templates import ROOT

SCAN_S = 2.0
"""How old a scan of the folders may be."""

FILE_LIMIT = 5_000
"""Templates of one workspace."""

SIZE_LIMIT = 2 * 1024 * 1024
"""Bytes of a template that is read from disk; larger ones are known by name only."""


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """The templates at one moment. `names` are those that kernel files and includes use, with the paths."""

    index: TemplateIndex
    names: Mapping[str, str]

    def name_of(self, path: str) -> str:
        """Return the name of the template at `path`."""
        return next((name for name, own in self.names.items() if own == path), os.path.basename(path))  # noqa: PTH119


class TemplateFiles:
    """Used by one thread at a time."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._paths: dict[str, None] = {}
        """The files with these names."""
        self._folders: tuple[str, ...] = ()
        self._scanned_at = -1.0
        self._stamps: dict[str, object] = {}
        """Stamps that tell if a file on disk differs from the one that was read; None for those that are open."""
        self._files: dict[str, TemplateFile] = {}
        self._words: BuiltinWords | None = None
        self._templates: TemplateSet | None = None

    def templates(
        self,
        folders: Sequence[str],
        changed: Mapping[str, str | None],
        words: BuiltinWords,
        *,
        rescan: bool = False,
    ) -> TemplateSet:
        """The templates as they are on disk or open.

        `changed`: the texts of documents that were opened or edited since the last call, None for those that were
        closed. `rescan`: scan the folders, however old the last scan is, as for a document that no scan has found.
        """
        stale, inside = words is not self._words, tuple(f"{folder}/" for folder in folders)
        for path, text in changed.items():
            stale = (self._close(path) if text is None else self._open(path, text)) or stale
            rescan = rescan or (path not in self._paths and path.startswith(inside) and os.path.isfile(path))  # noqa: PTH113
        if rescan or tuple(folders) != self._folders or time.monotonic() - self._scanned_at > SCAN_S:
            names = dict(_found(folders))
            self._folders, self._scanned_at = tuple(folders), time.monotonic()
            stale = names != self._names or stale
            self._names, self._paths = names, dict.fromkeys(names.values())
            stale = self._read_all() or stale
        if self._templates is None or stale:
            files = dict(self._files)
            known = {name: path for name, path in self._names.items() if path in files}
            self._templates, self._words = TemplateSet(TemplateIndex(files, known.get, words), known), words
        return self._templates

    def _open(self, path: str, text: str) -> bool:
        """Return True if that makes a difference."""
        changed = path not in self._files or self._files[path].template.text != text
        if changed:
            self._files[path] = TemplateFile(path, text)
        self._stamps[path] = None
        return changed

    def _close(self, path: str) -> bool:
        if path in self._paths:
            self._stamps.pop(path, None)
            return self._read(path)
        self._stamps.pop(path, None)
        return self._files.pop(path, None) is not None

    def _read_all(self) -> bool:
        """Return True if anything has changed on disk, apart from open files."""
        gone = [path for path in self._files if path not in self._paths and self._stamps[path] is not None]
        for path in gone:
            del self._files[path], self._stamps[path]
        changed = [
            self._read(path) for path in self._paths if path not in self._files or self._stamps[path] is not None
        ]
        return bool(gone) or any(changed)

    def _read(self, path: str) -> bool:
        """Return True if a file has changed on disk."""
        try:
            status = file_status(path)
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            if path in self._files and self._stamps.get(path) == stamp:
                return False
            text = "" if status.st_size > SIZE_LIMIT else read_text(path)
        except OSError:
            self._stamps.pop(path, None)
            return self._files.pop(path, None) is not None
        self._files[path], self._stamps[path] = TemplateFile(path, text), stamp
        return True


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
        self.changed: dict[str, TextDocument | None] = {}
        """Documents that were opened or edited since the templates were last read; None for those that were closed."""
        self.lock = anyio.Lock()


class TemplateLibrary(SessionListener):
    """The templates of all workspaces."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workspaces: dict[Path, _WorkspaceTemplates] = {}

    async def templates(self, folder: WorkspaceFolder) -> TemplateSet:
        """The templates of a workspace as they are now, on disk or open."""
        workspace = self._workspace(folder)
        async with workspace.lock:
            rescan, workspace.rescan = workspace.rescan, False
            changed, workspace.changed = workspace.changed, {}
            texts = {path: None if document is None else document.text for path, document in changed.items()}
            return await to_thread.run_sync(
                lambda: workspace.files.templates(workspace.folders, texts, workspace.words, rescan=rescan)
            )

    def folders(self, folder: WorkspaceFolder) -> Sequence[str]:
        """The folders of a workspace in which templates are looked for."""
        return self._workspace(folder).folders

    async def folder_of(self, document: TextDocument) -> WorkspaceFolder | None:
        """The workspace among whose templates a document is; None where there is none."""
        if document.path is None:
            return None
        folder = self._session.folder_of(document.path) or await self._session.find_folder(document.path)
        if folder is None and _is_built_in(document):
            folder = next(iter(self._session.folders.values()), None)
        return folder

    async def of(self, document: TextDocument) -> tuple[WorkspaceFolder, TemplateSet, TemplateFile]:
        """The workspace and templates that a document belongs to, and its own. Raises NoAnswerError where it is in no
        workspace."""
        folder = await self.folder_of(document)
        if folder is None or document.path is None:
            raise NoAnswerError
        if self._session.documents.get(document.uri) is document:
            self._note(document)
        templates = await self.templates(folder)
        file = templates.index.files.get(document.path)
        if file is None or file.template.text != document.text:
            file = await to_thread.run_sync(TemplateFile, document.path, document.text)
            names, files = templates.names, {**templates.index.files, document.path: file}
            templates = TemplateSet(TemplateIndex(files, names.get, templates.index.words), names)
        return folder, templates, file

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Another daemon may know other words; other settings may name other folders."""
        workspace = self._workspace(folder)
        workspace.rescan = True
        settings = str(folder.root / "ckwatch.toml") in topics.named("file")
        known = workspace.has_words or workspace.is_fetching
        if folder.client is not None and (topics.any_of("connection") or settings or not known):
            self._session.start(self._fetch_vocabulary, workspace)

    def opened(self, document: TextDocument) -> None:
        """Its text counts, not the file's."""
        self._note(document)

    def changed(self, document: TextDocument, edits: Sequence[TextChange]) -> None:  # noqa: ARG002  # it is read again
        """It has another text."""
        self._note(document)

    def saved(self, document: TextDocument) -> None:
        """It may be a new file, or settings with other folders."""
        self._note(document)
        folder = self._session.folder_of(document.path)
        if document.kind is DocumentKind.SETTINGS and folder is not None:
            self._session.start(self._fetch_vocabulary, self._workspace(folder))

    def closed(self, document: TextDocument) -> None:
        """The file on disk counts again."""
        self._note(document)

    def _note(self, document: TextDocument) -> None:
        """A document was opened, edited or closed."""
        if document.kind is not DocumentKind.TEMPLATE or document.path is None:
            return
        folder = self._session.folder_of(document.path)
        if folder is not None:
            workspaces: Iterable[_WorkspaceTemplates] = [self._workspace(folder)]
        else:
            workspaces = self._workspaces.values() if _is_built_in(document) else ()
        for workspace in workspaces:
            workspace.changed[document.path] = self._session.open_at(document.path)

    def _workspace(self, folder: WorkspaceFolder) -> _WorkspaceTemplates:
        workspace = self._workspaces.get(folder.root)
        if workspace is None or workspace.folder is not folder:
            workspace = self._workspaces[folder.root] = _WorkspaceTemplates(folder)
            for document in self._session.documents.values():
                if _is_built_in(document) or self._session.folder_of(document.path) is folder:
                    self._note(document)
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
            if self._session.capabilities.refreshes_tokens:
                await self._session.editor.refresh("tokens")


def _is_built_in(document: TextDocument) -> bool:
    return document.path is not None and Path(document.path).is_relative_to(ROOT)
