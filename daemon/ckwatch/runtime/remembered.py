"""The timings that the history has of a workspace's units, when a daemon starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckwatch.events import KernelUnits, ShapeTiming
from ckwatch.history import HistoryError, TimingRecord, Timings
from ckwatch.history.summaries import wire_timings
from ckwatch.model.kernel import Shape, Unit
from ckwatch.runtime.verdicts import failure_diagnostic


def remembered_timings(kernels: Iterable[KernelUnits], timings: Timings) -> dict[str, Mapping[str, ShapeTiming]]:
    """The newest of each unit and shape that is as it was; for a thread. Nothing where the history cannot be read."""
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
                if shape is not None and _is_of(record, shape):
                    found[unit] = {**found.get(unit, {}), name: _timing(units[unit], shape, record)}
    except HistoryError:
        return {}  # the user is told of it where the history is opened
    return found


def _is_of(record: TimingRecord, shape: Shape) -> bool:
    return dict(record.sizes) == dict(shape.sizes) and dict(record.runtime) == dict(shape.runtime)


def _timing(unit: Unit, shape: Shape, record: TimingRecord) -> ShapeTiming:
    rows = tuple(wire_timings(record, record.artifact_key))
    wrong = () if record.failure is None else (failure_diagnostic(unit, shape, record.failure),)
    return ShapeTiming(shape.name, record.artifact_key, rows, wrong)
