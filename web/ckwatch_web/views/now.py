"""*Now*: units by state, the queues of compilers and devices over the last minutes, and errors in their templates."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.model.amounts import count, duration, timestamp
from ckwatch.system.user_files import read_file
from ckwatch_web.content import PLACE, UNIT, Action, Block, Cell, Column, Content, Facts, Note, Plot, Table
from ckwatch_web.places import TextPlace, name_of
from ckwatch_web.plots import COLOURS, axis, base, legend
from ckwatch_web.view import Query
from ckwatch_web.views.headlines import headlines

if TYPE_CHECKING:
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.feed import Feed, QueueSample

COLUMNS = (
    Column(key="unit", title="unit", width=330, pinned=True),
    Column(key="state", title="state", width=110),
    Column(key="errors", title="errors", kind="number", width=90),
    Column(key="seconds", title="compile, s", kind="number", width=110),
    Column(key="finished", title="finished", width=170),
    Column(key="best", title="fastest", kind="time", width=120),
    Column(key="shape", title="on", width=120),
    Column(key="resources", title="code object", width=380),
    Column(key="verification", title="verified", width=240),
    Column(key="toolchains", title="other toolchains", width=200),
    Column(key="cause", title="because", width=300),
)

LINES = (("compiling", 0), ("queued", 4), ("timing", 2), ("to_time", 5), ("verifying", 3))
"""Queues and their colours, by index."""

NAMES = {
    "compiling": "compiling",
    "queued": "waiting for a compiler",
    "timing": "timing",
    "to_time": "shapes to time",
    "verifying": "verifying",
}


def unit_cells(row: UnitRow) -> dict[str, Cell]:
    """A unit's line."""
    timed = [timing for timing in row.timings if timing.is_time]
    best = min(timed, key=lambda timing: timing.median_us, default=None)
    cells: dict[str, Cell] = {
        "id": row.id,
        UNIT: row.id,
        PLACE: row.place,
        "unit": row.id,
        "state": row.state if row.fresh or row.phase != "done" else f"{row.state}, stale",
        "errors": row.errors or None,
        "seconds": round(row.seconds, 2) if row.seconds else None,
        "finished": timestamp(row.finished_at) if row.finished_at else "",
        "best": None if best is None else best.median_us,
        "shape": "" if best is None else f"{best.shape}, {best.cache}",
        "resources": row.headline,
        "verification": row.verification,
        "toolchains": row.toolchains,
        "cause": row.slow or row.cause,
    }
    return {key: value for key, value in cells.items() if value not in (None, "")}


def timeline(samples: Iterable[QueueSample], now: float) -> Plot:
    """The queues as steps over time, until `now` (Unix seconds)."""
    points = list(samples)
    series = []
    for key, colour in LINES:
        steps: list[list[float]] = [[1000 * sample.at, getattr(sample, key)] for sample in points]
        if steps and (key == "compiling" or any(value for _, value in steps)):
            steps.append([1000 * now, steps[-1][1]])
            series.append(
                {"name": NAMES[key], "type": "line", "step": "end", "symbol": "none", "data": steps,
                 "lineStyle": {"width": 2}, "itemStyle": {"color": COLOURS[colour]}}
            )  # fmt: skip
    last = points[-1] if points else None
    words = "nothing is being done" if last is None else ", ".join(
        f"{NAMES[key]}: {getattr(last, key)}" for key, _ in LINES if getattr(last, key)
    ) or "nothing is being done"  # fmt: skip
    option = base(
        xAxis=axis("", kind="time", min=1000 * (now - 300)),
        grid={"left": 12, "right": 24, "top": 44, "bottom": 8, "containLabel": True},
        yAxis=axis("units", minInterval=1, min=0, scale=False, nameLocation="end", nameGap=10),
        legend=legend([NAMES[key] for key, _ in LINES]),
        tooltip={"trigger": "axis", "confine": True},
        series=series,
    )
    title, summary = "Queues, the last minutes", f"Now: {words}."
    return Plot(key="queues", title=title, option=option, summary=summary, height_px=240, live=True)


def _at_work(sample: QueueSample) -> bool:
    return any(getattr(sample, key) for key, _ in LINES)


def messages(diagnostics: Sequence[tuple[Diagnostic, str]]) -> Table:
    """The messages, errors first, each with its line of the text."""
    order = {"error": 0, "warning": 1, "information": 2, "hint": 3}
    rows = []
    for at, (found, line) in enumerate(sorted(diagnostics, key=lambda one: order[one[0].severity])):
        place = TextPlace(found.span.path, found.span.start.line, found.span.start.column)
        rows.append({
            "id": f"{at}", PLACE: place.text, UNIT: found.units[0] if found.units else None,
            "severity": found.severity + (", stale" if found.stale else ""), "message": found.message,
            "where": name_of(place), "text": line.strip(),
            "units": f"{len(found.units)} of {found.unit_count}" if found.unit_count else "",
            "code": found.code,
        })  # fmt: skip
    columns = (
        Column(key="severity", title="severity", width=100),
        Column(key="message", title="message", width=420),
        Column(key="where", title="where", width=180),
        Column(key="text", title="text", kind="code", width=300),
        Column(key="units", title="units", width=90),
        Column(key="code", title="code", width=150),
    )
    return Table(key="messages", title="Messages", columns=columns, rows=tuple(rows), empty="no errors or warnings")


def source_lines(places: Iterable[tuple[str, int]]) -> list[str]:
    """The lines at these places, empty where a file has none or cannot be read. Blocks; call from a worker thread."""
    texts: dict[str, list[str]] = {}
    found = []
    for path, line in places:
        if path not in texts:
            try:
                texts[path] = read_file(path).decode(errors="replace").splitlines()
            except OSError:
                texts[path] = []
        found.append(texts[path][line] if line < len(texts[path]) else "")
    return found


MOST_MESSAGES = 500


async def show(feed: Feed, _query: Query) -> Content:
    """The whole view."""
    every = [one for own in feed.diagnostics.values() for one in own]
    found = every[:MOST_MESSAGES]
    places = [(one.span.path, one.span.start.line) for one in found]
    lines = await to_thread.run_sync(source_lines, places)
    rows = list(feed.units.values())
    states = Counter(row.state for row in rows)
    blocks: list[Block] = []
    workspace = feed.workspace
    if workspace is not None:
        if workspace.problem:
            blocks.append(Note(key="problem", text=workspace.problem, kind="error"))
        blocks += [
            Note(key=f"warning-{topic}", text=text, kind="warning") for topic, text in workspace.warnings.items()
        ]
    blocks.append(headlines(rows, every, time.time()))
    counts = ((state, str(number)) for state, number in sorted(states.items(), key=lambda one: -one[1]))
    facts = [("units", str(len(rows))), *counts]
    if compiled := sum(row.seconds for row in rows):
        facts.append(("compile time in all", duration(compiled)))
    blocks.append(Facts(key="units-by-state", title="Units by state", facts=tuple(facts)))
    blocks.append(Action(key="build", label="Build all"))
    blocks.append(Action(key="bench", label="Time all"))
    blocks.append(Action(key="cancel", label="Cancel running work"))
    if any(_at_work(sample) for sample in feed.timeline):
        blocks.append(timeline(feed.timeline, time.time()))
    if found:
        blocks.append(messages(list(zip(found, lines, strict=True))))
    table = await to_thread.run_sync(lambda: tuple(unit_cells(row) for row in rows))
    blocks.append(Table(key="units", title="Units", columns=COLUMNS, rows=table, empty="no units", height_px=520))
    return Content(title=f"{count(len(rows), 'unit')}", blocks=tuple(blocks))


async def build(feed: Feed, _query: Query) -> str:
    """Ask for all units; they go on as long as this runs."""
    result = await feed.client.build()
    return "built" if result.ok else f"{count(len(result.failed), 'unit')} failed"


async def bench(feed: Feed, _query: Query) -> str:
    """Time all units; what is known is not timed again. It goes on as long as this runs."""
    timed, skipped = 0, ""
    async with feed.client.bench() as lines:
        async for line in lines:
            timed += line.event == "timing"
            if line.event == "skipped":
                skipped = skipped or f"; not {line.unit}: {line.text}"
    return f"{count(timed, 'timing')}{skipped}"


async def cancel(feed: Feed, _query: Query) -> str:
    """Cancel everything."""
    return f"cancelled {count(len(await feed.client.cancel()), 'unit')}"


def depends(feed: Feed, _query: Query) -> Hashable:
    """Everything."""
    return feed.revision


ACTIONS = {"build": build, "bench": bench, "cancel": cancel}
