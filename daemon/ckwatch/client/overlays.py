"""Keeps the daemon up to date with a client's state: its unsaved texts (overlays), its focus, its view, and whether it
is an editor.

`ClientState` is plain values: the requests that make the daemon have everything. The daemon keeps them as long as
one of the client's streams, the *lease*, is open; when that is lost, another is opened and everything is sent again.
There is one way to change anything: change the values, then `settle`, which sends what the daemon does not have yet.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskGroup

from ckwatch.client.connection import Connection
from ckwatch.client.http import Exchange
from ckwatch.model.errors import LOST_ERRORS, CkwatchError, DaemonGoneError, ProtocolError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.questions.endpoint import Request

if TYPE_CHECKING:
    from pydantic import BaseModel
Setting = Literal["focus", "view", "editor"]
Key = tuple[str, str]
"""The subject of a request: `("overlays", PATH)`, `("focus", "")`, `("view", "")` or `("editor", "")`."""


@dataclass(eq=False, slots=True)
class OverlayText:
    """A text in place of a file's, or, with a `base`, below it: the base is what the file has without an overlay."""

    path: str
    text: str
    base: str | None = None


class ClientState:
    """The overlays and the rest. Of several texts of a file the last holds; additions follow in order."""

    def __init__(self) -> None:
        self.settings: dict[Setting, BaseModel] = {}
        self._texts: list[OverlayText] = []

    @property
    def differs(self) -> bool:
        """True if the client sees something else than the workspace on disk."""
        return bool(self._texts) or "view" in self.settings

    def set(self, setting: Setting, request: BaseModel | None) -> None:
        """Replace a setting; None is what it is at first."""
        if request is None:
            self.settings.pop(setting, None)
        else:
            self.settings[setting] = request

    def add(self, entry: OverlayText) -> OverlayText:
        """Replace the whole text of a file, or add to its end."""
        self._texts.append(entry)
        return entry

    def drop(self, entry: OverlayText) -> None:
        """Remove it."""
        if entry in self._texts:
            self._texts.remove(entry)

    def text(self, path: str) -> str | None:
        """The text in place of a file's, None where there is none."""
        entries = [entry for entry in self._texts if entry.path == path]
        if not entries:
            return None
        additions = [entry.text for entry in entries if entry.base is not None]
        whole = [entry.text for entry in entries if entry.base is None] or [entries[0].base or ""]
        return "".join((whole[-1], *additions))

    def requests(self) -> dict[Key, BaseModel]:
        """The requests that make the daemon have everything."""
        from ckwatch.wire.requests import OverlayRequest

        settings: dict[Key, BaseModel] = {(kind, ""): request for kind, request in self.settings.items()}
        texts: dict[Key, BaseModel] = {
            ("overlays", path): OverlayRequest.model_construct(path=path, text=self.text(path))
            for path in dict.fromkeys(entry.path for entry in self._texts)
        }
        view = {key: request for key, request in settings.items() if key[0] == "view"}
        return view | texts | settings


def missing(wanted: Mapping[Key, BaseModel], sent: Mapping[Key, BaseModel | None]) -> list[tuple[Key, BaseModel]]:
    """The requests that lead from what was `sent` to what is `wanted`; what is dropped comes first.

    A value of None in `sent`: the daemon may have something there.
    """
    from ckwatch.wire.requests import EditorRequest, FocusRequest, OverlayRequest, ViewRequest

    changes: list[tuple[Key, BaseModel]] = []
    for key in sent:
        if key not in wanted:
            kind, path = key
            nothing = {"focus": FocusRequest, "view": ViewRequest, "editor": EditorRequest}
            dropped = OverlayRequest.model_construct(path=path, text=None) if kind == "overlays" else nothing[kind]()
            changes.append((key, dropped))
    return changes + [(key, request) for key, request in wanted.items() if sent.get(key) != request]


FAREWELL_S = 2.0
"""Seconds for dropping something when the client is cancelled; the end of its lease does the same."""

PAUSES_S = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each attempt to reach a daemon that has gone; the last goes on."""

STEADY_S = 10.0
"""A connection that lasted so long was a good one: the next attempts begin without a pause."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def pauses() -> Iterator[float]:
    """How long to wait before each attempt."""
    return chain(PAUSES_S, repeat(PAUSES_S[-1]))


class Overlay:
    """An unsaved text in place of a file's; `path` is absolute."""

    def __init__(self, state_sync: ClientStateSync, entry: OverlayText) -> None:
        self.path = entry.path
        self._state_sync = state_sync
        self._entry = entry

    async def change(self, text: str) -> None:
        """Replace the text. Of several calls at a time, only the last text may reach the daemon."""
        before, new = self._entry.text, sendable(text)
        self._entry.text = new

        def undo() -> None:
            if self._entry.text is new:
                self._entry.text = before

        await self._state_sync.settle(undo)


class ClientStateSync:
    """One client's state in the daemon, and its lease, which lives in `tasks`."""

    def __init__(self, connection: Connection, client: str, tasks: TaskGroup) -> None:
        self.state = ClientState()
        self.has_sent = False
        """True if the daemon ever had anything."""
        self._connection = connection
        self._client = client
        self._tasks = tasks
        self._sent: dict[Key, BaseModel | None] = {}
        self._lease: anyio.CancelScope | None = None
        self._order = anyio.Lock()
        self._pauses = pauses()

    async def settle(self, undo: Callable[[], None] | None = None) -> None:
        """Make the daemon have the present state, and nothing else. Raises what a request raises; `undo` is called
        first when the daemon refuses it."""
        if not self._sent and not self.state.requests():
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
    async def overlaying(self, entry: OverlayText) -> AsyncIterator[Overlay]:
        """The daemon has `entry`, which the state has already, while the context is open."""
        try:
            await self.settle()
            yield Overlay(self, entry)
        finally:
            self.state.drop(entry)
            await self._farewell()

    async def set(self, setting: Setting, request: BaseModel | None) -> None:
        """Replace the client's focus, its view, or what it can do as an editor; None is what it is at first."""
        before = self.state.settings.get(setting)
        self.state.set(setting, request)
        await self.settle(lambda: self.state.set(setting, before))

    async def _farewell(self) -> None:
        """As `settle`, for the end of a context: also when it is being cancelled, and failures are of no concern."""
        with anyio.move_on_after(FAREWELL_S, shield=True):
            try:
                await self._settle_once(start=False)
            except CkwatchError:
                return

    async def _settle_once(self, *, start: bool) -> None:
        async with self._order:
            wanted = self.state.requests()
            if self._lease is None and not wanted:
                self._sent.clear()
                return
            if self._lease is None:
                await self._take_lease(start=start)
            for key, request in missing(wanted, self._sent):
                self._sent[key] = None  # until the answer is there, it may have this or what it had
                segments = ("clients", self._client, key[0])
                body = request.model_dump_json().encode()
                async with self._connection.answer(Request("PUT", segments, body=body, retry="never")) as exchange:
                    await exchange.read()
                if key in wanted:
                    self._sent[key] = request
                else:
                    del self._sent[key]
            if not wanted and self._lease is not None:
                self._lease.cancel()
                self._lease = None

    async def _take_lease(self, *, start: bool) -> None:
        await self._connection.reach(start=start)
        query = (("client", self._client), ("quiet", "true"))
        exchange = await self._connection.open(Request("GET", ("events",), query, retry="never"))
        self.has_sent = True
        self._sent = dict.fromkeys(self._sent)
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
            if self._lease is not None or not self.state.requests():
                return
            # a daemon that was stopped on purpose stays stopped until the next request
            with suppress(CkwatchError):
                await self._settle_once(start=not stopped)
                return


def sendable(text: str) -> str:
    """`text` with U+FFFD for half a UTF-16 pair, which an editor may hold and no Unicode text can."""
    return _SURROGATES.sub("\ufffd", text)
