"""How far predictions were off: each fresh timing with what is predicted for the device that it was taken on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from anyio import to_thread

from ckwatch.analysis.calibration import Pair, calibrate
from ckwatch.analysis.prediction import predict
from ckwatch.analysis.report import CodeObjectReport
from ckwatch.analysis.target import target_of_device
from ckwatch.errors import CkwatchError
from ckwatch.history import HistoryError, Timings
from ckwatch.machine.state import UnitState
from ckwatch.runtime.shown import timings_of
from ckwatch.timing.calls import problem_of
from ckwatch.timing.job import Cache
from ckwatch.timing.report import DeviceFacts
from ckwatch.wire.analysis import Calibrated
from ckwatch.wire.timings import Timing

ReportOf = Callable[[UnitState], Awaitable[CodeObjectReport]]
"""Raises CkwatchError for a unit without a code object."""


async def calibration_of(units: Iterable[UnitState], report_of: ReportOf, timings: Timings | None) -> Calibrated:
    """Over all timings with a cold cache of the units' present artifacts. `timings` tell more of the devices."""
    pairs: list[Pair] = []
    notes: dict[str, None] = {}
    timed = 0
    for unit in list(units):
        rows = [row for row in timings_of(unit) if is_measured(row)]
        if not rows:
            continue
        timed += len(rows)
        try:
            report = await report_of(unit)
        except CkwatchError as error:
            notes[error.message] = None
            continue
        found, told = await to_thread.run_sync(_pairs, unit, report, rows, timings)
        pairs += found
        notes |= dict.fromkeys(told)
    return Calibrated(calibration=await to_thread.run_sync(calibrate, pairs), timed=timed, notes=tuple(notes))


def is_measured(row: Timing) -> bool:
    """Whether it is a fresh timing with a cold cache, which is what predictions are for."""
    return (row.cache, row.standing, row.failure) == (Cache.COLD.value, "fresh", None) and row.median_us > 0


def _pairs(
    unit: UnitState, report: CodeObjectReport, rows: list[Timing], timings: Timings | None
) -> tuple[list[Pair], list[str]]:
    """The timings that have a prediction, and why the others have none."""
    shapes = {shape.name: shape for shape in unit.unit.kernel.shapes}
    pairs, notes = [], []
    for row in rows:
        target = target_of_device(_device(row, timings))
        if target is None:
            notes.append(f"no predictions for {row.device_description} ({row.arch})")
            continue
        problem = problem_of(unit.unit.kernel.operation, shapes[row.shape], unit.unit.arch)
        predicted = predict(report, unit.unit.instance.parameters, problem, target)
        if predicted.time_us is None:
            notes += [f"{row.unit} on {row.shape}: {note}" for note in predicted.notes]
            continue
        pairs.append(
            Pair(
                unit=row.unit,
                shape=row.shape,
                device=f"{row.device} ({row.device_description})",
                predicted_us=predicted.time_us,
                measured_us=row.median_us,
                bound_us=predicted.bound_us,
            )
        )
    return pairs, notes


def _device(row: Timing, timings: Timings | None) -> DeviceFacts:
    """As it was measured, with its number of compute units; else as far as the timing tells."""
    try:
        record = None if timings is None else timings.one(row.id)
    except HistoryError:
        record = None
    if record is not None and record.device is not None:
        return record.device
    return DeviceFacts(name=row.device, description=row.device_description, arch=row.arch, pci=row.pci)
