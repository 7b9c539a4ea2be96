"""The results of a tuning run: each evaluated point with its timings, and the best for each shape."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from statistics import NormalDist

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.tuning.space import SpaceCoverage

INTERVAL_ERRORS = 2 * NormalDist().inv_cdf(0.975)
"""The length of a 95 % interval in standard errors, were the error normal."""


class EvaluationStatus(StrEnum):
    """How the evaluation of a point on a shape ended. `dropped`: clearly slower than the best, not timed further."""

    MEASURED = "measured"
    DROPPED = "dropped"
    COMPILE_FAILED = "compile-failed"
    COMPILE_ABORTED = "compile-aborted"
    WRONG = "wrong"
    CRASHED = "crashed"
    HUNG = "hung"
    REFUSED = "refused"


TIMED = (EvaluationStatus.MEASURED, EvaluationStatus.DROPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeResult:
    """An evaluated point on one shape. `low_us` to `high_us` is a 95 % interval of the median; None where not timed.

    `reason` says why it failed, was dropped or was refused.
    """

    shape: str
    status: EvaluationStatus
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KnownResult:
    """A result as the journal has it. `artifact` is what the instance compiled to; of a compile that was given up, a
    digest of its text. `problem` are sizes and runtime arguments as JSON, empty where the result holds for all."""

    parameters: Mapping[str, ParameterValue]
    artifact: str
    problem: str
    result: ShapeResult
    taken_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedPoint:
    """A point that was evaluated as number `order` (from 1), `seconds` after the run began, on `device`."""

    order: int
    seconds: float
    instance: str
    parameters: Mapping[str, ParameterValue]
    results: tuple[ShapeResult, ...]
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestInstance:
    """The fastest measured instance on a shape.

    `confidence` is the probability that it is faster than each other measured instance, were the errors of the medians
    independent and normal; None where no other was measured. `runner_up` is the next one.
    """

    shape: str
    instance: str
    parameters: Mapping[str, ParameterValue]
    median_us: float
    low_us: float
    high_us: float
    confidence: float | None
    runner_up: str | None = None
    runner_up_us: float | None = None


@dataclass(frozen=True, slots=True)
class RunBest:
    """The fastest instance on a shape so far."""

    instance: str
    median_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRun:
    """A tuning run in brief, of any process. `Client.tune` with the kernel and the options here goes on with it.

    `device`: the kind, `devices` the names of those that were chosen. `problems`: sizes and runtime arguments by shape.
    `resumable`: the space is that of the kernel file, not one that a program gave. `began_at`, `last_active`: Unix
    seconds; `seconds`: how long it went on, interruptions left out. `ended` says why; it is empty for a run that is
    `running` and for one that was interrupted, by an error if there is an `error`. `measured`: results, `points`:
    instances that were evaluated. `best`: by shape, those of which none was measured left out.
    """

    id: int
    kernel: str
    arch: str
    device: str
    devices: tuple[str, ...]
    problems: Mapping[str, Mapping[str, int | float]]
    strategy: str
    seed: int
    budget_s: float | None
    measurements: int | None
    patience: int | None
    racing: bool
    jobs: int | None
    resumable: bool
    began_at: float
    last_active: float
    seconds: float = 0.0
    ended: str = ""
    error: str = ""
    running: bool = False
    measured: int = 0
    points: int = 0
    best: Mapping[str, RunBest] = field(default_factory=dict)

    @property
    def shapes(self) -> tuple[str, ...]:
        """The names of the shapes that it searches for."""
        return tuple(self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRecord:
    """All of a tuning run, finished or not: the evaluated points in order, and what of the space is refused."""

    run: TuningRun
    points: tuple[EvaluatedPoint, ...]
    coverage: SpaceCoverage

    def timed(
        self, shape: str | None = None, statuses: Collection[EvaluationStatus] = TIMED
    ) -> Iterator[tuple[float, EvaluatedPoint, ShapeResult]]:
        """The medians in µs with their points and results, on all shapes or on one, in the order of the points."""
        for point in self.points:
            for result in point.results:
                if result.status in statuses and result.median_us is not None and shape in (None, result.shape):
                    yield result.median_us, point, result

    def times(self) -> dict[str, dict[str, float]]:
        """The measured medians in µs: shape → instance → time. What was dropped or failed is missing."""
        found: dict[str, dict[str, float]] = {shape: {} for shape in self.run.shapes}
        for median, point, result in self.timed(statuses=(EvaluationStatus.MEASURED,)):
            found.setdefault(result.shape, {})[point.instance] = median
        return found

    def best(self, shape: str) -> BestInstance | None:
        """The fastest measured instance on `shape`; None where none was measured."""
        found = self.timed(shape, (EvaluationStatus.MEASURED,))
        measured = sorted(found, key=lambda one: (one[0], one[1].order))
        if not measured:
            return None
        (median, point, result), *others = measured
        low, high = _interval(result, median)
        sure = [_faster(result, median, other, their) for their, _, other in others]
        return BestInstance(
            shape=shape,
            instance=point.instance,
            parameters=point.parameters,
            median_us=median,
            low_us=low,
            high_us=high,
            confidence=math.prod(sure) if others else None,
            runner_up=others[0][1].instance if others else None,
            runner_up_us=others[0][0] if others else None,
        )


def _interval(result: ShapeResult, median: float) -> tuple[float, float]:
    return (
        median if result.low_us is None else result.low_us,
        median if result.high_us is None else result.high_us,
    )


def _faster(one: ShapeResult, one_us: float, other: ShapeResult, other_us: float) -> float:
    """The probability that `one` is faster than `other`, from their intervals."""
    errors = [(high - low) / INTERVAL_ERRORS for low, high in (_interval(one, one_us), _interval(other, other_us))]
    error = math.hypot(*errors)
    return NormalDist().cdf((other_us - one_us) / error) if error else (1.0 if other_us > one_us else 0.5)
