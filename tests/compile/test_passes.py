"""One pass, and what two of them say together."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.compile_job import CompileJob
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.passes import HeaderRefusedError, PassResult, failed, joined_log, run_pass
from ckwatch.compile.precompiled_headers import PrecompiledHeader
from ckwatch.compile.request import CompileFault, CompileOutcome, CompileStatus
from ckwatch.compile.work_folder import prepare
from ckwatch.system.async_processes import ExitReason
from fakes.fake_hip import PASS_OF, PLAN, FakeHip, Step, fake_hip, request


@pytest.fixture
def hip(tmp_path: Path) -> FakeHip:
    return fake_hip(tmp_path)


@pytest.fixture
def job(hip: FakeHip, tmp_path: Path) -> CompileJob:
    folder = tmp_path / "work ü"
    folder.mkdir()
    prefixes, _ = prepare(request(), folder)
    return CompileJob(request(), hip.toolchain, folder, hip, prefixes)


@pytest.fixture
def header(tmp_path: Path) -> PrecompiledHeader:
    return PrecompiledHeader(tmp_path / "p/header.pch", tmp_path / "p/prefix.hip", (str(tmp_path / "include/a.h"),))


def names(headers: tuple[str, ...]) -> list[str]:
    return [Path(header).name for header in headers]


@pytest.mark.parametrize("side", PassSide)
async def test_a_pass(hip: FakeHip, job: CompileJob, side: PassSide) -> None:
    hip.answer(PASS_OF[side], f"{job.folder}/kernel.hip:1:2: warning: here\n")
    done = await run_pass(job, side, PLAN, None)
    assert (done.side, done.failure, names(done.headers)) == (side, None, ["a.h", f"{side}.h"])
    assert done.log == "kernel.hip:1:2: warning: here\n"
    assert (job.folder / f"{side}.o").exists()
    assert [command.exit_status for command in job.commands] == [0]
    (run,) = hip.runs
    assert run.arguments[-1] == "kernel.hip"
    assert not [part for part in job.commands[0].arguments if str(job.folder) in part]


async def test_files_of_the_job_are_no_headers(hip: FakeHip, job: CompileJob, tmp_path: Path) -> None:
    outside = str(tmp_path / "include/a.h")
    hip.answer(Step.HOST, opens=(f"{job.folder}/own.h", "./own too.h", "beside.h", outside))
    assert (await run_pass(job, PassSide.HOST, PLAN, None)).headers == (outside,)


async def test_headers_of_a_precompiled_header_are_the_pass_s_own(
    hip: FakeHip, job: CompileJob, header: PrecompiledHeader, tmp_path: Path
) -> None:
    more = str(tmp_path / "include/more.h")
    opened = (more, str(header.file), str(header.source))

    async def opens_more(run: object) -> None:
        (job.folder / "headers-host.txt").write_text("".join(f"{name}\n" for name in opened))

    hip.answer(Step.HOST, during=opens_more)
    done = await run_pass(job, PassSide.HOST, PLAN, header)
    assert done.headers == (*header.headers, more)
    assert hip.runs[0].precompiled == str(header.file)
    assert "-fno-cxx-modules" in hip.runs[0].arguments


async def test_what_is_said_of_the_precompiled_text_is_said_of_the_source(
    hip: FakeHip, job: CompileJob, header: PrecompiledHeader
) -> None:
    """It begins as the source does."""
    hip.answer(Step.HOST, f"In file included from {header.source}:1:\na.h:1:1: error: no\n", 1)
    done = await run_pass(job, PassSide.HOST, PLAN, header)
    assert done.log == "In file included from kernel.hip:1:\na.h:1:1: error: no\n"


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("error: PCH file '{header}' not found: module file not found", True),
        ("fatal error: file 'a.h' has been modified since the precompiled file '{header}' was built", True),
        ("error: PCH file uses an older PCH format that is no longer supported", True),
        ("error: precompiled file '/elsewhere.pch' was compiled with other flags", True),
        ("fatal error: malformed or corrupted precompiled file", True),
        ("error: AST Deserialization failed", True),
        ("warning: unused\nerror: unknown argument: '-fno-cxx-modules'", True),
        ("error: unknown argument: '-fno-other'", False),
        ("kernel.hip:1:1: error: use of undeclared identifier 'x'", False),
        ("kernel.hip:1:1: error: first\nkernel.hip:2:1: error: no AST file is meant here", False),
        ("kernel.hip:1:1: warning: the precompiled header is slow\nkernel.hip:1:1: error: x", False),
        ("", False),
    ],
)
async def test_who_refuses_a_precompiled_header(
    hip: FakeHip, job: CompileJob, header: PrecompiledHeader, said: str, refused: bool
) -> None:
    hip.answer(Step.DEVICE, said.format(header=header.file), 1)
    try:
        done = await run_pass(job, PassSide.DEVICE, PLAN, header)
    except HeaderRefusedError:
        assert refused
    else:
        assert (done.failure is not None, refused) == (True, False)


@pytest.mark.parametrize(
    ("status", "exit_reason", "use"),
    [(0, ExitReason.EXITED, True), (-9, ExitReason.SIGNALLED, True), (1, ExitReason.EXITED, False)],
)
async def test_only_an_error_over_a_header_that_is_used_is_a_refusal(
    hip: FakeHip, job: CompileJob, header: PrecompiledHeader, status: int, exit_reason: ExitReason, use: bool
) -> None:
    hip.answer(Step.DEVICE, "error: PCH file is damaged\n", status, exit_reason=exit_reason)
    done = await run_pass(job, PassSide.DEVICE, PLAN, header if use else None)
    assert (done.failure is None) is (status == 0)


OK = ("", 0, ExitReason.EXITED)
WRONG = ("kernel.hip:1:1: error: {side} is wrong\n", 1, ExitReason.EXITED)
LACKS = ("kernel.hip:1:1: fatal error: '{side}.hpp' file not found\n", 1, ExitReason.EXITED)
KILLED = ("", -9, ExitReason.SIGNALLED)
SLOW = ("kernel.hip:1:1: error: {side} is wrong\n", -15, ExitReason.TIMED_OUT)
End = tuple[str, int, ExitReason]


async def both(hip: FakeHip, job: CompileJob, host: End, device: End) -> list[PassResult]:
    """The device pass has ended first."""
    passes = []
    for side, (said, status, exit_reason) in ((PassSide.DEVICE, device), (PassSide.HOST, host)):
        hip.answer(PASS_OF[side], said.format(side=side), status, exit_reason=exit_reason)
        own = CompileJob(job.request, job.toolchain, job.folder, hip, job.prefixes, begun_ns=7 if status else 9)
        passes.append(await run_pass(own, side, PLAN, None))
    return passes


@pytest.mark.parametrize(
    ("host", "device", "status", "fault", "errors"),
    [
        (WRONG, OK, CompileStatus.FAILED, None, ["host"]),
        (OK, WRONG, CompileStatus.FAILED, None, ["device"]),
        (WRONG, WRONG, CompileStatus.FAILED, None, ["host", "device"]),
        (WRONG, KILLED, CompileStatus.TRANSIENT, CompileFault.KILLED, ["host"]),
        (KILLED, WRONG, CompileStatus.TRANSIENT, CompileFault.KILLED, ["device"]),
        (WRONG, SLOW, CompileStatus.TRANSIENT, CompileFault.TIMED_OUT, ["host", "device"]),
        (KILLED, OK, CompileStatus.TRANSIENT, CompileFault.KILLED, []),
    ],
)
async def test_one_outcome_of_both(
    hip: FakeHip,
    job: CompileJob,
    host: End,
    device: End,
    status: CompileStatus,
    fault: CompileFault | None,
    errors: list[str],
) -> None:
    passes = await both(hip, job, host, device)
    outcome = failed(passes)
    assert outcome is not None
    assert (outcome.status, outcome.fault, bool(outcome.message)) == (status, fault, fault is not None)
    assert outcome.log == joined_log(passes) == "".join(f"kernel.hip:1:1: error: {side} is wrong\n" for side in errors)
    assert names(outcome.headers) == ["a.h", "device.h", "host.h"]
    assert (len(outcome.commands), outcome.begun_ns) == (2, 7)


async def test_missing_headers_of_both(hip: FakeHip, job: CompileJob) -> None:
    outcome = failed(await both(hip, job, LACKS, LACKS))
    assert isinstance(outcome, CompileOutcome)
    assert outcome.missing == ("device.hpp", "host.hpp")


async def test_nothing_to_tell_when_both_are_well(hip: FakeHip, job: CompileJob) -> None:
    assert failed(await both(hip, job, OK, OK)) is None
