"""Host tools leave nothing behind, however they end."""

# ruff: noqa: ASYNC110, ASYNC240 - files of a test, watched by a test

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from ckwatch.errors import ToolchainError
from ckwatch.toolchain.process import run
from patience import PATIENCE_S


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def wait_for(path: Path) -> int:
    while not (path.exists() and path.read_text().strip()):
        await anyio.sleep(0.01)
    return int(path.read_text())


async def died(pid: int) -> None:
    """Return once a process that was killed is gone, which takes the kernel a moment."""
    with anyio.fail_after(PATIENCE_S):
        while is_alive(pid):
            await anyio.sleep(0.01)


async def test_what_it_says_and_how_it_ends() -> None:
    done = await run(["sh", "-c", "echo out; echo err >&2; exit 3"], env=os.environ)
    assert (done.status, done.output, done.errors) == (3, "out\n", "err\n")


async def test_much_output_on_both_streams() -> None:
    done = await run(["sh", "-c", "yes | head -c 2000000; yes | head -c 2000000 >&2"], env=os.environ)
    assert (len(done.output), len(done.errors)) == (2_000_000, 2_000_000)


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ToolchainError, match="cannot start /no/such: No such file"):
        await run(["/no/such"], env=os.environ)


async def test_grandchildren_are_killed_on_cancel(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; wait"
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: run(["sh", "-c", script], env=os.environ))
        pid = await wait_for(tmp_path / "pid")
        group.cancel_scope.cancel()
    await died(pid)


async def test_too_long_is_an_error_and_the_end_of_it(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; wait"
    for limit_s in (0.5, 2, 8, 32, 128):  # the first that the shell needs no longer than to begin
        with pytest.raises(ToolchainError, match=f"took over {limit_s} s"):
            await run(["sh", "-c", script], env=os.environ, timeout_s=limit_s)
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
    await run(["sh", "-c", script], env=os.environ, meanwhile=watch)
    assert seen[-1]
