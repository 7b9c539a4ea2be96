"""Sweeps skip what the instance rules refuse: in builds, in files' diagnostics, and in sweeps of clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benches.daemon_bench import Bench
from cases.sweeps import sweep_table, swept_workspace
from ckwatch.client import Client, connect

REASON = "MPerBlock % (MPerXdl * MXdlPerWave) == 0"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    (made.root / "k.kernel.toml").unlink()
    return made


@asynccontextmanager
async def client_of(bench: Bench) -> AsyncIterator[Client]:
    async with connect(bench.root, private=True, open_engine=lambda _root: bench.open()) as client:
        yield client


async def sweep_messages(client: Client, path: Path) -> list[tuple[str, str]]:
    """Return the messages at the sweep: in the file, and among the workspace's own."""
    code = "kernel-file/skipped-combinations"
    in_file = [one for one in await client.diagnostics(path) if one.code == code]
    in_workspace = [one for one in (await client.workspace()).diagnostics if one.code == code]
    assert in_file == in_workspace
    return [(one.severity, one.message) for one in in_file]


async def test_a_refused_combination_is_no_failure(bench: Bench) -> None:
    path = swept_workspace(bench.root, sweep_table([2, 3]))
    async with client_of(bench) as client:
        built = await client.build()
        outcomes = {one.id.partition("@")[0]: one.unit and one.unit.outcome for one in built.units}
        assert outcomes == {"k/one": "built", "k/s_2": "built", "k/s_3": "skipped"}
        assert (built.ok, built.failed) == (True, ())
        (skipped,) = (one for one in built.units if one.skipped)
        assert (skipped.ok, skipped.unit and skipped.unit.errors) == (False, 0)
        assert [one.code for one in skipped.diagnostics if one.severity == "information"][:1] == ["rule/m-per-block"]
        expected = f"1 of 2 combinations are skipped, which break rules: 1 × {REASON}"
        assert await sweep_messages(client, path) == [("information", expected)]
        assert "rule/m-per-block" not in {one.code for one in await client.diagnostics(path)}
        detail = await client.unit("k/s_3")
        assert (detail.standing, detail.unit.phase) == ("skipped by its sweep: an instance rule refuses it", "done")
        swept_workspace(bench.root, sweep_table([2]))
        assert (await client.check()).ok
        assert await sweep_messages(client, path) == []


async def test_a_sweep_of_which_all_are_refused_is_an_error(bench: Bench) -> None:
    path = swept_workspace(bench.root, sweep_table([3, 5]))
    async with client_of(bench) as client:
        assert [one.skipped for one in (await client.check()).units] == [False, True, True]
        ((severity, message),) = await sweep_messages(client, path)
        assert severity == "error"
        assert message.startswith("sweep `s` makes nothing that can be compiled: all 2 combinations break rules: 1 × ")


async def test_an_instance_that_is_written_out_fails(bench: Bench) -> None:
    swept_workspace(bench.root, "", m_xdl=3)
    async with client_of(bench) as client:
        (failed,) = (await client.check()).failed
        assert failed.first_error is not None
        assert (failed.errors, failed.first_error.code) == (1, "rule/m-per-block")


async def test_other_errors_of_a_sweep_are_errors(bench: Bench) -> None:
    swept_workspace(bench.root, sweep_table([2, 3]).replace("[2, 3]", "[2, 3]\nNoSuch = 1"))
    async with client_of(bench) as client:
        assert len((await client.check()).failed) == 2


async def test_a_sweep_of_a_client(bench: Bench) -> None:
    swept_workspace(bench.root, "")
    async with client_of(bench) as client:
        derived = {"MXdlPerWave": lambda own: own["MPerBlock"] // 64}
        async with client.sweep("k", {"MPerBlock": [128, 192, 200]}, derived=derived, base="one") as sweep:
            found = {one.id: (one.parameters["MXdlPerWave"], one.ok, one.skipped) async for one in sweep}
        assert found == {
            "k/sweep_128@gfx942": (2, True, False),
            "k/sweep_192@gfx942": (3, True, False),
            "k/sweep_200@gfx942": (3, False, True),
        }
        assert sweep.skipped == {"k/sweep_200@gfx942": "rule/m-per-block"}
        assert sweep.summary == f"1 of 3 combinations are skipped, which break rules: 1 × {REASON}"
