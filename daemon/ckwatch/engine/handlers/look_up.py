"""The look at files that look-ups share."""

from __future__ import annotations

import time

from ckwatch.compile.store.content_hashes import ContentSnapshot
from ckwatch.engine.build_tools import CompilerWithStore

SNAPSHOT_S = 0.5
"""All look-ups within this time share one look at the headers; later changes come as events of their own."""


class RecentSnapshot:
    """The contents of files as they were at most half a second ago."""

    def __init__(self) -> None:
        self._snapshot: ContentSnapshot | None = None
        self._taken_at = 0.0

    def of(self, compiler: CompilerWithStore) -> ContentSnapshot:
        """The last snapshot, or a new one when that is too old."""
        now = time.monotonic()
        if self._snapshot is None or now - self._taken_at > SNAPSHOT_S:
            self._snapshot, self._taken_at = compiler.builder.look(), now
        return self._snapshot

    def reset(self) -> None:
        """Take a new one next time."""
        self._snapshot = None
