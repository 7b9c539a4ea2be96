"""One message when something in the environment is wrong, with the action that mends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch import __version__
from ckwatch.errors import CkwatchError
from ckwatch.python import module_command, module_environment
from ckwatch_lsp.folder import Folder, Standing
from ckwatch_lsp.parts import Part
from ckwatch_lsp.wording import sentence_of

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

Mend = Callable[[], Awaitable[object]]

TAIL = 2000
"""Characters of what a failed installation printed."""

TOOLCHAIN_TOPIC = "toolchain"
"""Of `Workspace.warnings`: why nothing can be compiled."""


class Manners(Part):
    """Tells of untrusted workspaces, of daemons that cannot be reached, and of what limits one. Each thing is told once
    as long as it lasts."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._session = server.session
        self._told: dict[Folder, set[str]] = {}

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Look for what is wrong."""
        if not topics & {"standing", "workspace"}:
            return
        now = dict(self._wrong(folder))
        known = self._told.setdefault(folder, set())
        for what in now.keys() - known:
            message, kind, mends = now[what]
            self._session.start(self._say, message, kind, mends)
        self._told[folder] = set(now) | {what for what in known if folder.standing is Standing.STARTING}

    def _wrong(self, folder: Folder) -> list[tuple[str, tuple[str, types.MessageType, dict[str, Mend]]]]:
        found: list[tuple[str, tuple[str, types.MessageType, dict[str, Mend]]]] = []
        problem = folder.problem
        if folder.standing is Standing.UNTRUSTED:
            text = f"{folder.root} is not trusted: its templates and compiler flags are code that would run here."
            found.append(("trust", (text, types.MessageType.Warning, {"Trust": folder.trust})))
        elif folder.standing is Standing.BROKEN and problem is not None:
            text = sentence_of(problem)
            mends: dict[str, Mend] = {"Try again": _waking(folder)}
            found.append((f"broken {problem.message}", (text, types.MessageType.Error, mends)))
        elif folder.workspace is not None:
            for topic, warning in folder.workspace.warnings.items():
                kind = types.MessageType.Error if topic == TOOLCHAIN_TOPIC else types.MessageType.Warning
                ways: dict[str, Mend] = {}
                if topic == TOOLCHAIN_TOPIC:
                    ways = {"Install ROCm's compiler": self._installing(folder), "Restart the daemon": folder.restart}
                found.append((f"{topic} {warning}", (warning, kind, ways)))
        return found

    def _installing(self, folder: Folder) -> Mend:
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

    async def _say(self, message: str, kind: types.MessageType, mends: dict[str, Mend]) -> None:
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


def _waking(folder: Folder) -> Mend:
    async def wake() -> None:
        folder.wake()

    return wake


def _installed() -> str | None:
    """The version that is installed now, which is another where it was upgraded under a running editor."""
    try:
        return metadata.version("ckwatch")
    except metadata.PackageNotFoundError:
        return None
