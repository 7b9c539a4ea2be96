"""Results of executing a kernel's compiled code on the CPU: right or wrong on some problems, and misuse of memory.

It never holds a time: an emulated launch takes as long as the machine at hand needs, which says nothing of a GPU.
"""

from __future__ import annotations

from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import ReferenceMistake
from ckwatch.model.text import Span


class ProblemOutcome(StrEnum):
    """How a problem ended. `refused`: the kernel's own check does not take this shape. `not compared`: it was executed,
    and what it computes is not known. `not tried`: it is too large. `not verified`: nothing was learned of the kernel,
    as of an instruction that the emulator does not know."""

    RIGHT = "right"
    REFUSED = "refused"
    WRONG = "wrong"
    NOT_COMPARED = "not compared"
    NOT_TRIED = "not tried"
    NOT_VERIFIED = "not verified"


class VerificationDepth(StrEnum):
    """Which problems are tried. `essential`: what takes seconds; `thorough`: these and all others."""

    ESSENTIAL = "essential"
    THOROUGH = "thorough"


class VerificationOutcome(StrEnum):
    """`verified`: every problem that was tried is right or refused, at least one is right, and nothing was found."""

    VERIFIED = "verified"
    FAILED = "failed"
    NOT_VERIFIED = "not verified"


class FindingKind(StrEnum):
    """Kinds of findings, by the names of `verification/native/machine.h`. `emulator-crashed` is a mistake of ours;
    `wrong-result` is the store of a wrong element. The last three are for a judge alone."""

    OUT_OF_BOUNDS_READ = "out-of-bounds-read"
    OUT_OF_BOUNDS_WRITE = "out-of-bounds-write"
    LDS_OUT_OF_BOUNDS = "lds-out-of-bounds"
    LDS_RACE = "lds-race"
    UNDEFINED_VALUE = "undefined-value"
    MISSING_WAIT = "missing-wait"
    DIVERGENT_BARRIER = "divergent-barrier"
    MISALIGNED = "misaligned"
    NON_FINITE = "non-finite"
    WRITE_CONFLICT = "write-conflict"
    MEMORY_RACE = "memory-race"
    TRAP = "trap"
    OUTSIDE_CODE = "outside-code"
    NO_END = "no-end"
    UNDECLARED_INDEX = "undeclared-index"
    UNKNOWN_INSTRUCTION = "unknown-instruction"
    EMULATOR_CRASHED = "emulator-crashed"
    WRONG_RESULT = "wrong-result"
    HOST_CALL = "host-call"
    CLOCK_READ = "clock-read"
    SLEEP = "sleep"


INSTRUCTION_LIMIT = 250_000_000
"""Instructions that a workgroup of up to four waves may execute; one of 4·n waves may execute n times as many."""

EMULATOR_LIMITS = frozenset({FindingKind.UNKNOWN_INSTRUCTION, FindingKind.EMULATOR_CRASHED})
"""Findings that say that the emulator stopped, not that the kernel is wrong."""

STOPS = frozenset({FindingKind.TRAP, FindingKind.OUTSIDE_CODE, FindingKind.NO_END})
"""Mistakes that end a launch."""

EXPLANATIONS = frozenset({FindingKind.NON_FINITE, FindingKind.WRONG_RESULT})
"""Findings that explain a wrong result and are no mistakes by themselves."""


WARNINGS = frozenset({FindingKind.UNDECLARED_INDEX})
"""Findings about the kernel file, not the kernel."""


FOR_JUDGES = frozenset({FindingKind.HOST_CALL, FindingKind.CLOCK_READ, FindingKind.SLEEP})
"""Findings that are mistakes only of a kernel that is judged."""


_NOT_VERIFIED = (ProblemOutcome.NOT_VERIFIED, ProblemOutcome.NOT_COMPARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedProblem:
    """One launch of the kernel. `name`: what its shape tries ("exact", "ragged", "NaN in the padding", …, or the kernel
    file's name of it); `shape`: its sizes, `M=256 N=256 K=64`; `message`: None when it is right; `share`: the part of
    the output's workgroups that were computed and compared; `workgroups`: how many of how many, None where all were.
    For a judge, `error` is the root mean square of the errors and `drift` their mean, positive away from zero, both in
    units of what they may be."""

    name: str
    shape: str
    outcome: ProblemOutcome
    message: str | None = None
    share: float = 1.0
    workgroups: tuple[int, int] | None = None
    error: float = 0.0
    drift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedFinding:
    """One mistake, at the first place and time that it showed; `count` times in all.

    `message` is a sentence. `kernel` is the device function's symbol; `workgroup`, `wave` and `lane` say who did it
    (None: nobody, on a path that was not executed, or no lane in particular), `instruction` and `code_address`, as the
    disassembler prints them, where. The `other_…` are the other side of a race, the load that was not waited for, or
    where an undefined value came from. `address` is one of memory, or an offset in LDS; None where there is none.
    `place` is the line of the template or header, once line tables are known. `tensor`: the input that it is about.
    `hint`: what to do where the kernel need not support the problem.
    """

    kind: FindingKind
    message: str
    problem: str
    kernel: str
    workgroup: tuple[int, int, int] | None
    wave: int | None
    lane: int | None
    instruction: str | None
    code_address: int | None
    other_instruction: str | None = None
    other_code_address: int | None = None
    other_wave: int | None = None
    other_lane: int | None = None
    address: int | None = None
    size_bytes: int = 0
    note: str = ""
    count: int = 1
    place: Span | None = None
    other_place: Span | None = None
    tensor: str = ""
    hint: str = ""


NOT_MODELLED = (
    "the matrix units' internal rounding and order of sums; results are compared within a tolerance",
    "f32 denormals where an instruction flushes them",
    "time: waves of a workgroup run one after the other from barrier to barrier, and nothing is a timing",
    "caches and their coherence with the host",
    "hazards between instructions that the compiler separates by s_nop",
)
"""Ways in which a real GPU may differ from what was verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A unit's verification on `device` (`emulated:gfx942`). `checked`: memory, races and waits were looked at too,
    not the results alone. `depth`: None for single problems that somebody asked for. `reference_mistakes`: why results
    were not compared with the user's reference."""

    device: str
    problems: tuple[VerifiedProblem, ...]
    findings: tuple[EmulatedFinding, ...] = ()
    not_modelled: tuple[str, ...] = NOT_MODELLED
    checked: bool = True
    depth: VerificationDepth | None = VerificationDepth.THOROUGH
    reference_mistakes: tuple[ReferenceMistake, ...] = ()

    @property
    def mistakes(self) -> tuple[EmulatedFinding, ...]:
        """The findings that say that the kernel is wrong."""
        return tuple(one for one in self.findings if one.kind not in EMULATOR_LIMITS | EXPLANATIONS | WARNINGS)

    @property
    def warnings(self) -> tuple[EmulatedFinding, ...]:
        """The findings about the kernel file."""
        return tuple(one for one in self.findings if one.kind in WARNINGS)

    @property
    def is_final(self) -> bool:
        """Return True if another try would find the same: unverified problems were left out by the emulator, not by a
        worker that was killed or took too long. Mistakes of a reference name its file, wherever it lies then."""
        if self.reference_mistakes:
            return False
        missing = any(one.outcome is ProblemOutcome.NOT_VERIFIED for one in self.problems)
        return not missing or any(one.kind in EMULATOR_LIMITS for one in self.findings)

    @property
    def outcome(self) -> VerificationOutcome:
        """The outcome of all problems together."""
        outcomes = {problem.outcome for problem in self.problems}
        if self.mistakes or ProblemOutcome.WRONG in outcomes:
            return VerificationOutcome.FAILED
        if ProblemOutcome.RIGHT in outcomes and outcomes.isdisjoint(_NOT_VERIFIED):
            return VerificationOutcome.VERIFIED
        return VerificationOutcome.NOT_VERIFIED

    @property
    def is_uncompared(self) -> bool:
        """Return True if nothing is wrong, and results were compared with nothing: there is no reference."""
        outcomes = {problem.outcome for problem in self.problems}
        clean = not self.mistakes and not self.reference_mistakes
        wrong = outcomes & {ProblemOutcome.WRONG, ProblemOutcome.NOT_VERIFIED}
        return clean and not wrong and ProblemOutcome.NOT_COMPARED in outcomes

    @property
    def summary(self) -> str:
        """One line: `✓ verified (emulated gfx942)`, or what is wrong."""
        where = self.device.replace(":", " ")
        if self.outcome is VerificationOutcome.VERIFIED:
            return f"✓ verified ({where})"
        if self.outcome is VerificationOutcome.FAILED:
            return f"✗ {self._first_mistake()} ({where})"
        if self.is_uncompared:
            return f"clean, but not compared ({where}): {self._why_not()}"
        return f"cannot verify ({where}): {self._why_not()}"

    def _first_mistake(self) -> str:
        if self.mistakes:
            return self.mistakes[0].message
        return next(
            f"{one.name}: {one.message or 'wrong'}" for one in self.problems if one.outcome is ProblemOutcome.WRONG
        )

    def _why_not(self) -> str:
        for outcome in (*_NOT_VERIFIED, ProblemOutcome.NOT_TRIED):
            for problem in self.problems:
                if problem.outcome is outcome and problem.message:
                    return problem.message
        return "the kernel refuses every shape that was tried" if self.problems else "no shape could be tried"
