"""clangd's life: started when it is asked, started again after a pause, ended when idle or too large."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ckwatch.compile.toolchain.clangd import ClangdProgram
from ckwatch.cpp.clangd import ClangdEndedError, MemoryText, OvertakenError
from ckwatch.cpp.supervisor import ClangdLimits, ClangdSupervisor
from ckwatch.model.errors import CkwatchError, ToolchainError
from fakes.clangd_stand_in import ClangdStandIn
from fakes.patience import PATIENCE_S

HOVER = "textDocument/hover"
TEXT = MemoryText("/lent/k.cpp", "one\n", ("clang++",), Path("/"))
AT = {"position": {"line": 0, "character": 0}}
QUICK = ClangdLimits(2**40, watch_s=0.01, first_pause_s=0.01)


@pytest.fixture
def stand_in(tmp_path: Path) -> ClangdStandIn:
    return ClangdStandIn(tmp_path / "clangd")


class Bench:
    """A supervisor, what it has said, and how often it has looked for its program."""

    def __init__(self, stand_in: ClangdStandIn) -> None:
        self.stand_in = stand_in
        self.said: list[str | None] = []
        self.problem: Exception | None = None
        self.found = 0
        self.supervisor: ClangdSupervisor

    async def find(self, tell: Callable[[str], None]) -> ClangdProgram:
        self.found += 1
        tell("clangd is being fetched: 50 %")
        await anyio.lowlevel.checkpoint()
        if self.problem is not None:
            raise self.problem
        return self.stand_in.program

    async def hover(self) -> str:
        found = await self.supervisor.ask(TEXT, HOVER, AT)
        return str(found["contents"]["value"])

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110  # it watches in intervals of its own
            await anyio.sleep(0.01)


@asynccontextmanager
async def supervised(stand_in: ClangdStandIn, limits: ClangdLimits = QUICK) -> AsyncIterator[Bench]:
    bench = Bench(stand_in)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            bench.supervisor = ClangdSupervisor(
                bench.find,
                dict(os.environ),
                stand_in.folder,
                stand_in.folder / "settings",
                tasks,
                bench.said.append,
                limits,
            )
            yield bench
            tasks.cancel_scope.cancel()
    assert stand_in.alive == []


async def test_it_is_started_when_it_is_first_asked(stand_in: ClangdStandIn) -> None:
    async with supervised(stand_in) as bench:
        assert (stand_in.pids, bench.supervisor.pid, bench.supervisor.status) == ([], None, "")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(bench.hover)
        assert stand_in.pids == [bench.supervisor.pid]
        assert await bench.supervisor.program() is stand_in.program
        assert (bench.said, bench.found, bench.supervisor.deaths) == ([], 1, 0)


async def test_a_question_is_asked_again_once(stand_in: ClangdStandIn) -> None:
    stand_in.will("crash", HOVER, "once")
    async with supervised(stand_in) as bench:
        assert await bench.hover() == "Type: `one`"
        assert bench.supervisor.deaths == 1
        assert bench.said == ["clangd was ended by SIGSEGV; answers about C++ come again when it has been restarted"]
    assert len(stand_in.of(HOVER)) == len(stand_in.pids) == 2


async def test_one_that_dies_each_time(stand_in: ClangdStandIn) -> None:
    """Asked twice, it fails; the pause grows, and it is said once."""
    stand_in.will("crash", HOVER)
    async with supervised(stand_in, ClangdLimits(2**40, first_pause_s=0.001)) as bench:
        for deaths in (2, 4):
            with pytest.raises(ClangdEndedError, match="was ended by SIGSEGV"):
                await bench.hover()
            assert bench.supervisor.deaths == deaths
        assert len(bench.said) == 1


async def test_the_pause_before_a_restart(stand_in: ClangdStandIn) -> None:
    """Twice as long each time, up to a bound, also where clangd dies at its very start."""
    stand_in.will("exit", "initialize")
    limits = ClangdLimits(2**40, watch_s=1000.0, first_pause_s=0.001, longest_pause_s=0.06)
    async with supervised(stand_in, limits) as bench:
        pauses = []
        for _ in range(5):
            with pytest.raises(ClangdEndedError):
                await bench.hover()
            pauses.append(bench.supervisor._pause_s)
        assert pauses == [0.002, 0.008, 0.032, 0.06, 0.06], "it is started twice for each question"
        assert len(bench.said) == 1


async def test_one_that_is_not_found_is_looked_for_later(stand_in: ClangdStandIn) -> None:
    async with supervised(stand_in, ClangdLimits(2**40, find_again_s=1000.0)) as bench:
        bench.problem = ToolchainError("no clangd", "install one")
        for _ in range(3):
            with pytest.raises(ToolchainError, match="no clangd"):
                await bench.hover()
        assert (bench.found, bench.said) == (1, ["there are no answers about C++: no clangd"])
    async with supervised(stand_in, ClangdLimits(2**40, find_again_s=0.0)) as bench:
        bench.problem = ToolchainError("no clangd", "install one")
        with pytest.raises(ToolchainError, match="no clangd"):
            await bench.hover()
        bench.problem = None
        assert await bench.hover() == "Type: `one`"
        assert (bench.found, bench.said[1:]) == (2, [None])


async def test_a_fault_of_ours_is_not_the_end_of_the_daemon(stand_in: ClangdStandIn) -> None:
    async with supervised(stand_in) as bench:
        bench.problem = ZeroDivisionError("oops")
        with pytest.raises(CkwatchError, match="clangd cannot be started: ZeroDivisionError"):
            await bench.hover()
        assert len(bench.said) == 1


async def test_one_that_never_says_what_it_can_do(stand_in: ClangdStandIn) -> None:
    stand_in.will("hang", "initialize")
    async with supervised(stand_in, ClangdLimits(2**40, start_s=0.1)) as bench:
        with pytest.raises(CkwatchError, match="clangd has not answered within"):
            await bench.hover()
        await bench.until(lambda: stand_in.alive == [])


async def test_what_it_is_doing(stand_in: ClangdStandIn) -> None:
    stand_in.will("hang", "initialize")
    async with supervised(stand_in) as bench, anyio.create_task_group() as tasks:
        tasks.start_soon(bench.hover)
        await bench.until(lambda: bool(bench.supervisor.status))
        assert bench.supervisor.status in ("clangd is being started", "clangd is being fetched: 50 %")
        await stand_in.got("initialize")
        assert bench.supervisor.status == "clangd is being fetched: 50 %"
        tasks.cancel_scope.cancel()


async def test_one_that_nobody_asks_is_ended(stand_in: ClangdStandIn) -> None:
    async with supervised(stand_in, ClangdLimits(2**40, watch_s=0.01, idle_s=0.0)) as bench:
        await bench.hover()
        await bench.until(lambda: stand_in.alive == [])
        assert (bench.said, bench.supervisor.deaths) == ([], 0)
        assert await bench.hover() == "Type: `one`"
    assert len(stand_in.pids) == 2


async def test_one_that_is_being_asked_is_not_idle(stand_in: ClangdStandIn) -> None:
    stand_in.will("hang", HOVER)
    limits = ClangdLimits(2**40, watch_s=0.001, idle_s=0.0)
    async with supervised(stand_in, limits) as bench, anyio.create_task_group() as tasks:
        tasks.start_soon(bench.hover)
        await stand_in.got(HOVER)
        await anyio.sleep(0.05)
        assert len(stand_in.alive) == 1
        tasks.cancel_scope.cancel()


async def test_one_that_holds_too_much(stand_in: ClangdStandIn) -> None:
    stand_in.will("memory", "initialized", str(200 * 2**20))
    async with supervised(stand_in, ClangdLimits(100 * 2**20, watch_s=0.01, first_pause_s=0.01)) as bench:
        await bench.supervisor.ready()
        await bench.until(lambda: bool(bench.said))
        [said] = bench.said
        assert said is not None
        assert re.match(r"clangd held 0.\d GiB, more than `cpp.memory_limit_bytes` of 0.1 GiB, and was ended", said)
        await bench.until(lambda: stand_in.alive == [])
        stand_in.will_not("memory")
        assert await bench.hover() == "Type: `one`"


async def test_one_that_does_not_read(stand_in: ClangdStandIn) -> None:
    stand_in.will("deaf", "textDocument/didOpen")
    async with supervised(stand_in, replace(QUICK, unread_length=5_000_000)) as bench:
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                large = MemoryText(f"/lent/{number}.cpp", "one" * 1_000_000, ("clang++",), Path("/"))
                tasks.start_soon(bench.supervisor.ask, large, HOVER, AT)
            await bench.until(lambda: bool(bench.said))
            tasks.cancel_scope.cancel()
        assert "did not read what it was asked" in (bench.said[0] or "")
        stand_in.will_not("deaf")
        assert await bench.hover() == "Type: `one`"


async def test_one_that_is_steady_again(stand_in: ClangdStandIn) -> None:
    stand_in.will("crash", HOVER, "once")
    async with supervised(stand_in, ClangdLimits(2**40, watch_s=0.01, first_pause_s=0.01, steady_s=0.05)) as bench:
        await bench.hover()
        await bench.until(lambda: len(bench.said) == 2)
        assert bench.said[1] is None
        stand_in.will("crash", HOVER, "once")
        await bench.hover()
        assert bench.supervisor.deaths == 2
        await bench.until(lambda: len(bench.said) >= 3)
        assert bench.said[2] is not None


async def test_another_takes_its_place(stand_in: ClangdStandIn) -> None:
    """A pending request is sent again, to the new clangd; that the old one had died is no longer reported."""
    stand_in.will("crash", HOVER, "once")
    async with supervised(stand_in) as bench:
        await bench.hover()
        stand_in.will("hang", HOVER)
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(OvertakenError):
                    await bench.hover()

            tasks.start_soon(ask)
            await stand_in.got(HOVER, 3)
            await bench.supervisor.end()
        assert stand_in.alive == []
        assert (bench.supervisor.deaths, bench.said[1:]) == (1, [None])
        with pytest.raises(OvertakenError):
            await bench.supervisor.ready()


async def test_another_takes_its_place_while_it_is_started(stand_in: ClangdStandIn) -> None:
    stand_in.will("later", "initialize")
    async with supervised(stand_in) as bench, anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(CkwatchError):
                await bench.hover()

        tasks.start_soon(ask)
        await stand_in.got("initialize")
        await bench.supervisor.end()
        await bench.until(lambda: stand_in.alive == [])
