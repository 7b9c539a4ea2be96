"""Findings of verifications on a fake of the emulator."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benches.bench_kernels import LDC, K, M, N, gemm_problem, matrix_of
from cases.reference_case import called_reference
from ckwatch.bench.job import VerifyJob
from ckwatch.bench.progress import Progress
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.worker_protocol import TrialVerified, WorkerStage
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.python_references import ReferenceMistake
from ckwatch.model.trials import Contents, GapFill, Trial
from ckwatch.model.verification import EmulatedFinding, FindingKind, ProblemOutcome, VerifiedProblem
from ckwatch.verification.verify_job import UNKNOWN_OPERATION, verify_job
from fakes.fake_emulator import Arrays, FakeEmulator, FakeLoader, Kernel
from helpers.emulator_findings import told

Sizes = Any
TRIAL = Trial(name="ragged", shape="M=24 N=20 K=32", problem=gemm_problem())


UNKNOWN = replace(TRIAL.problem, computed=None)
"""The same tensors, and nobody knows what is computed."""
LAST = f"Y[{M - 1}, {N - 1}]"
FIRST_AND_LAST = f"(the first is Y[0, 0], the last {LAST})"


def progress_of(stages: list[str], heard: list[TrialVerified]) -> Progress:
    def tell(said: object) -> None:
        if isinstance(said, WorkerStage):
            stages.append(said.name)
        elif isinstance(said, TrialVerified):
            heard.append(said)

    return Progress(tell)


def matrices(arrays: Arrays, sizes: Sizes) -> tuple[Any, Any, Any]:
    x = arrays["X"].reshape(sizes["M"], sizes["K"])
    w = arrays["W"].reshape(sizes["K"], sizes["N"])
    y = np.lib.stride_tricks.as_strided(arrays["Y"], (sizes["M"], sizes["N"]), (4 * sizes["LDC"], 4))
    return x, w, y


def right(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
    x, w, y = matrices(arrays, sizes)
    y[...] = x @ w
    define(device, arrays, sizes, sizes["M"])
    return 0


def define(device: FakeEmulator, arrays: Arrays, sizes: Sizes, rows: int) -> None:
    for row in range(rows):
        device.wrote(arrays["Y"].ctypes.data + 4 * row * sizes["LDC"], 4 * sizes["N"])


def verified(
    kernel: Kernel,
    trial: Trial = TRIAL,
    device: FakeEmulator | None = None,
    **job: Any,
) -> tuple[VerifiedProblem, tuple[EmulatedFinding, ...]]:
    device = device or FakeEmulator()
    fakes: Any = {"emulator": lambda *_: device, "loader": partial(FakeLoader, device, kernel)}
    usual = VerifyJob(arch="gfx942", symbol="gemm", trials=(trial,), library="/l.so", objdump="/objdump")
    heard: list[TrialVerified] = []
    stages: list[str] = []
    verify_job(replace(usual, **job), [b""], progress_of(stages, heard), **fakes)
    assert stages == ["loading the emulator", f"verifying {trial.name} ({trial.shape})"]
    assert device.is_empty
    assert [one.number for one in heard] == [0]
    mistakes.append(heard[0].mistake)
    return heard[0].problem, heard[0].findings


mistakes: list[ReferenceMistake | None] = []
"""Of the references, one for each verification."""


def changed(change: Any) -> Kernel:
    """The right kernel, then `change` of its arrays."""

    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        right(device, arrays, sizes)
        change(arrays)
        return 0

    return kernel


def test_a_right_kernel() -> None:
    device = FakeEmulator()
    problem, findings = verified(right, device=device)
    assert problem == VerifiedProblem(name="ragged", shape=TRIAL.shape, outcome=ProblemOutcome.RIGHT)
    assert findings == ()
    assert device.settings == [{"checked": True, "traced": False, "judged": False, "workgroups": None, "seed": 1}]


def test_without_checks_what_differs_from_the_poison_was_written() -> None:
    def unaware(_device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        x, w, y = matrices(arrays, sizes)
        y[...] = x @ w
        return 0

    problem, _ = verified(unaware, checked=False)
    assert problem.outcome is ProblemOutcome.RIGHT
    problem, _ = verified(lambda *_: 0, checked=False)
    assert (
        problem.message
        == f"the kernel left {M * N} of {M * N} elements of Y unwritten (the first is Y[0, 0], the last {LAST})"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays["Y"].__setitem__(3, 100.0), "1 of 480 elements of Y are wrong"),
        (lambda arrays: arrays["Y"].__setitem__(N, 1.0), "wrote 1 elements beside Y"),
        (lambda arrays: arrays["X"].__setitem__(0, 1.0), "the kernel wrote to its input X"),
        (lambda arrays: arrays["Y"].__setitem__(3, np.nan), "1 of 480 elements of Y are NaN"),
    ],
)
def test_a_wrong_result(change: Any, message: str) -> None:
    problem, _ = verified(changed(change))
    assert problem.outcome is ProblemOutcome.WRONG
    assert problem.message is not None
    assert message in problem.message


def test_an_output_that_is_not_written() -> None:
    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        x, w, y = matrices(arrays, sizes)
        y[...] = x @ w
        define(device, arrays, sizes, sizes["M"] - 1)
        return 0

    problem, _ = verified(kernel)
    assert problem.outcome is ProblemOutcome.WRONG
    part = f"the kernel left {N} of {M * N} elements of Y unwritten (the first is Y[{M - 1}, 0], the last {LAST})"
    assert problem.message == part
    problem, _ = verified(kernel, replace(TRIAL, problem=UNKNOWN))
    assert (problem.outcome, problem.message) == (ProblemOutcome.WRONG, part)


@pytest.mark.parametrize(
    ("said", "refusal", "message"),
    [
        ("gemm: not supported: K is odd (M=24 N=20)", None, "K is odd"),
        ("gemm: not supported: K is odd", "K = 33 is not a multiple of 8", "K = 33 is not a multiple of 8"),
        ("", None, "no reason is given"),
    ],
)
def test_a_refusal_says_why(said: str, refusal: str | None, message: str) -> None:
    def kernel(_device: FakeEmulator, _arrays: Arrays, _sizes: Sizes) -> int:
        os.write(2, said.encode())
        return -23

    problem, _ = verified(kernel, replace(TRIAL, refusal=refusal))
    assert (problem.outcome, problem.message, problem.share) == (ProblemOutcome.REFUSED, message, 0.0)


def test_a_refusal_that_no_rule_explains_is_wrong() -> None:
    problem, _ = verified(lambda *_: -23, replace(TRIAL, refusal=""))
    assert (problem.outcome, problem.message) == (
        ProblemOutcome.WRONG,
        "it refuses a shape that it should support: no reason is given",
    )


def test_a_wrong_result_instead_of_a_refusal_says_so() -> None:
    problem, _ = verified(
        changed(lambda arrays: arrays["Y"].__setitem__(3, 100.0)), replace(TRIAL, refusal="K is too small")
    )
    assert problem.outcome is ProblemOutcome.WRONG
    assert problem.message is not None
    assert problem.message.startswith("it must be refused (K is too small), and is computed wrongly: 1 of 480 elements")


@pytest.mark.parametrize("contents", list(Contents))
def test_inputs_of_each_kind(contents: Contents) -> None:
    seen: list[Arrays] = []

    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        seen.append({name: values.copy() for name, values in arrays.items()})
        return right(device, arrays, sizes)

    problem, _ = verified(kernel, replace(TRIAL, contents=contents))
    assert problem.outcome is ProblemOutcome.RIGHT
    x, w = seen[0]["X"].reshape(M, K), seen[0]["W"]
    if contents in (Contents.ZEROS, Contents.ONES):
        assert set(x.ravel()) | set(w) == {float(contents is Contents.ONES)}
    elif contents is Contents.LARGEST:
        assert (x.sum(axis=1) == 1).all()
        assert abs(w).max() == 2.0**40
    else:
        assert abs(x).max() <= 1


def test_an_error_code_is_wrong() -> None:
    problem, _ = verified(lambda *_: 719)
    assert problem.outcome is ProblemOutcome.WRONG
    assert problem.message == "gemm returned 719 (hipErrorLaunchFailure: the kernel failed while it ran)"


@pytest.mark.parametrize(("hint", "outcome"), [("", ProblemOutcome.WRONG), ("derived", ProblemOutcome.REFUSED)])
def test_a_launch_that_no_device_does_is_a_refusal_of_derived_sizes(hint: str, outcome: ProblemOutcome) -> None:
    problem, _ = verified(lambda *_: 9, replace(TRIAL, hint=hint))
    assert problem.outcome is outcome
    assert problem.message is not None
    assert "hipErrorInvalidConfiguration: the kernel's grid or workgroup" in problem.message


def test_a_launch_that_failed_by_our_fault_is_not_verified() -> None:
    device = FakeEmulator(error=BenchmarkError(FailureKind.NO_MEMORY, "too little memory"))
    problem, _ = verified(right, device=device)
    assert (problem.outcome, problem.message) == (ProblemOutcome.NOT_VERIFIED, "too little memory")


def test_an_unknown_instruction_is_not_verified() -> None:
    device = FakeEmulator([told("unknown-instruction", instruction="v_foo v1")])
    problem, findings = verified(lambda *_: 719, device=device)
    assert (problem.outcome, problem.message) == (
        ProblemOutcome.NOT_VERIFIED,
        "the emulator does not know `v_foo v1`",
    )
    assert [one.kind for one in findings] == [FindingKind.UNKNOWN_INSTRUCTION]


def test_a_kernel_without_end_is_wrong_and_ends_the_verification() -> None:
    device = FakeEmulator([told("no-end", note="250000000 counted instructions of the workgroup")])
    fakes: Any = {"emulator": lambda *_: device, "loader": partial(FakeLoader, device, right)}
    trials = (TRIAL, replace(TRIAL, name="later"), replace(TRIAL, name="last"))
    heard: list[TrialVerified] = []
    job = VerifyJob(arch="gfx942", symbol="gemm", trials=trials, library="/l.so", objdump="/objdump")
    verify_job(job, [b""], progress_of([], heard), **fakes)
    limit = (
        "does not end within 250,000,000 counted instructions of the workgroup: it loops, or waits for what never comes"
    )
    assert [(one.number, one.problem.outcome, one.problem.message) for one in heard] == [
        (0, ProblemOutcome.WRONG, f"the kernel {limit}"),
        (1, ProblemOutcome.NOT_TRIED, "not tried, since the kernel does not end on ragged"),
        (2, ProblemOutcome.NOT_TRIED, "not tried, since the kernel does not end on ragged"),
    ]
    problem, findings = verified(right, replace(TRIAL, workgroups=2), device)
    assert (problem.outcome, findings) == (ProblemOutcome.NOT_VERIFIED, ()), "it may wait for one that was left out"


def test_findings_name_the_tensor() -> None:
    device = FakeEmulator()

    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        end = arrays["W"].ctypes.data + arrays["W"].nbytes
        device.told = [told("out-of-bounds-read", address=str(end + 4), bytes=4)]
        return right(device, arrays, sizes)

    _, findings = verified(kernel, device=device)
    size = 4 * K * N
    assert [one.message for one in findings] == [
        f"reads 4 bytes that begin 4 bytes beyond the end of W ({size:,} bytes)"
    ]
    assert findings[0].problem == "ragged"


def test_where_nan_arises_is_traced_by_a_second_launch() -> None:
    device = FakeEmulator()

    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        right(device, arrays, sizes)
        arrays["Y"][0] = np.nan
        if device.settings[-1]["traced"]:
            device.told = [told("non-finite"), told("lds-race")]
        return 0

    problem, findings = verified(kernel, device=device)
    assert problem.outcome is ProblemOutcome.WRONG
    assert [one.kind for one in findings] == [FindingKind.NON_FINITE]
    device.told = []
    problem, findings = verified(kernel, replace(TRIAL, problem=UNKNOWN), device)
    assert problem.outcome is ProblemOutcome.NOT_COMPARED
    assert [one.kind for one in findings] == [FindingKind.NON_FINITE]


@pytest.mark.parametrize("problem", [TRIAL.problem, UNKNOWN])
def test_nothing_is_traced_without_a_number_that_is_not_finite(problem: KernelProblem) -> None:
    """NaN in the gaps and where nothing was written is not the kernel's."""

    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        x, w, y = matrices(arrays, sizes)
        y[:-1] = 2 * (x @ w)[:-1]
        define(device, arrays, sizes, sizes["M"] - 1)
        return 0

    device = FakeEmulator()
    verified(kernel, replace(TRIAL, problem=problem), device)
    assert [one["traced"] for one in device.settings] == [False]


def test_a_part_of_the_workgroups_is_compared() -> None:
    def run(change: Any, rows: int = 6) -> VerifiedProblem:
        def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
            x, w, y = matrices(arrays, sizes)
            y[:rows] = (x @ w)[:rows]
            define(device, arrays, sizes, rows)
            change(y)
            return 0

        return verified(kernel, replace(TRIAL, workgroups=1), FakeEmulator(computed=(1, 4)))[0]

    good = run(lambda _: None)
    assert (good.outcome, good.share) == (ProblemOutcome.RIGHT, 0.25)
    for value in (9.0, np.nan):
        bad = run(lambda y, value=value: y.__setitem__((2, 5), value))
        assert bad.outcome is ProblemOutcome.WRONG
        assert bad.message is not None
        assert bad.message.startswith("1 of 120")
    nothing = run(lambda _: None, rows=0)
    assert (nothing.outcome, nothing.message) == (
        ProblemOutcome.WRONG,
        f"the kernel left {M * N} of {M * N} elements of Y unwritten {FIRST_AND_LAST}; 1 of 4 workgroups were executed",
    )


def test_device_code_that_cannot_be_executed_is_not_verified() -> None:
    problem, _ = verified(lambda *_: 303, device=FakeEmulator(unloadable="llvm-objdump failed"))
    assert (problem.outcome, problem.message) == (
        ProblemOutcome.NOT_VERIFIED,
        "the device code cannot be executed: llvm-objdump failed",
    )


def test_pointers_can_be_off_by_an_element() -> None:
    device = FakeEmulator()
    problem, _ = verified(right, replace(TRIAL, offset=1), device=device)
    assert problem.outcome is ProblemOutcome.RIGHT
    assert {address % 256 for address in device.addresses} == {4}


def test_one_pointer_alone_can_be_off() -> None:
    device = FakeEmulator()
    verified(right, replace(TRIAL, offset=2, off="W"), device=device)
    assert [address % 256 for address in device.addresses] == [0, 8, 0]


def test_gaps_of_inputs_can_hold_infinity() -> None:
    plain = gemm_problem()
    view = replace(plain.views[0], strides=(K + 2, 1))
    assert plain.gemm is not None
    padded = replace(
        plain,
        views=(view, *plain.views[1:]),
        computed=replace(plain.gemm, x=matrix_of(view)),
        buffers=(replace(plain.buffers[0], elements=(M - 1) * (K + 2) + K), *plain.buffers[1:]),
    )
    seen: list[float] = []

    def kernel(_device: FakeEmulator, arrays: Arrays, _sizes: Sizes) -> int:
        seen.append(arrays["X"][K])
        return 1

    for gaps in GapFill:
        verified(kernel, replace(TRIAL, problem=padded, gaps=gaps))
    assert np.isnan(seen[0])
    assert np.isinf(seen[-1])


def test_results_of_an_unknown_operation_are_not_compared() -> None:
    trial = replace(TRIAL, problem=replace(gemm_problem(ldc=LDC), computed=None))
    problem, _ = verified(right, trial)
    assert (problem.outcome, problem.message) == (ProblemOutcome.NOT_COMPARED, UNKNOWN_OPERATION)


@pytest.mark.parametrize("checked", [False, True])
def test_rows_far_apart_are_compared_with_the_same_without_gaps(checked: bool) -> None:
    dense = gemm_problem()
    far = replace(dense.views[0], strides=(1000, 1))
    assert dense.gemm is not None
    spread = replace(
        dense,
        views=(far, *dense.views[1:]),
        computed=replace(dense.gemm, x=matrix_of(far)),
        buffers=(replace(dense.buffers[0], elements=(M - 1) * 1000 + K), *dense.buffers[1:]),
    )
    trial = replace(TRIAL, problem=spread, dense=dense)

    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes, distance: int = 1000) -> int:
        x = np.lib.stride_tricks.as_strided(arrays["X"], (M, K), (4 * distance, 4))
        return right(device, {**arrays, "X": x.copy().reshape(-1)}, sizes)

    problem, _ = verified(kernel, trial, checked=checked)
    assert problem.outcome is ProblemOutcome.RIGHT
    problem, _ = verified(partial(kernel, distance=999), trial, checked=checked)
    assert problem.outcome is ProblemOutcome.WRONG


@pytest.mark.parametrize(
    ("text", "outcome", "words"),
    [
        ("def f(X, W):\n    return X @ W\n", ProblemOutcome.RIGHT, ""),
        ("def f(X, W):\n    return X @ W * 1.01\n", ProblemOutcome.WRONG, "480 elements of Y are wrong (Y["),
        (
            "def f(X, W):\n    return W @ X\n", ProblemOutcome.NOT_COMPARED,
            "the reference is wrong: reference.py:2: ValueError: matmul",
        ),
    ],
)  # fmt: skip
def test_a_users_reference(text: str, outcome: ProblemOutcome, words: str, tmp_path: Path) -> None:
    problem, reference = called_reference(TRIAL.problem, tmp_path / "reference.py", text)
    found, _ = verified(right, replace(TRIAL, problem=problem), reference=reference)
    assert found.outcome is outcome
    assert words in (found.message or "")
    mistake = mistakes.pop()
    assert (mistake is not None) == (outcome is ProblemOutcome.NOT_COMPARED)
    if mistake is not None:
        assert (mistake.line, mistake.problem) == (2, "ragged")


def test_what_is_left_is_reported_though_the_reference_is_wrong(tmp_path: Path) -> None:
    def half(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        define(device, arrays, sizes, sizes["M"] // 2)
        return 0

    problem, reference = called_reference(TRIAL.problem, tmp_path / "reference.py", "def f(X):\n    return X.y\n")
    found, _ = verified(half, replace(TRIAL, problem=problem), reference=reference)
    assert found.outcome is ProblemOutcome.WRONG
    assert "unwritten" in (found.message or "")


CUSTOM = replace(TRIAL, may_be_sampled=True)
DEAR = 1 << 40
"""What a launch costs that is not executed whole."""


def written_rows(rows: int, change: Any = lambda _: None) -> Kernel:
    """The right kernel where all is computed, and the first rows of it where a sample is."""

    def kernel(device: FakeEmulator, arrays: Arrays, sizes: Sizes) -> int:
        x, w, y = matrices(arrays, sizes)
        some = rows if device.is_sampling else sizes["M"]
        y[:some] = (x @ w)[:some]
        define(device, arrays, sizes, some)
        change(y)
        return 0

    return kernel


def sampled(
    tmp_path: Path,
    device: FakeEmulator,
    kernel: Kernel,
    trial: Trial = CUSTOM,
    **job: Any,
) -> tuple[VerifiedProblem, tuple[EmulatedFinding, ...]]:
    text = "def f(X, W):\n    return X @ W\n"
    problem, reference = called_reference(trial.problem, tmp_path / "reference.py", text)
    return verified(kernel, replace(trial, problem=problem), device, reference=reference, **job)


def test_of_a_large_custom_problem_what_a_sample_writes_is_compared(tmp_path: Path) -> None:
    device = FakeEmulator(computed=(40, 1000), cost=DEAR)
    problem, findings = sampled(tmp_path, device, written_rows(6))
    assert (problem.outcome, problem.message, problem.workgroups) == (ProblemOutcome.RIGHT, None, (40, 1000))
    assert (findings, device.samples) == ((), [8, 32])

    device = FakeEmulator(computed=(40, 1000), cost=DEAR)
    problem, _ = sampled(tmp_path, device, written_rows(6, lambda y: y.__setitem__((2, 5), 9.0)))
    assert problem.outcome is ProblemOutcome.WRONG
    assert (problem.message or "").startswith("1 of 120 compared elements of Y are wrong (Y[2, 5] is 9, reference ")
    assert (problem.message or "").endswith("; 40 of 1,000 workgroups were executed")


@pytest.mark.parametrize(
    ("device", "trial", "job", "samples"),
    [
        (FakeEmulator(computed=(40, 1000), cost=1000), CUSTOM, {}, [8]),
        (FakeEmulator(computed=(40, 60), cost=DEAR), CUSTOM, {}, [8]),
        (FakeEmulator(computed=(40, 1000), cost=DEAR, needs_whole="a launch reads"), CUSTOM, {}, [8]),
        (FakeEmulator(computed=(40, 1000), cost=DEAR), TRIAL, {}, []),
        (FakeEmulator(computed=(40, 1000), cost=DEAR), CUSTOM, {"checked": False}, []),
    ],
)
def test_other_problems_are_executed_whole(
    device: FakeEmulator, trial: Trial, job: dict[str, Any], samples: list[int], tmp_path: Path,
) -> None:  # fmt: skip
    problem, _ = sampled(tmp_path, device, written_rows(6), trial, **job)
    assert (problem.outcome, problem.share, problem.workgroups) == (ProblemOutcome.RIGHT, 1.0, None)
    assert device.samples == samples


def test_a_sample_that_writes_nothing_of_an_output_does_not_count(tmp_path: Path) -> None:
    device = FakeEmulator(computed=(40, 1000), cost=DEAR)
    problem, _ = sampled(tmp_path, device, written_rows(0))
    assert (problem.outcome, problem.workgroups, device.samples) == (ProblemOutcome.RIGHT, None, [8, 32])


def test_the_store_of_a_wrong_element_is_looked_for() -> None:
    store = told("wrong-result", lane=5)
    device = FakeEmulator(told=[store])
    kernel = changed(lambda arrays: arrays["Y"].__setitem__(2 * LDC + 3, 9.0))
    problem, findings = verified(kernel, replace(TRIAL, problem=gemm_problem(ldc=LDC)), device)
    assert problem.outcome is ProblemOutcome.WRONG
    assert device.watched == [4 * (2 * LDC + 3)]
    last = findings[-1]
    assert (last.kind, last.lane) == (FindingKind.WRONG_RESULT, 5)
    assert last.message.startswith("this store writes a wrong value: Y[2, 3] is 9, reference ")

    device = FakeEmulator()
    verified(lambda *_: 0, device=device)
    assert device.watched == []  # nothing writes what is left
