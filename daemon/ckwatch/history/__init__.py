"""The daemon's state and history: the last result of each unit, and what ran before, in a SQLite file per workspace."""

from ckwatch.history.database import HistoryError
from ckwatch.history.history import History, database_path
from ckwatch.history.record import UnitRecord

__all__ = ["History", "HistoryError", "UnitRecord", "database_path"]
