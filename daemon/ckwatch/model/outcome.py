"""How a unit ended."""

from __future__ import annotations

from enum import StrEnum

ARTIFACT_LOST = "the store no longer had what was built"
"""The cause of a build that nothing else asked for."""


class Outcome(StrEnum):
    """What is known of a unit. `faulted`: the host or the compiler failed, nothing was learned of the kernel."""

    CHECKED = "checked"
    BUILT = "built"
    FAILED = "failed"
    FAULTED = "faulted"
