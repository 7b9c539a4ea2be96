"""Keeps settings and workspace folders as the editor has them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch_lsp.protocol.uris import path_of
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.settings import settings_from

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer

_log = logging.getLogger(__name__)

SECTION = "ckwatch"


class EditorConfiguration(SessionListener):
    """Asks the editor for its settings where it can be asked, else takes the initialization options."""

    def __init__(self, server: CkwatchServer, params: types.InitializeParams) -> None:
        self._server = server
        self._told_problems: set[str] = set()
        given = params.initialization_options
        self._options = given.get(SECTION, given) if isinstance(given, dict) else given
        self._folders = [each.uri for each in params.workspace_folders or ()]
        if not self._folders and (root := params.root_uri or params.root_path):
            self._folders = [root if ":" in root else f"file://{root}"]
        server.feature(types.INITIALIZED)(self.initialized)
        server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)(self.changed_configuration)
        server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(self.changed_folders)
        server.feature(types.TEXT_DOCUMENT_DID_SAVE)(self.was_saved)

    async def initialized(self, _params: types.InitializedParams) -> None:
        """The editor is ready: ask for settings, find workspaces."""
        session = self._server.session
        self._take(self._options)
        if session.abilities.configuration:
            if session.abilities.registers_configuration:
                registration = types.Registration("configuration", types.WORKSPACE_DID_CHANGE_CONFIGURATION)
                session.start(self._register, registration)
            await self._ask()
        for uri in self._folders:
            await self._open(uri)

    async def changed_configuration(self, params: types.DidChangeConfigurationParams) -> None:
        """The settings may be others."""
        if self._server.session.abilities.configuration:
            await self._ask()
            return
        given: Any = params.settings
        self._take(given.get(SECTION, given) if isinstance(given, dict) else given)

    async def changed_folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        """The editor has more folders; one that it has no more is let go of when nothing of it is open."""
        for added in params.event.added:
            await self._open(added.uri)

    def was_saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """A document was saved."""
        self._server.session.saved(params.text_document.uri)

    async def _open(self, uri: str) -> None:
        path = path_of(uri)
        if path is not None and await to_thread.run_sync((Path(path) / "ckwatch.toml").is_file):
            self._server.session.open_folder(Path(path))

    async def _register(self, registration: types.Registration) -> None:
        try:
            await self._server.client_register_capability_async(types.RegistrationParams([registration]))
        except JsonRpcException as error:
            _log.info("the editor registers nothing: %s", error)

    async def _ask(self) -> None:
        params = types.ConfigurationParams([types.ConfigurationItem(section=SECTION)])
        try:
            given = await self._server.workspace_configuration_async(params)
        except JsonRpcException as error:
            _log.info("the editor tells no settings: %s", error)
            return
        if given and given[0] is not None:
            self._take(given[0])

    def _take(self, given: object) -> None:
        session = self._server.session
        settings, problems = settings_from(given)
        if new := [problem for problem in problems if problem not in self._told_problems]:
            self._told_problems.update(new)
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, "; ".join(new)))
        if settings != session.settings:
            session.settings = settings
            for part in session.parts:
                part.configured()
