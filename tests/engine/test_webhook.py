"""Alerts: what is one, and a web server that gets them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, TCPServer
from typing import Any

import anyio
import pytest
from anyio import to_thread

from benches.timed_units import wire_timing
from ckwatch.core.events import MAIN
from ckwatch.engine import webhook
from ckwatch.engine.change_feed import ChangeFeed
from ckwatch.engine.webhook import MOST_ALERTS, Webhook, WebhookError, message, post
from ckwatch.model.delays import ALERTS, WEBHOOK_RETRY
from ckwatch.model.text import Position, Span
from ckwatch.model.timings import Comparison
from ckwatch.model.topics import Topic
from ckwatch.wire.alerts import Alert, Standing, alerts, standing_of
from ckwatch.wire.state import Unit, VerificationBrief
from fakes.patience import PATIENCE_S
from helpers.each_row import each_row

NAME = "k/one@gfx942"
SLOW = Comparison(verdict="SLOW", ratio=1.25, against="previous", other_median_us=80.0)


def unit(**fields: Any) -> Unit:
    at = Position(line=0, column=0)
    values: dict[str, Any] = {
        "id": NAME, "kernel": "k", "instance": "one", "arch": "gfx942", "place": Span("/w/k", at, at), "phase": "done",
        "outcome": "built", "fresh": True, "generation": 1, "errors": 0, "warnings": 0,
    }  # fmt: skip
    return Unit(**(values | fields))


WRONG = VerificationBrief(
    artifact_key="a", standing="fresh", outcome="failed", device="emulated:gfx942", summary="wrong on 1 of 2 shapes",
    problems=2, findings=0,
)  # fmt: skip
GOOD = standing_of(unit())


@each_row(
    ("now", "expected"),
    [
        (unit(), []),
        (unit(outcome="failed"), [("failed", "failed to build")]),
        (unit(outcome="faulted"), [("failed", "failed to build")]),
        (unit(outcome=None, phase="compiling"), []),
        (unit(verification=WRONG), [("wrong", "wrong on 1 of 2 shapes")]),
        (unit(verification=replace(WRONG, standing="stale")), []),
        (unit(timings=(wire_timing(1, failure="wrong result", message="NaN\nat 1", cache=""),)), [("wrong", "s: NaN")]),
        (
            unit(timings=(wire_timing(1, comparisons=(SLOW,)),)),
            [("slower", "+25.0 % on s, cold, against the previous")],
        ),
        (unit(timings=(wire_timing(1, comparisons=(replace(SLOW, verdict="UNSURE"),)),)), []),
        (unit(timings=(wire_timing(1, comparisons=(replace(SLOW, against="library"),)),)), []),
        (unit(timings=(wire_timing(1, comparisons=(SLOW,), standing="stale"),)), []),
    ],
)
def test_an_alert_is_what_became_worse(now: Unit, expected: list[tuple[str, str]]) -> None:
    standing = standing_of(now)
    assert [(one.kind, one.text) for one in alerts(NAME, GOOD, standing)] == expected
    assert [*alerts(NAME, standing, standing)] == []
    assert [*alerts(NAME, standing, GOOD)] == []


def test_a_post_is_small_and_says_what_it_leaves_out() -> None:
    found = [Alert("failed", f"k/{at}@host", "failed to build") for at in range(MOST_ALERTS + 5)]
    content = message("kernels", found)
    assert (len(content["alerts"]), content["count"]) == (MOST_ALERTS, MOST_ALERTS + 5)
    first, *_, last = content["text"].splitlines()
    assert (first, last) == ("ckwatch, kernels:", "and 5 more")


@dataclass
class Receiver:
    """A web server, which answers with these statuses in turn, then with 204."""

    statuses: list[int] = field(default_factory=list)
    got: list[Any] = field(default_factory=list)
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    address: str = ""


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    receiver = Receiver([*statuses])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Keep what comes."""
            content = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append((self.path, self.headers["Content-Type"], json.loads(content)))
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            receiver.came.release()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.address = f"http://127.0.0.1:{server.server_port}/hooks/s3cret"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()


def take(receiver: Receiver, posts: int) -> None:
    """Wait for so many posts; for a thread."""
    for _ in range(posts):
        assert receiver.came.acquire(timeout=PATIENCE_S)


REFUSALS = [
    (500, True, " (Internal Server Error)"),
    (429, True, " (Too Many Requests)"),
    (404, False, " (Not Found)"),
    (302, False, " (Found)"),
    (307, False, " (Temporary Redirect)"),
    (599, True, ""),
]


@pytest.mark.parametrize(("status", "again", "phrase"), REFUSALS)
def test_a_refusal_is_named_without_the_address(status: int, again: bool, phrase: str) -> None:
    with receiving(status) as receiver, pytest.raises(WebhookError) as caught:
        post(receiver.address, {})
    assert (str(caught.value), caught.value.again) == (f"HTTP {status}{phrase}", again)
    assert len(receiver.got) == 1, "a redirect was followed"


NO_SERVER = "its address is not one of a web server"
NO_SCHEME = "its address begins with neither https:// nor http://"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("file:///etc/passwd", NO_SCHEME),
        ("s3cret", NO_SCHEME),
        ("http://[::1/s3cret", NO_SERVER),
        ("http:///s3cret", NO_SERVER),
        ("http://h:s3cret/", NO_SERVER),
        ("http://h/s3 cret", NO_SERVER),
        ("http://127.0.0.1:1/s3cret", "Connection refused"),
    ],
)
def test_an_address_that_is_none_or_nobodys_is_an_error(address: str, why: str) -> None:
    with pytest.raises(WebhookError) as caught:
        post(address, {})
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("answer", "why"),
    [(b"", "the connection was closed without an answer"), (b"s3cret\r\n\r\n", "the answer is not HTTP")],
)
def test_an_answer_that_is_none_is_named(answer: bytes, why: str) -> None:
    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            """Read some, and answer."""
            self.request.recv(4096)
            self.request.sendall(answer)

    with TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(WebhookError, match=why):
            post(f"http://127.0.0.1:{server.server_address[1]}/", {})
        thread.join()


async def test_an_address_that_is_none_is_named_at_once() -> None:
    warned, told = list[str | None](), anyio.Event()

    async def warn(text: str | None) -> None:
        warned.append(text)
        told.set()

    hook = Webhook("kernels", ChangeFeed(), dict[str, Unit]().get, lambda: "s3cret", warn, list)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hook.run, MAIN)
        with anyio.fail_after(PATIENCE_S):
            await told.wait()
        tasks.cancel_scope.cancel()
    assert warned == [f"the webhook takes no alerts: {NO_SCHEME}"]


@pytest.mark.parametrize("failures", [(), (503,), (503, 503, 503)])
async def test_what_becomes_worse_is_posted_once(failures: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "ALERTS", ALERTS._replace(seconds=0.0))
    monkeypatch.setattr(webhook, "WEBHOOK_RETRY", WEBHOOK_RETRY._replace(seconds=0.0))
    feed, warned, told = ChangeFeed(), list[str | None](), anyio.Event()
    units = {NAME: unit(), "k/old@gfx942": unit(id="k/old@gfx942", outcome="failed")}

    async def warn(text: str | None) -> None:
        warned.append(text)
        told.set()

    with receiving(*failures) as receiver:
        hook = Webhook("kernels", feed, units.get, lambda: receiver.address, warn, lambda: [*units])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hook.run, MAIN)
            await anyio.wait_all_tasks_blocked()
            units[NAME] = unit(outcome="failed")
            for name in units:
                feed.mark(MAIN, Topic.unit(name))
            with anyio.fail_after(PATIENCE_S):
                await to_thread.run_sync(take, receiver, min(len(failures) + 1, 3))
                if len(failures) == 3:
                    await told.wait()
            tasks.cancel_scope.cancel()
    path, kind, content = receiver.got[-1]
    assert (path, kind) == ("/hooks/s3cret", "application/json")
    assert content["alerts"] == [{"kind": "failed", "unit": NAME, "text": "failed to build"}]
    assert warned == (
        ["the webhook at 127.0.0.1 takes no alerts: HTTP 503 (Service Unavailable)"] if len(failures) == 3 else []
    )


def test_what_is_known_when_one_begins_is_no_alert_and_what_is_removed_is_forgotten() -> None:
    units = {NAME: unit(outcome="failed")}

    async def warn(_text: str | None) -> None:
        """Show nothing."""

    hook = Webhook("kernels", ChangeFeed(), units.get, lambda: "", warn, lambda: [*units])
    assert hook.look([NAME]) == []
    assert hook.look([NAME]) == []
    gone = units.pop(NAME)
    assert hook.look([NAME]) == []
    units[NAME] = gone
    assert [one.kind for one in hook.look([NAME])] == ["failed"], "an instance that is new, and fails at once"
    assert Standing() == standing_of(unit())
