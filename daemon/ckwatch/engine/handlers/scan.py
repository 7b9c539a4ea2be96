"""Scan: compares every tracked file with what was last read of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from anyio import CapacityLimiter, to_thread

from ckwatch.core.effects import Scan
from ckwatch.core.events import ScanFinished
from ckwatch.core.state import State
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.look_up import RecentSnapshot

Digests = Callable[[Sequence[str]], tuple[list[str | None], int]]
"""`ContentHashes.digests`."""


class ScanHandler:
    """Digests the tracked files, and has later look-ups read the headers again."""

    def __init__(self, state: State, tools: BuildTools, snapshot: RecentSnapshot, threads: CapacityLimiter) -> None:
        self._state = state
        self._tools = tools
        self._snapshot = snapshot
        self._threads = threads

    async def run(self, effect: Scan) -> ScanFinished:
        """The tracked files that changed."""
        known, disputed = self._state.graph.known_digests()
        store = self._tools.store
        if store is None:
            return ScanFinished(effect.work, {})
        self._snapshot.reset()
        compare = partial(changed_digests, known, disputed, store.contents.digests)
        return ScanFinished(effect.work, await to_thread.run_sync(compare, limiter=self._threads))


def changed_digests(
    known: Mapping[str, str | None], always: Collection[str], digests: Digests
) -> dict[str, str | None]:
    """The present digests of files that differ from what was last read of them, and of those in `always`."""
    found = dict(zip(known, digests(tuple(known))[0], strict=True))
    return {path: now for path, now in found.items() if path in always or now != known[path]}
