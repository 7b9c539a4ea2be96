"""Bad input: the answer says what is wrong, and the engine is not asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
import httpx
import pytest

from benches.served import Serve, Served
from ckwatch.questions.table import ENDPOINTS
from ckwatch.server.routes import path_of
from ckwatch.wire.encoding import adapter
from ckwatch.wire.messages import Problem

JSON = {"content-type": "application/json"}
OVERLAYS = "PUT /clients/x/overlays"
UNIT = "/units/gemm/m128@gfx942"


class Row(NamedTuple):
    """A request, the status of its answer, and what that says."""

    request: str
    status: int
    says: str
    body: Any = None


def text(length: int) -> dict[str, str]:
    return {"path": "/w/a", "text": "x" * length}


PARAMETERS = [
    Row("GET /status?x=1", 422, "query.x: Extra inputs"),
    Row("GET /status?client=x", 422, "query.client: Extra inputs"),
    Row("GET /snapshot?clinet=x", 422, "query.clinet: Extra inputs"),
    Row("GET /snapshot?client=", 422, "query.client: String should match"),
    Row("GET /snapshot?client=a%2Fb", 422, "query.client: String should match"),
    Row("GET /snapshot?client=a%0A", 422, "query.client: String should match"),
    Row(f"GET /snapshot?client={'a' * 65}", 422, "query.client: String should match"),
    Row("GET /events?after=x", 422, "query.after: Input should be a valid integer"),
    Row("GET /events?after=-1", 422, "query.after: Input should be greater"),
    Row(f"GET /events?after={2**63}", 422, "query.after: Input should be less"),
    Row(f"GET /events?after={'9' * 5000}", 422, "query.after: "),
    Row("GET /units?pattern=", 422, "query.pattern.0: String should have at least 1"),
    Row("GET /units?pattern=a%00", 422, "query.pattern.0: String should match"),
    Row(f"GET /units?pattern={'a' * 4097}", 422, "query.pattern.0: String should have at most"),
    Row(f"GET {UNIT}/source?map=2", 422, "query.map: Input should be a valid boolean"),
    Row(f"GET {UNIT}/runs?limit=0", 422, "query.limit: Input should be greater"),
    Row("GET /files", 422, "query.path: Field required"),
    Row("GET /files?path=w/a", 422, "query.path: String should match"),
    Row("GET /files?path=/w/a%00b", 422, "query.path: String should match"),
    Row("GET /log?lines=1e9", 422, "query.lines: "),
    Row("DELETE /clients/x?now=1", 422, "query.now: Extra inputs"),
    Row("DELETE /clients/a%20b", 422, "path.client: String should match"),
    Row("POST /stop?x=1", 422, "query.x: Extra inputs"),
]

PATHS = [
    Row("GET /", 404, "there is no /v1/"),
    Row("GET /statu", 404, "there is no /v1/statu"),
    Row("GET /status/", 404, "there is no /v1/status/"),
    Row("GET /units/gemm", 404, "there is no /v1/units/gemm"),
    Row("GET /units/a/b/c", 404, "there is no /v1/units/a/b/c"),
    Row("GET /units/a%2Fb/c/source/d", 404, "there is no"),
    Row("GET /clients//overlays", 404, "there is no"),
    Row("POST /status", 405, "there is no POST /v1/status"),
    Row("GET /builds", 405, "there is no GET /v1/builds"),
    Row("HEAD /status", 405, ""),
    Row("PATCH /clients/x/focus", 405, "there is no PATCH"),
    Row("GET /units/gemm/unknown@gfx942", 404, "no unit is called `gemm/unknown@gfx942`"),
]

BODIES = [
    Row("POST /builds", 422, "body: Field required"),
    Row("POST /builds", 422, "body.unit: Extra inputs", {"unit": []}),
    Row("POST /builds", 422, "body.units: Input should be a valid list", {"units": "gemm"}),
    Row("POST /builds", 422, "body.units.1: Input should be a valid string", {"units": ["a", 1]}),
    Row("POST /builds", 422, "body.units.0: String should have at least", {"units": [""]}),
    Row("POST /builds", 422, "body.force: Input should be a valid boolean", {"force": "yes"}),
    Row("POST /builds", 422, "body.client: String should match", {"client": "a b"}),
    Row("POST /builds", 422, "body: Input should be a valid dict", []),
    Row("POST /builds", 422, "body: ", "gemm"),
    Row("POST /builds?force=1", 422, "query.force: Extra inputs", {}),
    Row("POST /cancel", 422, "body.units: Input should be a valid list", {"units": {}}),
    Row(OVERLAYS, 422, "body.text: Field required", {"path": "/w/a"}),
    Row(OVERLAYS, 422, "body.path: String should match", {"path": "w/a", "text": ""}),
    Row(OVERLAYS, 422, "body.path: String should match", {"path": "/w/a\0", "text": ""}),
    Row(OVERLAYS, 422, "body.text: Input should be a valid string", {"path": "/w/a", "text": 1}),
    Row(OVERLAYS, 422, "body.text: ", {"path": "/w/a", "text": "\ud800"}),
    Row(OVERLAYS, 422, "body.text: String should have at most", text(16 * 2**20 + 1)),
    Row(f"POST {UNIT}/runner", 422, "body.path: String should match", {"path": "out"}),
    Row("PUT /clients/x%20/overlays", 422, "path.client: String should match", text(1)),
    Row("PUT /clients/x/focus", 422, "body.files.0: Input should be a valid string", {"files": [None]}),
    Row("PUT /clients/x/view", 422, "body.arch: Extra inputs", {"arch": "gfx942"}),
    Row("POST /show", 422, "body.path: String should match", {"path": "a.j2", "line": 0}),
    Row("POST /show", 422, "body.line: Input should be greater than or equal to 0", {"path": "/w/a", "line": -1}),
    Row("POST /builds", 413, "the body is larger than 1024 KiB", {"units": ["x" * 2**20]}),
    Row(OVERLAYS, 413, "the body is larger than 20480 KiB", text(20 * 2**20)),
    Row("GET /status", 400, "GET /v1/status takes no body", {}),
    Row("DELETE /clients/x", 400, "DELETE /v1/clients/x takes no body", {}),
    Row("POST /stop", 400, "POST /v1/stop takes no body", {}),
    Row("GET /builds", 400, "takes no body", {}),
]


def check(answer: httpx.Response, status: int, says: str) -> None:
    assert answer.status_code == status, (answer.request.url, answer.text)
    assert answer.headers["content-type"] == "application/json"
    if answer.request.method != "HEAD":
        problem = adapter(Problem).validate_json(answer.content)
        assert any(says in received for received in (problem.error, *problem.details)), problem
        assert len(answer.content) < 15_000  # what was sent is not sent back


@pytest.mark.parametrize("rows", [PARAMETERS, PATHS, BODIES], ids=["parameters", "paths", "bodies"])
async def test_wrong_requests(rows: list[Row], served: Served) -> None:
    for row in rows:
        method, _, path = row.request.partition(" ")
        content = None if row.body is None else json.dumps(row.body).encode()
        answer = await served.http.request(method, path, content=content, headers=JSON if content else None)
        check(answer, row.status, row.says)
        if "unknown@" not in path:
            assert served.engine.asked == [], row
        assert len(served.clients) == 0


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_every_route_refuses_what_it_does_not_know(method: str, served: Served) -> None:
    for route in ENDPOINTS:
        if route.method == method:
            path = path_of(route).format(kernel="gemm", instance="m128@gfx942", client="x", name="x", number=1)
            answer = await served.http.request(method, path, params={"what": "is this", "path": "/w/a"})
            assert answer.status_code == 422
            assert "query.what: Extra inputs are not permitted" in answer.json()["details"]
    assert served.engine.asked == []


async def test_an_unknown_method_is_answered_with_the_known_ones(served: Served) -> None:
    answer = await served.http.put("/status")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("content", "headers", "status", "says"),
    [
        (b"", JSON, 422, "body: Field required"),
        (b"{", JSON, 400, "the body is not valid JSON: "),
        (b"{}{}", JSON, 400, "the body is not valid JSON: Extra data, at character 2"),
        (b"{'a': 1}", JSON, 400, "the body is not valid JSON: "),
        (b"\xff{}", JSON, 400, "the body is not UTF-8 at byte 0"),
        ('{"units": ["ü"]}'.encode("latin-1"), JSON, 400, "the body is not UTF-8 at byte 12"),
        ("{}".encode("utf-16"), JSON, 400, "the body is not UTF-8 at byte 0"),
        (b"[" * 100_000, JSON, 400, "the body is not valid JSON: it is nested too deeply"),
        (b'{"units": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON, 400, "the body is not valid JSON: it is nested too deeply"),
        (b'{"units": ' + b"9" * 5000 + b"}", JSON, 400, "the body is not valid JSON: Exceeds the limit"),
        (b"{}", {}, 415, "must be `application/json`, not `nothing`"),
        (b"{}", {"content-type": "text/plain"}, 415, "not `text/plain`"),
        (b"a=1", {"content-type": "application/x-www-form-urlencoded"}, 415, "not `application/x-www-form-urlencoded`"),
        (b"{}", JSON | {"content-encoding": "gzip"}, 415, "not encoded by `gzip`"),
        (b"{}", JSON | {"origin": "http://localhost"}, 403, "web pages"),
    ],
)  # fmt: skip
async def test_bodies_that_are_not_what_they_should_be(
    content: bytes, headers: dict[str, str], status: int, says: str, served: Served
) -> None:
    check(await served.http.post("/builds", content=content, headers=headers), status, says)
    assert served.engine.asked == []


async def test_requests_of_web_pages_are_refused(served: Served) -> None:
    for method, path in (("GET", "/status"), ("POST", "/stop"), ("GET", "/openapi.json")):
        check(await served.http.request(method, path, headers={"origin": "null"}), 403, "web pages")
    assert served.engine.asked == []


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
async def test_json_by_other_names(kind: str, served: Served) -> None:
    assert (await served.http.post("/cancel", content=b"{}", headers={"content-type": kind})).status_code == 200


async def test_text_up_to_the_limit_is_taken(served: Served) -> None:
    answer = await served.http.put("/clients/x/overlays", json=text(16 * 2**20))
    assert answer.status_code == 204
    assert [len(given) for *_, given in served.engine.of("overlay")] == [16 * 2**20]


async def test_a_body_without_a_length_is_stopped_at_the_limit(served: Served) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 2**16
            yield b" " * 2**16

    check(await served.http.post("/builds", content=endless(), headers=JSON), 413, "larger than 1024 KiB")
    assert sent < 4 * 2**20  # the limit, and what the buffers on the way hold
    assert served.engine.asked == []


async def test_a_body_without_a_length_is_taken(served: Served) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b'{"path": "/w/a", '
        yield b'"text": "b"}'

    assert (await served.http.put("/clients/x/overlays", content=parts(), headers=JSON)).status_code == 204
    assert served.engine.of("overlay") == [("x", "/w/a", "b")]


async def test_a_body_that_never_arrives(serve: Serve) -> None:
    async with serve(body_s=0.05) as served:
        began = b"POST /v1/builds HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n{"
        assert (await raw(served, began)).startswith(b"HTTP/1.1 408 ")
        assert served.engine.asked == []


async def raw(served: Served, data: bytes) -> bytes:
    """Return all that is answered until the connection ends."""
    async with await anyio.connect_unix(served.path) as connection:
        with suppress(anyio.BrokenResourceError):  # it may be answered before all is sent
            await connection.send(data)
        received = b""
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                received += await connection.receive()
        return received


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
        b"GET /v1/status HTTP/1.1\r\n\r\n",  # no Host
        b"GET /v1/status\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/builds HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/builds HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /v1/builds HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/status?" + b"a" * 2**19,
    ],
    ids=range(8),
)
async def test_what_is_no_http(data: bytes, served: Served) -> None:
    head, _, body = (await raw(served, data)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 "), head
    assert adapter(Problem).validate_json(body).error
    assert served.engine.asked == []
    assert (await served.http.get("/status")).status_code == 200


async def test_nonsense_behind_a_request_whose_answer_goes_on(served: Served) -> None:
    async with await anyio.connect_unix(served.path) as connection:
        await connection.send(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\nwhat is this\r\n\r\n")
        await served.engine.until_waiting(1)
    await served.engine.until_waiting(0)
    assert (await served.http.get("/status")).status_code == 200
