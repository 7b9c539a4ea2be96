"""Analyze: the figures of a unit's code object, compared with its previous artifact and its baseline.

A report is made once for each artifact, kept on disk with it, and evicted from the store with it. It is made again
when this package's code or the tools changed, or when it is damaged. The report of a tool that was killed or took too
long is shown, but not kept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from ckwatch.bench.history.artifacts import Artifacts
from ckwatch.bench.history.database import HistoryError
from ckwatch.codeobject.limit_hints import need_of
from ckwatch.codeobject.occupancy import limits_of
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, headline, main_kernel
from ckwatch.codeobject.report_diff import changed_figures, match_kernels, warnings_of
from ckwatch.codeobject.tools.analyze import analyze
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.effects import Analyze
from ckwatch.core.events import MAIN, AnalysisDepth, AnalyzeFinished, ArtifactFigures
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.derived_files import DerivedFile, store_keys
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.figures import Figures, RegisterCounts
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import ExitReason, Launcher, ProcessResult, run_process
from ckwatch.system.code_version import version_of

REPORTS = DerivedFile("report.json", CodeObjectReport)

REPORTING_MODULES = (
    "ckwatch.codeobject.tools.analyze",
    "ckwatch.codeobject.report_diff",
    "ckwatch.codeobject.limit_hints",
)

REPORTS_KEPT = 100
"""Reports that are kept in memory; each has some kilobytes."""


class ReportCache:
    """Reports by artifact (`CompileFacts.artifact`). `launch` starts LLVM's tools: those of `compiler`, by default the
    workspace's."""

    def __init__(
        self, tools: BuildTools, launch: Launcher = run_process, compiler: CompilerWithStore | None = None
    ) -> None:
        self._tools = tools
        self._compiler = compiler
        self._launch = launch
        self._known: dict[str, CodeObjectReport] = {}
        self._turn = anyio.Lock()

    @property
    def _toolchain(self) -> Toolchain | NvccToolchain | None:
        compiler = self._compiler or self._tools.compiler
        return None if compiler is None else compiler.toolchain

    @property
    def _identity(self) -> str:
        toolchain = self._toolchain
        return "" if toolchain is None else toolchain.identity

    async def report(self, artifact: str, path: Path, arch: str, unit: Unit | None = None) -> CodeObjectReport:
        """The report of the code object at `path`, with the kernels of `unit` first. Raises CkwatchError without tools
        that could read it, LostArtifactError when it is not what was stored."""
        async with self._turn:
            known = await self.kept_report(artifact)
            if known is not None:
                return known
            await to_thread.run_sync(self._tools.load_product, path)  # what the tools read is what was compiled
            toolchain = self._toolchain
            if not isinstance(toolchain, Toolchain):
                raise CkwatchError(self._tools.problem or "there is no ROCm here, whose tools read code objects")
            watched = _WatchedLauncher(self._launch)
            own = ("", ()) if unit is None else _own_kernel(unit)
            found = await analyze(path, toolchain, arch.partition(":")[0], own=own, launcher=watched)
            if watched.undisturbed and found.kernels:
                self._remember(artifact, found)
                await to_thread.run_sync(self._keep, artifact, found)
            return found

    async def kept_report(self, artifact: str) -> CodeObjectReport | None:
        """The report if it is kept."""
        known = self._known.get(artifact)
        if known is None:
            known = await to_thread.run_sync(self._read, artifact)
            if known is not None:
                self._remember(artifact, known)
        return known

    def is_kept(self, artifact: str) -> bool:
        """Return True if the report is kept: every tool finished by itself."""
        return artifact in self._known

    async def earlier_report(self, artifact: str, arch: str) -> CodeObjectReport | None:
        """The report of an artifact that may have been evicted; None then."""
        known = await self.kept_report(artifact)
        path = None if known is not None else await to_thread.run_sync(self._code_object, artifact)
        if path is None:
            return known
        try:
            return await self.report(artifact, path, arch)
        except CkwatchError:
            return None

    def _remember(self, artifact: str, report: CodeObjectReport) -> None:
        self._known.pop(artifact, None)
        self._known[artifact] = report
        if len(self._known) > REPORTS_KEPT:
            del self._known[next(iter(self._known))]

    def _code_object(self, artifact: str) -> Path | None:
        store = self._tools.store
        entry = None if store is None else store.entry(*store_keys(artifact))
        return None if entry is None else entry.code_object

    def _read(self, artifact: str) -> CodeObjectReport | None:
        content = REPORTS.read(self._tools, artifact)
        return REPORTS.value(content, made_by=code_version(), tools=self._identity or None)

    def _keep(self, artifact: str, report: CodeObjectReport) -> None:
        REPORTS.keep(self._tools, artifact, report, made_by=code_version(), tools=self._identity)


class _WatchedLauncher:
    """Starts tools, and knows whether each finished by itself."""

    def __init__(self, launch: Launcher) -> None:
        self._launch = launch
        self.undisturbed = True

    async def __call__(self, arguments: Sequence[str], **options: Any) -> ProcessResult:
        try:
            finished = await self._launch(arguments, **options)
        except ToolchainError:
            self.undisturbed = False
            raise
        self.undisturbed = self.undisturbed and finished.exit_reason is ExitReason.EXITED
        return finished


@cache
def code_version() -> int:
    """A number for what the code does that makes reports and figures. What other code made is not shown. Blocks, call
    from a worker thread."""
    return int(version_of(REPORTING_MODULES, (Path(__file__),))[:12], 16)


@dataclass(frozen=True, slots=True)
class EarlierReports:
    """The artifacts that a unit's artifact is compared with; None when there is none, or it was evicted."""

    previous: CodeObjectReport | None = None
    baseline: CodeObjectReport | None = None
    baseline_name: str = ""


class ArtifactAnalyzer:
    """Analyzes what units compiled to, and records the figures in the history."""

    def __init__(self, reports: ReportCache, history: HistoryRecorder) -> None:
        self.reports = reports
        self._history = history

    async def analyze(self, effect: Analyze) -> AnalyzeFinished:
        """The figures of a unit's artifact; none when no report is kept or can be made. Raises CkwatchError without
        tools."""
        result = effect.result
        if effect.depth is AnalysisDepth.KEPT:
            report = await self.reports.kept_report(result.artifact)
        else:
            path = Path(result.products[ProductKind.CODE_OBJECT.value])
            report = await self.reports.report(result.artifact, path, effect.unit.arch, effect.unit)
        if report is None:
            return AnalyzeFinished(effect.work, None)
        earlier = await self.earlier(effect.unit.id, result.artifact, effect.unit.arch, effect.previous_artifact)
        figures = await to_thread.run_sync(figures_of, result.artifact, report, earlier)
        if figures is not None and effect.work.key.scope == MAIN and self.reports.is_kept(result.artifact):
            await self._record(effect.unit.id, figures)
        return AnalyzeFinished(effect.work, figures)

    async def earlier(self, unit: str, artifact: str, arch: str, before: str = "") -> EarlierReports:
        """Return the artifacts to compare with. `before` counts when the history knows no previous one."""
        known, baseline = await to_thread.run_sync(self._keys, unit, artifact)
        previous = known or (before if before != artifact else "")
        return EarlierReports(
            await self.reports.earlier_report(previous, arch) if previous else None,
            await self.reports.earlier_report(baseline[1], arch) if baseline is not None else None,
            "" if baseline is None else baseline[0],
        )

    def _keys(self, unit: str, artifact: str) -> tuple[str | None, tuple[str, str] | None]:
        artifacts, timings = self._history.artifacts, self._history.timings
        if artifacts is None or timings is None:
            return None, None
        try:
            return artifacts.before(unit, artifact), timings.baseline_artifact(unit)
        except HistoryError:
            return None, None  # the user is warned of a history that cannot be used

    async def _record(self, unit: str, figures: ArtifactFigures) -> None:
        artifacts = self._history.artifacts
        if artifacts is not None:
            with suppress(HistoryError):
                await to_thread.run_sync(_add_to_history, artifacts, unit, figures)


def _own_kernel(unit: Unit) -> tuple[str, tuple[str, ...]]:
    """The kernel that the template of a unit is called after, and the instance's parameters as C++ writes them: a file
    that it includes may launch the kernel otherwise."""
    values = (str(one).lower() if isinstance(one, bool) else str(one) for one in unit.instance.parameters.values())
    return Path(unit.kernel.template).name.partition(".")[0], tuple(values)


def figures_of(artifact: str, report: CodeObjectReport, earlier: EarlierReports) -> ArtifactFigures | None:
    """The figures of the main kernel; None for a code object in which nothing could be read."""
    kernel = main_kernel(report)
    if kernel is None:
        return None
    resources, occupancy, loop = kernel.resources, kernel.occupancy, kernel.loop
    limits = limits_of(report.arch)
    shown = Figures(
        artifact_key=artifact,
        standing="fresh",
        kernel=resources.name,
        kernels=len(report.kernels),
        **{one.name: getattr(resources, one.name) for one in fields(RegisterCounts)},
        occupancy=None if occupancy is None else occupancy.waves_per_simd,
        limited_by="" if occupancy is None else occupancy.limited_by.value,
        next_step="" if occupancy is None else occupancy.next_step,
        matrix_use=None if loop is None else loop.matrix_use,
        loop_clocks=None if loop is None else loop.clocks,
        changes=_changes(earlier.previous, report, kernel),
        baseline_changes=_changes(earlier.baseline, report, kernel),
        headline=headline(report),
    )
    warned = warnings_of(report, earlier.previous, None if limits is None else limits.workgroup_lds_bytes)
    return ArtifactFigures(shown, warned, need_of(report))


def _changes(before: CodeObjectReport | None, now: CodeObjectReport, kernel: KernelReport) -> tuple[str, ...]:
    old = None if before is None else next((old for old, each in match_kernels(before, now) if each is kernel), None)
    return () if old is None else tuple(changed_figures(old, kernel))


def _add_to_history(artifacts: Artifacts, unit: str, figures: ArtifactFigures) -> None:
    content = {
        "shown": asdict(figures.figures),
        "warned": [asdict(one) for one in figures.warned],
        "need": figures.need,
    }
    artifacts.add(unit, figures.artifact, time.time(), json.dumps(content), form=code_version())
