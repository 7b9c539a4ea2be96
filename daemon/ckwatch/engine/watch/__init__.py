"""File-system events become batches of changed paths.

`Watcher` is all that others need. It watches folders with everything in them (a workspace, template folders) and
single files anywhere (headers that a compile read, files that were looked for and not found), and reports changes in
`Batch`es. `make_watcher` makes the chosen one: by inotify, or by the `watchfiles` library.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ckwatch.engine.watch.batch import Batch
from ckwatch.engine.watch.watcher import Watcher

WatcherKind: TypeAlias = Literal["inotify", "watchfiles"]


def make_watcher(
    kind: WatcherKind,
    deliver: Callable[[Batch], Awaitable[None]],
    on_problem: Callable[[str | None, str | None], None],
    *,
    step_ms: int = 20,
    poll: bool = False,
) -> Watcher:
    """The watcher of this kind; on `watchfiles` as well where there is no inotify."""
    if kind == "watchfiles" or sys.platform != "linux":
        from ckwatch.engine.watch.watchfiles_watcher import WatchfilesWatcher  # most never need the library

        return WatchfilesWatcher(deliver, on_problem, step_ms=step_ms, poll=poll)
    return Watcher(deliver, on_problem, step_ms=step_ms, poll=poll)


__all__ = ["Batch", "Watcher", "make_watcher"]
