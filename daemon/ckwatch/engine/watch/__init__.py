"""File-system events become batches of changed paths.

`Watcher` is all that others need. It watches folders with everything in them (a workspace, template folders) and
single files anywhere (headers that a compile read, files that were looked for and not found), and reports changes in
`Batch`es. Hints come from the `watchfiles` library; what it misses is found by whoever gets an incomplete batch and
compares all files with what was read of them.
"""

from __future__ import annotations

from ckwatch.engine.watch.batch import Batch
from ckwatch.engine.watch.watcher import WatchDelays, Watcher

__all__ = ["Batch", "WatchDelays", "Watcher"]
