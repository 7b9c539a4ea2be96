"""The results of a tuning run as blocks: of the run as a whole, and of one of its shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ckwatch.model.amounts import count, duration, time_of, timestamp
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.tuning.importance import (
    CoordinateLine,
    ParallelCoordinates,
    best_so_far,
    failure_reasons,
    importance_of,
    parallel_coordinates,
)
from ckwatch.tuning.report import BEST_TEXT, MOST_LINES, coverage_text, importance_text
from ckwatch.tuning.results import TIMED, EvaluationStatus, TuningRecord
from ckwatch_web.content import ID, PLACE, UNIT, Block, Cell, Column, Facts, Note, Plot, Row, Table
from ckwatch_web.plots import COLOURS, NAME_TIP, Option, axis, base, legend, log_axis, shortened

if TYPE_CHECKING:
    from ckwatch.model.kernels import ParameterValue
    from ckwatch.tuning.results import EvaluatedPoint, ShapeResult
    from ckwatch.tuning.space import SpaceCoverage
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.places import TextPlace

MOST_POINTS = 1500
"""Evaluations in a plot: the last ones."""

MOST_BARS = 30
LONGEST_NAME, LONGEST_VALUE = 26, 14
FAST, SLOW = COLOURS[0], COLOURS[4]
NARROW_PX = 700
"""A narrower picture has its axes below each other."""

AXIS_PX = 46
"""The least distance of axes below each other."""

LABEL_PX = 13
"""Labels stand beside the range that is chosen on an axis."""

SLOWER = 3.0
"""Times above so many times the best share a colour, nor drawn beside the best so far."""

UNITS_OF_TIME = ((7200.0, 3600.0, "hours"), (600.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The places of instances: those that are units of the workspace, and the kernel file for all others."""

    units: Mapping[str, UnitRow]
    kernel_file: TextPlace | None


def facts_of(record: TuningRecord) -> Facts:
    """The run as a whole."""
    run = record.run
    limits = {
        "budget": None if run.budget_s is None else duration(run.budget_s),
        "measurements at most": run.measurements,
        "patience": run.patience,
        "compiles at a time": run.jobs,
    }
    failed = sum(result.status not in TIMED for point in record.points for result in point.results)
    facts = (
        ("run", str(run.id)),
        ("evaluated", f"{count(len(record.points), 'instance')} of {record.coverage.size:,}"),
        ("measured", count(run.measured, "result")),
        ("failed", str(failed) if failed else "none"),
        ("time", duration(run.seconds)),
        ("device", f"{run.device}: {', '.join(run.devices)}"),
        ("arch", run.arch),
        ("strategy", f"{run.strategy}, seed {run.seed}"),
        *((name, str(value)) for name, value in limits.items() if value is not None),
        ("stops slower ones early", "yes" if run.racing else "no"),
        ("began", timestamp(run.began_at)),
        ("last active", timestamp(run.last_active)),
    )
    return Facts(key="run", title="Run", facts=facts)


def best_table(record: TuningRecord, texts: Texts) -> Table:
    """The fastest instance of each shape."""
    rows: list[Row] = []
    for shape, problem in record.run.problems.items():
        row: dict[str, Cell] = {
            ID: shape, "shape": shape,
            "problem": " ".join(f"{name}={size}" for name, size in problem.items()),
        }  # fmt: skip
        best = record.best(shape)
        if best is None:
            row["instance"] = "nothing was measured"
        else:
            row |= _ways(record, best.instance, texts)
            row |= {
                "instance": best.instance, "median": best.median_us, "low": best.low_us, "high": best.high_us,
                "confidence": None if best.confidence is None else 100 * best.confidence,
                "next": best.runner_up or "",
                "next_us": best.runner_up_us,
            }  # fmt: skip
        rows.append(row)
    columns = (
        Column(key="shape", title="shape", width=120, pinned=True),
        Column(key="instance", title="instance", width=260),
        Column(key="median", title="median", kind="time", width=120),
        Column(key="low", title="from", kind="time", width=110, note=BEST_TEXT),
        Column(key="high", title="to", kind="time", width=110, note=BEST_TEXT),
        Column(key="confidence", title="confidence, %", kind="number", width=130, note=BEST_TEXT),
        Column(key="next", title="runner-up", width=260),
        Column(key="next_us", title="its median", kind="time", width=130),
        Column(key="problem", title="sizes", width=240),
    )
    return Table(key="best", title="Best for each shape", columns=columns, rows=tuple(rows), height_px=300)


def _ways(record: TuningRecord, instance: str, texts: Texts) -> dict[str, Cell]:
    unit = f"{record.run.kernel}/{instance}@{record.run.arch}"
    known = texts.units.get(unit)
    if known is not None:
        return {PLACE: known.place, UNIT: unit}
    return {PLACE: None if texts.kernel_file is None else texts.kernel_file.text, UNIT: None}


def _results(record: TuningRecord, shape: str) -> list[tuple[EvaluatedPoint, ShapeResult]]:
    return [(point, result) for point in record.points for result in point.results if result.shape == shape]


def progress(record: TuningRecord, shape: str) -> tuple[Plot, ...]:
    """The best so far over evaluations and over time, with what was timed; nothing before there is a time."""
    steps = best_so_far(record, shape)
    if not steps:
        return ()
    timed = [
        (point, result.status, result.median_us)
        for point, result in _results(record, shape)
        if result.status in TIMED and result.median_us is not None
    ]
    top = max(steps[0].median_us, SLOWER * steps[-1].median_us)
    within = [one for one in timed if one[2] <= top]
    drawn = within[-MOST_POINTS:]
    last = max(point.order for point in record.points)
    last_s = max(record.run.seconds, *(point.seconds for point in record.points))
    scale, unit = next((scale, unit) for least, scale, unit in UNITS_OF_TIME if last_s >= least)
    beyond = f" {len(timed) - len(within):,} above {time_of(top)} are not drawn." if timed[len(within) :] else ""
    earlier = f" Of {len(within):,} others, the last {len(drawn):,} are drawn." if within[MOST_POINTS:] else ""
    fall = (
        f"From {time_of(steps[0].median_us)} to {time_of(steps[-1].median_us)} in {count(len(steps), 'step')}; "
        f"the best, {steps[-1].instance}, is number {steps[-1].order} of {last}, found after "
        f"{duration(steps[-1].seconds)}.{beyond}{earlier}"
    )
    times = [*(step.median_us for step in steps), *(one[2] for one in drawn)]

    def plot(key: str, title: str, name: str, end: float, at: Mapping[str, float], scale: float) -> Plot:
        stairs: list[Option] = [
            {"value": [at[step.instance] / scale, step.median_us], "name": _named(step.instance, step.median_us)}
            for step in steps
        ]
        stairs.append({"value": [end / scale, steps[-1].median_us], "name": stairs[-1]["name"]})
        series: list[Option] = [
            {"name": "best so far", "type": "line", "step": "end", "data": stairs, "symbolSize": 6, "z": 3,
             "lineStyle": {"width": 2}, "itemStyle": {"color": COLOURS[0]}}
        ]  # fmt: skip
        for status, words, colour, symbol in (
            (EvaluationStatus.MEASURED, "measured", COLOURS[6], "circle"),
            (EvaluationStatus.DROPPED, "stopped early: clearly slower", COLOURS[1], "triangle"),
        ):
            dots = [
                {"value": [at[point.instance] / scale, time], "name": _named(point.instance, time)}
                for point, own, time in drawn
                if own is status
            ]
            series.append({"name": words, "type": "scatter", "data": dots, "symbol": symbol, "symbolSize": 6,
                           "itemStyle": {"color": colour, "opacity": 0.7}})  # fmt: skip
        option = base(
            grid={"left": 12, "right": 24, "top": 56, "bottom": 34, "containLabel": True},
            xAxis=axis(
                name, min=0, max=end / scale, scale=False, axisLabel={"hideOverlap": True, "showMaxLabel": False}
            ),
            yAxis=log_axis("µs", times, nameLocation="end", nameGap=10),
            legend=legend([one["name"] for one in series]),
            tooltip=NAME_TIP,
            series=series,
        )
        return Plot(key=key, title=f"{title}, {shape}", option=option, summary=fall, height_px=300)

    points = record.points
    return (
        plot(
            "by-evaluation", "Best so far by evaluations", "evaluations", last, {p.instance: p.order for p in points}, 1
        ),
        plot("by-time", "Best so far by time", unit, last_s, {p.instance: p.seconds for p in points}, scale),
    )


def _named(instance: str, median_us: float) -> str:
    return f"{instance}: {time_of(median_us)}"


def coordinates(record: TuningRecord, shape: str) -> tuple[Plot, ...]:
    """Parallel coordinates of the fastest instances, the time on the last axis; nothing where no parameter varies."""
    data = parallel_coordinates(record, shape)
    if not data.axes or not data.lines:
        return ()
    lines = data.lines[:MOST_LINES]
    fastest, slowest = lines[0].median_us, lines[-1].median_us
    most = "" if len(lines) == len(data.lines) else (
        f" The fastest {len(lines)} of {len(data.lines):,} are drawn; the table below has all."
    )  # fmt: skip
    top = min(slowest, SLOWER * fastest)
    slow = time_of(slowest) if slowest == top else f"{time_of(top)} and more"
    summary = (
        f"Each line is a timed instance, from {time_of(fastest)} (blue) to {slow} (orange).{most} "
        "Drag along an axis to fade the lines that do not pass there; click beside the range to see all again."
    )
    option = base(
        parallel={"parallelAxisDefault": {"areaSelectStyle": {"width": 2 * LABEL_PX - 4, "opacity": 0.25}}},
        parallelAxis=_axes(data, lines),
        media=_layouts(len(data.axes) + 1),
        visualMap={
            "type": "continuous", "dimension": len(data.axes) + 1, "seriesIndex": 0, "show": True, "calculable": False,
            "min": math.log(fastest), "max": math.log(max(top, 1.001 * fastest)),
            "inRange": {"color": [FAST, SLOW]}, "text": [slow, time_of(fastest)],
            "orient": "horizontal", "left": "center", "bottom": 2, "itemHeight": 120, "itemWidth": 12,
            "hoverLink": False,
        },
        tooltip=NAME_TIP,
        series=[{
            "type": "parallel", "smooth": False, "inactiveOpacity": 0.04, "activeOpacity": 0.8,
            "lineStyle": {"width": 1.5, "opacity": 0.6}, "emphasis": {"lineStyle": {"width": 4, "opacity": 1}},
            "data": [
                {"name": _named(line.instance, line.median_us),
                 "value": [*line.positions, line.median_us, math.log(min(line.median_us, top))]}
                for line in reversed(lines)  # the fastest lie on top
            ],
        }],
    )  # fmt: skip
    title = f"Parallel coordinates, {shape}"
    return (
        Plot(
            key="parallel",
            title=title,
            option=option,
            summary=summary,
            height_px=max(440, 100 + AXIS_PX * (len(data.axes) + 1)),
        ),
    )


def _axes(data: ParallelCoordinates, lines: Sequence[CoordinateLine]) -> list[Option]:
    axes: list[Option] = [
        {
            "dim": at, "type": "category", "name": shortened(one.parameter, LONGEST_NAME),
            "axisTick": {"alignWithLabel": True}, "axisLabel": {"margin": LABEL_PX},
            "data": [shortened(value_text(value), LONGEST_VALUE) for value in one.values],
        }
        for at, one in enumerate(data.axes)
    ]  # fmt: skip
    time = log_axis("time, µs", (line.median_us for line in lines))
    return [*axes, {**time, "dim": len(axes), "axisLabel": {**time["axisLabel"], "margin": LABEL_PX}}]


def _layouts(axes: int) -> list[Option]:
    """Axes below each other where it is narrow, else side by side, with their names at three heights: there may be
    many."""
    below = {
        "parallel": {"layout": "vertical", "left": 130, "right": 24, "top": 24, "bottom": 72},
        "parallelAxis": [{"nameLocation": "start", "nameGap": 8} for _ in range(axes)],
    }
    beside = {
        "parallel": {"layout": "horizontal", "left": 40, "right": 64, "top": 66, "bottom": 64},
        "parallelAxis": [{"nameLocation": "end", "nameGap": 10 + 15 * (at % 3)} for at in range(axes)],
    }
    return [{"query": {"maxWidth": NARROW_PX}, "option": below}, {"option": beside}]


def value_text(value: ParameterValue | None) -> str:
    """A parameter's value."""
    return "absent" if value is None else str(value)


def importance(record: TuningRecord) -> tuple[Plot, ...]:
    """How much each parameter matters."""
    found = importance_of(record)
    if not found:
        return ()
    shown = found[:MOST_BARS]
    words = ", ".join(f"{one.parameter} {100 * one.share:.0f} %" for one in shown[:3])
    most = f" The first {len(shown)} of {len(found)} are drawn." if len(shown) < len(found) else ""
    bars = [
        {"value": 100 * one.share, "name": f"{one.parameter}: {100 * one.share:.1f} %, {count(one.values, 'value')}"}
        for one in shown
    ]
    option = base(
        grid={"left": 12, "right": 56, "top": 8, "bottom": 34, "containLabel": True},
        xAxis=axis("%", min=0, max=100, scale=False),
        yAxis={"type": "category", "inverse": True, "data": [shortened(one.parameter, LONGEST_NAME) for one in shown],
               "axisLabel": {"interval": 0}},
        tooltip=NAME_TIP,
        series=[{"type": "bar", "data": bars, "barMaxWidth": 18, "itemStyle": {"color": COLOURS[0]}}],
    )  # fmt: skip
    title = "Parameter importance" + (", all shapes" if len(record.run.shapes) > 1 else "")
    summary = f"{words}. {importance_text(found)}{most}"
    return (Plot(key="importance", title=title, option=option, summary=summary, height_px=60 + 24 * len(shown)),)


def left_out(found: SpaceCoverage) -> tuple[Block, ...]:
    """Tabulate the points that were refused before a compile, and by which rules."""
    blocks: list[Block] = [Note(key="coverage", text=f"Search space: {coverage_text(found)}")]
    if found.refused:
        rows: tuple[Row, ...] = tuple(
            {ID: f"{at}", "rule": one.rule, "share": 100 * one.share, "example": one.example}
            for at, one in enumerate(found.refused)
        )
        columns: tuple[Column, ...] = (
            Column(key="rule", title="refused by", width=380),
            Column(key="share", title="share, %", kind="number", width=110),
            Column(key="example", title="for example", width=520),
        )
        blocks.append(Table(key="refused", title="Left out by rules", columns=columns, rows=rows, height_px=300))
    if found.gone:
        rows = tuple(
            {
                ID: f"{at}", "parameter": one.parameter, "value": str(one.value), "rule": one.rule,
                "sure": "all points were tried" if one.is_certain else "none was found in a search",
            }
            for at, one in enumerate(found.gone)
        )  # fmt: skip
        columns = (
            Column(key="parameter", title="parameter", width=220),
            Column(key="value", title="value", width=140),
            Column(key="rule", title="most refused by", width=380),
            Column(key="sure", title="how that is known", width=220),
        )
        title = "Values that no allowed point has"
        blocks.append(Table(key="gone", title=title, columns=columns, rows=rows, height_px=300))
    return tuple(blocks)


def failures(record: TuningRecord, texts: Texts) -> tuple[Table, ...]:
    """Tabulate the failures by reason."""
    rows: tuple[Row, ...] = tuple(
        {
            ID: f"{at}", **_ways(record, one.instance, texts), "status": one.status.value, "times": one.times,
            "reason": one.reason, "instance": one.instance,
        }
        for at, one in enumerate(failure_reasons(record))
    )  # fmt: skip
    columns = (
        Column(key="status", title="what", width=140),
        Column(key="times", title="times", kind="number", width=90),
        Column(key="reason", title="reason, of the first", width=560),
        Column(key="instance", title="instance", width=300),
    )
    title = "Failures" + (", all shapes" if len(record.run.shapes) > 1 else "")
    return (Table(key="failures", title=title, columns=columns, rows=rows, height_px=300),) if rows else ()


def points_table(record: TuningRecord, shape: str, texts: Texts) -> Table:
    """All instances that were evaluated on a shape, in order, with the parameters that vary."""
    results = _results(record, shape)
    names = dict.fromkeys(name for point in record.points for name in point.parameters)
    values = {name: {value_text(point.parameters.get(name)) for point in record.points} for name in names}
    varying = [name for name in names if len(values[name]) > 1]
    numbers = {
        name for name in varying if all(_is_number(point.parameters.get(name, 0)) for point in record.points)
    }  # fmt: skip
    best = record.best(shape)
    rows: tuple[Row, ...] = tuple(
        {
            ID: str(point.order), **_ways(record, point.instance, texts), "number": point.order,
            "seconds": round(point.seconds, 1), "instance": point.instance, "status": result.status.value,
            "median": result.median_us, "low": result.low_us, "high": result.high_us,
            "ratio": None if best is None or result.median_us is None else result.median_us / best.median_us,
            "reason": result.reason, "device": point.device,
            **{f"parameter {name}": _cell(point.parameters.get(name)) for name in varying},
        }
        for point, result in results
    )  # fmt: skip
    columns = (
        Column(key="number", title="number", kind="number", width=110),
        Column(key="instance", title="instance", width=240, pinned=True),
        Column(key="ratio", title="to the best", kind="heat", width=110),
        Column(key="median", title="median", kind="time", width=115),
        Column(key="low", title="from", kind="time", width=105, note=BEST_TEXT),
        Column(key="high", title="to", kind="time", width=105, note=BEST_TEXT),
        Column(key="status", title="status", width=130),
        *(
            Column(key=f"parameter {name}", title=name, kind="number" if name in numbers else "text", width=130)
            for name in varying
        ),
        Column(key="reason", title="reason", width=300),
        Column(key="seconds", title="after, s", kind="number", width=100),
        Column(key="device", title="device", width=120),
    )
    title, empty = f"Evaluated on {shape}", "nothing yet"
    return Table(key="points", title=title, columns=columns, rows=rows, empty=empty, height_px=520)


def constants(record: TuningRecord) -> tuple[Block, ...]:
    """The parameters that are the same in all instances."""
    names = dict.fromkeys(name for point in record.points for name in point.parameters)
    values = {name: {value_text(point.parameters.get(name)) for point in record.points} for name in names}
    facts = tuple((name, min(own)) for name, own in values.items() if len(own) == 1)
    return (Facts(key="constants", title="The same in all", facts=facts),) if facts and record.points[1:] else ()


def _is_number(value: ParameterValue | None) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: ParameterValue | None) -> Cell:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else value_text(value)


def blocks_of(record: TuningRecord, shape: str, texts: Texts) -> tuple[Block, ...]:
    """All blocks of a run, those of a shape among them. Blocks; call from a worker thread."""
    return (
        facts_of(record),
        best_table(record, texts),
        *progress(record, shape),
        *coordinates(record, shape),
        *importance(record),
        points_table(record, shape, texts),
        *constants(record),
        *failures(record, texts),
        *left_out(record.coverage),
    )
