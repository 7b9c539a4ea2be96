"""The change feed: which topics changed, in which order. Each topic stands in it once, at its latest change.

So a follower may be as slow as it likes: it sees each topic's present state and misses none, and the feed is no longer
than there are topics. Sequence numbers grow over restarts (they begin at the time of the start, in microseconds), so
that a number from an earlier daemon is known to be one.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice

import anyio

from ckwatch.core.events import MAIN
from ckwatch.model.topics import Topic

TOPICS_KEPT = 50_000
"""Topics per scope, those of removed units included. Beyond, the oldest half is forgotten, and followers that are that
far behind have to start again."""


class ChangeFeed:
    """The order of changes in every scope."""

    def __init__(self, topics_kept: int = TOPICS_KEPT, clock: Callable[[], float] = time.time) -> None:
        self._topics_kept = topics_kept
        self.seq = int(clock() * 1_000_000)
        self._first = self.seq
        self._marks: dict[str, _Marks] = {MAIN: _Marks()}
        self._news = anyio.Event()
        self._waiting = 0

    def mark(self, scope: str, topic: Topic) -> None:
        """The topic changed."""
        self.seq += 1
        marks = self._marks.get(scope)
        if marks is None:
            marks = self._marks[scope] = _Marks()
        marks.add(self.seq, topic)
        if len(marks.latest) > self._topics_kept:
            self._first = max(self._first, marks.drop(self._topics_kept // 2))
        if self._waiting:
            self._waiting = 0
            self._news.set()
            self._news = anyio.Event()

    def forget(self, scope: str) -> None:
        """Drop the scope of a client that has disconnected."""
        self._marks.pop(scope, None)

    def has(self, scope: str) -> bool:
        """Return True if anything has changed in exactly this scope."""
        return scope in self._marks

    def is_known(self, seq: int) -> bool:
        """Return True if a follower that has seen everything up to `seq` can go on from there."""
        return self._first <= seq <= self.seq

    def last(self, scope: str, topic: Topic) -> int:
        """When the topic last changed; 0 for never."""
        marks = self._marks.get(scope)
        return 0 if marks is None else marks.latest.get(topic, 0)

    def newest(self, scope: str) -> int:
        """The last change that a client of `scope` can see; 0 for none."""
        marks = (self._marks.get(each) for each in {MAIN, scope})
        return max((next(reversed(each.latest.values()), 0) for each in marks if each is not None), default=0)

    def after(self, scope: str, seq: int, limit: int, until: int | None = None) -> list[tuple[int, Topic]]:
        """Up to `limit` topics whose latest change for a client of `scope` came after `seq`, the earliest first; with
        `until`, no later than that."""
        until = self.seq if until is None else until
        main, own = self._marks[MAIN], self._marks.get(scope)
        if own is None or own is main:
            return list(islice(main.between(seq, until), limit))
        both = merge(
            ((at, topic) for at, topic in main.between(seq, until) if own.latest.get(topic, 0) < at),
            ((at, topic) for at, topic in own.between(seq, until) if main.latest.get(topic, 0) < at),
        )
        return list(islice(both, limit))

    async def wait(self, seq: int) -> None:
        """Return when something changed after `seq`."""
        while self.seq <= seq:
            self._waiting += 1
            await self._news.wait()


class _Marks:
    """The changes of one scope."""

    def __init__(self) -> None:
        self.latest: dict[Topic, int] = {}
        """Topics in the order of their latest change."""
        self._numbers: list[int] = []
        self._topics: list[Topic] = []
        """All changes in order, by their numbers; those that a later one of the topic has replaced go now and then."""

    def add(self, seq: int, topic: Topic) -> None:
        """The topic changed; `seq` is higher than all before."""
        self.latest.pop(topic, None)
        self.latest[topic] = seq
        self._numbers.append(seq)
        self._topics.append(topic)
        if len(self._numbers) > 2 * len(self.latest) + 1000:
            self._compact()

    def drop(self, count: int) -> int:
        """Forget the oldest `count` topics; the number of the last of them."""
        last = 0
        for topic in list(islice(self.latest, count)):
            last = self.latest.pop(topic)
        self._compact()
        return last

    def between(self, seq: int, until: int) -> Iterator[tuple[int, Topic]]:
        """The topics whose latest change came after `seq` and no later than `until`, in order."""
        first, end = bisect_right(self._numbers, seq), bisect_right(self._numbers, until)
        for index in range(first, end):
            at, topic = self._numbers[index], self._topics[index]
            if self.latest.get(topic) == at:
                yield at, topic

    def _compact(self) -> None:
        self._numbers = list(self.latest.values())
        self._topics = list(self.latest)
