"""The real hipcc on a worker: what comes back is what this machine would have made."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import Bench
from ckwatch.compile.build_events import BuildOptions
from ckwatch.compile.builder import Builder
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.precompiled_headers import HEADER_NAME
from ckwatch.compile.request import CompileOutcome, CompileRequest
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import Artifact, ProductKind
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.installations import read_manifest
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.farm.connection import FarmConnection
from ckwatch.farm.giving import PIECE_BYTES, pack_toolchain, receive
from ckwatch.farm.messages import CompileOptions, toolchain_identity
from ckwatch.model.errors import ToolchainError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import run_process
from fakes.patience import PATIENCE_S
from farms.farm_bench import FarmBench, until_slots

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(600)]

SOURCE = """\
#include <hip/hip_runtime.h>
#include "own/scale.hpp"
__global__ void scale(float* x) {{ x[threadIdx.x] = own::scaled(x[threadIdx.x], {factor}); }}
extern "C" __attribute__((visibility("default"))) int k(float* x, hipStream_t stream) {{
    scale<<<dim3(1), dim3(64), 0, stream>>>(x);
    return {returned};
}}
"""
OWN = """\
#pragma once
#include "file.hpp"
namespace own {
inline __device__ float scaled(float x, int factor) { return x * factor + file()[0]; }
}
"""
FILE = "namespace own { inline __device__ const char* file() { return __FILE__; } }\n"


@dataclass
class RealFarm:
    """A worker with this machine's toolchain, a connection with it, and this machine's store."""

    connection: FarmConnection
    toolchain: Toolchain
    identity: str
    store: ArtifactStore
    workspace: Path

    def request(self, factor: int, returned: str = "0") -> CompileRequest:
        source = SOURCE.format(factor=factor, returned=returned)
        return CompileRequest(source, "k", Language.HIP, "gfx942", include_folders=(self.workspace,))

    def builder(self, store: ArtifactStore) -> Builder:
        return Builder(self.toolchain, store, make_ladder=lambda: StagedCompiler(self.toolchain, store, run_process))

    async def elsewhere(self, request: CompileRequest, folder: Path, *, precompile: bool = False) -> CompileOutcome:
        options = CompileOptions(precompile=precompile)
        return await self.connection.compile(
            request, folder, self.toolchain, self.identity, self.store.contents, options
        )


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[FarmBench]:
    """A worker on a machine without a toolchain."""
    farm = FarmBench(Bench(tmp_path))
    farm.start_scheduler()
    nothing = str(tmp_path / "nothing")
    farm.start_worker(
        preload="ckwatch.farm.worker", XDG_CACHE_HOME=nothing, PATH=os.defpath, ROCM_PATH="",
        CKWATCH_FARM_FOLDER=str(tmp_path / "worker"),
    )  # fmt: skip
    yield farm
    farm.close()


async def test_a_machine_without_a_toolchain_is_given_one(bare: FarmBench, tmp_path: Path) -> None:
    async with real_farm(bare, tmp_path, slots=False) as farm:
        if read_manifest(farm.toolchain.root.parent) is None:
            pytest.skip("the toolchain here was not installed by ckwatch")
        packed = await anyio.to_thread.run_sync(pack_toolchain, farm.toolchain, farm.identity, tmp_path / "packed")
        assert farm.connection.slots(farm.identity) == 0
        sent: list[int] = []
        (worker,) = farm.connection.workers
        begin = list(itertools.islice(packed.pieces(0), 2))
        for offset, piece in begin:  # as if the daemon had been stopped
            await anyio.to_thread.run_sync(receive, tmp_path / "worker", packed.sha256, offset, piece)
        await farm.connection.give(worker, packed, sent.append)
        assert sent[0] > 2 * PIECE_BYTES, "what has arrived is not sent again"
        assert sent[-1] == packed.size_bytes
        await until_slots(farm.connection, farm.identity)
        there = await farm.builder(farm.store).build(farm.request(3), BuildOptions(elsewhere=farm.elsewhere))
        assert there.ok, there.message
        assert there.artifact is not None
        with ArtifactStore(tmp_path / "other") as other:
            here = await farm.builder(other).build(farm.request(3))
            assert here.artifact is not None
            assert (there.key, there.artifact.headers) == (here.key, here.artifact.headers)
        kept = {path.name for path in (tmp_path / "worker/given").iterdir()} - {".lock"}
        assert kept == {farm.identity}, "nothing else is left"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmBench]:
    monkeypatch.setenv("CKWATCH_FARM_FOLDER", str(tmp_path / "worker"))
    farm = FarmBench(Bench(tmp_path))
    farm.start_scheduler()
    farm.start_worker(preload="ckwatch.farm.worker")
    yield farm
    farm.close()


@asynccontextmanager
async def real_farm(bench: FarmBench, tmp_path: Path, *, slots: bool = True) -> AsyncIterator[RealFarm]:
    workspace = tmp_path / "my workspace"
    (workspace / "own").mkdir(parents=True)
    (workspace / "own/scale.hpp").write_text(OWN)
    (workspace / "own/file.hpp").write_text(FILE)
    for path in workspace.rglob("*.hpp"):
        os.utime(path, (1, 1))
    try:
        toolchain = replace(await anyio.to_thread.run_sync(discover), workspace=workspace)
    except ToolchainError as error:
        pytest.skip(str(error))
    with ArtifactStore(tmp_path / "here") as store:
        identity = await anyio.to_thread.run_sync(toolchain_identity, toolchain, store.contents)
        connection = await FarmConnection.open(bench.address, None)
        farm = RealFarm(connection, toolchain, identity, store, workspace)
        with anyio.fail_after(PATIENCE_S):
            while not connection.workers:
                await anyio.sleep(0.1)
                await connection.refresh()
        if slots:
            await until_slots(farm.connection, farm.identity)
        yield farm
        await connection.close()


def assert_same_products(there: Artifact, here: Artifact) -> None:
    """To the byte, and of the same headers."""
    assert there.headers == here.headers
    assert there.products == here.products
    for kind in ProductKind:
        theirs, ours = there.product(kind.value), here.product(kind.value)
        assert (theirs is None) == (ours is None), kind
        if theirs is not None and ours is not None:
            assert theirs.read_bytes() == ours.read_bytes(), kind


async def test_a_worker_makes_the_same_to_the_byte(bench: FarmBench, tmp_path: Path) -> None:
    async with real_farm(bench, tmp_path) as farm:
        request = farm.request(3)
        there = await farm.builder(farm.store).build(request, BuildOptions(elsewhere=farm.elsewhere))
        assert there.ok, there.message
        assert there.artifact is not None
        with ArtifactStore(tmp_path / "other") as other:
            here = await farm.builder(other).build(request)
            assert here.artifact is not None
            assert (there.key, there.artifact.headers) == (here.key, here.artifact.headers)
            assert_same_products(there.artifact, here.artifact)
        again = await farm.builder(farm.store).build(request)
        assert again.from_store


async def test_a_worker_precompiles_headers_while_it_compiles_nothing(bench: FarmBench, tmp_path: Path) -> None:
    made = tmp_path / "worker/store/precompiled"
    async with real_farm(bench, tmp_path) as farm:
        assert (await farm.builder(farm.store).build(farm.request(3), BuildOptions(elsewhere=farm.elsewhere))).ok
        elsewhere = partial(farm.elsewhere, precompile=True)
        assert (await farm.builder(farm.store).build(farm.request(4), BuildOptions(elsewhere=elsewhere))).ok
        with anyio.fail_after(PATIENCE_S):
            while len([*made.glob(f"*/{HEADER_NAME}")]) < len(PassSide):  # noqa: ASYNC110  # another process makes them
                await anyio.sleep(0.1)
        there = await farm.builder(farm.store).build(farm.request(5), BuildOptions(elsewhere=elsewhere))
        without = await farm.builder(farm.store).build(farm.request(6), BuildOptions(elsewhere=farm.elsewhere))
        assert there.artifact is not None
        assert without.artifact is not None
        assert [_precompiled(artifact) for artifact in (there.artifact, without.artifact)] == [len(PassSide), 0]
        with ArtifactStore(tmp_path / "other") as other:
            here = await farm.builder(other).build(farm.request(5))
            assert here.artifact is not None
            assert _precompiled(here.artifact) == 0
            assert_same_products(there.artifact, here.artifact)


def _precompiled(artifact: Artifact) -> int:
    """How many of its passes read a precompiled header."""
    return sum("-include-pch" in command.arguments for command in artifact.record.commands)


async def test_a_mistake_is_reported_as_here(bench: FarmBench, tmp_path: Path) -> None:
    async with real_farm(bench, tmp_path) as farm:
        result = await farm.builder(farm.store).build(
            farm.request(4, "nothing"), BuildOptions(elsewhere=farm.elsewhere)
        )
        assert not result.ok
        assert result.artifact is not None, "a failed compile is kept, too"
        assert result.log.startswith("kernel.hip:6:12:")
        assert "use of undeclared identifier 'nothing'" in result.log
        (farm.workspace / "own/scale.hpp").write_text(OWN.replace("* factor", "* factr"))
        result = await farm.builder(farm.store).build(farm.request(5), BuildOptions(elsewhere=farm.elsewhere))
        assert f"{farm.workspace}/own/scale.hpp:4:" in result.log, "its place is that of this machine"
