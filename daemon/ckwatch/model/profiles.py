"""Profiles of kernels, line by line: counts of what an emulator executed. They are exact, and no times."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ckwatch.model.instruction_counts import NOTHING_COUNTED, InstructionCounts, WorstRequest
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleFigures:
    """Cycles that waves spend at instructions, summed over waves: an estimate, no timing. `issue`: in which they go
    on, `wait`: in which they do not, `waits_for`: these by what is waited for (`load of line 41`), the longest first.
    """

    issue: int
    wait: int
    waits_for: Mapping[str, int]

    @property
    def total(self) -> int:
        """Of issue and wait."""
        return self.issue + self.wait


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFigures:
    """Counts of several instructions.

    `on_lanes`: issues of those that work on lanes (vector, memory and matrix instructions), `active_lanes`: the sum of
    their active lanes. `mix`: issues by class (`InstructionKind`). `waits`: issues of waits by what they wait for.
    `cycles`: estimated ones; None where there is no estimate.
    """

    counts: InstructionCounts = NOTHING_COUNTED
    on_lanes: int = 0
    active_lanes: int = 0
    mix: Mapping[str, int]
    waits: Mapping[str, int]
    cycles: CycleFigures | None = None

    def lanes_at_work(self, wave_lanes: int) -> float | None:
        """The part of the lanes that are active in instructions that work on lanes; None where there are none."""
        return self.active_lanes / (self.on_lanes * wave_lanes) if self.on_lanes else None

    @property
    def lines_per_request(self) -> float | None:
        """Cache lines of a request of memory; None without requests."""
        return self.counts.cache_lines / self.counts.requests if self.counts.requests else None

    @property
    def least_lines_per_request(self) -> float | None:
        """Cache lines that would hold what a request wants."""
        return self.counts.least_lines / self.counts.requests if self.counts.requests else None

    @property
    def bytes_per_line(self) -> float | None:
        """Bytes that are used of a cache line."""
        return self.counts.bytes / self.counts.cache_lines if self.counts.cache_lines else None

    @property
    def conflict_ways(self) -> float | None:
        """Turns of a phase of LDS, on average: 1 without any conflict."""
        return self.counts.turns / self.counts.phases if self.counts.phases else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLine:
    """A line (from zero) of a template, when `in_template`, or of another file with an absolute path.

    `own`: of the instructions that came from this line itself; `total`: also of those that came from functions called
    there. `function`: the one in which it stands, where that is known.
    """

    path: str
    line: int
    in_template: bool
    function: str
    own: ProfileFigures
    total: ProfileFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledInstruction:
    """An instruction. `at`: index of the line that it came from among the profile's lines; `chain`: of that line with
    those that called it among the profile's chains; `loop`: of the innermost loop. `worst`: its worst request, if one
    cost more than the least. `cycles`: estimated ones."""

    address: int
    text: str
    counts: InstructionCounts
    at: int | None = None
    chain: int | None = None
    loop: int | None = None
    worst: WorstRequest | None = None
    cycles: CycleFigures | None = None

    def __post_init__(self) -> None:
        """Let other threads run: thousands are read from JSON by one call, which holds the interpreter otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLoop:
    """A loop, inner ones included. `rounds`: how often its first instruction was issued, summed over waves. `at`: index
    of the line of the branch that closes it."""

    header: int
    depth: int
    parent: int | None
    main: bool
    rounds: int
    figures: ProfileFigures
    at: int | None = None


@dataclass(frozen=True, slots=True)
class ProfiledStack:
    """Functions that were inlined into each other, the outermost first, and the issues of instructions there with
    their estimated cycles."""

    functions: tuple[str, ...]
    issued: int
    cycles: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile:
    """The profile of one kernel of a launch: `workgroups` of `all_workgroups` were executed.

    `name` is readable. `line_bytes`: of a cache line; `wave_lanes`: lanes of a wave. `lines`: those with the most
    issues first. `chains`: indices of lines that called each other, the innermost first. `notes` say what is missing
    and why, `cycle_notes` what the estimate of cycles assumes and leaves out.
    """

    name: str
    symbol: str
    workgroups: int
    all_workgroups: int
    launches: int
    wave_lanes: int
    line_bytes: int
    total: ProfileFigures
    lines: tuple[ProfiledLine, ...] = ()
    loops: tuple[ProfiledLoop, ...] = ()
    stacks: tuple[ProfiledStack, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()
    instructions: tuple[ProfiledInstruction, ...] = ()
    notes: tuple[str, ...] = ()
    cycle_notes: tuple[str, ...] = ()

    def share(self, figures: ProfileFigures) -> float:
        """The part of the kernel's issues."""
        return figures.counts.issued / self.total.counts.issued if self.total.counts.issued else 0.0

    def cycle_share(self, cycles: int | None) -> float | None:
        """The part of the kernel's estimated cycles; None without an estimate."""
        total = self.total.cycles
        return None if cycles is None or total is None or not total.total else cycles / total.total


class LossKind(StrEnum):
    LDS_CONFLICT = "lds-conflict"
    CACHE_LINES = "cache-lines"
    IDLE_LANES = "idle-lanes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileHint:
    """A loss at a line (from zero) of a template or, with an absolute path, of another file.

    `text` is a few words for the end of the line, `message` a sentence with what it means, `pattern` what the worst
    request accesses, if that shows it. `loss`: the part of the launch's slots.
    """

    kind: LossKind
    path: str
    line: int
    in_template: bool
    text: str
    message: str
    loss: float
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """A line (from zero) of the later profile, or of the earlier one where it is `gone`: it issues nothing any more.
    `texts`: what changed, as `LDS conflict 1 → 16 ways`. `worse`: at least one of them costs more."""

    path: str
    line: int
    in_template: bool
    texts: tuple[str, ...]
    worse: bool
    gone: bool = False
