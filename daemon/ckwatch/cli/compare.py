"""`ckwatch compare A B`: a unit's timings against another's, its previous build's, a baseline's or the library's."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ckwatch.cli.output import JSON_SCHEMA, VERDICT_STYLES, Output, aligned
from ckwatch.cli.session import asking, unit_of
from ckwatch.model.amounts import time_of
from ckwatch.wire.figures_text import NO_FIGURES, is_figure

if TYPE_CHECKING:
    from ckwatch.wire.benchmarks import Compared

KEPT = ("previous", "baseline", "library")
"""What B may be besides a unit; `baseline:NAME` too."""

_RIGHT = frozenset({2, 3, 4})


def run(options: argparse.Namespace) -> int:
    """Print how A is against B on each shape they were both timed on."""
    output = Output(options)
    ours, theirs, rows = anyio.run(partial(_ask, options))
    if output.json:
        output.line(
            schema=JSON_SCHEMA, ours=ours, theirs=theirs, compared=[row.model_dump(mode="json") for row in rows]
        )
    else:
        _print(output, ours, theirs, rows)
    return 0


async def _ask(options: argparse.Namespace) -> tuple[str, str, list[Compared]]:
    async with asking(options) as client:
        ours = await unit_of(client, options.unit)
        kept = options.other.partition(":")[0] in KEPT
        theirs = options.other if kept else await unit_of(client, options.other)
        rows = await client.compare(ours, theirs, shape=options.shape)
    return ours, theirs, rows


def _print(output: Output, ours: str, theirs: str, rows: list[Compared]) -> None:
    output.text(f"{ours}  against  {theirs}", "bold")
    for row, line in zip(rows, aligned([_cells(row) for row in rows], _RIGHT), strict=True):
        style = "dim" if row.comparison is None else VERDICT_STYLES[row.comparison.verdict]
        output.text(f"  {line}", style)


def _cells(row: Compared) -> list[str]:
    cells = [row.shape, row.cache]
    shown = [timing for timing in (row.timing, row.other) if timing is not None]
    if not all(is_figure(timing) for timing in shown):
        return [*cells, "", "", "", NO_FIGURES]
    found = row.comparison
    mine = "" if row.timing is None else time_of(row.timing.median_us)
    if found is None:
        return [*cells, mine, "", "", row.why_not]
    turns = "in turns" if found.interleaved else ""
    against = found.against if found.against != row.theirs else ""
    return [*cells, mine, time_of(found.other_median_us), f"{found.ratio:.3f} ×", found.verdict, turns, against]
