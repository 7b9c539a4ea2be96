"""The client with the daemon itself, whose compiler is a script."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from benches.daemon_bench import SECONDS, Bench
from ckwatch.client import Client, DaemonGoneError, connect
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.wire.endpoint import endpoint_of, owner
from helpers.in_own_task import in_own_task

KERNEL_FILE = "k.kernel.toml"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = Bench(tmp_path_factory.mktemp("client"))
    settings = (made.root / "ckwatch.toml").read_text()
    made.write("ckwatch.toml", settings + "[limits]\ninstances = 6\n")
    return made


@pytest.fixture
async def client(bench: Bench) -> AsyncIterator[Client]:
    async with in_own_task(connect(bench.root, private=True, open_engine=lambda _root: bench.open())) as client:
        yield client


async def swept(client: Client, kernel: str = "k", *given: Any, **more: Any) -> dict[str, tuple[Any, bool]]:
    async with client.sweep(kernel, *given, **more) as sweep:
        return {result.id: (dict(result.parameters), result.ok) async for result in sweep}


async def test_a_sweep_leaves_nothing(client: Client, bench: Bench) -> None:
    before = (bench.root / KERNEL_FILE).read_text()
    assert await swept(client, "k", {"Tile": [3, 4]}, base="one", name="mine") == {
        "k/mine_3@gfx942": ({"Tile": 3}, True),
        "k/mine_4@gfx942": ({"Tile": 4}, True),
    }
    assert sorted(bench.runs) == ["3", "4"]
    assert (bench.root / KERNEL_FILE).read_text() == before
    assert [unit.instance for unit in await client.units()] == ["one", "two"]


async def test_instances_one_by_one(client: Client) -> None:
    built = await swept(client, instances=[{"Tile": 5}, {}], base="two")
    assert sorted(built) == ["k/sweep_0@gfx942", "k/sweep_1@gfx942"]
    assert all(ok for _, ok in built.values())
    found = await swept(client, instances=[{"Tile": 5}, {}], base="two", check_only=True)
    assert found == {"k/sweep_0@gfx942": ({"Tile": 5}, True), "k/sweep_1@gfx942": ({}, True)}


async def test_sweeps_of_one_client_stand_beside_each_other(client: Client) -> None:
    async with (
        client.overlay(KERNEL_FILE, (client.root / KERNEL_FILE).read_text().replace('"two"', '"sweep_9"')),
        client.sweep("k", {"Tile": [3]}, base="one", check_only=True) as first,
        client.sweep("k", {"Tile": [4]}, base="sweep_9", check_only=True) as second,
    ):
        assert (list(first.units), list(second.units)) == (["k/sweep2_3@gfx942"], ["k/sweep3_4@gfx942"])
        assert [result.ok async for result in first] == [True]
        assert [result.ok async for result in second] == [True]
        instances = [unit.instance for unit in await client.units()]
    assert instances == ["one", "sweep_9", "sweep2_3", "sweep3_4"]


async def test_an_instance_that_does_not_compile(client: Client) -> None:
    assert await swept(client, "k", {"Tile": ["BROKEN"]}, base="one") == {
        "k/sweep_BROKEN@gfx942": ({"Tile": "BROKEN"}, False)
    }


@pytest.mark.parametrize(
    ("kernel", "given", "kind", "message"),
    [
        ("nope", {"parameters": {"Tile": [1]}}, UnknownUnitError, "is called 'nope'"),
        ("k/one", {"parameters": {"Tile": [1]}}, CkwatchError, "'k/one' is not a kernel\nsweep the kernel 'k'"),
        ("k", {"parameters": {"Tile": [1]}, "base": "on"}, UnknownUnitError, "is called 'on'\ndid you mean 'one'"),
        ("k", {"parameters": {"Tile": [1]}, "base": "x"}, UnknownUnitError, "instances of 'k': one, two"),
        ("k", {"parameters": {"Tile": []}}, CkwatchError, "the sweep is empty"),
        ("k", {}, CkwatchError, "needs either parameters or instances"),
        ("k", {"parameters": {}, "instances": []}, CkwatchError, "needs either parameters or instances"),
        ("k", {"parameters": {"Tile": 1}, "name": "one"}, CkwatchError, "the kernel has an instance `one`"),
        ("k", {"parameters": {"Tile": range(9)}}, CkwatchError, "11 instances; the limit is 6"),
        ("k", {"parameters": {"Tile": [9]}, "name": "a/b"}, CkwatchError, "k.kernel.toml: .*a/b_9"),
        ("k", {"parameters": {"range": [9]}}, CkwatchError, "k.kernel.toml: .*range"),
    ],
)
async def test_mistakes(
    client: Client, kernel: str, given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        await swept(client, kernel, **given)
    assert [unit.instance for unit in await client.units()] == ["one", "two"]


async def test_an_overlay_is_seen_at_once(client: Client, bench: Bench) -> None:
    template = bench.root / "templates/k.hip.j2"
    async with client.overlay(template, "int tile = {{ Nope }};\n") as overlay:
        checked = await client.check("k/one")
        assert [found.message for found in checked.units[0].diagnostics] == ["'Nope' is undefined"]
        assert list(checked.diagnostics) == [str(template)]
        assert [found.code for found in await client.diagnostics("templates/k.hip.j2")] == ["template/undefined"]
        await overlay.change(template.read_text())
        assert (await client.check("k/one")).ok
    assert (await client.check("k/one")).ok


async def test_events_show_this_clients_view(client: Client) -> None:
    async with client.overlay("templates/k.hip.j2", "{{ Nope }}"), client.events() as events:
        async for change in events:
            if (
                change.topic.startswith("unit/")
                and change.state
                and change.state.kind == "unit"
                and change.state.errors
            ):
                break


async def test_another_spelling_of_the_workspace(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "way in").symlink_to(bench.root)
    async with connect(tmp_path / "way in", private=True, open_engine=lambda _root: bench.open()) as client:
        assert client.root == bench.root
        async with client.overlay(tmp_path / "way in/templates/k.hip.j2", "{{ Nope }}"):
            assert not (await client.check("k/one")).ok


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = Bench(tmp_path).root
    yield root
    process = owner(endpoint_of(root))
    if process is not None:
        os.kill(process, signal.SIGKILL)


async def test_a_daemon_is_started_killed_started_again_and_stopped(root: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with connect(root, trust=True) as client, connect(root) as other:
            first = (await client.status()).pid
            assert (await other.status()).pid == first != os.getpid()
            async with client.overlay("templates/k.hip.j2", "{{ Nope }}"), client.events() as events:
                await anext(events)
                os.kill(first, signal.SIGKILL)
                async for change in events:
                    if change.state and change.state.kind == "file" and change.state.diagnostics:
                        break  # the next daemon got the text again
                assert not (await client.check("k/one")).ok
                second = (await client.status()).pid
            assert second != first
            assert (await other.check("k/one")).ok
            await client.stop()
            assert owner(endpoint_of(root)) is None
        with pytest.raises(DaemonGoneError):
            async with connect(root, start=False):
                pytest.fail("it was stopped")
