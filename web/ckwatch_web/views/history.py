"""*History*: the medians of a unit over time with their intervals, by shape, cache state and device, and its compiles.

The verdicts are the daemon's: it compares the last timing of each shape, in turns where it must.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import FLAT, count, short_commit, time_of, timestamp
from ckwatch.system.git import commit_address, web_address_of
from ckwatch.wire import figures_text
from ckwatch_web.choices import choose, chosen_unit, unit_choice
from ckwatch_web.content import ID, NO_UNITS, PLACE, UNIT, Block, Choice, Column, Content, Facts, Note, Plot, Row, Table
from ckwatch_web.places import place_in
from ckwatch_web.plots import COLOURS, NAME_TIP, TIME_LABEL, Option, axis, base, legend
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.model.timings import Comparison, Timing
    from ckwatch.wire.messages import Run
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.feed import Feed

ALL = "all"
LIMITS = (100, 500, 2000)
MOST_PLOTS = 6
MOST_RUNS = 200
MOST_CHANGES, MOST_COMMITS = 60, 12
"""Changes of the artifact and of the commit that a plot marks, the last ones."""

DIRTY = "-dirty"
"""Ends the commit of a workspace that differs from it."""

WEB = "address of the repository's pages"
"""Name under which the feed keeps it."""

WIDE = 10.0
"""Values that differ by more than this factor are drawn on a logarithmic axis."""

CLOCK_COLOUR, CHANGE_COLOUR, FAILURE_COLOUR = "#8c8c8c", "#8c8c8c", "#d0342c"
CROSS = "path://M0,0L10,10M10,0L0,10"

Verdicts = Mapping[tuple[int, str], Sequence["Comparison"]]
"""The daemon's comparisons, by the timing's number and cache state."""


def verdicts_of(timings: Iterable[Timing]) -> dict[tuple[int, str], tuple[Comparison, ...]]:
    """The comparisons of a unit's last timings."""
    return {(timing.id, timing.cache): timing.comparisons for timing in timings if timing.comparisons}


def by_shape(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """Timings and failures of each shape, oldest first; the shape that was timed last first. What stands in for a
    device gives no timings."""
    found: dict[str, list[Timing]] = {}
    for timing in sorted(timings, key=lambda timing: timing.id):
        if timing.failure is not None or figures_text.is_figure(timing):
            found.setdefault(timing.shape, []).append(timing)
    return dict(sorted(found.items(), key=lambda each: -each[1][-1].id))


def _drawn(shape: str, timings: Sequence[Timing], verdicts: Verdicts, at: int, web: str) -> Plot | Note:
    """The picture of a shape; a sentence where it has no time."""
    if any(timing.failure is None for timing in timings):
        return plot_of(shape, timings, verdicts, at, web)
    return Note(key=f"untimed-{at}", text=f"{shape}: {summary_of(timings, verdicts, 0)}", kind="warning")


SHORT_S, HOUR_S = 120.0, 3600.0


def plot_of(shape: str, timings: Sequence[Timing], verdicts: Verdicts, at: int = 0, web: str = "") -> Plot:
    """One shape's medians, with the interval from the minimum to the third quartile, and the clocks where they were
    read. Vertical lines stand where the artifact became another one, with the commit if that did, crosses where there
    was no time. `web`: the address of the repository's pages."""
    timed = [timing for timing in timings if timing.failure is None]
    groups: dict[tuple[str, str], list[Timing]] = {}
    for timing in timed:
        groups.setdefault((timing.cache, figures_text.device_words(timing)), []).append(timing)
    several = len({device for _, device in groups}) > 1
    series: list[Option] = []
    names: list[str] = []
    for number, ((cache, device), own) in enumerate(sorted(groups.items())):
        name = f"{cache} cache, {device}" if several else f"{cache} cache"
        names.append(name)
        series += _medians(name, own, verdicts, COLOURS[number % (len(COLOURS) - 1)])
    lows = [timing.minimum_us for timing in timed]
    highs = [max(timing.q3_us, timing.median_us) for timing in timed]
    failed = [timing for timing in timings if timing.failure is not None]
    if failed:
        names.append("failed")
        series.append(_failures(failed, min(lows, default=1.0)))
    changes = changes_of(timings)
    commits = commits_of(timings)[-MOST_COMMITS:]
    if series and (changes or commits):
        series[0]["markLine"] = _change_lines(changes[-MOST_CHANGES:], commits)
    clocks = [timing for timing in timed if timing.clock_mhz is not None and timing.cache == timed[0].cache]
    axes = [_time_axis(min(lows, default=1.0), max(highs, default=1.0))]
    if clocks:
        names.append("clock")
        series.append(_clock(clocks))
        axes.append(axis("clock, MHz", min=0, scale=False, nameGap=54, splitLine={"show": False}, position="right"))
    option = base(
        grid={"left": 26, "right": 56 if clocks else 24, "top": 44, "bottom": 24, "containLabel": True},
        tooltip=NAME_TIP,
        legend=legend(names),
        xAxis=axis(
            "", kind="time", boundaryGap=["3%", "3%"], axisLabel={"hideOverlap": True}, splitNumber=4, **_ends(timings)
        ),
        yAxis=axes,
        series=series,
    )
    summary = summary_of(timings, verdicts, len(changes))
    links = ((short_commit(one), commit_address(web, one.removesuffix(DIRTY))) for one, _ in commits) if web else ()
    return Plot(key=f"history-{at}", title=shape, option=option, summary=summary, height_px=340, links=tuple(links))


def _ends(timings: Sequence[Timing]) -> Option:
    """The ends of an axis of hours where all was measured within a minute or so; else those of the data."""
    first, last = min(timing.taken_at for timing in timings), max(timing.taken_at for timing in timings)
    return {} if last - first > SHORT_S else {"min": 1000 * (first - HOUR_S), "max": 1000 * (last + HOUR_S)}


ENDS_UNSAID: Option = {"showMinLabel": False, "showMaxLabel": False}
"""The ends of an axis are no round numbers, and overlap those that are."""


def _time_axis(low: float, high: float) -> Option:
    """Covers all intervals, and at least the part `FLAT` of the times: equal times are to look equal."""
    labels: Option = {"hideOverlap": True, ":formatter": TIME_LABEL}
    gap = 78
    if high > WIDE * low:
        return axis(
            "median", kind="log", nameGap=gap, min=_rounded(low / 1.1), max=_rounded(high * 1.1), axisLabel=labels
        )
    room = max(0.05 * (high - low), (FLAT * high - (high - low)) / 2)
    step = 10.0 ** floor(log10(high - low + 2 * room)) / 5
    bottom, top = step * floor((low - room) / step), step * ceil((high + room) / step)
    return axis(
        "median", nameGap=gap, min=_rounded(max(bottom, 0.0)), max=_rounded(top), axisLabel=labels | ENDS_UNSAID
    )


def _rounded(value: float) -> float:
    """With no more digits than an axis has room for."""
    return float(f"{value:.4g}")


def _medians(name: str, timings: Sequence[Timing], verdicts: Verdicts, colour: str) -> list[Option]:
    """A line through the medians, and a bar for each interval."""
    points = []
    for timing in timings:
        point: Option = {"name": tip_of(timing, verdicts), "value": [1000 * timing.taken_at, timing.median_us]}
        if timing.standing != "fresh":
            point["itemStyle"] = {"color": colour, "opacity": 0.55}
        points.append(point)
    bars = [
        {"coords": [[1000 * timing.taken_at, timing.minimum_us], [1000 * timing.taken_at, timing.q3_us]]}
        for timing in timings
    ]
    return [
        {"name": name, "type": "line", "data": points, "symbol": "circle", "symbolSize": 7, "showSymbol": True,
         "itemStyle": {"color": colour}, "lineStyle": {"color": colour, "width": 1}, "z": 4},
        {"name": name, "type": "lines", "coordinateSystem": "cartesian2d", "data": bars, "silent": True,
         "symbol": "none", "lineStyle": {"color": colour, "width": 3, "opacity": 0.45}, "z": 3},
    ]  # fmt: skip


def _failures(failed: Sequence[Timing], low: float) -> Option:
    data = [
        {"name": f"{timestamp(timing.taken_at)}\n{timing.failure}\n{timing.message.partition(chr(10))[0]}",
         "value": [1000 * timing.taken_at, low]}
        for timing in failed
    ]  # fmt: skip
    return {"name": "failed", "type": "scatter", "symbol": CROSS, "symbolSize": 10, "data": data, "z": 5,
            "itemStyle": {"color": "transparent", "borderColor": FAILURE_COLOUR, "borderWidth": 2}}  # fmt: skip


def _clock(timings: Sequence[Timing]) -> Option:
    data = [
        {
            "name": f"{timestamp(timing.taken_at)}\n{figures_text.clock_of(timing)}",
            "value": [1000 * timing.taken_at, timing.clock_mhz],
        }
        for timing in timings
    ]
    return {"name": "clock", "type": "line", "yAxisIndex": 1, "data": data, "symbol": "diamond", "symbolSize": 5,
            "z": 1, "itemStyle": {"color": CLOCK_COLOUR},
            "lineStyle": {"color": CLOCK_COLOUR, "width": 1, "type": "dotted"}}  # fmt: skip


def changes_of(timings: Sequence[Timing]) -> list[Timing]:
    """The timings, in the order in which they were taken, whose artifact is another one than that before."""
    return [now for before, now in pairwise(timings) if before.artifact_key != now.artifact_key]


def commits_of(timings: Sequence[Timing]) -> list[tuple[str, float]]:
    """The commits that timings, in the order in which they were taken, are of, and when the first of each was taken."""
    found = [(timing.commit, timing.taken_at) for timing in timings if timing.commit]
    return [now for before, now in pairwise([("", 0.0), *found]) if before[0] != now[0]]


def _change_lines(changes: Sequence[Timing], commits: Sequence[tuple[str, float]]) -> Option:
    """A line at each new artifact and each new commit, whose name stands above it."""
    named = {1000 * at: commit for commit, at in commits}
    at = {1000 * timing.taken_at: f"artifact {timing.artifact_key[:12]}" for timing in changes}
    data = [
        {"xAxis": x, "name": "\n".join(filter(None, (at.get(x, ""), short_commit(named.get(x))))),
         "label": {"show": x in named, "formatter": short_commit(named.get(x))[:7], "fontSize": 10,
                   "color": CHANGE_COLOUR}}
        for x in sorted({*at, *named})
    ]  # fmt: skip
    return {"symbol": "none", "data": data, "lineStyle": {"color": CHANGE_COLOUR, "type": "dashed", "width": 1}}


def tip_of(timing: Timing, verdicts: Verdicts) -> str:
    """Describe a point."""
    compared = map(figures_text.comparison_words, verdicts.get((timing.id, timing.cache), ()))
    standing = "" if timing.standing == "fresh" else timing.standing
    commit = short_commit(timing.commit)
    lines = (
        f"{timestamp(timing.taken_at)}, {timing.cache} cache",
        f"{time_of(timing.median_us)}, {figures_text.interval_of(timing)}",
        ", ".join(filter(None, (figures_text.rate_of(timing), figures_text.bound_of(timing)))),
        figures_text.clock_of(timing),
        ", ".join(filter(None, (f"artifact {timing.artifact_key[:12]}", commit and f"commit {commit}", standing))),
        ", ".join((*compared, *figures_text.doubts(timing))),
    )
    return "\n".join(filter(None, lines))


def summary_of(timings: Sequence[Timing], verdicts: Verdicts, changes: int) -> str:
    """Describe a plot in words."""
    timed = [timing for timing in timings if timing.failure is None]
    parts = [f"{count(len(timed), 'timing')} of {count(changes + 1, 'artifact')}" if timed else "No timings"]
    if timed:
        number = timed[-1].id
        for last in (timing for timing in timed if timing.id == number):
            compared = map(figures_text.comparison_words, verdicts.get((last.id, last.cache), ()))
            words = ", ".join((f"the last, {last.cache} cache: {time_of(last.median_us)}", *compared))
            parts.append(words[:1].upper() + words[1:])
    if failed := len(timings) - len(timed):
        parts.append(f"{count(failed, 'failure')}, the last: {_last_failure(timings)}")
    if changes > MOST_CHANGES:
        parts.append(f"The last {MOST_CHANGES} changes of the artifact are marked")
    return ". ".join(parts) + "."


def _last_failure(timings: Sequence[Timing]) -> str:
    return next(timing.failure or "" for timing in reversed(timings) if timing.failure is not None)


def timings_table(unit: UnitRow, timings: Iterable[Timing], verdicts: Verdicts) -> Table:
    """Everything that is known of each timing, the last one first."""
    rows = tuple(_row(unit, timing, verdicts) for timing in sorted(timings, key=lambda timing: -timing.id))
    columns = (
        Column(key="taken", title="taken", width=170, pinned=True),
        Column(key="shape", title="shape", width=150),
        Column(key="cache", title="cache", width=90),
        Column(key="median", title="median", kind="time", width=130),
        Column(key="minimum", title="minimum", kind="time", width=140),
        Column(key="q3", title="3rd quartile", kind="time", width=150),
        Column(key="error", title="error, %", kind="number", width=110, note="Standard error of the median"),
        Column(key="compared", title="compared", width=320),
        Column(key="tflops", title="rate", kind="rate", width=120),
        Column(key="gbps", title="GB/s", kind="number", width=110),
        Column(key="bound", title="% of bound", kind="number", width=130, note="At the specified clock"),
        Column(key="observed", title="% at the clock", kind="number", width=150, note="At the clock that was observed"),
        Column(key="clock", title="clock, MHz", kind="number", width=130),
        Column(key="cycles", title="cycles", kind="number", width=120),
        Column(key="limited", title="clock limited by", width=150),
        Column(key="standing", title="standing", width=110),
        Column(key="doubts", title="doubts", width=200),
        Column(key="samples", title="samples", kind="number", width=110),
        Column(key="commit", title="commit", width=140),
        Column(key="artifact", title="artifact", width=140),
        Column(key="device", title="device", width=300),
        Column(key="toolchain", title="toolchain", width=220),
    )
    empty = "no timings; `ckwatch bench` takes them"
    return Table(key="timings", title="Timings", columns=columns, rows=rows, empty=empty, height_px=480)


def _row(unit: UnitRow, timing: Timing, verdicts: Verdicts) -> Row:
    row: Row = {
        ID: f"{timing.id} {timing.cache}", UNIT: unit.id, PLACE: unit.place, "taken": timestamp(timing.taken_at),
        "shape": timing.shape, "cache": timing.cache, "standing": timing.standing,
        "commit": short_commit(timing.commit), "artifact": timing.artifact_key[:12],
        "device": figures_text.device_words(timing),
        "toolchain": timing.toolchain,
    }  # fmt: skip
    if timing.failure is not None:
        return {**row, "compared": timing.failure, "doubts": timing.message.partition("\n")[0]}
    if not figures_text.is_figure(timing):
        return {**row, "compared": "a stand-in for a device: no figures"}
    return {
        **row, "median": timing.median_us, "minimum": timing.minimum_us, "q3": timing.q3_us,
        "error": 100 * timing.relative_error, "tflops": timing.tflops, "gbps": timing.gbps,
        "bound": timing.bound_percent, "observed": timing.observed_percent, "clock": timing.clock_mhz,
        "cycles": timing.cycles, "limited": ", ".join(timing.limited_by), "samples": timing.samples,
        "doubts": ", ".join(figures_text.doubts(timing)),
        "compared": ", ".join(map(figures_text.comparison_words, verdicts.get((timing.id, timing.cache), ()))),
    }  # fmt: skip


def runs_table(unit: UnitRow, runs: Sequence[Run]) -> Table:
    """The unit's compiles, the last one first."""
    rows = tuple(
        {
            ID: f"{run.finished_at} {run.key} {at}", UNIT: unit.id, PLACE: unit.place,
            "finished": timestamp(run.finished_at) if run.finished_at else "", "outcome": run.outcome,
            "seconds": run.seconds or None, "store": "from the store" if run.from_store and run.key else "",
            "cause": ", ".join(cause.what for cause in run.cause), "key": run.key[:12],
        }
        for at, run in enumerate(reversed(runs))
    )[::-1]  # fmt: skip
    columns = (
        Column(key="finished", title="finished", width=170, pinned=True),
        Column(key="outcome", title="outcome", width=140),
        Column(key="seconds", title="compile, s", kind="number", width=130),
        Column(key="store", title="store", width=140),
        Column(key="cause", title="because", width=480),
        Column(key="key", title="key", width=150),
    )
    return Table(key="runs", title="Compiles", columns=columns, rows=rows, empty="not compiled yet")


def shape_choice(shapes: Sequence[str], query: Query) -> Choice:
    """All shapes, or one."""
    every = "all" if len(shapes) <= MOST_PLOTS else f"the last {MOST_PLOTS} timed"
    return choose("shape", "Shape", {ALL: every} | {name: name for name in shapes}, query)


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    unit = unit_choice(feed, query)
    row = feed.units.get(unit.value)
    if row is None:
        return NO_UNITS
    limit = choose("limit", "The last", {str(number): f"{number} measurements" for number in LIMITS}, query)
    timings = await feed.client.timings(row.id, limit=int(limit.value))
    runs = await feed.client.runs(row.id, limit=MOST_RUNS)
    try:
        verdicts = verdicts_of((await feed.client.unit(row.id)).unit.timings)
    except CkwatchError:  # it was removed meanwhile: its history is there all the same
        verdicts = {}

    if WEB not in feed.kept:
        feed.kept[WEB] = await web_address_of(Path(feed.client.root))
    web: str = feed.kept[WEB]

    def blocks() -> tuple[Block, ...]:
        groups = by_shape(timings)
        shape = shape_choice(list(groups), query)
        shown = list(groups.items())[:MOST_PLOTS] if shape.value == ALL else [(shape.value, groups[shape.value])]
        made: list[Block] = [unit, *([shape] if len(groups) > 1 else []), limit]
        made.append(Facts(key="unit", title="Unit", facts=facts_of(row), place=place_in(row.place)))
        if not groups:
            why = row.unmeasured or f"`ckwatch bench '{row.id}'` takes timings"
            made.append(Note(key="untimed", text=f"No timings: {why}.", kind="hint"))
        made += [_drawn(name, own, verdicts, at, web) for at, (name, own) in enumerate(shown)]
        tabled = [timing for timing in timings if shape.value in (ALL, timing.shape)]
        made += [timings_table(row, tabled, verdicts), runs_table(row, runs)]
        return tuple(made)

    return Content(title=row.id, blocks=await to_thread.run_sync(blocks))


def facts_of(row: UnitRow) -> tuple[tuple[str, str], ...]:
    """The unit as it is now."""
    facts = (
        ("state", row.state),
        ("code object", row.headline),
        ("verified", row.verification),
        ("because", row.cause),
    )
    return tuple(one for one in facts if one[1])


def depends(feed: Feed, query: Query) -> Hashable:
    """The unit's row."""
    return feed.units.get(chosen_unit(feed, query))
