"""Verifications in memory: what is asked is noted in the engine's list; and an emulator that executes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from ckwatch.bench.worker_protocol import LaunchCounted
from ckwatch.engine.handlers.verify import EmulatorRun
from ckwatch.model.verification import (
    EmulatedFinding,
    FindingKind,
    ProblemOutcome,
    Verification,
    VerifiedProblem,
)
from ckwatch.wire.verification import UnitVerification

UNIT = "gemm/m128@gfx942"


def problem_of(name: str = "exact", **fields: Any) -> VerifiedProblem:
    """A problem, right unless `fields` say otherwise."""
    values: dict[str, Any] = {"name": name, "shape": "M=128 N=128 K=64", "outcome": ProblemOutcome.RIGHT}
    return VerifiedProblem(**(values | fields))


def finding_of(**fields: Any) -> EmulatedFinding:
    """A read beyond the end of a tensor, unless `fields` say otherwise."""
    values: dict[str, Any] = {
        "kind": FindingKind.OUT_OF_BOUNDS_READ, "message": "reads 4 bytes beyond the end of X (4,096 bytes)",
        "problem": "ragged", "kernel": "k", "workgroup": (1, 0, 0), "wave": 2, "lane": 17,
        "instruction": "buffer_load_dword v1, v2, s[0:3], 0 offen", "code_address": 0x1940, "address": 0x7F0000001000,
        "size_bytes": 4,
    }  # fmt: skip
    return EmulatedFinding(**(values | fields))


def verification_of(*findings: EmulatedFinding, **fields: Any) -> Verification:
    """A verification of one problem, with these findings."""
    values: dict[str, Any] = {"device": "emulated:gfx942", "problems": (problem_of(),), "findings": findings}
    return Verification(**(values | fields))


def unit_verification(found: Verification | None = None, unit: str = UNIT) -> UnitVerification:
    """Return the daemon's state of a unit."""
    found = found or verification_of()
    return UnitVerification(
        unit=unit, outcome=found.outcome.value, summary=found.summary, artifact_key="ab.cd", verification=found
    )


class FakeEmulator:
    """Fits `ckwatch.engine.handlers.verify.Emulate`: `answer` makes the verification; `gate` holds it up."""

    def __init__(self, answer: Callable[[EmulatorRun], Verification] | None = None) -> None:
        self.answer = answer or self.right
        self.runs: list[EmulatorRun] = []
        self.fault: Exception | None = None
        self.running = 0
        self.gate = anyio.Event()
        self.gate.set()

    @staticmethod
    def right(run: EmulatorRun) -> Verification:
        """Every problem is right."""
        problems = tuple(problem_of(trial.name, shape=trial.shape) for trial in run.trials)
        return verification_of(problems=problems, checked=run.checked)

    async def __call__(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> Verification:
        self.runs.append(run)
        on_stage("verifying exact")
        self.running += 1
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        if self.fault is not None:
            raise self.fault
        return self.answer(run)

    async def count(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> LaunchCounted:
        """Counts nothing."""
        self.runs.append(run)
        on_stage("counting")
        return LaunchCounted(kernels=(), failure="this emulator counts nothing")
