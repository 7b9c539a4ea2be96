"""Cycles that waves spend at instructions, by an estimate: no timing, and no measurement."""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WaitCause:
    """The cause of a wait: the result of the instruction at `address`, or a unit of the hardware (None)."""

    what: str
    address: int | None = None


@dataclass(frozen=True, slots=True)
class InstructionCycles:
    """Cycles at one instruction, summed over waves: `issue` until the wave may go on to the next one, before it `waits`
    by their causes."""

    issue: float
    waits: Mapping[WaitCause, float]


@dataclass(frozen=True, slots=True)
class CycleEstimate:
    """By the address of the instruction. `notes` say what is assumed, and what has no estimate."""

    instructions: Mapping[int, InstructionCycles]
    notes: tuple[str, ...] = ()
