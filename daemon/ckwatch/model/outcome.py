"""How a unit ended."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What is known of a unit. `faulted`: the host or the compiler failed, nothing was learned of the kernel."""

    CHECKED = "checked"
    BUILT = "built"
    FAILED = "failed"
    FAULTED = "faulted"
