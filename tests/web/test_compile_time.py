"""The view *Compile time*: the slowest units, and the trace of one."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from cases.web_rows import HOSTILE, feed_of, unit_row
from ckwatch import CkwatchError
from ckwatch.compile.timetrace.summary import TemplateCost
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Position, Span
from ckwatch.wire.messages import PassTime, TimeTrace
from ckwatch_web.content import PLACE, Action, Content, Note, Plot
from ckwatch_web.views import compile_time
from ckwatch_web.views.compile_time import MOST_KEPT, Traced, keep, kept_traces, slowest, slowest_plot

ONE = "k/one@gfx942"


def pass_time(name: str = "host pass") -> PassTime:
    return PassTime(
        side="host", name=name, seconds=2.0, stages={"parsing": 0.5, "optimizer": 1.5}, template_count=7,
        templates=(TemplateCost(name=HOSTILE, count=3, inclusive_s=0.2, self_s=0.1),
                   TemplateCost(name="ck::Tuple", count=9, inclusive_s=0.5, self_s=0.4)), instantiation_count=12,
    )  # fmt: skip


class TracingClient:
    """Writes a trace as the daemon does; `ok`: whether the unit compiles."""

    def __init__(self, *, ok: bool = True, text: str = "") -> None:
        self.ok = ok
        self.text = text
        self.paths: list[Path] = []

    async def time_trace(self, unit: str, path: Path) -> TimeTrace:
        self.paths.append(path)
        if not self.ok:
            place = Span(path="/w/k.hip.j2", start=Position(line=2, column=4), end=Position(line=2, column=5))
            found = Diagnostic(severity=Severity.ERROR, source=Source.CLANG, code="c", message=HOSTILE, span=place)
            return TimeTrace(unit=unit, granularity_us=100, diagnostics=(found,))
        event = {"ph": "X", "pid": 1, "ts": 0, "dur": 500, "name": "Frontend"}
        await anyio.Path(path).write_text(self.text or f'{{"traceEvents": [\n{json.dumps(event)}\n]}}\n')
        return TimeTrace(unit=unit, granularity_us=100, passes=(pass_time(),))


def test_the_slowest_units_come_first() -> None:
    rows = [unit_row(f"k/{at}@gfx942", seconds=float(at)) for at in range(5000)]
    table = slowest(rows)
    assert len(table.rows) == 4999
    assert (table.rows[0]["unit"], table.rows[0]["seconds"]) == ("k/4999@gfx942", 4999.0)
    assert table.rows[0][PLACE] == "/w/k.kernel.toml:5:9"
    plot = slowest_plot(rows)
    assert plot is not None
    assert plot.summary.startswith("the 30 slowest of 4999 units")
    assert slowest_plot([]) is None
    assert slowest([unit_row()]).rows == ()


async def test_a_trace_is_made_when_asked_for_and_kept_for_all_windows() -> None:
    client = TracingClient()
    feed = feed_of(unit_row(ONE, seconds=2.0), client=client)
    before = compile_time.depends(feed, {})
    content = await compile_time.show(feed, {"unit": ONE})
    assert client.paths == []
    assert [(block.label, block.changes) for block in content.blocks if isinstance(block, Action)] == [
        ("Trace the compile", False)
    ]
    assert [block.key for block in content.blocks if isinstance(block, Plot)] == ["slowest"]
    assert await compile_time.trace(feed, {"unit": ONE}) == f"traced {ONE}: host pass 2.0 s"
    assert not client.paths[0].parent.exists()
    assert compile_time.depends(feed, {}) != before
    content = await compile_time.show(feed, {"unit": ONE})
    assert [block.key for block in content.blocks if isinstance(block, Plot)] == ["flame-0", "slowest"]
    tables = {table.key: table for table in content.tables}
    assert [row["share"] for row in tables["stages"].rows] == [25.0, 75.0]
    assert [row["name"] for row in tables["templates"].rows] == ["ck::Tuple", HOSTILE]


async def test_a_trace_of_another_input_is_marked() -> None:
    feed = feed_of(unit_row(ONE, generation=1), client=TracingClient())
    await compile_time.trace(feed, {"unit": ONE})
    assert notes(await compile_time.show(feed, {})) == []
    feed.units[ONE] = unit_row(ONE, generation=2)
    assert notes(await compile_time.show(feed, {})) == ["old"]


def notes(content: Content) -> list[str]:
    return [block.key for block in content.blocks if isinstance(block, Note)]


async def test_why_a_unit_does_not_compile_is_shown() -> None:
    feed = feed_of(unit_row(ONE), client=TracingClient(ok=False))
    assert await compile_time.trace(feed, {}) == f"{ONE} does not compile"
    (messages, _) = (await compile_time.show(feed, {})).tables
    assert [(row["message"], row["where"], row[PLACE]) for row in messages.rows] == [
        (HOSTILE, "k.hip.j2:3", "/w/k.hip.j2:3:5")
    ]


async def test_a_trace_that_cannot_be_read_is_an_error_and_leaves_nothing() -> None:
    client = TracingClient(text='{"ph": "X", "pid": 1}\n')
    feed = feed_of(unit_row(ONE), client=client)
    with pytest.raises(CkwatchError, match="cannot be read: an event is malformed"):
        await compile_time.trace(feed, {})
    assert kept_traces(feed) == {}
    assert not client.paths[0].parent.exists()
    with pytest.raises(CkwatchError, match="no such unit"):
        await compile_time.trace(feed_of(), {})


def test_the_last_traces_are_kept() -> None:
    feed = feed_of()
    for at in (*range(MOST_KEPT + 2), 3):
        keep(feed, f"k/{at}@gfx942", Traced(TimeTrace(unit="k", granularity_us=1), (), 0, float(at)))
    assert [one.at for one in kept_traces(feed).values()] == [2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 3.0]
