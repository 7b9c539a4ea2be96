"""clangd's progress until it can answer, shown as progress; one for each workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from ckwatch.model.delays import CPP_STATUS
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.cpp import CppAnswer
from ckwatch_lsp.commands.running_tasks import TaskProgress
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.session import Session

AskAgain = Callable[[float], Awaitable[CppAnswer]]
"""Asks the same for at most so many seconds."""

LONGEST_STATUS_S = 8.0
"""A question that is asked again and again gets more time each time, up to this."""

TITLE = "C++"


class Readiness:
    """Asks on behalf of questions that nobody waits for any more."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._watched: dict[WorkspaceFolder, str] = {}

    def reason(self, folder: WorkspaceFolder) -> str:
        """Why there is no answer yet; empty where that is not known."""
        return self._watched.get(folder, "")

    def watch(self, folder: WorkspaceFolder, ask: AskAgain) -> None:
        """Show what clangd does until this question has an answer."""
        if folder not in self._watched:
            self._watched[folder] = ""
            self._session.start(self._watch, folder, ask)

    async def _watch(self, folder: WorkspaceFolder, ask: AskAgain) -> None:
        progress: TaskProgress | None = None
        scope = anyio.CancelScope()
        patience_s = CPP_STATUS.seconds
        try:
            with scope:
                while not (answer := await ask(patience_s)).ready:
                    self._watched[folder] = answer.reason
                    if progress is None:
                        title = TITLE if len(self._session.folders) == 1 else f"{TITLE}, {folder.root.name}"
                        progress = TaskProgress(self._session, title, scope.cancel, endless=True)
                    progress.report(answer.reason, 0, 0)
                    patience_s = min(patience_s * 1.5, LONGEST_STATUS_S)
        except CkwatchError:
            pass  # the daemon's warnings say why, and whoever asks is told
        finally:
            del self._watched[folder]
            if progress is not None:
                progress.end()
