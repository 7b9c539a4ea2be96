"""*Roofline*: the rate that each timing reached over its arithmetic intensity, below the roof that the bounds show.

Where nothing was timed, what the daemon predicts is drawn, and is called so. What limits a timing, the matrix units or
the memory, is what its bound comes from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import count, tflops, time_of, timestamp
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline_points import ON_THE_ROOF, Roofline, RooflinePoint, roof_of, roofline_point
from ckwatch_web.choices import choose, kernel_choice, shapes_of
from ckwatch_web.content import ID, NO_UNITS, PLACE, UNIT, Block, Column, Content, Function, Note, Plot, Row, Table
from ckwatch_web.plots import COLOURS, NAME_TIP, Option, axis, base, legend, shortened
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.model.roofline import ProcessorRoof
    from ckwatch.wire.analysis import Analysis, PredictedRanking, ShapePrediction
    from ckwatch.wire.rows import TimingRow, UnitRow
    from ckwatch_web.feed import Feed

ALL = "all"
CACHES = {ALL: "cold and hot", "cold": "cold", "hot": "hot"}
MOST_POINTS = 2000
"""Of a plot, the fastest of each shape first."""

MOST_DEVICES = 4
MOST_LABELS = 40
MOST_ROWS = 5000
MOST_PREDICTED = 12
"""Shapes whose predictions are asked for; each takes a moment for every instance."""

PROCESSOR = "cpu"
"""The place of timings on the processor of the daemon's machine."""

CACHE_COLOURS = {"cold": COLOURS[0], "hot": COLOURS[1]}
BOUND_COLOUR, ROOF_COLOUR, PREDICTED_COLOUR = "#8c8c8c", "#8c8c8c", COLOURS[3]
LABEL_COLOUR = "#7f7f7f"
"""Can be read on a light and on a dark page."""

ROOM = 1.6
"""The free factor at the ends of an axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A timing that has a place in the plot."""

    unit: UnitRow
    timing: TimingRow
    point: RooflinePoint


def timed_of(units: Iterable[UnitRow], shape: str = ALL, cache: str = ALL) -> dict[str, list[Timed]]:
    """The timings by kind of device, that of the newest one first; on each the fastest of each shape first."""
    found: dict[str, list[Timed]] = {}
    newest: dict[str, int] = {}
    for unit in units:
        for timing in unit.timings:
            if not timing.is_time or shape not in (ALL, timing.shape) or cache not in (ALL, timing.cache):
                continue
            point = roofline_point(
                shape=timing.shape, instance=unit.instance, cache=timing.cache, median_us=timing.median_us,
                tflops=timing.tflops, gbps=timing.gbps, bound_us=timing.bound_us,
            )  # fmt: skip
            if point is not None:
                found.setdefault(timing.device, []).append(Timed(unit=unit, timing=timing, point=point))
                newest[timing.device] = max(newest.get(timing.device, 0), timing.id)
    return {device: _fastest_first(found[device]) for device in sorted(found, key=lambda one: -newest[one])}


def below(roof: ProcessorRoof, timed: Iterable[Timed]) -> list[Timed]:
    """The timings with bounds by a measured roof: of those with a cold cache, as what a cache holds is not read from
    memory."""
    found = []
    for one in timed:
        point, timing = one.point, one.timing
        if timing.bound_us is None and timing.cache == "cold":
            most = min(roof.tflops, point.intensity * roof.bandwidth_tbs)
            percent = 100 * point.tflops / most
            timing = timing._replace(bound_us=timing.median_us * percent / 100, bound_percent=percent)
            one = replace(one, timing=timing, point=replace(point, bound_tflops=most))
        found.append(one)
    return found


def _fastest_first(timed: list[Timed]) -> list[Timed]:
    """By the place on their shape with their cache state: the fastest of each, then the second, and so on."""
    places: dict[tuple[str, str], int] = {}
    ordered = []
    for one in sorted(timed, key=lambda one: one.timing.median_us):
        key = (one.timing.shape, one.timing.cache)
        places[key] = places.get(key, -1) + 1
        ordered.append((places[key], one))
    return [one for _, one in sorted(ordered, key=lambda each: each[0])]


def fastest_of(timed: Sequence[Timed]) -> list[Timed]:
    """The fastest on each shape with each cache state, of timings in the order of `timed_of`."""
    seen: dict[tuple[str, str], Timed] = {}
    for one in timed:
        seen.setdefault((one.timing.shape, one.timing.cache), one)
    return list(seen.values())


def plot_of(device: str, timed: Sequence[Timed], at: int = 0, measured: ProcessorRoof | None = None) -> Plot:
    """The timings on one kind of device; `measured` is the roof of a processor, for which there is no data sheet."""
    drawn = timed[:MOST_POINTS]
    roof = roof_of([one.point for one in timed])
    if measured is not None:
        roof = Roofline(bandwidth_tbs=measured.bandwidth_tbs, peak_tflops=measured.tflops)
    fastest = fastest_of(timed)[:MOST_LABELS]
    labelled = {id(one) for one in fastest}
    several = len({one.unit.instance for one in timed}) > 1
    series: list[Option] = []
    for cache, colour in CACHE_COLOURS.items():
        points = [
            _point(one, labelled=id(one) in labelled, several=several) for one in drawn if one.point.cache == cache
        ]
        if points:
            series.append(_scatter(f"{cache} cache", points, colour))
    caches = [one["name"] for one in series]
    bounds: dict[tuple[str, str], Option] = {}
    for one in drawn:
        point = one.point
        if point.bound_tflops is not None:
            name = f"bound of {point.shape}, {point.cache} cache: {tflops(point.bound_tflops)}"
            key = (f"{point.intensity:.4g}", f"{point.bound_tflops:.4g}")
            bounds.setdefault(key, {"name": name, "value": [point.intensity, point.bound_tflops]})
    if bounds:
        series.append({"name": "bound", "type": "scatter", "symbol": "rect", "symbolSize": [14, 2],
                       "data": list(bounds.values()), "itemStyle": {"color": BOUND_COLOUR}})  # fmt: skip
    ends = [
        [[one.point.intensity, one.point.tflops], [one.point.intensity, one.point.bound_tflops]]
        for one in fastest
        if one.point.bound_tflops
    ]
    if ends:
        series.append(_to_bounds(ends))
    rates = [rate for one in drawn for rate in (one.point.tflops, one.point.bound_tflops) if rate]
    intensities = [one.point.intensity for one in drawn]
    if measured is not None:
        intensities.append(measured.tflops / measured.bandwidth_tbs)
        rates.append(measured.tflops)
    option = _axes(intensities, rates)
    roofs, names = roof_lines(roof, option["xAxis"]["min"], option["xAxis"]["max"])
    series += roofs
    option |= {"legend": legend([*caches, *(["bound"] if bounds else []), *names]), "series": series}
    summary = summary_of(timed, drawn, roof, measured)
    return Plot(key=f"roofline-{at}", title=device, option=option, summary=summary, height_px=520)


def _point(one: Timed, *, labelled: bool, several: bool) -> Option:
    timing = one.timing
    words = [time_of(timing.median_us), tflops(one.point.tflops)]
    if timing.bound_percent is not None:
        words.append(f"{timing.bound_percent:.0f} % of bound")
    if timing.standing != "fresh":
        words.append(timing.standing)
    name = f"{one.unit.instance}\n{timing.shape}, {timing.cache} cache: {', '.join(words)}"
    label = (
        f"{shortened(timing.shape, 20)}\n{shortened(one.unit.instance, 20)}" if several else shortened(timing.shape, 24)
    )
    found: Option = {"name": name, "value": [one.point.intensity, one.point.tflops]}
    if labelled:
        found |= {"symbolSize": 10, "label": {"show": True, "formatter": escaped(label)}}
    if timing.standing != "fresh":
        found["itemStyle"] = {"opacity": 0.45}
    return found


def escaped(label: str) -> str:
    """A label in which nothing stands for a value: ECharts replaces what is in braces, and reads `|` as a style."""
    return label.replace("{", "(").replace("}", ")")


def _scatter(name: str, points: Sequence[Option], colour: str, symbol: str = "circle") -> Option:
    return {
        "name": name, "type": "scatter", "symbol": symbol, "symbolSize": 6, "data": list(points), "z": 4,
        "itemStyle": {"color": colour},
        "label": {"position": "right", "fontSize": 11, "lineHeight": 13, "align": "left", "color": LABEL_COLOUR},
        "labelLayout": {"hideOverlap": True, "moveOverlap": "shiftY"},
    }  # fmt: skip


def _to_bounds(ends: Sequence[Sequence[Sequence[float | None]]]) -> Option:
    """From the fastest of each shape up to its bound."""
    return {
        "type": "lines", "coordinateSystem": "cartesian2d", "silent": True, "symbol": "none", "z": 1,
        "data": [{"coords": list(one)} for one in ends],
        "lineStyle": {"color": BOUND_COLOUR, "width": 1, "opacity": 0.6},
    }  # fmt: skip


def _axes(intensities: Sequence[float], rates: Sequence[float]) -> Option:
    """A logarithmic plot with some room around these."""
    low, high = min(intensities) / ROOM, max(intensities) * ROOM * ROOM  # at the right are labels
    bottom, top = min(rates) / ROOM, max(rates) * ROOM
    return base(
        tooltip=NAME_TIP,
        grid={"left": 30, "right": 24, "top": 44, "bottom": 34, "containLabel": True},
        xAxis=axis("arithmetic intensity, FLOP per byte", kind="log", min=low, max=high, axisLabel=_LOG_LABEL),
        yAxis=axis("rate", kind="log", min=bottom, max=top, axisLabel=_RATE_LABEL, nameGap=84),
    )


_LOG_LABEL = {":formatter": Function("value => String(Number(value.toPrecision(2)))"), "hideOverlap": True}
_RATE_LABEL = {
    ":formatter": Function(
        "value => Number((value < 1 ? value * 1e3 : value).toPrecision(2)) + (value < 1 ? ' GFLOP/s' : ' TFLOP/s')"
    ),
    "hideOverlap": True,
}


def roof_lines(roof: Roofline, low: float, high: float) -> tuple[list[Option], list[str]]:
    """The parts of the roof that are known, between two intensities, and their names."""
    parts = roof.lines(low, high)
    lines: list[Option] = [
        {"name": name, "type": "line", "data": list(map(list, ends)), "showSymbol": False, "silent": True, "z": 2,
         "itemStyle": {"color": ROOF_COLOUR}, "lineStyle": {"color": ROOF_COLOUR, "width": 2, "type": style}}
        for (name, ends), style in zip(parts, ("solid", "dashed"), strict=False)
    ]  # fmt: skip
    return lines, [name for name, _ in parts]


def summary_of(
    timed: Sequence[Timed], drawn: Sequence[Timed], roof: Roofline, measured: ProcessorRoof | None = None
) -> str:
    """Describe the plot in words."""
    parts = [
        count(len(timed), "timing") if len(drawn) == len(timed) else
        f"{len(drawn):,} of {len(timed):,} timings, the fastest of each shape; choose one shape or cache to see more"
    ]  # fmt: skip
    known = [one for one in timed if one.timing.bound_percent is not None]
    if known:
        nearest = max(known, key=lambda one: one.timing.bound_percent or 0.0)
        parts.append(
            f"Nearest to its bound is {nearest.unit.instance} on {nearest.timing.shape}, "
            f"{nearest.timing.cache} cache, with {nearest.timing.bound_percent:.0f} %"
        )
    elif measured is None:
        parts.append("No bound is known for this device")
    if measured is not None:
        parts.append(
            f"The roof was measured on this machine on {timestamp(measured.measured_at)[:10]}: f32 multiply-adds and "
            f"reads of memory by {count(measured.threads, 'thread')}"
        )
    if roof.ridge is not None:
        units = "matrix units" if measured is None else "multiply-adds"
        parts.append(f"Below {roof.ridge:.3g} FLOP per byte the memory is the limit, above it the {units}")
    elif known and roof.bandwidth_tbs is None and roof.peak_tflops is None:
        parts.append("The bounds of these shapes alone do not show where the roof is")
    return ". ".join(parts) + "."


# Tables.


def limits_of(timed: Mapping[str, Sequence[Timed]], analyses: Iterable[Analysis]) -> dict[tuple[str, str], str]:
    """Return the limit behind the bound of a shape on a device with a cold cache: as the roof shows it, else as the
    analysis says for a part whose roofline is this very bound."""
    found: dict[tuple[str, str], str] = {}
    predicted = {(one.report.arch, each.shape): each.prediction for one in analyses for each in one.shapes}
    for device, own in timed.items():
        roof = roof_of([one.point for one in own])
        for one in own:
            key = (device, one.timing.shape)
            if one.timing.cache != "cold" or found.get(key):
                continue
            found[key] = roof.limit_of(one.point)
            bound, known = one.timing.bound_us, predicted.get((one.unit.arch, one.timing.shape))
            if not found[key] and bound and known is not None and known.roofline_us:
                same = abs(known.roofline_us / bound - 1) <= ON_THE_ROOF
                found[key] = known.roofline_by if same else ""
    return found


def timings_table(timed: Mapping[str, Sequence[Timed]], limits: Mapping[tuple[str, str], str]) -> Table:
    """Each timing with its bound."""
    every = [(device, one) for device, own in timed.items() for one in own]
    rows: list[Row] = []
    for device, one in every[:MOST_ROWS]:
        timing = one.timing
        rows.append({
            ID: f"{one.unit.id} {timing.shape} {timing.cache} {device}", UNIT: one.unit.id, PLACE: one.unit.place,
            "instance": one.unit.instance, "arch": one.unit.arch, "shape": timing.shape, "cache": timing.cache,
            "device": device, "median": timing.median_us, "tflops": timing.tflops, "gbps": timing.gbps,
            "intensity": one.point.intensity, "bound": timing.bound_us,
            "limit": limits.get((device, timing.shape), "") if timing.cache == "cold" else "",
            "specified": timing.bound_percent, "observed": timing.observed_percent,
            "standing": timing.standing_words,
        })  # fmt: skip
    columns = (
        Column(key="instance", title="instance", width=280, pinned=True),
        Column(key="shape", title="shape", width=160),
        Column(key="cache", title="cache", width=90),
        Column(key="median", title="median", kind="time", width=130),
        Column(key="tflops", title="rate", kind="rate", width=120),
        Column(key="gbps", title="GB/s", kind="number", width=110),
        Column(key="intensity", title="FLOP/byte", kind="number", width=120),
        Column(
            key="bound",
            title="bound",
            kind="time",
            width=120,
            note="The roofline at the specified clock, of a processor as it was measured",
        ),
        Column(key="limit", title="limit", width=110, note="What the bound comes from: matrix units or memory"),
        Column(key="specified", title="% of bound", kind="number", width=130, note="At the specified clock"),
        Column(key="observed", title="% at the clock", kind="number", width=150, note="At the clock that was observed"),
        Column(key="standing", title="standing", width=160),
        Column(key="device", title="device", width=260),
        Column(key="arch", title="arch", width=100),
    )
    title = "Timings and their bounds"
    if len(every) > MOST_ROWS:
        title += f", {MOST_ROWS:,} of {len(every):,}, the fastest of each shape"
    empty = "no timings whose FLOP and bytes are known; `ckwatch bench` takes timings"
    return Table(key="timings", title=title, columns=columns, rows=tuple(rows), empty=empty, height_px=520)


TERMS = (
    *("matrix units", "main loop", "LDS", "L1 cache", "L2 cache", "last level cache", "memory"),
    *("vector units", "latency", "launch"),
)
"""Parts of a predicted time, as `Prediction.terms` names them."""


def parts_table(unit: UnitRow, analysis: Analysis) -> Table:
    """Tabulate the prediction for the unit on each shape: the bound's parts, and the time that each resource needs
    alone."""
    rows = tuple(_parts(unit, one) for one in analysis.shapes)
    present = [term for term in TERMS if any(row.get(term) is not None for row in rows)]
    columns = (
        Column(key="shape", title="shape", width=160, pinned=True),
        Column(key="part", title="part", width=110),
        Column(key="roofline", title="roofline", kind="time", width=140, note="Knows only the part"),
        Column(key="by", title="limit", width=110, note="What the roofline comes from"),
        Column(key="bound", title="with tiles", kind="time", width=140, note="Padding and tail included"),
        Column(key="predicted", title="predicted", kind="time", width=150),
        Column(key="measured", title="measured", kind="time", width=150, note="Cold cache, present artifact"),
        Column(key="limited", title="predicted limit", width=150),
        *(Column(key=term, title=f"{term}", kind="time", width=150, note="Predicted, alone") for term in present),
        Column(key="why", title="because", width=420),
    )
    stale = "" if analysis.fresh else ", of an earlier input"
    title = f"Predicted, not measured: {unit.id}{stale}"
    return Table(key="parts", title=title, columns=columns, rows=rows, empty="no prediction for this arch")


def _parts(unit: UnitRow, one: ShapePrediction) -> Row:
    found = one.prediction
    return {
        ID: one.shape, UNIT: unit.id, PLACE: unit.place, "shape": one.shape, "part": found.part,
        "roofline": found.roofline_us, "by": found.roofline_by, "bound": found.bound_us, "predicted": found.time_us,
        "measured": one.measured_us, "limited": "" if found.limited_by is None else found.limited_by.value,
        **{term.value: time_us for term, time_us in found.terms.items()},
        "why": "; ".join((*found.why, *found.notes)),
    }  # fmt: skip


# Predictions, where nothing was timed.


def predicted_points(ranking: PredictedRanking) -> list[RooflinePoint]:
    """A point for each instance that has a predicted time, the fastest first."""
    points = []
    for row in ranking.rows:
        found = row.prediction
        if not ranking.intensity or not found.tflops or not found.time_us:
            continue
        roof = found.tflops * found.time_us / found.roofline_us if found.roofline_us else None
        points.append(
            RooflinePoint(
                shape=ranking.shape,
                cache=ranking.cache,
                intensity=ranking.intensity,
                tflops=found.tflops,
                bound_tflops=roof,
                instance=row.name,
            )
        )
    return sorted(points, key=lambda point: -point.tflops)


def predicted_plot(rankings: Sequence[PredictedRanking]) -> Plot | None:
    """Plot the predictions on each shape; None if there are none."""
    by_shape = [points for ranking in rankings if (points := predicted_points(ranking))]
    if not by_shape:
        return None
    drawn = [point for points in by_shape for point in points[: max(MOST_POINTS // len(by_shape), 1)]]
    every = [point for points in by_shape for point in points]
    marks = []
    for points in by_shape:
        for at, point in enumerate(points[: max(MOST_POINTS // len(by_shape), 1)]):
            mark: Option = {
                "name": f"{point.instance}\n{point.shape}: predicted {tflops(point.tflops)}, not measured",
                "value": [point.intensity, point.tflops],
            }
            if at == 0:
                label = escaped(f"{shortened(point.shape, 20)}\n{shortened(point.instance, 20)}")
                mark |= {"symbolSize": 12, "label": {"show": True, "formatter": label}}
            marks.append(mark)
    roof = roof_of(every)
    rates = [rate for point in drawn for rate in (point.tflops, point.bound_tflops) if rate]
    option = _axes([point.intensity for point in drawn], rates)
    name = "predicted, not measured"
    scatter = _scatter(name, marks, "transparent", "diamond")
    scatter["itemStyle"] |= {"borderColor": PREDICTED_COLOUR, "borderWidth": 1.5}
    scatter["label"] |= {"color": PREDICTED_COLOUR}
    roofs, names = roof_lines(roof, option["xAxis"]["min"], option["xAxis"]["max"])
    option |= {"legend": legend([name, *names]), "series": [scatter, *roofs]}
    part = rankings[0].part
    left_out = "" if len(drawn) == len(every) else f", the fastest of {len(every):,}"
    summary = (
        f"Nothing was measured: {count(len(drawn), 'prediction')} for {part}{left_out}. "
        "`ckwatch bench` takes timings on a device."
    )
    title = f"Predicted, not measured: {part}"
    return Plot(key="predicted", title=title, option=option, summary=summary, height_px=520)


def predicted_table(rankings: Sequence[PredictedRanking], places: Mapping[str, UnitRow]) -> Table:
    """The predictions of each shape by place. `places`: units by their instances."""
    rows: list[Row] = []
    for ranking in rankings:
        for row in ranking.rows:
            found, unit = row.prediction, places.get(row.name)
            rows.append({
                ID: f"{ranking.shape} {row.name}", UNIT: None if unit is None else unit.id,
                PLACE: None if unit is None else unit.place, "instance": row.name, "shape": ranking.shape,
                "place": row.place, "predicted": found.time_us, "tflops": found.tflops, "bound": found.bound_us,
                "roofline": found.roofline_us, "by": found.roofline_by, "why": row.because,
            })  # fmt: skip
    columns = (
        Column(key="instance", title="instance", width=280, pinned=True),
        Column(key="shape", title="shape", width=160),
        Column(key="place", title="place", kind="number", width=100),
        Column(key="predicted", title="predicted", kind="time", width=150),
        Column(key="tflops", title="predicted rate", kind="rate", width=170),
        Column(key="bound", title="bound with tiles", kind="time", width=180),
        Column(key="roofline", title="roofline", kind="time", width=140),
        Column(key="by", title="limit", width=110),
        Column(key="why", title="because", width=420),
    )
    title = "Predictions, not measurements"
    return Table(key="predictions", title=title, columns=columns, rows=tuple(rows[:MOST_ROWS]), height_px=520)


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    kernel = kernel_choice(feed, query)
    units = [unit for unit in feed.units.values() if unit.kernel == kernel.value]
    shapes = await to_thread.run_sync(shapes_of, units)
    if not shapes:
        return await _predicted(feed, query, units)
    shape = choose("shape", "Shape", {ALL: "all shapes"} | {name: name for name in shapes}, query)
    cache = choose("cache", "Cache", CACHES, query)
    timed = await to_thread.run_sync(timed_of, units, shape.value, cache.value)
    best = next((one.unit for own in timed.values() for one in own), None)
    selectable = sorted(unit.id for unit in units if unit.artifact)
    unit = choose("unit", "Predicted parts of", selectable, query, "" if best is None else best.id)
    chosen = [one for one in (kernel, shape, cache, unit) if len(one.options) > 1]
    row = feed.units.get(unit.value)
    analysis = await _analysis(feed, unit.value)

    processors = {device for device, own in timed.items() if all(one.timing.place == PROCESSOR for one in own)}
    roof = await _processor_roof(feed) if processors else None
    measured = None if isinstance(roof, str) else roof

    def blocks() -> tuple[Block, ...]:
        made: list[Block] = [*chosen]
        if measured is not None:
            timed.update({device: below(measured, timed[device]) for device in processors})
        for at, (device, own) in enumerate(list(timed.items())[:MOST_DEVICES]):
            made.append(plot_of(device, own, at, measured if device in processors else None))
        if isinstance(roof, str):
            made.append(Note(key="roof", text=roof, kind="hint"))
        if not timed:
            text = "No timing has a place here: FLOP or bytes are not known, or the kernel failed on these shapes."
            made.append(Note(key="empty", text=text, kind="hint"))
        if len(timed) > MOST_DEVICES:
            text = f"{MOST_DEVICES} of {len(timed)} kinds of devices are drawn, those used last; the table has all."
            made.append(Note(key="devices", text=text, kind="hint"))
        made.append(timings_table(timed, limits_of(timed, [] if analysis is None else [analysis])))
        if row is not None and analysis is not None and analysis.shapes:
            made.append(parts_table(row, analysis))
        return tuple(made)

    return Content(title=kernel.value, blocks=await to_thread.run_sync(blocks))


async def _processor_roof(feed: Feed) -> ProcessorRoof | str:
    """The roof of the processor, measured if it never was; or why there is none."""
    if (known := feed.kept.get(PROCESSOR)) is None:
        try:
            known = feed.kept[PROCESSOR] = await feed.client.processor_roof()
        except CkwatchError as error:  # it may be measured the next time
            return f"{error.message[:1].upper()}{error.message[1:]}" + (f": {error.hint}." if error.hint else ".")
    found: ProcessorRoof = known
    return found


async def _analysis(feed: Feed, unit: str) -> Analysis | None:
    if unit not in feed.units:
        return None
    try:
        return await feed.client.analysis(unit)
    except CkwatchError:  # it is being built, or its code object is gone: then there are no predicted parts
        return None


async def _predicted(feed: Feed, query: Query, units: Sequence[UnitRow]) -> Content:
    """The view of a kernel that was not timed."""
    kernel = kernel_choice(feed, query)
    choose("unit", "Unit", sorted(unit.id for unit in units), query)
    if not kernel.value:
        return NO_UNITS
    choose("cache", "Cache", CACHES, query)
    arch = choose("arch", "Arch", sorted({unit.arch for unit in units if unit.artifact}), query)
    own = [unit for unit in units if unit.arch == arch.value]
    first = next((unit for unit in own if unit.artifact), None)
    analysis = None if first is None else await _analysis(feed, first.id)
    names = [] if analysis is None else [one.shape for one in analysis.shapes]
    every = f"the first {MOST_PREDICTED}" if len(names) > MOST_PREDICTED else "all shapes"
    shape = choose("shape", "Shape", {ALL: every} | {name: name for name in names}, query)
    asked = names[:MOST_PREDICTED] if shape.value == ALL else [shape.value]
    rankings = []
    for name in asked:
        try:
            rankings.append(await feed.client.predicted(kernel.value, name, arch=arch.value))
        except CkwatchError:  # the shape is gone
            continue
    chosen = [one for one in (kernel, arch, shape) if len(one.options) > 1]
    plot = await to_thread.run_sync(predicted_plot, rankings)
    if plot is None:
        text = f"Nothing was timed, and nothing can be predicted: `ckwatch bench {kernel.value}` takes timings."
        return Content(title=kernel.value, blocks=(*chosen, Note(key="empty", text=text, kind="hint")))
    text = "Predicted, not measured: no instance was timed on a device. `ckwatch bench` takes timings."
    note = Note(key="predicted", text=text, kind="warning")
    table = await to_thread.run_sync(predicted_table, rankings, {unit.instance: unit for unit in own})
    return Content(title=f"{kernel.value}, predicted", blocks=(*chosen, note, plot, table))


def depends(feed: Feed, query: Query) -> Hashable:
    """The units of the kernel: where they stand, their timings, and their code objects."""
    kernel = kernel_choice(feed, query).value
    return tuple(
        (unit.id, unit.place, unit.artifact, unit.timings) for unit in feed.units.values() if unit.kernel == kernel
    )
