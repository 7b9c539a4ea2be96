"""The output of commands with `--json`: a type for each object. `ckwatch schema` makes the JSON Schema from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ckwatch.codeobject.report import KernelReport
from ckwatch.codeobject.report_diff import FigureChange, KernelWarning
from ckwatch.compile.toolchain.devices import DetectedDevice
from ckwatch.compile.toolchain.doctor import CheckState
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.figures import Figures
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.self_test import AssumptionTrial
from ckwatch.model.text import Span
from ckwatch.model.timings import Timing
from ckwatch.model.verification import Verification
from ckwatch.prediction.learned import PredictionRecord
from ckwatch.prediction.predict import MeasuredPrediction, Prediction
from ckwatch.tuning.dispatch import DispatchSet
from ckwatch.tuning.results import BestInstance, ShapeResult
from ckwatch.tuning.space import SpaceCoverage
from ckwatch.wire.analysis import Isa, ShapePrediction
from ckwatch.wire.benchmarks import Baseline, Compared, Devices, RankedTiming
from ckwatch.wire.imported_timings import ImportedTiming, ImportedTimingsFile, TimingsImport
from ckwatch.wire.messages import PassTime, RenderedText
from ckwatch.wire.state import Cause, Change, OutcomeName, Phase, Status, Unit


class Printed(BaseModel):
    """An object that a command prints on a line of its own, or a part of one."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Answer(Printed):
    """All that a command prints, or the first or last of several lines.

    `schema` grows when a field changes its meaning or goes away; new fields may appear without that.
    """

    schema_: Literal[1] = Field(default=1, serialization_alias="schema")


@dataclass(frozen=True, slots=True)
class DiagnosticLine(Diagnostic):
    """An error, a warning or a note. Any command prints it for a mistake in the workspace that leaves it no answer."""

    event: Literal["diagnostic"] = "diagnostic"


class FileWritten(Printed):
    """A file that was written for a unit."""

    event: Literal["file"] = "file"
    unit: str
    path: str


class BuildStarted(Answer):
    """The first line: the units that were asked for."""

    event: Literal["start"] = "start"
    units: tuple[str, ...]


class BuiltUnit(Printed):
    """A unit that has ended, as soon as it has.

    `outcome` is `checked`, `built`, `skipped`, `failed`, `faulted`, or why there is none (`cancelled`, `removed`,
    `no compiler`). `from_store`: its result was there before the command began; `lost`: it was built before, and the
    store no longer had it. `seconds` is the compile time. `products` are paths by kind, if it was built.
    """

    event: Literal["unit"] = "unit"
    unit: str
    kernel: str | None
    instance: str | None
    arch: str | None
    outcome: str
    from_store: bool
    lost: bool
    seconds: float
    symbol: str | None
    key: str | None
    figures: Figures | None
    products: dict[str, str]
    diagnostics: tuple[Diagnostic, ...]


class BuildSummary(Printed):
    """The last line: how many units ended how. Other outcomes than these have a number if there are any.

    `seconds` count from the start of the command's process, a start of the daemon included. `exit_status` is the
    command's; `errors_elsewhere` are in kernel files that were not asked for.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int] = Field(init=False)

    event: Literal["summary"] = "summary"
    units: int
    checked: int
    built: int
    skipped: int
    failed: int
    faulted: int
    from_store: int
    seconds: float
    exit_status: int
    errors_elsewhere: int


class UnitList(Answer):
    """The units."""

    units: tuple[Unit, ...]


class RenderedUnit(Answer, RenderedText):
    """A unit's text and its map. `text` is null when its template has errors; `diagnostics` are those."""


class BenchStarted(Answer):
    """The first line."""

    event: Literal["start"] = "start"


class BenchStage(Printed):
    """Progress on a shape: it `began`, or is at a `stage`, which `text` names."""

    event: Literal["began", "stage"]
    unit: str
    shape: str
    text: str


class BenchTiming(Printed):
    """A timing, or how it failed. `known`: it comes from the history."""

    event: Literal["timing"] = "timing"
    unit: str
    shape: str
    known: bool
    timing: Timing


class BenchSkipped(Printed):
    """A unit or shape that is not timed, and why (`text`): a shape, or, if `shape` is null, all `shapes` of a unit."""

    event: Literal["skipped"] = "skipped"
    unit: str
    shape: str | None
    shapes: int
    text: str


class BenchSummary(Printed):
    """The last line: shapes of units that were timed, had a timing, failed, or were skipped.

    `warning`: why others may have used the device at the same time, and whose lock it is; empty where they have not.
    """

    event: Literal["summary"] = "summary"
    timed: int
    known: int
    failed: int
    skipped: int
    seconds: float
    exit_status: int
    warning: str


class SelfTestStarted(Answer):
    """With `--self-test`: the first line, the device that is tried."""

    event: Literal["self-test"] = "self-test"
    device: DeviceFacts


class SelfTestTrial(Printed):
    """With `--self-test`: what trying an assumption has shown. `otherwise`: what it would mean if it did not hold."""

    event: Literal["trial"] = "trial"
    title: str
    otherwise: str
    trial: AssumptionTrial


class SelfTestSummary(Printed):
    """With `--self-test`: the last line. `versions` of what took part; `report`: the file that can be attached."""

    event: Literal["self-test-summary"] = "self-test-summary"
    passed: int
    failed: int
    skipped: int
    seconds: float
    exit_status: int
    versions: dict[str, str]
    report: str


class TuneStarted(Answer):
    """The first line: what is searched. `points`: of the space, `coverage` says what of it is allowed."""

    event: Literal["start"] = "start"
    kernel: str
    arch: str
    shapes: tuple[str, ...]
    devices: tuple[str, ...]
    points: int
    coverage: SpaceCoverage


class TuneStep(Printed):
    """A result. `best`: the best on its shape so far; `known`: from an earlier run; `measured`: how many were."""

    event: Literal["result"] = "result"
    instance: str
    parameters: dict[str, ParameterValue]
    result: ShapeResult
    best: bool
    known: bool
    measured: int
    seconds: float
    device: str


class TuneSummary(Printed):
    """The last line: why the run has `ended`, the best for each shape, and the fewest instances for all (`set`)."""

    event: Literal["summary"] = "summary"
    ended: str
    seconds: float
    measured: int
    compiled: int
    best: tuple[BestInstance, ...]
    set: DispatchSet | None
    exit_status: int


class VerifyStarted(Answer):
    """The first line."""

    event: Literal["start"] = "start"
    units: int


class VerifyStage(Printed):
    """Progress on a unit: it `began`, or is at a `stage`, which `text` names."""

    event: Literal["began", "stage"]
    unit: str
    text: str


class VerifiedUnit(Printed):
    """The result for a unit; `built_as` is `built` or the reason why there was nothing to verify.

    `known`: it was verified before. `verification`: each shape that was tried, and each finding with its place (lines
    and columns from zero); null where nothing was executed, as `summary` explains.
    """

    event: Literal["unit"] = "unit"
    unit: str
    built_as: str
    known: bool
    outcome: Literal["verified", "failed", "not verified"]
    summary: str
    verification: Verification | None


class VerifySummary(Printed):
    """The last line: how many units are verified, wrong, and not verified. There is no time: an emulator's says nothing
    of a GPU. `not_modelled`: where a GPU may differ from what was verified."""

    event: Literal["summary"] = "summary"
    verified: int
    failed: int
    not_verified: int
    skipped: int
    exit_status: int
    not_modelled: tuple[str, ...]


class DeviceList(Answer, Devices):
    """The devices, and by kind why others cannot be used."""


class UnitTimings(Answer):
    """A unit's timings and failures, oldest first."""

    unit: str
    timings: tuple[Timing, ...]


class ComparedTimings(Answer):
    """A row for each shape and cache state. `theirs` is a unit, `previous`, `library` or `baseline[:NAME]`."""

    ours: str
    theirs: str
    compared: tuple[Compared, ...]


class RankedTimings(Answer):
    """The instances of a kernel by time on each shape, then those without a timing, and why.

    `imported` is what others measured on these shapes, the fastest first; it has no part in the ranks.
    """

    kernel: str
    ranked: tuple[RankedTiming, ...]
    imported: tuple[ImportedTiming, ...] = ()


class BaselineSet(Answer):
    """The units whose latest timings the baseline has now."""

    name: str
    units: tuple[str, ...]


class BaselineList(Answer):
    """All baselines."""

    baselines: tuple[Baseline, ...]


class BaselineRemoved(Answer):
    """A baseline that is no more, and of how many units it had timings."""

    name: str
    units: int


class ExportedModule(Answer):
    """The last line: what to import and what to call."""

    event: Literal["module"] = "module"
    unit: str
    module: str
    function: str


class ChosenInstance(Printed):
    """A measured shape of an autotuned module, and the instance that its sizes choose, with its time on that device."""

    shape: str
    instance: str
    median_us: float
    device: str
    taken_at: float


class AutotunedModule(Answer):
    """The last line of `--autotune`. `left_out`: shapes without timings."""

    event: Literal["autotuned"] = "autotuned"
    kernel: str
    arch: str
    module: str
    function: str
    units: tuple[str, ...]
    shapes: tuple[ChosenInstance, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTiming(Timing):
    """A timing with everything that was kept of its measurement."""

    times_us: tuple[float, ...]
    clocks_mhz: tuple[float, ...]
    stop: str
    readings: tuple[dict[str, float | None], ...]
    versions: dict[str, str]
    notes: tuple[str, ...]
    detail: str


class TimingExport(Answer):
    """Timings: `export --timings json`, with all that was kept of them if there is `--samples`."""

    timings: tuple[SampledTiming | Timing, ...]


class ExplainedParameter(Printed):
    """A parameter, and where the kernel file sets it."""

    value: ParameterValue
    span: Span | None


class ExplainedState(Printed):
    """The state of a unit: `standing` in words. What a compile found out is null before the first one."""

    standing: str
    phase: Phase
    fresh: bool
    compiler: str | None = None
    key: str | None = None
    outcome: OutcomeName | None = None
    compiled_in_s: float | None = None
    peak_memory_bytes: int | None = None
    headers_read: int | None = None
    commands: tuple[tuple[str, ...], ...] = ()
    products: dict[str, str] = Field(default_factory=dict)


class TimedPass(PassTime):
    """A pass of the compiler; `front_end` and `back_end` sum up its stages."""

    front_end: float
    back_end: float


class CompileTime(Printed):
    """The compile time in seconds by pass; no passes if the unit does not compile. `trace`: the file."""

    granularity_us: int
    trace: str | None
    passes: tuple[TimedPass, ...]


class ExplainedUnit(Answer):
    """The dependencies of a unit, and the reason for its state.

    `by_hand` is a line for a shell that renders and compiles it. `templates` are the files that were read, with their
    hashes; `missed` would be read if they existed. `time`: with `--time` or `--trace`.
    """

    unit: str
    by_hand: str
    parameters: dict[str, ExplainedParameter]
    state: ExplainedState
    templates: dict[str, str]
    missed: tuple[str, ...]
    symbol: str | None
    figures: Figures | None
    cause: tuple[Cause, ...]
    diagnostics: tuple[Diagnostic, ...]
    time: CompileTime | None = None


class ChangedKernel(Printed):
    """The kernel that was `before` and is `kernel` now; null where there was none, or is none any more."""

    kernel: str | None
    before: str | None
    changes: tuple[FigureChange, ...]


class InspectedUnit(Answer):
    """The code object of a unit. `changes` by what it is compared with: `previous`, `baseline NAME`.

    `fresh`: it belongs to the present input. `left_out` is what predictions do not know.
    """

    unit: str
    artifact_key: str
    fresh: bool
    arch: str
    kernels: tuple[KernelReport, ...]
    notes: tuple[str, ...]
    changes: dict[str, tuple[ChangedKernel, ...]]
    warnings: tuple[KernelWarning, ...]
    shapes: tuple[ShapePrediction, ...]
    left_out: tuple[str, ...]


class UnitListing(Answer, Isa):
    """The instructions of a kernel: `inspect --isa`."""


class CalibrationReport(Answer):
    """How far predictions were off: `inspect --calibration`. `ratio`, `off` and `order` are null without pairs."""

    pairs: tuple[MeasuredPrediction, ...]
    ratio: float | None
    off: float | None
    order: float | None
    below_bound: tuple[MeasuredPrediction, ...]
    timed: int
    notes: tuple[str, ...]


class PredictedInstance(Printed):
    """An instance in a ranking by prediction; `place` is null without one, and `because` says why."""

    instance: str
    place: int | None
    ratio: float | None
    because: str
    prediction: Prediction
    measured_us: float | None


class RankedPredictions(Answer):
    """The instances of a kernel by predicted time. `left_out` is what predictions do not know. `record`: how good they
    were on public measurements of such kernels on this part, with shapes of other N and K than the fit had seen; null
    where there are none. `learned_from`: whose measurements changed the times; empty where none did."""

    kernel: str
    shape: str
    arch: str
    part: str
    cache: str
    predicted: Literal[True] = True
    ranked: tuple[PredictedInstance, ...]
    left_out: tuple[str, ...]
    record: PredictionRecord | None
    learned_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDaemon(Status):
    """A daemon that runs. `compiling` are the units that it compiles now."""

    schema: Literal[1] = 1
    running: Literal[True] = True
    socket: str
    log_file: str
    compiling: tuple[str, ...]


class OrphanedDaemon(Answer):
    """A daemon that runs for a workspace that has been deleted."""

    running: Literal[True] = True
    root: str
    pid: int


class NoDaemon(Answer):
    """There is no daemon; `version` is the command's."""

    running: Literal[False] = False
    root: str
    version: str


class CancelledUnits(Answer):
    """The units that were being compiled or timed, or waited for it."""

    running: bool
    cancelled: tuple[str, ...]


class LibraryFacts(Printed):
    """Headers of a library, and where they come from."""

    folder: str
    version: str | None
    origin: str


class ToolchainFacts(Printed):
    """A compiler. `identity` goes into the keys of what it compiles. `ck4inductor`: CK's instance lists, a folder that
    Python can import from."""

    source: str
    root: str
    hipcc: str
    clang: str
    hip: str
    rocm: str | None
    identity: str
    ck: LibraryFacts | None
    ck_tile: LibraryFacts | None
    ck4inductor: LibraryFacts | None
    openmp: bool


class CheckedRequirement(Printed):
    """One thing that was checked; `fix` is a command or an instruction when something is to be done."""

    name: str
    state: CheckState
    detail: str
    fix: str | None


class CheckedEnvironment(Answer):
    """The environment. `ok`: all that is needed is there. `archs` are those that can be compiled for."""

    ok: bool
    toolchain: ToolchainFacts | None
    archs: tuple[str, ...]
    devices: tuple[DetectedDevice, ...]
    checks: tuple[CheckedRequirement, ...]


class ListedTemplate(Printed):
    """A template, and the kernels that name it."""

    name: str
    path: str
    built_in: bool
    kernels: tuple[str, ...]


class TemplateList(Answer):
    """The templates, the workspace's first."""

    templates: tuple[ListedTemplate, ...]


class ImportedKernelFile(Printed):
    """A kernel file that was written."""

    path: str
    instances: int


class ImportedInstances(Answer):
    """The result of importing CK's list of instances: `listed` of them, and how many are in no file, by the reason."""

    listed: int
    files: tuple[ImportedKernelFile, ...]
    left_out: dict[str, int]


class ImportedTemplate(Answer):
    """The files that were written. `taken` and `left_out` are the names of strings with Jinja, `unset` names that the
    template reads and nothing sets; `extends` is the template that it was put into, null for none."""

    template: str
    kernel_file: str
    taken: tuple[str, ...]
    left_out: tuple[str, ...]
    extends: str | None
    unset: tuple[str, ...]


class ImportedTimingFiles(Answer):
    """The result for each file whose timings were imported."""

    imported: tuple[TimingsImport, ...]


class ImportedTimingsList(Answer):
    """With `--list`: the files that timings were imported from."""

    files: tuple[ImportedTimingsFile, ...]


class ImportedTimingsRemoved(Answer):
    """With `--remove`: the files whose timings are dropped."""

    removed: tuple[str, ...]


class StoreSize(Answer):
    """The size of the store in bytes, by folder. `shared` is the address of the shared one."""

    folder: str
    artifacts: int
    size_bytes: int
    size_limit_bytes: int
    parts: dict[str, int]
    shared: str | None


class FarmWorkerLine(Printed):
    """A worker: `compiles` at once with the workspace's toolchain, on a machine called `machine` (empty where it says
    nothing to this version); `devices` are what it times on."""

    address: str
    machine: str
    threads: int
    compiles: int
    executing: int
    toolchain: str
    devices: tuple[str, ...]
    problem: str | None


class FarmListing(Answer):
    """The farm, `up` where its scheduler answers; `cluster` is the kind that `ckwatch farm up` starts."""

    up: bool
    cluster: str | None
    address: str | None
    workers: tuple[FarmWorkerLine, ...]


class StoreCleaned(Answer):
    """How many artifacts and leftovers of killed processes were removed, and what artifacts take now."""

    removed: int
    leftovers: int
    size_bytes: int


OUTPUT: dict[str, tuple[type, ...]] = {
    "check": (BuildStarted, BuiltUnit, BuildSummary),
    "list": (UnitList,),
    "watch": (Change,),
    "render": (RenderedUnit,),
    "import ck4inductor": (ImportedInstances,),
    "import aiter": (ImportedInstances,),
    "import inductor": (ImportedTemplate,),
    "import timings": (ImportedTimingFiles, ImportedTimingsList, ImportedTimingsRemoved),
    "build": (BuildStarted, BuiltUnit, FileWritten, BuildSummary),
    "bench": (
        *(BenchStarted, BenchStage, BenchTiming, BenchSkipped, BenchSummary, DeviceList),
        *(SelfTestStarted, SelfTestTrial, SelfTestSummary),
    ),
    "verify": (VerifyStarted, VerifyStage, VerifiedUnit, VerifySummary),
    "tune": (TuneStarted, TuneStep, TuneSummary),
    "history": (UnitTimings,),
    "compare": (ComparedTimings,),
    "best": (RankedTimings,),
    "baseline set": (BaselineSet,),
    "baseline list": (BaselineList,),
    "baseline remove": (BaselineRemoved,),
    "export": (FileWritten, ExportedModule, AutotunedModule, TimingExport),
    "explain": (ExplainedUnit,),
    "inspect": (InspectedUnit, UnitListing, CalibrationReport),
    "rank": (RankedPredictions,),
    "status": (RunningDaemon, OrphanedDaemon, NoDaemon),
    "cancel": (CancelledUnits,),
    "farm status": (FarmListing,),
    "doctor": (CheckedEnvironment,),
    "templates list": (TemplateList,),
    "store size": (StoreSize,),
    "store gc": (StoreCleaned,),
}
"""The types of each command's lines; any command may print a `DiagnosticLine`, too."""
