"""Many workers that die at random, in one process: all results are right, and none is lost.

`CKWATCH_FARM_WORKERS=64 CKWATCH_FARM_COMPILES=5000` is the large version; it takes minutes. Compiles take no time and
leave the name of what was compiled, so that a result which belongs to another source is seen.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import dask
import pytest
from distributed import Scheduler, Worker

from benches.daemon_bench import BenchToolchain
from ckwatch.bench.report import BenchmarkFailure, Devices, FailureKind
from ckwatch.compile.build_events import BuildOptions
from ckwatch.compile.builder import Builder
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.farm.connection import FarmConnection
from ckwatch.farm.messages import CompileOptions, toolchain_identity
from ckwatch.farm.packing import FarmError
from ckwatch.farm.worker import NAME, FarmWorker
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ExitReason, ProcessResult
from fakes.fake_compiler import OBJECT, dynamic_symbols, elf
from fakes.patience import PATIENCE_S
from farms.farm_bench import until_slots

WORKERS = int(os.environ.get("CKWATCH_FARM_WORKERS", "8"))
COMPILES = int(os.environ.get("CKWATCH_FARM_COMPILES", "200"))
DEATH_EVERY_S = 0.3 * max(1, WORKERS // 8)


async def compile_at_once(
    arguments: list[str], *, environment: Mapping[str, str], folder: Path, **_: object
) -> ProcessResult:
    """In a compiler's place: an object, and a shared object that exports what it is to export."""
    await anyio.sleep(random.random() * 0.05)  # noqa: S311  # so that workers die amid a compile
    write(arguments, environment, folder)
    return ProcessResult(tuple(arguments), ExitReason.EXITED, 0, "", "", 0, 0.001, 1_000_000)


def write(arguments: list[str], environment: Mapping[str, str], folder: Path) -> None:
    """Return what it leaves."""
    output = folder / arguments[-1]
    if "-shared" in arguments:
        name = (folder / "exports.map").read_text().partition("global: ")[2].partition(";")[0]
        output.write_bytes(elf(dynamic_symbols((name, 1, 0, 5))))
    else:
        Path(environment["CC_PRINT_HEADERS_FILE"]).write_text(environment["HEADER"] + "\n")
        output.write_bytes(OBJECT)


@dataclass
class Farm:
    """A scheduler and workers in this process; each dead worker is followed by another."""

    folder: Path
    toolchain: Any
    scheduler: Scheduler
    workers: list[Worker]
    died: int = 0
    with_devices: bool = False

    async def add(self) -> None:
        """One more worker."""
        plugin = FarmWorker(
            self.folder / f"worker-{len(self.workers) + self.died}",
            find_toolchain=lambda: self.toolchain,
            launch=cast("Any", compile_at_once),
            with_devices=self.with_devices,
        )
        worker = Worker(
            self.scheduler.address,
            nthreads=1,
            dashboard=False,
            local_directory=str(self.folder / "dask"),
            memory_limit=0,
        )
        await worker
        await worker.plugin_add(plugin, name=NAME, catch_errors=False)
        self.workers.append(worker)

    async def kill_at_random(self) -> None:
        """Until cancelled: a worker vanishes amid its work, and another comes."""
        while True:
            await anyio.sleep(DEATH_EVERY_S)
            await self.kill(random.randrange(len(self.workers)))  # noqa: S311
            await self.add()

    async def kill(self, number: int) -> None:
        """A worker vanishes. One that is half closed would wait for its end for ever."""
        with anyio.CancelScope(shield=True):
            worker = self.workers.pop(number)
            await worker.close(timeout=0, executor_wait=False, nanny=False, reason="killed by the test")
        self.died += 1


@asynccontextmanager
async def farm_of(folder: Path, toolchain: Any, workers: int = WORKERS) -> AsyncIterator[Farm]:
    dask.config.set({"distributed.admin.system-monitor.interval": "1h"})  # 64 of them would keep a core busy
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0") as scheduler:
        farm = Farm(folder, toolchain, scheduler, [])
        try:
            for _ in range(workers):
                await farm.add()
            yield farm
        finally:
            for worker in farm.workers:
                await worker.close(timeout=0, executor_wait=False, nanny=False)


@pytest.fixture
def toolchain(tmp_path: Path) -> Any:
    header = tmp_path / "include/h.h"
    header.parent.mkdir()
    header.write_text("int h;\n")
    program = tmp_path / "hipcc"
    return BenchToolchain(
        program, program, roots={"fake": header.parent}, include_folders=(header.parent,),
        environment={"HEADER": str(header)},
    )  # fmt: skip


async def test_workers_that_die_lose_nothing(tmp_path: Path, toolchain: Any) -> None:
    with ArtifactStore(tmp_path / "store") as store:
        identity = toolchain_identity(toolchain, store.contents)
        builder = Builder(toolchain, store, launch=cast("Any", compile_at_once))
        found: dict[int, str] = {}
        here = 0
        async with farm_of(tmp_path, toolchain) as farm, anyio.create_task_group() as tasks:
            connection = await FarmConnection.open(farm.scheduler.address, None)
            elsewhere = partial(_compile, connection, toolchain=toolchain, identity=identity, contents=store.contents)
            numbers = iter(range(COMPILES))

            async def build() -> None:
                nonlocal here
                for number in numbers:
                    symbol = f"k_{number:06}"
                    request = CompileRequest(f"int {symbol}();\n", symbol, Language.HIP, "gfx942")
                    try:
                        result = await builder.build(request, BuildOptions(elsewhere=elsewhere))
                    except FarmError:
                        here += 1
                        result = await builder.build(request)
                    assert result.ok, result.message
                    assert result.artifact is not None
                    assert result.artifact.record.exports == (symbol,)
                    assert symbol in result.artifact.source_text
                    found[number] = result.artifact.key

            tasks.start_soon(farm.kill_at_random)
            with anyio.fail_after(PATIENCE_S * max(1, COMPILES // 500)):
                async with anyio.create_task_group() as building:
                    for _ in range(2 * WORKERS):
                        building.start_soon(build)
            tasks.cancel_scope.cancel()
            await connection.close()
        print(f"{COMPILES} compiles, {WORKERS} workers, {farm.died} deaths, {here} compiled here")
        assert found.keys() == {*range(COMPILES)}
        assert len({*found.values()}) == COMPILES
        assert store.verify() == []
        assert store.count() == COMPILES
        assert farm.died > 0


async def test_a_compile_that_waits_while_a_worker_is_replaced(tmp_path: Path, toolchain: Any) -> None:
    """A worker says what it can do when the scheduler has dealt out what waits."""
    request = CompileRequest("int k();\n", "k", Language.HIP, "gfx942")
    with ArtifactStore(tmp_path / "store") as store:
        identity = toolchain_identity(toolchain, store.contents)
        builder = Builder(toolchain, store, launch=cast("Any", compile_at_once))
        async with farm_of(tmp_path, toolchain, workers=1) as farm:
            connection = await FarmConnection.open(farm.scheduler.address, None)
            other = await FarmConnection.open(farm.scheduler.address, None)
            elsewhere = partial(_compile, connection, toolchain=toolchain, identity=identity, contents=store.contents)
            with anyio.fail_after(PATIENCE_S):
                await farm.kill(0)
                for address in [*farm.scheduler.workers]:  # it has not noticed yet
                    await farm.scheduler.remove_worker(address, stimulus_id="killed")
                async with anyio.create_task_group() as tasks:
                    results = []

                    async def build() -> None:
                        results.append(await builder.build(request, BuildOptions(elsewhere=elsewhere)))

                    tasks.start_soon(build)
                    while not farm.scheduler.unrunnable:  # noqa: ASYNC110  # dask sets no event
                        await anyio.sleep(0.01)
                    await farm.add()
                    await until_slots(other, identity)
                    while not results:
                        await connection.refresh()
                        await anyio.sleep(0.01)
            await connection.close()
            await other.close()
        (result,) = results
        assert result.ok, result.message


@asynccontextmanager
async def compiling_worker(folder: Path, toolchain: Any) -> AsyncIterator[FarmConnection]:
    """A farm whose one worker looks for devices, and has offered its compiler."""
    with ArtifactStore(folder / "store") as store:
        identity = toolchain_identity(toolchain, store.contents)
    async with farm_of(folder, toolchain, workers=0) as farm:
        farm.with_devices = True
        await farm.add()
        connection = await FarmConnection.open(farm.scheduler.address, None)
        await until_slots(connection, identity)
        yield connection
        assert connection.slots(identity) == 1
        await connection.close()


async def test_a_compiler_is_offered_before_a_driver_has_begun(
    tmp_path: Path, toolchain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = DeviceFacts(name="hip:0", description="test data", arch="gfx942", pci="0000:c1:00.0")
    has_begun = anyio.Event()

    async def find_devices(_: object) -> Devices:
        await has_begun.wait()
        return Devices(devices=(gpu,))

    monkeypatch.setattr("ckwatch.farm.worker.find_devices", find_devices)
    async with compiling_worker(tmp_path, toolchain) as connection:
        assert [one.facts.devices for one in connection.workers] == [()]
        has_begun.set()
        with anyio.fail_after(PATIENCE_S):
            while not any(one.facts.devices for one in connection.workers):
                await anyio.sleep(0.1)
                await connection.refresh()
        (worker,) = connection.workers
        assert [replace(one, machine="") for one in worker.facts.devices] == [gpu]


async def test_a_worker_whose_devices_cannot_be_found_compiles(
    tmp_path: Path, toolchain: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    has_failed = anyio.Event()

    async def find_devices(_: object) -> BenchmarkFailure:
        has_failed.set()
        return BenchmarkFailure(kind=FailureKind.HUNG, message="the driver does not answer")

    monkeypatch.setattr("ckwatch.farm.worker.find_devices", find_devices)
    async with compiling_worker(tmp_path, toolchain) as connection:
        with anyio.fail_after(PATIENCE_S):
            await has_failed.wait()
        await connection.refresh()
        assert [one.facts.devices for one in connection.workers] == [()]
        assert "no devices are offered: the driver does not answer" in caplog.text


async def test_what_waits_ends_with_the_connection(tmp_path: Path, toolchain: Any) -> None:
    request = CompileRequest("int k();\n", "k", Language.HIP, "gfx942")
    with ArtifactStore(tmp_path / "store") as store:
        identity = toolchain_identity(toolchain, store.contents)
        async with farm_of(tmp_path, toolchain, workers=0) as farm:
            connection = await FarmConnection.open(farm.scheduler.address, None)
            compiled = partial(_compile, connection, request, tmp_path, toolchain=toolchain, identity=identity)

            async def close() -> None:
                while not farm.scheduler.unrunnable:  # noqa: ASYNC110  # dask sets no event
                    await anyio.sleep(0.01)
                await connection.close()

            with anyio.fail_after(PATIENCE_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(close)
                    with pytest.raises(FarmError):
                        await compiled(contents=store.contents)
                with pytest.raises(FarmError, match="has ended"):
                    await compiled(contents=store.contents)


async def _compile(connection: FarmConnection, request: CompileRequest, folder: Path, **how: Any) -> Any:
    return await connection.compile(request, folder, **how, options=CompileOptions())
