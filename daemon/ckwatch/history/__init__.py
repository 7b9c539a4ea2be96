"""The daemon's state and history, in a SQLite file per workspace: the last result of each unit, what ran before, and
what was measured."""

from ckwatch.history.artifacts import Artifacts
from ckwatch.history.database import HistoryError
from ckwatch.history.history import History, database_path
from ckwatch.history.record import UnitRecord
from ckwatch.history.timing_record import TimingRecord
from ckwatch.history.timings import Baseline, Timings

__all__ = ["Artifacts", "Baseline", "History", "HistoryError", "TimingRecord", "Timings", "UnitRecord", "database_path"]
