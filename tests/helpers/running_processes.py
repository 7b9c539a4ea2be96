"""Processes that run, and those that were started and have ended."""

from __future__ import annotations

from ckwatch.system.processes import process_state


def runs(pid: int) -> bool:
    """Return True while it runs; a zombie, which nobody has waited for, does not."""
    return process_state(pid) not in {"", "Z", "X"}
