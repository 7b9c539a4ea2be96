"""Following the state: without a gap, over lost connections and lost daemons."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Mapping
from dataclasses import replace

import anyio
import pytest

from benches.client_bench import SECONDS, Bench
from ckwatch.client import Client, DaemonGoneError
from ckwatch.client.events import Events, KnownStates, Patience, UnitInBrief, in_brief, states_of, whole_change
from ckwatch.client.overlays import PAUSES_S
from ckwatch.model.errors import ProtocolError
from ckwatch.model.topics import Topic
from ckwatch.wire.encoding import to_json
from ckwatch.wire.rows import unit_row
from ckwatch.wire.state import Change, File, State
from fakes.fake_benchmarks import timing_of
from fakes.fake_engine import unit_of

pytestmark = pytest.mark.usefixtures("nothing_blocks")

ONE = "unit/gemm/m128@gfx942"
A = File(path="/a", diagnostics=())
B = File(path="/b", diagnostics=())


def followed(client: Client, patience: Patience) -> Events[Change]:
    """As `client.events()`, with another patience."""
    return Events(client._connection, client._state_sync, client.id, whole_change, patience=patience)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, []),
        ({}, {"a": A}, [("a", A)]),
        ({"a": A}, {"a": A}, []),
        ({"a": A}, {"a": B}, [("a", B)]),
        ({"a": A, "b": B}, {"b": B}, [("a", None)]),
        ({"a": A}, {"b": B}, [("a", None), ("b", B)]),
    ],
)
def test_what_a_new_snapshot_adds(
    before: Mapping[Topic, State], after: Mapping[Topic, State], expected: list[tuple[str, State | None]]
) -> None:
    known = KnownStates()
    list(known.renewed(before))
    assert list(known.renewed(after)) == expected
    assert list(known.renewed(after)) == []


def test_changes_are_known_to_a_new_snapshot() -> None:
    known = KnownStates()
    known.note(Change(seq=1, topic=Topic("a"), state=A))
    known.note(Change(seq=2, topic=Topic("b"), state=B))
    known.note(Change(seq=3, topic=Topic("a"), state=None))
    assert list(known.renewed({})) == [("b", None)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"seq":1}',
        b'{"seq":"x","states":{}}',
        b'{"seq":1,"states":{"a":{}}}',
        b'{"seq":1,"states":{}',
    ],
)
async def test_what_is_no_snapshot(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="snapshot is not understood"):
        await states_of(data)


async def test_units_in_brief_are_all_that_whole_ones_are(client: Client, daemon: Bench) -> None:
    async with client.events_in_brief() as events:
        first = await anext(events)
        assert first.topic == ONE
        changed = unit_of(phase="compiling", generation=3, measuring="m64")
        daemon.engine.change(ONE, changed)
        daemon.engine.change(ONE, changed)
        state = (await anext(events)).state
        assert isinstance(state, UnitInBrief)
        assert (state.phase, state.generation, state.fresh, state.measuring) == ("compiling", 3, changed.fresh, "m64")
        place = changed.place
        start, end = place.start, place.end
        assert state.place == (place.path, start.line, start.column, end.line, end.column)
        assert state.decoded() == changed
        file = File(path="/w/a", diagnostics=())
        daemon.engine.change("file//w/a", file)
        assert (await anext(events))[1:] == ("file//w/a", file)
        daemon.engine.change(ONE, None)
        assert (await anext(events))[1:] == (ONE, None)


async def test_units_in_rows_have_no_timings_until_they_change(client: Client, daemon: Bench) -> None:
    unit = unit_of(timings=(timing_of(),))
    daemon.engine.change(ONE, unit)
    async with client.events_in_rows() as events:
        assert (await anext(events))[1:] == (ONE, unit_row(unit, untimed=True))
        assert await client.unit_rows([unit.id]) == [unit_row(unit)]
        changed = replace(unit, errors=1)
        daemon.engine.change(ONE, changed)
        assert (await anext(events))[1:] == (ONE, unit_row(changed))


@pytest.mark.parametrize("data", [b'{"seq":1,"states":{"unit/a":{}}}', b'{"seq":1,"states":{"unit/a":{"place":3}}}'])
async def test_what_is_no_snapshot_in_brief(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="snapshot is not understood"):
        await states_of(data, in_brief)


async def test_first_what_is_then_what_changes(client: Client, daemon: Bench) -> None:
    async with client.events() as events:
        first = await anext(events)
        assert (first.topic, first.seq) == (ONE, 1)
        daemon.engine.change(ONE, unit_of(phase="queued"))
        daemon.engine.change("unit/gemm/new@gfx942", unit_of("gemm/new@gfx942"))
        daemon.engine.change(ONE, None)
        assert [(change.topic, change.seq) for change in [await anext(events), await anext(events)]] == [
            ("unit/gemm/new@gfx942", 3),
            (ONE, 4),
        ]
    await daemon.relay.until_open(0)


async def test_a_time_limit_loses_nothing(client: Client, daemon: Bench) -> None:
    async with client.events() as events:
        await anext(events)
        for number in range(5):
            with anyio.move_on_after(0.01) as scope:
                await anext(events)
            assert scope.cancelled_caught
            daemon.engine.change(ONE, unit_of(edited=number))
            change = await anext(events)
            assert change.seq == number + 2


async def test_heartbeats_are_no_changes(client: Client, daemon: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client.events() as events:
        await anext(events)
        assert events._take(b'{"seq":1,"topic":"heartbeat","state":null}') is None


async def test_a_lost_connection_is_resumed(client: Client, daemon: Bench) -> None:
    async with client.events() as events:
        await anext(events)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_nothing_until, events, daemon)
            await daemon.engine.until_waiting(1)
            await daemon.relay.cut()
            await daemon.engine.until_waiting(0)
            await daemon.engine.until_waiting(1)
            daemon.engine.change(ONE, unit_of(edited=1))
        assert daemon.engine.of("changes")[-2:] == [(client.id, 1), (client.id, 2)]
    assert len(daemon.engine.of("snapshot")) == 1
    assert daemon.starts == 0


async def _nothing_until(events: Events[Change], daemon: Bench) -> None:
    assert (await anext(events)).seq == 2


async def test_a_killed_daemon_is_started_again(client: Client, daemon: Bench) -> None:
    daemon.engine.change(ONE, unit_of(edited=2))
    daemon.engine.change("unit/gemm/b@gfx942", unit_of("gemm/b@gfx942"))
    async with client.events() as events:
        assert {(await anext(events)).topic, (await anext(events)).topic} == {ONE, "unit/gemm/b@gfx942"}
        await daemon.killed()
        daemon.engine.begin_anew("gemm/m128@gfx942", "gemm/c@gfx942")
        changes = [await anext(events), await anext(events)]
        assert [(change.topic, change.state is None) for change in changes] == [
            ("unit/gemm/b@gfx942", True),
            (ONE, False),
        ]
        assert (await anext(events)).topic == "unit/gemm/c@gfx942"
        daemon.engine.change(ONE, unit_of(edited=9))
        change = await anext(events)
        assert (change.topic, change.seq) == (ONE, 3)
    assert daemon.starts == 1


async def test_a_daemon_that_is_lost_again_and_again_gets_more_and_more_time(
    client: Client, daemon: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    sleep = anyio.sleep

    async def record(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(anyio, "sleep", record)
    async with client.events() as events:
        await anext(events)
        for number in range(4):
            await daemon.relay.cut()
            daemon.engine.change(ONE, unit_of(edited=number))
            await anext(events)
        assert slept == list(PAUSES_S[:4])
        slept.clear()
    async with followed(client, Patience(steady_s=-1.0)) as events:
        await anext(events)
        for number in range(2):
            await daemon.relay.cut()
            daemon.engine.change(ONE, unit_of(edited=5 + number))
            await anext(events)
    assert slept == [0.0, 0.0]


async def test_a_stopped_daemon_ends_the_events(client: Client, daemon: Bench) -> None:
    topics = []
    async for change in followed(client, Patience(restart_s=0.1)):
        topics.append(change.topic)
        await daemon.stopped()
    assert topics == [ONE]
    assert daemon.starts == 0


async def test_who_has_stopped_the_daemon_waits_for_no_other(client: Client, daemon: Bench) -> None:
    async with followed(client, Patience(restart_s=math.inf)) as events:
        await anext(events)
        await client.stop()
        await daemon.stopped()
        with anyio.fail_after(SECONDS):
            assert [change async for change in events] == []
    assert daemon.starts == 0


async def test_a_daemon_that_was_started_again_is_followed(client: Client, daemon: Bench) -> None:
    async with client.events() as events:
        await anext(events)
        await daemon.stopped()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_nothing_until, events, daemon)
            await daemon.engine.until_waiting(0)
            await daemon.restarted()
            await daemon.engine.until_waiting(1)
            daemon.engine.change(ONE, unit_of(edited=1))
    assert daemon.starts == 0


async def test_a_lost_daemon_that_may_not_be_started(daemon: Bench) -> None:
    patience = Patience(reconnect_s=0.1)
    async with daemon.client(start=False) as client, followed(client, patience) as events:
        await anext(events)
        await daemon.killed()
        with pytest.raises(DaemonGoneError):
            await anext(events)


async def test_no_daemon_at_first(daemon: Bench) -> None:
    async with daemon.client(start=False) as client:
        await daemon.killed()
        with pytest.raises(DaemonGoneError):
            await anext(client.events())


async def test_events_are_closed_while_they_are_waited_for(client: Client, daemon: Bench) -> None:
    events = client.events()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_until_the_end, events)
        await daemon.engine.until_waiting(1)
        events.close()
    await daemon.relay.until_open(0)


async def _until_the_end(events: Events[Change]) -> None:
    async for change in events:
        assert change.seq == 1


async def test_a_loop_that_is_left_closes_the_connection(client: Client, daemon: Bench) -> None:
    async for _change in client.events():
        break
    gc.collect()
    await daemon.relay.until_open(0)


async def test_two_followers(client: Client, daemon: Bench) -> None:
    async with client.events() as first, client.events() as second:
        await anext(first)
        await anext(second)
        daemon.engine.change(ONE, unit_of(edited=1))
        assert (await anext(first)) == (await anext(second))


async def test_a_large_snapshot_leaves_others_their_turn() -> None:
    unit = json.loads(to_json(unit_of()))
    lines = [f'"unit/{number}":{json.dumps(unit)}' for number in range(2000)]
    data = ('{"seq":7,"states":{' + ",\n".join(lines) + "}}").encode()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        seq, states = await states_of(data)
        tasks.cancel_scope.cancel()
    assert (seq, len(states)) == (7, 2000)
    assert turns > 20
