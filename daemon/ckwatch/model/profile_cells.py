"""The figures of a profile's line, loop or kernel in words: the cells of one row of a table."""

from __future__ import annotations

from collections.abc import Iterator

from ckwatch.model.profiles import CycleFigures, KernelProfile, ProfileFigures

PROFILE_COLUMNS = (
    *("share", "issued", "cycles (estimate)", "lanes", "lines/request", "least", "LDS ways", "matrix"),
    "waits for",
)
"""Heads of the cells of `profile_cells`; the last is text, the others are numbers."""

LEAST_WAIT = 0.05
"""Of a line's estimated cycles, for a wait that is shown."""


def profile_cells(kernel: KernelProfile, figures: ProfileFigures) -> tuple[str, ...]:
    """The cells of `PROFILE_COLUMNS`; "" where there is no figure."""
    lanes, matrix = figures.lanes_at_work(kernel.wave_lanes), figures.mix.get("mfma", 0)
    per, least, ways = figures.lines_per_request, figures.least_lines_per_request, figures.conflict_ways
    return (
        f"{100 * kernel.share(figures):.1f} %",
        f"{figures.counts.issued:,}",
        percent(kernel.cycle_share(None if figures.cycles is None else figures.cycles.total)),
        "" if lanes is None else f"{100 * lanes:.0f} %",
        "" if per is None else f"{per:.3g}",
        "" if least is None else f"{least:.3g}",
        "" if ways is None else f"{ways:.3g}",
        f"{matrix:,}" if matrix else "",
        waits_of(figures),
    )


def percent(share: float | None) -> str:
    """`12.5 %`; "" where the share is not known."""
    return "" if share is None else f"{100 * share:.1f} %"


def waits_of(figures: ProfileFigures) -> str:
    """`load of line 41 71 %, others at a barrier 12 %` of the estimated cycles; without an estimate, only for what."""
    return ", ".join(figures.waits if figures.cycles is None else _long_waits(figures.cycles))


def _long_waits(cycles: CycleFigures) -> Iterator[str]:
    for what, waited in cycles.waits_for.items():
        if waited >= LEAST_WAIT * cycles.total:
            yield f"{what} {100 * waited / cycles.total:.0f} %"
