"""All that is known of a unit's performance, as the page of a hover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice

from ckwatch.wire.timing_words import NO_FIGURES, digits, error_of, is_figure, rate_of, time_of
from ckwatch.wire.timings import Timing
from ckwatch.wire.values import Figures, Unit
from ckwatch_lsp.figures.labels import change_cell, state_words, trimmed, unit_label
from ckwatch_lsp.figures.page import Block, Line, Table, Title
from ckwatch_lsp.figures.sparkline import sparkline
from ckwatch_lsp.figures.standing import Brief, against, figures_standing, timing_standing

COMPARED = ("previous", "baseline", "library")

SHOWN_OF_SWEEP = 10
"""Units of a sweep that are listed, the best first."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What is predicted on a shape for a part, and what was measured; microseconds, None where it is not known."""

    shape: str
    part: str
    time_us: float | None
    measured_us: float | None


@dataclass(frozen=True, slots=True)
class Past:
    """What is asked for when a unit is looked at: medians by shape and cache state, the oldest first, in microseconds,
    and predictions."""

    medians: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    predictions: Sequence[Predicted] = ()


NOTHING = Past()


def about_unit(unit: Unit, past: Past = NOTHING) -> list[Block]:
    """The page about a unit: its timings, their history, what its code object tells, and why something is missing."""
    blocks: list[Block] = [Title(unit.id, _state(unit))]
    if unit.timings:
        blocks.append(timing_table(unit))
        blocks += [Line(f"{each.shape}: {_failure(each)}") for each in unit.timings if not is_figure(each)]
    blocks += _history(past)
    if unit.figures is not None:
        blocks += _resources(unit, unit.figures)
    blocks += _predictions(past)
    if unit.measuring is not None:
        blocks.append(Line(f"{unit.measuring} is being timed"))
    elif unit.to_measure:
        blocks.append(Line(f"{', '.join(unit.to_measure)}: waiting to be timed"))
    elif unit.unmeasured:
        blocks.append(Line(f"not timed: {unit.unmeasured}"))
    if unit.cause:
        blocks.append(Line(f"last change: {unit.cause[-1].what}"))
    return blocks


def about_sweep(name: str, briefs: Sequence[Brief], shape: str = "") -> list[Block]:
    """The page about a sweep: its best units."""
    timed = [brief for brief in briefs if brief.timing is not None]
    listed = [brief.unit for brief in nsmallest(SHOWN_OF_SWEEP, timed, key=lambda brief: brief.median_us)]
    if len(listed) < SHOWN_OF_SWEEP:
        others = (brief.unit for brief in briefs if brief.timing is None)
        listed += islice(others, SHOWN_OF_SWEEP - len(listed))
    note = f"({len(briefs)} instances, {len(timed)} timed{f' on {shape}' if shape else ''})"
    rows = tuple((unit.instance, trimmed(unit_label(unit, shape))) for unit in listed)
    blocks: list[Block] = [Title(name, note), Table(("instance", "figures"), rows)]
    if len(briefs) > len(listed):
        blocks.append(Line(f"and {len(briefs) - len(listed)} more"))
    return blocks


def timing_table(unit: Unit) -> Table:
    """A row for each timing that has figures."""
    rows = []
    shown = [each for each in unit.timings if is_figure(each)]
    several = len({each.cache for each in shown}) > 1
    for each in shown:
        standing = timing_standing(unit, each)
        rows.append(
            (
                each.shape + (f", {each.cache} cache" if several else ""),
                time_of(each.median_us),
                error_of(each),
                rate_of(each),
                "" if each.bound_us is None else time_of(each.bound_us),
                _percent(each),
                *(_compared(each, kind) for kind in COMPARED),
                "" if standing == "fresh" else standing,
            )
        )
    return Table(("shape", "time", "error", "rate", "bound", "of bound", *COMPARED, " "), tuple(rows))


def resource_words(figures: Figures) -> str:
    """The code object in one line; the daemon's own where it has one."""
    return figures.headline or f"{figures.vgprs} VGPR, {figures.lds_bytes} B LDS"


def _state(unit: Unit) -> str:
    words = state_words(unit)
    if unit.outcome == "built" and unit.fresh and unit.phase in ("idle", "done"):
        words = "built, from the store" if unit.from_store else f"built in {unit.seconds:.1f} s"
    elif unit.phase == "idle" and not unit.fresh and unit.outcome is not None:
        words = "changed since it was built"
    return f"({words})"


def _failure(timing: Timing) -> str:
    if timing.failure is None:
        return NO_FIGURES
    return f"{timing.failure}: {timing.message}" if timing.message else timing.failure


def _percent(timing: Timing) -> str:
    if timing.bound_percent is None:
        return ""
    observed = "" if timing.observed_percent is None else f" ({timing.observed_percent:.0f} % at the observed clock)"
    return f"{timing.bound_percent:.0f} %{observed}"


def _compared(timing: Timing, kind: str) -> str:
    found = against(timing.comparisons, kind)
    return "" if found is None else f"{change_cell(found.ratio)} {found.verdict}"


def _history(past: Past) -> list[Block]:
    lines = []
    several = len({cache for _, cache in past.medians}) > 1
    for (shape, cache), medians in past.medians.items():
        if len(medians) > 1:
            name = f"{shape}, {cache} cache" if several else shape
            span = f"{time_of(min(medians))} to {time_of(max(medians))}"
            lines.append(f"{name}: {sparkline(medians)} {len(medians)} timings, {span}")
    return [Line("\n".join(lines))] if lines else []


def _resources(unit: Unit, figures: Figures) -> list[Block]:
    spills = f"{figures.vgpr_spills} VGPR, {figures.sgpr_spills} SGPR" if figures.sgpr_spills else figures.vgpr_spills
    standing = figures_standing(unit)
    cells = {
        "resources": "" if standing == "fresh" else standing,
        "VGPR": str(figures.vgprs),
        "AGPR": str(figures.agprs or ""),
        "SGPR": str(figures.sgprs),
        "spills": str(spills),
        "scratch": f"{figures.scratch_bytes} B" if figures.scratch_bytes else "",
        "LDS": f"{figures.lds_bytes:,} B",
        "waves per SIMD": "" if figures.occupancy is None else str(figures.occupancy),
        "limited by": figures.limited_by,
        "MFMA use, predicted": "" if figures.matrix_use is None else f"{100 * figures.matrix_use:.0f} %",
    }
    blocks: list[Block] = [Table(tuple(cells), (tuple(cells.values()),))]
    lines = []
    if figures.next_step:
        lines.append(f"next step: {figures.next_step}")
    if figures.loop_cycles is not None:
        lines.append(f"main loop: {digits(figures.loop_cycles)} cycles an iteration, predicted for one wave")
    if figures.changes:
        lines.append(f"since the artifact before: {', '.join(figures.changes)}")
    if figures.baseline_changes:
        lines.append(f"since the baseline: {', '.join(figures.baseline_changes)}")
    return [*blocks, Line("\n".join(lines))] if lines else blocks


def _predictions(past: Past) -> list[Block]:
    rows = tuple(
        (
            each.shape,
            f"{time_of(each.time_us)} on {each.part}",
            "" if each.measured_us is None else time_of(each.measured_us),
        )
        for each in past.predictions
        if each.time_us is not None
    )
    return [Table(("shape", "predicted", "measured"), rows)] if rows else []
