"""File-system events become batches of changed paths.

`Watcher` is all that others need. It follows folders with everything in them (a workspace, template folders) and single
files anywhere (headers that a compile read, files that were looked for and not found), and tells what changed in
`Batch`es. `make_watcher` makes the one that was chosen: by inotify, or by the `watchfiles` library.
"""

from ckwatch.watch.batch import Batch
from ckwatch.watch.choosing import make_watcher
from ckwatch.watch.watcher import Watcher

__all__ = ["Batch", "Watcher", "make_watcher"]
