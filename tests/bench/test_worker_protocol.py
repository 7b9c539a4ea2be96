"""Messages arrive as they were sent, or it is told that they did not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benches.bench_kernels import gemm_problem, job
from ckwatch.bench.job import VerifyJob
from ckwatch.bench.report import (
    BenchmarkFailure,
    BenchmarkReport,
    ContestantResult,
    DeviceReading,
    Devices,
    FailureKind,
    NumericsVerification,
    Samples,
    StopReason,
    UnavailableKind,
)
from ckwatch.bench.worker_protocol import (
    BANNER_LIMIT_BYTES,
    HEAD_BYTES,
    MARK,
    PROTOCOL,
    FrameSplitter,
    GarbledError,
    Message,
    TrialVerified,
    VerificationDone,
    WaitingForDevice,
    WorkerHello,
    WorkerRequest,
    WorkerStage,
    decode,
    frame,
    head,
    message,
)
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelArgument
from ckwatch.model.roofline import CacheState
from ckwatch.model.trials import GapFill, Trial
from ckwatch.model.verification import ProblemOutcome, VerifiedProblem
from ckwatch.verification.findings import finding_of
from helpers.each_row import each_row
from helpers.emulator_findings import TOLD

FACTS = DeviceFacts(name="hip:0", description="MI300X ü", arch="gfx942", pci="0000:c1:00.0", clock_mhz=2100.0)
JOB = job("ours", "theirs", library=True)
ODD_ARGUMENTS = (
    KernelArgument(name="a", c_type="float", value=math.inf),
    KernelArgument(name="b", c_type="float", value=1.0),
    KernelArgument(name="c", c_type="bool", value=True),
    KernelArgument(name="d", c_type="int64_t", value=-(2**63)),
)
TRIAL = Trial(name="ragged", shape="M=24", problem=gemm_problem(), gaps=GapFill.INFINITY, offset=1, workgroups=2)
VERIFY_JOB = VerifyJob(arch="gfx942", symbol="k", trials=(TRIAL,), library="/l.so", objdump="/objdump")
MESSAGES: list[Message] = [
    WorkerHello(protocol=PROTOCOL, version="0.1", pid=7, host="box"),
    WaitingForDevice(holder="somebody\n"),
    WorkerStage(name="warming up", contestant="ours"),
    WorkerRequest(protocol=PROTOCOL, job=None),
    WorkerRequest(protocol=PROTOCOL, job=JOB, artifacts=2),
    WorkerRequest(
        protocol=PROTOCOL,
        job=replace(JOB, problem=replace(JOB.problem, arguments=ODD_ARGUMENTS, computed=None, flops=None)),
    ),
    WorkerRequest(protocol=PROTOCOL, job=None, verify=VERIFY_JOB, artifacts=1),
    TrialVerified(
        number=0,
        problem=VerifiedProblem(name="ragged", shape="M=24", outcome=ProblemOutcome.WRONG, message="no", share=0.5),
        findings=(finding_of(TOLD, "ragged", ()),),
    ),
    VerificationDone(),
    Devices(devices=(FACTS,), absent=(UnavailableKind(kind="cuda", why="no driver"),)),
    BenchmarkFailure(kind=FailureKind.REFUSED, message="no", detail="M = 1", contestant="ours", device=FACTS),
    BenchmarkReport(
        device=FACTS,
        measured=(
            ContestantResult(
                contestant="ours",
                samples=(
                    Samples(
                        cache=CacheState.COLD,
                        times_us=(1.1, 2.0),
                        clocks_mhz=(2100.0, 2099.5),
                        stop=StopReason.PRECISE,
                        blocks=2,
                    ),
                    Samples(cache=CacheState.HOT, times_us=()),
                ),
                workspace_bytes=2**40,
                verification=NumericsVerification(
                    seeds=(1, 2),
                    compared=9,
                    worst_error=0.1,
                    relative_tolerance=1e-3,
                    absolute_tolerance=0.0,
                    reference="numpy",
                ),
            ),
        ),
        readings=(DeviceReading(clock_mhz=2100.0, throttled_by=("power",)), DeviceReading()),
        versions={"hip": "7.2"},
        notes=("a note",),
        started_at=1.7e9,
    ),
]


@each_row("sent", MESSAGES)
def test_there_and_back(sent: Message) -> None:
    (frame,) = FrameSplitter().feed(message(sent))
    received = frame.message()
    assert received == sent
    assert repr(received) == repr(sent)  # 1 is not 1.0, and not True


@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_in_pieces_behind_a_banner(step: int) -> None:
    banner = "Welcome!\r\n\x89CKW is no mark\n".encode("latin-1")
    artifact = bytes(range(256)) * 5 + MARK
    stream = banner + b"".join(map(message, MESSAGES)) + frame(artifact, b"B") + frame(b"", b"B")
    splitter = FrameSplitter()
    frames = [found for at in range(0, len(stream), step) for found in splitter.feed(stream[at : at + step])]
    assert [found.message() for found in frames[:-2]] == MESSAGES
    assert [(found.kind, found.content) for found in frames[-2:]] == [(b"B", artifact), (b"B", b"")]
    assert splitter.banner == banner
    assert splitter.rest == b""


def corrupt(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


HELLO = message(MESSAGES[0])


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        pytest.param(HELLO + b"garbage" + HELLO, "something else than frames", id="between frames"),
        pytest.param(corrupt(HELLO, HEAD_BYTES + 5), "changed on its way", id="changed content"),
        pytest.param(corrupt(HELLO, len(MARK)), "head makes no sense", id="changed kind"),
        pytest.param(corrupt(HELLO, len(MARK) + 1), "head makes no sense", id="changed length"),
        pytest.param(b"x" * (BANNER_LIMIT_BYTES + 1), "no frame came", id="endless banner"),
    ],
)
def test_garbage(stream: bytes, told: str) -> None:
    with pytest.raises(GarbledError, match=told):
        list(FrameSplitter().feed(stream))


def test_frames_before_the_garbage_count() -> None:
    frames = FrameSplitter().feed(HELLO + b"garbage")
    assert next(frames).message() == MESSAGES[0]
    with pytest.raises(GarbledError):
        next(frames)


def test_a_terminal_in_between_is_no_frame() -> None:
    splitter = FrameSplitter()
    assert list(splitter.feed(HELLO.replace(b"\n", b"\r\n"))) == []
    assert splitter.rest.startswith(MARK[:4])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "ValueError"),
        (b"[]", "TypeError"),
        (b'{"type": "Nobody", "value": {}}', "KeyError"),
        (b'{"type": "Hello", "value": {"protocol": "x"}}', "protocol: "),
        (b'{"type": "Failure", "value": {"kind": "new kind", "message": ""}}', "kind: "),
        (b'{"type": ["Hello"], "value": {}}', "TypeError"),
    ],
)
def test_senseless_messages(content: bytes, told: str) -> None:
    with pytest.raises(GarbledError, match=told):
        decode(content)


def test_an_artifact_is_no_message() -> None:
    (found,) = FrameSplitter().feed(frame(b"{}", b"B"))
    with pytest.raises(GarbledError, match="an artifact came"):
        found.message()


def test_what_a_newer_worker_adds_is_passed_over() -> None:
    content = b'{"type": "Hello", "value": {"protocol": 99, "version": "9", "pid": 1, "host": "h", "mood": "good"}}'
    assert decode(content) == WorkerHello(protocol=99, version="9", pid=1, host="h")


def test_the_head_alone() -> None:
    assert head(b"abc", b"B") + b"abc" == frame(b"abc", b"B")
