"""Batches: which changes count, and when they are reported.

One save is reported at once, a checkout of thousands of files once it is over. Which of the two it is shows only while
it happens: changes are gathered until a short quiet, and until a longer one as soon as they are many. Names that
editors use for a moment while they save are left out; a file that is watched by its own name is reported whatever it
is called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import field

from ckwatch.model.delays import CHECKOUT_PAUSE, LARGE_BATCH_LIMIT, LARGE_BATCH_QUIET
from ckwatch.model.lazy_dataclass import dataclass

TEMPORARY_NAMES: dict[str, str] = {
    r".*~": "backup: Vim, Emacs, Kate, gedit, nano",
    r"\..*\.sw[a-z]": "swap file: Vim, Neovim",
    r"4913|5036|5159|5282|5405": "Vim asks whether it may write here; further numbers when the first is taken",
    r"\.#.*": "lock (a dangling link): Emacs",
    r"#.*#": "auto-save: Emacs",
    r".*___jb_(tmp|old)___": "safe write: JetBrains",
    r"\.goutputstream-.*": "safe write: gedit and everything else on GIO",
    r"\..*\.kate-swp": "swap file: Kate",
    r".*\.bck": "backup while writing: Helix",
    r"\..*\.kak\..*": "safe write: Kakoune",
    r"\.subl.*\.tmp": "atomic save: Sublime Text",
    r"\.~lock\..*#": "lock: LibreOffice",
    r"sed[A-Za-z0-9]{6}": "sed -i",
    r"\.nfs[0-9a-f]+|\.fuse_hidden.*": "deleted while open: NFS, FUSE",
    r"\..*\.(tmp|part)|.*\.crswap": "rsync-like tools, browsers",
}
"""Regular expressions of whole names, each with whose they are."""

_TEMPORARY = re.compile("|".join(f"(?:{pattern})" for pattern in TEMPORARY_NAMES), re.DOTALL)


def is_temporary(name: str) -> bool:
    """Return True if a file of this name (without its folder) is an editor's own."""
    return _TEMPORARY.fullmatch(name) is not None


LARGE_BATCH = 50
"""More changed paths than this are a checkout or a generator at work, not an editor."""

SMALL_LIMIT_STEPS = 5
"""A small gathering that never becomes quiet is reported after this many steps."""

SEVERAL_PATHS = 5
"""After a batch of several paths, changes within `CHECKOUT_PAUSE` belong to the same checkout, which had to pause."""

PATHS_LIMIT = 50_000
"""More distinct paths than this are not kept: the batch then says "everything"."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Paths that changed together.

    `paths` are absolute, as the workspace names them: files or folders that appeared, changed or vanished. A folder
    stands for everything in it. `complete` is false when changes may be missing from `paths` (the kernel's queue
    overflowed, a watched folder was deleted and came back, too many paths): everything has to be scanned again.
    """

    paths: frozenset[str]
    complete: bool = True


@dataclass(slots=True)
class PendingChanges:
    """Changes that were not reported yet. All times are seconds of one monotonic clock."""

    step_s: float
    paths: set[str] = field(default_factory=set)
    lost: bool = False
    young: bool = False
    """Return True if a file changed a moment ago and may still be changing: check it again before reporting."""
    reported: int = 0
    reported_s: float = -math.inf
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
            self.first_s = self.last_s = now_s
        self.last_s = max(self.last_s, now_s)
        self.paths.update(paths)
        self.lost = self.lost or lost
        if len(self.paths) > PATHS_LIMIT:
            self.paths.clear()
            self.lost = True

    def due_s(self) -> float:
        """When to report, if nothing else happens until then."""
        continued = self.reported >= SEVERAL_PATHS and self.first_s - self.reported_s < CHECKOUT_PAUSE.seconds
        if len(self.paths) > LARGE_BATCH or self.lost or continued:
            quiet_s, limit_s = LARGE_BATCH_QUIET.seconds, LARGE_BATCH_LIMIT.seconds
        else:
            quiet_s, limit_s = self.step_s, SMALL_LIMIT_STEPS * self.step_s
        return min(self.last_s + quiet_s, self.first_s + limit_s)

    def take(self, now_s: float) -> Batch:
        """Hand out what was gathered and begin anew."""
        batch = Batch(frozenset(self.paths), complete=not self.lost)
        self.reported, self.reported_s = len(self.paths), now_s
        self.paths.clear()
        self.lost = False
        return batch
