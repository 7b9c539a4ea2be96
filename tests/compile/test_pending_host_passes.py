"""A host pass that is run ahead, and the build that goes on from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.build_events import BuildEvent, BuildOptions, CompilerLine, ProcessorUsed
from ckwatch.compile.builder import Builder
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.pending_host_passes import LIMIT
from ckwatch.compile.request import CompileFault, CompileRequest
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.model.errors import ToolchainError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ExitReason
from fakes.fake_hip import PASS_OF, SYMBOL, WARM, FakeHip, Run, Step, fake_hip, request
from helpers.callback_counting import CountedLoop


@pytest.fixture
def hip(tmp_path: Path) -> FakeHip:
    return fake_hip(tmp_path)


@pytest.fixture
def builder(hip: FakeHip, store: ArtifactStore) -> Builder:
    return make_builder(hip, store)


def make_builder(hip: FakeHip, store: ArtifactStore) -> Builder:
    return Builder(hip.toolchain, store, launch=hip, make_ladder=lambda: StagedCompiler(hip.toolchain, store, hip))


def folders(store: ArtifactStore) -> list[Path]:
    """Return the folders in which compiles have left something behind."""
    return [folder for folder in store.folder.glob("runs/*/*") if any(folder.iterdir())]


def wrong(hip: FakeHip, *sides: PassSide) -> None:
    for side in sides:
        hip.answer(PASS_OF[side], f"kernel.hip:2:5: error: {side}\n", 1)


async def test_the_build_goes_on_from_the_check(builder: Builder, hip: FakeHip, store: ArtifactStore) -> None:
    said: list[BuildEvent] = []
    hip.answer(Step.HOST, "kernel.hip:1:1: warning: w\n")
    checked = await builder.check(request(), said.append)
    assert checked is not None
    assert (checked.ok, checked.transient, checked.log) == (True, False, "kernel.hip:1:1: warning: w\n")
    expected = CompilerLine(PassSide.HOST, "kernel.hip:1:1: warning: w")
    assert [event for event in said if not isinstance(event, ProcessorUsed)] == [expected]
    built = await builder.build(request())
    assert (built.ok, built.log, len(hip.runs_of(Step.HOST))) == (True, checked.log, 1)
    assert folders(store) == []
    assert (await builder.build(request())).from_store


async def test_a_mistake_of_the_host_is_told_first_then_all(
    builder: Builder, hip: FakeHip, store: ArtifactStore
) -> None:
    wrong(hip, PassSide.HOST, PassSide.DEVICE)
    checked = await builder.check(request())
    assert checked is not None
    assert (checked.ok, checked.log) == (False, "kernel.hip:2:5: error: host\n")
    built = await builder.build(request())
    assert (built.ok, built.fault) == (False, None)
    assert built.log == "kernel.hip:2:5: error: host\nkernel.hip:2:5: error: device\n"
    assert hip.steps[1:] == [Step.HOST, Step.DEVICE]
    assert folders(store) == []


async def test_a_second_check_repeats_nothing(builder: Builder, hip: FakeHip) -> None:
    first = await builder.check(request())
    assert await builder.check(request()) == first
    assert len(hip.runs_of(Step.HOST)) == 1


async def test_checks_of_one_source_share_one_pass(builder: Builder, hip: FakeHip) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(builder.check, request())
        tasks.start_soon(builder.build, request())
    assert len(hip.runs_of(Step.HOST)) <= 2  # the build may have come before the last check
    assert len(hip.runs_of(Step.LINK)) == 1


def edit(hip: FakeHip) -> CompileRequest:
    (hip.toolchain.include_folders[0] / "a.h").write_text("int other;\n")
    return request()


def shadow(hip: FakeHip) -> CompileRequest:
    (hip.toolchain.include_folders[0] / "no.hpp").touch()
    return request()


def comment(_: FakeHip) -> CompileRequest:
    return request(f"// its messages are a line lower\n{request().source}")


def rewrite(_: FakeHip) -> CompileRequest:
    return request(f"{request().source}int more;\n")


@pytest.mark.parametrize("happen", [edit, shadow, comment, rewrite])
async def test_a_check_of_something_else_counts_no_more(
    builder: Builder, hip: FakeHip, store: ArtifactStore, happen: Callable[[FakeHip], CompileRequest]
) -> None:
    hip.answer(Step.HOST, "kernel.hip:1:1: fatal error: 'no.hpp' file not found\n", 1)
    before = await builder.check(request())
    assert before is not None
    assert not before.ok
    hip.answer(Step.HOST)
    asked = happen(hip)
    after = await builder.check(asked)
    assert after is not None
    assert after.ok
    built = await builder.build(asked)
    assert (built.ok, built.source_text, len(hip.runs_of(Step.HOST))) == (True, asked.source, 2)


@pytest.mark.parametrize("happen", [edit, comment])
async def test_nor_for_a_build(
    builder: Builder, hip: FakeHip, store: ArtifactStore, happen: Callable[[FakeHip], CompileRequest]
) -> None:
    wrong(hip, PassSide.HOST)
    await builder.check(request())
    hip.answer(Step.HOST)
    built = await builder.build(happen(hip))
    assert (built.ok, len(hip.runs_of(Step.DEVICE)), folders(store)) == (True, 1, [])


async def test_a_fault_of_the_host_is_no_check(builder: Builder, hip: FakeHip, store: ArtifactStore) -> None:
    """The pass is run again: nothing was learned."""
    hip.answer(Step.HOST, "", -9, exit_reason=ExitReason.SIGNALLED)
    checked = await builder.check(request())
    assert checked is not None
    assert (checked.ok, checked.transient, folders(store)) == (False, True, [])
    hip.answer(Step.HOST)
    assert (await builder.build(request())).ok


async def test_a_fault_after_a_check(builder: Builder, hip: FakeHip, store: ArtifactStore) -> None:
    await builder.check(request())
    hip.answer(Step.DEVICE, "", -9, exit_reason=ExitReason.SIGNALLED)
    built = await builder.build(request())
    assert (built.artifact, built.fault, folders(store)) == (None, CompileFault.KILLED, [])
    hip.answer(Step.DEVICE)
    assert (await builder.build(request())).ok


async def test_so_many_are_kept(builder: Builder, hip: FakeHip, store: ArtifactStore) -> None:
    requests = [request(f"int {SYMBOL}() {{ return {number}; }}\n") for number in range(LIMIT + 2)]
    for one in requests:
        await builder.check(one)
    assert len(folders(store)) == LIMIT
    for one in reversed(requests):
        assert (await builder.build(one)).ok
    assert len(hip.runs_of(Step.HOST)) == LIMIT + 4
    assert folders(store) == []


async def test_what_cannot_be_taken_apart_is_not_checked(hip: FakeHip, store: ArtifactStore) -> None:
    without = Builder(hip.toolchain, store, launch=hip)
    assert (without.takes_apart, await without.check(request())) == (False, None)
    builder = make_builder(hip, store)
    assert builder.takes_apart
    host = request(language=Language.CPP, arch="host")
    assert (await builder.check(host), builder.takes_apart) == (None, True)
    hip.answer(Step.ASK, "")
    assert (await builder.check(request()), builder.takes_apart) == (None, False)
    assert (await builder.build(request())).ok
    assert hip.steps == [Step.ASK, Step.WHOLE, Step.LINK]
    assert folders(store) == []


async def test_a_compiler_that_cannot_be_started(builder: Builder, hip: FakeHip, store: ArtifactStore) -> None:
    async def cannot(_: Run) -> None:
        raise ToolchainError("cannot start clang")

    hip.answer(Step.HOST, during=cannot)
    with pytest.raises(ToolchainError, match="cannot start clang"):
        await builder.check(request())
    with pytest.raises(ToolchainError, match="cannot start clang"):
        await builder.build(request())
    assert (hip.running, folders(store)) == ([], [])


async def check_then_build(builder: Builder) -> None:
    await builder.check(request())
    await builder.build(request())


async def build_warmed(builder: Builder) -> None:
    await builder.build(request(WARM), BuildOptions(waiting=99))
    await builder.build(replace(request(WARM), kernel="other"), BuildOptions(waiting=99, force=True))


def given(loop: CountedLoop) -> CountedLoop:
    """A loop that was made before."""
    return loop


Scenario = Callable[[Builder], Awaitable[None]]


async def cancelled_at(folder: Path, scenario: Scenario, number: int, loop: CountedLoop) -> bool:
    """Cancel the scenario at a callback; whether it got through before."""
    hip = fake_hip(folder)
    with ArtifactStore(folder / "store") as store:
        builder = make_builder(hip, store)
        with anyio.CancelScope() as scope:
            loop.at = scope.cancel
            loop.left = number
            await scenario(builder)
        loop.left = -1
        assert hip.running == []
        assert list(store.folder.glob(f"{store.locks.name}/*")) == []
        assert len(folders(store)) == len(builder._checks._kept)
        assert (await builder.build(request())).ok
        return not scope.cancelled_caught


@pytest.mark.parametrize("scenario", [check_then_build, build_warmed])
def test_cancelled_at_every_await(tmp_path: Path, scenario: Scenario) -> None:
    """No program still runs, no folder and no lock is left, and the next build is as if nothing had been."""
    number, through = 0, False
    while not through:
        number += 1 if number < 40 else 3
        loop = CountedLoop()
        with asyncio.Runner(loop_factory=partial(given, loop)) as runner:
            through = runner.run(cancelled_at(tmp_path / str(number), scenario, number, loop))
    assert number > 30
