"""`ckwatch history UNIT`: its timings, newest last, because a terminal shows the end."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ckwatch.cli.output import Output
from ckwatch.cli.session import asking, unit_of
from ckwatch.model.amounts import sparkline, time_of, timestamp
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.figures_text import (
    NO_FIGURES,
    comparison_words,
    device_words,
    doubts,
    is_figure,
    provenance,
    timing_cells,
)

if TYPE_CHECKING:
    from ckwatch.model.timings import Timing

SPARKS = 60
"""Medians of the small chart, the last ones."""

_FIGURES = ("MEDIAN", "ERROR", "INTERVAL", "CLOCK", "RATE", "BOUND")
HEADING = ("TAKEN", *_FIGURES, "ARTIFACT", "COMMIT", "STANDING", "COMPARED")
_RIGHT = frozenset({1, 2, 5})


async def run(options: argparse.Namespace) -> int:
    """Print a unit's timings and failures, or plot them."""
    target = None
    if options.plot is not None:
        from ckwatch.cli.charts.plot_file import check_target

        target = check_target(options.plot)
    output = Output(options)
    async with asking(options) as client:
        unit = await unit_of(client, options.unit)
        timings = await client.timings(unit, shape=options.shape, limit=options.limit)
    timings = sorted(timings, key=lambda timing: timing.id)  # oldest first
    output.answer(unit=unit, timings=timings)
    if output.for_people:
        _print(output, unit, timings)
    if target is not None:
        from ckwatch.cli.charts.plot_file import draw

        drawn = [timing for timing in timings if is_figure(timing)]
        if not drawn:
            raise CkwatchError(f"'{unit}' has no timings to plot", "run `ckwatch bench` first")
        draw(target, "history_figure", unit, drawn)
        output.text(f"wrote {target}")
    return 0


def _print(output: Output, unit: str, timings: Sequence[Timing]) -> None:
    output.text(unit, "bold")
    if not timings:
        output.text("  no timings; `ckwatch bench` takes them")
        return
    for title, own in _groups(timings).items():
        output.text("")
        _print_group(output, title, own)


def _groups(timings: Sequence[Timing]) -> dict[tuple[str, str, str], list[Timing]]:
    """By shape, cache and device. A failure has no cache state: it is in the shape's first group."""
    found: dict[tuple[str, str, str], list[Timing]] = {}
    for timing in timings:
        if timing.failure is None:
            found.setdefault((timing.shape, timing.cache, device_words(timing)), []).append(timing)
    for timing in timings:
        if timing.failure is not None:
            key = next((key for key in found if key[0] == timing.shape), (timing.shape, "", device_words(timing)))
            found.setdefault(key, []).append(timing)
    return {key: sorted(own, key=lambda timing: timing.id) for key, own in found.items()}


def _print_group(output: Output, title: tuple[str, str, str], timings: Sequence[Timing]) -> None:
    shape, cache, device = title
    output.text(", ".join(part for part in (shape, f"{cache} cache" if cache else "", device) if part), "bold")
    known = [timing for timing in timings if is_figure(timing)][-SPARKS:]
    if len(known) > 1:
        line = sparkline([timing.median_us for timing in known], ascii_only=output.console.options.ascii_only)
        medians = [timing.median_us for timing in known]
        output.text(f"  {line}  {time_of(min(medians))} … {time_of(max(medians))}")
    output.table(list(_rows(timings)), _RIGHT, HEADING)


def _rows(timings: Sequence[Timing]) -> Iterator[list[str]]:
    for timing in timings:
        if timing.failure is not None:
            cells = [timing.failure, "", "", "", "", "", timing.message]
        elif not is_figure(timing):
            cells = [NO_FIGURES]
        else:
            cells = [*timing_cells(timing), ", ".join([*doubts(timing), *map(comparison_words, timing.comparisons)])]
        yield [timestamp(timing.taken_at), *cells[:6], *provenance(timing), *cells[6:]]
