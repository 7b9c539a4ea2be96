"""The code objects of units: analysis, predicted ranking, and how far predictions were off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from anyio import to_thread

from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.timings import Timings
from ckwatch.codeobject.occupancy import limits_of
from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.compile.store.entries import ProductKind
from ckwatch.core.events import AnalyzeRequested
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.handlers.analyze import ArtifactAnalyzer
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.shape_predictions import shape_predictions
from ckwatch.engine.to_wire import unit_timings_to_wire
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import CacheState
from ckwatch.model.timings import Timing
from ckwatch.model.unit_patterns import unknown_kernel
from ckwatch.prediction.predict import (
    MeasuredPrediction,
    calibrate,
    predict,
    target_of,
    target_of_device,
)
from ckwatch.prediction.ranking import RankingCandidate, rank
from ckwatch.wire.analysis import Analysis, Calibrated, PredictedRanking
from ckwatch.workspace.shapes import find_shape

ReportOf = Callable[[UnitState], Awaitable[CodeObjectReport]]
"""Raises CkwatchError for a unit without a code object."""


async def calibration_of(units: Iterable[UnitState], report_of: ReportOf, timings: Timings | None) -> Calibrated:
    """Over all timings with a cold cache of the units' present artifacts. `timings` know more about the devices."""
    pairs: list[MeasuredPrediction] = []
    notes: dict[str, None] = {}
    timed = 0
    for unit in list(units):
        rows = [row for row in unit_timings_to_wire(unit) if is_comparable(row)]
        if not rows:
            continue
        timed += len(rows)
        try:
            report = await report_of(unit)
        except CkwatchError as error:
            notes[error.message] = None
            continue
        found, reasons = await to_thread.run_sync(_pairs, unit, report, rows, timings)
        pairs += found
        notes |= dict.fromkeys(reasons)
    return Calibrated(calibration=await to_thread.run_sync(calibrate, pairs), timed=timed, notes=tuple(notes))


def is_comparable(row: Timing) -> bool:
    """Return True if it is a fresh timing with a cold cache, the case that predictions are for."""
    return (row.cache, row.standing, row.failure) == (CacheState.COLD.value, "fresh", None) and row.median_us > 0


def _pairs(
    unit: UnitState, report: CodeObjectReport, rows: list[Timing], timings: Timings | None
) -> tuple[list[MeasuredPrediction], list[str]]:
    """The timings that have a prediction, and why the others have none."""
    shapes = {shape.name: shape for shape in unit.unit.kernel.shapes}
    pairs, notes = [], []
    for row in rows:
        target = target_of_device(_device_facts(row, timings))
        if target is None:
            notes.append(f"no predictions for {row.device_description} ({row.arch})")
            continue
        problem = problem_of(unit.unit.kernel.operation, shapes[row.shape], unit.unit.arch)
        predicted = predict(report, unit.unit.instance.parameters, problem, target)
        if predicted.time_us is None:
            notes += [f"{row.unit} on {row.shape}: {note}" for note in predicted.notes]
            continue
        pairs.append(
            MeasuredPrediction(
                unit=row.unit,
                shape=row.shape,
                device=f"{row.place} ({row.device_description})",
                predicted_us=predicted.time_us,
                measured_us=row.median_us,
                bound_us=predicted.bound_us,
            )
        )
    return pairs, notes


def _device_facts(row: Timing, timings: Timings | None) -> DeviceFacts:
    """The device as it was measured, with its number of compute units; else what the timing has."""
    try:
        record = None if timings is None else timings.one(row.id)
    except HistoryError:
        record = None
    if record is not None and record.device is not None:
        return record.device
    return DeviceFacts(name=row.device, description=row.device_description, arch=row.arch, pci=row.pci)


@dataclass(eq=False)
class AnalysisQueries:
    """Answers from the reports of artifacts."""

    _loop: EngineLoop
    _analyzer: ArtifactAnalyzer
    _history: HistoryRecorder
    _lookup: UnitLookup

    async def analysis(self, unit: UnitState) -> Analysis:
        """The report of the unit's last artifact. Raises CkwatchError for a unit without a code object.

        Predictions take the unit's present parameters, so there are none for an artifact of an earlier input.
        """
        result = unit.compile.result  # may change while the report is made
        report = await self.report(unit)
        assert result is not None  # noqa: S101  # `report` has checked
        before = "" if unit.figures.latest is None else unit.figures.latest.artifact
        earlier = await self._analyzer.earlier(unit.key.unit, result.artifact, unit.unit.arch, before)
        await self._loop.post(AnalyzeRequested(unit.key.scope, (unit.key.unit,)))
        limits = limits_of(report.arch)
        fresh = unit.built is result
        shapes = (
            ()
            if not fresh
            else await to_thread.run_sync(
                shape_predictions, unit.unit, report, lambda shape: _measured_time(unit, shape)
            )
        )
        return Analysis(
            unit=unit.key.unit,
            artifact_key=result.key,
            fresh=fresh,
            report=report,
            shapes=shapes,
            previous=earlier.previous,
            baseline=earlier.baseline,
            baseline_name=earlier.baseline_name,
            lds_limit_bytes=None if limits is None else limits.workgroup_lds_bytes,
        )

    async def calibration(self) -> Calibrated:
        """How far predictions were off, for the units with a fresh timing on a part that predictions know."""
        await self._lookup.loaded()
        units = list(self._loop.state.main.units.values())
        return await calibration_of(units, self.report, self._history.timings)

    async def predicted(
        self, scope: str, kernel: str, shape: str | None, arch: str | None, part: str
    ) -> PredictedRanking:
        """A kernel's instances, as the client sees them, by predicted time, once they are rendered. Raises
        UnknownUnitError and CkwatchError."""
        await self._lookup.loaded()
        names = [name for name, unit in self._loop.state.members(scope).items() if unit.kernel.name == kernel]
        units = [unit for name in names if (unit := self._loop.state.seen(scope, name)) is not None]
        if not units:
            known = self._loop.state.members(scope).values()
            raise unknown_kernel(dict.fromkeys(unit.kernel.name for unit in known), kernel)
        mine = await self._lookup.looked_up(of_arch(units, arch or units[0].unit.arch))
        if not mine:
            raise await self._lookup.unknown(scope, kernel)
        return await self._ranked(kernel, mine, shape, part)

    async def _ranked(self, kernel: str, units: list[UnitState], shape: str | None, part: str) -> PredictedRanking:
        """The units of one kernel and arch on a shape. Raises CkwatchError for an unknown shape or part."""
        first = units[0].unit
        if shape is None and not first.kernel.shapes:
            raise CkwatchError(f"'{kernel}' has no shape", "give sizes with --shape, or add a [[shape]]")
        known = first.kernel.shapes[0] if shape is None else find_shape(first.kernel, shape)
        try:
            target = target_of(first.arch, part)
        except ValueError as error:
            raise CkwatchError(str(error)) from None
        if target is None:
            raise CkwatchError(
                f"there is no prediction for {first.arch}", "`ckwatch inspect` shows resources and loops"
            )
        entries, measured = [], {}
        for unit in units:
            instance = unit.unit.instance  # may be edited while the report is made
            name, why_not, report = instance.name, _why_not(unit), None
            fails = bool(why_not and unit.settled and _errors_of(unit))
            if not why_not:
                report = await self.report(unit)
            entries.append(
                RankingCandidate(name=name, parameters=instance.parameters, report=report, why_not=why_not, fails=fails)
            )
            if (time_us := _measured_time(unit, known.name)[0]) is not None:
                measured[name] = time_us
        problem = problem_of(first.kernel.operation, known, first.arch)
        rows = await to_thread.run_sync(partial(rank, entries, problem, target))
        return PredictedRanking(
            kernel=kernel,
            shape=known.name,
            arch=first.arch,
            part=target.part.name,
            cache=CacheState.COLD.value,
            rows=rows,
            measured_us=measured,
            intensity=problem.intensity,
        )

    async def report(self, unit: UnitState) -> CodeObjectReport:
        """The report of the unit's last artifact. Raises CkwatchError for a unit without a code object."""
        result = unit.compile.result
        path = None if result is None else result.products.get(ProductKind.CODE_OBJECT.value)
        if result is None or path is None or not unit.unit.arch.startswith("gfx"):
            why = _why_not(unit)
            hint = f"`ckwatch explain {unit.key.unit}` shows its errors" if _errors_of(unit) else "build it first"
            raise CkwatchError(
                f"'{unit.key.unit}' cannot be inspected: {why or 'it has no AMD code object'}", hint if why else None
            )
        return await self._analyzer.reports.report(result.artifact, Path(path), unit.unit.arch)


def of_arch(units: list[UnitState], arch: str) -> list[UnitState]:
    """The units of a kernel that are compiled for an arch. Raises CkwatchError where there is none."""
    mine = [unit for unit in units if unit.unit.arch == arch]
    if not mine:
        kernel = units[0].unit.kernel.name
        there = ", ".join(dict.fromkeys(unit.unit.arch for unit in units))
        raise CkwatchError(f"'{kernel}' is not compiled for {arch}", f"it is for {there}")
    return mine


def _why_not(unit: UnitState) -> str:
    """Why the unit has no artifact of its present input; empty where it has one."""
    if unit.built is not None:
        return ""
    if not unit.settled:
        return "it is being built"
    errors = _errors_of(unit)
    never = "it was not built" if unit.compile.result is None else "it was not built since it changed"
    return errors[0] if errors else never


def _errors_of(unit: UnitState) -> list[str]:
    """Return the errors of the unit."""
    return [one.message for one in unit.diagnostics if one.severity is Severity.ERROR]


def _measured_time(unit: UnitState, shape: str) -> tuple[float | None, str]:
    """The fresh timing with a cold cache, and where it was taken."""
    for row in unit_timings_to_wire(unit):
        if row.shape == shape and is_comparable(row):
            return row.median_us, row.place
    return None, ""
