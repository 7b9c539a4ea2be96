"""The client's side of the self-test, with real workers on the processor: what takes a worker along, and what is added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benches.bench_kernels import gemm_problem, shared_object
from ckwatch.bench.job import Contestant, SelfTestJob, SelfTestStep
from ckwatch.bench.leases import FOLDER_VARIABLE
from ckwatch.bench.report import BenchmarkFailure, FailureKind
from ckwatch.bench.self_test.session import (
    EARLY,
    EXPECTED,
    FRESH_PROCESSES,
    KernelSteps,
    StepRunner,
    repeated,
)
from ckwatch.bench.worker_protocol import SelfTestDone, StepTried, WorkerMessage
from ckwatch.bench.worker_session import Worker, WorkerStart
from ckwatch.model import self_test as names
from ckwatch.model.self_test import ASSUMPTIONS, AssumptionTrial, TrialOutcome, not_assumed
from fakes.patience import PATIENCE_S

PASSED, FAILED, SKIPPED = TrialOutcome.PASSED, TrialOutcome.FAILED, TrialOutcome.SKIPPED
JOB = SelfTestJob(device="cpu", kind="cpu", arch="host", steps=(), lease_wait_s=PATIENCE_S)


@pytest.fixture(autouse=True)
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))


def stepping(told: list[AssumptionTrial], *artifacts: bytes, **start: Any) -> StepRunner:
    return StepRunner(JOB, artifacts, WorkerStart(**start), told.append, lambda _stage: None)


def step(assumption: str, artifact: int | None = None, **more: Any) -> SelfTestStep:
    if artifact is None:
        return SelfTestStep(assumption=assumption, **more)
    ours = (Contestant(name="ours", artifact=artifact, symbol="gemm"),)
    return SelfTestStep(assumption=assumption, contestants=ours, problems=(gemm_problem(),), **more)


def test_every_assumption_is_tried_somewhere() -> None:
    elsewhere = {
        *(names.NUMERICS, names.SHARED_OBJECT, names.WORKSPACE, names.SAME, names.REPEATS, names.REPEATS_READ),
    }
    assert {*EARLY, *EXPECTED, *elsewhere} == {*ASSUMPTIONS}
    assert {one.assumption for one in not_assumed("cpu")} == {
        names.GATE, names.POWER, names.OTHERS, names.INSTRUCTIONS, names.REPEATS_READ,
    }  # fmt: skip
    assert not_assumed("cuda") == not_assumed("hip") == []


async def test_a_worker_tells_each_step_and_what_took_part() -> None:
    told: list[WorkerMessage] = []
    steps = (step(names.COPIES), step(names.GUARDS))
    job = SelfTestJob(device="cpu", kind="cpu", arch="host", steps=steps)
    done = await Worker().ask(job, [], SelfTestDone, time_limit_s=PATIENCE_S, on_message=told.append)
    assert isinstance(done, SelfTestDone), done
    assert done.device.name == "cpu"
    assert "ckwatch" in done.versions
    assert [(one.number, one.trial.outcome) for one in told if isinstance(one, StepTried)] == [(0, PASSED), (1, PASSED)]


async def test_the_next_worker_goes_on_behind_a_step_that_took_one_along() -> None:
    told: list[AssumptionTrial] = []
    crashing = shared_object("if (workspace_size == NULL) *(volatile int*)0 = 1;")
    steps = [
        step(names.COPIES),
        step(names.NUMERICS, 0, name="crashes"),
        step(names.NUMERICS, 1, name="is right"),
    ]
    shown = await stepping(told, crashing, shared_object()).steps(steps)
    assert shown == told
    assert [one.outcome for one in told] == [PASSED, FAILED, PASSED]
    assert "the worker was lost: SIGSEGV" in told[1].found


async def test_steps_that_there_is_no_time_for() -> None:
    told: list[AssumptionTrial] = []
    await stepping(told).steps([step(names.COPIES)], deadline=0.0)
    assert [(one.outcome, one.found) for one in told] == [(SKIPPED, "there was no time left")]


@pytest.mark.parametrize("assumption", [names.FAULT, names.CRASH])
async def test_what_is_provoked_is_reported_and_the_next_worker_works(assumption: str) -> None:
    told: list[AssumptionTrial] = []
    await stepping(told).provoke(assumption)
    (found,) = told
    assert found.outcome is PASSED, found
    assert found.found.startswith("reported as `crashed`: SIGSEGV")
    assert found.found.endswith("the next worker used the device")


async def test_a_worker_that_cannot_be_started_is_a_failure_of_each() -> None:
    told: list[AssumptionTrial] = []
    await stepping(told, launcher=("no-such-launcher",)).provoke(names.CRASH)
    (found,) = told
    assert found.outcome is FAILED
    assert "where `crashed` is right; the next worker cannot use the device" in found.found
    job = SelfTestJob(device="hip:7", kind="hip", arch="gfx942", steps=(step(names.COPIES),))
    failure = await Worker().ask(job, [], SelfTestDone, time_limit_s=PATIENCE_S)
    assert isinstance(failure, BenchmarkFailure)
    assert failure.kind in (FailureKind.NO_DRIVER, FailureKind.NO_DEVICE)


async def test_numerics_show_that_shared_objects_and_workspaces_work() -> None:
    told: list[AssumptionTrial] = []
    artifacts = (shared_object(), shared_object(workspace="64"), shared_object(before="K -= 1;"))
    steps = [step(names.NUMERICS, number, name=f"kernel {number}") for number in range(3)]
    await stepping(told, *artifacts).numerics(steps, PATIENCE_S)
    found = {one.assumption: one for one in told}
    assert [one.outcome for one in told[:3]] == [PASSED, PASSED, FAILED]
    assert found[names.SHARED_OBJECT].found == "2 of 3 shipped instances were loaded, launched, and right"
    assert found[names.WORKSPACE].found.startswith("1 of 3")


async def test_without_instances_nothing_is_said_of_shared_objects() -> None:
    told: list[AssumptionTrial] = []
    await stepping(told).numerics(KernelSteps().numerics, 1.0)
    assert [one.outcome for one in told] == [SKIPPED, SKIPPED]


def median(time_us: float, **figures: float | str) -> AssumptionTrial:
    return AssumptionTrial(
        assumption=names.REPEATS, outcome=PASSED, found="300 us; the kernel", figures={"median_us": time_us, **figures}
    )


@pytest.mark.parametrize(
    ("shown", "outcome", "words"),
    [
        ([median(300.0), median(301.0)], PASSED, "2 processes: 300 to 301 us, 0.33 % apart"),
        ([median(300.0), median(310.0)], FAILED, "3.2 % apart"),
        ([median(30.0), median(31.0)], SKIPPED, "expected of kernels above 100 us only"),
        (
            [
                median(300.0, clock_mhz=1500.0, kcycles=450.0, limited_by_power=9),
                median(320.0, clock_mhz=1406.0, kcycles=450.5, limited_by_power=9),
            ],
            PASSED,
            "the clock was held down by power; the cycles repeat",
        ),
        (
            [
                median(300.0, clock_mhz=1500.0, kcycles=450.0, limited_by_power=9),
                median(320.0, clock_mhz=1500.0, kcycles=480.0, limited_by_power=9),
            ],
            SKIPPED,
            "no conclusion",
        ),
        (
            [
                median(300.0, clock_mhz=1500.0, kcycles=450.0, counted_kcycles=460.0, limited_by_power=9),
                median(320.0, clock_mhz=1500.0, kcycles=480.0, counted_kcycles=460.9, limited_by_power=9),
            ],
            PASSED,
            "460 to 460.9 thousand cycles counted, 0.2 % apart; the clock was held down by power; the cycles repeat",
        ),
        (
            [median(300.0, clock_mhz=1500.0, kcycles=450.0), median(320.0, clock_mhz=1500.0, kcycles=480.0)],
            FAILED,
            "6.2 % apart",
        ),
    ],
)
def test_medians_of_several_processes(shown: list[AssumptionTrial], outcome: TrialOutcome, words: str) -> None:
    found = repeated(shown)
    assert found.outcome is outcome, found
    assert words in found.found
    assert found.found.endswith("; the kernel")


async def test_a_step_that_cannot_be_tried_takes_no_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[AssumptionTrial] = []
    tried: list[str] = []

    async def once(
        _runner: StepRunner, steps: list[SelfTestStep], tell: Callable[[AssumptionTrial], None], _limit_s: float
    ) -> None:
        for one in steps:
            tried.append(one.assumption)
            found = replace(median(300.0 + len(tried)), assumption=one.assumption)
            tell(found if one.assumption == names.REPEATS_READ else replace(found, outcome=SKIPPED))

    monkeypatch.setattr(StepRunner, "_try", once)
    await stepping(told).repeats([step(names.REPEATS), step(names.REPEATS_READ)])
    assert tried == [names.REPEATS, *[names.REPEATS_READ] * FRESH_PROCESSES]
    assert [(one.assumption, one.outcome) for one in told] == [(names.REPEATS, SKIPPED), (names.REPEATS_READ, FAILED)]
    assert told[1].found.startswith(f"{FRESH_PROCESSES} processes: 302 to 306 us")


async def test_a_worker_that_is_lost_fails_what_it_had_not_told() -> None:
    told: list[AssumptionTrial] = []
    await stepping(told, launcher=("no-such-launcher",)).repeats([step(names.REPEATS, 0)])
    assert [one.outcome for one in told] == [FAILED]
    assert told[0].found.startswith("a worker was lost: ")
