"""A tuning run over a daemon's stand-in: what is built, timed, kept, and what ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.client.builds import BuildResult
from ckwatch.model.errors import CkwatchError, DaemonGoneError
from ckwatch.tuning.journal import TuningJournal
from ckwatch.tuning.plan import CLEARLY_WORSE, TuningOptions
from ckwatch.tuning.results import EvaluationStatus, TuningRecord
from ckwatch.tuning.runner import Tuning
from ckwatch.tuning.winners import best_shapes
from fakes.tuning_stand_in import FakeTunedClient, numbers, tuning, workspace

BEST = {"one": "s_32_96_4", "two": "s_48_64_8"}


def cost(unit: str, shape: str) -> float | str:
    """A bowl with another lowest point for each shape."""
    m, n, thread = numbers(unit)
    lowest = numbers(f"slow/{BEST.get(shape, BEST['one'])}@host")
    return 100.0 * (1 + sum(abs(one - low) / low for one, low in zip((m, n, thread), lowest, strict=True)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workspace(tmp_path)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[TuningJournal]:
    found = TuningJournal(tmp_path / "tuning.sqlite")
    yield found
    found.close()


class Runs:
    """Runs of a workspace, closed at the test's end."""

    def __init__(self, root: Path, journal: TuningJournal) -> None:
        self._where = (root, journal)
        self.made: list[Tuning] = []

    def __call__(self, client: FakeTunedClient, **options: Any) -> Tuning:
        root, journal = self._where
        self.made.append(tuning(root, client, journal, **options))
        return self.made[-1]


@pytest.fixture
def runs(root: Path, journal: TuningJournal) -> Iterator[Runs]:
    found = Runs(root, journal)
    yield found
    for one in found.made:
        one.close()


async def test_the_best_of_each_shape_is_found_with_part_of_the_measurements(runs: Runs) -> None:
    client = FakeTunedClient(cost)
    run = runs(client, patience=20)
    await run.run()
    assert {shape: getattr(run.best(shape), "instance", None) for shape in BEST} == BEST
    assert max(client.measured.values()) == 1
    assert len(client.measured) < run.tuned.coverage.allowed * 1.5  # of twice that
    assert run.ended == "nothing better was found for long"
    assert not any(count > 1 for count in client.built.values())
    chosen = run.dispatch_set()
    assert chosen is not None
    assert set(chosen.instances) == set(BEST.values())


async def test_what_is_clearly_worse_is_given_up(runs: Runs) -> None:
    client = FakeTunedClient(cost)
    run = runs(client, measurements=30)
    await run.run()
    assert client.limits[0] is None
    assert all(limit is None or limit >= 100.0 * CLEARLY_WORSE for limit in client.limits)
    results = [result for point in run.record.points for result in point.results]
    dropped = [result for result in results if result.status is EvaluationStatus.DROPPED]
    assert dropped
    assert run.measured == 30
    assert run.ended == "all measurements of the budget are done"


async def test_devices_time_different_instances_side_by_side(runs: Runs) -> None:
    client = FakeTunedClient(cost)
    run = runs(client, devices=2, jobs=8, strategy="all", patience=None, racing=False)
    await run.run()
    assert client.side_by_side == 2
    assert len(client.measured) == 2 * run.tuned.coverage.allowed
    assert {point.device for point in run.record.points} == {"cpu0", "cpu1"}
    assert set(client.limits) == {None}


async def test_slices_of_k_are_an_axis_of_the_search(runs: Runs) -> None:
    """One compile serves all values of `kBatch`; of each size only the best counts in the end."""

    def of_slices(unit: str, shape: str) -> float:
        return cost(unit, "one") * (0.5 if "M=64" in shape and "kBatch=4" in shape else 1.0)  # type: ignore[operator]

    client = FakeTunedClient(of_slices)
    run = runs(client, patience=20, shapes=["M=64,N=64,K=64,kBatch=2/4", "M=128,N=64,K=64,kBatch=2"])
    await run.run()
    assert len(run.tuned.shapes) == 3
    assert set(client.built.values()) == {1}
    best = {shape.name: found.instance for shape, found in best_shapes(run.tuned, run.record)}
    assert best == dict.fromkeys(("M=64,N=64,K=64,kBatch=4", "M=128,N=64,K=64,kBatch=2"), BEST["one"])
    chosen = run.dispatch_set()
    assert chosen is not None
    assert chosen.choice.keys() == best.keys()


async def test_more_devices_take_turns_in_fewer_rounds(runs: Runs, journal: TuningJournal) -> None:
    """With twice the devices half as many rounds of timings, as long as compilers keep up."""
    rounds = {}
    for devices in (1, 2, 4):
        journal.forget("slow")
        client = FakeTunedClient(cost)
        run = runs(client, devices=devices, jobs=16, strategy="all", patience=None, racing=False)
        await run.run()
        assert client.side_by_side == devices
        by_device = Counter(point.device for point in run.record.points for _ in point.results)
        rounds[devices] = max(by_device.values())
    assert rounds[2] <= 0.75 * rounds[1]  # half of them where no build is late
    assert rounds[4] <= 0.5 * rounds[1]


async def test_a_run_goes_on_where_it_was(runs: Runs) -> None:
    first = FakeTunedClient(cost)
    await runs(first, measurements=10).run()
    again = FakeTunedClient(cost)
    run = runs(again, patience=25)
    await run.run()
    assert not first.measured.keys() & again.measured.keys()
    known = [point for point in run.record.points[:10] for result in point.results if result.median_us]
    assert len(known) >= 10
    assert {shape: getattr(run.best(shape), "instance", None) for shape in BEST} == BEST


async def test_a_run_that_was_killed_measures_nothing_twice(runs: Runs) -> None:
    clients = [FakeTunedClient(cost) for _ in range(6)]
    for index, client in enumerate(clients):
        run = runs(client, patience=20)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.run)
            async for step in run:
                if not step.known and sum(client.measured.values()) > 3 * (index + 1):
                    tasks.cancel_scope.cancel()
    every = [where for client in clients for where in client.measured]
    repeated = len(every) - len(set(every))
    assert repeated <= len(clients)  # what was being timed when it was killed; the daemon's history has that too
    last = FakeTunedClient(cost)
    run = runs(last, patience=20)
    await run.run()
    assert {shape: getattr(run.best(shape), "instance", None) for shape in BEST} == BEST


async def test_results_of_another_text_of_the_template_do_not_count(runs: Runs) -> None:
    await runs(FakeTunedClient(cost), measurements=6).run()
    client = FakeTunedClient(cost)
    real = client.build

    async def changed(pattern: str) -> object:
        found = await real(pattern)
        state = found.units[0].unit
        assert state is not None
        object.__setattr__(found.units[0], "unit", replace(state, key=f"{state.key}, edited"))
        return found

    client.build = changed  # type: ignore[method-assign, assignment]
    run = runs(client, measurements=6)
    await run.run()
    assert sum(client.measured.values()) == 6


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("wrong result", EvaluationStatus.WRONG),
        ("crashed", EvaluationStatus.CRASHED),
        ("does not end", EvaluationStatus.HUNG),
        ("not supported", EvaluationStatus.REFUSED),
        ("compile", EvaluationStatus.COMPILE_FAILED),
    ],
)
async def test_a_bad_instance_costs_only_itself(runs: Runs, kind: str, status: EvaluationStatus) -> None:
    def partly_bad(unit: str, shape: str) -> float | str:
        return kind if numbers(unit)[2] == 2 else cost(unit, shape)

    client = FakeTunedClient(partly_bad)
    run = runs(client, strategy="all", patience=None)
    await run.run()
    results = {result.status for point in run.record.points for result in point.results}
    assert status in results
    reason = next(result.reason for point in run.record.points for result in point.results if result.status is status)
    assert reason in (f"it is {kind}", "no such tile")
    assert {shape: getattr(run.best(shape), "instance", None) for shape in BEST} == BEST
    assert run.ended == "the whole space was tried"


async def test_all_fail(runs: Runs) -> None:
    run = runs(FakeTunedClient(lambda _unit, _shape: "compile"), patience=10)
    await run.run()
    assert run.best("one") is None
    assert run.dispatch_set() is None
    assert run.ended == "nothing better was found for long"


async def test_a_budget_ends_the_run_with_the_best_so_far(runs: Runs) -> None:
    client = FakeTunedClient(cost)
    run = runs(client, budget_s=1e-9)
    record: TuningRecord = run.record
    await run.run()
    assert run.ended == "the budget is used up"
    assert record.points == ()


async def test_a_run_that_was_killed_has_the_rest_of_its_budget(runs: Runs) -> None:
    first = runs(FakeTunedClient(cost), budget_s=1e6)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.run)
        async for step in first:
            if step.measured == 4:
                used_s = step.seconds
                tasks.cancel_scope.cancel()
    again = runs(FakeTunedClient(cost), budget_s=1e-9)
    await again.run()
    assert again.seconds > used_s / 2 > 0
    assert again.ended == "the budget is used up"
    assert again.best("one") is not None  # what is known stays known


async def test_the_machines_fault_ends_the_run(runs: Runs) -> None:
    client = FakeTunedClient(lambda _unit, _shape: "device lost")
    run = runs(client)
    with pytest.raises(CkwatchError, match="could not be timed on cpu0"):
        await run.run()


async def test_a_daemon_that_is_lost_during_a_build_is_asked_again(runs: Runs) -> None:
    client = FakeTunedClient(cost)
    build, lost = client.build, [DaemonGoneError("the daemon has gone")]

    async def failing(pattern: str) -> BuildResult:
        if lost:
            raise lost.pop()
        return await build(pattern)

    client.build = failing  # type: ignore[method-assign]
    run = runs(client, measurements=3)
    await run.run()
    assert (run.measured, lost) == (3, [])


async def test_listed_instances_are_built_from_an_overlay(root: Path, journal: TuningJournal) -> None:
    common = {"NPerBlock": 32, "KPerBlock": 64, "NPerThread": 16}
    listed = {f"mine_{m}_32_2": {"MPerBlock": m, "MPerThread": 2, **common} for m in (8, 16, 24)}
    client = FakeTunedClient(lambda unit, _shape: float(numbers(unit)[0]))
    run = tuning(root, client, journal, listed=listed)
    await run.run()
    run.close()
    assert getattr(run.best("one"), "instance", None) == "mine_8_32_2"
    assert len(client.built) == 3


def test_an_unknown_strategy() -> None:
    with pytest.raises(CkwatchError, match="there is no strategy 'best'"):
        TuningOptions(strategy="best")
