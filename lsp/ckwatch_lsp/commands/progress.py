"""Work that the editor shows while it goes on, and may have ended early."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

_log = logging.getLogger(__name__)


class Progress:
    """One piece of work. Nothing waits for the editor: what it has not begun to show when the work ends is not shown.

    `cancel` is called when the user wants it to end.
    """

    def __init__(self, server: CkwatchServer, title: str, cancel: Callable[[], None]) -> None:
        self._server = server
        self._title = title
        self._cancel = cancel
        self._token = secrets.token_hex(8)
        self._message: str | None = None
        self._percentage = 0
        self._shown = False
        self._ended = False
        if server.session.abilities.progress:
            server.session.start(self._begin)

    def report(self, message: str, done: int, total: int) -> None:
        """`done` of `total` is done, and it goes on with `message`."""
        percentage = min(100, 100 * done // total) if total else 0
        if (message, percentage) == (self._message, self._percentage):
            return
        self._message, self._percentage = message, percentage
        if self._shown:
            self._send(types.WorkDoneProgressReport(message=message, percentage=percentage, cancellable=True))

    def end(self) -> None:
        """It is over."""
        self._ended = True
        if self._shown:
            self._shown = False
            self._send(types.WorkDoneProgressEnd())
            self._server.protocol.progress.tokens.pop(self._token, None)

    async def _begin(self) -> None:
        try:
            await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(self._token))
        except JsonRpcException as error:
            _log.info("the editor shows no progress: %s", error)
            return
        if self._ended:
            return
        future: Future[None] = Future()
        future.add_done_callback(self._cancelled)
        self._server.protocol.progress.tokens[self._token] = future
        self._shown = True
        begin = types.WorkDoneProgressBegin(
            self._title, cancellable=True, message=self._message, percentage=self._percentage
        )
        self._send(begin)

    def _cancelled(self, future: Future[None]) -> None:
        if future.cancelled() and not self._ended:
            self._cancel()

    def _send(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        self._server.progress(types.ProgressParams(self._token, value))
