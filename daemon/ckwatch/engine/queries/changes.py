"""The event stream's changes, in pages that all followers at the same place of the feed share.

A change is released at once, and those that follow closely together a moment later. While thousands of
units change before many followers, they are released less often: each unit then goes out in its newest state, once for
several changes, and the followers leave the processor to the work that they follow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from typing import NamedTuple

import anyio

from ckwatch.core.events import MAIN
from ckwatch.engine.change_feed import ChangeFeed
from ckwatch.model.delays import CHANGE_FEED, CHANGES_UNDER_LOAD
from ckwatch.model.topics import RESET, Topic
from ckwatch.wire import state as wire
from ckwatch.wire.rows import UnitRow

TOPICS_AT_ONCE = 200
"""Topics in a page at most: two milliseconds of work."""

PAGES_KEPT = 16
"""Followers that read at different speeds are at different pages; one that is further behind gets pages of its own."""

_SECONDS_PER_DELIVERY = 0.000_1
"""The pause after a release, for each change and each follower: several times what both sides need for it."""

TopicState = wire.State | UnitRow


class _Page(NamedTuple):
    """`until`: where the next page begins."""

    changes: tuple[wire.Change, ...]
    until: int


class ChangePacing(NamedTuple):
    """How many topics are sent at once, and seconds between releases: at rest, and at most under load."""

    topics_at_once: int = TOPICS_AT_ONCE
    pause_s: float = CHANGE_FEED.seconds
    longest_pause_s: float = CHANGES_UNDER_LOAD.seconds


USUAL_PACING = ChangePacing()


class ChangePages:
    """The changes of all scopes.

    `views` has the scopes that do not see just what MAIN has. `state_of` gives the present state of a topic as a scope
    sees it; None: it is gone.
    """

    def __init__(
        self,
        feed: ChangeFeed,
        views: Container[str],
        state_of: Callable[[str, Topic], Awaitable[TopicState | None]],
        pacing: ChangePacing = USUAL_PACING,
    ) -> None:
        self._pacing = pacing
        self._feed = feed
        self._views = views
        self._state_of = state_of
        self._released = feed.seq
        self._next_release = 0.0
        self._releasing = anyio.Lock(fast_acquire=True)
        self._making = anyio.Lock(fast_acquire=True)
        self._pages: dict[int, _Page] = {}

    async def after(self, scope: str, seq: int) -> tuple[wire.Change, ...]:
        """The next topics that changed after `seq`, each with a state that is not older; waits until there is one.

        A lone `reset` when `seq` is not a number that this daemon gave out or is too old. Followers that are equally
        far get the same tuple.
        """
        while self._feed.is_known(seq):
            if seq >= self._released:
                await self._release(seq)
            changes, seq = await self._page(scope, seq)
            if changes:
                return changes
        return (wire.Change(seq=self._feed.seq, topic=RESET),)

    def clear(self) -> None:
        """Nothing has changed for a while."""
        self._pages.clear()

    async def _release(self, seq: int) -> None:
        """Return when something after `seq` may be sent. One follower at a time waits for all; they go on in turns."""
        async with self._releasing:
            while self._released <= seq:
                began_s = anyio.current_time()
                await self._feed.wait(self._released)
                await anyio.sleep_until(began_s + self._pacing.pause_s)  # a follower at rest gets it at once
                await anyio.sleep_until(self._next_release)
                news, self._released = self._feed.seq - self._released, self._feed.seq
                followers = 1 + self._releasing.statistics().tasks_waiting
                pause_s = min(news * followers * _SECONDS_PER_DELIVERY, self._pacing.longest_pause_s)
                self._next_release = anyio.current_time() + pause_s

    async def _page(self, scope: str, seq: int) -> _Page:
        if scope != MAIN and (scope in self._views or self._feed.has(scope)):
            return await self._made(scope, seq)
        async with self._making:
            page = self._pages.pop(seq, None)
            if page is None:
                page = await self._made(MAIN, seq)
                if len(self._pages) == PAGES_KEPT:
                    del self._pages[next(iter(self._pages))]
            self._pages[seq] = page  # the last one that was used stands last
            return page

    async def _made(self, scope: str, seq: int) -> _Page:
        until = self._released
        found = self._feed.after(scope, seq, self._pacing.topics_at_once, until)
        changes = [
            wire.Change(seq=at, topic=topic, state=await self._state_of(scope, topic))  # type: ignore[arg-type]  # or a row
            for at, topic in found
        ]
        return _Page(tuple(changes), found[-1][0] if len(found) == self._pacing.topics_at_once else until)
