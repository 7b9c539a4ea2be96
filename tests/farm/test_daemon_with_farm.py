"""The real daemon with a real scheduler and workers in processes of their own; the compiler is a script."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import SECONDS, TEMPLATE, Bench, build
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from farms import farm_bench
from farms.farm_bench import FarmBench, kill
from helpers.workspaces import gemm_kernel

NAMES = "abcdefgh"


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[FarmBench]:
    bench = Bench(tmp_path)
    bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {name: {"Tile": n} for n, name in enumerate(NAMES)}))
    made = FarmBench(bench)
    made.start_scheduler()
    yield made
    made.close()


def use(farm: FarmBench) -> None:
    """Name the farm in the workspace, and leave one compiler to this machine."""
    text = (farm.bench.root / "ckwatch.toml").read_text().replace("jobs = 2", "jobs = 1")
    farm.bench.write("ckwatch.toml", text + farm.settings())


async def slots(daemon: Daemon, wanted: int) -> None:
    """Return when the farm has room for so many compiles."""
    with anyio.fail_after(SECONDS):
        while (found := (await daemon.statuses.status()).farm) is None or found.slots != wanted:  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def warned(daemon: Daemon, wanted: str) -> str:
    """The daemon's sentence about the farm, when it has these words."""
    with anyio.fail_after(SECONDS):
        while wanted not in (said := (await daemon.statuses.status()).warnings.get("farm", "")):  # noqa: ASYNC110
            await anyio.sleep(0.05)
    return said


def there(farm: FarmBench) -> int:
    """How many artifacts workers have."""
    return len([*farm.bench.folder.glob("farm/store/artifacts/??/*/*")])


async def test_compiles_go_to_workers_and_come_back_as_if_made_here(farm: FarmBench) -> None:
    farm.start_worker(threads=2)
    use(farm)
    async with farm.bench.open() as daemon:
        await slots(daemon, 2)
        lines = await build(daemon)
        assert {line.unit.outcome for line in lines.values() if line.unit} == {"built"}
        assert {*farm.bench.runs} == {*map(str, range(len(NAMES)))}
        while not there(farm):  # on a busy machine this one may have been quicker
            await build(daemon, force=True)
    async with farm.bench.open() as daemon:  # another daemon finds everything in the store
        runs = len(farm.bench.runs)
        await build(daemon)
        assert len(farm.bench.runs) == runs


async def test_headers_of_the_workspace_are_sent(farm: FarmBench) -> None:
    farm.start_worker()
    use(farm)
    for name in ("one", "two"):
        farm.bench.write(f"templates/{name}.hpp", "#pragma once\n")
    farm.bench.write("templates/k.hip.j2", f'#include "one.hpp"\n#include "two.hpp"\n{TEMPLATE}')
    async with farm.bench.open() as daemon:
        await slots(daemon, 1)
        for _ in range(2):
            lines = await build(daemon, force=True)
            assert {line.unit.outcome for line in lines.values() if line.unit} == {"built"}
        assert there(farm) > 0
        sent = [path.name for path in (farm.bench.folder / "farm/trees").rglob("*.hpp")]
        assert sorted(sent) == ["one.hpp", "two.hpp"]


async def test_a_mistake_is_reported_at_its_place(farm: FarmBench) -> None:
    farm.start_worker(threads=2)
    use(farm)
    farm.bench.write("templates/k.hip.j2", TEMPLATE + "{% if Tile == 5 %}BROKEN{% endif %}\n")
    async with farm.bench.open() as daemon:
        await slots(daemon, 2)
        lines = await build(daemon)
        outcomes = {name: line.unit.outcome for name, line in lines.items() if line.unit}
        assert outcomes == {name: "failed" if name == "f" else "built" for name in NAMES}
        (error,) = [one for one in (await daemon.units.unit(MAIN, "k/f")).diagnostics if one.severity == "error"]
        assert error.message.startswith("BROKEN is no type")
        assert error.span.path.endswith("templates/k.hip.j2")


async def test_what_is_cancelled_ends_on_the_worker(farm: FarmBench) -> None:
    farm.start_worker(threads=8)
    use(farm)
    farm.bench.will("slow")
    async with farm.bench.open() as daemon:
        await slots(daemon, 8)
        async with daemon.builds.build(MAIN, None, force=False, check_only=False):
            await farm.bench.started(len(NAMES))
        with anyio.fail_after(SECONDS):
            while farm.bench.alive:  # noqa: ASYNC110
                await anyio.sleep(0.05)


async def test_compilers_end_when_their_daemon_is_gone(farm: FarmBench) -> None:
    farm.start_worker(threads=8)
    use(farm)
    farm.bench.will("slow")
    async with farm.bench.open() as daemon:
        await slots(daemon, 8)
        async with daemon.builds.build(MAIN, None, force=False, check_only=False):
            await farm.bench.started(len(NAMES))
            assert farm.scheduler is not None
            kill(farm.scheduler)
            await warned(daemon, "compiles run on this machine")
            with anyio.fail_after(SECONDS):
                while len(farm.bench.alive) > 1:  # noqa: ASYNC110  # one runs here
                    await anyio.sleep(0.05)


async def test_a_worker_that_is_killed_loses_nothing(farm: FarmBench) -> None:
    first = farm.start_worker(threads=4)
    use(farm)
    farm.bench.will("slow")
    async with farm.bench.open() as daemon:
        await slots(daemon, 4)
        async with daemon.builds.build(MAIN, None, force=False, check_only=False) as lines:
            await farm.bench.started(5)
            kill(first)
            farm.bench.will("slow", now=False)
            farm.start_worker(threads=4)  # which ends what the other has left
            with anyio.fail_after(SECONDS):
                while len(farm.bench.alive) > 1:  # noqa: ASYNC110  # one runs here
                    await anyio.sleep(0.05)
                os.kill(farm.bench.alive[0], signal.SIGKILL)
                outcomes = {
                    line.id: line.unit.outcome async for line in lines if line.event == "unit" and line.unit is not None
                }
        assert len(outcomes) == len(NAMES)
        assert sorted(map(str, outcomes.values())) == ["built"] * (len(NAMES) - 1) + ["faulted"]


async def test_a_worker_with_another_toolchain_gets_nothing(farm: FarmBench) -> None:
    farm.start_worker(FARM_TOOLCHAIN="compiler 2")
    use(farm)
    async with farm.bench.open() as daemon:
        said = await warned(daemon, "no worker of the farm has this toolchain")
        assert "compiles run on this machine" in said
        await build(daemon)
        assert there(farm) == 0


async def test_without_a_scheduler_everything_is_done_here(farm: FarmBench) -> None:
    use(farm)
    assert farm.scheduler is not None
    kill(farm.scheduler)
    async with farm.bench.open() as daemon:
        await warned(daemon, "does not answer")
        lines = await build(daemon)
        assert {line.unit.outcome for line in lines.values() if line.unit} == {"built"}
        farm.start_scheduler()
        farm.start_worker()
        await slots(daemon, 1)
        assert "farm" not in (await daemon.statuses.status()).warnings


SHAPE = '[[shape]]\nname = "a"\nM = 8\nN = 8\nK = 8\n'


async def test_a_timing_goes_to_the_machine_with_the_gpu(farm: FarmBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKWATCH_FARM_FOLDER", str(farm.bench.folder / "farm"))
    box = farm.start_worker(preload=str(Path(farm_bench.__file__).with_name("farm_gpu_worker.py")))
    use(farm)
    farm.bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {"a": {"Tile": 1}}) + SHAPE)
    async with farm.bench.open() as daemon:
        with anyio.fail_after(SECONDS):
            while "gpu-box" not in {  # noqa: ASYNC110
                one.machine for one in (await daemon.benchmarks.devices(again=False)).devices
            }:
                await anyio.sleep(0.1)
            async with daemon.benchmarks.bench(("k/a",), None, device=None, force=False) as lines:
                told = [line async for line in lines]
        (timing, *_) = [line.timing for line in told if line.timing is not None]
        assert timing.place == "hip:0 on gpu-box"
        assert timing.machine == "gpu-box"
        assert "timing" in [line.text for line in told if line.event == "stage"]
        kill(box)
        with anyio.fail_after(SECONDS):
            async with daemon.benchmarks.bench(("k/a",), None, device=None, force=True) as lines:
                told = [line async for line in lines]
        assert {line.known for line in told if line.timing is not None} == {True}, "what was measured stays"
        (why,) = [line.text for line in told if line.event == "skipped"]
        assert why
        assert "Traceback" not in why
