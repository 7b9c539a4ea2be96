"""A time trace takes as long as a compile: what the client hears meanwhile, and what becomes of its end."""

from __future__ import annotations

import httpx
import pytest

from ckwatch.errors import CkwatchError
from ckwatch.wire.messages import Problem, TimeTraceLine
from fake_engine import FakeEngine
from served import Serve, Served

URL = "/units/gemm/m128@gfx942/time-trace"


def lines(answer: httpx.Response) -> list[TimeTraceLine]:
    return [TimeTraceLine.model_validate_json(line) for line in answer.text.splitlines()]


async def given_up(engine: FakeEngine) -> None:
    """Wait until nothing is compiled."""
    while engine.tracing:
        await engine.changed.wait()


async def test_the_result_is_the_last_line(served: Served) -> None:
    answer = await served.http.post(URL, json={"path": "/out/a b", "client": "x"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    (line,) = lines(answer)
    assert line.event == "done"
    assert line.result is not None
    assert (line.result.unit, line.result.path) == ("gemm/m128@gfx942", "/out/a b")
    assert served.engine.of("time_trace") == [("x", "gemm/m128@gfx942", "/out/a b")]


@pytest.mark.parametrize("body", [{"path": "relative"}, {"path": ""}, {"more": 1}, {"client": "a b"}])
async def test_bad_requests_never_reach_the_engine(served: Served, body: dict[str, object]) -> None:
    assert (await served.http.post(URL, json=body)).status_code == 422
    assert served.engine.of("time_trace") == []


async def test_a_mistake_that_is_known_at_once_has_a_status(served: Served) -> None:
    answer = await served.http.post("/units/gemm/nope@gfx942/time-trace", json={})
    assert answer.status_code == 404
    served.engine.fault_in_trace = CkwatchError("cannot write /x", "write elsewhere")
    answer = await served.http.post(URL, json={})
    assert answer.status_code == 400
    assert Problem.model_validate_json(answer.content) == Problem(error="cannot write /x", hint="write elsewhere")


async def test_heartbeats_until_the_end(serve: Serve) -> None:
    async with serve(heartbeat_s=0.01) as served:
        served.engine.traced = False
        served.engine.fault_in_trace = CkwatchError("it crashed")
        found = []
        async with served.http.stream("POST", URL, json={}) as answer:
            assert answer.status_code == 200
            async for text in answer.aiter_lines():
                found.append(TimeTraceLine.model_validate_json(text))
                if len(found) == 3:
                    served.engine.traced = True
                    served.engine.moved()
        assert [line.event for line in found[:3]] == ["heartbeat"] * 3
        assert (found[-1].event, found[-1].problem) == ("done", Problem(error="it crashed"))


async def test_it_is_given_up_with_its_client(serve: Serve) -> None:
    async with serve(heartbeat_s=0.01) as served:
        engine = served.engine
        engine.traced = False
        async with served.http.stream("POST", URL, json={}) as answer:
            await anext(answer.aiter_lines())
            assert engine.tracing == 1
        await given_up(engine)
        # A client that says goodbye on another connection.
        async with served.http.stream("POST", URL, json={"client": "x"}) as answer:
            await anext(answer.aiter_lines())
            await served.http.delete("/clients/x")
            await given_up(engine)
        # A fault of ours is none of the client's doing.
        engine.traced = True
        engine.fault_in_trace = RuntimeError("a bug")
        assert (await served.http.post(URL, json={})).status_code == 500
