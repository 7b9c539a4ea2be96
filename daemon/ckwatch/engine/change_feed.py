"""The change feed: which topics changed, in which order. Each topic stands in it once, at its latest change.

So a follower may be as slow as it likes: it sees each topic's present state and misses none, and the feed is no longer
than there are topics. Sequence numbers grow over restarts (they begin at the time of the start, in microseconds), so
that a number from an earlier daemon is known to be one.
"""

from __future__ import annotations

import time

import anyio

from ckwatch.core.events import MAIN

TOPICS_KEPT = 50_000
"""Topics per scope, those of removed units included. Beyond, the oldest half is forgotten, and followers that are that
far behind have to start again."""


class ChangeFeed:
    """The order of changes in every scope."""

    def __init__(self, topics_kept: int = TOPICS_KEPT) -> None:
        self._topics_kept = topics_kept
        self.seq = int(time.time() * 1_000_000)
        self._first = self.seq
        self._marks: dict[str, dict[str, int]] = {MAIN: {}}
        self._news = anyio.Event()

    def mark(self, scope: str, topic: str) -> None:
        """The topic changed."""
        self.seq += 1
        marks = self._marks.setdefault(scope, {})
        marks.pop(topic, None)
        marks[topic] = self.seq
        if len(marks) > self._topics_kept:
            for old in list(marks)[: self._topics_kept // 2]:
                self._first = max(self._first, marks.pop(old))
        if self._news.statistics().tasks_waiting:
            self._news.set()
            self._news = anyio.Event()

    def forget(self, scope: str) -> None:
        """Drop the scope of a client that has disconnected."""
        self._marks.pop(scope, None)

    def is_known(self, seq: int) -> bool:
        """Whether a follower that has seen everything up to `seq` can go on from there."""
        return self._first <= seq <= self.seq

    def last(self, scope: str, topic: str) -> int:
        """When the topic last changed; 0 for never."""
        return self._marks.get(scope, {}).get(topic, 0)

    def after(self, scope: str, seq: int, limit: int) -> list[tuple[int, str]]:
        """Up to `limit` topics that changed after `seq` for a client of `scope`, the earliest first."""
        found: dict[str, int] = {}
        for name in {MAIN, scope}:
            for topic, at in reversed(self._marks.get(name, {}).items()):
                if at <= seq:
                    break
                found[topic] = max(at, found.get(topic, 0))
        return sorted((at, topic) for topic, at in found.items())[:limit]

    async def wait(self, seq: int) -> None:
        """Return when something changed after `seq`."""
        while self.seq <= seq:
            await self._news.wait()
