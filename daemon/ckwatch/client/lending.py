"""Keeping the daemon in possession of what a client lends.

The daemon keeps a client's loans as long as a stream of that client's is open, the *lease*. When it is lost, another
is taken out and everything is lent again. There is one way to change anything: change the loans, then `settle`, which
sends what the daemon does not have yet.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from ckwatch.client.access import Access
from ckwatch.client.failures import LOST, DaemonGoneError
from ckwatch.client.http import Exchange
from ckwatch.client.loans import Key, Loan, Loans, missing
from ckwatch.errors import CkwatchError, ProtocolError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ckwatch.wire.messages import FocusRequest, ViewRequest

FAREWELL_S = 2.0
"""Seconds for taking something back from a client that is being cancelled; the end of its lease does the same."""

PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each attempt to reach a daemon that has gone; the last goes on."""

STEADY_S = 10.0
"""A connection that lasted so long was a good one: the next attempts begin without a pause."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def pauses() -> Iterator[float]:
    """How long to wait before each attempt."""
    return chain(PAUSES_S, repeat(PAUSES_S[-1]))


class Overlay:
    """A text that is lent; `path` is absolute."""

    def __init__(self, lending: Lending, loan: Loan) -> None:
        self.path = loan.path
        self._lending = lending
        self._loan = loan

    async def change(self, text: str) -> None:
        """Lend another text of the same file. Of several calls at a time, only the last text may reach the daemon."""
        before, given = self._loan.text, sendable(text)
        self._loan.text = given

        def undo() -> None:
            if self._loan.text is given:
                self._loan.text = before

        await self._lending.settle(undo)


class Lending:
    """One client's loans and its lease, which lives in `tasks`."""

    def __init__(self, access: Access, client: str, tasks: TaskGroup) -> None:
        self.loans = Loans()
        self.has_lent = False
        """Whether the daemon ever had anything."""
        self._access = access
        self._client = client
        self._tasks = tasks
        self._given: dict[Key, BaseModel | None] = {}
        self._lease: anyio.CancelScope | None = None
        self._order = anyio.Lock()
        self._pauses = pauses()

    @property
    def view(self) -> str | None:
        """The client whose view to ask for: this one where it differs from the workspace."""
        return self._client if self.loans.differ else None

    async def settle(self, undo: Callable[[], None] | None = None) -> None:
        """Make the daemon have what is lent, and nothing else.

        Raises what a request raises; `undo` is called first when the daemon refuses it.
        """
        if not self._given and not self.loans.wanted():
            return
        try:
            try:
                await self._settle_once(start=True)
            except DaemonGoneError:
                await self._settle_once(start=True)
        except LOST:
            raise
        except CkwatchError:
            if undo is not None:
                undo()
            raise

    @asynccontextmanager
    async def lent(self, loan: Loan) -> AsyncIterator[Overlay]:
        """What the daemon has while the context is open; `loan` is one of the loans already."""
        try:
            await self.settle()
            yield Overlay(self, loan)
        finally:
            self.loans.take_back(loan)
            await self._farewell()

    async def look_at(self, focus: FocusRequest | None) -> None:
        """Replace what the client looks at."""
        before, self.loans.focus = self.loans.focus, focus
        await self.settle(lambda: setattr(self.loans, "focus", before))

    async def see(self, view: ViewRequest | None) -> None:
        """Replace how the client's view differs."""
        before, self.loans.view = self.loans.view, view
        await self.settle(lambda: setattr(self.loans, "view", before))

    async def _farewell(self) -> None:
        """As `settle`, for the end of a context: also when it is being cancelled, and failures are of no concern."""
        with anyio.move_on_after(FAREWELL_S, shield=True):
            try:
                await self._settle_once(start=False)
            except CkwatchError:
                return

    async def _settle_once(self, *, start: bool) -> None:
        async with self._order:
            wanted = self.loans.wanted()
            if self._lease is None and not wanted:
                self._given.clear()
                return
            if self._lease is None:
                await self._take_lease(start=start)
            for key, request in missing(wanted, self._given):
                self._given[key] = None  # until the answer is there, it may have this or what it had
                segments = ("clients", self._client, key[0])
                async with self._access.answer("PUT", segments, body=request, again="never") as exchange:
                    await exchange.read()
                if key in wanted:
                    self._given[key] = request
                else:
                    del self._given[key]
            if not wanted and self._lease is not None:
                self._lease.cancel()
                self._lease = None

    async def _take_lease(self, *, start: bool) -> None:
        await self._access.reach(start=start)
        exchange = await self._access.open("GET", ("events",), (("client", self._client),), again="never")
        self.has_lent = True
        self._given = dict.fromkeys(self._given)
        self._lease = anyio.CancelScope()
        self._tasks.start_soon(self._keep, exchange, self._lease)

    async def _keep(self, exchange: Exchange, lease: anyio.CancelScope) -> None:
        stopped = False
        began = anyio.current_time()
        try:
            with lease:
                async for _ in exchange.parts():
                    pass
                stopped = True
        except (*LOST, ProtocolError):
            pass
        finally:
            exchange.close()
        if self._lease is not lease:
            return
        self._lease = None
        if anyio.current_time() - began > STEADY_S:
            self._pauses = pauses()
        for pause_s in self._pauses:
            await anyio.sleep(pause_s)
            if self._lease is not None or not self.loans.wanted():
                return
            # whoever stopped the daemon wants it to stay stopped until somebody asks for something
            with suppress(CkwatchError):
                await self._settle_once(start=not stopped)
                return


def sendable(text: str) -> str:
    """`text` with U+FFFD for half a UTF-16 pair, which an editor may hold and no Unicode text can."""
    return _SURROGATES.sub("\ufffd", text)
