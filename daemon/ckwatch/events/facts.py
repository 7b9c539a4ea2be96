"""What events and effects carry: who a piece of work is for and why, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ckwatch.analysis.change import Warned
from ckwatch.model.diagnostic import Diagnostic
from ckwatch.model.kernel import Kernel, Unit
from ckwatch.model.outcome import Outcome

MAIN = ""
"""The scope of the workspace as it is on disk; any other scope is named by the client whose view it is."""


class UnitKey(NamedTuple):
    """A unit in a scope."""

    scope: str
    unit: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something happened: what, when (Unix seconds, for display), and because of what."""

    what: str
    at: float
    because: Cause | None = None

    @property
    def chain(self) -> tuple[Cause, ...]:
        """This cause and those behind it, newest first."""
        links = [self]
        while links[-1].because is not None:
            links.append(links[-1].because)
        return tuple(links)


class WorkKind(StrEnum):
    """What a task does."""

    LOAD = "load"
    SCAN = "scan"
    RENDER = "render"
    LOOK_UP = "look-up"
    CHECK = "check"
    COMPILE = "compile"
    ANALYZE = "analyze"
    MEASURE = "measure"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Work:
    """One task. `generation` is the unit's when it began; `tokens` name what is compiled, and
    `expected_memory_bytes` is set aside for it. `exclusive`: nothing else may run beside it."""

    number: int
    kind: WorkKind
    key: UnitKey
    generation: int = 0
    tokens: str = ""
    expected_memory_bytes: int = 0
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Benchmarks:
    """How a workspace wants its units timed. `automatic`: after every build of what was edited or is looked at;
    `save_budget_s`: device time that the units of one save may take together then. `elsewhere`: on another machine, so
    that nothing here disturbs it."""

    automatic: bool = False
    save_budget_s: float = 120.0
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """How a scope differs from the workspace: other archs, no instance rules, warnings in headers shown."""

    archs: tuple[str, ...] = ()
    rules: bool = True
    header_warnings: bool | None = None


class Unasked(StrEnum):
    """Which units that a client's unsaved texts have changed are compiled although nobody asked."""

    EDITED = "edited"
    LOOKED_AT = "looked-at"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KernelUnits:
    """A kernel and its units; the same object as long as the kernel file says the same."""

    kernel: Kernel
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class LoadedWorkspace:
    """A workspace as a load found it.

    `settings` names all that units are rendered and compiled with besides themselves, the compiler included.
    `toolchain_problem`: why there is no compiler; units are then checked only. `passes_apart`: the compiler can run its
    host pass before the device pass.
    """

    kernels: tuple[KernelUnits, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...]
    settings: str
    jobs: int
    toolchain_problem: str | None = None
    build_everything: bool = False
    passes_apart: bool = False
    benchmarks: Benchmarks = Benchmarks()


@dataclass(frozen=True, slots=True)
class RenderFacts:
    """What a render and the checks without a compiler found. `reads` maps paths to SHA-256.

    `tokens` is equal for two texts exactly when they are one input to a compiler: the name of the function and the hash
    of the tokens.
    """

    ok: bool
    diagnostics: tuple[Diagnostic, ...]
    reads: Mapping[str, str]
    missed: frozenset[str]
    tokens: str = ""
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """The headers that a compile read (path → SHA-256) and those that must not appear. One object per set."""

    name: str
    present: Mapping[str, str]
    absent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CompileFacts:
    """What came of a compile. `quiet`: the compiler printed nothing, so that no message has a place to keep."""

    outcome: Outcome
    tokens: str
    key: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    products: Mapping[str, str] = field(default_factory=dict)
    headers: HeaderFacts | None = None
    from_store: bool = False
    quiet: bool = False
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    finished_at: float = 0.0

    @property
    def artifact(self) -> str:
        """What tells the artifact from any other: the key of what was compiled, and the headers that were read."""
        return self.key if self.headers is None else f"{self.key}.{self.headers.name}"


@dataclass(frozen=True, slots=True)
class ShapeTiming:
    """What was measured of an artifact on one shape: a timing, or what is wrong with the kernel.

    `artifact` is `CompileFacts.artifact`; `rows` is what clients are shown, which the machine does not look at.
    `seconds` of device time were taken, 0 where an earlier measurement held.
    """

    shape: str
    artifact: str
    rows: tuple[object, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    seconds: float = 0.0


class Depth(StrEnum):
    """How far an analysis goes: what is kept of an earlier one, or all of it where nothing is."""

    KEPT = "kept"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class ArtifactFigures:
    """What the code object of an artifact tells, as against the artifact before and the baseline.

    `artifact` is `CompileFacts.artifact`; `shown` is what clients are shown, which the machine does not look at.
    """

    artifact: str
    shown: object
    warned: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the history knows of a unit from an earlier run of the daemon."""

    tokens: str
    reads: Mapping[str, str]
    cause: Cause
    peak_memory_bytes: int = 0
    finished_at: float = 0.0
