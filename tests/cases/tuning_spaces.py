"""Search spaces and tuning runs for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ckwatch.model.kernels import ParameterValue
from ckwatch.tuning.results import EvaluatedPoint, EvaluationStatus, ShapeResult, TuningRecord, TuningRun
from ckwatch.tuning.space import LISTED_AT_MOST, Allowed, Parameters, ProductSpace, SpaceCoverage
from ckwatch.workspace.parameters import Condition, Derivation
from ckwatch.workspace.product import Product

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)


def condition(text: str, *names: str) -> Condition:
    """A condition whose text is a Python expression."""
    code = compile(text, "<condition>", "eval")
    return Condition(text, frozenset(names), (), lambda values: _evaluated(code, values))


def derivation(parameter: str, text: str, *names: str) -> Derivation:
    """A derived parameter whose text is a Python expression."""
    code = compile(text, "<derivation>", "eval")
    return Derivation(text, frozenset(names), (), lambda values: _evaluated(code, values), parameter)


def _evaluated(code: Any, values: Mapping[str, object]) -> object:
    try:
        return eval(code, {}, dict(values))  # noqa: S307  # the tests' own expressions
    except ArithmeticError as error:
        raise ValueError(str(error)) from None


def product_space(
    axes: Mapping[str, Sequence[ParameterValue]],
    fixed: Parameters | None = None,
    conditions: Sequence[Condition] = (),
    derived: Sequence[Derivation] = (),
    allowed: Allowed | None = None,
    listed_at_most: int = LISTED_AT_MOST,
    rules: Sequence[Condition] = (),
) -> ProductSpace:
    """The space of `axes`, parameter → values."""
    product = Product(list(axes.items()), fixed, conditions, derived, failing_is_false=True)
    return ProductSpace(product, allowed, rules=rules, listed_at_most=listed_at_most)


def tiles(allowed: Allowed | None = None, conditions: tuple[Condition, ...] | None = None) -> ProductSpace:
    """M ≥ N and M · N ≤ 256 over powers of two, two pipelines, and K derived: 52 of 128 points."""
    own = (condition("M >= N", "M", "N"), condition("M * N <= 256", "M", "N")) if conditions is None else conditions
    axes: dict[str, Any] = {"M": POWERS, "N": POWERS, "pipeline": ("v1", "v3")}
    return product_space(axes, {"warp": 64}, own, [derivation("K", "M * 2", "M")], allowed)


def evaluated(
    order: int,
    parameters: Mapping[str, Any],
    times: Mapping[str, float | EvaluationStatus],
    *,
    instance: str = "",
    spread: float = 0.01,
    reason: str = "",
) -> EvaluatedPoint:
    """A point with a time in µs or a failure on each shape; the interval is the time ± `spread` of it."""
    results = tuple(
        ShapeResult(shape=shape, status=time, reason=reason)
        if isinstance(time, EvaluationStatus)
        else ShapeResult(
            shape=shape,
            status=EvaluationStatus.MEASURED,
            median_us=time,
            low_us=time * (1 - spread),
            high_us=time * (1 + spread),
        )
        for shape, time in times.items()
    )
    return EvaluatedPoint(
        order=order, seconds=2.0 * order, instance=instance or f"i{order}", parameters=parameters, results=results
    )


def run_of(number: int = 1, **changes: Any) -> TuningRun:
    """A run that has ended."""
    fields: dict[str, Any] = {
        "id": number, "kernel": "k", "arch": "gfx942", "device": "MI300X", "devices": ("hip:0", "hip:1"),
        "problems": {"s": {"M": 64, "N": 32}}, "strategy": "local", "seed": 1, "budget_s": 600.0, "measurements": None,
        "patience": 40, "racing": True, "jobs": None, "resumable": True, "began_at": 1e9, "last_active": 1e9 + 60,
        "seconds": 60.0, "ended": "the budget is used up", "measured": 3, "points": 3,
    }  # fmt: skip
    return TuningRun(**(fields | changes))


def record(*points: EvaluatedPoint, shapes: tuple[str, ...] = ("s",), **more: Any) -> TuningRecord:
    """A run over `points`."""
    coverage = more.pop("coverage", SpaceCoverage(100, 100, 100, (), ()))
    run = run_of(**({"problems": {shape: {"M": 64, "N": 32} for shape in shapes}} | more))
    return TuningRecord(run=run, points=points, coverage=coverage)


def cost_of(space: ProductSpace, cost: Callable[[Mapping[str, Any]], float]) -> Callable[[tuple[int, ...]], float]:
    """The cost of a point by its parameters."""

    def of(point: tuple[int, ...]) -> float:
        parameters = space.parameters(point)
        assert parameters is not None
        return cost(parameters)

    return of
