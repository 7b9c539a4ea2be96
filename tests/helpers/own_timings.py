"""Timings by a connection of their own to a history's file."""

from __future__ import annotations

from pathlib import Path

from ckwatch.bench.history.database import BUSY_TIMEOUT_S, HistoryDatabase
from ckwatch.bench.history.timings import Timings


class OwnTimings(Timings):
    def __init__(self, path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        super().__init__(HistoryDatabase(path, busy_timeout_s=busy_timeout_s))

    def open(self) -> None:
        self._database.open()

    def close(self) -> None:
        self._database.close()
