"""State that the page keeps of a workspace, its changes, and the view of running work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from ckwatch import CkwatchError
from ckwatch.client.events import ReadChange
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.text import Position, Span
from ckwatch.model.timings import Comparison
from ckwatch.model.topics import Topic
from ckwatch.wire.benchmarks import BenchLine
from ckwatch.wire.rows import UnitRow, unit_row
from ckwatch.wire.state import File, Unit, Workspace
from ckwatch_web.content import PLACE, Note, Plot, Table
from ckwatch_web.feed import Feed, QueueSample
from ckwatch_web.views import now
from fakes.fake_benchmarks import timing_of
from fakes.fake_engine import unit_of


class Daemons:
    """A client of daemons that come and go: each gives these changes, and then what `more` brings."""

    root = Path("/w")

    def __init__(self, *lives: list[ReadChange[UnitRow]]) -> None:
        self.lives = list(lives)
        self.end = anyio.Event()

    @asynccontextmanager
    async def events_in_rows(self) -> AsyncIterator[AsyncIterator[ReadChange[UnitRow]]]:
        changes = self.lives.pop(0)

        async def following() -> AsyncIterator[ReadChange[UnitRow]]:
            for change in changes:
                yield change
            await self.end.wait()
            self.end = anyio.Event()

        yield following()


WORKSPACE = Workspace(root="/w", loaded=True, busy=False, unit_count=1, jobs=2, compiling=0)
ONE = unit_of()


def change(topic: str, state: Any) -> ReadChange[UnitRow]:
    return ReadChange(1, Topic(topic), unit_row(state) if isinstance(state, Unit) else state)


def diagnostic(message: str = "wrong", line: int = 0, path: str = "/w/t.j2", **fields: Any) -> Diagnostic:
    span = Span(path=path, start=Position(line=line, column=2), end=Position(line=line, column=3))
    values: dict[str, Any] = {"severity": "error", "source": "template", "code": "c", "message": message}
    return Diagnostic(**(values | fields), span=span)


async def until(feed: Feed, met: Any) -> None:
    while not met():
        await feed.changed(feed.revision)


@pytest.fixture
def found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is looked for is there."""

    @asynccontextmanager
    async def there(*_: object, **__: object) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr("ckwatch_web.feed.connect", there)


@pytest.mark.usefixtures("found_at_once")
async def test_states_come_change_and_go() -> None:
    file = File(path="/w/t.j2", diagnostics=(diagnostic(),))
    first = [change(f"unit/{ONE.id}", ONE), change("file//w/t.j2", file), change("workspace", WORKSPACE)]
    second = [
        change(f"unit/{ONE.id}", None),
        change("file//w/t.j2", File(path="/w/t.j2", diagnostics=())),
        change("workspace", replace(WORKSPACE, editors=1)),
    ]
    daemons = Daemons(first, second)
    feed = Feed(daemons)  # type: ignore[arg-type]  # of a client it takes the events
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed.run)
        await until(feed, lambda: feed.loaded)
        assert feed.connected
        assert list(feed.units) == [ONE.id]
        assert [one.message for one in feed.diagnostics["/w/t.j2"]] == ["wrong"]
        assert feed.editors == 0
        daemons.end.set()
        await until(feed, lambda: feed.editors == 1)
        assert feed.units == {}
        assert feed.diagnostics == {}
        tasks.cancel_scope.cancel()


async def test_tuning_runs_are_watched_once_a_view_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that cannot be read does not end it, and is no news each time."""
    send, receive = anyio.create_memory_object_stream[CkwatchError | None](5)
    begun = 0

    @asynccontextmanager
    async def tuning_changes() -> AsyncIterator[AsyncIterator[None]]:
        nonlocal begun
        begun += 1

        async def following() -> AsyncIterator[None]:
            async for error in receive:
                if error is not None:
                    raise error
                yield

        yield following()

    feed = Feed(SimpleNamespace(tuning_changes=tuning_changes), retry_s=0)  # type: ignore[arg-type]  # of a client it takes this
    monkeypatch.setattr(feed, "_follow", anyio.sleep_forever)
    assert feed.follow_tuning() == 0
    async with anyio.create_task_group() as tasks, send, receive:
        tasks.start_soon(feed.run)
        await anyio.lowlevel.checkpoint()
        assert begun == 0
        assert feed.follow_tuning() == feed.follow_tuning() == 0
        damaged = CkwatchError("damaged")
        for news, number in ((None, 1), (damaged, 2), (damaged, 2), (None, 3)):
            await send.send(news)
            while receive.statistics().current_buffer_used or feed.follow_tuning() < number:
                await anyio.lowlevel.checkpoint()
        assert feed.follow_tuning() == begun == 3
        tasks.cancel_scope.cancel()


@pytest.mark.usefixtures("found_at_once")
async def test_timings_follow_when_somebody_wants_them() -> None:
    """What becomes slower meanwhile is no alert, and a unit that changes meanwhile keeps what it came with."""
    timing = timing_of(comparisons=(Comparison(verdict="SLOW", ratio=1.5, against="previous", other_median_us=1.0),))
    two = replace(ONE, id="gemm/two@gfx942")
    untimed = [ReadChange(1, Topic.unit(one.id), unit_row(one, untimed=True)) for one in (ONE, two)]
    asked: list[list[str]] = []

    async def unit_rows(units: list[str]) -> list[UnitRow]:
        asked.append(units)
        feed._take([change(f"unit/{two.id}", two)])
        return [unit_row(replace(one, timings=(timing,))) for one in (ONE, two)]

    daemons = Daemons([*untimed, change("workspace", replace(WORKSPACE, unit_count=2))])
    daemons.unit_rows = unit_rows  # type: ignore[attr-defined]
    feed = Feed(daemons)  # type: ignore[arg-type]  # of a client it takes these
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed.run)
        await until(feed, lambda: feed.loaded)
        assert (asked, feed.timed) == ([], False)
        feed.timings_wanted.set()
        await until(feed, lambda: feed.timed)
        tasks.cancel_scope.cancel()
    assert asked == [[ONE.id, two.id]]
    assert [len(row.timings) for row in feed.units.values()] == [1, 0]
    assert not feed.alerts


@pytest.mark.usefixtures("found_at_once")
async def test_nothing_is_left_of_what_went_while_there_was_no_daemon() -> None:
    file = File(path="/w/t.j2", diagnostics=(diagnostic(),))
    first = [change(f"unit/{ONE.id}", ONE), change("file//w/t.j2", file), change("workspace", WORKSPACE)]
    daemons = Daemons(first, [change("workspace", replace(WORKSPACE, unit_count=0))])
    feed = Feed(daemons)  # type: ignore[arg-type]  # of a client it takes the events
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed.run)
        await until(feed, lambda: feed.loaded)
        daemons.end.set()
        await until(feed, lambda: not feed.connected)
        assert list(feed.units) == [ONE.id]
        await until(feed, lambda: feed.connected)
        assert (feed.units, feed.diagnostics, feed.loaded) == ({}, {}, True)
        tasks.cancel_scope.cancel()


# What is going on.


def test_the_time_line_has_queues_that_are_not_empty() -> None:
    samples = [QueueSample(10.0, 2, 5, 0, 0, 0), QueueSample(20.0, 1, 0, 0, 0, 0)]
    plot = now.timeline(samples, 30.0)
    names = [one["name"] for one in plot.option["series"]]
    assert names == ["compiling", "waiting for a compiler"]
    assert plot.option["series"][0]["data"] == [[10000.0, 2], [20000.0, 1], [30000.0, 1]]
    assert plot.summary == "Now: compiling: 1."
    assert now.timeline([], 30.0).summary == "Now: nothing is being done."


def test_messages_have_their_text_and_errors_come_first() -> None:
    found = [
        (diagnostic("may be", severity="warning"), " a "),
        (diagnostic("is", line=4, units=("u",), unit_count=3), " b"),
    ]
    shown = now.messages(found)
    assert [row["message"] for row in shown.rows] == ["is", "may be"]
    assert (shown.rows[0][PLACE], shown.rows[0]["where"], shown.rows[0]["text"]) == ("/w/t.j2:5:3", "t.j2:5", "b")
    assert shown.rows[0]["units"] == "1 of 3"


async def test_the_view_shows_units_messages_and_warnings(tmp_path: Path) -> None:
    template = tmp_path / "t.j2"
    template.write_text("first\n  second line\n")
    feed = Feed(SimpleNamespace())  # type: ignore[arg-type]  # the view asks nothing
    feed.units = {ONE.id: unit_row(ONE)}
    feed.workspace = replace(WORKSPACE, warnings={"disk": "nearly full"}, problem="no compiler")
    feed.diagnostics = {str(template): (diagnostic(line=1, path=str(template)), diagnostic(line=9, path="/nowhere"))}
    content = await now.show(feed, {})
    texts = [(block.kind, block.text) for block in content.blocks if isinstance(block, Note)]
    assert texts == [("error", "no compiler"), ("warning", "nearly full")]
    tables = {block.key: block for block in content.blocks if isinstance(block, Table)}
    assert [row["text"] for row in tables["messages"].rows] == ["second line", ""]
    assert [row["unit"] for row in tables["units"].rows] == [ONE.id]
    assert not any(isinstance(block, Plot) for block in content.blocks)
    feed.timeline.append(QueueSample(1e9, 1, 0, 0, 0, 0))
    (plot,) = (block for block in (await now.show(feed, {})).blocks if isinstance(block, Plot))
    assert plot.live


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([BenchLine(event="start"), BenchLine(event="timing"), BenchLine(event="done")], "1 timing"),
        (
            [BenchLine(event="skipped", unit=name, text="no device") for name in ("a", "b")],
            "0 timings; not a: no device",
        ),
    ],
)
async def test_timing_all_says_what_came_of_it(lines: list[BenchLine], said: str) -> None:
    @asynccontextmanager
    async def bench() -> AsyncIterator[AsyncIterator[BenchLine]]:
        async def given() -> AsyncIterator[BenchLine]:
            for line in lines:
                yield line

        yield given()

    feed = Feed(SimpleNamespace(bench=bench))  # type: ignore[arg-type]  # of a client it takes this
    assert await now.bench(feed, {}) == said


def test_what_becomes_worse_is_an_alert_once_all_was_read() -> None:
    feed = Feed(Daemons())  # type: ignore[arg-type]
    failed = unit_of(outcome="failed")
    for loaded, unit in ((False, failed), (True, ONE), (True, failed), (True, failed)):
        feed.connected, feed.loaded = True, loaded
        feed._take([change(Topic.unit(ONE.id), unit)])
    assert [one.line for one in feed.alerts] == [f"{ONE.id}: failed to build"]
    assert feed.alerts_seen == 1
