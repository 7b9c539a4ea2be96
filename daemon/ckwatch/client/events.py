"""The state of a workspace as a stream of changes: a snapshot, then changes, across lost connections.

`KnownStates` is the theory: what has been reported so far, hence what a new snapshot adds. `Events` does the talking.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from sys import intern
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, cast

import anyio
import anyio.lowlevel

from ckwatch.client.connection import Connection, parsed
from ckwatch.client.http import Exchange
from ckwatch.client.overlays import STEADY_S, ClientStateSync, pauses
from ckwatch.model.errors import LOST_ERRORS, ProtocolError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.topics import HEARTBEAT, RESET, Topic
from ckwatch.questions.endpoint import Request

if TYPE_CHECKING:
    from ckwatch.wire.state import Change, File, Phase, ShownPlace, Unit, Workspace


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a daemon that has gone, in seconds."""

    reconnect_s: float = 30.0
    """For one that was lost."""
    restart_s: float = 5.0
    """For one that was stopped, to be there again, as after `ckwatch restart`."""
    steady_s: float = STEADY_S
    """A connection that lasted so long was a good one: the next attempts begin without a pause."""


_STATES_AT_A_TIME = 50
"""States that are handed on before other tasks have their turn."""

_BYTES_AT_A_TIME = 2**15
"""Bytes of a snapshot to read before other tasks have their turn: less than 5 ms. A unit has 2 KB, and 1 KB more for
each timing."""

_STATES = b'"states":{'


@dataclass(frozen=True, slots=True)
class UnitInBrief:
    """A unit's state as it was sent, `encoded`, and what is asked of thousands of units at a time. A whole one is some
    forty objects, which take ten times the memory, and which every garbage collection visits."""

    place: tuple[str, int, int, int, int]
    """The path, and lines and columns of the start and the end."""
    phase: Phase
    fresh: bool
    generation: int
    measuring: str | None
    encoded: bytes

    def decoded(self) -> Unit:
        """The whole state. Raises ProtocolError for what is none."""
        from ckwatch.wire.encoding import adapter
        from ckwatch.wire.state import Unit

        found: Unit = parsed(adapter(Unit), self.encoded)
        return found


ReadUnit = TypeVar("ReadUnit")
OfUnit = Callable[[Any], Any]
"""Makes of a unit's JSON what a follower needs."""


class ReadChange(NamedTuple, Generic[ReadUnit]):
    """A `Change` with a unit as its reader has made it."""

    seq: int
    topic: Topic
    state: ReadUnit | File | Workspace | ShownPlace | None = None


BriefChange = ReadChange[UnitInBrief]
"""A `Change` with a unit in brief."""

Followed = TypeVar("Followed", bound="Change | ReadChange[Any]")


class KnownStates:
    """The follower's knowledge: topics and their last states."""

    def __init__(self) -> None:
        self._states: dict[Topic, Any] = {}

    def note(self, change: Change | ReadChange[Any]) -> None:
        """The follower gets this change."""
        if change.state is None:
            self._states.pop(change.topic, None)
        else:
            self._states[change.topic] = change.state

    def renewed(self, states: Mapping[Topic, Any]) -> Iterator[tuple[Topic, Any]]:
        """The topics and states, None for what is gone, that lead the follower to `states`; each is noted before it is
        given."""
        for topic in [topic for topic in self._states if topic not in states]:
            del self._states[topic]
            yield topic, None
        for topic, state in states.items():
            if self._states.get(topic) != state:
                self._states[topic] = state
                yield topic, state


@dataclass(frozen=True, slots=True)
class _LostDaemon:
    """A daemon that went away: until when it is looked for, and how long to wait before each attempt."""

    stopped: bool
    deadline: float
    pauses: Iterator[float]


class ClosingIterator(ABC):
    """An asynchronous iterator that may be left early: the end of its context closes it."""

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End it, also for a task that waits for the next change."""


class Events(ClosingIterator, Generic[Followed]):
    """An iterator over changes that outlives connections and daemons.

    `change` makes each of its number, topic and state; `of_unit` makes the state of a unit of its JSON, by default all
    of it. What it makes is compared: a unit that gives an equal one has not changed. It runs on the event loop.
    With `rows` `of_unit` gets each as a row (`read_row`), at first without its timings.

    It ends when the daemon was stopped and none came in its place; at once if this client has stopped it. A loop that
    may be left early should close it, best as a context: `async with client.events() as changes`. It may be waited for
    with a time limit; nothing is lost.
    """

    def __init__(
        self,
        connection: Connection,
        state_sync: ClientStateSync,
        client: str,
        change: Callable[[int, Topic, Any], Followed],
        of_unit: OfUnit | None = None,
        patience: Patience = Patience(),
        *,
        rows: bool = False,
    ) -> None:
        self._rows = rows
        self._connection = connection
        self._state_sync = state_sync
        self._client = client
        self._change = change
        self._of_unit = of_unit
        self._patience = patience
        self._known = KnownStates()
        self._pending: Iterator[Followed] = iter(())
        self._seq: int | None = None
        self._exchange: Exchange | None = None
        self._loss: _LostDaemon | None = None
        self._opened_at = 0.0
        self._closed = False
        self._turns = 0
        self._reached = 0
        self._progressed = anyio.Event()

    def close(self) -> None:
        """End it, also for a task that waits for the next change."""
        self._closed = True
        self._hang_up()
        self._progressed.set()

    async def reached(self, seq: int) -> None:
        """Return when the loop over the changes has handled all up to this number of the daemon's, or ends."""
        while self._reached < seq and not self._closed:
            await self._progressed.wait()

    async def __anext__(self) -> Followed:
        """The next change. Raises DaemonGoneError when a lost daemon cannot be reached again."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        while not self._closed:
            self._turns += 1
            if self._turns % _STATES_AT_A_TIME == 0:
                await anyio.lowlevel.checkpoint()
                continue
            if (known := next(self._pending, None)) is not None:
                return known
            if self._seq is not None and self._seq > self._reached:
                self._reached = self._seq
                self._progressed.set()
                self._progressed = anyio.Event()
            if self._exchange is None:
                await self._connect()
                continue
            try:
                line = await self._exchange.line()
            except LOST_ERRORS:
                self._lose(stopped=False)
                continue
            except anyio.ClosedResourceError:
                continue
            if line is None:
                self._lose(stopped=True)
            elif (change := self._take(line)) is not None:
                return change
        self.close()
        raise StopAsyncIteration

    def _take(self, line: bytes) -> Followed | None:
        from pydantic_core import from_json

        with _understanding("event"):
            raw = from_json(line)
            topic, state = Topic(raw["topic"]), raw["state"]
            change = self._change(int(raw["seq"]), topic, None if state is None else _read(topic, state, self._of_unit))
        if change.topic == RESET:
            self._seq = None
            self._lose(stopped=False)
            return None
        if change.topic == HEARTBEAT:
            return None
        self._seq = change.seq
        self._known.note(change)
        return change

    async def _connect(self) -> None:
        if self._loss is None:
            await self._open()
            return
        loss = self._loss
        await anyio.sleep(next(loss.pauses))
        try:
            # a daemon that was stopped on purpose stays stopped until the next request
            await self._connection.reach(start=not loss.stopped)
            await self._state_sync.settle()
            if self._state_sync.has_sent:
                self._seq = None  # the daemon may have forgotten the view that these states are of
            await self._open()
        except LOST_ERRORS:
            if anyio.current_time() < loss.deadline:
                return
            if not loss.stopped:
                raise
            self._closed = True

    async def _open(self) -> None:
        if self._seq is None:
            path = ("overview" if self._rows else "snapshot",)
            data = await self._connection.request(Request("GET", path, (("client", self._client),)))
            seq, states = await states_of(data, self._of_unit)
            news = self._known.renewed(states)
            self._seq, self._pending = seq, (self._change(seq, topic, state) for topic, state in news)
        query = (("client", self._client), ("after", str(self._seq)), ("rows", str(self._rows).lower()))
        self._exchange = await self._connection.open(Request("GET", ("events",), query, retry="never"))
        self._opened_at = anyio.current_time()

    def _lose(self, *, stopped: bool) -> None:
        self._hang_up()
        now = anyio.current_time()
        limit_s = (
            (0.0 if self._connection.has_stopped_it else self._patience.restart_s)
            if stopped
            else self._patience.reconnect_s
        )
        steady = self._loss is None or now - self._opened_at > self._patience.steady_s
        self._loss = _LostDaemon(
            stopped, now + limit_s, pauses() if steady or self._loss is None else self._loss.pauses
        )

    def _hang_up(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()


def whole_change(seq: int, topic: Topic, state: Any) -> Change:
    """A change with the wire type of its state."""
    from ckwatch.wire.state import Change

    return Change(seq=seq, topic=topic, state=state)


async def states_of(data: bytes, of_unit: OfUnit | None = None) -> tuple[int, dict[Topic, Any]]:
    """The number and the states, by topic, of a wire `Snapshot`; units as `of_unit` makes them. The daemon sends each
    state on a line of its own, and it is read piece by piece: 5,000 units at once would hold up the event loop for a
    tenth of a second. Raises ProtocolError."""
    from pydantic_core import from_json

    states: dict[Topic, Any] = {}
    with _understanding("snapshot"):
        start, end = data.index(_STATES) + len(_STATES), len(data) - 2
        if data[end:] != b"}}":
            raise ValueError("it has no end")
        seq = int(from_json(data[:start] + b"}}")["seq"])
        at = since = start
        while at < end:
            stop = data.find(b"\n", at, end)
            stop = end if stop < 0 else stop
            for text, value in from_json(b"{%b}" % data[at:stop].rstrip(b",")).items():
                topic = Topic(text)
                states[topic] = _read(topic, value, of_unit)
            at = stop + 1
            if at - since > _BYTES_AT_A_TIME:
                since = at
                await anyio.lowlevel.checkpoint()
    return seq, states


def _read(topic: Topic, raw: Any, of_unit: OfUnit | None) -> Any:
    """A state as JSON has it."""
    if of_unit is not None and topic.kind == "unit":
        return of_unit(raw)
    from ckwatch.wire.encoding import adapter
    from ckwatch.wire.state import STATES

    return adapter(STATES[raw["kind"]]).validate_python(raw)


def in_brief(raw: Mapping[str, Any]) -> UnitInBrief:
    """A unit as JSON has it, in brief."""
    from pydantic_core import to_json

    place, phase = raw["place"], cast("Phase", intern(raw["phase"]))
    start, end = place["start"], place["end"]
    where = (intern(place["path"]), start["line"], start["column"], end["line"], end["column"])
    return UnitInBrief(where, phase, raw["fresh"], raw["generation"], raw.get("measuring"), to_json(raw))


@contextmanager
def _understanding(what: str) -> Iterator[None]:
    """Raises ProtocolError for whatever is wrong with an answer."""
    from pydantic import ValidationError

    try:
        yield
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError):
        raise ProtocolError(f"the daemon's {what} is not understood") from None
