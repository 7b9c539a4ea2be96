"""A verification in a worker process, on a stand-in for the emulator: C kernels that run on the host."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benches.bench_kernels import LIMITS_S, gemm_problem, shared_object
from ckwatch.bench.job import VerifyJob
from ckwatch.bench.worker_protocol import TrialVerified, WorkerMessage, WorkerStage
from ckwatch.bench.worker_session import WorkerStart
from ckwatch.model.errors import CkwatchError
from ckwatch.model.trials import Trial
from ckwatch.model.verification import FindingKind, ProblemOutcome, Verification, VerificationOutcome
from ckwatch.verification.session import WORKERS, count, verify
from fakes.emulator_stand_in import build_stand_in
from helpers.emulator_findings import TOLD

LIMIT_S = 120.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_stand_in(tmp_path_factory.mktemp("emulator"))


def trial(name: str, m: int) -> Trial:
    return Trial(name=name, shape=f"M={m} N=20 K=32", problem=gemm_problem(m))


def job(library: Path, *trials: Trial) -> VerifyJob:
    return VerifyJob(
        arch="gfx942", symbol="gemm", trials=trials or (trial("exact", 24), trial("ragged", 25)), library=str(library),
        objdump="llvm-objdump",
    )  # fmt: skip


async def verified(library: Path, artifact: bytes, *trials: Trial, **more: Any) -> Verification:
    return await verify(job(library, *trials), artifact, **{"time_limit_s": LIMIT_S} | more)


def outcomes(verification: Verification) -> list[tuple[str, ProblemOutcome]]:
    return [(problem.name, problem.outcome) for problem in verification.problems]


async def test_a_right_kernel(library: Path) -> None:
    heard: list[WorkerMessage] = []
    found = await verified(library, shared_object(), on_message=heard.append)
    assert found.outcome is VerificationOutcome.VERIFIED, found
    assert found.summary == "✓ verified (emulated gfx942)"
    assert outcomes(found) == [("exact", ProblemOutcome.RIGHT), ("ragged", ProblemOutcome.RIGHT)]
    assert [one.name for one in heard if isinstance(one, WorkerStage)] == [
        "loading the emulator", "verifying exact (M=24 N=20 K=32)", "verifying ragged (M=25 N=20 K=32)",
    ]  # fmt: skip
    assert [one.number for one in heard if isinstance(one, TrialVerified)] == [0, 1]


async def test_a_wrong_and_a_refused_shape(library: Path) -> None:
    artifact = shared_object(
        check='if (M == 23) { fprintf(stderr, "gemm: not supported: M is odd\\n"); return -23; }',
        after="if (M == 25) Y[3] = 100;",
    )
    found = await verified(library, artifact, trial("exact", 24), trial("small", 23), trial("ragged", 25))
    assert found.outcome is VerificationOutcome.FAILED
    assert [(one.outcome, one.message) for one in found.problems[:2]] == [
        (ProblemOutcome.RIGHT, None),
        (ProblemOutcome.REFUSED, "M is odd"),
    ]
    assert found.summary.startswith("✗ ragged: 1 of 500 elements of Y are wrong")


async def test_findings_are_told_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKWATCH_STAND_IN_FINDING", json.dumps(TOLD))
    found = await verified(library, shared_object())
    assert [(one.problem, one.count) for one in found.findings] == [("exact", 10)]
    assert found.outcome is VerificationOutcome.FAILED


async def test_a_crash_keeps_what_was_verified_before(library: Path) -> None:
    artifact = shared_object(before="if (M == 25) raise(SIGSEGV);")
    heard: list[WorkerMessage] = []
    trials = (trial("exact", 24), trial("ragged", 25), trial("wide", 26))
    found = await verified(library, artifact, *trials, on_message=heard.append)
    assert outcomes(found) == [
        ("exact", ProblemOutcome.RIGHT),
        ("ragged", ProblemOutcome.NOT_VERIFIED),
        ("wide", ProblemOutcome.RIGHT),
    ]
    assert [one.name for one in heard if isinstance(one, WorkerStage)].count("loading the emulator") == 2
    assert found.outcome is VerificationOutcome.NOT_VERIFIED
    message = found.problems[1].message
    assert message is not None
    assert "SIGSEGV while verifying ragged (M=25 N=20 K=32)" in message


async def test_what_was_verified_stays_where_counting_fails(library: Path) -> None:
    """The stand-in counts nothing."""
    asked = replace(job(library), counted=trial("counted", 26))
    heard: list[WorkerMessage] = []
    found = await verify(asked, shared_object(), time_limit_s=LIMIT_S, on_message=heard.append)
    assert found.outcome is VerificationOutcome.VERIFIED
    assert [one.name for one in heard if isinstance(one, WorkerStage)].count("counting M=26 N=20 K=32") == 1
    with pytest.raises(CkwatchError, match="ckwatch_emulator_count"):
        await count(asked, shared_object(), time_limit_s=LIMIT_S)


async def test_a_division_by_zero_on_the_host_is_the_kernels(library: Path) -> None:
    artifact = shared_object(before="if (M == 25) raise(SIGFPE);")
    found = await verified(library, artifact, trial("exact", 24), replace(trial("ragged", 25), hint="say so"))
    assert outcomes(found) == [("exact", ProblemOutcome.RIGHT), ("ragged", ProblemOutcome.WRONG)]
    assert found.problems[1].message == (
        "the C function divides an integer by zero on the host, perhaps in its grid; say so"
    )


async def test_a_crash_of_the_emulator_is_reported_as_ours(library: Path) -> None:
    said = "a bug in ckwatch's emulator, not in the kernel (signal 11 while executing gemm, v_foo): please report it"
    found = await verified(
        library,
        shared_object(before=f'dprintf(atoi(getenv("CKWATCH_EMULATOR_ERRORS")), "\\n{said}\\n"); raise(SIGSEGV);'),
    )
    first = found.findings[0]
    assert first.kind is FindingKind.EMULATOR_CRASHED
    assert first.message.startswith(f"the emulator crashed: {said} (while verifying exact")
    assert found.outcome is VerificationOutcome.NOT_VERIFIED


async def test_workers_that_crash_again_and_again_are_not_started_for_ever(library: Path) -> None:
    trials = [trial(f"{m}", m) for m in range(24, 24 + WORKERS + 2)]
    found = await verified(library, shared_object(before="raise(SIGSEGV);"), *trials)
    messages = [problem.message or "" for problem in found.problems]
    for one, message in zip(trials[:WORKERS], messages[:WORKERS], strict=True):
        assert f"SIGSEGV while verifying {one.name} ({one.shape})" in message
    assert messages[WORKERS:] == ["the workers ended before this was tried"] * 2


async def test_what_is_too_large_is_told_and_not_tried(library: Path) -> None:
    large = replace(trial("large", 25), not_tried="it is too large")
    found = await verified(library, shared_object(before="if (M == 25) abort();"), trial("exact", 24), large)
    assert outcomes(found) == [("exact", ProblemOutcome.RIGHT), ("large", ProblemOutcome.NOT_TRIED)]
    assert found.problems[1].message == "it is too large"
    assert found.outcome is VerificationOutcome.VERIFIED


async def test_a_kernel_that_does_not_end(library: Path) -> None:
    artifact = shared_object(before="while (M == 25) usleep(1000);")
    for limit_s in LIMITS_S:
        found = await verified(library, artifact, time_limit_s=limit_s)
        if found.problems[0].outcome is ProblemOutcome.RIGHT:
            break
    assert outcomes(found) == [("exact", ProblemOutcome.RIGHT), ("ragged", ProblemOutcome.NOT_VERIFIED)]
    assert "was still verifying ragged" in (found.problems[1].message or "")


async def test_what_cannot_begin(library: Path, tmp_path: Path) -> None:
    nothing = await verified(tmp_path / "nothing.so", shared_object())
    assert nothing.outcome is VerificationOutcome.NOT_VERIFIED
    assert "the emulator cannot be loaded" in nothing.summary
    no_artifact = await verified(library, b"no object")
    assert no_artifact.problems[0].message == "the artifact is not a shared object"
    no_worker = await verified(library, shared_object(), start=WorkerStart(("/no/python",)))
    assert "cannot be started" in (no_worker.problems[0].message or "")
