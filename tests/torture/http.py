"""Requests to a daemon: what its OpenAPI document allows, what it forbids, both made by schemathesis, and no HTTP at all.

No request may be answered by 5xx, every answer must be as the document says, line by line where it is a stream, and the
daemon goes on.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from jsonschema_rs import Draft202012Validator
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from benches.daemon_bench import Bench
from ckwatch.wire.endpoint import endpoint_of
from torture.daemons import Daemon, daemons
from torture.rounds import Rounds

CASES = 12
"""Requests in a round."""

STREAMED_S = 0.3
"""How long a stream is read that does not end."""

KNOWN: dict[str, tuple[Any, ...]] = {
    "kernel": ("k", "k", "k", "nothing", "k/one", "%2e%2e"),
    "instance": ("one@gfx942", "two@gfx942", "one", "none@gfx942", "one@"),
    "client": ("a", "b", "c"),
    "unit": ("k/one@gfx942", "k/two@gfx942", "k/*", "k"),
    "against": ("k/one@gfx942", "previous", "baseline"),
    "patterns": (["k"], ["k/*"], ["*"], ["k/one@gfx942", "nothing"]),
    "units": (["k"], ["k/*"], ["*"]),
    "name": ("k.hip.j2", "macros.j2", "main", "nothing"),
    "path": ("templates/k.hip.j2", "k.kernel.toml", "ckwatch.toml", "/dev/zero", "/proc/self/mem", ".", "nothing"),
    "template": ("k.hip.j2",),
    "parameter": ("Tile",),
    "limit": (1, 10),
    "number": (1, 2),
}
"""Values that lead further than chance does."""

JUNK = (
    *(b"GET", b" ", b"/v1/status", b"/v1/events?client=a", b" HTTP/1.1\r\n", b"Host: x\r\n", b"\r\n", b"\r\n\r\n", b"\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999\r\n", b"Upgrade: websocket\r\n"),
    *(b"Transfer-Encoding: chunked\r\n\r\n", b"ffffffff\r\n", b"0\r\n\r\n", b"\0", b"\xff" * 50, b"A" * 70_000, b"X: y\r\n" * 999),
    *(b"PUT /v1/clients/a/overlays", b"POST /v1/builds", b"{", b"[" * 9999, b"Connection: close\r\n", b"Expect: 100-continue\r\n"),
)  # fmt: skip


Case = schemathesis.Case[Any]


class Document:
    """The OpenAPI document, and what answers must be like."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        found = schemathesis.openapi.from_dict(document).get_all_operations()
        self.operations = [one.ok() for one in found if isinstance(one, Ok) and one.ok().path != "/v1/stop"]
        self._validators: dict[str, Draft202012Validator] = {}

    def check(self, path: str, method: str, status: int, media: str, bodies: list[bytes]) -> None:
        """Raises AssertionError for an answer that is not described."""
        responses = self.document["paths"][path][method.lower()]["responses"]
        described = responses.get(str(status), responses["default"])
        if status == 204:
            assert bodies == []
            return
        if "content" not in described:
            raise AssertionError(f"status {status} is not described")
        [(expected, content)] = described["content"].items()
        if status >= 400:
            expected = "application/json"
        assert media.split(";")[0] == expected, f"{media}, not {expected}"
        if expected == "text/plain":
            return
        validator = self._validator(content["schema"])
        for body in bodies:
            for error in validator.iter_errors(json.loads(body)):
                raise AssertionError(f"{error.message} at {error.instance_path} in {body[:2000]!r}")

    def _validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        key = json.dumps(schema)
        if key not in self._validators:
            self._validators[key] = Draft202012Validator(schema | {"components": self.document["components"]})
        return self._validators[key]


def run(rounds: Rounds) -> None:
    """Until its time is over."""
    with daemons(Bench(rounds.folder / "bench")) as daemon:
        daemon.start()
        document = Document(daemon.http.get("/openapi.json").json())
        for chance in rounds:
            with rounds.watched():
                if chance.random() < 0.1:
                    talk_nonsense(rounds, daemon, chance)
                else:
                    ask(rounds, daemon, document, chance)
                assert daemon.is_running(), f"the daemon ended with status {daemon.ended()}"
                daemon.check_log()
                assert daemon.http.get("/status").status_code == 200
            if not daemon.is_running():
                daemon.start()


def ask(rounds: Rounds, daemon: Daemon, document: Document, chance: random.Random) -> None:
    """Send some requests of one operation."""
    operation = chance.choice(document.operations)
    mode = chance.choice((GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE))

    @seed(chance.randrange(2**32))
    @settings(
        max_examples=CASES, database=None, deadline=None, derandomize=False, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(operation.as_strategy(generation_mode=mode))
    def play(case: Case) -> None:
        if rounds.over:
            return
        improve(case, chance)
        if case.path.endswith(("/runner", "/time-trace")):  # they write files
            case.body = {"path": str(rounds.folder / "out" / chance.choice("abc"))}
        with rounds.watched():
            send(rounds, daemon, document, case)

    with suppress(Unsatisfiable):  # nothing of it can be wrong
        play()


def improve(case: Case, chance: random.Random) -> None:
    """Put known values in the place of some others."""
    for values in (case.path_parameters, case.query, case.body):
        if isinstance(values, dict):
            for name in values.keys() & KNOWN.keys():
                if chance.random() < 0.6:
                    values[name] = chance.choice(KNOWN[name])


def send(rounds: Rounds, daemon: Daemon, document: Document, case: Case) -> None:
    """Send one request and look at the answer."""
    given = case.as_transport_kwargs(base_url="http://localhost")
    given.pop("cookies", None)
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(given.get("data"), bytes | str):
        given["content"] = given.pop("data")
    rounds.using(repr(given))
    try:
        request = daemon.http.build_request(**given)
    except (TypeError, ValueError, httpx.InvalidURL):
        return  # nothing that HTTP can carry
    answer = daemon.http.send(request, stream=True)
    try:
        bodies = list(lines_of(answer)) if "ndjson" in answer.headers.get("content-type", "") else [answer.read()]
    finally:
        answer.close()
    assert answer.status_code < 500, f"{answer.status_code} {case.method} {case.path}: {bodies}"
    media = answer.headers.get("content-type", "")
    document.check(case.operation.path, case.method, answer.status_code, media, [one for one in bodies if one])


def lines_of(answer: httpx.Response) -> Iterator[bytes]:
    """The whole lines of a stream, for a while."""
    until_s = time.monotonic() + STREAMED_S
    answer.request.extensions["timeout"]["read"] = STREAMED_S
    rest = b""
    with suppress(httpx.ReadTimeout):
        for piece in answer.iter_bytes():
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
            if time.monotonic() > until_s:
                return
        yield rest


def talk_nonsense(rounds: Rounds, daemon: Daemon, chance: random.Random) -> None:
    """Send bytes, and leave."""
    data = b"".join(chance.choices(JUNK, k=chance.randrange(1, 12)))
    rounds.using(data)
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(str(endpoint_of(daemon.bench.root).socket))
        connection.settimeout(STREAMED_S)
        connection.sendall(data)
        while chance.random() < 0.7 and connection.recv(65536):
            pass
