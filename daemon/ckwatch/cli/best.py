"""`ckwatch best KERNEL`: ranks its instances on each shape, and says why others are not ranked."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ckwatch.cli.mistakes import explained
from ckwatch.cli.output import Output, aligned
from ckwatch.cli.session import asking
from ckwatch.cli.styled_text import cell_width
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire import figures_text

if TYPE_CHECKING:
    from ckwatch.wire.benchmarks import RankedTiming
    from ckwatch.wire.imported_timings import ImportedTiming

LEAST_BAR = 10
"""The least width of bars; without it, there are none."""

MOST_BAR = 40
HEADING = ("RANK", "INSTANCE", "MEDIAN", "ERROR", "CLOCK", "RATE", "BOUND", "SOL", "COMPARED")
_RIGHT = frozenset({0, 2, 3, 7})
CHARTS = ("heat-map", "roofline")


async def run(options: argparse.Namespace) -> int:
    """Print the ranking, or plot it."""
    if options.chart is not None and options.plot is None:
        raise CkwatchError("--chart needs --plot", "add --plot FILE.svg")
    target = None
    if options.plot is not None:
        from ckwatch.cli.charts.plot_file import check_target

        target = check_target(options.plot)
    output = Output(options)
    async with asking(options) as client:
        await client.sync()
        async with explained(client, options.kernel):
            rows = await client.best(options.kernel, shape=options.shape, cache=options.cache)
            imported = await client.imported_timings(options.kernel, shape=options.shape)
            units = await client.units(options.kernel) if imported else []
    others = OthersTimings(imported, list(dict.fromkeys(unit.arch for unit in units)))
    output.answer(kernel=options.kernel, ranked=rows, imported=others.timings)
    if output.for_people:
        _print(output, options.kernel, rows, others)
    if target is not None:
        from ckwatch.cli.charts.plot_file import draw

        timings = [row.timing for row in rows if row.timing is not None and figures_text.is_figure(row.timing)]
        if not timings:
            raise CkwatchError(f"'{options.kernel}' has no timings to plot", "run `ckwatch bench` first")
        if options.chart == "roofline":
            draw(target, "roofline", options.kernel, timings)
        else:
            draw(target, "heat_map", options.kernel, [_drawn(row) for row in rows])
        output.text(f"wrote {target}")
    return 0


@dataclass(frozen=True, slots=True)
class OthersTimings:
    """Timings by others on the shapes of a kernel, and the archs that it is compiled for."""

    timings: Sequence[ImportedTiming] = ()
    archs: Sequence[str] = ()

    def on(self, shape: str, arch: str) -> list[ImportedTiming]:
        """The fastest of each source and device."""
        return figures_text.best_imported(figures_text.imported_on(self.timings, shape, arch))

    @property
    def places(self) -> list[tuple[str, str]]:
        """The shapes and archs of which there are any."""
        shapes = dict.fromkeys(one.shape for one in self.timings)
        return [(shape, arch) for shape in shapes for arch in self.archs if self.on(shape, arch)]


def _drawn(row: RankedTiming) -> RankedTiming:
    """The row, without the figures of what is no device."""
    if row.timing is None or row.rank is None or figures_text.is_figure(row.timing):
        return row
    return replace(row, rank=None, timing=None)


def _print(output: Output, kernel: str, rows: Sequence[RankedTiming], others: OthersTimings) -> None:
    output.text(kernel, "bold")
    if not rows:
        output.text("  no timings; `ckwatch bench` takes them")
    shapes = dict.fromkeys((row.shape, row.unit.rpartition("@")[2]) for row in rows)
    for shape, arch in dict.fromkeys([*shapes, *others.places]):
        own = [row for row in rows if (row.shape, row.unit.rpartition("@")[2]) == (shape, arch)]
        output.text("")
        _print_shape(output, shape, arch, own)
        for one in others.on(shape, arch):
            output.text(f"  measured by others: {figures_text.imported_words(one)}", "italic")


def _print_shape(output: Output, shape: str, arch: str, rows: Sequence[RankedTiming]) -> None:
    placed = [row for row in rows if row.rank is not None and row.timing is not None]
    title = [shape, arch]
    devices = placed[0].devices if placed else ()
    if placed and placed[0].timing is not None:
        timing = placed[0].timing
        title += [f"{timing.cache} cache", timing.device_description if devices else figures_text.device_words(timing)]
    output.text(", ".join(title), "bold")
    if devices:
        output.text(f"  ranked across {', '.join(devices)}, by which times differ too", "yellow")
    heading, *lines = aligned([_cells(row) for row in placed], _RIGHT, HEADING)
    if placed:
        output.text(f"  {heading}", "bold")
    if placed and all(row.timing is not None and figures_text.is_figure(row.timing) for row in placed):
        lines = _with_bars(output, placed, lines)
    for row, line in zip(placed, lines, strict=True):
        stale = row.timing is not None and row.timing.standing != "fresh"
        output.text(f"  {line}", "dim" if stale else "bold green" if row.rank == 1 else "")
    left = [row for row in rows if row.rank is None]
    mark = "✗" if not output.console.options.ascii_only else "x"
    output.table([[mark, row.instance, row.why_not] for row in left], styles=["dim"] * len(left))


def _cells(row: RankedTiming) -> list[str]:
    timing = row.timing
    if timing is None:
        return [f"{row.rank}", row.instance]
    if not figures_text.is_figure(timing):
        return [f"{row.rank}", row.instance, figures_text.NO_FIGURES]
    middle, error, _, clock, rate, bound = figures_text.timing_cells(timing)
    where = [f"on {timing.place}"] if row.devices else []
    against = ", ".join([*where, *figures_text.doubts(timing), *map(figures_text.comparison_words, timing.comparisons)])
    stale = "" if timing.standing == "fresh" else timing.standing
    return [f"{row.rank}", row.instance, middle, error, clock, rate, bound, sol_of(row), stale or against]


def sol_of(row: RankedTiming) -> str:
    """`0.62`; with `of baseline` where that, not the library, is what is compared with."""
    if row.sol_score is None:
        return ""
    return f"{row.sol_score:.2f}" + (" of baseline" if row.sol_baseline == "baseline" else "")


def _with_bars(output: Output, rows: Sequence[RankedTiming], lines: Sequence[str]) -> list[str]:
    """The lines with a bar for each median and its interval at the end, where there is room for them."""
    widest = max(cell_width(line) for line in lines)
    room = min(output.console.width - widest - 5, MOST_BAR)
    if room < LEAST_BAR:
        return list(lines)
    values = [
        None if row.timing is None else Bar(
            value=row.timing.median_us, low=row.timing.minimum_us, high=row.timing.q3_us
        )
        for row in rows
    ]  # fmt: skip
    drawn = bars(values, room, ascii_only=output.console.options.ascii_only)
    return [
        f"{line}{' ' * (widest - cell_width(line))}  {bar}".rstrip() for line, bar in zip(lines, drawn, strict=True)
    ]


EIGHTHS, ASCII_EIGHTHS = " ▏▎▍▌▋▊▉█", "       ##"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value and the interval that it may have; all are at least 0 and `low` ≤ `value` ≤ `high`."""

    value: float
    low: float
    high: float


def bars(rows: Sequence[Bar | None], width: int, *, ascii_only: bool = False) -> list[str]:
    """A bar for each row, at most `width` characters long; the largest `high` fills it.

    The bar reaches to the value. Where the interval is wider than two characters it is at the bar's end: `████├─┼──┤`.
    """
    largest = max((row.high for row in rows if row is not None), default=0.0)
    if largest <= 0 or not math.isfinite(largest) or width < 1:
        return [""] * len(rows)
    return ["" if row is None else _bar(row, width, width / largest, ascii_only) for row in rows]


def _bar(row: Bar, width: int, scale: float, ascii_only: bool) -> str:
    eighths = ASCII_EIGHTHS if ascii_only else EIGHTHS
    low, high = int(row.low * scale), min(math.ceil(row.high * scale), width)
    if high - low > 2:
        left, line, middle, right = "|-+|" if ascii_only else "├─┼┤"
        interval = [left, *line * (high - low - 2), right]
        at = int(row.value * scale) - low
        if 0 < at < len(interval) - 1:
            interval[at] = middle
        return eighths[-1] * low + "".join(interval)
    whole, rest = divmod(min(round(row.value * scale * 8), 8 * width), 8)
    return (eighths[-1] * whole + eighths[rest]).rstrip()
