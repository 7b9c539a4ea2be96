"""Verification by an emulator as clients see it: requests, and what came of them. Nothing here is a time."""

from __future__ import annotations

from typing import Literal

from ckwatch.model.verification import Verification
from ckwatch.wire.values import Value


class UnitVerification(Value):
    """The verification of a unit's present artifact. `summary` is one line: `✓ verified (emulated gfx942)`, what is
    wrong, or why it was not verified; then `verification` may be None."""

    unit: str
    outcome: Literal["verified", "failed", "not verified"]
    summary: str
    artifact_key: str = ""
    verification: Verification | None = None


class VerifyLine(Value):
    """A line of a verification's answer: `start`, `began` and each `stage` of a unit, `unit` with the result, `done` at
    the end.

    `units`: of `start` how many are verified. `outcome`: of `unit` what became of the unit when there is no artifact
    (`failed`, `skipped`, `faulted`, `removed`), else `built`. `known`: the result was known already.
    """

    event: Literal["start", "began", "stage", "unit", "done", "heartbeat"]
    unit: str | None = None
    units: int = 0
    text: str = ""
    outcome: str = ""
    known: bool = False
    result: UnitVerification | None = None
