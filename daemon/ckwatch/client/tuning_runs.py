"""Tuning runs of all processes, as a workspace's journal has them."""

from __future__ import annotations

from pathlib import Path

from ckwatch.client.tuning_journal import FILE_NAME, TuningJournal, unknown_run
from ckwatch.tuning.results import TuningRecord, TuningRun
from ckwatch.wire.endpoint import endpoint_of


def journal_path(root: Path) -> Path:
    """Where the runs of a workspace are kept; for a thread."""
    return endpoint_of(root).log.with_name(FILE_NAME)


def runs_of(root: Path, kernel: str | None) -> list[TuningRun]:
    """The runs of a workspace, or those of one kernel, newest first; for a thread. Raises CkwatchError."""
    path = journal_path(root)
    if not path.exists():
        return []
    journal = TuningJournal(path)
    try:
        return journal.runs(kernel)
    finally:
        journal.close()


def record_of(root: Path, number: int) -> TuningRecord:
    """All of a run; for a thread. Raises CkwatchError, also for an unknown number."""
    path = journal_path(root)
    if not path.exists():
        raise unknown_run(number)
    journal = TuningJournal(path)
    try:
        return journal.record(number)
    finally:
        journal.close()
