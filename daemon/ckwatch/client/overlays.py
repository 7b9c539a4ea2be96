"""Keeps the daemon up to date with what a client holds there: unsaved texts (overlays), its focus and its view.

`loans` are plain values: the requests that make the daemon have everything. The daemon keeps them as long as one of the
client's streams, the *lease*, is open; when that is lost, another is opened and everything is sent again. There is one way
to change anything: change the values, then `settle`, which sends what the daemon does not have yet.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from ckwatch.client.connection import Connection
from ckwatch.client.errors import LOST_ERRORS, DaemonGoneError
from ckwatch.client.http import Exchange
from ckwatch.model.errors import CkwatchError, ProtocolError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ckwatch.wire.messages import FocusRequest, ViewRequest

Key = tuple[str, str]
"""What a request sets: `("overlays", PATH)`, `("focus", "")` or `("view", "")`."""


@dataclass(eq=False, slots=True)
class OverlayText:
    """A lent text. The text of a `ground` is what stands before it where no other text of the file is lent."""

    path: str
    text: str
    ground: str | None = None


class ClientState:
    """Everything lent at a time. Of several texts of a file the last holds; additions follow it in their order."""

    def __init__(self) -> None:
        self.focus: FocusRequest | None = None
        self.view: ViewRequest | None = None
        self._texts: list[OverlayText] = []

    @property
    def differ(self) -> bool:
        """Whether the client's view is another than the workspace on disk."""
        return bool(self._texts) or self.view is not None

    def lend(self, path: str, text: str) -> OverlayText:
        """Lend the whole text of a file."""
        loan = OverlayText(path, text)
        self._texts.append(loan)
        return loan

    def add(self, path: str, text: str, ground: str) -> OverlayText:
        """Lend a file with text added to its end; `ground` is the file's own text."""
        loan = OverlayText(path, text, ground)
        self._texts.append(loan)
        return loan

    def take_back(self, loan: OverlayText) -> None:
        """Lend it no longer."""
        if loan in self._texts:
            self._texts.remove(loan)

    def text(self, path: str) -> str | None:
        """The text lent of a file, None where none is."""
        loans = [loan for loan in self._texts if loan.path == path]
        if not loans:
            return None
        additions = [loan.text for loan in loans if loan.ground is not None]
        whole = self._whole_text(path)
        return "".join((loans[0].ground or "" if whole is None else whole, *additions))

    def _whole_text(self, path: str) -> str | None:
        return next((loan.text for loan in reversed(self._texts) if loan.path == path and loan.ground is None), None)

    def wanted(self) -> dict[Key, BaseModel]:
        """The requests that make the daemon have everything."""
        from ckwatch.wire.messages import OverlayRequest

        found: dict[Key, BaseModel] = {}
        if self.view is not None:
            found["view", ""] = self.view
        for path in dict.fromkeys(loan.path for loan in self._texts):
            found["overlays", path] = OverlayRequest.model_construct(path=path, text=self.text(path))
        if self.focus is not None:
            found["focus", ""] = self.focus
        return found


def missing(wanted: Mapping[Key, BaseModel], given: Mapping[Key, BaseModel | None]) -> list[tuple[Key, BaseModel]]:
    """The requests that lead from what the daemon was given to what is wanted; what is taken back comes first.

    A value of None in `given`: the daemon may have something there.
    """
    from ckwatch.wire.messages import FocusRequest, OverlayRequest, ViewRequest

    changes: list[tuple[Key, BaseModel]] = []
    for key in given:
        if key not in wanted:
            kind, path = key
            nothing = {"overlays": OverlayRequest.model_construct(path=path, text=None)}
            changes.append((key, nothing.get(kind) or (FocusRequest() if kind == "focus" else ViewRequest())))
    return changes + [(key, request) for key, request in wanted.items() if given.get(key) != request]


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

    def __init__(self, lending: ClientStateSync, loan: OverlayText) -> None:
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


class ClientStateSync:
    """One client's loans and its lease, which lives in `tasks`."""

    def __init__(self, access: Connection, client: str, tasks: TaskGroup) -> None:
        self.loans = ClientState()
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
        except LOST_ERRORS:
            raise
        except CkwatchError:
            if undo is not None:
                undo()
            raise

    @asynccontextmanager
    async def lent(self, loan: OverlayText) -> AsyncIterator[Overlay]:
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
        except (*LOST_ERRORS, ProtocolError):
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
