"""*Predicted*: a kernel's instances by predicted time on a shape, against what was measured here and by others."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import count, time_of
from ckwatch.model.gpu_specs import AMD_GPUS
from ckwatch.model.targets import arch_base
from ckwatch_web.choices import choose, kernel_choice, shapes_of
from ckwatch_web.content import NO_UNITS, PLACE, UNIT, Block, Choice, Column, Content, Facts, Note, Plot, Row, Table
from ckwatch_web.plots import COLOURS, TOOLTIP, axis, base, legend
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.wire.analysis import Calibrated, PredictedRanking
    from ckwatch.wire.imported_timings import ImportedTiming
    from ckwatch.wire.rows import UnitRow
    from ckwatch_web.feed import Feed

DRAWN = 2000
"""Points of a series, those with the shortest measured times."""

MOST_IMPORTED = 2000
"""Rows of what others measured, the fastest."""

MOST_SOURCES = 5
FACTOR = 2.0

MEASURED = "measured here"


def ranking_table(ranking: PredictedRanking, rows: Mapping[str, UnitRow]) -> Table:
    """The instances in predicted order; `rows` by instance."""
    found: list[Row] = []
    for one in ranking.rows:
        predicted, measured = one.prediction.time_us, ranking.measured_us.get(one.name)
        row = rows.get(one.name)
        found.append({
            "id": one.name, UNIT: None if row is None else row.id, PLACE: None if row is None else row.place,
            "place": one.place, "instance": one.name, "predicted": _rounded(predicted), "measured": _rounded(measured),
            "ratio": round(measured / predicted, 3) if measured and predicted else None,
            "bound": _rounded(one.prediction.bound_us), "limit": str(one.prediction.limited_by or ""),
            "basis": str(one.prediction.basis or ""), "because": one.because,
        })  # fmt: skip
    columns = (
        Column(key="place", title="place", kind="number", width=90, note="by predicted time; ties share one"),
        Column(key="instance", title="instance", width=300, pinned=True),
        Column(key="predicted", title="predicted", kind="time", width=130),
        Column(key="measured", title="measured", kind="time", width=130, note="here, with a cold cache if known"),
        Column(key="ratio", title="measured / predicted", kind="number", width=170),
        Column(key="bound", title="bound", kind="time", width=110, note="no launch with these tiles is faster"),
        Column(key="limit", title="limited by", width=150),
        Column(key="basis", title="predicted from", width=150),
        Column(key="because", title="because", width=520),
    )
    title = f"Predicted for {ranking.part} on {ranking.shape}, not measured unless it says so"
    return Table(key="ranking", title=title, columns=columns, rows=tuple(found), empty="no instance", height_px=560)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def imported_table(imported: Sequence[ImportedTiming], predicted: Mapping[str, float]) -> Table | None:
    """Tabulate timings by others on the shape, the fastest first; None if there are none."""
    if not imported:
        return None
    rows: list[Row] = []
    for at, one in enumerate(imported[:MOST_IMPORTED]):
        here = next((name for name in one.instances if name in predicted), one.instances[0] if one.instances else "")
        expected = predicted.get(here)
        rows.append({
            "id": str(at), "source": one.source, "device": one.device, "time": _rounded(one.time_us),
            "instance": here, "predicted": _rounded(expected),
            "ratio": round(one.time_us / expected, 3) if expected else None,
            "there": one.instance or one.kernel,
            "runtime": ", ".join(f"{name} = {value:g}" for name, value in one.runtime.items()),
        })  # fmt: skip
    columns = (
        Column(key="source", title="source", width=140),
        Column(key="device", title="device", width=140),
        Column(key="time", title="measured by others", kind="time", width=190),
        Column(key="instance", title="instance here", width=260),
        Column(key="predicted", title="predicted", kind="time", width=130),
        Column(key="ratio", title="measured / predicted", kind="number", width=170),
        Column(key="runtime", title="run with", width=140),
        Column(key="there", title="its name there", width=420),
    )
    part = f", the fastest {MOST_IMPORTED:,} of {len(imported):,}" if len(imported) > MOST_IMPORTED else ""
    return Table(key="imported", title=f"Measured by others{part}", columns=columns, rows=tuple(rows))


Point = tuple[float, float, str]
"""Predicted and measured time in µs, and what it is."""


def points_here(ranking: PredictedRanking) -> list[Point]:
    """Return the points that were both predicted and measured here, the fastest first."""
    times = {one.name: one.prediction.time_us for one in ranking.rows}
    known = ((times.get(name), time_us, name) for name, time_us in ranking.measured_us.items())
    return sorted(((one, time_us, name) for one, time_us, name in known if one), key=lambda point: point[1])


def points_elsewhere(imported: Iterable[ImportedTiming], predicted: Mapping[str, float]) -> dict[str, list[Point]]:
    """By source and device, what others measured with the parameters of instances here. A split of K is a launch of
    another kind, which was not predicted."""
    found: dict[str, list[Point]] = {}
    for one in imported:
        if any(value != 1 for value in one.runtime.values()):
            continue
        for name in one.instances:
            if name in predicted:
                label = f"{one.source}, {one.device}: measured by others"
                found.setdefault(label, []).append((predicted[name], one.time_us, name))
    return found


def scatter(series: Mapping[str, Sequence[Point]], part: str, shape: str) -> Plot | None:
    """Predicted against measured times, both logarithmic, with what would be equal, and twice and half of it. None
    without points."""
    shown = {name: list(points[:DRAWN]) for name, points in list(series.items())[: 1 + MOST_SOURCES] if points}
    if not shown:
        return None
    times = [value for points in shown.values() for point in points for value in point[:2]]
    low, high = 2.0 ** math.floor(math.log2(min(times) / 1.2)), 2.0 ** math.ceil(math.log2(max(times) * 1.2))
    drawn: list[dict[str, Any]] = [
        {
            "name": name, "type": "scatter", "symbolSize": 9, "symbol": "circle" if name == MEASURED else "diamond",
            "itemStyle": {"color": COLOURS[at % len(COLOURS)]},
            "data": [{"value": [x, y], "text": _point_text(name, x, y, what)} for x, y, what in points],
        }
        for at, (name, points) in enumerate(shown.items())
    ]  # fmt: skip
    for factor, dash in ((1.0, "solid"), (FACTOR, "dashed"), (1 / FACTOR, "dashed")):
        style = {"type": dash, "color": "#8c8c8c", "width": 1}
        begin, end = max(low, low / factor), min(high, high / factor)
        ends = [[begin, begin * factor], [end, end * factor]]
        drawn.append({"type": "line", "data": ends, "showSymbol": False, "silent": True, "lineStyle": style,
                      "clip": True, "tooltip": {"show": False}})  # fmt: skip
    option = base(
        grid={"left": 56, "right": 24, "top": 40, "bottom": 34, "containLabel": True},
        xAxis=axis("predicted, µs", kind="log", logBase=2, min=low, max=high),
        yAxis=axis("measured, µs", kind="log", logBase=2, min=low, max=high, nameGap=56),
        legend=legend(list(shown)),
        tooltip=TOOLTIP,
        series=drawn,
    )
    all_points = [point for points in shown.values() for point in points]
    within = sum(1 for x, y, _ in all_points if 1 / FACTOR <= y / x <= FACTOR)
    every = sum(len(points) for points in series.values())
    of_all = f" of {every:,}, the fastest of each series" if every > len(all_points) else ""
    summary = (
        f"{count(len(all_points), 'point')}{of_all}: {within} within a factor of 2 of what was predicted for {part}."
        " The line is where both are equal; above it the prediction was too good."
    )
    title = f"Predicted against measured on {shape}"
    return Plot(key="scatter", title=title, option=option, summary=summary, height_px=440)


def _point_text(series: str, predicted: float, measured: float, what: str) -> str:
    return f"{what}\npredicted {time_of(predicted)}, {series}: {time_of(measured)}, {measured / predicted:.2f} ×"


def calibration(found: Calibrated) -> Facts | None:
    """How far predictions are off, over all units; None without a timing to compare with."""
    known = found.calibration
    if known is None:
        return None
    facts = [
        ("predictions with a fresh timing", f"{len(known.pairs)} of {count(found.timed, 'timing')}"),
        ("measured over predicted, median", f"{known.ratio:.2f}"),
        ("each off from that, geometric mean", f"{100 * (known.off - 1):.0f} %"),
    ]
    if known.order is not None:
        facts.append(("pairs in the right order", f"{100 * known.order:.0f} %"))
    if known.below_bound:
        facts.append(("measured below the bound, so one of both is wrong", str(len(known.below_bound))))
    return Facts(key="calibration", title="All units together", facts=tuple(facts))


def parts_of(arch: str) -> dict[str, str]:
    """The parts that a prediction for an arch can be for; the first is the default."""
    return {part.name: part.name for _, part in AMD_GPUS.get(arch_base(arch), ())}


async def _shapes(feed: Feed, kernel: str, arch: str) -> list[str]:
    """Those of the kernel file, as far as one of its units is analysed, and those that were timed or imported."""
    units = [row for row in feed.units.values() if row.kernel == kernel]
    found: dict[str, None] = {}
    for row in sorted((row for row in units if row.artifact), key=lambda one: one.arch != arch):
        try:
            found = dict.fromkeys(one.shape for one in (await feed.client.analysis(row.id)).shapes)
        except CkwatchError:
            continue
        break
    if not found:
        found = dict.fromkeys(one.shape for one in await feed.client.imported_timings(kernel, arch=arch) if one.shape)
    return list(found or dict.fromkeys(shapes_of(units)))


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    kernel, arch = _kernel_and_arch(feed, query)
    if not feed.units:
        return NO_UNITS
    units = _units_of(feed, kernel.value, arch.value)
    shapes, asked = await _shapes(feed, kernel.value, arch.value), query.get("shape", "")
    if "=" in asked and asked not in shapes:  # sizes, which the kernel file need not have
        shapes = [*shapes, asked]
    shape = choose("shape", "Shape", shapes, query)
    part = choose("part", "For", parts_of(arch.value), query)
    blocks: list[Block] = [kernel, arch, shape, part]
    title = f"{kernel.value} on {shape.value}" if shape.value else kernel.value
    if not shape.value or not part.value:
        why = (
            f"There is no prediction for {arch.value}: only for parts of {', '.join(AMD_GPUS)}."
            if not part.value
            else f"{kernel.value} has no shape, or none of its units is built: `ckwatch build {kernel.value}`."
        )
        return Content(title=title, blocks=(*blocks, Note(key="why", text=why, kind="hint")))
    ranking = await feed.client.predicted(kernel.value, shape.value, arch=arch.value, part=part.value)
    imported = await feed.client.imported_timings(kernel.value, shape.value, arch=arch.value)
    calibrated = calibration(await feed.client.calibration())
    rows = {row.instance: row for row in units}
    blocks += await to_thread.run_sync(ranking_blocks, ranking, imported, rows)
    blocks += [] if calibrated is None else [calibrated]
    return Content(title=title, blocks=tuple(blocks))


def ranking_blocks(
    ranking: PredictedRanking, imported: Sequence[ImportedTiming], rows: Mapping[str, UnitRow]
) -> list[Block]:
    """The picture and the tables."""
    times = {one.name: one.prediction.time_us for one in ranking.rows if one.prediction.time_us}
    here, elsewhere = points_here(ranking), points_elsewhere(imported, times)
    blocks: list[Block] = []
    if not here:
        text = "Nothing of this was measured here: all times are predicted. `ckwatch bench` takes timings."
        blocks.append(Note(key="unmeasured", text=text, kind="hint"))
    picture = scatter({MEASURED: here, **elsewhere}, ranking.part, ranking.shape)
    table = imported_table(imported, times)
    blocks += [] if picture is None else [picture]
    blocks.append(ranking_table(ranking, rows))
    if table is not None:
        text = "Others measured these on their devices, as their source says; they are not timings of this workspace."
        blocks += [table, Note(key="others", text=text, kind="hint")]
    return blocks


def _kernel_and_arch(feed: Feed, query: Query) -> tuple[Choice, Choice]:
    """Those of the address, which may name a unit instead."""
    unit = choose("unit", "Unit", feed.units, query)
    row = feed.units[unit.value] if query.get("unit") else None
    asked = query if row is None else {"kernel": row.kernel} | dict(query)
    kernel = kernel_choice(feed, asked, lambda row: bool(parts_of(row.arch)))
    archs = sorted({row.arch for row in feed.units.values() if row.kernel == kernel.value})
    known = next((one for one in archs if parts_of(one)), "")
    return kernel, choose("arch", "Arch", archs, query, row.arch if row is not None and row.arch in archs else known)


def _units_of(feed: Feed, kernel: str, arch: str) -> list[UnitRow]:
    return [row for row in feed.units.values() if row.kernel == kernel and row.arch == arch]


def depends(feed: Feed, query: Query) -> Hashable:
    """The artifacts and timings of the kernel's units, and what was imported."""
    kernel, arch = _kernel_and_arch(feed, query)
    own = tuple(
        (row.id, row.place, row.generation, row.artifact, row.outcome, row.timed_at)
        for row in _units_of(feed, kernel.value, arch.value)
    )
    return tuple(kernel.options), tuple(arch.options), own, getattr(feed.workspace, "imported_at", None)
