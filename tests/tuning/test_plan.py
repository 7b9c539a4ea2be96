"""Choice of a run's next evaluation, without a daemon, a journal or a clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from ckwatch.tuning.plan import WAIT, Evaluation, Next, Plan, TuningOptions
from ckwatch.tuning.results import EvaluationStatus, KnownResult, ShapeResult
from ckwatch.tuning.space import Point
from ckwatch.tuning.tuned_kernel import TunedKernel
from fakes.tuning_stand_in import tuned_kernel_of, workspace

FAILED = ShapeResult(shape="", status=EvaluationStatus.COMPILE_FAILED, reason="no such tile")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> TunedKernel:
    return tuned_kernel_of(workspace(tmp_path_factory.mktemp("plan")))


def plan_of(tuned: TunedKernel, seeds: Mapping[str, list[Point]] | None = None, **options: object) -> Plan:
    chosen = TuningOptions(**{"jobs": 2, "strategy": "all", "patience": None, **options})  # type: ignore[arg-type]
    return Plan(tuned, chosen, seeds or {}, devices=1, processors=1)


def timed(shape: str, median_us: float) -> ShapeResult:
    return ShapeResult(shape=shape, status=EvaluationStatus.MEASURED, median_us=median_us, high_us=median_us + 1)


def begun(steps: Iterator[Next]) -> Evaluation:
    step = next(steps)
    assert isinstance(step, Evaluation)
    return step


def test_shapes_take_turns_as_far_as_there_is_room(tuned: TunedKernel) -> None:
    steps = plan_of(tuned).steps()
    assert [begun(steps).shape for _ in range(2)] == ["one", "two"]
    assert [next(steps), next(steps)] == [WAIT, WAIT]


def test_the_best_of_a_shape_is_offered_to_the_others(tuned: TunedKernel) -> None:
    best, other = list(tuned.space)[5:7]
    plan = plan_of(tuned, {"one": [best], "two": [other]}, jobs=1)
    steps = plan.steps()
    assert begun(steps) == Evaluation("one", best)
    plan.finish()
    (step,) = plan.settle(best, timed("one", 10.0), 1.0)
    assert (step.best, step.measured) == (True, 1)
    assert plan.limit_us("one") == pytest.approx(1.05 * 11)
    assert begun(steps) == Evaluation("two", best)
    plan.finish()
    (step,) = plan.settle(best, timed("two", 12.0), 2.0)
    assert step.point.order == 1
    assert [result.shape for result in step.point.results] == ["one", "two"]


def test_an_instance_that_cannot_be_built_is_none_for_any_shape(tuned: TunedKernel) -> None:
    plan = plan_of(tuned)
    point = begun(plan.steps()).point
    assert [step.result.shape for step in plan.settle(point, FAILED, 1.0)] == ["one", "two"]
    assert plan.measured == 0
    assert plan.settle(point, FAILED, 1.0) == []


def test_no_more_is_begun_than_may_be_measured(tuned: TunedKernel) -> None:
    plan = plan_of(tuned, measurements=1)
    steps = plan.steps()
    evaluation = begun(steps)
    assert next(steps) == WAIT
    plan.finish()
    plan.settle(evaluation.point, timed("one", 10.0), 1.0)
    assert list(steps) == []
    assert plan.ended == "all measurements of the budget are done"


def test_patience_ends_a_search(tuned: TunedKernel) -> None:
    plan = plan_of(tuned, patience=2, jobs=1)
    begun_in_all = 0
    for step in plan.steps():
        assert isinstance(step, Evaluation)
        begun_in_all += 1
        plan.finish()
        plan.settle(step.point, timed(step.shape, 10.0), 1.0)
    assert plan.ended == "nothing better was found for long"
    assert begun_in_all < 12


def test_what_is_known_comes_before_what_is_new(tuned: TunedKernel) -> None:
    known, first, new = list(tuned.space)[:3]
    plan = plan_of(tuned, {"one": [first, new]}, jobs=1)
    rows = [
        KnownResult(tuned.space.parameters(point) or {}, "key", plan.problem("one"), timed("", 5.0))
        for point in (known, first)
    ]
    assert plan.recall(rows, ()).keys() == {known, first}
    steps = plan.steps()
    assert begun(steps) == Evaluation("one", first, rows[1])
    plan.finish()
    plan.settle(first, timed("one", 5.0), 1.0, known=True)
    begun(steps)  # of the other shape
    plan.finish()
    assert next(steps) == (Evaluation("one", known, rows[0]),)
    assert begun(steps) == Evaluation("one", new)
