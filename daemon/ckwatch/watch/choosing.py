"""Which watcher it is."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ckwatch.watch.batch import Batch
from ckwatch.watch.watcher import Watcher

Kind: TypeAlias = Literal["inotify", "watchfiles"]


def make_watcher(
    kind: Kind,
    deliver: Callable[[Batch], Awaitable[None]],
    on_problem: Callable[[str | None, str | None], None],
    *,
    step_ms: int = 20,
    poll: bool = False,
) -> Watcher:
    """The watcher of this kind; on `watchfiles` as well where there is no inotify."""
    if kind == "watchfiles" or sys.platform != "linux":
        from ckwatch.watch.by_watchfiles import WatchfilesWatcher  # most never need the library

        return WatchfilesWatcher(deliver, on_problem, step_ms=step_ms, poll=poll)
    return Watcher(deliver, on_problem, step_ms=step_ms, poll=poll)
