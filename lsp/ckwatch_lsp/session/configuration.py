"""Keeps settings and workspace folders as the editor has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyio import to_thread
from lsprotocol import types

from ckwatch_lsp.protocol.uris import path_of
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.settings import settings_from

SECTION = "ckwatch"


class EditorConfiguration(SessionListener):
    """Requests the settings where the editor supports that, else takes the initialization options."""

    def __init__(self, session: Session, params: types.InitializeParams) -> None:
        self._session = session
        self._reported: set[str] = set()
        given = params.initialization_options
        self._options = given.get(SECTION, given) if isinstance(given, dict) else given
        self._folders = [each.uri for each in params.workspace_folders or ()]
        if not self._folders and (root := params.root_uri or params.root_path):
            self._folders = [root if ":" in root else f"file://{root}"]
        session.editor.add_request(types.INITIALIZED, self.initialized)
        session.editor.add_request(types.WORKSPACE_DID_CHANGE_CONFIGURATION, self.changed_configuration)
        session.editor.add_request(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, self.changed_folders)
        session.editor.add_request(types.TEXT_DOCUMENT_DID_SAVE, self.was_saved)

    async def initialized(self, _params: types.InitializedParams) -> None:
        """The editor is ready: request settings, find workspaces."""
        self._take(self._options)
        if self._session.capabilities.configuration:
            if self._session.capabilities.registers_configuration:
                registration = types.Registration("configuration", types.WORKSPACE_DID_CHANGE_CONFIGURATION)
                self._session.start(self._session.editor.register_capability, registration)
            await self._request()
        for uri in self._folders:
            await self._open(uri)

    async def changed_configuration(self, params: types.DidChangeConfigurationParams) -> None:
        """The user may have changed the settings."""
        if self._session.capabilities.configuration:
            await self._request()
            return
        given: Any = params.settings
        self._take(given.get(SECTION, given) if isinstance(given, dict) else given)

    async def changed_folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        """The editor has more folders. A removed one stays until nothing of it is open."""
        for added in params.event.added:
            await self._open(added.uri)

    def was_saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """A document was saved."""
        self._session.saved(params.text_document.uri)

    async def _open(self, uri: str) -> None:
        path = path_of(uri)
        if path is not None and await to_thread.run_sync((Path(path) / "ckwatch.toml").is_file):
            self._session.open_folder(Path(path))

    async def _request(self) -> None:
        given = await self._session.editor.configuration(SECTION)
        if given is not None:
            self._take(given)

    def _take(self, given: object) -> None:
        settings, problems = settings_from(given)
        if new := [problem for problem in problems if problem not in self._reported]:
            self._reported.update(new)
            self._session.editor.show_message(types.MessageType.Warning, "; ".join(new))
        if settings != self._session.settings:
            self._session.settings = settings
            for listener in self._session.listeners:
                listener.configured()
