"""A queue in which the most wanted unit comes first and priorities may change."""

from __future__ import annotations

import heapq

from ckwatch.events import UnitKey

Priority = tuple[int, int, int]
"""Rank (0: looked at, 1: asked for, 2: edited, 3: the rest), negated recency of its edit, order of arrival."""


class WorkQueue:
    """Units by priority. Adding one again moves it, unless only its order of arrival is another."""

    def __init__(self) -> None:
        self._heap: list[tuple[Priority, UnitKey]] = []
        self._priority: dict[UnitKey, Priority] = {}

    def __len__(self) -> int:
        return len(self._priority)

    def __contains__(self, key: UnitKey) -> bool:
        return key in self._priority

    def add(self, key: UnitKey, priority: Priority) -> None:
        """Put the unit at its place."""
        known = self._priority.get(key)
        if known is None or known[:2] != priority[:2]:
            self._priority[key] = priority
            heapq.heappush(self._heap, (priority, key))

    def remove(self, key: UnitKey) -> None:
        """Take the unit out, if it is in."""
        self._priority.pop(key, None)

    def first(self) -> UnitKey | None:
        """The unit that comes next, which stays in the queue."""
        heap, current = self._heap, self._priority
        while heap and current.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def pop(self) -> UnitKey:
        """Take out the unit that comes next. Raises IndexError when there is none."""
        key = self.first()
        if key is None:
            raise IndexError("the queue is empty")
        heapq.heappop(self._heap)
        del self._priority[key]
        return key

    @property
    def keys(self) -> frozenset[UnitKey]:
        """The units in it."""
        return frozenset(self._priority)
