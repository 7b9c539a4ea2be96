"""The lines that commands print with `--json`, for `ckwatch schema`; tests hold commands to them.

A command prints the values that it has, by `Output.answer` and `Output.event`, and loads none of this.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from ckwatch.bench.imports.records import ImportedTimingsFile
from ckwatch.bench.imports.shape_logs import LoggedShape
from ckwatch.cli.ci.report import CiReport
from ckwatch.cli.explain import ExplainedState
from ckwatch.cli.farm import FarmWorkerLine
from ckwatch.codeobject.code_files import TritonMetadata
from ckwatch.codeobject.loop_ranking import RankedLoop
from ckwatch.codeobject.metadata import ArgumentMetadata
from ckwatch.codeobject.report import KernelReport
from ckwatch.codeobject.report_diff import FigureChange, KernelWarning
from ckwatch.compile.toolchain.devices import DetectedDevice
from ckwatch.compile.toolchain.doctor import DoctorCheck
from ckwatch.compile.toolchain.model import HeaderLibrary
from ckwatch.exported.autotuned_text import MeasuredShape
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.figures import Figures
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.judgements import Judgement
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.self_test import AssumptionTrial
from ckwatch.model.text import Span
from ckwatch.model.timings import Timing
from ckwatch.model.verification import Verification
from ckwatch.prediction.learned import PredictionRecord
from ckwatch.prediction.predict import MeasuredPrediction, Prediction
from ckwatch.tuning.dispatch import DispatchSet
from ckwatch.tuning.dispatcher import UnseenCheck
from ckwatch.tuning.results import BestInstance, ShapeResult
from ckwatch.tuning.space import SpaceCoverage
from ckwatch.wire.analysis import Isa, ShapePrediction, UnitDeviceProfile, UnitProfile
from ckwatch.wire.benchmarks import Baseline, Compared, Devices, RankedTiming, Samples
from ckwatch.wire.imported_timings import ImportedTiming, TimingsImport
from ckwatch.wire.messages import PassTime, RenderedText
from ckwatch.wire.state import Cause, Change, Status, Unit, UnitToolchain
from ckwatch.wire.unit_changes import ChangeSummary, UnitChange


@dataclass
class ExplainedParameter:
    """A parameter, and where the kernel file sets it."""

    value: ParameterValue
    span: Span | None


@dataclass
class CompileTime:
    """The compile time in seconds by pass; no passes if the unit does not compile. `trace`: the file."""

    granularity_us: int
    trace: str | None
    passes: tuple[PassTime, ...]


@dataclass
class ChangedKernel:
    """The kernel that was `before` and is `kernel` now; null where there was none, or is none any more."""

    kernel: str | None
    before: str | None
    changes: tuple[FigureChange, ...]


@dataclass
class InspectedCodeObject:
    """A code object in a file: `origin` is its place in that, empty for the file itself. `arguments` by the names of
    kernels. `triton`: what Triton's JSON beside it says; null where there is none."""

    name: str
    origin: str
    arch: str
    code_key: str
    triton: TritonMetadata | None
    kernels: tuple[KernelReport, ...]
    arguments: dict[str, tuple[ArgumentMetadata, ...]]
    notes: tuple[str, ...]


@dataclass
class PredictedInstance:
    """An instance in a ranking by prediction; `place` is null without one, and `because` says why. `tied`: others share
    its place."""

    instance: str
    place: int | None
    tied: bool
    ratio: float | None
    because: str
    prediction: Prediction
    measured_us: float | None


@dataclass
class ToolchainFacts:
    """A compiler. `identity` goes into the keys of what it compiles. `ck4inductor`: CK's instance lists, a folder that
    Python can import from."""

    source: str
    root: str
    hipcc: str
    clang: str
    hip: str
    rocm: str | None
    identity: str
    ck: HeaderLibrary | None
    ck_tile: HeaderLibrary | None
    ck4inductor: HeaderLibrary | None
    openmp: bool


@dataclass
class ListedTemplate:
    """A template, and the kernels that name it."""

    name: str
    path: str
    built_in: bool
    kernels: tuple[str, ...]


@dataclass
class AuditedTableFacts:
    """A table of `rows`. `registry`: the checkout of AITER in which `judged` names of kernels were looked up, null
    without one; `not_judged`: how many were not, by why. `counts`: how many findings there are, by code."""

    path: str
    kind: Literal["gemm", "moe", "other"]
    registry: str | None
    rows: int
    judged: int
    not_judged: dict[str, int]
    counts: dict[str, int]


@dataclass
class ImportedKernelFile:
    """A kernel file that was written."""

    path: str
    instances: int


class Counts(BaseModel):
    """A line with more numbers than those that are named."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int] = Field(init=False)


def _event(kind: Any, name: str, doc: str, /, *like: Any, base: type[BaseModel] = BaseModel, **types: Any) -> type:
    """A line among others: the fields of `like`, and these. `kind` is its `event`."""
    for one in like:
        types = get_type_hints(one, include_extras=True) | types
    fields: dict[str, Any] = {one: (type_, ...) for one, type_ in types.items()}
    if kind is not None:
        fields["event"] = (kind, ...)
    return create_model(name, __doc__=doc, __base__=base, **fields)


def _answer(name: str, doc: str, /, *like: Any, event: Any = None, **types: Any) -> type:
    """All that a command prints, or the first or last of several lines.

    `schema` grows when a field changes its meaning or goes away; new fields may appear without that.
    """
    return _event(event, name, doc, *like, schema_=Annotated[Literal[1], Field(serialization_alias="schema")], **types)


_START = Literal["start"]
_STAGE = Literal["began", "stage"]
_SUMMARY = Literal["summary"]

DIAGNOSTIC_LINE = _event(
    Literal["diagnostic"], "DiagnosticLine",
    "An error, a warning or a note. Any command prints it for a mistake in the workspace that leaves it no answer.",
    Diagnostic,
)  # fmt: skip
_FILE = _event(Literal["file"], "FileWritten", "A file that was written for a unit.", unit=str, path=str)
_BUILD_STARTED = _answer(
    "BuildStarted", "The first line: the units that were asked for.", event=_START, units=tuple[str, ...]
)
_BUILT_UNIT = _event(
    Literal["unit"], "BuiltUnit",
    """A unit that has ended, as soon as it has.

    `outcome` is `checked`, `built`, `skipped`, `failed`, `faulted`, or why there is none (`cancelled`, `removed`,
    `no compiler`). `from_store`: its result was there before the command began; `lost`: it was built before, and the
    store no longer had it. `seconds` is the compile time. `products` are paths by kind, if it was built. `toolchains`:
    the unit with each one of `--toolchain`; then `outcome` is the worst of these.
    """,
    unit=str, kernel=str | None, instance=str | None, arch=str | None, outcome=str, from_store=bool, lost=bool,
    seconds=float, symbol=str | None, key=str | None, figures=Figures | None, products=dict[str, str],
    toolchains=tuple[UnitToolchain, ...], diagnostics=tuple[Diagnostic, ...],
)  # fmt: skip
_BUILD_SUMMARY = _event(
    _SUMMARY, "BuildSummary",
    """The last line: how many units ended how. Other outcomes than these have a number if there are any.

    `seconds` count from the start of the command's process, a start of the daemon included. `exit_status` is the
    command's; `errors_elsewhere` are in kernel files that were not asked for. `toolchains`: numbers by outcome, of each
    one of `--toolchain`.
    """,
    base=Counts, units=int, checked=int, built=int, skipped=int, failed=int, faulted=int, from_store=int,
    seconds=float, exit_status=int, errors_elsewhere=int, toolchains=dict[str, dict[str, int]],
)  # fmt: skip
_BENCH = (
    _answer("BenchStarted", "The first line.", event=_START),
    _event(
        _STAGE, "BenchStage", "Progress on a shape: it `began`, or is at a `stage`, which `text` names.",
        unit=str, shape=str, text=str,
    ),
    _event(
        Literal["timing"], "BenchTiming", "A timing, or how it failed. `known`: it comes from the history.",
        unit=str, shape=str, known=bool, timing=Timing,
    ),
    _event(
        Literal["skipped"], "BenchSkipped",
        "A unit or shape that is not timed, and why (`text`): a shape, or, if `shape` is null, all `shapes` of a unit.",
        unit=str, shape=str | None, shapes=int, text=str,
    ),
    _event(
        _SUMMARY, "BenchSummary",
        """The last line: shapes of units that were timed, had a timing, failed, or were skipped.

        `warning`: why others may have used the device at the same time, and whose lock it is; empty where they have
        not.
        """,
        timed=int, known=int, failed=int, skipped=int, seconds=float, exit_status=int, warning=str,
    ),
    _answer("DeviceList", "The devices, and by kind why others cannot be used.", Devices),
    _answer(
        "SelfTestStarted", "With `--self-test`: the first line, the device that is tried.",
        event=Literal["self-test"], device=DeviceFacts,
    ),
    _event(
        Literal["trial"], "SelfTestTrial",
        "With `--self-test`: what trying an assumption has shown. `otherwise`: what it would mean if it did not hold.",
        title=str, otherwise=str, trial=AssumptionTrial,
    ),
    _event(
        Literal["self-test-summary"], "SelfTestSummary",
        "With `--self-test`: the last line. `versions` of what took part; `report`: the file that can be attached.",
        passed=int, failed=int, skipped=int, seconds=float, exit_status=int, versions=dict[str, str], report=str,
    ),
)  # fmt: skip
_TUNE = (
    _answer(
        "TuneStarted",
        "The first line: what is searched. `points`: of the space, `coverage` says what of it is allowed.",
        event=_START, kernel=str, arch=str, shapes=tuple[str, ...], devices=tuple[str, ...], points=int,
        coverage=SpaceCoverage,
    ),
    _event(
        Literal["result"], "TuneStep",
        "A result. `best`: the best on its shape so far; `known`: from an earlier run; `measured`: how many were.",
        instance=str, parameters=dict[str, ParameterValue], result=ShapeResult, best=bool, known=bool, measured=int,
        seconds=float, device=str,
    ),
    _event(
        _SUMMARY, "TuneSummary",
        "The last line: why the run has `ended`, the best for each shape, and the fewest instances for all (`set`).",
        ended=str, seconds=float, measured=int, compiled=int, best=tuple[BestInstance, ...], set=DispatchSet | None,
        exit_status=int,
    ),
)  # fmt: skip
_VERIFY = (
    _answer(
        "StartingDescription",
        "Of a FILE without `--args`, or with `--write-args`: a description to begin with, and the file that it was "
        "`written` to.",
        args=str, written=str,
    ),
    _answer("VerifyStarted", "The first line.", event=_START, units=int),
    _event(
        _STAGE, "VerifyStage", "Progress on a unit: it `began`, or is at a `stage`, which `text` names.",
        unit=str, text=str,
    ),
    _event(
        Literal["unit"], "VerifiedUnit",
        """The result for a unit; `built_as` is `built` or the reason why there was nothing to verify.

        `known`: it was verified before. `verification`: each shape that was tried, and each finding with its place
        (lines and columns from zero); null where nothing was executed, as `summary` explains.
        """,
        unit=str, built_as=str, known=bool, outcome=Literal["verified", "failed", "not verified"], summary=str,
        verification=Verification | None,
    ),
    _event(
        _SUMMARY, "VerifySummary",
        """The last line: how many units are verified, wrong, not verified, and not compared: clean, but without a
        reference, which `hint` says how to give. There is no time: an emulator's says nothing of a GPU.
        `not_modelled`: where a GPU may differ from what was verified.""",
        verified=int, failed=int, not_verified=int, skipped=int, exit_status=int, not_modelled=tuple[str, ...],
        not_compared=int, hint=str,
    ),
)  # fmt: skip
_IMPORTED_KERNELS = _answer(
    "ImportedKernels",
    """The files that were written. `open`: the answers that each kernel still needs, by their names;
    `stand_ins`: headers that files were written for; `missing_headers` those that were found nowhere.""",
    files=tuple[str, ...],
    open=dict[str, dict[str, str]],
    stand_ins=tuple[str, ...],
    missing_headers=tuple[str, ...],
)
_IMPORTED_INSTANCES = _answer(
    "ImportedInstances",
    "The result of importing CK's list of instances: `listed` of them, and how many are in no file, by the reason.",
    listed=int, files=tuple[ImportedKernelFile, ...], left_out=dict[str, int],
)  # fmt: skip
_SAMPLED_TIMING = _event(
    None, "SampledTiming", "A timing with everything that was kept of its measurement.", Samples, Timing
)
_EXPORT = (
    _FILE,
    _answer(
        "ExportedModule", "The last line: what to import and what to call.",
        event=Literal["module"], unit=str, module=str, function=str,
    ),
    _answer(
        "AutotunedModule",
        """The last line of `--autotune`: the measured shapes, and the instance that their sizes choose, with its time.
        `left_out`: shapes without timings.""",
        event=Literal["autotuned"], kernel=str, arch=str, module=str, function=str, units=tuple[str, ...],
        shapes=tuple[MeasuredShape, ...], left_out=tuple[str, ...],
    ),
    _answer(
        "TimingExport",
        "Timings: `export --timings json`, with all that was kept of them if there is `--samples`.",
        timings=tuple[_SAMPLED_TIMING | Timing, ...],  # type: ignore[valid-type]  # a type that is computed
    ),
)  # fmt: skip

OUTPUT: dict[str, tuple[type, ...]] = {
    "check": (_BUILD_STARTED, _BUILT_UNIT, _BUILD_SUMMARY),
    "list": (_answer("UnitList", "The units.", units=tuple[Unit, ...]),),
    "watch": (Change,),
    "render": (
        _answer(
            "RenderedUnit",
            "A unit's text and its map. `text` is null when its template has errors; `diagnostics` are those.",
            RenderedText,
        ),
    ),
    "import ck4inductor": (_IMPORTED_INSTANCES,),
    "import aiter": (_IMPORTED_INSTANCES,),
    "import inductor": (
        _answer(
            "ImportedTemplate",
            """The files that were written. `taken` and `left_out` are the names of strings with Jinja, `unset` names
            that the template reads and nothing sets; `extends` is the template that it was put into, null for none.""",
            template=str, kernel_file=str, taken=tuple[str, ...], left_out=tuple[str, ...], extends=str | None,
            unset=tuple[str, ...],
        ),
    ),
    "import hip": (_IMPORTED_KERNELS,),
    "import cpp": (_IMPORTED_KERNELS,),
    "import profile": (
        _answer(
            "ImportedProfiles",
            "What a profiler saw on a device, by lines (from zero; null: no line is known) and kernels.",
            profiles=tuple[UnitDeviceProfile, ...],
        ),
    ),
    "import timings": (
        _answer(
            "ImportedTimingFiles", "The result for each file whose timings were imported.",
            imported=tuple[TimingsImport, ...],
        ),
        _answer(
            "ImportedTimingsList", "With `--list`: the files that timings were imported from.",
            files=tuple[ImportedTimingsFile, ...],
        ),
        _answer(
            "ImportedTimingsRemoved", "With `--remove`: the files whose timings are dropped.", removed=tuple[str, ...]
        ),
    ),
    "build": (_BUILD_STARTED, _BUILT_UNIT, _FILE, _BUILD_SUMMARY),
    "bench": _BENCH,
    "verify": _VERIFY,
    "judge": (
        _answer(
            "JudgeStarted", "The first line. All that is drawn follows from the `seed`.",
            event=_START, candidate=str, reference=str, seed=int,
        ),
        _event(Literal["stage"], "JudgeStage", "What is being done with a unit.", unit=str, text=str),
        _event(
            Literal["verdict"], "JudgedKernel",
            """The last line. `verification`: of the candidate on what was drawn; null if it was not executed.""",
            Judgement, verification=Verification | None, exit_status=int,
        ),
    ),
    "upgrade": (
        _answer(
            "UpgradeStarted", "The first line: how many units are compared, and the names of both toolchains.",
            event=_START, units=int, before=str, after=str,
        ),
        _event(
            Literal["stage"], "UpgradeStage", "Progress on a unit, which `text` names.", unit=str, text=str
        ),
        _event(Literal["unit"], "UpgradedUnit", "A unit with both toolchains.", UnitChange),
        _event(
            _SUMMARY, "UpgradeSummary", "The last line. Nothing is measured: times are predictions.", ChangeSummary,
            exit_status=int,
        ),
    ),
    "ci": (_answer("ComparedWithBase", "The whole report, as `--report json=FILE` writes it, too.", CiReport),),
    "tune": _TUNE,
    "dispatch": (
        _answer(
            "WrittenDispatcher",
            """A dispatcher: `choices` has the instance that the tree takes for each shape, `seen` the mean slowdown
            on them, and `unseen` that of trees on shapes they had not seen. `left_out`: shapes without times.""",
            kernel=str, arch=str, source=str, instances=tuple[str, ...], choices=dict[str, str], seen=float,
            unseen=UnseenCheck | None, left_out=tuple[str, ...], paths=tuple[str, ...],
        ),
    ),
    "shapes import": (
        _answer("LoggedShapes", "The shapes of logs, the most frequent first.", shapes=tuple[LoggedShape, ...]),
    ),
    "history": (
        _answer(
            "UnitTimings", "A unit's timings and failures, oldest first.", unit=str, timings=tuple[Timing, ...]
        ),
    ),
    "compare": (
        _answer(
            "ComparedTimings",
            "A row for each shape and cache state. `theirs` is a unit, `previous`, `library` or `baseline[:NAME]`.",
            ours=str, theirs=str, compared=tuple[Compared, ...],
        ),
    ),
    "best": (
        _answer(
            "RankedTimings",
            """The instances of a kernel by time on each shape, then those without a timing, and why.

            `imported` is what others measured on these shapes, the fastest first; it has no part in the ranks.
            """,
            kernel=str, ranked=tuple[RankedTiming, ...], imported=tuple[ImportedTiming, ...],
        ),
    ),
    "baseline set": (
        _answer(
            "BaselineSet", "The units whose latest timings the baseline has now.", name=str, units=tuple[str, ...]
        ),
    ),
    "baseline list": (_answer("BaselineList", "All baselines.", baselines=tuple[Baseline, ...]),),
    "baseline remove": (
        _answer(
            "BaselineRemoved", "A removed baseline, and of how many units it had timings.", name=str, units=int
        ),
    ),
    "export": _EXPORT,
    "explain": (
        _answer(
            "ExplainedUnit",
            """The dependencies of a unit, and the reason for its state.

            `by_hand` is a line for a shell that renders and compiles it. `templates` are the files that were read, with
            their hashes; `missed` would be read if they existed. `time`: with `--time` or `--trace`.
            """,
            unit=str, by_hand=str, parameters=dict[str, ExplainedParameter], state=ExplainedState,
            templates=dict[str, str], missed=tuple[str, ...], symbol=str | None, figures=Figures | None,
            cause=tuple[Cause, ...], diagnostics=tuple[Diagnostic, ...], time=CompileTime | None,
        ),
        _answer("ExplainedCode", "The documentation of a diagnostic's code, in Markdown.", code=str, text=str),
    ),
    "audit": (
        _answer(
            "AuditedTables",
            """The findings in tuned tables, of a kind and a table at most 1,000 findings. `built`: how many
            rows were built, whose findings are `audit/built`.""",
            tables=tuple[AuditedTableFacts, ...], diagnostics=tuple[Diagnostic, ...], built=int, exit_status=int,
        ),
    ),
    "inspect": (
        _answer(
            "InspectedUnit",
            """The code object of a unit. `changes` by what it is compared with: `previous`, `baseline NAME`.

            `fresh`: it belongs to the present input. `left_out` is what predictions do not know.
            """,
            unit=str, artifact_key=str, fresh=bool, arch=str, kernels=tuple[KernelReport, ...], notes=tuple[str, ...],
            changes=dict[str, tuple[ChangedKernel, ...]], warnings=tuple[KernelWarning, ...],
            shapes=tuple[ShapePrediction, ...], left_out=tuple[str, ...],
        ),
        _answer("UnitListing", "The instructions of a kernel: `inspect --isa`.", Isa),
        _answer(
            "InspectedFile", "The code objects of a file: `inspect FILE`. `notes`: what cannot be read, and why.",
            file=str, objects=tuple[InspectedCodeObject, ...], notes=tuple[str, ...],
        ),
        _answer(
            "CalibrationReport",
            """How far predictions were off: `inspect --calibration`. `ratio`, `off` and `order` are null without
            pairs.""",
            pairs=tuple[MeasuredPrediction, ...], ratio=float | None, off=float | None, order=float | None,
            below_bound=tuple[MeasuredPrediction, ...], timed=int, notes=tuple[str, ...],
        ),
    ),
    "profile": (
        _answer(
            "ProfiledUnit",
            """The work of a unit's kernels by place, counted on an emulator. Lines count from zero. `changes`: what
            is different from `against`; empty without `--against`, and where no earlier profile is kept. `worst`: of an
            instruction, its worst request.""",
            UnitProfile,
        ),
        _answer("UnitProfiledOnDevice", "What the profiler of a device's vendor saw: `--device`.", UnitDeviceProfile),
    ),
    "rank": (
        _answer(
            "RankedPredictions",
            """The instances of a kernel by predicted time. `left_out` is what predictions do not know. `record`: how
            good they were on public measurements of such kernels on this part, with shapes of other N and K than the
            fit had seen; null where there are none. `learned_from`: whose measurements changed the times; empty where
            none did.""",
            kernel=str, shape=str, arch=str, part=str, cache=str, predicted=Literal[True],
            ranked=tuple[PredictedInstance, ...], left_out=tuple[str, ...], record=PredictionRecord | None,
            learned_from=str,
        ),
        _answer(
            "RankedFiles",
            "Kernels of files by what their main loops do at best: `rank FILE…`. `left_out`: what no loop says.",
            files=tuple[str, ...], ranked=tuple[RankedLoop, ...], left_out=tuple[str, ...], notes=tuple[str, ...],
        ),
    ),
    "status": (
        _answer(
            "RunningDaemon", "A daemon that runs. `compiling` are the units that it compiles now.",
            Status, running=Literal[True], socket=str, log_file=str, compiling=tuple[str, ...],
        ),
        _answer(
            "OrphanedDaemon", "A daemon that runs for a workspace that has been deleted.",
            running=Literal[True], root=str, pid=int,
        ),
        _answer(
            "NoDaemon", "There is no daemon; `version` is the command's.",
            running=Literal[False], root=str, version=str,
        ),
    ),
    "cancel": (
        _answer(
            "CancelledUnits", "The units that were being compiled or timed, or waited for it.",
            running=bool, cancelled=tuple[str, ...],
        ),
    ),
    "farm status": (
        _answer(
            "FarmListing",
            "The farm, `up` where its scheduler answers; `cluster` is the kind that `ckwatch farm up` starts.",
            up=bool, cluster=str | None, address=str | None, workers=tuple[FarmWorkerLine, ...],
        ),
    ),
    "doctor": (
        _answer(
            "CheckedEnvironment",
            "The environment. `ok`: all that is needed is there. `archs` are those that can be compiled for.",
            ok=bool, toolchain=ToolchainFacts | None, archs=tuple[str, ...], devices=tuple[DetectedDevice, ...],
            checks=tuple[DoctorCheck, ...],
        ),
    ),
    "templates list": (
        _answer("TemplateList", "The templates, the workspace's first.", templates=tuple[ListedTemplate, ...]),
    ),
    "store size": (
        _answer(
            "StoreSize",
            "The size of the store in bytes, by folder. `shared` is the address of the shared one.",
            folder=str, artifacts=int, size_bytes=int, size_limit_bytes=int, parts=dict[str, int], shared=str | None,
        ),
    ),
    "store gc": (
        _answer(
            "StoreCleaned",
            "How many artifacts and leftovers of killed processes were removed, and what artifacts take now.",
            removed=int, leftovers=int, size_bytes=int,
        ),
    ),
}  # fmt: skip
"""The types of each command's lines; any command may print a `DiagnosticLine`, too."""
