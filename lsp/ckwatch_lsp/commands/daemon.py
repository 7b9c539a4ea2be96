"""`ckwatch.trust`, `restartDaemon` and `showLog`; and `experimental/serverStatus`, the state of each daemon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from anyio import to_thread

from ckwatch.model.delays import REFRESH
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_lsp.commands.arguments import CommandTargets
from ckwatch_lsp.protocol.server import CkwatchServer
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.virtual_documents.store import VirtualFiles

LINES = 2000
"""How much of a log is shown."""


class DaemonCommands:
    """Commands on daemons, and not on units."""

    def __init__(self, editor: CkwatchServer, targets: CommandTargets, files: VirtualFiles) -> None:
        self._editor = editor
        self._targets = targets
        self._files = files
        editor.add_command("ckwatch.trust", self.trust)
        editor.add_command("ckwatch.restartDaemon", self.restart_daemon)
        editor.add_command("ckwatch.showLog", self.show_log)

    async def trust(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Put workspaces on the user's list: those that are meant, else the one that waits for it.

        One that is meant may also run already, with a `ckwatch.toml` that names what it did not before.
        """
        folders = await self._targets.folders(argument)
        named = "folder" in argument
        untrusted = [folder for folder in folders if named or folder.connection is ConnectionState.UNTRUSTED]
        if len(untrusted) > 1:
            names = ", ".join(str(folder.root) for folder in untrusted)
            raise CkwatchError(f"several workspaces are not trusted: {names}", "Name one as `folder`.")
        for folder in untrusted:
            await folder.trust()
        return {"folders": [str(folder.root) for folder in untrusted]}

    async def restart_daemon(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Stop the daemons of workspaces and start others."""
        folders = await self._targets.folders(argument)
        for folder in folders:
            await folder.restart()
        return {"folders": [str(folder.root) for folder in folders]}

    async def show_log(self, argument: Mapping[str, Any]) -> str:
        """The end of the log of the first of these daemons that is there, also shown as a document."""
        folders = await self._targets.folders(argument)
        folder = next((each for each in folders if each.client is not None), folders[0])
        text = await folder.ready.log(LINES)
        if self._editor.capabilities.shows_documents:
            path = await to_thread.run_sync(self._files.write_log, folder.root.name or "ckwatch", text)
            await self._editor.show_document(uri_of(path), take_focus=True)
        return text


STATUS_METHOD = "experimental/serverStatus"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """`quiescent`: nothing is being done."""

    health: Literal["ok", "warning", "error"]
    quiescent: bool
    message: str
    folder: str


class ServerStatusNotifier(SessionListener):
    """Notifies the editor of each change."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sent: dict[WorkspaceFolder, ServerStatus] = {}
        self._notify_soon = Debouncer(session.start, self._notify, REFRESH)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:  # noqa: ARG002  # nearly all of them count
        """Notify the editor soon."""
        if self._session.capabilities.server_status:
            self._notify_soon(folder)

    async def _notify(self, *changed: WorkspaceFolder) -> None:
        for folder in changed:
            status = status_of(folder)
            if self._sent.get(folder) != status:
                self._sent[folder] = status
                self._session.editor.notify(STATUS_METHOD, asdict(status))


_NOT_READY: Mapping[ConnectionState, tuple[Literal["ok", "warning", "error"], bool, str]] = {
    ConnectionState.STARTING: ("ok", False, "the daemon is being started"),
    ConnectionState.UNTRUSTED: ("warning", True, "the workspace is not trusted"),
    ConnectionState.BROKEN: ("error", True, "there is no daemon"),
    ConnectionState.STOPPED: ("warning", True, "the daemon was stopped"),
}


def status_of(folder: WorkspaceFolder) -> ServerStatus:
    """How it stands with a workspace."""
    name, workspace = str(folder.root), folder.workspace
    problem = "" if folder.problem is None else folder.problem.message
    if folder.connection in _NOT_READY:
        health, quiescent, text = _NOT_READY[folder.connection]
        return ServerStatus(health, quiescent, problem or text, name)
    if workspace is None:
        return ServerStatus("ok", False, "the workspace is being read", name)
    work = work_words(folder)
    quiet = not workspace.busy and not work
    if workspace.problem is not None:
        return ServerStatus("error", quiet, workspace.problem, name)
    if workspace.warnings:
        topic, text = next(iter(workspace.warnings.items()))
        return ServerStatus("warning", quiet, f"{topic}: {text}", name)
    count = len(folder.units)
    return ServerStatus("ok", quiet, work or f"{count} unit{'' if count == 1 else 's'}", name)


def work_words(folder: WorkspaceFolder) -> str:
    """`3 compiling, 12 queued, timing gemm_f16/v3`; empty where nothing is done."""
    parts = [f"{folder.phases[name]} {name}" for name in ("compiling", "queued") if folder.phases[name]]
    timed = next(iter(folder.timed), None)
    if timed is not None:
        parts.append(f"timing {folder.units[timed].kernel}/{folder.units[timed].instance}")
    return ", ".join(parts)
