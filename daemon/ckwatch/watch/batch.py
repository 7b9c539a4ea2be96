"""What a change of the workspace is, and when it is told: the plain decisions of the watch room.

One save is told at once, a checkout of thousands of files once it is over. Which of the two it is shows only while it
happens: a gathering waits for a short quiet, and for a longer one as soon as it has become large.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

LARGE = 50
"""More changed paths than this are a checkout or a generator at work, not an editor."""

LARGE_QUIET_S = 0.15
LARGE_LIMIT_S = 2.0
"""How long a large gathering waits for quiet, and how long at most in all."""

WRITING_QUIET_S = 0.1
"""How long a file that somebody still has open for writing is waited for after its last write."""

SMALL_LIMIT_STEPS = 5
"""A small gathering that never becomes quiet is told after this many steps."""

SEVERAL = 5
SOON_S = 0.5
"""Changes so soon after a batch of several paths belong to the same checkout, whose process had to pause."""

PATHS_LIMIT = 50_000
"""More distinct paths than this are not kept: the batch then says "everything"."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Paths that changed together.

    `paths` are absolute, as the workspace names them: files or folders that appeared, changed or vanished. A folder
    stands for everything in it. `complete` is false when changes may be missing from `paths` (the kernel's queue
    overflowed, a watched folder was deleted and came back, too many paths): everything has to be looked at again.
    """

    paths: frozenset[str]
    complete: bool = True


@dataclass(slots=True)
class Gathering:
    """Changes that were not told yet. All times are seconds of one monotonic clock."""

    step_s: float
    paths: set[str] = field(default_factory=set)
    lost: bool = False
    writing: set[str] = field(default_factory=set)
    """Places that were written to and not closed yet; they do not make a gathering by themselves."""
    told: int = 0
    told_s: float = -math.inf
    """How many paths the last batch had, and when it was taken."""
    first_s: float = 0.0
    last_s: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.paths) or self.lost

    def add(self, paths: Collection[str], now_s: float, *, lost: bool = False) -> None:
        """Merge changes. Without any nothing happens: unrelated events never hold a batch back."""
        if not paths and not lost:
            return
        if not self:
            self.first_s = now_s
        self.last_s = now_s
        self.paths.update(paths)
        self.lost = self.lost or lost
        if len(self.paths) > PATHS_LIMIT:
            self.paths.clear()
            self.lost = True

    def due_s(self) -> float:
        """When to tell, if nothing else happens until then."""
        continued = self.told >= SEVERAL and self.first_s - self.told_s < SOON_S
        if len(self.paths) > LARGE or self.lost or continued:
            quiet_s, limit_s = LARGE_QUIET_S, LARGE_LIMIT_S
        elif self.writing:
            quiet_s, limit_s = max(self.step_s, WRITING_QUIET_S), SMALL_LIMIT_STEPS * WRITING_QUIET_S
        else:
            quiet_s, limit_s = self.step_s, SMALL_LIMIT_STEPS * self.step_s
        return min(self.last_s + quiet_s, self.first_s + limit_s)

    def take(self, now_s: float) -> Batch:
        """Hand out what was gathered and begin anew."""
        batch = Batch(frozenset(self.paths), complete=not self.lost)
        self.told, self.told_s = len(self.paths), now_s
        self.paths.clear()
        self.writing.clear()
        self.lost = False
        return batch
