"""The events that the core takes in, a closed union, and the facts that events and effects carry.

Work ends in exactly one
event, `…Finished`, or in `WorkAborted` when it was stopped or failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from ckwatch.bench.job import Race
from ckwatch.codeobject.report_diff import KernelWarning
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.figures import Figures
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernels import Kernel, Outcome, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import ReferenceMistake
from ckwatch.model.timings import Timing
from ckwatch.model.verification import Verification

MAIN = ""
"""The name of the workspace's own view, the files on disk. Every other view has its client's name. A `scope` is such a
name."""


class UnitKey(NamedTuple):
    """A unit in a view."""

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
    """The kind of work that a task does."""

    LOAD = "load"
    SCAN = "scan"
    RECALL = "recall"
    RENDER = "render"
    LOOK_UP = "look-up"
    CHECK = "check"
    COMPILE = "compile"
    ANALYZE = "analyze"
    MEASURE = "measure"
    VERIFY = "verify"
    ADVISE = "advise"
    CHECK_WITH = "check-with"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Work:
    """One task."""

    number: int
    """Its place in `State.order`."""
    kind: WorkKind
    key: UnitKey
    """The unit, or without a unit's id the view, that it is for."""
    generation: int = 0
    """The unit's when it began."""
    tokens: str = ""
    """The tokens that are compiled; of an analysis, a measurement or a verification, the artifact; of a check with
    another toolchain `UnitState.basis`."""
    expected_memory_bytes: int = 0
    """Set aside for it."""
    exclusive: bool = False
    """No compiler and no analysis may run beside it."""


@dataclass(frozen=True, slots=True)
class BenchmarkPolicy:
    """How a workspace wants its units timed."""

    automatic: bool = False
    """After every build of an edited or focused unit."""
    save_budget_s: float = 120.0
    """Device time that all units of one save may take then."""
    elsewhere: bool = False
    """On another machine, so that nothing here disturbs it."""
    device: str = "auto"
    """`[bench] device`."""


@dataclass(frozen=True, slots=True)
class VerificationPolicy:
    """How a workspace wants its units verified by an emulator."""

    archs: frozenset[str] = frozenset()
    """After every build of an edited or focused unit for one of these, without target features."""
    checks: bool = True
    """Look at memory, races and waits too, not at results alone."""


@dataclass(frozen=True, slots=True)
class OtherToolchain:
    """A toolchain that is not the workspace's own: its name, and what changes with its compiler and its headers, if
    that is known."""

    name: str
    identity: str = ""


@dataclass(frozen=True, slots=True)
class ToolchainPolicy:
    """The toolchains that units are checked with in the background."""

    others: tuple[OtherToolchain, ...] = ()
    """Those of `[toolchain] also` that are there."""
    build: bool = False
    """Compile whole, instead of analyzing only."""
    main: str = ""
    """The name of the workspace's own in messages."""


@dataclass(frozen=True, slots=True)
class ViewOverrides:
    """How a client's view differs from the workspace, besides its unsaved texts."""

    archs: tuple[str, ...] = ()
    """In place of the workspace's; none: the same."""
    rules: bool = True
    """Check instances by rules."""
    header_warnings: bool | None = None
    """Show warnings in headers; None: as the workspace has it."""


class AutoBuild(StrEnum):
    """Which units that a client's unsaved texts have changed are compiled without a request."""

    EDITED = "edited"
    IN_FOCUS = "looked-at"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KernelUnits:
    """A kernel and its units; the same object as long as the kernel does not change."""

    kernel: Kernel
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class LoadedWorkspace:
    """A workspace as a load found it."""

    kernels: tuple[KernelUnits, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...]
    """The kernel files and `ckwatch.toml`."""
    settings: str
    """Equal for two loads when units are rendered and compiled with the same settings and compiler."""
    jobs: int
    toolchain_problem: str | None = None
    """Why there is no compiler; units are then checked only."""
    build_everything: bool = False
    passes_apart: bool = False
    """The compiler can run its host pass before the device pass."""
    benchmarks: BenchmarkPolicy = BenchmarkPolicy()
    verification: VerificationPolicy = VerificationPolicy()
    advice: bool = True
    """Find out in the background why kernels use scratch or have few waves."""
    edits_unwatched: bool = True
    """Edited units are compiled without a request also while no client looks at anything."""
    toolchains: ToolchainPolicy = ToolchainPolicy()


@dataclass(frozen=True, slots=True)
class RenderFacts:
    """The outcome of a render and of the checks without a compiler."""

    ok: bool
    """There are no errors."""
    diagnostics: tuple[Diagnostic, ...]
    reads: Mapping[str, str]
    """The files that were read, with their SHA-256."""
    missed: frozenset[str]
    """Paths at which no file was found."""
    tokens: str = ""
    """Equal for two texts exactly when they are one input to a compiler: the function's name and the tokens' hash."""
    symbol: str = ""
    """The name of the exported function."""
    skipped: bool = False
    """A sweep makes the unit, and an instance rule refuses it; then it is not `ok`."""
    lacks: str = ""
    """The headers that the text includes and the compiler does not have, and how to get them: it is checked only."""
    headers: frozenset[str] = frozenset()
    """Those of `reads` that are no templates."""


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """The headers of a compile. One object per set."""

    name: str
    present: Mapping[str, str]
    """Those that were read, with their SHA-256."""
    absent: frozenset[str] = frozenset()
    """Paths at which none was found, and none must appear."""


@dataclass(frozen=True, slots=True)
class CompileFacts:
    """The outcome of a compile."""

    outcome: Outcome
    tokens: str
    """`RenderFacts.tokens` of what was compiled."""
    key: str = ""
    """The key of what was compiled, in the store."""
    diagnostics: tuple[Diagnostic, ...] = ()
    products: Mapping[str, str] = field(default_factory=dict)
    """Paths of the files that it made, by kind."""
    headers: HeaderFacts | None = None
    from_store: bool = False
    without_output: bool = False
    """The compiler printed nothing, so that no message needs its place in the present text."""
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    finished_at: float = 0.0

    @property
    def symbol(self) -> str:
        """The name of the exported function."""
        return self.tokens.partition(":")[0]

    @property
    def artifact(self) -> str:
        """Identifies the artifact: the key of what was compiled, and the headers that were read."""
        return self.key if self.headers is None else f"{self.key}.{self.headers.name}"


@dataclass(frozen=True, slots=True)
class CheckWithFacts:
    """The outcome of a check or a build with another toolchain."""

    outcome: Outcome
    diagnostics: tuple[Diagnostic, ...] = ()
    problem: str = ""
    """Why there is no result."""
    result: CompileFacts | None = None
    """None where nothing was compiled."""
    depends_on: HeaderFacts | None = None
    """The files that the render and the compiler read; None where that is not known, and for a client's view."""

    # Noted by the core.
    toolchain: OtherToolchain = OtherToolchain("")
    is_build: bool = False
    """It was to be built."""
    is_outdated: bool = False
    """A file that it depends on changed since."""
    basis: str = ""
    """The unit's `UnitState.basis` then."""
    generation: int = 0
    """The unit's then, whose text the places of messages belong to."""

    def covers(self, *, build: bool) -> bool:
        """Return True if it says what a check, or a build, would say."""
        return self.is_build or not build or self.outcome is Outcome.BUILT


@dataclass(frozen=True, slots=True)
class ShapeTiming:
    """The measurement of an artifact on one shape: a timing, or what is wrong with the kernel."""

    shape: str
    artifact: str
    """`CompileFacts.artifact`."""
    timings: tuple[Timing, ...]
    """One for each cache state, or one that says why there is none."""
    diagnostics: tuple[Diagnostic, ...] = ()
    seconds: float = 0.0
    """The device time that it took; 0 where an earlier measurement held."""
    raced: bool = False
    """It was taken in a race, which says less than one by itself."""
    device: str = ""
    """`Device.address` of where it was taken."""


@dataclass(frozen=True, slots=True)
class ArtifactVerification:
    """The verification of an artifact, and whose text its places belong to."""

    artifact: str
    """`CompileFacts.artifact`."""
    verification: Verification
    key: UnitKey
    generation: int
    """The unit's when the places of findings were looked for; 0: they were not yet, which takes a compile."""
    kernel: Kernel | None = None
    """The kernel then."""

    def is_of(self, kernel: Kernel) -> bool:
        """Return True if the kernel has the same operation, with the same reference, and the same shapes, wherever they
        stand in the kernel file."""
        if self.kernel is None or (self.kernel is not kernel and self.kernel.operation != kernel.operation):
            return False
        return [(one.name, one.sizes, one.runtime) for one in self.kernel.shapes] == [
            (one.name, one.sizes, one.runtime) for one in kernel.shapes
        ]


@dataclass(frozen=True, slots=True)
class ArtifactAdvice:
    """Why an artifact's kernels use scratch or have few waves, at places of the text of this generation of the unit."""

    artifact: str
    """`CompileFacts.artifact`."""
    key: UnitKey
    generation: int
    diagnostics: tuple[Diagnostic, ...] = ()


class AnalysisDepth(StrEnum):
    """How far an analysis goes."""

    KEPT = "kept"
    """It reads what an earlier analysis has kept, if there is any."""
    WHOLE = "whole"
    """It runs LLVM's tools where nothing is kept."""


@dataclass(frozen=True, slots=True)
class ArtifactFigures:
    """The figures of an artifact's code object, compared with the previous artifact and the baseline."""

    figures: Figures
    """As of a fresh artifact."""
    warned: tuple[KernelWarning, ...] = ()
    need: int = 0
    """How much its kernels need advice: bytes of a lane in scratch, 1 where LDS alone keeps waves out."""

    @property
    def artifact(self) -> str:
        """`CompileFacts.artifact`."""
        return self.figures.artifact_key


@dataclass(frozen=True, slots=True)
class RememberedUnit:
    """A unit in the history, from an earlier run of the daemon."""

    tokens: str
    reads: Mapping[str, str]
    cause: Cause
    peak_memory_bytes: int = 0
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True)
class RecalledUnit:
    """A remembered unit that is valid for the files as they are now: it is built, without any messages."""

    unit: Unit
    """As it was loaded when this was looked at."""
    render: RenderFacts
    result: CompileFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`at` is the wall clock, Unix seconds, for display only; by default when the event loop takes the event."""

    at: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkEvent(Event):
    """Something about a task."""

    work: Work


@dataclass(frozen=True, slots=True)
class LoadFinished(WorkEvent):
    """The end of `Load`; `workspace` is None when it cannot be read, which `problem` explains."""

    workspace: LoadedWorkspace | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ScanFinished(WorkEvent):
    """The end of `Scan`: the SHA-256 of tracked files that changed, None for removed ones."""

    digests: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class RecallFinished(WorkEvent):
    """The end of `Recall`: the units of which the results hold, by id."""

    units: Mapping[str, RecalledUnit]


@dataclass(frozen=True, slots=True)
class RenderFinished(WorkEvent):
    """The end of `Render`."""

    facts: RenderFacts


@dataclass(frozen=True, slots=True)
class LookUpFinished(WorkEvent):
    """The end of `LookUp`; `facts` is None when the store has nothing."""

    facts: CompileFacts | None


@dataclass(frozen=True, slots=True)
class CheckFinished(WorkEvent):
    """The end of `Check`, with what the host pass reported."""

    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileFinished(WorkEvent):
    """The end of `Compile`."""

    facts: CompileFacts


@dataclass(frozen=True, slots=True)
class FarmFailed(WorkEvent):
    """The end of a `Compile` on the farm that has shown nothing of the unit."""

    problem: str


@dataclass(frozen=True, slots=True)
class FarmChanged(Event):
    """The farm has room for so many compiles at once; none where it cannot be reached."""

    slots: int


@dataclass(frozen=True, slots=True)
class AnalyzeFinished(WorkEvent):
    """The end of `Analyze`; `figures` is None when nothing is kept, or when the code object cannot be read."""

    figures: ArtifactFigures | None


@dataclass(frozen=True, slots=True)
class AnalyzeRequested(Event):
    """A client wants the figures of units that are built; with `again` also where they are known, because what they are
    compared with has changed."""

    scope: str
    units: tuple[str, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class MeasureFinished(WorkEvent):
    """The end of `Measure`; `timing` is None when the machine, not the kernel, is why there is none (`problem`).
    `failed_device`: then the key of the device that could not be used, where another one may be. `mistake`: then that
    of the user's reference that is why."""

    timing: ShapeTiming | None
    problem: str = ""
    failed_device: str = ""
    mistake: ReferenceMistake | None = None


@dataclass(frozen=True, slots=True)
class DevicesFound(Event):
    """The devices that units can be timed on, the best first: those of the worker's machine, then those of others."""

    devices: tuple[DeviceFacts, ...]


@dataclass(frozen=True, slots=True)
class MeasureRequested(Event):
    """A client wants timings of units that are built, on these shapes (None: all), on `device` (None: the workspace's
    choice); with `force` also where they are known; those of a `race`, which has its own settings, and with
    `flush_instructions`, in any case. Requests are numbered from 1."""

    number: int
    units: tuple[str, ...]
    shapes: tuple[str, ...] | None = None
    force: bool = False
    device: str | None = None
    race: Race | None = None
    scope: str = MAIN
    flush_instructions: bool = False


@dataclass(frozen=True, slots=True)
class WorkDropped(Event):
    """A request to measure, verify or check units with other toolchains was dropped. Automatic work of this kind goes
    on, unless `everything` is dropped."""

    kind: WorkKind
    units: tuple[str, ...]
    everything: bool = False
    scope: str = MAIN


@dataclass(frozen=True, slots=True)
class VerifyFinished(WorkEvent):
    """The end of `Verify`; `found` is None when the machine, not the kernel, is why there is none (`problem`)."""

    found: ArtifactVerification | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class VerifyRequested(Event):
    """A client wants units that are built verified; with `force` also where the result is known. Requests are numbered
    from 1."""

    number: int
    units: tuple[str, ...]
    force: bool = False
    scope: str = MAIN


@dataclass(frozen=True, slots=True)
class AdviseFinished(WorkEvent):
    """The end of `Advise`; `found` is None where it is not known whether a change would help."""

    found: ArtifactAdvice | None


@dataclass(frozen=True, slots=True)
class AdviceRequested(Event):
    """A client wants advice on units that are built. Requests are numbered from 1."""

    number: int
    units: tuple[str, ...]
    scope: str = MAIN


@dataclass(frozen=True, slots=True)
class CheckWithFinished(WorkEvent):
    """The end of `CheckWith`."""

    facts: CheckWithFacts


@dataclass(frozen=True, slots=True)
class CheckWithRequested(Event):
    """A client wants units checked with toolchains, by their names, or built. Requests are numbered from 1."""

    number: int
    units: tuple[str, ...]
    toolchains: tuple[str, ...]
    build: bool = False
    force: bool = False
    scope: str = MAIN


@dataclass(frozen=True, slots=True)
class RecordFinished(WorkEvent):
    """The end of `Record`; `problem` where the history could not be written."""

    problem: str | None = None


@dataclass(frozen=True, slots=True)
class WorkAborted(WorkEvent):
    """The end of any work that was cancelled, or that failed by a fault of ours or the host's (`fault`)."""

    fault: str | None = None


@dataclass(frozen=True, slots=True)
class CompileWaits(WorkEvent):
    """A compile waits for something; empty when it goes on."""

    waits_for: str


@dataclass(frozen=True, slots=True)
class CompilerOutput(WorkEvent):
    """The output so far of the compilers of this work, with its errors."""

    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class PassFinished(WorkEvent):
    """One of the two passes of this work has ended."""


@dataclass(frozen=True, slots=True)
class CompilerEnded(WorkEvent):
    """No compiler of this work runs any more; what came of it is still to be stored."""


@dataclass(frozen=True, slots=True)
class FilesChanged(Event):
    """Files changed."""

    digests: Mapping[str, str | None]
    """The new SHA-256; None for a removed file."""
    reload: bool = False
    """Kernels may have been added, changed or removed."""
    complete: bool = True
    """No other file changed at the same time; if not known, all are scanned."""


@dataclass(frozen=True, slots=True)
class OverlayChanged(Event):
    """A client's unsaved text of a file; None when it was saved or dropped."""

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
    """The units that a client has in view: they come first."""

    client: str
    units: frozenset[str]
    everything: bool = False
    """It wants every unit built."""
    auto_build: AutoBuild = AutoBuild.EDITED
    """Which units that its unsaved texts change are compiled without a request."""


@dataclass(frozen=True, slots=True)
class EditorsChanged(Event):
    """Which clients are editors that show places."""

    clients: frozenset[str]


@dataclass(frozen=True, slots=True)
class ShowRequested(Event):
    """A client wants the editors to show a place; line and column count from zero, in code points."""

    path: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class BuildRequested(Event):
    """A client waits for fresh results of units."""

    request: str
    """The request's name."""
    scope: str
    patterns: tuple[str, ...] | None
    """None: all units."""
    force: bool = False
    """Compile although the store has the results."""
    check_only: bool = False
    """Everything that needs no compiler."""
    finish: bool = False
    """Compilers that have begun go on when the client goes; what waits does not."""
    lines: bool = False
    """Line tables beside what is compiled."""


@dataclass(frozen=True, slots=True)
class RequestDropped(Event):
    """The client does not wait for this request any more."""

    request: str


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """Do not compile these units of a view until they are edited or requested. Those who wait for them are answered."""

    scope: str
    units: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClientLost(Event):
    """A client has gone; so has its view."""

    client: str


@dataclass(frozen=True, slots=True)
class MemoryMeasured(Event):
    """Memory that compilers may use: what is free now and what they use already."""

    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class WarningChanged(Event):
    """Something limits the daemon on this host (`topic`: watch, store, history, …); None when it no longer does."""

    topic: str
    message: str | None


@dataclass(frozen=True, slots=True)
class TimingsImported(Event):
    """The history has other timings of others than before."""


@dataclass(frozen=True, slots=True)
class DeviceProfileKept(Event):
    """An artifact of a unit (`CompileFacts.artifact`) has another profile from a device than before."""

    unit: str
    artifact: str


@dataclass(frozen=True, slots=True)
class ArtifactsLost(Event):
    """Artifacts that are no longer in the store, or damaged (`CompileFacts.artifact`)."""

    artifacts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Continued(Event):
    """Time for what was too much for one step."""


AnyEvent = (
    LoadFinished | ScanFinished | RecallFinished | RenderFinished | LookUpFinished | CheckFinished | CompileFinished
    | AnalyzeFinished | MeasureFinished | VerifyFinished | AdviseFinished | RecordFinished | WorkAborted
    | CompileWaits | CompilerOutput | PassFinished | CompilerEnded | FarmFailed | FarmChanged
    | FilesChanged | OverlayChanged | OptionsChanged | FocusChanged | EditorsChanged | ShowRequested
    | BuildRequested | RequestDropped | CancelRequested | ClientLost
    | AnalyzeRequested | DevicesFound | MeasureRequested | VerifyRequested | AdviceRequested | CheckWithFinished
    | CheckWithRequested | WorkDropped | MemoryMeasured | WarningChanged
    | TimingsImported | ArtifactsLost | DeviceProfileKept | Continued
)  # fmt: skip
