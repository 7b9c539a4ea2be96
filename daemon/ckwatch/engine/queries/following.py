"""Requests that clients follow: units are built, then more is done with each and reported as soon as it is known."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any, Generic, TypeVar

import anyio
from anyio import CancelScope
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.core.events import WorkDropped, WorkKind
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.build import FollowedBuilds
from ckwatch.model.errors import plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.benchmarks import BenchLine
from ckwatch.wire.state import BuildLine
from ckwatch.wire.verification import VerifyLine

NOT_BUILT = "it was not built"
SKIPPED = "an instance rule refuses it, and its sweep skips it"
REMOVED = "it was removed"
CHANGED = "it was edited or cancelled meanwhile"

Line = TypeVar("Line", BenchLine, VerifyLine, BuildLine)


@dataclass(slots=True, kw_only=True)
class FollowedRequest(Generic[Line]):
    """One request, in the view `scope`. `pending`: the units that are not reported yet, with the numbers of the
    requests for them; `begun`: what is at work."""

    scope: str
    force: bool
    done: Line
    send: MemoryObjectSendStream[Line] | None = None
    pending: dict[str, int] = field(default_factory=dict)
    begun: set[Any] = field(default_factory=set)
    built: bool = False

    def report(self, line: Line) -> None:
        """Send a line. There are no more than a few for each unit."""
        if self.send is not None:
            self.send.send_nowait(line)

    def end_if_complete(self) -> None:
        """Report the end, once."""
        if self.built and not self.pending and self.send is not None:
            self.report(self.done)
            self.send.close()
            self.send = None


Request = TypeVar("Request", bound=FollowedRequest[Any])


class FollowedWork(Generic[Request]):
    """The requests for work of one kind that are followed now. What is pending is dropped when one is left."""

    kind: WorkKind

    def __init__(self, loop: EngineLoop, builds: FollowedBuilds) -> None:
        self._loop = loop
        self._builds = builds
        self._numbers = itertools.count(1)
        self._followed: list[Request] = []

    @abstractmethod
    async def _built(self, one: Request, name: str, problem: str | None) -> None:
        """Ask for a unit whose build has ended, or report why not."""

    @abstractmethod
    def _report_done(self, one: Request, name: str, number: int) -> None:
        """Report what is done of a pending unit."""

    @asynccontextmanager
    async def _following(self, one: Request, builds: AsyncIterator[BuildLine], start: Any) -> AsyncIterator[Any]:
        """The lines of a request; leaving the context before its end cancels what nothing else wants."""
        one.send, receive = send, _ = anyio.create_memory_object_stream[Any](float("inf"))
        self._followed.append(one)
        one.report(start)
        try:
            async with plain_errors(), anyio.create_task_group() as tasks:

                async def build() -> None:
                    async for line in builds:
                        if line.event == "unit" and line.id is not None:
                            await self._built(one, line.id, line.problem)
                    one.built = True
                    one.end_if_complete()

                tasks.start_soon(build)
                tasks.start_soon(self._watch, one)
                yield receive
                tasks.cancel_scope.cancel()
        finally:
            self._followed.remove(one)
            one.send = None
            send.close()
            receive.close()
            if one.pending:
                with CancelScope(shield=True):
                    await self._loop.post(WorkDropped(self.kind, tuple(one.pending), scope=one.scope))

    async def _watch(self, one: Request) -> None:
        """After each change, report what is done; until cancelled."""
        feed = self._loop.feed
        while True:
            seq = feed.seq
            for name, number in list(one.pending.items()):
                self._report_done(one, name, number)
            one.end_if_complete()
            await feed.wait(seq)

    def _waiting_for(self, unit: str) -> Iterator[Request]:
        """The requests that wait for a unit."""
        return (one for one in self._followed if unit in one.pending)
