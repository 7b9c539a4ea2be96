"""*Instances × shapes*: how much longer each instance takes than the best on each shape, or than it took before.

Ratios and verdicts are those of the daemon wherever it compares two timings. A ratio to the best is that of two medians
on one kind of device; the daemon's ranking says which of them are significant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import exp, inf, log
from typing import TYPE_CHECKING, Literal, cast

import anyio
from anyio import CapacityLimiter, to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import count, time_of
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_web.choices import choose, kernel_choice, shapes_of
from ckwatch_web.content import ID, NO_UNITS, PLACE, UNIT, Block, Cell, Choice, Column, Content, Note, Plot, Row, Table
from ckwatch_web.grid import HEAT_STEPS, UNSURE
from ckwatch_web.plots import HEAT_COLOURS, NAME_TIP, base, shortened
from ckwatch_web.view import Query

if TYPE_CHECKING:
    from ckwatch.client import Client
    from ckwatch.model.timings import Comparison
    from ckwatch.wire.benchmarks import Baseline
    from ckwatch.wire.rows import TimingRow, UnitRow
    from ckwatch_web.feed import Feed

SHAPES_AT_A_TIME = 40
MOST_DRAWN = 100
"""Instances of the picture, the best ones."""

CELLS_WITH_TEXT = 400
"""More cells than this have no number in them."""

MOST_RANKED = 400
"""With more timings than this the daemon is not asked which are significantly slower than the best: it would read all
samples of all of them again after each change."""

MOST_COMPARED = 200
"""Instances that are compared with a baseline that is not the last one, which takes a question each."""

ASKED_AT_ONCE = 4

BEST, LAST_BASELINE, PREVIOUS = "best", "baseline", "previous"
NAMED = "baseline:"

Compared = Mapping[tuple[str, str, str], tuple[str, float]]
"""Verdict and ratio by unit, shape and cache state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A unit and its timings on all shapes, with the ratio of each that has one, and the verdict. `best_on`: the number
    of shapes on which it is the best."""

    unit: UnitRow
    timings: Mapping[str, TimingRow]
    ratios: Mapping[str, float]
    verdicts: Mapping[str, str]
    best_on: int

    @property
    def mean(self) -> float | None:
        """The geometric mean of the ratios."""
        return exp(sum(map(log, self.ratios.values())) / len(self.ratios)) if self.ratios else None

    @property
    def worst(self) -> float | None:
        """The largest ratio."""
        return max(self.ratios.values(), default=None)

    @property
    def place(self) -> tuple[int, float, str]:
        """The order of lines: timed on most shapes first, then the least mean."""
        return -len(self.ratios), self.mean or inf, self.unit.instance


def timings_on(unit: UnitRow, cache: str, device: str) -> dict[str, TimingRow]:
    """A unit's timings by shape, of this cache state and kind of device. A failure has no cache state, and may have
    no device."""
    return {
        timing.shape: timing
        for timing in unit.timings
        if (timing.failure and timing.device in ("", device))
        or (timing.cache == cache and timing.device == device and timing.is_time)
    }


def best_of(timings: Iterable[Mapping[str, TimingRow]]) -> dict[str, TimingRow]:
    """The timing with the least median on each shape."""
    best: dict[str, TimingRow] = {}
    for own in timings:
        for shape, timing in own.items():
            known = best.get(shape)
            if timing.is_time and (known is None or timing.median_us < known.median_us):
                best[shape] = timing
    return best


def lines_of(
    units: Sequence[UnitRow], cache: str, device: str, against: str = BEST, compared: Compared | None = None
) -> list[Line]:
    """The units, the best first. `compared`: what the daemon says of timings against the best or a named baseline."""
    own = [timings_on(unit, cache, device) for unit in units]
    best = best_of(own)
    lines = []
    for unit, timings in zip(units, own, strict=True):
        ratios, verdicts = {}, {}
        for shape, timing in timings.items():
            if timing.failure:
                continue
            known = None if compared is None else compared.get((unit.id, shape, cache))
            ratio, verdict = _compared(timing, best[shape], against, known)
            if ratio:
                ratios[shape] = round(ratio, 5)
            if words := ", ".join(filter(None, (verdict, "" if timing.standing == "fresh" else timing.standing))):
                verdicts[shape] = words
        won = sum(1 for shape, timing in timings.items() if best.get(shape) is timing)
        lines.append(Line(unit=unit, timings=timings, ratios=ratios, verdicts=verdicts, best_on=won))
    return sorted(lines, key=lambda line: line.place)


def _compared(
    timing: TimingRow, best: TimingRow, against: str, known: tuple[str, float] | None
) -> tuple[float | None, str]:
    if against == BEST:
        return timing.median_us / best.median_us, "" if known is None or timing is best else known[0]
    if against == LAST_BASELINE:
        return timing.baseline_ratio, timing.baseline_verdict
    if against == PREVIOUS:
        return timing.previous_ratio, timing.previous_verdict
    return (None, "") if known is None else (known[1], known[0])


def against_words(against: str) -> str:
    """Name the reference of a ratio."""
    if against == BEST:
        return "the best on the shape"
    if against == LAST_BASELINE:
        return "the last baseline that was set"
    if against == PREVIOUS:
        return "the previous artifact"
    return f"the baseline {against.removeprefix(NAMED)}"


def table_of(lines: Sequence[Line], shapes: Sequence[str], against: str) -> Table:
    """All lines; what has no ratio says why."""
    to = against_words(against)
    columns = (
        Column(key="instance", title="instance", width=300, pinned=True),
        Column(key="mean", title="mean", kind="heat", width=100, note=f"Geometric mean of the ratios to {to}"),
        Column(key="worst", title="worst", kind="heat", width=100, note=f"The largest ratio to {to}"),
        Column(key="best_on", title="best on", kind="number", width=110, note="Shapes on which nothing is faster"),
        Column(key="fastest", title="fastest", kind="time", width=130, note="Its shortest median on any shape"),
        Column(key="notes", title="of its timings", width=210),
        *(
            Column(key=f"s{at}", title=shape, kind="heat", width=150, note=f"{shape}: time ÷ that of {to}")
            for at, shape in enumerate(shapes)
        ),
    )
    rows = tuple(_row(line, shapes) for line in lines)
    empty = "no timings; `ckwatch bench` takes them"
    return Table(key="ratios", title=f"Time ÷ {to}", columns=columns, rows=rows, empty=empty, height_px=560)


def _row(line: Line, shapes: Sequence[str]) -> Row:
    unit = line.unit
    times = [timing.median_us for timing in line.timings.values() if not timing.failure]
    row: dict[str, Cell] = {
        ID: unit.id,
        UNIT: unit.id,
        PLACE: unit.place,
        "instance": unit.instance,
        "mean": line.mean,
        "worst": line.worst,
        "best_on": line.best_on,
        "fastest": min(times, default=None),
        "notes": notes_of(line),
    }
    for at, shape in enumerate(shapes):
        timing = line.timings.get(shape)
        if timing is None:
            continue
        row[f"s{at}"] = timing.failure or line.ratios.get(shape)
        if shape in line.verdicts:
            row[f"s{at}_verdict"] = line.verdicts[shape]
    return row


def notes_of(line: Line) -> str:
    """List the reservations about a line's timings: `wrong result, 2 stale, 1 not verified`."""
    if not line.timings:
        return "not timed" if line.unit.outcome in ("", "built") else line.unit.outcome
    found = Counter[str]()
    for timing in line.timings.values():
        if timing.failure:
            found[timing.failure] += 1
            continue
        if timing.standing != "fresh":
            found[timing.standing] += 1
        if not timing.verified:
            found["not verified"] += 1
    return ", ".join(f"{number} {words}" for words, number in found.items())


def best_table(lines: Sequence[Line], shapes: Sequence[str]) -> Table:
    """The best instance of each shape, with its time."""
    best = best_of(line.timings for line in lines)
    holders = {shape: line for line in lines for shape, timing in line.timings.items() if best.get(shape) is timing}
    rows: list[Row] = []
    for shape in shapes:
        if shape not in holders:
            continue
        unit, timing = holders[shape].unit, best[shape]
        rows.append({
            ID: shape, UNIT: unit.id, PLACE: unit.place, "shape": shape, "instance": unit.instance,
            "median": timing.median_us, "tflops": timing.tflops, "gbps": timing.gbps, "bound": timing.bound_percent,
            "standing": timing.standing_words,
        })  # fmt: skip
    columns = (
        Column(key="shape", title="shape", width=200, pinned=True),
        Column(key="instance", title="best instance", width=320),
        Column(key="median", title="median", kind="time", width=120),
        Column(key="tflops", title="rate", kind="rate", width=110),
        Column(key="gbps", title="GB/s", kind="number", width=110),
        Column(key="bound", title="% of bound", kind="number", width=130, note="At the specified clock"),
        Column(key="standing", title="standing", width=160),
    )
    return Table(key="best", title="The best on each shape", columns=columns, rows=tuple(rows), empty="no timings")


def picture(lines: Sequence[Line], shapes: Sequence[str], against: str) -> Plot:
    """The first lines as a heat map, in the table's colours; a cross is a failure, and what is hatched is stale."""
    drawn = [line for line in lines if line.timings][:MOST_DRAWN]
    written = len(drawn) * len(shapes) <= CELLS_WITH_TEXT
    cells, crosses = [], []
    for y, line in enumerate(drawn):
        for x, shape in enumerate(shapes):
            timing, ratio = line.timings.get(shape), line.ratios.get(shape)
            if timing is None:
                continue
            name = f"{line.unit.instance}\n{shape}: {_tip(timing, ratio, line.verdicts.get(shape, ''), against)}"
            if timing.failure:
                crosses.append({"name": name, "value": [x, y]})
            elif ratio is not None:
                style: dict[str, object] = {"decal": HATCHED} if timing.standing != "fresh" else {}
                if UNSURE in line.verdicts.get(shape, ""):
                    style["opacity"] = FADED
                cell: dict[str, object] = {"name": name, "value": [x, y, round(ratio, 3)]}
                if style:
                    cell["itemStyle"] = style
                if "opacity" in style:  # the text is not to fade, too
                    cell["label"] = {"color": FADED_TEXT, "opacity": 1, "textBorderWidth": 0}
                cells.append(cell)
    names = [shortened(shape, 18) for shape in shapes]
    slant = 35 if max(map(len, names), default=0) * len(names) > LEVEL_CHARACTERS else 0
    option = base(
        tooltip=NAME_TIP,
        grid={"left": 12, "right": 24, "top": 52, "bottom": 8, "containLabel": True},
        xAxis={"type": "category", "data": names, "position": "bottom",
               "axisLabel": {"rotate": slant, "interval": "auto", "hideOverlap": True}},
        yAxis={"type": "category", "data": [shortened(line.unit.instance, 30) for line in drawn], "inverse": True,
               "axisLabel": {"interval": 0 if len(drawn) <= MOST_DRAWN // 2 else "auto", "width": 170,
                             "overflow": "truncate"}},
        visualMap={"type": "piecewise", "orient": "horizontal", "top": 4, "left": "center", "itemWidth": 14,
                   "itemGap": 6, "seriesIndex": 0, "dimension": 2, "pieces": _pieces(), "textGap": 4},
        series=[
            {"type": "heatmap", "name": "ratio", "data": cells,
             "label": {"show": written, "formatter": "{@[2]}", "fontSize": 11}, "labelLayout": {"hideOverlap": True}},
            {"type": "scatter", "name": "failed", "data": crosses, "symbol": CROSS, "symbolSize": 9,
             "itemStyle": {"color": "transparent", "borderColor": "#d0342c", "borderWidth": 2}},
        ],
    )  # fmt: skip
    return Plot(
        key="picture",
        title=f"The best instances: time ÷ {against_words(against)}",
        option=option,
        summary=_summary(lines, drawn, shapes, len(crosses)),
        height_px=min(120 + 22 * max(len(drawn), 3), 1200) + 60,
    )


FADED_TEXT = "#757575"
"""Can be read on faded cells of a light page and of a dark one."""

LEVEL_CHARACTERS = 28
"""Of all names of shapes together, for which a phone has room beside each other."""

FADED = 0.3
HATCHED = {
    "symbol": "rect",
    "color": "rgba(0, 0, 0, 0.3)",
    "dashArrayX": [1, 0],
    "dashArrayY": [2, 6],
    "rotation": -0.8,
}
CROSS = "path://M0,0L10,10M10,0L0,10"


def _pieces() -> list[dict[str, object]]:
    edges = (0.0, *HEAT_STEPS)
    return [
        {"gt": low, "lte": high, "color": colour, "label": f"{high:g}"} if high is not None
        else {"gt": low, "color": colour, "label": f"> {low:g}"}
        for low, high, colour in zip(edges, (*HEAT_STEPS, None), HEAT_COLOURS, strict=True)
    ]  # fmt: skip


def _tip(timing: TimingRow, ratio: float | None, verdict: str, against: str) -> str:
    if timing.failure:
        return f"{timing.failure}\n{timing.message.partition(chr(10))[0]}"
    words = [time_of(timing.median_us)]
    if ratio is not None:
        words.append(f"{ratio:.3f} × {against_words(against)}")
    return ", ".join(filter(None, (*words, verdict, "" if timing.verified else "not verified")))


def _summary(lines: Sequence[Line], drawn: Sequence[Line], shapes: Sequence[str], failures: int) -> str:
    timed = [line for line in lines if line.timings]
    parts = [
        f"{count(len(drawn), 'instance')} on {count(len(shapes), 'shape')}" if len(drawn) == len(timed) else
        f"The best {len(drawn)} of {len(timed):,} timed instances on {count(len(shapes), 'shape')}; the table has all"
    ]  # fmt: skip
    winners = sorted((line for line in lines if line.best_on), key=lambda line: -line.best_on)
    if winners:
        of = len({shape for line in lines for shape, timing in line.timings.items() if not timing.failure})
        parts.append(f"{winners[0].unit.instance} is the fastest on {winners[0].best_on} of {count(of, 'shape')}")
    if failures:
        parts.append(f"{count(failures, 'cross', 'crosses')}: no time, because the kernel or its device failed")
    if any(timing.standing == "stale" for line in drawn for timing in line.timings.values()):
        parts.append("Hatched: stale, of an earlier artifact")
    if any(UNSURE in verdict for line in drawn for verdict in line.verdicts.values()):
        parts.append("Faded: a difference that is not sure")
    parts.append("A colour reaches up to the ratio beside it")
    return ". ".join(parts) + "."


def kinds_of(units: Iterable[UnitRow]) -> tuple[list[str], list[str]]:
    """The kinds of devices, that of the newest timing first, and the cache states, cold first."""
    newest: dict[str, int] = {}
    caches: set[str] = set()
    for unit in units:
        for timing in unit.timings:
            if timing.is_time or (timing.failure and timing.device):
                newest[timing.device] = max(newest.get(timing.device, 0), timing.id)
                caches.update({timing.cache} - {""})
    return sorted(newest, key=lambda device: -newest[device]), sorted(caches)


def parts_of(shapes: Sequence[str]) -> dict[str, str]:
    """Shapes in parts that fit a table, by the index of the first."""
    starts = range(0, len(shapes), SHAPES_AT_A_TIME)
    return {str(at): f"{at + 1} to {min(at + SHAPES_AT_A_TIME, len(shapes))} of {len(shapes)}" for at in starts}


def against_choice(baselines: Sequence[Baseline], query: Query) -> Choice:
    """Return the choice of the reference of ratios."""
    options = {BEST: "the best on the shape", PREVIOUS: "the previous artifact"}
    if baselines:
        options[LAST_BASELINE] = "each instance's last baseline"
    options |= {f"{NAMED}{one.name}": f"baseline {one.name}" for one in baselines}
    return choose("against", "Ratio to", options, query)


def fitting(chosen: Iterable[Choice]) -> Iterable[Choice]:
    """Choices with something to choose."""
    return (choice for choice in chosen if len(choice.options) > 1)


async def compare(
    client: Client, kernel: str, lines: Sequence[Line], cache: str, against: str
) -> tuple[Compared, list[Note]]:
    """Return the daemon's comparison of the timings with the best or a named baseline, and notes about what was left
    out."""
    if against == BEST:
        timed = sum(len(line.ratios) for line in lines)
        if timed > MOST_RANKED:
            text = (
                f"{timed:,} timings: whether a difference to the best is significant is shown for up to {MOST_RANKED}."
            )
            return {}, [Note(key="unranked", text=text, kind="hint")]
        return await _ranked(client, kernel, lines, cache), []
    if not against.startswith(NAMED):
        return {}, []
    asked = [line for line in lines if line.timings][:MOST_COMPARED]
    found: dict[tuple[str, str, str], tuple[str, float]] = {}
    why: set[str] = set()
    limiter = CapacityLimiter(ASKED_AT_ONCE)

    async def ask(unit: str) -> None:
        async with limiter:
            try:
                rows = await client.compare(unit, against)
            except CkwatchError:  # it has no timings in this baseline
                return
        for row in rows:
            if row.comparison is not None:
                found[unit, row.shape, row.cache] = _verdict(row.comparison)
            else:
                why.add(row.why_not)

    async with anyio.create_task_group() as tasks:
        for line in asked:
            tasks.start_soon(ask, line.unit.id)
    timed = sum(1 for line in lines if line.timings)
    notes = []
    if timed > len(asked):
        text = (
            f"{len(asked)} of {timed:,} timed instances are compared; `ckwatch compare UNIT {against}` compares others."
        )
        notes.append(Note(key="uncompared", text=text, kind="hint"))
    if why:
        text = f"Without a ratio: {'; '.join(sorted(why))}."
        notes.append(Note(key="why-not", text=text, kind="hint"))
    return found, notes


async def _ranked(client: Client, kernel: str, lines: Sequence[Line], cache: str) -> Compared:
    if not any(line.ratios for line in lines):
        return {}
    try:
        ranked = await client.best(kernel, cache=cast('Literal["cold", "hot"]', cache))
    except CkwatchError:  # the verdicts are missing, and nothing else
        return {}
    shown = {(line.unit.id, shape): timing.id for line in lines for shape, timing in line.timings.items()}
    return {
        (row.unit, row.shape, cache): _verdict(row.timing.comparisons[0])
        for row in ranked
        if row.timing is not None and row.timing.comparisons and shown.get((row.unit, row.shape)) == row.timing.id
    }


def _verdict(comparison: Comparison) -> tuple[str, float]:
    elsewhere = f", the other on {comparison.other_device}" if comparison.other_device else ""
    return comparison.verdict + elsewhere, comparison.ratio


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    kernel = kernel_choice(feed, query)
    if not kernel.value:
        return NO_UNITS
    every = [unit for unit in feed.units.values() if unit.kernel == kernel.value]
    arch = choose("arch", "Arch", sorted({unit.arch for unit in every}), query)
    units = [unit for unit in every if unit.arch == arch.value]
    devices, caches = await to_thread.run_sync(kinds_of, units)
    device = choose("device", "Device", devices, query)
    cache = choose("cache", "Cache", caches, query)
    shapes = await to_thread.run_sync(shapes_of, units)
    part = choose("shapes", "Shapes", parts_of(shapes), query)
    chosen = [kernel, arch, device, cache, part]
    against = against_choice(await feed.client.baselines(), query)
    if not shapes:
        text = f"Nothing was timed: `ckwatch bench {kernel.value}` takes timings."
        return Content(title=kernel.value, blocks=(*fitting(chosen), Note(key="empty", text=text, kind="hint")))
    lines = await to_thread.run_sync(lines_of, units, cache.value, device.value, against.value)
    compared, notes = await compare(feed.client, kernel.value, lines, cache.value, against.value)
    start = int(part.value)
    shown = shapes[start : start + SHAPES_AT_A_TIME]

    def blocks() -> tuple[Block, ...]:
        known = lines_of(units, cache.value, device.value, against.value, compared) if compared else lines
        made: list[Block] = [*fitting(chosen), against, *notes, *across_devices(known)]
        if not any(line.ratios for line in known):
            text = f"Nothing here was compared with {against_words(against.value)}."
            made.append(Note(key="uncomparable", text=text, kind="hint"))
        else:
            made.append(picture(known, shown, against.value))
        made += [table_of(known, shown, against.value), best_table(known, shown)]
        return tuple(made)

    title = ", ".join(filter(None, (kernel.value, device.value, f"{cache.value} cache" if cache.value else "")))
    return Content(title=title, blocks=await to_thread.run_sync(blocks))


def across_devices(lines: Sequence[Line]) -> list[Note]:
    """Return the note if times of several devices of one product stand side by side."""
    places = sorted({timing.place for line in lines for timing in line.timings.values() if timing.is_time})
    if len(places) < 2:
        return []
    text = f"The times were taken on {', '.join(places)}, by which they differ too."
    return [Note(key="devices", text=text, kind="hint")]


def depends(feed: Feed, query: Query) -> Hashable:
    """The units of the kernel: where they stand, and their timings."""
    kernel = kernel_choice(feed, query).value
    return tuple(
        (unit.id, unit.place, unit.outcome, unit.timings) for unit in feed.units.values() if unit.kernel == kernel
    )
