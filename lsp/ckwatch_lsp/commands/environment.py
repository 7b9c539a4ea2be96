"""`ckwatch.trust`, `restartDaemon` and `showLog`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch.errors import CkwatchError
from ckwatch_lsp.commands.meant import folders_meant
from ckwatch_lsp.documents import uri_of
from ckwatch_lsp.folder import Standing

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

LINES = 2000
"""How much of a log is shown."""


class EnvironmentCommands:
    """What concerns daemons, and not units."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._session = server.session
        self._logs: tempfile.TemporaryDirectory[str] | None = None
        server.add_command("ckwatch.trust", self.trust)
        server.add_command("ckwatch.restartDaemon", self.restart_daemon)
        server.add_command("ckwatch.showLog", self.show_log)

    async def trust(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Put workspaces on the user's list: those that are meant, else the one that waits for it."""
        folders = await folders_meant(self._session, argument)
        untrusted = [folder for folder in folders if folder.standing is Standing.UNTRUSTED]
        if len(untrusted) > 1:
            names = ", ".join(str(folder.root) for folder in untrusted)
            raise CkwatchError(f"several workspaces are not trusted: {names}", "Name one as `folder`.")
        for folder in untrusted:
            await folder.trust()
        return {"folders": [str(folder.root) for folder in untrusted]}

    async def restart_daemon(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Stop the daemons of workspaces and start others."""
        folders = await folders_meant(self._session, argument)
        for folder in folders:
            await folder.restart()
        return {"folders": [str(folder.root) for folder in folders]}

    async def show_log(self, argument: Mapping[str, Any]) -> str:
        """The end of the log of the first of these daemons that is there, also shown as a document."""
        folders = await folders_meant(self._session, argument)
        folder = next((each for each in folders if each.client is not None), folders[0])
        text = await folder.ready.log(LINES)
        if self._session.abilities.shows_documents:
            path = await to_thread.run_sync(self._write, folder.root.name, text)
            try:
                await self._server.window_show_document_async(types.ShowDocumentParams(uri_of(path), take_focus=True))
            except JsonRpcException:
                return text
        return text

    def _write(self, name: str, text: str) -> Path:
        if self._logs is None:
            runtime = os.environ.get("XDG_RUNTIME_DIR")
            usable = runtime if runtime and os.access(runtime, os.W_OK) else None
            self._logs = tempfile.TemporaryDirectory(prefix="ckwatch-logs-", dir=usable, ignore_cleanup_errors=True)
        path = Path(self._logs.name) / f"{name or 'ckwatch'}.log"
        path.write_text(text, "utf-8", "replace")
        return path
