"""Whatever is started in place of a worker, and whatever it says, becomes a value."""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from pathlib import Path

import anyio
import pytest

from benches.bench_kernels import LIMITS_S, job, shared_object
from ckwatch.bench import report, worker_protocol
from ckwatch.bench.leases import FOLDER_VARIABLE
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport, Devices, FailureKind
from ckwatch.bench.worker_protocol import PROTOCOL, WorkerHello, WorkerMessage, WorkerStage, message
from ckwatch.bench.worker_session import WORKER, WorkerStart, find_devices, measure
from ckwatch.model.gpu_specs import DeviceFacts
from fakes.patience import PATIENCE_S

hello = WorkerHello(protocol=PROTOCOL, version="0", pid=1, host="box")
stage = WorkerStage(name="timing", contestant="ours")
busy = BenchmarkFailure(kind=FailureKind.BUSY, message="busy")
NAMES = {
    **vars(report),
    **vars(worker_protocol),
    "DeviceFacts": DeviceFacts,
    "hello": hello,
    "stage": stage,
    "busy": busy,
}
"""What a script may say."""


class Said(ast.NodeTransformer):
    """Replaces `say(…)` by writes of bytes: a script that imported the protocol would take twenty times as long."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name) or node.func.id != "say":
            return node
        writes = [f"os.write(1, {told})" for one in node.args for told in self._told(one)]
        return ast.parse(f"({', '.join(writes)},)", mode="eval").body

    @staticmethod
    def _told(one: ast.expr) -> list[str]:
        text = ast.unparse(one)
        if not any(isinstance(name, ast.Name) for name in ast.walk(one)):
            return [text]  # it may be too long for an argument of a command
        values = eval(f"[{text}]", NAMES)  # noqa: S307  # of this file
        return [repr(value if isinstance(value, bytes) else message(value)) for value in values]


def speaking(script: str) -> list[str]:
    """A command that does what `script` does, and says to a worker's client what it says."""
    return [sys.executable, "-c", f"import os, sys, time\n{ast.unparse(Said().visit(ast.parse(script)))}"]


async def failure(
    command: list[str], launcher: list[str] | None = None, time_limit_s: float = PATIENCE_S, artifact: bytes = b"x"
) -> BenchmarkFailure:
    found = await measure(
        *(job("ours"), [artifact]),
        WorkerStart(command, launcher or (), grace_s=0.2),  # most of these scripts do not end by themselves
        time_limit_s=time_limit_s,
    )
    assert isinstance(found, BenchmarkFailure), found
    return found


@pytest.mark.parametrize("words", [["no-such-launcher-here", "-x"], ["/"], ["/dev/null"], ["nul\0byte"]])
async def test_a_launcher_that_cannot_be_started(words: list[str]) -> None:
    found = await failure(list(WORKER), words)
    assert found.kind is FailureKind.LAUNCHER
    assert f"the benchmark worker cannot be started: {words[0]}: " in found.message
    assert "[bench] launcher" in found.hint


SCRIPTS = [
    ("sys.exit(4)", FailureKind.LAUNCHER, "the worker did not start: .* ended with exit status 4"),
    ("print('usage: srun'); sys.exit('srun: no such partition')", FailureKind.LAUNCHER, "did not start"),
    ("say(b'hello, world' * 100)", FailureKind.LAUNCHER, "did not start"),
    ("say(b'x' * 300_000); time.sleep(1000)", FailureKind.GARBLED, "no frame came"),
    ("say(message(hello).replace(b'\\n', b'\\r\\n'))", FailureKind.GARBLED, "line ends were changed"),
    ("say(hello, b'garbage'); time.sleep(1000)", FailureKind.GARBLED, "something else than frames"),
    ("say(hello, message(stage)[:-3])", FailureKind.GARBLED, "last message is not whole"),
    ("say(hello, frame(b'{}')); time.sleep(1000)", FailureKind.GARBLED, "KeyError"),
    ("say(hello, frame(b'', b'B')); time.sleep(1000)", FailureKind.GARBLED, "an artifact came"),
    ("say(hello, hello); time.sleep(1000)", FailureKind.GARBLED, "Hello in the middle"),
    ("say(stage); time.sleep(1000)", FailureKind.GARBLED, "first word was Stage"),
    ("say(hello, message(busy) + b'garbage'); time.sleep(1000)", FailureKind.BUSY, "busy"),
    ("say(hello, Devices(devices=()))", FailureKind.GARBLED, "answered with Devices"),
    (
        "say(WorkerHello(protocol=PROTOCOL + 1, version='9', pid=1, host='box')); time.sleep(1000)",
        FailureKind.GARBLED,
        rf"the worker on box is of ckwatch 9 \(protocol {PROTOCOL + 1}\); this is .* \(protocol {PROTOCOL}\)",
    ),
    (
        "say(hello, stage); sys.exit(5)",
        FailureKind.CRASHED,
        "ended the worker, which ended with exit status 5, while timing",
    ),
    ("say(hello); sys.exit(5)", FailureKind.BROKEN, "the worker ended with exit status 5 while starting"),
    ("say(hello, stage); os.abort()", FailureKind.CRASHED, r"SIGABRT while timing \(ours\)"),
    ("say(hello); os.abort()", FailureKind.BROKEN, "killed by SIGABRT while starting"),
    (
        "say(hello, stage, WorkerStage(name='comparing')); os.abort()",
        FailureKind.CRASHED,
        "SIGABRT while comparing",
    ),
    (
        "say(hello, stage); os.write(2, b'Memory access fault by GPU node-2 (Agent handle: 0x1)\\n'); os.abort()",
        FailureKind.FAULT,
        "the kernel read or wrote memory that is not its own",
    ),
    (
        "say(hello, stage); os.write(2, b'HW Exception by GPU node-1 (Agent handle: 0x1) reason: GPU Hang\\n'); os.abort()",
        FailureKind.HUNG,
        "the kernel hung the device",
    ),
    ("say(hello, stage); os.kill(os.getpid(), 15)", FailureKind.BROKEN, "killed by SIGTERM while timing"),
    ("say(hello, stage); os.close(1); time.sleep(1000)", FailureKind.BROKEN, "fell silent while timing"),
    ("say(hello, busy); os.abort()", FailureKind.BUSY, "busy"),
    ("say(hello, busy); time.sleep(1000)", FailureKind.BUSY, "busy"),
]


@pytest.mark.parametrize(("script", "kind", "told"), SCRIPTS, ids=[script for script, _, _ in SCRIPTS])
async def test_what_it_says(script: str, kind: FailureKind, told: str) -> None:
    found = await failure(speaking(script))
    assert found.kind is kind, found
    assert re.search(told, found.message)


async def test_what_was_printed_is_in_the_details() -> None:
    found = await failure(speaking("print('a banner', flush=True); sys.exit('no such partition')"))
    assert found.detail == "before the worker's first word:\na banner\nstandard error:\nno such partition"


async def test_who_is_to_blame_is_named() -> None:
    found = await failure(speaking("say(hello, stage, WorkerStage(name='comparing')); os.abort()"))
    assert found.contestant == "ours"


@pytest.mark.parametrize(
    ("script", "kind", "told"),
    [
        ("time.sleep(1000)", FailureKind.LAUNCHER, "did not begin within {} s"),
        ("say(hello); time.sleep(1000)", FailureKind.BROKEN, "still starting after {} s"),
        ("say(hello, stage); time.sleep(1000)", FailureKind.HUNG, "ours was still running after {} s (timing)"),
    ],
)
async def test_time_limits(script: str, kind: FailureKind, told: str) -> None:
    for limit_s in LIMITS_S:
        found = await failure(speaking(script), time_limit_s=limit_s)
        if found.kind is kind:
            break
    assert found.kind is kind
    assert told.format(f"{limit_s:g}") in found.message


async def test_an_artifact_that_nobody_reads() -> None:
    """A pipe that is full does not keep the answer away."""
    found = await failure(speaking("say(hello, busy)"), artifact=bytes(10_000_000))
    assert found.kind is FailureKind.BUSY


@pytest.mark.parametrize(
    ("ending", "kind", "told"),
    [
        ("os._exit(139)", FailureKind.CRASHED, "SIGSEGV while timing"),
        ("os._exit(255)", FailureKind.BROKEN, "ended with exit status 255"),
    ],
)
async def test_exit_statuses_of_launchers(ending: str, kind: FailureKind, told: str) -> None:
    """A launcher tells a signal as 128 + its number; what else it returns is its own."""
    found = await failure([], speaking(f"say(hello, stage); {ending}"))
    assert found.kind is kind
    assert told in found.message


LAUNCHERS = {
    "banner": "printf 'Welcome to box\\r\\n  quota: 7\\n'; exec \"$@\"",
    "as a child": '"$@"; exit $?',
    "through cat": 'cat | "$@" | cat',
    "a child that stays": 'sleep 1000 & exec "$@"',
}


@pytest.fixture
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))


@pytest.mark.parametrize("script", LAUNCHERS.values(), ids=LAUNCHERS)
async def test_launchers(script: str, own_leases: None) -> None:
    said: list[WorkerMessage] = []
    launcher = ["sh", "-c", script, "launcher"]
    with anyio.fail_after(PATIENCE_S):
        found = await measure(
            job("ours"),
            [shared_object()],
            WorkerStart(launcher=launcher),
            time_limit_s=PATIENCE_S,
            on_message=said.append,
        )
    assert isinstance(found, BenchmarkReport), found
    assert isinstance(said[0], WorkerHello)


async def test_a_lost_launcher_ends_the_worker_behind_it(own_leases: None, tmp_path: Path) -> None:
    """The worker is in a session of its own, as on another machine: only its input tells it that nobody waits."""
    launcher = ["sh", "-c", 'exec setsid -w "$@"', "launcher"]
    pids: list[int] = []
    loop = shared_object(before="for (volatile int i = 0;;) (void)i;")
    running = anyio.Event()

    def note(said: WorkerMessage) -> None:
        if isinstance(said, WorkerHello):
            pids.append(said.pid)
        elif isinstance(said, WorkerStage) and said.contestant:
            running.set()

    async with anyio.create_task_group() as tasks:
        start = WorkerStart(launcher=launcher)
        tasks.start_soon(lambda: measure(job("ours"), [loop], start, time_limit_s=PATIENCE_S, on_message=note))
        with anyio.fail_after(PATIENCE_S):
            await running.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(PATIENCE_S):
        while os.path.exists(f"/proc/{pids[0]}/exe"):  # noqa: ASYNC240, PTH110
            await anyio.lowlevel.checkpoint()


async def test_each_stage_is_told_once() -> None:
    said: list[WorkerMessage] = []
    script = "say(hello, *[stage, WorkerStage(name='timing', contestant='theirs')] * 50, busy)"
    await measure(job("ours"), [b""], WorkerStart(speaking(script)), time_limit_s=PATIENCE_S, on_message=said.append)
    assert [getattr(message, "contestant", None) for message in said] == [None, "ours", "theirs"]


async def test_waiting_for_the_device_is_not_work() -> None:
    """The limit begins anew when the device is there."""
    for limit_s in LIMITS_S:
        script = (
            f"say(hello, WaitingForDevice(holder='x')); time.sleep({1.2 * limit_s}); say(stage);"
            "say(BenchmarkFailure(kind=FailureKind.WRONG, message='wrong'))"
        )
        found = await failure(speaking(script), time_limit_s=limit_s)
        if found.kind is FailureKind.WRONG:
            break
    assert found.kind is FailureKind.WRONG


async def test_a_report_without_end_in_time() -> None:
    """The worker is done when it has answered, however long its driver takes to close."""
    script = "say(hello, BenchmarkReport(device=DeviceFacts(name='cpu', description='', arch='host'), measured=())); time.sleep(1000)"
    found = await measure(job("ours"), [b""], WorkerStart(speaking(script)), time_limit_s=PATIENCE_S)
    assert isinstance(found, BenchmarkReport)


async def test_a_failing_listener_ends_the_worker() -> None:
    def fail(_: WorkerMessage) -> None:
        raise RuntimeError("listener")

    with pytest.raises(ExceptionGroup) as caught:
        await measure(
            job("ours"),
            [b""],
            WorkerStart(speaking("say(hello); time.sleep(1000)")),
            time_limit_s=PATIENCE_S,
            on_message=fail,
        )
    assert [str(error) for error in caught.value.exceptions] == ["listener"]


async def test_devices_of_another_machine() -> None:
    script = "say(hello, Devices(devices=(DeviceFacts(name='hip:0', description='MI300X', arch='gfx942'),)))"
    found = await find_devices(WorkerStart(speaking(script)), time_limit_s=PATIENCE_S)
    assert isinstance(found, Devices)
    assert found.devices[0].description == "MI300X"


async def test_the_folder_and_the_environment(tmp_path: Path) -> None:
    script = "os.write(2, f\"{os.getcwd()} {os.environ['A']}\".encode()); say(hello); sys.exit(1)"
    environment = {**os.environ, "A": "ü b"}
    start = WorkerStart(speaking(script), folder=tmp_path, environment=environment)
    found = await find_devices(start, time_limit_s=PATIENCE_S)
    assert isinstance(found, BenchmarkFailure)
    assert f"{tmp_path} ü b" in found.detail


async def test_no_descriptor_is_left_open() -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    await failure(speaking("say(hello, busy)"))
    before = count()
    await failure(speaking("say(hello, busy)"))
    await failure(speaking("say(hello); time.sleep(1000)"), time_limit_s=LIMITS_S[0])
    await failure(["no-such-worker"])
    assert count() == before


def test_the_worker_is_named_by_arguments() -> None:
    assert shlex.join(WORKER).endswith("-P -m ckwatch.bench.worker")
