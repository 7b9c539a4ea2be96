"""A process ends whole, and says how."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.processes import Finished, Verdict, run_process
from ckwatch.errors import ToolchainError
from patience import PATIENCE_S

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


async def sh(script: str, folder: Path, **more: object) -> Finished:
    return await run_process(["sh", "-c", script], environment=ENVIRONMENT, folder=folder, **more)  # type: ignore[arg-type]


def runs(pid: int) -> bool:
    """Whether `pid` runs; a zombie that nobody reaps does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


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
    ("script", "verdict", "status"),
    [
        ("exit 0", Verdict.EXITED, 0),
        ("exit 3", Verdict.EXITED, 3),
        ("kill -9 $$", Verdict.SIGNALLED, -9),
        ("kill -SEGV $$", Verdict.SIGNALLED, -11),
        ("echo 'LLVM ERROR: out of memory' >&2; exit 1", Verdict.OUT_OF_MEMORY, 1),
        (
            "echo \"terminate called after throwing an instance of 'std::bad_alloc'\" >&2; kill -ABRT $$",
            Verdict.OUT_OF_MEMORY,
            -6,
        ),
        ("echo 'std::bad_alloc is no problem' >&2; exit 0", Verdict.EXITED, 0),
    ],
)
async def test_verdicts(tmp_path: Path, script: str, verdict: Verdict, status: int) -> None:
    done = await sh(script, tmp_path)
    assert (done.verdict, done.exit_status) == (verdict, status)
    assert done.signal_name == (signal.Signals(-status).name if status < 0 else None)


async def test_output_lines_and_usage(tmp_path: Path) -> None:
    lines: list[str] = []
    script = "import sys; x = bytearray(80 << 20); print('out'); sys.stderr.write('ü 1\\r\\n\\n2')"
    done = await run_process(
        [sys.executable, "-c", script], environment=ENVIRONMENT, folder=tmp_path, on_line=lines.append
    )
    assert (done.stdout, done.stderr, lines) == ("out\n", "ü 1\r\n\n2", ["ü 1", "", "2"])
    assert 80 << 20 <= done.peak_memory_bytes < 1 << 30
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
        assert done.verdict is Verdict.TIMED_OUT
        assert pids.running == []
        if len(pids.seen) == 3:
            return
    raise AssertionError(pids.seen)


async def test_child_left_behind_is_ended_and_holds_nothing_up(tmp_path: Path) -> None:
    pids = Pids(1)
    with anyio.fail_after(PATIENCE_S):
        done = await sh("sleep 1000 & echo $! >&2; echo last words", tmp_path, on_line=pids.line)
    assert (done.verdict, done.stdout) == (Verdict.EXITED, "last words\n")
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
    assert int((await sh(script, tmp_path, nice=7, timeout_s=PATIENCE_S)).stdout) == min(19, before + 7)


async def test_nothing_stands_back_unasked(tmp_path: Path) -> None:
    assert int((await sh("nice", tmp_path)).stdout) == os.getpriority(os.PRIO_PROCESS, 0)
