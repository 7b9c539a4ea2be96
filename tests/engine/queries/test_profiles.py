"""What a unit's profile is compared with: profiles that were kept beside earlier artifacts, and other units."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import TEMPLATE, build, following
from benches.isa_bench import FIRST, SYMBOL, UNIT, IsaBench
from ckwatch.bench.worker_protocol import LaunchCounted
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.engine.handlers.verify import EmulatorRun
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.instruction_counts import InstructionCounts, KernelCounts
from ckwatch.model.verification import Verification
from ckwatch.wire.analysis import UnitProfile
from engine.test_figures import baseline
from fakes.fake_verifications import FakeEmulator
from fakes.patience import PATIENCE_S
from helpers.workspaces import gemm_kernel


class CountingEmulator(FakeEmulator):
    """Counts `turns` of LDS, `counted` times so far, `with_verifications` of these at the end of one."""

    turns = 16
    counted = with_verifications = 0

    def __init__(self) -> None:
        super().__init__()
        self.began = anyio.Event()

    async def __call__(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> Verification:
        self.began.set()
        found = await super().__call__(run, on_stage)
        if run.on_counted is not None:
            self.with_verifications += 1
            run.on_counted(await self.count(run, on_stage))
        return found

    async def count(self, _run: EmulatorRun, _on_stage: Callable[[str], None]) -> LaunchCounted:
        self.counted += 1
        counted = InstructionCounts(8, 512, accesses=8, turns=self.turns, phases=16, fullest=self.turns // 16)
        kernel = KernelCounts(
            symbol=SYMBOL, launches=1, workgroups=1, all_workgroups=1, instructions={FIRST + 4: counted}
        )
        return LaunchCounted(kernels=(kernel,))


@pytest.fixture
def emulator() -> CountingEmulator:
    return CountingEmulator()


@pytest.fixture
def bench(tmp_path: Path, emulator: CountingEmulator) -> IsaBench:
    made = IsaBench(tmp_path)
    made.emulator = emulator
    return made


async def profile(daemon: Daemon, against: str | None = None) -> UnitProfile:
    return await daemon.profiles.profile(MAIN, UNIT, None, lines=True, against=against)


def said(found: UnitProfile) -> tuple[str, list[tuple[str, int, tuple[str, ...]]]]:
    return found.against, [(Path(one.path).name, one.line, one.texts) for one in found.changes]


WORSE = ("previous", [("k.hip.j2", 1, ("LDS conflict 1 → 32 ways",))])


async def test_the_previous_artifact_is_the_last_other_one(bench: IsaBench, emulator: CountingEmulator) -> None:
    async with bench.open() as daemon:
        await build(daemon, UNIT)
        assert said(await profile(daemon, "previous")) == ("", [])
        emulator.turns = 16 * 32
        bench.write("templates/k.hip.j2", TEMPLATE.replace("{{ Tile }};", "{{ Tile }} + 1;"))
        await build(daemon, UNIT)
        assert said(await profile(daemon, "previous")) == WORSE
        assert said(await profile(daemon)) == ("", [])
        bench.write("templates/k.hip.j2", TEMPLATE.replace("{{ Tile }};", "{{ Tile }} + 1; // why"))
        await build(daemon, UNIT, force=True)
        assert said(await profile(daemon, "previous")) == WORSE
        assert emulator.counted == 2
    async with bench.open() as daemon:
        await build(daemon, UNIT)
        assert said(await profile(daemon, "previous")) == WORSE


async def test_a_stored_baseline(bench: IsaBench, emulator: CountingEmulator) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon, UNIT)
        await seen.until(lambda now: now.units["one"].figures is not None)
        with pytest.raises(CkwatchError, match="no timings in any baseline"):
            await profile(daemon, "baseline")
        await baseline(daemon, bench)
        assert said(await profile(daemon, "baseline")) == ("baseline", [])
        emulator.turns = 16 * 32
        bench.write("templates/k.hip.j2", TEMPLATE.replace("{{ Tile }};", "{{ Tile }} + 1;"))
        await build(daemon, UNIT)
        assert said(await profile(daemon, "baseline")) == ("baseline", WORSE[1])
        assert said(await profile(daemon, "baseline:first")) == ("baseline:first", WORSE[1])
        with pytest.raises(CkwatchError, match="no timings in the baseline 'second'"):
            await profile(daemon, "baseline:second")


async def test_a_baseline_that_was_not_profiled(bench: IsaBench) -> None:
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon, UNIT)
        await seen.until(lambda now: now.units["one"].figures is not None)
        await baseline(daemon, bench)
        bench.write("templates/k.hip.j2", TEMPLATE.replace("{{ Tile }};", "{{ Tile }} + 1;"))
        await build(daemon, UNIT)
        assert said(await profile(daemon, "baseline")) == ("", [])


async def test_other_units(bench: IsaBench) -> None:
    async with bench.open() as daemon:
        await build(daemon)
        other = UNIT.replace("one", "two")
        assert said(await profile(daemon, other)) == (other, [])
        assert said(await profile(daemon, other.partition("@")[0])) == (other, [])
        with pytest.raises(UnknownUnitError):
            await profile(daemon, "k/three")


async def test_a_profile_does_not_wait_for_a_verification(bench: IsaBench, emulator: CountingEmulator) -> None:
    emulator.gate = anyio.Event()
    async with bench.open() as daemon, anyio.create_task_group() as tasks:
        await build(daemon, UNIT)
        tasks.start_soon(verified, daemon)
        with anyio.fail_after(PATIENCE_S):
            await emulator.began.wait()
            assert (await profile(daemon)).kernels
        emulator.gate.set()


async def test_what_verifies_a_unit_that_was_profiled_counts_it_too(
    bench: IsaBench, emulator: CountingEmulator
) -> None:
    bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {"one": {"Tile": 1}}))
    async with bench.open() as daemon, anyio.create_task_group() as tasks:
        await build(daemon, UNIT)
        await profile(daemon)
        emulator.turns, emulator.gate, emulator.began = 16 * 32, anyio.Event(), anyio.Event()
        bench.write("templates/k.hip.j2", TEMPLATE.replace("{{ Tile }};", "{{ Tile }} + 1;"))
        await build(daemon, UNIT)
        with anyio.fail_after(PATIENCE_S):
            await emulator.began.wait()
            tasks.start_soon(opened_after_a_while, emulator.gate)
            assert said(await profile(daemon, "previous")) == WORSE
    assert (emulator.counted, emulator.with_verifications) == (2, 1)


async def opened_after_a_while(gate: anyio.Event) -> None:
    await anyio.wait_all_tasks_blocked()
    gate.set()


async def verified(daemon: Daemon) -> None:
    async with daemon.verifications.verify((UNIT,), shapes=(), force=False) as lines:
        assert [line.event async for line in lines][-1] == "done"
