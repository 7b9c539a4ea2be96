"""Charts as SVG and PNG files, by matplotlib.

Only measured figures are drawn. matplotlib is an optional dependency: importing this module needs it, so callers ask
`plot_file` first. Figures are made without `pyplot`, which would look for a display and keep state.

The roofline is drawn as timings show it: each timing has its own bound, and bounds of several shapes lie on one roof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter

from ckwatch.wire.benchmarks import RankedTiming, Timing

ON_THE_ROOF = 0.005
"""Bounds that differ by less than this part are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """A timing: `intensity` in FLOP per byte, what it reached and what its bound allows in TFLOP/s."""

    shape: str
    cache: str
    intensity: float
    tflops: float
    bound_tflops: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The slope (TB/s) and the flat part (TFLOP/s), each None where the points do not show it."""

    bandwidth_tbs: float | None
    peak_tflops: float | None

    @property
    def ridge(self) -> float | None:
        """The intensity where the two meet, FLOP per byte."""
        if self.bandwidth_tbs is None or self.peak_tflops is None:
            return None
        return self.peak_tflops / self.bandwidth_tbs


def points_of(timings: Iterable[Timing]) -> list[RooflinePoint]:
    """A point for each timing whose floating-point operations and bytes are known."""
    return [
        RooflinePoint(
            shape=timing.shape,
            cache=timing.cache,
            intensity=1000 * timing.tflops / timing.gbps,
            tflops=timing.tflops,
            bound_tflops=timing.tflops * timing.median_us / timing.bound_us if timing.bound_us else None,
        )
        for timing in timings
        if timing.failure is None and timing.tflops and timing.gbps
    ]


def roof_of(points: Sequence[RooflinePoint]) -> Roofline:
    """The roof above points of a cold cache, whose bounds lie on it: those on the slope have the highest bound per
    intensity in common, those on the flat part the highest bound. One bound alone does not show which it lies on."""
    bounds = [
        (point.intensity, point.bound_tflops)
        for point in points
        if point.bound_tflops is not None and point.cache == "cold"
    ]
    if not bounds:
        return Roofline(bandwidth_tbs=None, peak_tflops=None)
    peak = max(bound for _, bound in bounds)
    bandwidth = max(bound / intensity for intensity, bound in bounds)
    flat = {intensity for intensity, bound in bounds if bound >= peak * (1 - ON_THE_ROOF)}
    slope = {intensity for intensity, bound in bounds if bound / intensity >= bandwidth * (1 - ON_THE_ROOF)}
    # two points of different intensity on it, or one below the other part, make a line
    return Roofline(
        bandwidth_tbs=bandwidth if _spread(slope) or slope - flat else None,
        peak_tflops=peak if _spread(flat) or flat - slope else None,
    )


def _spread(intensities: set[float]) -> bool:
    return bool(intensities) and max(intensities) > min(intensities) * (1 + 2 * ON_THE_ROOF)


COLOURS = {"cold": "#0072B2", "hot": "#D55E00"}
"""Of Okabe and Ito's palette, which everybody can tell apart."""

REFUSED, NEUTRAL = "#999999", "#444444"
WIDTH_INCHES = 8.0
DAY_S = 86400.0
"""matplotlib counts days since 1970."""

CELLS_WITH_TEXT = 400
"""More cells of a heat map than this have no number in them."""


def history_figure(unit: str, timings: Sequence[Timing]) -> Figure:
    """The medians of a unit's timings (oldest first) with [minimum, q3], a panel for each shape and device.

    A dotted line is where the artifact became another one.
    """
    groups: dict[tuple[str, str], list[Timing]] = {}
    for timing in timings:
        groups.setdefault((timing.shape, _device(timing)), []).append(timing)
    several = len({device for _, device in groups}) > 1
    figure = Figure(figsize=(WIDTH_INCHES, 1.2 + 2.2 * max(len(groups), 1)), layout="constrained")
    _title(figure, unit)
    panels = figure.subplots(max(len(groups), 1), 1, sharex=True, squeeze=False)
    for panel, ((shape, device), own) in zip(panels[:, 0], groups.items(), strict=False):
        _history(panel, f"{shape}, {device}" if several else shape, own)
    return figure


def _history(panel: Axes, title: str, timings: Sequence[Timing]) -> None:
    for cache, colour in COLOURS.items():
        mine = [timing for timing in timings if timing.cache == cache]
        if not mine:
            continue
        at = [timing.taken_at / DAY_S for timing in mine]
        middles = [timing.median_us for timing in mine]
        below = [timing.median_us - timing.minimum_us for timing in mine]
        above = [timing.q3_us - timing.median_us for timing in mine]
        panel.errorbar(
            at, middles, yerr=(below, above), color=colour, marker="o", markersize=4, linewidth=1, capsize=2,
            label=f"{cache} cache",
        )  # fmt: skip
    before = None
    for timing in timings:
        if before is not None and timing.artifact_key != before:
            panel.axvline(timing.taken_at / DAY_S, color=REFUSED, linewidth=0.6, linestyle=":")
        before = timing.artifact_key
    here = datetime.now().astimezone().tzinfo
    locator = AutoDateLocator(tz=here)  # type: ignore[no-untyped-call]  # matplotlib's dates are not annotated
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=here))  # type: ignore[no-untyped-call]
    panel.set_ylabel("median, µs")
    _plain(panel.set_title(_escaped(title), fontsize="medium"))
    panel.grid(axis="y", alpha=0.3)
    panel.legend(fontsize="small", frameon=False)


def heat_map(kernel: str, ranked: Sequence[RankedTiming]) -> Figure:
    """Units × shapes: how much longer each takes than the best on its shape. A cross where a unit has no place."""
    shapes = list(dict.fromkeys(row.shape for row in ranked))
    units = list(dict.fromkeys(row.unit for row in ranked))
    best = _best(ranked)
    cells = [[float("nan")] * len(shapes) for _ in units]
    for row in ranked:
        if row.rank is not None and row.timing is not None:
            ratio = row.timing.median_us / best[row.shape, _arch(row.unit)]
            cells[units.index(row.unit)][shapes.index(row.shape)] = ratio
    width = 3.5 + 0.9 * len(shapes)
    figure = Figure(figsize=(max(width, 5.0), 1.6 + 0.32 * len(units)), layout="constrained")
    _title(figure, kernel)
    panel = figure.subplots()
    if not cells:
        return figure
    known = [value for line in cells for value in line if value == value]
    image = panel.imshow(cells, aspect="auto", cmap="viridis_r", vmin=1.0, vmax=max([1.01, *known]))
    figure.colorbar(image, ax=panel, label="time ÷ the best one's")
    for label in panel.set_xticks(range(len(shapes)), [_escaped(shape) for shape in shapes], rotation=30, ha="right"):
        _plain(label.label1)
    for label in panel.set_yticks(range(len(units)), [_escaped(unit.partition("/")[2]) for unit in units]):
        _plain(label.label1)
    middle = (1.0 + max([1.01, *known])) / 2
    for row in ranked:
        x, y = shapes.index(row.shape), units.index(row.unit)
        value = cells[y][x]
        if value != value:
            panel.plot(x, y, marker="x", color=REFUSED)
        elif len(units) * len(shapes) <= CELLS_WITH_TEXT:
            colour = "white" if value > middle else "black"
            panel.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize="small", color=colour)
    return figure


def roofline(title: str, timings: Iterable[Timing]) -> Figure:
    """Reached TFLOP/s over arithmetic intensity, with each timing's bound and the roof as far as bounds show it.

    A panel for each kind of device.
    """
    groups: dict[str, list[Timing]] = {}
    for timing in timings:
        groups.setdefault(timing.device_description, []).append(timing)
    figure = Figure(figsize=(WIDTH_INCHES, 0.5 + 5.0 * max(len(groups), 1)), layout="constrained")
    _title(figure, title)
    panels = figure.subplots(max(len(groups), 1), 1, squeeze=False)
    for panel, (device, own) in zip(panels[:, 0], groups.items(), strict=False):
        _plain(panel.set_title(_escaped(device), fontsize="medium"))
        _rooflines(panel, points_of(own))
    return figure


def _rooflines(panel: Axes, points: Sequence[RooflinePoint]) -> None:
    _roof(panel, points, roof_of(points))
    for cache, colour in COLOURS.items():
        mine = [point for point in points if point.cache == cache]
        if mine:
            panel.scatter(
                [point.intensity for point in mine],
                [point.tflops for point in mine],
                color=colour,
                s=18,
                zorder=3,
                label=f"{cache} cache",
            )
    for point in points:
        if point.bound_tflops is not None:
            panel.vlines(point.intensity, point.tflops, point.bound_tflops, color=REFUSED, linewidth=0.6)
            panel.plot(point.intensity, point.bound_tflops, marker="_", color=NEUTRAL)
    for label, point in _labels(points).items():
        place = (point.intensity, point.tflops)
        _plain(panel.annotate(_escaped(label), place, xytext=(4, -8), textcoords="offset points", fontsize="x-small"))
    for axis, scale in ((panel.xaxis, panel.set_xscale), (panel.yaxis, panel.set_yscale)):
        scale("log")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("arithmetic intensity, FLOP/B")
    panel.set_ylabel("TFLOP/s")
    panel.grid(which="both", alpha=0.2)
    if points:
        panel.legend(fontsize="small", frameon=False, loc="lower right")


def _roof(panel: Axes, points: Sequence[RooflinePoint], roof: Roofline) -> None:
    if not points:
        return
    low = min(point.intensity for point in points) / 2
    high = max(point.intensity for point in points) * 2
    ridge = roof.ridge
    if roof.bandwidth_tbs is not None:
        end = ridge if ridge is not None else high
        panel.plot(
            [low, end], [low * roof.bandwidth_tbs, end * roof.bandwidth_tbs], color=NEUTRAL, linewidth=1.2,
            label=f"{roof.bandwidth_tbs:.3g} TB/s",
        )  # fmt: skip
    if roof.peak_tflops is not None:
        begin = ridge if ridge is not None else low
        panel.plot(
            [begin, max(high, begin)], [roof.peak_tflops] * 2, color=NEUTRAL, linewidth=1.2, linestyle="--",
            label=f"{roof.peak_tflops:.4g} TFLOP/s",
        )  # fmt: skip


def _labels(points: Sequence[RooflinePoint]) -> Mapping[str, RooflinePoint]:
    """The fastest point of each shape."""
    found: dict[str, RooflinePoint] = {}
    for point in points:
        if point.shape not in found or point.tflops > found[point.shape].tflops:
            found[point.shape] = point
    return found


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


def _device(timing: Timing) -> str:
    return ", ".join(part for part in (timing.device, timing.device_description) if part)


def _title(figure: Figure, text: str) -> None:
    _plain(figure.suptitle(_escaped(text)))


def _escaped(text: str) -> str:
    """What a file can hold: names of files may be no text."""
    return text.encode("utf-8", "replace").decode()


def _plain(text: Text) -> None:
    """A dollar sign in a name is no formula."""
    text.set_parse_math(False)
