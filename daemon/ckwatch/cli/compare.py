"""`ckwatch compare A B`: a unit's timings against another's, its previous build's, a baseline's or the library's."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ckwatch.cli.output import VERDICT_STYLES, Output
from ckwatch.cli.session import asking, unit_of
from ckwatch.model.amounts import time_of
from ckwatch.wire.figures_text import NO_FIGURES, how_compared, is_figure

if TYPE_CHECKING:
    from ckwatch.wire.benchmarks import Compared

KEPT = ("previous", "baseline", "library")
"""Values of B besides a unit; `baseline:NAME` too."""

HEADING = ("SHAPE", "CACHE", "A", "B", "A / B", "VERDICT", "HOW", "AGAINST", "STALE")
_RIGHT = frozenset({2, 3, 4})


async def run(options: argparse.Namespace) -> int:
    """Print how A is against B on each shape they were both timed on."""
    async with asking(options) as client:
        ours = await unit_of(client, options.unit)
        kept = options.other.partition(":")[0] in KEPT
        theirs = options.other if kept else await unit_of(client, options.other)
        rows = await client.compare(ours, theirs, shape=options.shape)
    output = Output(options)
    output.answer(ours=ours, theirs=theirs, compared=rows)
    output.text(f"{ours}  against  {theirs}", "bold")
    styles = ["dim" if row.comparison is None else VERDICT_STYLES[row.comparison.verdict] for row in rows]
    output.table([_cells(row) for row in rows], _RIGHT, HEADING, styles=styles)
    return 0


def _cells(row: Compared) -> list[str]:
    cells = [row.shape, row.cache]
    shown = [timing for timing in (row.timing, row.other) if timing is not None]
    if not all(is_figure(timing) for timing in shown):
        return [*cells, "", "", "", NO_FIGURES]
    found = row.comparison
    mine = "" if row.timing is None else time_of(row.timing.median_us)
    if found is None:
        return [*cells, mine, "", "", row.why_not, "", "", _stale(row)]
    turns = how_compared(found).removeprefix(", ")
    against = found.against if found.against != row.theirs else ""
    theirs = time_of(found.other_median_us)
    return [*cells, mine, theirs, f"{found.ratio:.3f} ×", found.verdict, turns, against, _stale(row)]


def _stale(row: Compared) -> str:
    """Which of the two units has changed since it was timed. A baseline and what came before are older in any case."""
    sides = ((row.ours, row.timing), (row.theirs, row.other))
    names = [unit for unit, timing in sides if timing and timing.unit == unit and timing.standing != "fresh"]
    return f"stale: {' and '.join(names)}" if names else ""
