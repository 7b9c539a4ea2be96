"""Charts as SVG and PNG files, by matplotlib.

Only measured figures are drawn. matplotlib is an optional dependency: importing this module needs it, so callers ask
`plot_file` first. Figures are made without `pyplot`, which would look for a display and keep state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator, ScalarFormatter
from matplotlib.transforms import Bbox

from ckwatch.model.amounts import FLAT, count, digits, short_commit, time_of
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline_points import RooflinePoint, roof_of, roofline_point
from ckwatch.model.timings import Timing
from ckwatch.wire.benchmarks import RankedTiming
from ckwatch.wire.figures_text import device_words


def points_of(timings: Iterable[Timing]) -> list[RooflinePoint]:
    """A point for each timing whose floating-point operations and bytes are known."""
    found = (
        roofline_point(
            shape=timing.shape,
            instance=timing.instance,
            cache=timing.cache,
            median_us=timing.median_us,
            tflops=timing.tflops,
            gbps=timing.gbps,
            bound_us=timing.bound_us,
        )
        for timing in timings
        if timing.failure is None
    )
    return [point for point in found if point is not None]


COLOURS = {"cold": "#0072B2", "hot": "#D55E00"}
"""Of Okabe and Ito's palette, which everybody can tell apart."""

REFUSED, NEUTRAL = "#999999", "#444444"
WIDTH_INCHES = 8.0
DAY_S = 86400.0
"""matplotlib counts days since 1970."""

TIME_UNITS = (("µs", 1.0), ("ms", 1e3), ("s", 1e6))
RATE_UNITS = (("MFLOP/s", 1e-6), ("GFLOP/s", 1e-3), ("TFLOP/s", 1.0))

MOST_PANELS, MOST_ROWS, MOST_SHAPES = 40, 100, 40
"""Limits of one figure; more would be too large to look at, and from some size on to write."""

MOST_LABELS = 12
"""Points of a panel that have a label, if there is room."""

CELLS_WITH_TEXT = 400
"""More cells of a heat map than this have no number in them."""

NAME_LENGTH = 44

POINT_PIXELS = 3

WIDE = 10.0
"""Values that differ by more than this factor are drawn on a logarithmic axis."""

LOG_ROOM = 1.1
"""The free factor at the ends of a logarithmic axis."""

LEAST_RATIO = 1.1
"""The least that the colours of a heat map reach to."""

LEAST_DAYS = 1 / 24
"""The least time that an axis covers."""


def history_figure(unit: str, timings: Sequence[Timing]) -> Figure:
    """The medians of a unit's timings (oldest first) with [minimum, q3], a panel for each shape and device.

    A dotted line is where the artifact became another one. The fastest point of each artifact has a label: its time
    and its commit.
    """
    groups: dict[tuple[str, str], list[Timing]] = {}
    for timing in timings:
        groups.setdefault((timing.shape, device_words(timing)), []).append(timing)
    several = len({device for _, device in groups}) > 1
    shown = dict(list(groups.items())[:MOST_PANELS])
    figure = Figure(figsize=(WIDTH_INCHES, 1.5 + 2.4 * max(len(shown), 1)), layout="constrained")
    left_out = f"{len(shown)} of {len(groups)} shapes and devices" if len(shown) < len(groups) else ""
    _title(figure, unit, "" if several else _device(timings), left_out)
    panels = figure.subplots(max(len(shown), 1), 1, sharex=True, squeeze=False)
    labels: list[_Label] = []
    for panel, ((shape, _), own) in zip(panels[:, 0], shown.items(), strict=False):
        _plain(panel.set_title(_escaped(f"{shape}, {_device(own)}" if several else shape), fontsize="medium"))
        labels += _history(panel, own)
    if shown:
        _time_axis(panels[-1, 0], [timing.taken_at / DAY_S for own in shown.values() for timing in own])
    _place(figure, labels)
    return figure


def _history(panel: Axes, timings: Sequence[Timing]) -> list[_Label]:
    unit, scale = _unit([timing.median_us for timing in timings], TIME_UNITS)
    for cache, colour in COLOURS.items():
        mine = [timing for timing in timings if timing.cache == cache]
        if not mine:
            continue
        at = [timing.taken_at / DAY_S for timing in mine]
        middles = [timing.median_us / scale for timing in mine]
        below = [max(timing.median_us - timing.minimum_us, 0.0) / scale for timing in mine]
        above = [max(timing.q3_us - timing.median_us, 0.0) / scale for timing in mine]
        panel.errorbar(
            at, middles, yerr=(below, above), color=colour, marker="o", markersize=4, linewidth=1, capsize=2,
            label=f"{cache} cache",
        )  # fmt: skip
    before = None
    for timing in timings:
        if before is not None and timing.artifact_key != before:
            panel.axvline(timing.taken_at / DAY_S, color=REFUSED, linewidth=0.6, linestyle=":")
        before = timing.artifact_key
    lows = [min(timing.minimum_us, timing.median_us) / scale for timing in timings]
    _axis(panel, "y", min(lows), max(max(timing.q3_us, timing.median_us) / scale for timing in timings), room=0.2)
    panel.set_ylabel(f"median, {unit}")
    panel.grid(axis="y", alpha=0.3)
    panel.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    fastest: dict[str, Timing] = {}
    for timing in timings:
        known = fastest.get(timing.artifact_key)
        if known is None or timing.median_us < known.median_us:
            fastest[timing.artifact_key] = timing
    points = [
        (timing.taken_at / DAY_S, timing.minimum_us / scale, max(timing.q3_us, timing.median_us) / scale)
        for timing in timings
    ]
    return [
        _Label(panel, timing.taken_at / DAY_S, timing.median_us / scale, _history_words(timing), points)
        for timing in sorted(fastest.values(), key=lambda timing: timing.median_us)[:MOST_LABELS]
    ]


def _history_words(timing: Timing) -> str:
    taken = datetime.fromtimestamp(timing.taken_at).astimezone()
    return f"{time_of(timing.median_us)}, {short_commit(timing.commit) or f'{taken:%Y-%m-%d %H:%M}'}"


def heat_map(kernel: str, ranked: Sequence[RankedTiming]) -> Figure:
    """Units × shapes: how much longer each takes than the best on its shape. A cross where a unit has no place.

    Where there are too many of them, the first shapes, and of the units those that are nearest to the best.
    """
    best = _best(ranked)
    ratios = {
        (row.unit, row.shape): row.timing.median_us / best[row.shape, _arch(row.unit)]
        for row in ranked
        if row.rank is not None and row.timing is not None
    }
    every_shape = list(dict.fromkeys(row.shape for row in ranked))
    every_unit = list(dict.fromkeys(row.unit for row in ranked))
    shapes, units = every_shape[:MOST_SHAPES], every_unit
    if len(units) > MOST_ROWS:
        nearest = {
            unit: min((ratios[unit, shape] for shape in shapes if (unit, shape) in ratios), default=math.inf)
            for unit in units
        }
        units = sorted(units, key=nearest.__getitem__)[:MOST_ROWS]
    left_out = [
        f"the {word} {len(shown)} of {count(len(every), noun)}"
        for word, shown, every, noun in (("best", units, every_unit, "unit"), ("first", shapes, every_shape, "shape"))
        if len(shown) < len(every)
    ]
    timings = [row.timing for row in ranked if row.timing is not None]
    figure = Figure(figsize=(max(4.5 + 0.9 * len(shapes), 6.0), 2.2 + 0.32 * len(units)), layout="constrained")
    _title(figure, kernel, _device(timings), *left_out)
    panel = figure.subplots()
    if not units:
        return figure
    cells = [[ratios.get((unit, shape), math.nan) for shape in shapes] for unit in units]
    known = [value for line in cells for value in line if value == value]
    most = max([LEAST_RATIO, *known])
    norm = LogNorm(1.0, most) if most > WIDE else Normalize(1.0, most)
    image = panel.imshow(cells, aspect="auto", cmap="viridis_r", norm=norm)
    bar = figure.colorbar(image, ax=panel, label="time ÷ the best one's")
    if most > WIDE:
        bar.set_ticks(FixedLocator(_steps(1.0, most)))
        bar.ax.yaxis.set_minor_locator(NullLocator())
        bar.ax.yaxis.set_major_formatter(FuncFormatter(_number))
    archs = {_arch(unit) for unit in every_unit}
    times = {shape: f"\n{time_of(best[shape, arch])}" for shape, arch in best if len(archs) == 1}
    names = [_escaped(_short(shape)) + times.get(shape, "") for shape in shapes]
    for label in panel.set_xticks(range(len(shapes)), names, rotation=30, ha="right"):
        _plain(label.label1)
    for label in panel.set_yticks(range(len(units)), [_escaped(_short(unit.partition("/")[2])) for unit in units]):
        _plain(label.label1)
    for y, line in enumerate(cells):
        for x, value in enumerate(line):
            if value != value:
                panel.plot(x, y, marker="x", color=REFUSED)
            elif len(units) * len(shapes) <= CELLS_WITH_TEXT:
                colour = "white" if norm(value) > 0.5 else "black"
                text = digits(value, 3)
                panel.text(x, y, text, ha="center", va="center", fontsize="small", color=colour)
    return figure


def roofline(title: str, timings: Iterable[Timing]) -> Figure:
    """Reached rate over arithmetic intensity, with each timing's bound and the roof as far as bounds show it.

    A panel for each kind of device. The fastest points have labels: instance and shape, what differs of both.
    """
    groups: dict[str, list[Timing]] = {}
    for timing in timings:
        groups.setdefault(timing.device_description, []).append(timing)
    figure = Figure(figsize=(WIDTH_INCHES, 0.5 + 5.0 * max(len(groups), 1)), layout="constrained")
    _title(figure, title)
    panels = figure.subplots(max(len(groups), 1), 1, squeeze=False)
    labels: list[_Label] = []
    for panel, own in zip(panels[:, 0], groups.values(), strict=False):
        _plain(panel.set_title(_escaped(_device(own)), fontsize="medium"))
        labels += _rooflines(panel, points_of(own))
    _place(figure, labels)
    return figure


def _rooflines(panel: Axes, points: Sequence[RooflinePoint]) -> list[_Label]:
    panel.set_xlabel("arithmetic intensity, FLOP/B")
    if not points:
        panel.set_ylabel("TFLOP/s")
        return []
    unit, scale = _unit([point.tflops for point in points], RATE_UNITS)
    bounds = [point.bound_tflops for point in points if point.bound_tflops is not None]
    rates = [rate / scale for rate in (*(point.tflops for point in points), *bounds)]
    intensities = [point.intensity for point in points]
    _axis(panel, "y", min(rates), max(rates), scale="log")
    _axis(panel, "x", min(intensities), max(intensities), scale="log")
    for words, ((low, slow), (high, fast)) in roof_of(points).lines(*panel.get_xlim()):
        style = "--" if slow == fast else "-"
        scaled = [slow / scale, fast / scale]
        panel.plot([low, high], scaled, color=NEUTRAL, linewidth=1.2, linestyle=style, label=words)
    for cache, colour in COLOURS.items():
        mine = [point for point in points if point.cache == cache]
        if mine:
            panel.scatter(
                [point.intensity for point in mine],
                [point.tflops / scale for point in mine],
                color=colour,
                s=18,
                zorder=3,
                label=f"{cache} cache",
            )
    for point in points:
        if point.bound_tflops is not None:
            ends = (point.tflops / scale, point.bound_tflops / scale)
            panel.vlines(point.intensity, *ends, color=REFUSED, linewidth=0.6)
            panel.plot(point.intensity, ends[1], marker="_", color=NEUTRAL)
    panel.set_ylabel(unit)
    panel.grid(which="both", alpha=0.2)
    panel.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    places = [(point.intensity, point.tflops / scale, point.tflops / scale) for point in points]
    return [
        _Label(panel, point.intensity, point.tflops / scale, words, places)
        for words, point in _labels(points)[:MOST_LABELS]
    ]


def _labels(points: Sequence[RooflinePoint]) -> list[tuple[str, RooflinePoint]]:
    """Each point by its instance or shape, or both: the fastest of each shape first, then by how fast they are."""
    shapes, instances = {point.shape for point in points}, {point.instance for point in points}
    fastest: dict[tuple[str, str], RooflinePoint] = {}
    for point in sorted(points, key=lambda point: -point.tflops):
        fastest.setdefault((point.instance, point.shape), point)
    leading = {point.shape: point for point in reversed(fastest.values())}
    ordered = sorted(fastest.values(), key=lambda point: leading[point.shape] is not point)
    found = []
    for point in ordered:
        parts = [point.instance if len(instances) > 1 else "", point.shape if len(shapes) > 1 else ""]
        words = ", ".join(_short(part) for part in parts if part)
        found.append((words or _short(point.instance or point.shape), point))
    return found


@dataclass(frozen=True, slots=True)
class _Label:
    """Words for the point of a panel; `others` are all its points, each with its interval."""

    panel: Axes
    x: float
    y: float
    words: str
    others: Sequence[tuple[float, float, float]]


_BESIDE: tuple[tuple[float, float, Literal["left", "right"]], ...] = (
    *((5, 5, "left"), (5, -11, "left"), (-5, 5, "right"), (-5, -11, "right")),
    *((5, 14, "left"), (-5, 14, "right"), (5, -20, "left"), (-5, -20, "right")),
    *((0, 28, "left"), (0, 28, "right"), (0, -34, "left"), (0, -34, "right")),
)
"""Possible places of a label: points to the right and above its point, and which end of it is there."""


def _place(figure: Figure, labels: Sequence[_Label]) -> None:
    """Write the labels, the first ones first: each within its panel, and neither on another one nor on a point.

    One for which there is no room is left out, but for the first one of a panel, which may stand on points.
    """
    if not labels:
        return
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # only then it is known where the panels are
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    taken: dict[Axes, list[Bbox]] = {}
    for label in labels:
        room = label.panel.get_window_extent(renderer)
        points = [_around(label.panel, *one) for one in label.others]
        first = label.panel not in taken
        boxes = taken.setdefault(label.panel, [])
        for obstacles in ((*boxes, *points), boxes) if first else ((*boxes, *points),):
            for right, above, end in _BESIDE:
                written = _written(label, right, above, end)
                box = written.get_window_extent(renderer)
                inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
                if inside and not any(box.overlaps(other) for other in obstacles):
                    boxes.append(box)
                    break
                written.remove()
            else:
                continue
            break


def _around(panel: Axes, x: float, low: float, high: float) -> Bbox:
    """Return the box of a point with its interval, in pixels."""
    (across, bottom), (_, top) = panel.transData.transform(((x, low), (x, high)))
    return Bbox.from_extents(across - POINT_PIXELS, bottom - POINT_PIXELS, across + POINT_PIXELS, top + POINT_PIXELS)


def _written(label: _Label, right: float, above: float, end: Literal["left", "right"]) -> Annotation:
    written = label.panel.annotate(
        _escaped(label.words), (label.x, label.y), xytext=(right, above), textcoords="offset points",
        fontsize="x-small", ha=end, bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip
    _plain(written)
    written.set_in_layout(False)  # else it would move the panels
    return written


def _axis(
    panel: Axes, which: Literal["x", "y"], low: float, high: float, *, scale: str = "", room: float = 0.05
) -> None:
    """The limits and ticks of an axis with values from `low` to `high`; `room` is the free part at its ends.

    It covers at least the part `FLAT` of its middle: equal values are to look equal. It is logarithmic where `scale`
    says so or the values are far apart. Then it begins and ends at 1, 2 or 5 times a power of ten, so that both ends
    have a number, and covers a factor of ten.
    """
    axis = panel.yaxis if which == "y" else panel.xaxis
    limits = panel.set_ylim if which == "y" else panel.set_xlim
    if low > 0 and (scale == "log" or high > WIDE * low):
        (panel.set_yscale if which == "y" else panel.set_xscale)("log")
        wider = max((WIDE / (high / low)) ** 0.5, LOG_ROOM)
        steps = _steps(low / wider, high * wider)
        limits(steps[0], steps[-1])
        axis.set_major_locator(FixedLocator(steps))
        axis.set_major_formatter(FuncFormatter(_number))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        return
    pad = max((high - low) * room, (FLAT * high - (high - low)) / 2)
    limits(max(low - pad, 0.0) if low >= 0 else low - pad, high + pad)
    axis.set_major_formatter(ScalarFormatter(useOffset=False))
    panel.ticklabel_format(axis=which, style="plain", useOffset=False)


def _steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, only the powers where there would be many: from below `low` to above `high`."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    mantissas = (1, 2, 5) if math.log10(high / low) < 3 else (1,)
    found = [float(f"{mantissa}e{decade}") for decade in decades for mantissa in mantissas]
    first = max(at for at, step in enumerate(found) if step <= low * (1 + 1e-9))
    last = min(at for at, step in enumerate(found) if step >= high * (1 - 1e-9))
    return found[first : last + 1]


def _number(value: float, _at: int | None = None) -> str:
    """`0.001`, `5`, `2000`, `1e+06`."""
    return f"{value:.0f}" if 1 <= value < 1e6 else f"{value:g}"


def _time_axis(panel: Axes, days: Sequence[float]) -> None:
    pad = max(0.05 * (max(days) - min(days)), (LEAST_DAYS - (max(days) - min(days))) / 2)
    panel.set_xlim(min(days) - pad, max(days) + pad)
    here = datetime.now().astimezone().tzinfo
    locator = AutoDateLocator(tz=here)  # type: ignore[no-untyped-call]  # matplotlib's dates are not annotated
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=here))  # type: ignore[no-untyped-call]


def _unit(values: Sequence[float], units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """The largest unit in which the middle one of `values` is not below one."""
    middle = sorted(values)[len(values) // 2]
    return next((one for one in reversed(units) if middle >= one[1]), units[0])


def _best(ranked: Sequence[RankedTiming]) -> dict[tuple[str, str], float]:
    """The best median of each shape and arch."""
    found: dict[tuple[str, str], float] = {}
    for row in ranked:
        if row.rank is not None and row.timing is not None:
            key = (row.shape, _arch(row.unit))
            found[key] = min(found.get(key, row.timing.median_us), row.timing.median_us)
    return found


def _arch(unit: str) -> str:
    return unit.rpartition("@")[2]


def _device(timings: Sequence[Timing]) -> str:
    """`hip:0, AMD Instinct MI300X, gfx942, 2090 MHz`; of several kinds of devices each, of several clocks the range."""
    kinds: dict[tuple[str, str], list[Timing]] = {}
    for timing in timings:
        kinds.setdefault((timing.device_description, timing.arch), []).append(timing)
    found = []
    for (description, arch), own in kinds.items():
        names = list(dict.fromkeys(timing.place for timing in own))
        clocks = sorted(round(timing.clock_mhz) for timing in own if timing.clock_mhz)
        same = bool(clocks) and clocks[-1] <= clocks[0] * 1.01
        clock = "" if not clocks else f"{clocks[0]} MHz" if same else f"{clocks[0]} to {clocks[-1]} MHz"
        parts = (
            names[0] if len(names) == 1 else f"{len(names)} devices",
            description,
            arch if arch != "host" else "",
            clock,
        )
        found.append(", ".join(part for part in parts if part))
    return "; ".join(found)


def _title(figure: Figure, text: str, *caption: str) -> None:
    """The title, and the caption below the figure."""
    _plain(figure.suptitle(_escaped(text)))
    words = "; ".join(part for part in caption if part)
    if words:
        _plain(figure.supxlabel(_escaped(words), fontsize="small", color=NEUTRAL))


def _short(name: str) -> str:
    """The name without its middle where it is long."""
    half = NAME_LENGTH // 2
    return name if len(name) <= NAME_LENGTH else f"{name[: half - 1]}…{name[-half:]}"


def _escaped(text: str) -> str:
    """Escape text that a file cannot hold: names of files may not be valid text."""
    return text.encode("utf-8", "replace").decode()


def _plain(text: Text) -> None:
    """A dollar sign in a name is no formula."""
    text.set_parse_math(False)
