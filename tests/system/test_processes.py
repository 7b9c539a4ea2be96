"""Compilers stand back for other programs."""

# ruff: noqa: ASYNC110, ASYNC240 - files of a test, watched by a test

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.toolchain.probe import run_tool
from ckwatch.model.errors import ToolchainError
from ckwatch.system.async_processes import ExitReason, ProcessResult, lower_priority, run_process
from fakes.patience import PATIENCE_S
from helpers.running_processes import runs


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


async def test_the_whole_session_stands_back() -> None:
    async with await anyio.open_process(["cat"], start_new_session=True) as process:
        nice = min(19, niceness() + 3)
        await lower_priority(process.pid, nice)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == nice
        group = anyio.Path("/proc", str(process.pid), "autogroup")
        if await group.exists():
            assert (await group.read_text()).split()[-1] == str(nice)
        process.kill()


@pytest.mark.parametrize(("inherited", "nice", "expected"), [(0, 10, 10), (5, 10, 10), (10, 10, 10), (19, 10, 19)])
def test_niceness_does_not_add_up(inherited: int, nice: int, expected: int) -> None:
    if niceness() > inherited:
        pytest.skip("runs with a niceness of its own")
    script = (
        "import anyio, os, subprocess\n"
        "from ckwatch.system.async_processes import lower_priority\n"
        "child = subprocess.Popen(['cat'], stdin=subprocess.PIPE, start_new_session=True)\n"
        f"anyio.run(lower_priority, child.pid, {nice})\n"
        "print(os.getpriority(os.PRIO_PROCESS, child.pid))\n"
        "child.communicate()\n"
    )
    command = ["nice", "-n", str(inherited - niceness()), sys.executable, "-c", script]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == expected


async def test_a_process_that_has_gone_is_no_error() -> None:
    async with await anyio.open_process(["true"], start_new_session=True) as process:
        await process.wait()
    before = niceness()
    await lower_priority(process.pid, 3)
    assert niceness() == before


async def test_zero_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[object] = []
    monkeypatch.setattr(os, "setpriority", lambda *arguments: changed.append(arguments))
    await lower_priority(os.getpid(), 0)
    assert changed == []


ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


async def sh(script: str, folder: Path, **more: object) -> ProcessResult:
    return await run_process(["sh", "-c", script], environment=ENVIRONMENT, folder=folder, **more)  # type: ignore[arg-type]


class Pids:
    """Collects the process ids that a script writes, one a line; `all` is set once `count` have come."""

    def __init__(self, count: int) -> None:
        self.seen: list[int] = []
        self.all = anyio.Event()
        self._count = count

    def line(self, text: str) -> None:
        self.seen.append(int(text))
        if len(self.seen) == self._count:
            self.all.set()

    @property
    def running(self) -> list[int]:
        return [pid for pid in self.seen if runs(pid)]


@pytest.mark.parametrize(
    ("script", "exit_reason", "status"),
    [
        ("exit 0", ExitReason.EXITED, 0),
        ("exit 3", ExitReason.EXITED, 3),
        ("kill -9 $$", ExitReason.SIGNALLED, -9),
        ("kill -SEGV $$", ExitReason.SIGNALLED, -11),
        ("echo 'LLVM ERROR: out of memory' >&2; exit 1", ExitReason.OUT_OF_MEMORY, 1),
        (
            "echo \"terminate called after throwing an instance of 'std::bad_alloc'\" >&2; kill -ABRT $$",
            ExitReason.OUT_OF_MEMORY,
            -6,
        ),
        ("echo 'std::bad_alloc is no problem' >&2; exit 0", ExitReason.EXITED, 0),
    ],
)
async def test_exit_reasons(tmp_path: Path, script: str, exit_reason: ExitReason, status: int) -> None:
    done = await sh(script, tmp_path)
    assert (done.exit_reason, done.exit_status) == (exit_reason, status)
    assert done.signal_name == (signal.Signals(-status).name if status < 0 else None)


async def test_output_lines_and_usage(tmp_path: Path) -> None:
    lines: list[str] = []
    script = "import sys; x = bytearray(80 << 20); print('out'); sys.stderr.write('ü 1\\r\\n\\n2')"
    done = await run_process(
        [sys.executable, "-c", script], environment=ENVIRONMENT, folder=tmp_path, on_line=lines.append
    )
    assert (done.stdout, done.stderr, lines) == ("out\n", "ü 1\r\n\n2", ["ü 1", "", "2"])
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # a program begins with the peak of what starts it
    assert 80 << 20 <= done.peak_memory_bytes < max(1 << 30, 2 * own)
    assert done.duration_s > 0
    assert done.dropped_bytes == 0


async def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    seen = anyio.Event()
    os.mkfifo(tmp_path / "go")

    def line(text: str) -> None:
        assert text == "first"
        seen.set()

    async def let_go() -> None:
        await seen.wait()
        await anyio.to_thread.run_sync((tmp_path / "go").write_text, "on")

    async with anyio.create_task_group() as group:
        group.start_soon(let_go)
        done = await sh("echo first >&2; cat go", tmp_path, on_line=line, timeout_s=PATIENCE_S)
    assert done.stdout == "on"


async def test_memory_of_grandchildren_counts(tmp_path: Path) -> None:
    done = await sh(f"{sys.executable} -c 'x = bytearray(80 << 20)'; true", tmp_path)
    assert done.peak_memory_bytes >= 80 << 20


async def test_flood_is_bounded(tmp_path: Path) -> None:
    lines = 0

    def count(_: str) -> None:
        nonlocal lines
        lines += 1

    done = await sh("yes 1234567 | head -c 30000000 >&2", tmp_path, output_limit_bytes=1 << 20, on_line=count)
    assert len(done.stderr) == 1 << 20
    assert done.dropped_bytes == 30_000_000 - (1 << 20)
    assert lines == (1 << 20) // 8


async def test_environment_and_folder_are_exactly_these(tmp_path: Path) -> None:
    folder = tmp_path / "a folder ü"
    folder.mkdir()
    done = await run_process(["env"], environment={"PATH": os.defpath, "A": "ü b"}, folder=folder)
    assert sorted(done.stdout.split("\n")) == ["", "A=ü b", f"PATH={os.defpath}"]
    assert (await sh("pwd", folder)).stdout == f"{folder}\n"


GRANDCHILDREN = "sleep 1000 & echo $! >&2; (sleep 1000 & echo $! >&2; wait) & echo $! >&2; wait"
STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 0.01; done) & echo $! >&2; echo $$ >&2; while :; do sleep 0.01; done"


@pytest.mark.parametrize(("script", "count"), [(GRANDCHILDREN, 3), (STUBBORN, 2)], ids=["obedient", "stubborn"])
async def test_cancellation_ends_the_whole_group(tmp_path: Path, script: str, count: int) -> None:
    pids = Pids(count)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: sh(script, tmp_path, on_line=pids.line, grace_s=0.2))
        with anyio.fail_after(PATIENCE_S):
            await pids.all.wait()
        assert len(pids.running) == count
        group.cancel_scope.cancel()
    assert pids.running == []


async def test_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    for timeout_s in (1, 10, 100):  # they may not have begun by then
        pids = Pids(3)
        done = await sh(GRANDCHILDREN, tmp_path, on_line=pids.line, timeout_s=timeout_s)
        assert done.exit_reason is ExitReason.STALLED
        assert pids.running == []
        if len(pids.seen) == 3:
            return
    raise AssertionError(pids.seen)


async def test_processor_time_of_all_children_counts(tmp_path: Path) -> None:
    burn = f"{sys.executable} -c 'while True: pass'"
    used: list[float] = []
    done = await sh(f"{burn} & {burn} & wait", tmp_path, timeout_s=1, stalled_s=PATIENCE_S, on_used=used.append)
    assert done.exit_reason is ExitReason.TIMED_OUT
    assert used == sorted(used)
    assert used[-1] >= 1


async def test_processor_time_of_children_that_have_ended_counts(tmp_path: Path) -> None:
    burn = f"{sys.executable} -c 'sum(range(10_000_000))'"
    done = await sh(f"while true; do {burn}; done", tmp_path, timeout_s=1, stalled_s=PATIENCE_S)
    assert done.exit_reason is ExitReason.TIMED_OUT


async def test_a_process_that_waits_uses_no_time(tmp_path: Path) -> None:
    """It ends by itself after several times its limit, which is one of processor time."""
    done = await sh("for i in 1 2 3 4; do sleep 0.05; done", tmp_path, timeout_s=0.1, stalled_s=PATIENCE_S)
    assert done.exit_reason is ExitReason.EXITED


async def test_a_stopped_process_is_stalled(tmp_path: Path) -> None:
    done = await sh("kill -STOP $$", tmp_path, timeout_s=PATIENCE_S, stalled_s=0.2, grace_s=0.1)
    assert done.exit_reason is ExitReason.STALLED


async def test_child_left_behind_is_ended_and_holds_nothing_up(tmp_path: Path) -> None:
    pids = Pids(1)
    with anyio.fail_after(PATIENCE_S):
        done = await sh("sleep 1000 & echo $! >&2; echo last words", tmp_path, on_line=pids.line)
    assert (done.exit_reason, done.stdout) == (ExitReason.EXITED, "last words\n")
    assert pids.running == []


async def test_child_in_a_session_of_its_own_holds_nothing_up(tmp_path: Path) -> None:
    if shutil.which("setsid") is None:
        pytest.skip("needs setsid")
    with anyio.fail_after(PATIENCE_S):
        done = await sh("setsid sleep 600 & sleep 0.2; echo done", tmp_path)
    assert done.stdout == "done\n"


async def test_error_in_the_callback_ends_the_process(tmp_path: Path) -> None:
    pids = Pids(1)

    def fail(text: str) -> None:
        pids.line(text)
        raise RuntimeError("callback")

    with pytest.raises(ExceptionGroup) as caught:
        await sh("echo $$ >&2; sleep 1000", tmp_path, on_line=fail)
    assert [str(error) for error in caught.value.exceptions] == ["callback"]
    assert pids.running == []


@pytest.mark.parametrize("program", ["no-such-compiler-here", "/", "/dev/null"])
async def test_program_that_cannot_be_started(tmp_path: Path, program: str) -> None:
    with pytest.raises(ToolchainError, match=f"cannot start {program}"):
        await run_process([program], environment=ENVIRONMENT, folder=tmp_path)


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    await sh("exit 0", tmp_path)
    before = count()
    for _ in range(5):
        await sh("exit 1", tmp_path)
        await sh("sleep 9", tmp_path, timeout_s=0.05)
        with pytest.raises(ToolchainError):
            await run_process(["no-such-compiler-here"], environment=ENVIRONMENT, folder=tmp_path)
    assert count() == before


async def test_a_process_stands_back_and_its_children_with_it(tmp_path: Path) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    script = f"while [ $(nice) -eq {before} ]; do :; done; sh -c nice; true"
    assert int((await sh(script, tmp_path, nice=min(19, before + 7))).stdout) == min(19, before + 7)


async def test_nothing_stands_back_unasked(tmp_path: Path) -> None:
    assert int((await sh("nice", tmp_path)).stdout) == os.getpriority(os.PRIO_PROCESS, 0)


async def wait_for(path: Path) -> int:
    while not (path.exists() and path.read_text().strip()):
        await anyio.sleep(0.01)
    return int(path.read_text())


async def died(pid: int) -> None:
    """Return once a process that was killed is gone, which takes the kernel a moment."""
    with anyio.fail_after(PATIENCE_S):
        while runs(pid):
            await anyio.sleep(0.01)


async def test_what_it_says_and_how_it_ends() -> None:
    done = await run_tool(["sh", "-c", "echo out; echo err >&2; exit 3"], environment=os.environ)
    assert (done.exit_status, done.stdout, done.stderr) == (3, "out\n", "err\n")


async def test_much_output_on_both_streams() -> None:
    done = await run_tool(["sh", "-c", "yes | head -c 2000000; yes | head -c 2000000 >&2"], environment=os.environ)
    assert (len(done.stdout), len(done.stderr)) == (2_000_000, 2_000_000)


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ToolchainError, match="cannot start /no/such: No such file"):
        await run_tool(["/no/such"], environment=os.environ)


async def test_grandchildren_are_killed_on_cancel(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; wait"
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: run_tool(["sh", "-c", script], environment=os.environ))
        pid = await wait_for(tmp_path / "pid")
        group.cancel_scope.cancel()
    await died(pid)


async def test_too_long_is_an_error_and_the_end_of_it(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; wait"
    for limit_s in (0.5, 2, 8, 32, 128):  # the first that the shell needs no longer than to begin
        with pytest.raises(ToolchainError, match=f"did nothing for {limit_s:g} s"):
            await run_tool(["sh", "-c", script], environment=os.environ, timeout_s=limit_s)
        if (tmp_path / "pid").exists():
            break
    await died(int((tmp_path / "pid").read_text()))


async def test_something_may_watch_it(tmp_path: Path) -> None:
    seen = []

    async def watch() -> None:
        while True:
            seen.append((tmp_path / "x").exists())
            if seen[-1]:
                (tmp_path / "seen").touch()
            await anyio.sleep(0.01)

    script = f"touch {tmp_path}/x; until [ -e {tmp_path}/seen ]; do sleep 0.01; done"
    await run_tool(["sh", "-c", script], environment=os.environ, meanwhile=watch)
    assert seen[-1]
