"""Counts of a launch on the emulator, instruction by instruction. They are exact for the workgroups that were executed,
and no times."""

from __future__ import annotations

from dataclasses import field

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class InstructionCounts:
    """The counts of one instruction, summed over waves.

    `issued`: by how many waves, each time; `lanes`: the active ones of these. Of memory: `requests` of a wave, the
    `cache_lines` that they touch, `least_lines` that would hold what they want, and the different `bytes` of that. Of
    LDS: `accesses` of a wave, their `turns`, the `phases` in which a lane took part (turns without any conflict), and
    the turns of the `fullest` phase: n for an n-way conflict.
    """

    issued: int
    lanes: int
    requests: int = 0
    cache_lines: int = 0
    least_lines: int = 0
    bytes: int = 0
    accesses: int = 0
    turns: int = 0
    phases: int = 0
    fullest: int = 0

    def __add__(self, other: InstructionCounts) -> InstructionCounts:
        return InstructionCounts(
            self.issued + other.issued,
            self.lanes + other.lanes,
            self.requests + other.requests,
            self.cache_lines + other.cache_lines,
            self.least_lines + other.least_lines,
            self.bytes + other.bytes,
            self.accesses + other.accesses,
            self.turns + other.turns,
            self.phases + other.phases,
            max(self.fullest, other.fullest),
        )


NOTHING_COUNTED = InstructionCounts(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRequest:
    """The request of an instruction that cost most above the least: `cost` turns of LDS or cache lines, where `least`
    would do.

    `lanes`: those that take part, of LDS those of its fullest phase; `places`: by these, the bytes where each begins to
    access `size_bytes`, in LDS or from the lowest one. `banks`: of LDS; 0 for memory.
    """

    lanes: tuple[int, ...]
    places: tuple[int, ...]
    size_bytes: int
    banks: int
    cost: int
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounts:
    """The counts of a kernel (`symbol`) in all its launches. `instructions`: those that were issued, by address as the
    disassembler prints it; `worst`: their worst requests, of those that cost more than the least; `workgroups` of
    `all_workgroups` were executed."""

    symbol: str
    launches: int
    workgroups: int
    all_workgroups: int
    instructions: dict[int, InstructionCounts]
    worst: dict[int, WorstRequest] = field(default_factory=dict)
