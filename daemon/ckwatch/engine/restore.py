"""Restores the timings and figures of a workspace's units from the history when a daemon starts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ckwatch.bench.history.artifacts import Artifacts
from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.timings import TimingRecord, Timings
from ckwatch.codeobject.report_diff import KernelWarning
from ckwatch.core.events import ArtifactFigures, KernelUnits, ShapeTiming
from ckwatch.engine.handlers.analyze import code_version
from ckwatch.engine.handlers.regressions import failure_diagnostic
from ckwatch.engine.timings_to_wire import record_to_wire
from ckwatch.model.figures import Figures
from ckwatch.model.kernels import Shape, Unit


def remembered_timings(kernels: Iterable[KernelUnits], timings: Timings) -> dict[str, Mapping[str, ShapeTiming]]:
    """The newest of each unit and shape that is as it was; for a thread. Nothing when the history cannot be read."""
    found: dict[str, Mapping[str, ShapeTiming]] = {}
    try:
        for kernel in kernels:
            shapes = {shape.name: shape for shape in kernel.kernel.shapes}
            units = {unit.id: unit for unit in kernel.units}
            newest: dict[tuple[str, str], TimingRecord] = {}
            for record in timings.of_kernel(kernel.kernel.name) if shapes else ():
                known = newest.get((record.unit, record.shape))
                if record.unit in units and (known is None or known.id < record.id):
                    newest[record.unit, record.shape] = record
            for (unit, name), record in newest.items():
                shape = shapes.get(name)
                if shape is not None and _is_of_shape(record, shape):
                    found[unit] = {**found.get(unit, {}), name: _shape_timing(units[unit], shape, record)}
    except HistoryError:
        return {}  # opening the history has warned the user
    return found


def _is_of_shape(record: TimingRecord, shape: Shape) -> bool:
    return dict(record.sizes) == dict(shape.sizes) and dict(record.runtime) == dict(shape.runtime)


def _shape_timing(unit: Unit, shape: Shape, record: TimingRecord) -> ShapeTiming:
    rows = tuple(record_to_wire(record, record.artifact_key))
    wrong = () if record.failure is None else (failure_diagnostic(unit, shape, record.failure),)
    raced = record.report is not None and record.report.raced
    device = "" if record.device is None else record.device.key
    return ShapeTiming(shape.name, record.artifact_key, rows, wrong, raced=raced, device=device)


def remembered_figures(units: Iterable[str], artifacts: Artifacts) -> dict[str, ArtifactFigures]:
    """The last figures of each unit; for a thread. Nothing when the history cannot be read."""
    found: dict[str, ArtifactFigures] = {}
    try:
        for unit, (_, content) in artifacts.latest(units, form=code_version()).items():
            known = json.loads(content)
            warned = tuple(KernelWarning(**one) for one in known["warned"])
            changes = {name: tuple(known["shown"][name]) for name in ("changes", "baseline_changes")}
            found[unit] = ArtifactFigures(Figures(**{**known["shown"], **changes}), warned)
    except (HistoryError, ValueError, KeyError, TypeError):
        return found  # the user is warned of a damaged history; figures are looked up again
    return found
