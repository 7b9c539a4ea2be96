"""The connection of `ckwatch watch`: changes from the daemon, and requests for builds."""

from __future__ import annotations

import glob
import math
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.cli.live.board import Board, UnitFilter
from ckwatch.cli.mistakes import mistakes_in
from ckwatch.model.errors import LOST_ERRORS, CkwatchError, UnknownUnitError
from ckwatch.system.processes import ProcessHandle
from ckwatch.wire.endpoint import endpoint_of, owner

if TYPE_CHECKING:
    from ckwatch.client.client import Client
    from ckwatch.wire.state import Change

SOUGHT_S = 0.5
"""How often a daemon that has ended is looked for, to say so."""


class WatchFeed:
    """Queues changes until the display takes them."""

    def __init__(self, client: Client, meant: UnitFilter, *, building: bool) -> None:
        self._client = client
        self._meant = meant
        self._building = building
        self._asked: frozenset[str] | None = None
        self._checked = False
        self._pending: list[Change] = []
        self._woken = anyio.Event()
        self.lost = False
        """True while there is no daemon."""
        self.over = False
        """True once the daemon was stopped."""
        self.problem = ""
        """Why the last rebuild that was asked for was not done."""

    def take(self) -> list[Change]:
        """The changes since the last time."""
        taken, self._pending = self._pending, []
        return taken

    def wake(self) -> None:
        """There is something to show."""
        self._woken.set()

    async def woken(self, within_s: float = math.inf) -> None:
        """Wait until there is something to show, or for `within_s` seconds."""
        with anyio.move_on_after(within_s):
            await self._woken.wait()
        self._woken = anyio.Event()

    async def follow(self) -> None:
        """Receive changes until the daemon is stopped. Raises DaemonGoneError when it is lost for good."""
        if self._building and self._meant.everything:
            await self._client.focus(everything=True)
        async with self._client.events() as changes:
            async for change in changes:
                self._pending.append(change)
                self.wake()
        self.over = True
        self.wake()

    async def attend(self) -> None:
        """Notice when the daemon's process ends, and when a new one starts."""
        endpoint = await to_thread.run_sync(endpoint_of, self._client.root)
        while True:
            try:
                process = await to_thread.run_sync(owner, endpoint)
            except CkwatchError:
                return  # it cannot be seen from here
            if self.lost != (process is None):
                self.lost = process is None
                self.wake()
            if process is None:
                await anyio.sleep(SOUGHT_S)
            else:
                await _end_of(process)

    async def settle(self, board: Board) -> None:
        """Ask for the units that are to be built, once it is known which these are. Raises CkwatchError for a word that
        means none, unless mistakes in the files that define units may be why."""
        if board.workspace is None or not board.workspace.loaded or self._meant.everything:
            return
        if not self._checked:
            self._checked = True
            await self._check()
        units = frozenset(board.units)
        if self._building and units != self._asked:
            # one that was just removed is not asked for the next time; a lost daemon is asked when it is back
            with suppress(UnknownUnitError, *LOST_ERRORS):
                await self._client.focus(*(glob.escape(unit) for unit in sorted(units)))
                self._asked = units

    async def rebuild(self, board: Board) -> None:
        """Compile the units again, whatever the store has; while some are at work, nothing."""
        if board.busy:
            return
        self.problem = ""
        try:
            await self._client.rerun(*(glob.escape(unit) for unit in sorted(board.units)))
        except CkwatchError as error:
            self.problem = error.message
            self.wake()

    async def _check(self) -> None:
        try:
            await self._client.units(*self._meant.patterns)
        except UnknownUnitError as error:
            if mistakes_in(await self._client.workspace(), self._meant.patterns).are_errors:
                return  # a kernel that was left out because of them may be meant
            folder = next((word for word in self._meant.patterns if word.startswith("/") and word in error.message), "")
            if folder:
                raise CkwatchError(f"no kernel in '{folder}'", "kernel files are named NAME.kernel.toml") from None
            raise
        except LOST_ERRORS:
            return


async def _end_of(process: int) -> None:
    with suppress(ProcessLookupError), ProcessHandle(process) as handle:
        await anyio.wait_readable(handle)
