"""Reports what is wrong with a workspace's environment, once, and offers the action that fixes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch.model.errors import CkwatchError
from ckwatch.system.python_process import module_command, module_environment
from ckwatch.model.version import __version__
from ckwatch_lsp.protocol.editor_client import sentence_of
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer

Remedy = Callable[[], Awaitable[object]]

TAIL = 2000
"""Characters of what a failed installation printed."""

TOOLCHAIN_TOPIC = "toolchain"
"""Of `Workspace.warnings`: why nothing can be compiled."""


class EnvironmentMessages(SessionListener):
    """Tells of untrusted workspaces, of daemons that cannot be reached, and of what limits one. Each thing is told once
    as long as it lasts."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._session = server.session
        self._told: dict[WorkspaceFolder, set[str]] = {}

    def told(self, folder: WorkspaceFolder, topics: frozenset[str]) -> None:
        """Look for what is wrong."""
        if not topics & {"standing", "workspace"}:
            return
        now = dict(self._wrong(folder))
        known = self._told.setdefault(folder, set())
        for what in now.keys() - known:
            message, kind, mends = now[what]
            self._session.start(self._say, message, kind, mends)
        self._told[folder] = set(now) | {what for what in known if folder.standing is ConnectionState.STARTING}

    def _wrong(self, folder: WorkspaceFolder) -> list[tuple[str, tuple[str, types.MessageType, dict[str, Remedy]]]]:
        found: list[tuple[str, tuple[str, types.MessageType, dict[str, Remedy]]]] = []
        problem = folder.problem
        if folder.standing is ConnectionState.UNTRUSTED:
            text = f"{folder.root} is not trusted: its templates and compiler flags are code that would run here."
            found.append(("trust", (text, types.MessageType.Warning, {"Trust": folder.trust})))
        elif folder.standing is ConnectionState.BROKEN and problem is not None:
            text = sentence_of(problem)
            mends: dict[str, Remedy] = {"Try again": _waking(folder)}
            found.append((f"broken {problem.message}", (text, types.MessageType.Error, mends)))
        elif folder.workspace is not None:
            for topic, warning in folder.workspace.warnings.items():
                kind = types.MessageType.Error if topic == TOOLCHAIN_TOPIC else types.MessageType.Warning
                ways: dict[str, Remedy] = {}
                if topic == TOOLCHAIN_TOPIC:
                    ways = {"Install ROCm's compiler": self._installing(folder), "Restart the daemon": folder.restart}
                found.append((f"{topic} {warning}", (warning, kind, ways)))
        return found

    def _installing(self, folder: WorkspaceFolder) -> Remedy:
        async def install() -> None:
            self._show(types.MessageType.Info, "ROCm's compiler is being installed for you alone; this takes minutes.")
            command = module_command("ckwatch", "toolchain", "install")
            result = await anyio.run_process(command, check=False, env=module_environment(), start_new_session=True)
            if result.returncode != 0:
                raise CkwatchError(result.stderr.decode(errors="replace").strip()[-TAIL:] or "the installation failed")
            self._show(types.MessageType.Info, "ROCm's compiler is installed.")
            await folder.restart()

        return install

    def _show(self, kind: types.MessageType, message: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(kind, message))

    async def _say(self, message: str, kind: types.MessageType, mends: dict[str, Remedy]) -> None:
        installed = await to_thread.run_sync(_installed)
        if installed is not None and installed != __version__:
            newer = f"ckwatch {installed} has been installed, this is {__version__}: restart the language server."
            message = f"{newer} {message}"
        if not mends:
            self._show(kind, message)
            return
        actions = [types.MessageActionItem(title) for title in (*mends, "Not now")]
        try:
            chosen = await self._server.window_show_message_request_async(
                types.ShowMessageRequestParams(kind, message, actions)
            )
        except JsonRpcException:
            return
        mend = mends.get(chosen.title) if chosen is not None else None
        if mend is None:
            return
        try:
            await mend()
        except CkwatchError as error:
            self._show(types.MessageType.Error, sentence_of(error))


def _waking(folder: WorkspaceFolder) -> Remedy:
    async def wake() -> None:
        folder.wake()

    return wake


def _installed() -> str | None:
    """The version that is installed now, which is another where it was upgraded under a running editor."""
    try:
        return metadata.version("ckwatch")
    except metadata.PackageNotFoundError:
        return None
