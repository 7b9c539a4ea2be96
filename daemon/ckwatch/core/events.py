"""The events that the core takes in, a closed union, and the facts that they carry.

Facts say who a piece of work is for and why, and what came of it; effects carry them too. Work ends in exactly one
event, `…Finished`, or in `WorkAborted` when it was stopped or broke down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ckwatch.codeobject.report_diff import KernelWarning
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.kernels import Kernel, Outcome, Unit

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
class BenchmarkPolicy:
    """How a workspace wants its units timed. `automatic`: after every build of what was edited or is looked at;
    `save_budget_s`: device time that the units of one save may take together then. `elsewhere`: on another machine, so
    that nothing here disturbs it."""

    automatic: bool = False
    save_budget_s: float = 120.0
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class ViewOverrides:
    """How a scope differs from the workspace: other archs, no instance rules, warnings in headers shown."""

    archs: tuple[str, ...] = ()
    rules: bool = True
    header_warnings: bool | None = None


class AutoBuild(StrEnum):
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
    benchmarks: BenchmarkPolicy = BenchmarkPolicy()


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


class AnalysisDepth(StrEnum):
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
    warned: tuple[KernelWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class RememberedUnit:
    """What the history knows of a unit from an earlier run of the daemon."""

    tokens: str
    reads: Mapping[str, str]
    cause: Cause
    peak_memory_bytes: int = 0
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`at` is the wall clock, Unix seconds, for display only."""

    at: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadFinished(Event):
    """The end of `LoadProduct`; `workspace` is None when it cannot be read, which `problem` explains."""

    work: Work
    workspace: LoadedWorkspace | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ScanFinished(Event):
    """The end of `Scan`: the tracked files whose contents are not what was last known, None for those not there."""

    work: Work
    digests: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class RenderFinished(Event):
    """The end of `Render`."""

    work: Work
    facts: RenderFacts


@dataclass(frozen=True, slots=True)
class LookUpFinished(Event):
    """The end of `LookUp`; `facts` is None when the store has nothing."""

    work: Work
    facts: CompileFacts | None


@dataclass(frozen=True, slots=True)
class CheckFinished(Event):
    """The end of `Check`, with what the host pass said."""

    work: Work
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileFinished(Event):
    """The end of `Compile`."""

    work: Work
    facts: CompileFacts


@dataclass(frozen=True, slots=True)
class AnalyzeFinished(Event):
    """The end of `Analyze`; `figures` is None when nothing is kept, or when nothing can be told."""

    work: Work
    figures: ArtifactFigures | None


@dataclass(frozen=True, slots=True)
class AnalyzeRequested(Event):
    """Somebody wants the figures of units that are built; with `again` also where they are known, as against what they
    are compared with has changed."""

    scope: str
    units: tuple[str, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class MeasureFinished(Event):
    """The end of `Measure`; `timing` is None when the machine, not the kernel, is why there is none (`problem`)."""

    work: Work
    timing: ShapeTiming | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MeasureRequested(Event):
    """Somebody wants timings of units that are built, on these shapes (None: all), on another `device` than the
    workspace's choice perhaps; with `force` also again. Requests are numbered upwards from 1."""

    number: int
    units: tuple[str, ...]
    shapes: tuple[str, ...] | None = None
    force: bool = False
    device: str | None = None


@dataclass(frozen=True, slots=True)
class MeasureDropped(Event):
    """Nobody wants the units timed any more, unless they are by themselves; with `everything` not even then."""

    units: tuple[str, ...]
    everything: bool = False


@dataclass(frozen=True, slots=True)
class RecordFinished(Event):
    """The end of `Record`; `problem` where the history could not be written."""

    work: Work
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class WorkAborted(Event):
    """The end of any work that was cancelled, or that failed by a fault of ours or the host's (`fault`)."""

    work: Work
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class CompileStarted(Event):
    """A compiler was started for this work."""

    work: Work


@dataclass(frozen=True, slots=True)
class CompilerOutput(Event):
    """What the compilers of this work have said so far, mistakes among it."""

    work: Work
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class PassFinished(Event):
    """Of the two passes of this work one has ended."""

    work: Work


@dataclass(frozen=True, slots=True)
class FilesChanged(Event):
    """Files have other contents, None where they are gone. `reload`: kernels may have come, changed or gone."""

    digests: Mapping[str, str | None]
    reload: bool = False
    complete: bool = True


@dataclass(frozen=True, slots=True)
class OverlayChanged(Event):
    """A client lends the text of an unsaved buffer, or takes it back (None)."""

    client: str
    path: str
    text: str | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class OptionsChanged(Event):
    """A client's view differs from the workspace in more than unsaved text."""

    client: str
    options: ViewOverrides


@dataclass(frozen=True, slots=True)
class FocusChanged(Event):
    """What a client looks at: these units come first. `everything`: it wants every unit built. `unsaved`: what of its
    unsaved texts is compiled."""

    client: str
    units: frozenset[str]
    everything: bool = False
    unsaved: AutoBuild = AutoBuild.EDITED


@dataclass(frozen=True, slots=True)
class BuildRequested(Event):
    """Somebody waits for fresh results of these units, of all for None, given as ids."""

    request: str
    scope: str
    patterns: tuple[str, ...] | None
    force: bool = False
    check_only: bool = False


@dataclass(frozen=True, slots=True)
class RequestDropped(Event):
    """Nobody waits for this request any more."""

    request: str


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """Stop compiling these units until they are edited or asked for."""

    scope: str
    units: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClientLost(Event):
    """A client has gone; so has its view."""

    client: str


@dataclass(frozen=True, slots=True)
class MemoryMeasured(Event):
    """Memory that compilers may use: what is free now and what they hold already."""

    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class WarningChanged(Event):
    """Something of the host limits the daemon (`topic`: watch, store, history, …); None when it is over."""

    topic: str
    message: str | None


@dataclass(frozen=True, slots=True)
class ArtifactsLost(Event):
    """The store does not have these any more (`CompileFacts.artifact`), or has them damaged."""

    artifacts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Continued(Event):
    """Go on with what was too much for one step."""


AnyEvent = (
    LoadFinished | ScanFinished | RenderFinished | LookUpFinished | CheckFinished | CompileFinished | AnalyzeFinished | MeasureFinished | RecordFinished | WorkAborted | CompileStarted
    | CompilerOutput | PassFinished | FilesChanged | OverlayChanged | OptionsChanged | FocusChanged | BuildRequested | RequestDropped
    | CancelRequested | ClientLost | AnalyzeRequested | MeasureRequested | MeasureDropped | MemoryMeasured | WarningChanged
    | ArtifactsLost | Continued
)  # fmt: skip
