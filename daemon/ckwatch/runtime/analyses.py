"""Looking into code objects when somebody asks."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from anyio import to_thread

from ckwatch.analysis.arch_limits import limits_of
from ckwatch.analysis.prediction import predict
from ckwatch.analysis.rank import Entry, rank
from ckwatch.analysis.report import CodeObjectReport
from ckwatch.analysis.target import Target, target_of
from ckwatch.compile.request import ProductKind
from ckwatch.errors import CkwatchError
from ckwatch.events import AnalyzeRequested
from ckwatch.history import Timings
from ckwatch.machine.state import UnitState
from ckwatch.model.diagnostic import Severity
from ckwatch.model.outcome import Outcome
from ckwatch.runtime.calibration import calibration_of, is_measured
from ckwatch.runtime.insights import Insights
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.shown import timings_of
from ckwatch.timing.calls import problem_of
from ckwatch.timing.job import Cache
from ckwatch.wire.analysis import Analysis, Calibrated, PredictedRanking, ShapePrediction


class Analyses:
    """Answers by the reports of artifacts."""

    def __init__(self, runtime: Runtime, insights: Insights) -> None:
        self._runtime = runtime
        self._insights = insights

    async def of(self, unit: UnitState) -> Analysis:
        """What the unit's last artifact tells. Raises CkwatchError for a unit without a code object."""
        report = await self._report(unit)
        assert unit.result is not None  # noqa: S101  # `_report` has looked
        before = "" if unit.figures is None else unit.figures.artifact
        earlier = await self._insights.earlier(unit.key.unit, unit.result.artifact, unit.unit.arch, before)
        await self._runtime.post(AnalyzeRequested(unit.key.scope, (unit.key.unit,), at=time.time()))
        limits = limits_of(report.arch)
        target = target_of(unit.unit.arch)
        shapes = () if target is None else await to_thread.run_sync(_shapes, unit, report, target)
        return Analysis(
            unit=unit.key.unit,
            artifact_key=unit.result.key,
            fresh=unit.fresh,
            report=report,
            shapes=shapes,
            previous=earlier.previous,
            baseline=earlier.baseline,
            baseline_name=earlier.baseline_name,
            lds_limit_bytes=None if limits is None else limits.workgroup_lds_bytes,
        )

    async def calibration(self, units: list[UnitState], timings: Timings | None) -> Calibrated:
        """How far predictions were off, of the units with a fresh timing on a part that predictions know."""
        return await calibration_of(units, self._report, timings)

    async def ranked(self, kernel: str, units: list[UnitState], shape: str, part: str) -> PredictedRanking:
        """The units of one kernel and arch on a shape. Raises CkwatchError for an unknown shape or part."""
        first = units[0].unit
        known = next((one for one in first.kernel.shapes if one.name == shape), None)
        if known is None:
            there = ", ".join(one.name for one in first.kernel.shapes) or "none"
            raise CkwatchError(f"'{kernel}' has no shape '{shape}'", f"it has {there}")
        try:
            target = target_of(first.arch, part)
        except ValueError as error:
            raise CkwatchError(str(error)) from None
        if target is None:
            raise CkwatchError(
                f"there is no prediction for {first.arch}", "`ckwatch inspect` tells resources and loops"
            )
        entries, measured = [], {}
        for unit in units:
            name = unit.unit.instance.name
            why_not, report = _why_not(unit), None
            if not why_not:
                report = await self._report(unit)
            entries.append(Entry(name=name, parameters=unit.unit.instance.parameters, report=report, why_not=why_not))
            if (time_us := _measured(unit, shape)[0]) is not None:
                measured[name] = time_us
        problem = problem_of(first.kernel.operation, known, first.arch)
        rows = await to_thread.run_sync(partial(rank, entries, problem, target))
        return PredictedRanking(
            kernel=kernel,
            shape=shape,
            arch=first.arch,
            part=target.part.name,
            cache=Cache.COLD.value,
            rows=rows,
            measured_us=measured,
        )

    async def _report(self, unit: UnitState) -> CodeObjectReport:
        result = unit.result
        path = None if result is None else result.products.get(ProductKind.CODE_OBJECT.value)
        if result is None or path is None or not unit.unit.arch.startswith("gfx"):
            why = _why_not(unit) or "it has no AMD code object"
            raise CkwatchError(f"'{unit.key.unit}' cannot be inspected: {why}", "build it first")
        return await self._insights.reports.of(result.artifact, Path(path), unit.unit.arch)


def of_arch(units: list[UnitState], arch: str) -> list[UnitState]:
    """The units of a kernel that are compiled for an arch. Raises CkwatchError where there is none."""
    mine = [unit for unit in units if unit.unit.arch == arch]
    if not mine:
        kernel = units[0].unit.kernel.name
        there = ", ".join(dict.fromkeys(unit.unit.arch for unit in units))
        raise CkwatchError(f"'{kernel}' is not compiled for {arch}", f"it is for {there}")
    return mine


def _why_not(unit: UnitState) -> str:
    """Why the unit has no artifact; empty where it has one."""
    if unit.result is not None and unit.result.outcome is Outcome.BUILT:
        return ""
    errors = [one.message for one in unit.diagnostics if one.severity is Severity.ERROR]
    return errors[0] if errors else "it was not built"


def _shapes(unit: UnitState, report: CodeObjectReport, target: Target) -> tuple[ShapePrediction, ...]:
    found = []
    for shape in unit.unit.kernel.shapes:
        problem = problem_of(unit.unit.kernel.operation, shape, unit.unit.arch)
        prediction = predict(report, unit.unit.instance.parameters, problem, target)
        measured_us, device = _measured(unit, shape.name)
        found.append(ShapePrediction(shape=shape.name, prediction=prediction, measured_us=measured_us, device=device))
    return tuple(found)


def _measured(unit: UnitState, shape: str) -> tuple[float | None, str]:
    """The fresh timing with a cold cache, and where it was taken."""
    for row in timings_of(unit):
        if row.shape == shape and is_measured(row):
            return row.median_us, row.device
    return None, ""
