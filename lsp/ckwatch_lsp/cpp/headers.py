"""Headers: which files are, and the unit by whose text each was reached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.commands.arguments import string_in
from ckwatch_lsp.protocol.client_capabilities import sent
from ckwatch_lsp.protocol.uris import path_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import WORKSPACE_KINDS, DocumentKind, TextDocument, kind_of
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_templates import ROOT

IS_HEADER = "ckwatch/isHeader"
"""A request of ours: `{uri}` → `{header, readOnly}`."""

REACHED = 10_000
"""Headers whose units are kept."""


class Headers(SessionListener):
    """A file is a header if it lies in a folder of the compiler's headers, or if a location in it was given."""

    state_key: ClassVar[str] = "Headers"

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self._active = active
        self._folders: dict[WorkspaceFolder, tuple[str, ...]] = {}
        self._reached: dict[str, tuple[str, str]] = {}
        """By path the workspace's folder and the unit."""
        session.is_header = self.is_header
        session.editor.add_request(IS_HEADER, self.answer)

    def is_header(self, path: str) -> bool:
        """Return True if the file at `path` is a header."""
        return path in self._reached or self._in_folders(path) is not None

    def is_read_only(self, path: str) -> bool:
        """Return True if a header, or a template that was reached, belongs to no workspace."""
        return self._session.folder_of(path) is None or self._in_folders(path) is not None

    def reached(self, path: str, folder: WorkspaceFolder, unit: str) -> None:
        """A place in the file at `path` was given, which the text of `unit` leads to."""
        if kind_of(f"file://{path}") in WORKSPACE_KINDS and not _is_built_in(path):
            return
        self._reached.pop(path, None)
        self._reached[path] = (str(folder.root), unit)
        if len(self._reached) > REACHED:
            del self._reached[next(iter(self._reached))]
        self._find_kinds(self._session.documents.at(path))

    def origin(self, document: TextDocument) -> tuple[WorkspaceFolder, str] | None:
        """The workspace and the unit whose text a header, or a template outside of workspaces, is part of."""
        path = document.path or ""
        root, name = self._reached.get(path, ("", ""))
        folder = self._session.folders.get(Path(root))
        if folder is not None and name in folder.units:
            return folder, name
        current = self._active.current()
        wanted = self._in_folders(path)
        if current is not None and (wanted is None or current[0] is wanted or wanted not in self._folders):
            return current[0], current[1].id
        if wanted is not None and wanted.units:
            return wanted, next(iter(wanted.units))
        return None

    async def answer(self, params: Any) -> dict[str, bool]:
        """Tell plug-ins if a document is a header and must not be changed."""
        path = path_of(string_in({"uri": sent(params, "uri")}, "uri"))
        header = path is not None and kind_of(f"file://{path}") is DocumentKind.OTHER and self.is_header(path)
        built_in = path is not None and _is_built_in(path)
        return {"header": header, "readOnly": path is not None and (built_in or (header and self.is_read_only(path)))}

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Another daemon may have another compiler."""
        if folder.client is not None and (topics.any_of("connection") or folder not in self._folders):
            self._folders.setdefault(folder, ())
            self._session.start(self._fetch, folder)

    def state_to_hand_over(self) -> dict[str, Any]:
        """Origins of the headers that were reached."""
        return {path: list(origin) for path, origin in self._reached.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """The editor may have them open."""
        self._reached.update({path: (root, unit) for path, (root, unit) in state.items()})

    async def _fetch(self, folder: WorkspaceFolder) -> None:
        try:
            found = (await folder.ready.workspace()).header_folders
        except CkwatchError:
            self._folders.pop(folder, None)  # the next change asks again
            return
        self._folders[folder] = tuple(f"{each}/" for each in found)
        if self._find_kinds(list(self._session.documents.values())) and self._session.capabilities.refreshes_tokens:
            await self._session.editor.refresh("tokens")

    def _find_kinds(self, documents: Sequence[TextDocument]) -> bool:
        """Return True if any of them turns out to be a header."""
        found = [
            each
            for each in documents
            if each.kind is DocumentKind.OTHER and each.path is not None and self.is_header(each.path)
        ]
        for each in found:
            each.kind = DocumentKind.HEADER
        return bool(found)

    def _in_folders(self, path: str) -> WorkspaceFolder | None:
        """The workspace among whose compiler's headers a file lies."""
        return next((folder for folder, own in self._folders.items() if path.startswith(own)), None)


def _is_built_in(path: str) -> bool:
    return Path(path).is_relative_to(ROOT)
