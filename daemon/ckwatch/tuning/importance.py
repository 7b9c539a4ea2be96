"""Figures of a tuning run's parameters as data: importance, best so far, parallel coordinates, and failures."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.tuning.results import TIMED, EvaluationStatus, TuningRecord
from ckwatch.tuning.space import is_ordered, rule_of


@dataclass(frozen=True, slots=True)
class ParameterImportance:
    """The share of the variance of the logarithm of the time that `parameter` alone explains, 0 to 1.

    It is worked out from `points` timed points with `values` different values.
    """

    parameter: str
    share: float
    points: int
    values: int


def parameter_importance(
    points: Sequence[Mapping[str, ParameterValue]], times: Sequence[float], shapes: Sequence[str] | None = None
) -> list[ParameterImportance]:
    """The main effect of each parameter that varies, the largest first.

    The first-order term of a functional analysis of variance, estimated without a model: the correlation ratio, less
    what chance explains (Kelley's ε², 1935: 1 − (n − 1)/(n − k) · within/total for n points and k values). Logarithms
    are taken relative to the mean of the same shape. Interactions count for no parameter, so the shares may add up to
    far less than 1; a search evaluates more points near the best, and what it avoided counts less.
    Raises ValueError where the numbers of points, times and shapes differ.
    """
    names = shapes if shapes is not None else [""] * len(points)
    by_shape: dict[str, list[float]] = defaultdict(list)
    for name, time in zip(names, times, strict=True):
        by_shape[name].append(math.log(time))
    means = {name: math.fsum(own) / len(own) for name, own in by_shape.items()}
    logs = [math.log(time) - means[name] for name, time in zip(names, times, strict=True)]
    total = math.fsum(log * log for log in logs)
    found = []
    for parameter in dict.fromkeys(name for one in points for name in one):
        groups: dict[object, list[float]] = defaultdict(list)
        for one, log in zip(points, logs, strict=True):
            value = one.get(parameter)
            groups[type(value), value].append(log)
        count, kinds = len(logs), len(groups)
        if kinds < 2:
            continue
        centred = [(own, math.fsum(own) / len(own)) for own in groups.values()]
        within = math.fsum((log - mean) ** 2 for own, mean in centred for log in own)
        share = 1 - (count - 1) / (count - kinds) * within / total if count > kinds and total > 0 else 0.0
        found.append(ParameterImportance(parameter, min(max(share, 0.0), 1.0), count, kinds))
    return sorted(found, key=lambda one: (-one.share, one.parameter))


def importance_of(record: TuningRecord) -> list[ParameterImportance]:
    """`parameter_importance` over all shapes of a run; timed points alone, dropped ones included."""
    rows = list(record.timed())
    times, shapes = [time for time, _, _ in rows], [result.shape for _, _, result in rows]
    return parameter_importance([point.parameters for _, point, _ in rows], times, shapes)


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """From evaluation `order` (from 1), `seconds` after the run began, the best on a shape took `median_us`."""

    order: int
    seconds: float
    median_us: float
    instance: str


def best_so_far(record: TuningRecord, shape: str) -> list[ProgressStep]:
    """The improvements on `shape`, the first measured point first."""
    steps: list[ProgressStep] = []
    for median, point, _ in sorted(record.timed(shape, (EvaluationStatus.MEASURED,)), key=lambda one: one[1].order):
        if not steps or median < steps[-1].median_us:
            steps.append(ProgressStep(point.order, point.seconds, median, point.instance))
    return steps


@dataclass(frozen=True, slots=True)
class CoordinateAxis:
    """A parameter and its values in the order to draw them: by size where they have one, else as they were met."""

    parameter: str
    values: tuple[ParameterValue | None, ...]


@dataclass(frozen=True, slots=True)
class CoordinateLine:
    """A timed instance: the index of its value on each axis."""

    instance: str
    median_us: float
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParallelCoordinates:
    """The timed instances on a shape, the fastest first."""

    axes: tuple[CoordinateAxis, ...]
    lines: tuple[CoordinateLine, ...]


def parallel_coordinates(record: TuningRecord, shape: str) -> ParallelCoordinates:
    """The parameters that vary between the points timed on `shape`, and those points."""
    timed = sorted(record.timed(shape), key=lambda one: (one[0], one[1].order))
    axes: list[CoordinateAxis] = []
    places: list[dict[object, int]] = []
    for parameter in dict.fromkeys(name for _, point, _ in timed for name in point.parameters):
        met = {(type(value), value): value for value in (point.parameters.get(parameter) for _, point, _ in timed)}
        if len(met) < 2:
            continue
        values = list(met.values())
        present = [value for value in values if value is not None]
        if is_ordered(present):
            values = [*([None] if len(present) < len(values) else []), *sorted(present)]
        axes.append(CoordinateAxis(parameter, tuple(values)))
        places.append({(type(value), value): index for index, value in enumerate(values)})
    lines = tuple(
        CoordinateLine(
            point.instance,
            median,
            tuple(
                own[type(value := point.parameters.get(axis.parameter)), value]
                for axis, own in zip(axes, places, strict=True)
            ),
        )
        for median, point, _ in timed
    )
    return ParallelCoordinates(tuple(axes), lines)


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Why `times` results have no time, by the rule that they name; `instance` and `reason` are of the first."""

    status: EvaluationStatus
    times: int
    reason: str
    instance: str


def failure_reasons(record: TuningRecord) -> list[FailureReason]:
    """Return the reasons for failures and refusals on any shape, the most frequent first."""
    counts: Counter[tuple[EvaluationStatus, str]] = Counter()
    examples: dict[tuple[EvaluationStatus, str], tuple[str, str]] = {}
    for point in record.points:
        for result in point.results:
            if result.status in TIMED:
                continue
            key = result.status, rule_of(result.reason)
            counts[key] += 1
            examples.setdefault(key, (result.reason, point.instance))
    return [FailureReason(key[0], times, *examples[key]) for key, times in counts.most_common()]
