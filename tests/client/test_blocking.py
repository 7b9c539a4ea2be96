"""The client without `await`: in scripts, beside a running event loop, and with the types of the asynchronous one."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_type

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

import ckwatch
from benches.daemon_bench import KERNEL, Bench
from ckwatch import (
    BuildResult,
    CkwatchError,
    Client,
    SyncClient,
    TuningRun,
    UnitResult,
    UnknownUnitError,
    connect,
    connect_sync,
)
from ckwatch.client.blocking import SyncCpp
from ckwatch.client.cpp import CppClient
from ckwatch.wire.state import BuildLine, Unit
from fakes.patience import PATIENCE_S


@contextmanager
def client_of(bench: Bench) -> Iterator[SyncClient]:
    """As `connect_sync`, with a scripted compiler."""
    chosen = connect(bench.root, private=True, open_engine=lambda _root: bench.open())
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(chosen) as client:
        yield SyncClient(client, portal)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def methods_of(kind: type) -> set[str]:
    """The public ones, those of questions too."""
    return {name for name in dir(kind) if not name.startswith("_") and not isinstance(getattr(kind, name), property)}


def test_it_has_every_method() -> None:
    assert methods_of(SyncClient) == methods_of(Client) - {"leave"}
    assert methods_of(SyncCpp) == methods_of(CppClient)


def test_questions_are_methods_with_a_signature(bench: Bench) -> None:
    with client_of(bench) as client:
        for one in (client, client.client):
            assert list(inspect.signature(one.runs).parameters) == ["unit", "limit"]
            assert (one.runs.__doc__ or "").startswith("The unit's last compiles")


def program(client: SyncClient) -> None:
    """A script that does a bit of everything."""
    result = client.build("k/one")
    assert_type(result, BuildResult)
    assert result.ok
    assert_type(client.units(), list[Unit])
    assert [unit.instance for unit in client.units("k")] == ["one", "two"]
    with client.building("k") as lines:
        assert_type(lines, Iterator[BuildLine])
        assert [line.event for line in lines] == ["start", "unit", "unit", "done"]
    with client.sweep("k", {"Tile": [3, 4]}, base="one", name="mine") as sweep:
        found = [(result.id, result.ok) for result in sweep if assert_type(result, UnitResult)]
        assert sorted(found) == [("k/mine_3@gfx942", True), ("k/mine_4@gfx942", True)]
        assert list(sweep.units) == ["k/mine_3@gfx942", "k/mine_4@gfx942"]
    with client.overlay("k.kernel.toml", KERNEL.replace("Tile = 1", "Til = 1")) as overlay:
        assert [result.id for result in client.check().failed] == ["k/one@gfx942"]
        overlay.change(KERNEL)
        assert client.check().ok
    with client.events() as events:
        assert next(change.topic for change in events if change.topic.startswith("unit/")) == "unit/k/one@gfx942"
    assert_type(client.tuning_runs(), list[TuningRun])
    with client.tuning_changes() as changes:
        assert next(changes) is None
    with pytest.raises(CkwatchError, match="there is no tuning run 5"):
        client.tuning_record(5)
    with pytest.raises(UnknownUnitError, match="is called 'kk/x'"):
        client.unit("kk/x")
    assert client.root.name == "ws ü"


def test_a_script(bench: Bench) -> None:
    with client_of(bench) as client:
        program(client)


async def test_beside_a_running_loop(bench: Bench) -> None:
    """As in a notebook, whose cells run on a loop."""
    with client_of(bench) as client:
        program(client)


def test_of_several_threads(bench: Bench) -> None:
    with client_of(bench) as client:
        found: list[bool] = []
        threads = [threading.Thread(target=lambda: found.append(client.build().ok)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [True] * 4


INTERRUPTED_EVERYWHERE = """
import gc, signal, sys, time
from contextlib import asynccontextmanager
import anyio
from anyio.from_thread import start_blocking_portal
from ckwatch.client import blocking

counts = {"entered": 0, "left": 0}

@asynccontextmanager
async def context():
    counts["entered"] += 1
    try:
        yield
    finally:
        counts["left"] += 1

def program():
    with blocking._held(start_blocking_portal()) as portal:
        loop = blocking._Loop(portal)
        with loop.context(context()):
            loop.run(anyio.lowlevel.checkpoint)
            loop.run(anyio.lowlevel.checkpoint)

def interrupting(at):
    seen = 0
    def trace(frame, event, argument):
        nonlocal seen
        seen += 1
        if seen == at:
            signal.raise_signal(signal.SIGINT)
        return trace
    sys.settrace(trace)
    try:
        program()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return seen >= at

at = 1
while interrupting(at):
    at += 1
    print(at, flush=True)
gc.collect()
while counts["entered"] != counts["left"]:
    time.sleep(0.01)
"""


def test_an_interrupt_anywhere_hangs_nothing_and_leaves_every_context() -> None:
    """Ctrl-C at each step of the main thread in turn."""
    command = [sys.executable, "-c", INTERRUPTED_EVERYWHERE]
    ended = subprocess.run(command, timeout=PATIENCE_S, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.split()[-1]) > 100


def test_an_interrupt_ends_a_script(tmp_path: Path, trusted: Path) -> None:
    (tmp_path / "ckwatch.toml").touch()
    script = """
import sys
from ckwatch import connect_sync
with connect_sync(sys.argv[1], private=True) as client, client.events() as events:
    print("begun", flush=True)
    while True:
        next(events)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_connect_sync_finds_the_workspace(tmp_path: Path, trusted: Path) -> None:
    with pytest.raises(ckwatch.CkwatchError, match=r"ckwatch\.toml"), connect_sync(tmp_path):
        pass
    (tmp_path / "ckwatch.toml").touch()
    with connect_sync(tmp_path, private=True) as client:
        assert client.root == tmp_path
        assert client.units() == []


async def each_way(client: Client) -> None:
    """Code that uses tasks, streams, time limits and threads."""
    assert (await client.build("k/one")).ok
    async with client.building("k") as lines:
        assert [line.event async for line in lines] == ["start", "unit", "unit", "done"]
    async with client.sweep("k", {"Tile": [3, 4]}, base="one") as sweep:
        assert [result.ok async for result in sweep] == [True, True]
    async with client.events() as events:
        async for change in events:
            if change.topic == "workspace":
                break
        with anyio.move_on_after(0.01):
            async for _ in events:
                pass
    async with client.tuning_changes() as tunings:
        async for _ in tunings:
            assert await client.tuning_runs("k") == []
            break
        with anyio.move_on_after(0.01):
            await anext(tunings)
    async with client.overlay("k.kernel.toml", KERNEL.replace("Tile = 1", "Til = 1")):
        assert not (await client.check("k/one")).ok
    with pytest.raises(UnknownUnitError):
        await client.unit("k/x")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_either_event_loop(backend: str, bench: Bench) -> None:
    async def main() -> None:
        async with connect(bench.root, private=True, open_engine=lambda _root: bench.open()) as client:
            await each_way(client)

    anyio.run(main, backend=backend)
