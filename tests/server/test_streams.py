"""Followers: what they receive, when they are dropped, and that none holds up another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from benches.served import Serve, Served
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.topics import Topic
from ckwatch.server import uvicorn_server
from ckwatch.server.clients import Limits
from ckwatch.server.responses import json_bytes
from ckwatch.server.streams import SerializedStates
from ckwatch.wire.analysis import Isa
from ckwatch.wire.encoding import adapter
from ckwatch.wire.messages import Problem, SlowAnswer, TimeTrace
from ckwatch.wire.state import BuildLine, Change, File
from fakes.fake_engine import FakeEngine, unit_of
from fakes.patience import PATIENCE_S

UNIT = "gemm/m128@gfx942"
TOPIC = f"unit/{UNIT}"


@asynccontextmanager
async def following(served: Served, query: str = "") -> AsyncIterator[AsyncIterator[Change]]:
    """The changes that a follower is sent."""
    async with served.http.stream("GET", f"/events{query}") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/x-ndjson"

        async def changes() -> AsyncIterator[Change]:
            async for line in answer.aiter_lines():
                yield adapter(Change).validate_json(line)

        yield changes()


async def test_a_snapshot_is_followed_without_a_gap(served: Served) -> None:
    engine = served.engine
    seq = (await served.http.get("/snapshot")).json()["seq"]
    engine.change(TOPIC, unit_of(UNIT, phase="compiling", generation=2))
    async with following(served, f"?after={seq}&client=x") as changes:
        first = await anext(changes)
        assert first == Change(seq=2, topic=Topic(TOPIC), state=unit_of(UNIT, phase="compiling", generation=2))
        await engine.until_waiting(1)
        engine.change("file//w/ü", File(path="/w/ü", diagnostics=()))
        assert await anext(changes) == Change(seq=3, topic=Topic("file//w/ü"), state=File(path="/w/ü", diagnostics=()))
        await engine.until_waiting(1)
        engine.change(TOPIC, None)
        assert await anext(changes) == Change(seq=4, topic=Topic(TOPIC))
    assert engine.of("changes")[:2] == [("x", 1), ("x", 2)]


async def test_without_a_number_it_begins_now(served: Served) -> None:
    async with following(served) as changes:
        assert await anext(changes) == Change(seq=1, topic=Topic("heartbeat"))
        await served.engine.until_waiting(1)
        served.engine.change(TOPIC, unit_of(errors=1))
        assert (await anext(changes)).seq == 2


async def test_a_quiet_one_has_heartbeats_only(serve: Serve) -> None:
    async with serve(heartbeat_s=0.02) as served, following(served, "?client=x&quiet=true") as changes:
        served.engine.change(TOPIC, unit_of(errors=1))
        for _ in range(3):
            assert (await anext(changes)).topic == "heartbeat"
        assert not served.engine.of("changes")


async def test_silence_is_broken_by_heartbeats(serve: Serve) -> None:
    async with serve(heartbeat_s=0.02) as served, following(served, "?after=1") as changes:
        for _ in range(3):
            assert await anext(changes) == Change(seq=1, topic=Topic("heartbeat"))
        served.engine.change(TOPIC, unit_of(errors=1))
        while (change := await anext(changes)).topic == "heartbeat":
            pass
        assert change.state == unit_of(errors=1)


async def test_an_engine_that_wakes_for_nothing_is_no_news(serve: Serve) -> None:
    """Changes of other clients' views wake a follower, too."""

    class Restless(FakeEngine):
        async def changes(self, scope: str, after: int, *, rows: bool = False) -> list[Change]:
            with anyio.move_on_after(0.001):
                return await super().changes(scope, after, rows=rows)
            return []

    for heartbeat_s in (0.1, 0.4, 1.6, 6.4, 25.6):
        async with serve(Restless(), heartbeat_s=heartbeat_s) as served, following(served, "?after=1") as changes:
            assert (await anext(changes)).topic == "heartbeat"
            woken = len(served.engine.of("changes"))
        if woken > 3:
            break
    assert woken > 3


@pytest.mark.parametrize("after", [0, 99])
async def test_a_follower_that_missed_too_much_begins_anew(after: int, served: Served) -> None:
    served.engine.oldest = 1
    async with following(served, f"?after={after}") as changes:
        assert [change async for change in changes] == [Change(seq=1, topic=Topic("reset"))]


async def test_many_changes_come_in_order_and_each_topic_once(serve: Serve) -> None:
    names = [f"gemm/i{number}@gfx942" for number in range(1000)]
    async with serve(FakeEngine(*names), send_lines=7) as served, following(served, "?after=0") as changes:
        seen = [await anext(changes) for _ in names]
        assert [change.seq for change in seen] == list(range(1, 1001))
        assert [change.topic for change in seen] == [f"unit/{name}" for name in names]


async def test_fifty_followers_see_every_final_state(serve: Serve) -> None:
    names = [f"gemm/i{number}@gfx942" for number in range(100)]
    final = {name: unit_of(name, generation=5) for name in names}
    async with serve(FakeEngine(*names)) as served:
        seen: list[dict[str, Any]] = [{} for _ in range(50)]

        async def follow(states: dict[str, Any]) -> None:
            async with following(served, "?after=0") as changes:
                async for change in changes:
                    states[change.topic.removeprefix("unit/")] = change.state
                    if states == final:
                        return

        async with anyio.create_task_group() as tasks:
            for states in seen:
                tasks.start_soon(follow, states)
            for generation in range(1, 6):
                for name in names:
                    served.engine.change(f"unit/{name}", unit_of(name, generation=generation))
                await anyio.lowlevel.checkpoint()
        assert seen == [final] * 50
        await until_streams(served, 0)


async def connect(served: Served, request: bytes) -> SocketStream:
    """Send a request, and read nothing."""
    connection = await anyio.connect_unix(served.path)
    await connection.send(request + b"host: x\r\n\r\n")
    return connection


async def publish(engine: FakeEngine, changes: AsyncIterator[Change], number: int) -> None:
    """A change of 50 kB, which one follower has read when this returns."""
    seq = engine.change(TOPIC, unit_of(symbol=f"{number}" + "x" * 50_000))
    while (await anext(changes)).seq != seq:
        pass


async def test_one_that_never_reads_holds_up_nobody(serve: Serve) -> None:
    engine = FakeEngine()
    async with (
        serve(engine, send_s=3600, heartbeat_s=60) as served,
        following(served, "?after=0") as changes,
        await connect(served, b"GET /v1/events?after=0&client=deaf HTTP/1.1\r\n"),
    ):
        for number in range(200):  # ten times what a socket holds
            await publish(engine, changes, number)
        assert served.clients.streams == 2


async def test_one_that_never_reads_is_dropped(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    async with serve(engine, send_s=0.5, heartbeat_s=60) as served, following(served, "?after=0") as changes:
        async with await connect(served, b"GET /v1/events?after=0&client=deaf HTTP/1.1\r\n") as deaf:
            count = 0
            while "dropped" not in caplog.text:
                await publish(engine, changes, count)
                count += 1
            assert "did not read /v1/events for 0.5 s" in caplog.text
            assert await received(deaf) < count * 50_000  # what it missed is not kept for it
        assert served.clients.streams == 1


async def received(connection: SocketStream) -> int:
    """Bytes until the connection ends."""
    count = 0
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            count += len(await connection.receive())
    return count


async def test_one_that_goes_is_noticed(served: Served) -> None:
    async with following(served, "?after=1"):
        await served.engine.until_waiting(1)
        assert served.clients.streams == 1
    await served.engine.until_waiting(0)
    await until_streams(served, 0)


async def until_streams(served: Served, count: int) -> None:
    while served.clients.streams != count:
        await anyio.lowlevel.checkpoint()


async def test_streams_are_counted(serve: Serve) -> None:
    async with serve(streams=2) as served:
        served.engine.endless = True
        async with following(served), served.http.stream("POST", "/builds", json={}):
            await until_streams(served, 2)
            for method, path, body in (("GET", "/events", None), ("POST", "/builds", {})):
                answer = await served.http.request(method, path, json=body)
                assert answer.status_code == 429
                assert (
                    adapter(Problem)
                    .validate_json(answer.content)
                    .error.startswith("too many open streams: the limit is 2")
                )
            assert (await served.http.get("/status")).status_code == 200
        await until_streams(served, 0)
        async with following(served):
            pass


async def lines(answer: httpx.Response) -> list[BuildLine]:
    return [adapter(BuildLine).validate_json(line) async for line in answer.aiter_lines()]


async def test_a_build_from_start_to_end(served: Served) -> None:
    received = [
        BuildLine(event="start", units=(UNIT,)),
        BuildLine(event="unit", id=UNIT, unit=unit_of()),
        BuildLine(event="unit", id="gemm/gone@gfx942", problem="removed"),
    ]
    served.engine.lines = received
    body = {"units": [UNIT], "force": True, "check_only": False, "client": "x"}
    async with served.http.stream("POST", "/builds", json=body) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert await lines(answer) == [*received, BuildLine(event="done")]
    assert served.engine.of("build") == [("x", [UNIT], True, False)]
    assert served.engine.building == 0


async def test_a_build_of_all_with_many_lines(served: Served) -> None:
    served.engine.lines = [BuildLine(event="unit", id=str(number), unit=unit_of()) for number in range(2000)]
    async with served.http.stream("POST", "/builds", json={}) as answer:
        assert [line.id for line in await lines(answer)] == [*map(str, range(2000)), None]
    assert served.engine.of("build") == [(None, None, False, False)]


async def test_a_build_that_takes_long_sends_heartbeats(serve: Serve) -> None:
    async with serve(heartbeat_s=0.02) as served:
        served.engine.endless = True
        async with served.http.stream("POST", "/builds", json={}) as answer:
            received = answer.aiter_lines()
            for _ in range(3):
                line = await anext(received)
                assert adapter(BuildLine).validate_json(line) == BuildLine(event="heartbeat")


async def test_a_client_that_goes_gives_up_its_build(served: Served) -> None:
    served.engine.endless = True
    async with served.http.stream("POST", "/builds", json={}):
        await served.engine.until_building(1)
    await served.engine.until_building(0)
    await until_streams(served, 0)


async def test_a_build_of_an_unknown_unit_is_refused(served: Served) -> None:
    answer = await served.http.post("/builds", json={"units": ["gemm/none@gfx942"]})
    assert answer.status_code == 404
    assert adapter(Problem).validate_json(answer.content).error == "no unit is called `gemm/none@gfx942`"
    assert served.clients.streams == 0


@pytest.mark.parametrize("fault", [ZeroDivisionError("a secret"), CkwatchError("no"), UnknownUnitError("none")])
@pytest.mark.parametrize("begun", [True, False])
async def test_a_build_that_fails_does_not_look_complete(
    fault: Exception, begun: bool, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.engine.lines = [BuildLine(event="start", units=(UNIT,))] if begun else []
    served.engine.fault_in_build = fault
    with pytest.raises(httpx.RemoteProtocolError):
        async with served.http.stream("POST", "/builds", json={}) as answer:
            await lines(answer)
    assert "POST /v1/builds failed" in caplog.text
    assert served.engine.building == 0
    assert (await served.http.get("/status")).status_code == 200


async def test_an_event_stream_that_fails_is_cut(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.engine.fault = ZeroDivisionError("a secret")
    with pytest.raises(httpx.RemoteProtocolError):
        async with served.http.stream("GET", "/events?after=0") as answer:
            await answer.aread()
    assert "GET /v1/events failed" in caplog.text


async def test_streams_end_with_the_server_and_their_lines_are_whole(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_server, "_END_S", PATIENCE_S)  # they need no more time than they are given
    served.engine.endless = True
    served.engine.lines = [BuildLine(event="start")]
    async with (
        served.http.stream("POST", "/builds", json={}) as build,
        served.http.stream("GET", "/events") as events,
    ):
        await served.engine.until_building(1)
        served.serving.cancel()
        assert [line.event for line in await lines(build)] == ["start"]
        assert [adapter(Change).validate_json(line).topic async for line in events.aiter_lines()] == ["heartbeat"]
        await served.ended.wait()
    assert served.engine.building == 0
    with pytest.raises(httpx.ConnectError):
        await served.http.get("/status")


async def test_the_server_ends_although_one_never_reads(serve: Serve) -> None:
    engine = FakeEngine(*(f"gemm/i{number}@gfx942" for number in range(5000)))
    async with serve(engine) as served, await connect(served, b"GET /v1/events?after=0 HTTP/1.1\r\n"):
        await until_streams(served, 1)
        served.serving.cancel()
        await served.ended.wait()


def test_states_are_serialized_once() -> None:
    serialized = SerializedStates(Limits())
    unit = unit_of(generation=0)
    first = serialized.state(unit)
    assert serialized.state(unit) is first
    assert serialized.state(unit_of(generation=0)) is not first  # equal, but another object
    assert serialized.state(unit) == first
    for number in range(100):  # which take each other's place in memory
        assert serialized.state(unit_of(generation=number)) == json_bytes(unit_of(generation=number))


def test_the_lines_of_a_page_are_made_once() -> None:
    serialized = SerializedStates(Limits(send_lines=2), pages=2)
    pages = [tuple(Change(seq=number, topic=Topic(TOPIC), state=unit_of()) for number in range(3)) for _ in range(3)]
    first = serialized.pieces(pages[0])
    assert [piece.count(b"\n") for piece in first] == [2, 1]
    assert [adapter(Change).validate_json(line) for line in b"".join(first).splitlines()] == [*pages[0]]
    assert serialized.pieces(pages[0]) is first
    for page in pages[1:]:
        serialized.pieces(page)
    assert serialized.pieces(pages[0]) is not first


URL = "/units/gemm/m128@gfx942/isa"


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", (None, None, True)),
        ("?symbol=a%3Cb%3E&client=x", ("x", "a<b>", True)),
        ("?lines=false", (None, None, False)),
    ],
)
async def test_the_result_is_the_last_line(
    served: Served, query: str, asked: tuple[str | None, str | None, bool]
) -> None:
    answer = await served.http.get(URL + query)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    line = adapter(SlowAnswer[Isa]).validate_json(answer.text)
    assert line.event == "done"
    assert line.result is not None
    client, symbol, lines = asked
    assert (line.result.kernel, line.result.has_lines) == (symbol or "main", lines)
    assert served.engine.of("isa") == [(client, "gemm/m128@gfx942", symbol, lines)]


async def test_an_unknown_unit_has_a_status(served: Served) -> None:
    assert (await served.http.get("/units/gemm/nope@gfx942/isa")).status_code == 404


@pytest.mark.parametrize("query", ["?lines=2", "?symbol=", "?what=1", "?client=a%20b"])
async def test_bad_requests_never_reach_the_engine(served: Served, query: str) -> None:
    assert (await served.http.get(URL + query)).status_code == 422
    assert served.engine.of("isa") == []


URL_TIME_TRACES = "/units/gemm/m128@gfx942/time-trace"


def lines_time_traces(answer: httpx.Response) -> list[SlowAnswer[TimeTrace]]:
    return [adapter(SlowAnswer[TimeTrace]).validate_json(line) for line in answer.text.splitlines()]


async def given_up(engine: FakeEngine) -> None:
    """Wait until nothing is compiled."""
    while engine.tracing:
        await engine.changed.wait()


async def test_the_result_is_the_last_line_time_traces(served: Served) -> None:
    answer = await served.http.post(URL_TIME_TRACES, json={"path": "/out/a b", "client": "x"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    (line,) = lines_time_traces(answer)
    assert line.event == "done"
    assert line.result is not None
    assert (line.result.unit, line.result.path) == ("gemm/m128@gfx942", "/out/a b")
    assert served.engine.of("time_trace") == [("x", "gemm/m128@gfx942", "/out/a b")]


@pytest.mark.parametrize("body", [{"path": "relative"}, {"path": ""}, {"more": 1}, {"client": "a b"}])
async def test_bad_requests_never_reach_the_engine_time_traces(served: Served, body: dict[str, object]) -> None:
    assert (await served.http.post(URL_TIME_TRACES, json=body)).status_code == 422
    assert served.engine.of("time_trace") == []


async def test_a_mistake_that_is_known_at_once_has_a_status(served: Served) -> None:
    answer = await served.http.post("/units/gemm/nope@gfx942/time-trace", json={})
    assert answer.status_code == 404
    served.engine.fault_in_trace = CkwatchError("cannot write /x", "write elsewhere")
    answer = await served.http.post(URL_TIME_TRACES, json={})
    assert answer.status_code == 400
    assert adapter(Problem).validate_json(answer.content) == Problem(error="cannot write /x", hint="write elsewhere")


async def test_heartbeats_until_the_end(serve: Serve) -> None:
    async with serve(heartbeat_s=0.01) as served:
        served.engine.traced = False
        served.engine.fault_in_trace = CkwatchError("it crashed")
        found = []
        async with served.http.stream("POST", URL_TIME_TRACES, json={}) as answer:
            assert answer.status_code == 200
            async for text in answer.aiter_lines():
                found.append(adapter(SlowAnswer[TimeTrace]).validate_json(text))
                if len(found) == 3:
                    served.engine.traced = True
                    served.engine.moved()
        assert [line.event for line in found[:3]] == ["heartbeat"] * 3
        assert (found[-1].event, found[-1].problem) == ("done", Problem(error="it crashed"))


async def test_it_is_given_up_with_its_client(serve: Serve) -> None:
    async with serve(heartbeat_s=0.01) as served:
        engine = served.engine
        engine.traced = False
        async with served.http.stream("POST", URL_TIME_TRACES, json={}) as answer:
            await anext(answer.aiter_lines())
            assert engine.tracing == 1
        await given_up(engine)
        # A client that says goodbye on another connection.
        async with served.http.stream("POST", URL_TIME_TRACES, json={"client": "x"}) as answer:
            await anext(answer.aiter_lines())
            await served.http.delete("/clients/x")
            await given_up(engine)
        # A fault of ours is none of the client's doing.
        engine.traced = True
        engine.fault_in_trace = RuntimeError("a bug")
        assert (await served.http.post(URL_TIME_TRACES, json={})).status_code == 500
