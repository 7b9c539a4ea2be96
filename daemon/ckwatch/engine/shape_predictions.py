"""Predicted times of a unit's code object on its shapes."""

from __future__ import annotations

from collections.abc import Callable

from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Unit
from ckwatch.prediction.predict import predict, target_of
from ckwatch.wire.analysis import ShapePrediction


def shape_predictions(
    unit: Unit,
    report: CodeObjectReport,
    measured: Callable[[str], tuple[float | None, str]] = lambda _shape: (None, ""),
) -> tuple[ShapePrediction, ...]:
    """Predictions for the shapes of a unit with this code object, beside what is `measured`; none for an arch without
    known parts."""
    target = target_of(unit.arch)
    if target is None:
        return ()
    found = []
    for shape in unit.kernel.shapes:
        problem = problem_of(unit.kernel.operation, shape, unit.arch)
        prediction = predict(report, unit.instance.parameters, problem, target)
        measured_us, device = measured(shape.name)
        found.append(ShapePrediction(shape=shape.name, prediction=prediction, measured_us=measured_us, device=device))
    return tuple(found)
