"""Reports what is wrong with a workspace's environment, once, and offers the action that fixes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from importlib import metadata

from anyio import to_thread
from lsprotocol import types

from ckwatch.model.errors import CkwatchError
from ckwatch.model.version import __version__
from ckwatch.system.async_processes import run_process
from ckwatch.system.python_process import module_command, module_environment
from ckwatch_lsp.protocol.server import sentence_of
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

FixAction = Callable[[], Awaitable[object]]

TAIL = 2000
"""Characters of what a failed installation printed."""

TOOLCHAIN_TOPIC = "toolchain"
"""Of `Workspace.warnings`: why nothing can be compiled."""

HEADERS_TOPIC = "headers"
"""Of `Workspace.warnings`: which library's headers the compiler lacks."""


class EnvironmentMessages(SessionListener):
    """Reports untrusted workspaces, daemons that cannot be reached, and the daemon's warnings, each once as long as it
    lasts."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reported: dict[WorkspaceFolder, set[str]] = {}

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Report new problems."""
        if not topics.any_of("connection", "workspace"):
            return
        now = dict(self._problems(folder))
        known = self._reported.setdefault(folder, set())
        for what in now.keys() - known:
            message, kind, fixes = now[what]
            self._session.start(self._report, message, kind, fixes)
        self._reported[folder] = set(now) | {what for what in known if folder.connection is ConnectionState.STARTING}

    def _problems(
        self, folder: WorkspaceFolder
    ) -> list[tuple[str, tuple[str, types.MessageType, dict[str, FixAction]]]]:
        found: list[tuple[str, tuple[str, types.MessageType, dict[str, FixAction]]]] = []
        problem = folder.problem
        if folder.connection is ConnectionState.UNTRUSTED:
            text = f"{problem.message}." if problem is not None else f"{folder.root} is not trusted."
            found.append(("trust", (text, types.MessageType.Warning, {"Trust": folder.trust})))
        elif folder.connection is ConnectionState.BROKEN and problem is not None:
            text = sentence_of(problem)
            fixes: dict[str, FixAction] = {"Try again": partial(_wake, folder)}
            found.append((f"broken {problem.message}", (text, types.MessageType.Error, fixes)))
        elif folder.workspace is not None:
            for topic, warning in folder.workspace.warnings.items():
                cannot_compile = topic in (TOOLCHAIN_TOPIC, HEADERS_TOPIC)
                kind = types.MessageType.Error if cannot_compile else types.MessageType.Warning
                ways: dict[str, FixAction] = {}
                if topic == TOOLCHAIN_TOPIC:
                    ways["Install ROCm's compiler"] = partial(
                        self._install, folder, "all", "ROCm's compiler", "minutes"
                    )
                    ways["Restart the daemon"] = folder.restart
                elif topic == HEADERS_TOPIC:
                    ways["Fetch Composable Kernel"] = partial(
                        self._install, folder, "ck", "Composable Kernel", "a moment"
                    )
                found.append((f"{topic} {warning}", (warning, kind, ways)))
        return found

    async def _install(self, folder: WorkspaceFolder, name: str, title: str, takes: str) -> None:
        """Run `ckwatch toolchain install NAME`."""
        self._show(types.MessageType.Info, f"Installing {title} for your user only; this takes {takes}.")
        command = module_command("ckwatch", "toolchain", "install", name)
        result = await run_process(command, environment=module_environment())
        if result.exit_status != 0:
            raise CkwatchError(result.stderr.strip()[-TAIL:] or "the installation failed")
        self._show(types.MessageType.Info, f"{title} is installed.")
        await folder.restart()

    def _show(self, kind: types.MessageType, message: str) -> None:
        self._session.editor.show_message(kind, message)

    async def _report(self, message: str, kind: types.MessageType, fixes: dict[str, FixAction]) -> None:
        installed = await to_thread.run_sync(_installed)
        if installed is not None and installed != __version__:
            newer = f"ckwatch {installed} is installed, this is {__version__}: restart the language server."
            message = f"{newer} {message}"
        if not fixes:
            self._show(kind, message)
            return
        chosen = await self._session.editor.choose(kind, message, (*fixes, "Not now"))
        fix = fixes.get(chosen) if chosen is not None else None
        if fix is None:
            return
        try:
            await fix()
        except CkwatchError as error:
            self._show(types.MessageType.Error, sentence_of(error))


async def _wake(folder: WorkspaceFolder) -> None:
    folder.wake()


def _installed() -> str | None:
    """The version that is installed now: not this one where ckwatch was upgraded under a running editor."""
    try:
        return metadata.version("ckwatch")
    except metadata.PackageNotFoundError:
        return None
