"""The real worker on the CPU with kernels that do what kernels must not: each is told, and the next one is measured."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from benches.bench_kernels import LIMITS_S, job, shared_object
from ckwatch.bench.job import Job
from ckwatch.bench.leases import FOLDER_VARIABLE, lease
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport, FailureKind, StopReason
from ckwatch.bench.worker_protocol import WaitingForDevice, WorkerHello, WorkerMessage, WorkerStage
from ckwatch.bench.worker_session import Worker, find_devices, measure
from ckwatch.model.roofline import CacheState
from fakes.patience import PATIENCE_S
from helpers.running_processes import runs

LIMIT_S = PATIENCE_S

WHILE_VERIFYING = "if (runs == 1) "
WHILE_TIMING = "if (runs == 8) "  # four runs verify


@pytest.fixture(autouse=True)
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test's processors are not those of another that runs at the same time."""
    folder = tmp_path / "leases"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))


async def failure(asked: Job, *artifacts: bytes, time_limit_s: float = LIMIT_S) -> BenchmarkFailure:
    found = await measure(asked, artifacts, time_limit_s=time_limit_s)
    assert isinstance(found, BenchmarkFailure), found
    return found


async def report(asked: Job, *artifacts: bytes) -> BenchmarkReport:
    found = await measure(asked, artifacts, time_limit_s=LIMIT_S)
    assert isinstance(found, BenchmarkReport), found
    return found


async def test_a_right_kernel_beside_the_library() -> None:
    said: list[WorkerMessage] = []
    asked = job("ours", library=True, caches=(CacheState.COLD, CacheState.HOT))
    found = await measure(asked, [shared_object(workspace="1000")], time_limit_s=LIMIT_S, on_message=said.append)
    assert isinstance(found, BenchmarkReport), found
    assert isinstance(said[0], WorkerHello)
    assert [message.name for message in said[1:3] if isinstance(message, WorkerStage)] == [
        "looking for the device",
        "waiting for the device",
    ]
    assert found.device.name == "cpu"
    ours, library = found.measured
    assert (ours.contestant, ours.workspace_bytes, library.contestant) == ("ours", 1000, "library")
    for measured in found.measured:
        assert [samples.cache for samples in measured.samples] == [CacheState.COLD, CacheState.HOT]
        assert all(len(samples.times_us) >= 5 and min(samples.times_us) > 0 for samples in measured.samples)
    for first, second in zip(ours.samples, library.samples, strict=True):
        assert first.blocks == second.blocks >= 2
        assert len(first.times_us) % first.blocks == 0
    assert ours.verification is not None
    assert ours.verification.compared == 24 * 20
    assert 0 <= ours.verification.worst_error <= 1
    assert library.verification is None
    assert len(found.readings) == 4
    assert {"numpy", "blas", "linux", "threads", "ckwatch"} <= found.versions.keys()


SIGNALS = [
    pytest.param("*(volatile int*)16 = 1;", "SIGSEGV", id="null pointer"),
    pytest.param("abort();", "SIGABRT", id="abort"),
    pytest.param("raise(SIGILL);", "SIGILL", id="illegal instruction"),
]


@pytest.mark.parametrize(("statement", "name"), SIGNALS)
async def test_a_crash_is_told_with_signal_stage_and_last_words(statement: str, name: str) -> None:
    kernel = shared_object(before=WHILE_VERIFYING + '{ fprintf(stderr, "tile of 7 is odd\\n"); ' + statement + "}")
    found = await failure(job("ours"), kernel)
    assert (found.kind, found.contestant) == (FailureKind.CRASHED, "ours")
    assert found.message == f"{name} while verifying before timing, seed 2 (ours)"
    assert "standard error:\ntile of 7 is odd" in found.detail


@pytest.mark.parametrize(
    ("where", "stage"),
    [
        ("check", "asking for the workspace"),
        ("before", "verifying before timing"),
        ("late", "warming up|timing, hot cache"),
    ],
)
async def test_the_stage_of_a_crash(where: str, stage: str) -> None:
    kernel = (
        shared_object(before=WHILE_TIMING + "abort();") if where == "late" else shared_object(**{where: "abort();"})
    )
    found = await failure(job("ours"), kernel)
    assert found.kind is FailureKind.CRASHED
    assert re.search(f"SIGABRT while ({stage}).* \\(ours\\)", found.message), found.message


async def test_the_contestant_that_crashes_is_named() -> None:
    found = await failure(job("ours", "theirs"), shared_object(), shared_object(before=WHILE_TIMING + "abort();"))
    assert (found.kind, found.contestant) == (FailureKind.CRASHED, "theirs")


async def test_a_crash_while_it_is_loaded() -> None:
    constructor = "__attribute__((constructor)) static void begin(void) { abort(); }"
    found = await failure(job("ours"), shared_object(declarations=constructor))
    assert (found.kind, found.contestant) == (FailureKind.CRASHED, "ours")
    assert "SIGABRT while loading the artifact" in found.message


@pytest.mark.parametrize("how", ["exit(3)", "_exit(0)"])
async def test_a_kernel_that_ends_the_process(how: str) -> None:
    found = await failure(job("ours"), shared_object(before=f"{how};"))
    assert (found.kind, found.contestant) == (FailureKind.CRASHED, "ours")
    status = how[-2]
    assert f"the kernel ended the worker, which ended with exit status {status}, while verifying" in found.message


async def test_an_endless_loop() -> None:
    kernel = shared_object(before=WHILE_TIMING + '{ puts("in the loop"); for (;;) pause(); }')
    for limit_s in LIMITS_S:
        found = await failure(job("ours"), kernel, time_limit_s=limit_s)
        if "in the loop" in found.detail:
            break
    assert (found.kind, found.contestant) == (FailureKind.HUNG, "ours")
    assert f"still running after {limit_s:g} s" in found.message
    assert "in the loop" in found.detail
    assert "time_limit_s" in found.hint


async def test_an_endless_loop_that_ignores_signals_and_has_a_child(tmp_path: Path) -> None:
    statement = (
        f'if (fork() == 0) {{ FILE* file = fopen("{tmp_path}/new", "w"); fprintf(file, "%d", getpid()); fclose(file);'
        f' rename("{tmp_path}/new", "{tmp_path}/child"); pause(); }}'
        " signal(SIGTERM, SIG_IGN); for (;;) pause();"
    )
    for limit_s in LIMITS_S:
        found = await failure(job("ours"), shared_object(before=statement), time_limit_s=limit_s)
        if (tmp_path / "child").exists():
            break
    assert found.kind is FailureKind.HUNG
    child = int((tmp_path / "child").read_text())
    with anyio.fail_after(PATIENCE_S):
        while runs(child):
            await anyio.lowlevel.checkpoint()


BEHIND = "Y[(M - 1) * LDC + N + 5] = 1.0f;"


@pytest.mark.parametrize(
    ("places", "kind", "told"),
    [
        ({"after": BEHIND}, FailureKind.OUT_OF_BOUNDS, "wrote behind Y"),
        ({"after": "Y[3] = NAN;"}, FailureKind.WRONG, "NaN"),
        ({"after": "if (runs % 2) Y[3] *= 1.0000005f;"}, FailureKind.NONDETERMINISTIC, "another result"),
    ],
)
async def test_wrong_results(places: dict[str, str], kind: FailureKind, told: str) -> None:
    """`test_measuring` has more of them."""
    found = await failure(job("ours"), shared_object(**places))
    assert (found.kind, found.contestant) == (kind, "ours")
    assert told in found.message
    assert found.device is not None


async def test_error_codes_come_with_the_arguments_and_the_last_words() -> None:
    kernel = shared_object(check='fprintf(stderr, "gemm: K is odd\\n"); return -23;')
    found = await failure(job("ours"), kernel)
    assert (found.kind, found.contestant) == (FailureKind.REFUSED, "ours")
    assert "does not support this shape" in found.message
    assert "int32_t M = 24" in found.detail
    assert "standard error:\ngemm: K is odd" in found.detail


async def test_what_a_kernel_prints_is_no_answer() -> None:
    noise = 'printf("a line\\n"); write(1, "\\x89CKW\\r\\n\\x1a\\nJ", 9); fflush(stdout); char c; if (read(0, &c, 1) != 0) abort();'
    found = await report(job("ours"), shared_object(before=noise))
    assert found.measured[0].samples[0].times_us


async def test_a_kernel_that_writes_to_the_workers_own_pipe() -> None:
    noise = 'for (int fd = 3; fd < 64; ++fd) if (fcntl(fd, F_GETFL) == (O_WRONLY)) write(fd, "garbage", 7);'
    found = await failure(job("ours"), shared_object(before=noise))
    assert found.kind is FailureKind.GARBLED
    assert "b'garbage" in found.detail


async def test_a_flood_on_stderr_is_bounded() -> None:
    flood = 'for (int i = 0; i < 20000; ++i) fprintf(stderr, "line %%d of nonsense\\n", i); abort();'.replace("%%", "%")
    found = await failure(job("ours"), shared_object(before=flood))
    assert found.kind is FailureKind.CRASHED
    assert "line 0 of nonsense" in found.detail
    assert "line 19999 of nonsense" in found.detail
    assert "bytes left out" in found.detail
    assert len(found.detail) < 80_000


async def test_a_worker_that_is_killed() -> None:
    """Killed from outside: not the kernel's fault."""

    pid = 0

    def kill(said: WorkerMessage) -> None:
        nonlocal pid
        if isinstance(said, WorkerHello):
            pid = said.pid
        elif isinstance(said, WorkerStage) and said.contestant and pid:
            os.kill(pid, signal.SIGKILL)
            pid = 0

    found = await measure(
        job("ours"), [shared_object(before="for (;;) pause();")], time_limit_s=LIMIT_S, on_message=kill
    )
    assert isinstance(found, BenchmarkFailure)
    assert found.kind is FailureKind.BROKEN
    assert "the worker was killed by SIGKILL while" in found.message


async def test_too_little_memory_is_told_before_with_the_sizes() -> None:
    found = await failure(job("ours"), shared_object(workspace="1ULL << 50", before="abort();"))
    assert found.kind is FailureKind.NO_MEMORY
    assert "of memory are needed and" in found.message
    assert f"workspace of ours: {1 << 50} bytes" in found.detail


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"arch": "gfx942"}, FailureKind.WRONG_ARCH, "the artifacts are made for gfx942, and there is cpu (host"),
        ({"device": "hip:0"}, FailureKind.NO_DEVICE, "hip:0 is asked for, and the artifacts are for cpu devices"),
        ({"threads": 5000}, FailureKind.NO_DEVICE, "5000 threads are requested"),
    ],
)
async def test_devices_that_do_not_fit(changes: dict[str, Any], kind: FailureKind, told: str) -> None:
    found = await failure(replace(job("ours"), **changes), shared_object())
    assert found.kind is kind
    assert told in found.message


HOLD = """
import sys
from ckwatch.bench.leases import lease
held = lease("cpu", "colleague@box, process 7", wait_s=0, waiting=print)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that measures on the CPU."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


async def test_a_device_that_stays_leased(leases: None, holder: subprocess.Popen[bytes]) -> None:
    found = await failure(job("ours", lease_wait_s=0.2), shared_object())
    assert found.kind is FailureKind.BUSY
    assert "colleague@box, process 7" in found.message
    assert found.device is not None


async def test_a_device_that_becomes_free(leases: None, holder: subprocess.Popen[bytes]) -> None:
    """The time of waiting is not the kernel's."""
    said: list[WorkerMessage] = []

    def free(message: WorkerMessage) -> None:
        said.append(message)
        if isinstance(message, WaitingForDevice):
            holder.kill()

    found = await measure(job("ours"), [shared_object()], time_limit_s=LIMIT_S, on_message=free)
    assert isinstance(found, BenchmarkReport), found
    assert WaitingForDevice(holder="colleague@box, process 7") in said


async def test_a_dead_worker_gives_the_device_back() -> None:
    await failure(job("ours"), shared_object(before="abort();"))
    held = lease("cpu", "test", wait_s=0, waiting=lambda _: None)
    assert held is not None
    held.release()


async def test_cancelling_ends_the_worker() -> None:
    pids: list[int] = []
    running = anyio.Event()

    def note(said: WorkerMessage) -> None:
        if isinstance(said, WorkerHello):
            pids.append(said.pid)
        elif isinstance(said, WorkerStage) and said.name.startswith("verifying"):
            running.set()

    loop = shared_object(before="for (volatile int i = 0;;) (void)i;")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: measure(job("ours"), [loop], time_limit_s=LIMIT_S, on_message=note))
        with anyio.fail_after(PATIENCE_S):
            await running.wait()
        tasks.cancel_scope.cancel()
    assert not runs(pids[0])


async def test_devices_are_found_and_absences_explained() -> None:
    found = await find_devices(time_limit_s=LIMIT_S)
    assert not isinstance(found, BenchmarkFailure), found
    assert next(device for device in found.devices if device.name == "cpu").arch == "host"
    for absence in found.absent:
        assert absence.kind in ("hip", "cuda")
        assert absence.why


async def test_a_worker_that_lasts_does_one_job_after_the_other() -> None:
    worker = Worker()
    pids = set()
    try:
        for number in range(3):
            said: list[WorkerMessage] = []
            artifacts = [shared_object(workspace=str(number))]
            found = await worker.ask(
                job("ours"), artifacts, BenchmarkReport, time_limit_s=LIMIT_S, on_message=said.append, lasting=True
            )
            assert isinstance(found, BenchmarkReport), found
            assert found.measured[0].verification is not None
            pids |= {one.pid for one in said if isinstance(one, WorkerHello)}
        assert len(pids) == 1
        assert worker.jobs == 3
    finally:
        await worker.close()


async def test_a_failure_ends_a_worker_that_lasts_and_the_next_job_gets_another() -> None:
    worker = Worker()

    async def ask(artifact: bytes) -> BenchmarkReport | BenchmarkFailure:
        return await worker.ask(job("ours"), [artifact], BenchmarkReport, time_limit_s=LIMIT_S, lasting=True)

    try:
        assert isinstance(await ask(shared_object()), BenchmarkReport)
        bad = shared_object(before=WHILE_TIMING + "abort();")
        found = await ask(bad)
        assert isinstance(found, BenchmarkFailure)
        assert found.kind is FailureKind.CRASHED
        assert isinstance(await ask(shared_object()), BenchmarkReport)
        assert worker.jobs == 1
    finally:
        await worker.close()


async def test_what_is_slower_than_its_limit_is_given_up() -> None:
    asked = job("ours")
    limited = replace(asked, precision=replace(asked.precision, limit_us=1e-3, budget_s=60.0, maximum_samples=10**6))
    found = await report(limited, shared_object())
    assert found.measured[0].samples[0].stop is StopReason.SLOWER
