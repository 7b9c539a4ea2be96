"""The daemon cancelled at each of its awaits: it ends at once, no process is left behind, the store is whole.

`CountedLoop` runs the callbacks of an asyncio loop and cancels the scenario before the n-th one, for every n until the
scenario gets through.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import KERNEL, Bench, build
from ckwatch.bench.history.runs import History
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.engine.handlers.analyze import REPORTS, code_version
from engine.code_workspace import CodeBench
from fakes.patience import PATIENCE_S
from helpers.callback_counting import CountedLoop
from helpers.running_processes import runs

STEP = 13
"""Every so many callbacks; all of them would take minutes. The first one moves, so that runs differ in what they hit."""


async def scenario(bench: Bench) -> None:
    """Open, build, edit while compiling, lend a text, close."""
    async with bench.open() as daemon:
        await build(daemon)
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 2", "Tile = 3"))
        await daemon.requests.overlay("ann", str(bench.root / "templates/macros.j2"), "int unsaved;\n")
        await build(daemon, client="ann")
        await daemon.forget("ann")
        await build(daemon)


def children() -> set[int]:
    """Processes that this one has started and that still run."""
    pids: list[int] = []
    for thread in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            pids += map(int, thread.read_text().split())
    return {pid for pid in pids if runs(pid)}


def cancelled_at(bench: Bench, number: int) -> bool:
    """Run the scenario and cancel it at a callback; whether it got through before."""
    loop = CountedLoop()
    through = False

    async def run() -> None:
        nonlocal through
        with anyio.fail_after(PATIENCE_S), anyio.CancelScope() as scope:
            loop.at = scope.cancel
            loop.left = number
            await scenario(bench)
            loop.left = -1
            through = True

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(run())
    return through


@pytest.mark.timeout(1800)
def test_cancelled_at_every_await(tmp_path: Path) -> None:
    before = children()
    bench = CodeBench(tmp_path)
    number, runs = 1, 0
    while True:
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", f"Tile = {100 + number}"))
        through = cancelled_at(bench, number)
        runs += 1
        assert children() <= before, f"cancelled at callback {number}"
        with ArtifactStore(bench.store) as store:
            assert store.verify() == []
        for path in bench.store.glob("artifacts/*/*/*/report.json"):
            assert REPORTS.value(path.read_bytes(), made_by=code_version(), tools=None) is not None, (
                "a report is whole or not there"
            )
        history = History(bench.history)
        history.open()
        history.units()
        history.close()
        assert history.notice is None
        if through:
            break
        number += STEP if number > 60 else 1
    assert runs > 60
    assert bench.looks > 0
