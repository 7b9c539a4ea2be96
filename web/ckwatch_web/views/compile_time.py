"""*Compile time*: the units that take longest, and of one of them where the time goes, as a flame graph and tables.

A trace takes as long as a compile, so it is made when somebody asks for it, and kept for all windows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from heapq import nlargest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

from anyio import CancelScope, to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import count, duration, timestamp
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_web.choices import chosen_unit, unit_choice
from ckwatch_web.content import NO_UNITS, PLACE, UNIT, Action, Block, Column, Content, Facts, Note, Plot, Row, Table
from ckwatch_web.places import TextPlace, name_of, place_in, place_of
from ckwatch_web.plots import COLOURS, TOOLTIP, axis, base, flame_height_px, flame_option
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.wire.messages import PassTime, TimeTrace
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.feed import Feed

KEPT = "compile-time"
MOST_KEPT = 8
"""Traces, of the units that were asked for last."""

DRAWN = 30
"""Units in the picture."""

MOST_TEMPLATES = 400
MOST_MESSAGES = 50


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace, of which generation of the unit it is, and when it was made (Unix seconds)."""

    trace: TimeTrace
    flames: tuple[Flame, ...]
    generation: int
    at: float


def kept_traces(feed: Feed) -> dict[str, Traced]:
    """By unit, the one that was made last at the end."""
    return cast("dict[str, Traced]", feed.kept.setdefault(KEPT, {}))


def keep(feed: Feed, unit: str, traced: Traced) -> None:
    """Keep a trace, and leave the oldest ones."""
    traces = kept_traces(feed)
    traces.pop(unit, None)
    traces[unit] = traced
    while len(traces) > MOST_KEPT:
        del traces[next(iter(traces))]


def slowest(rows: Iterable[UnitRow]) -> Table:
    """All units that were compiled, the slowest first."""
    found: list[Row] = [
        {
            "id": row.id, UNIT: row.id, PLACE: row.place, "unit": row.id, "seconds": round(row.seconds, 2),
            "finished": timestamp(row.finished_at) if row.finished_at else "",
            "cause": row.slow or row.cause,
        }
        for row in sorted(rows, key=lambda one: -one.seconds)
        if row.seconds
    ]  # fmt: skip
    columns = (
        Column(key="unit", title="unit", width=380, pinned=True),
        Column(key="seconds", title="compile, s", kind="number", width=120),
        Column(key="finished", title="finished", width=180),
        Column(key="cause", title="because", width=360),
    )
    empty = "none was compiled here; `ckwatch build` compiles"
    return Table(key="slowest", title="Compile time by unit", columns=columns, rows=tuple(found), empty=empty)


def slowest_plot(rows: Iterable[UnitRow]) -> Plot | None:
    """The slowest units as bars; None without any."""
    timed = [row for row in rows if row.seconds]
    if not timed:
        return None
    shown = nlargest(DRAWN, timed, key=lambda row: row.seconds)
    bars = [{"value": round(row.seconds, 3), "text": f"{row.id}\n{duration(row.seconds)}"} for row in reversed(shown)]
    several = len({row.kernel for row in shown}) > 1
    names = [row.id if several else f"{row.instance}@{row.arch}" for row in reversed(shown)]
    option = base(
        grid={"left": 12, "right": 24, "top": 8, "bottom": 40, "containLabel": True},
        xAxis=axis("s", min=0, axisLabel={"hideOverlap": True}),
        yAxis={"type": "category", "data": names, "axisLabel": {"width": 220, "overflow": "truncate", "interval": 0}},
        tooltip=TOOLTIP,
        series=[{"type": "bar", "data": bars, "itemStyle": {"color": COLOURS[0]}, "barMaxWidth": 16}],
    )
    part = f"the {len(shown)} slowest of {len(timed)} units" if len(shown) < len(timed) else count(len(timed), "unit")
    summary = f"{part}; {shown[0].id} takes longest, {duration(shown[0].seconds)}."
    height = 70 + 20 * len(shown)
    return Plot(key="slowest", title="Slowest to compile", option=option, summary=summary, height_px=height)


def stages(passes: Iterable[PassTime]) -> Table:
    """Tabulate the time of each pass by stage; passes run side by side."""
    rows: list[Row] = []
    for one in passes:
        total = sum(one.stages.values()) or 1.0
        rows += [
            {
                "id": f"{one.name}\n{stage}", "pass": one.name, "stage": stage, "seconds": round(seconds, 3),
                "share": round(100 * seconds / total, 1),
            }
            for stage, seconds in one.stages.items()
        ]  # fmt: skip
    columns = (
        Column(key="pass", title="pass", width=220),
        Column(key="stage", title="stage", width=240),
        Column(key="seconds", title="s", kind="number", width=110),
        Column(key="share", title="% of the pass", kind="number", width=140),
    )
    return Table(key="stages", title="Stages of each pass", columns=columns, rows=tuple(rows))


def templates(passes: Iterable[PassTime]) -> Table:
    """The costliest templates, by own time."""
    named = [(one, cost) for one in passes for cost in one.templates]
    shown = nlargest(MOST_TEMPLATES, named, key=lambda pair: pair[1].self_s)
    rows: list[Row] = [
        {
            "id": f"{one.name}\n{cost.name}", "name": cost.name, "pass": one.name, "count": cost.count,
            "self": round(1000 * cost.self_s, 1), "inclusive": round(1000 * cost.inclusive_s, 1),
        }
        for one, cost in shown
    ]  # fmt: skip
    columns = (
        Column(key="name", title="template, without arguments", kind="code", width=560, pinned=True),
        Column(key="pass", title="pass", width=180),
        Column(key="count", title="instances", kind="number", width=110),
        Column(key="self", title="own, ms", kind="number", width=110),
        Column(key="inclusive", title="inclusive, ms", kind="number", width=130,
               note="with everything that they instantiated"),
    )  # fmt: skip
    all_in_all = sum(one.template_count for one in passes)
    title = f"Costliest templates, of {all_in_all:,}"
    return Table(key="templates", title=title, columns=columns, rows=tuple(rows), empty="none took long enough")


def traced_blocks(traced: Traced, row: UnitRow) -> list[Block]:
    """Draw a trace."""
    trace = traced.trace
    about: list[tuple[str, str]] = [("traced", timestamp(traced.at))]
    about += [(one.name, duration(one.seconds)) for one in trace.passes]
    about += [("instantiations", f"{sum(one.instantiation_count for one in trace.passes):,}")]
    blocks: list[Block] = [
        Facts(key="trace", title=f"Trace of {trace.unit}", facts=tuple(about), place=place_in(row.place))
    ]
    if traced.generation != row.generation:
        text = "This trace is out of date: the unit has changed since. Trace the compile again."
        blocks.append(Note(key="old", text=text, kind="warning"))
    if not trace.passes:
        blocks.append(_messages(trace))
        return blocks
    blocks += [flame_plot(flame, f"flame-{at}") for at, flame in enumerate(traced.flames)]
    return [*blocks, stages(trace.passes), templates(trace.passes)]


def _messages(trace: TimeTrace) -> Table:
    rows: list[Row] = []
    for at, found in enumerate(trace.diagnostics[:MOST_MESSAGES]):
        place = place_of(found.span) or TextPlace("", 0)
        rows.append({"id": str(at), PLACE: place.text, UNIT: trace.unit, "severity": found.severity,
                     "message": found.message, "where": name_of(place)})  # fmt: skip
    columns = (
        Column(key="severity", title="severity", width=110),
        Column(key="message", title="message", width=620),
        Column(key="where", title="where", width=220),
    )
    title = "The unit does not compile, so there is no trace"
    return Table(key="messages", title=title, columns=columns, rows=tuple(rows), empty="no message")


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    rows = list(feed.units.values())
    choice = unit_choice(feed, query)
    row = feed.units.get(choice.value)
    if row is None:
        return NO_UNITS
    traced = kept_traces(feed).get(row.id)
    label = "Trace the compile" if traced is None else "Trace the compile again"
    blocks: list[Block] = [choice, Action(key="trace", label=label, changes=False)]
    if traced is None:
        text = (
            "“Trace the compile” compiles this unit once more, without precompiled headers and beside what is stored,"
            " and shows where the time goes. It takes as long as a compile: seconds to a minute."
        )
        blocks.append(Note(key="how", text=text, kind="hint"))
    else:
        blocks += await to_thread.run_sync(traced_blocks, traced, row)
    picture = slowest_plot(rows)
    blocks += [] if picture is None else [picture]
    blocks.append(await to_thread.run_sync(slowest, rows))
    return Content(title=row.id, blocks=tuple(blocks))


async def trace(feed: Feed, query: Query) -> str:
    """Compile the unit to see where the time goes, and keep what comes of it."""
    row = feed.units.get(chosen_unit(feed, query))
    if row is None:
        raise CkwatchError("there is no such unit")
    folder = await to_thread.run_sync(partial(TemporaryDirectory, prefix="ckwatch-web-"))
    try:
        path = Path(folder.name) / "trace.json"
        found = await feed.client.time_trace(row.id, path)
        drawn = await to_thread.run_sync(_read, path) if found.passes else ()
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(folder.cleanup)
    keep(feed, row.id, Traced(found, drawn, row.generation, time.time()))
    if not found.passes:
        return f"{row.id} does not compile"
    return f"traced {row.id}: {', '.join(f'{one.name} {duration(one.seconds)}' for one in found.passes)}"


def _read(path: Path) -> tuple[Flame, ...]:
    """Line by line: others have their turn in between."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return flames(lines)
    except (OSError, ValueError) as error:
        raise CkwatchError(f"the trace cannot be read: {error}") from None


def depends(feed: Feed, query: Query) -> Hashable:
    """How long units took to compile, and the trace."""
    unit = chosen_unit(feed, query)
    row, traced = feed.units.get(unit), kept_traces(feed).get(unit)
    finished = tuple(one.finished_at for one in feed.units.values())
    return unit, row and (row.generation, row.place), traced and traced.at, tuple(feed.units), finished


ACTIONS = {"trace": trace}


LEAST_SHARE = 0.002
"""Of the pass; what took less is not drawn."""

MOST_FRAMES, MOST_DEPTH = 1500, 40

MOST_TEXT = 600
"""Code points of a name in a tooltip: names of templates have thousands."""

KINDS = ("parsing", "template instantiation", "LLVM IR generation", "optimizer", "code generation", "other")

_KIND_OF = {
    "Frontend": 0, "Source": 0, "InstantiateClass": 1, "InstantiateFunction": 1, "PerformPendingInstantiations": 1,
    "CodeGen Function": 2, "DebugType": 2, "DebugFunction": 2, "DebugGlobalVariable": 2, "Backend": 3, "Optimizer": 3,
    "OptFunction": 3, "OptModule": 3, "RunPass": 3, "CodeGenPasses": 4, "ExecuteCompiler": 5,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of work of the compiler and what it was about; times in µs since the pass began, `own_us` without the
    frames within. `kind` is an index of `KINDS`, `depth` counts the frames around it."""

    name: str
    detail: str
    begin_us: int
    duration_us: int
    own_us: int
    depth: int
    kind: int


@dataclass(frozen=True, slots=True)
class Flame:
    """The frames of one pass, from left to right and from outer to inner ones; `left_out` are too short to draw."""

    name: str
    total_us: int
    frames: tuple[Frame, ...]
    left_out: int


_Event = tuple[int, int, str, str]


def flames(lines: Iterable[str]) -> tuple[Flame, ...]:
    """The passes of a trace in the order of their numbers; a line of the file holds an event. Blocks; call from a
    worker thread, which it does not hold up others in: no line is long. Raises ValueError for what is no such trace."""
    names: dict[int, str] = {}
    events: dict[int, list[_Event]] = {}
    for line in lines:
        text = line.strip().rstrip(",")
        if not text.startswith("{") or not text.endswith("}"):
            continue
        event = json.loads(text)
        try:
            process, arguments = int(event["pid"]), event.get("args") or {}
            if event["ph"] == "M" and event["name"] == "process_name":
                names[process] = str(arguments["name"])
            elif event["ph"] == "X":
                begin = int(event["ts"])
                detail = str(arguments.get("detail", ""))
                events.setdefault(process, []).append((begin, begin + int(event["dur"]), event["name"], detail))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"an event is malformed: {text[:80]}") from error
    return tuple(_flame(names.get(process, f"pass {process}"), events[process]) for process in sorted(events))


def _flame(name: str, events: list[_Event]) -> Flame:
    frames = list(_nested(events))
    start = min(frame.begin_us for frame in frames)
    total = max(frame.begin_us + frame.duration_us for frame in frames) - start
    seen = [one for one in frames if one.duration_us >= LEAST_SHARE * total and one.depth < MOST_DEPTH]
    # a frame is at least as long as those within, and comes before them: none is kept without those around it
    kept = sorted(sorted(seen, key=lambda one: (-one.duration_us, one.depth))[:MOST_FRAMES], key=_from_left)
    moved = (
        Frame(one.name, one.detail, one.begin_us - start, one.duration_us, one.own_us, one.depth, one.kind)
        for one in kept
    )
    return Flame(name, total, tuple(moved), len(frames) - len(kept))


def _from_left(frame: Frame) -> tuple[int, int]:
    return frame.begin_us, frame.depth


def _nested(events: list[_Event]) -> Iterator[Frame]:
    """Clang writes an event when it ends: of two with the same extent the later one is around the other."""
    ordered = events[::-1]
    ordered.sort(key=lambda one: (one[0], -one[1]))
    stack: list[tuple[_Event, int, int]] = []
    within: list[int] = []
    for event in ordered:
        while stack and stack[-1][0][1] <= event[0]:
            yield _ended(stack, within)
        begin, end = event[0], event[1]
        if stack:
            end = min(end, stack[-1][0][1])  # both are rounded
            within[-1] += end - begin
        kind = _kind_of(event[2], stack[-1][2] if stack else len(KINDS) - 1)
        stack.append(((begin, end, event[2], event[3]), len(stack), kind))
        within.append(0)
    while stack:
        yield _ended(stack, within)


def _ended(stack: list[tuple[_Event, int, int]], within: list[int]) -> Frame:
    (begin, end, name, detail), depth, kind = stack.pop()
    return Frame(name, detail, begin, end - begin, end - begin - within.pop(), depth, kind)


def _kind_of(name: str, around: int) -> int:
    """Return the stage of an event; one without a stage belongs to the one around it."""
    found = _KIND_OF.get(name)
    return found if found is not None else 0 if name.startswith("Parse") else around


def flame_plot(flame: Flame, key: str) -> Plot:
    """Time to the right, what called what downwards."""
    total = max(flame.total_us, 1)
    data = [
        {
            "value": [frame.begin_us / 1e6, (frame.begin_us + frame.duration_us) / 1e6, frame.depth, frame.kind,
                      _label(frame)],
            "text": _about(frame, total),
        }
        for frame in flame.frames
    ]  # fmt: skip
    option = flame_option(data, total / 1e6, "s")
    longest = max((one for one in flame.frames if one.own_us), key=lambda one: one.own_us, default=None)
    most = "" if longest is None else f" The most own time of one piece: {_label(longest)}, {_ms(longest.own_us)}."
    summary = (
        f"{flame.name}: {duration(flame.total_us / 1e6)} in all; {len(flame.frames):,} pieces are drawn,"
        f" {flame.left_out:,} shorter or deeper ones are not.{most} Scroll or drag the bar to zoom."
    )
    return Plot(
        key=key, title=f"Flame graph, {flame.name}", option=option, summary=summary, height_px=flame_height_px(data)
    )


def _label(frame: Frame) -> str:
    detail = frame.detail
    if detail.startswith("/"):
        detail = detail.rpartition("/")[2]
    return (detail or frame.name)[:200]


def _about(frame: Frame, total_us: int) -> str:
    detail = frame.detail if len(frame.detail) <= MOST_TEXT else f"{frame.detail[:MOST_TEXT]} …"
    times = (
        f"{_ms(frame.duration_us)} ({100 * frame.duration_us / total_us:.1f} % of the pass), own {_ms(frame.own_us)}"
    )
    return "\n".join(filter(None, (f"{frame.name}: {KINDS[frame.kind]}", detail, times)))


def _ms(microseconds: int) -> str:
    return f"{microseconds / 1000:.1f} ms"
