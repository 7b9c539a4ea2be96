"""Work that a client starts, and work that it does not: checks compile nothing, sweeps can be timed, units are found by any name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from benches.daemon_bench import KERNEL, SECONDS, TEMPLATE, Bench
from ckwatch.client import Client, connect
from ckwatch.core.effects import Record
from ckwatch.core.events import RecordFinished
from ckwatch.engine.handlers import history_recorder
from ckwatch.model.errors import UnknownUnitError
from engine.timed_workspace import Timed

THREE = KERNEL.replace('"one"', '"three"').replace("Tile = 1", "Tile = 3")


@asynccontextmanager
async def client_of(bench: Bench) -> AsyncIterator[Client]:
    async with connect(bench.root, private=True, open_engine=lambda _root: bench.open()) as client:
        yield client


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A workspace whose `[daemon] build` is what it is by default."""
    made = Bench(tmp_path)
    made.write("ckwatch.toml", (made.root / "ckwatch.toml").read_text().partition("[daemon]")[0])
    return made


async def nothing(_bench: Bench, _client: Client) -> None:
    pass


async def a_new_kernel_file(bench: Bench, _client: Client) -> None:
    bench.write("new.kernel.toml", THREE)


async def a_template(bench: Bench, _client: Client) -> None:
    bench.write("templates/k.hip.j2", TEMPLATE + "int more;\n")


async def a_parameter(bench: Bench, _client: Client) -> None:
    bench.write("k.kernel.toml", THREE)


async def a_header(bench: Bench, client: Client) -> None:
    await client.build()
    bench.header.write_text("int other;\n")


@pytest.mark.parametrize("edit", [nothing, a_new_kernel_file, a_template, a_parameter, a_header])
async def test_a_check_starts_no_compiler(edit: Callable[[Bench, Client], Awaitable[None]], bench: Bench) -> None:
    async with client_of(bench) as client:
        await client.check()
        await edit(bench, client)
        before = bench.runs
        checked = await client.check()
        assert (checked.ok, checked.failed) == (True, ())
        # a unit that is to be compiled is queued when its check is answered
        assert {result.unit and result.unit.phase for result in checked.units} == {"idle"}
        assert bench.runs == before


async def test_nor_where_files_changed_while_no_daemon_ran(bench: Bench) -> None:
    async with client_of(bench) as client:
        assert (await client.build()).ok
    bench.write("k.kernel.toml", THREE)
    async with client_of(bench) as client:
        checked = await client.check("k/three")
        assert (checked.ok, checked.units[0].unit and checked.units[0].unit.phase) == (True, "idle")
    assert len(bench.runs) == 2


async def test_nor_does_a_sweep_that_only_checks(bench: Bench) -> None:
    async with (
        client_of(bench) as client,
        client.sweep("k", {"Tile": [5, 6]}, base="one", check_only=True) as sweep,
    ):
        found = [result async for result in sweep]
        assert [(result.ok, result.unit and result.unit.phase) for result in found] == [(True, "idle")] * 2
    assert bench.runs == []


async def test_what_is_edited_is_compiled_while_somebody_looks(bench: Bench) -> None:
    async with client_of(bench) as client, client_of_events(client) as until:
        await client.focus("k/two")
        await until("k/two@gfx942", "built")
        bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", "Tile = 3"))
        await until("k/one@gfx942", "built")


@asynccontextmanager
async def client_of_events(client: Client) -> AsyncIterator[Callable[[str, str], Awaitable[None]]]:
    async def until(unit: str, outcome: str) -> None:
        with anyio.fail_after(SECONDS):
            async for change in client.events():
                state = change.state
                if state is not None and state.kind == "unit" and (state.id, state.outcome) == (unit, outcome):
                    break

    yield until


async def test_a_check_is_about_what_shows_without_a_compiler(bench: Bench) -> None:
    bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", 'Tile = "BROKEN"'))
    async with client_of(bench) as client:
        assert not (await client.build("k/one")).ok
        assert (await client.check("k/one")).ok, "the compiler's errors are not those of a check"
        assert not (await client.build("k/one")).ok
        bench.write("templates/k.hip.j2", "{{ Nope }}")
        checked = await client.check("k/one")
        assert (checked.ok, len(checked.failed), checked.units[0].errors) == (False, 1, 1)


async def test_a_run_counts_before_it_is_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of(bench) as client:
        monkeypatch.setattr(history_recorder.HistoryRecorder, "record", never)
        await client.build("k/one")
        unwritten = await client.runs("k/one")
        assert unwritten[0].outcome == "built"  # a check may have been written before
        monkeypatch.undo()
    async with client_of(bench) as client:
        assert await client.runs("k/one") == unwritten


async def never(recorder: history_recorder.HistoryRecorder, effect: Record) -> RecordFinished:
    """Stand in for a history whose turn to be written has not come."""
    await anyio.sleep_forever()
    raise AssertionError


async def test_an_arch_may_be_left_out_where_there_is_one(bench: Bench) -> None:
    async with client_of(bench) as client:
        await client.build()
        name = "k/one"
        asked: dict[str, Callable[[], Awaitable[Any]]] = {
            "unit": lambda: client.unit(name),
            "rendered": lambda: client.rendered(name),
            "artifact": lambda: client.artifact(name),
            "runs": lambda: client.runs(name),
            "verification": lambda: client.verification(name),
            "timings": lambda: client.timings(name),
            "values": lambda: client.values(name, "Tile", [1]),
            "build": lambda: client.build(name),
            "units": lambda: client.units(name),
        }
        for method, ask in asked.items():
            assert await ask() is not None, method
        assert (await client.unit(name)).unit.id == "k/one@gfx942"
        assert await client.runs(name)
        settings = (bench.root / "ckwatch.toml").read_text()
        bench.write("ckwatch.toml", settings + '[workspace]\narchs = ["gfx90a", "gfx942"]\n')
        await client.sync()
        for method in ("unit", "rendered", "artifact", "verification", "runs", "timings", "values"):
            with pytest.raises(UnknownUnitError) as raised:
                await asked[method]()
            assert raised.value.message == "'k/one' is compiled for 2 archs", method
            assert raised.value.hint == "name one: k/one@gfx90a, k/one@gfx942"
        with pytest.raises(UnknownUnitError, match="did you mean 'k/one'"):
            await client.unit("k/oen")


async def test_instances_of_a_sweep_are_timed(tmp_path: Path) -> None:
    bench = Timed(tmp_path)
    async with client_of(bench) as client:
        async with client.sweep("k", instances=[{"Factor": 1.0}, {"Factor": 2.0}], base="one", name="mine") as sweep:
            assert [result.ok async for result in sweep] == [True, True]
            with anyio.fail_after(SECONDS):
                async with client.bench(*sweep.units, shapes=["small"]) as lines:
                    found = [line async for line in lines if line.event in ("timing", "skipped")]
            outcomes = {line.unit: line.timing and (line.timing.failure, line.timing.standing) for line in found}
            assert outcomes == {"k/mine_0@host": (None, "fresh"), "k/mine_1@host": ("wrong result", "fresh")}
            first, second = await client.units(*sweep.units)
            assert [timing.shape for timing in first.timings] == ["small"]
            assert first.timings[0].median_us > 0
            assert second.timings[0].failure == "wrong result"
        assert [timing.shape for timing in await client.timings("k/mine_0@host")] == ["small"], "kept in the history"
        assert [unit.instance for unit in await client.units()] == ["one"]
