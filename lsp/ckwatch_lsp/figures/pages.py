"""Pages for hovers: all figures of a unit or sweep, in Markdown or as plain text with aligned columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from heapq import nsmallest
from itertools import islice

from ckwatch.model.amounts import change, count, digits, duration, sparkline, time_of
from ckwatch.model.figures import Figures
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.timings import Timing
from ckwatch.wire import figures_text
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.imported_timings import ImportedTiming
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures.freshness import UnitBrief, figures_freshness, timing_freshness
from ckwatch_lsp.figures.labels import state_words, unit_label

_SPECIAL = re.compile(
    r"[\\`*|]|<(?=[A-Za-z/!?])|~(?=~)|(?<!\w)_|_(?!\w)|\](?=[(\[:])|^(?:[#>+-]|\d+[.)])(?=\s)", re.MULTILINE
)
"""Text that would be markup: not the underscores within a name."""


@dataclass(frozen=True, slots=True)
class PageTitle:
    """The title of the page or a part of it; `note` stands behind it."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class PageLine:
    """A sentence or two."""

    text: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows under names of columns. Columns in which nothing stands are left out; the first is text, others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


PageBlock = PageTitle | PageLine | PageTable


def markdown(blocks: Sequence[PageBlock]) -> str:
    """The page in Markdown."""
    return "\n\n".join(text for block in blocks if (text := _marked(block)))


def plain(blocks: Sequence[PageBlock]) -> str:
    """The page as plain text."""
    return "\n\n".join(text for block in blocks if (text := _plain(block)))


def _marked(block: PageBlock) -> str:
    match block:
        case PageTitle():
            return f"**{_escaped(block.text)}**" + (f" {_escaped(block.note)}" if block.note else "")
        case PageLine():
            return "  \n".join(_escaped(line) for line in block.text.split("\n"))
        case PageTable():
            table = _used(block)
            if not table.rows or not table.columns:
                return ""
            head = [_row(table.columns), "|" + "|".join(["---", *["---:"] * (len(table.columns) - 1)]) + "|"]
            return "\n".join([*head, *(_row(row) for row in table.rows)])


def _plain(block: PageBlock) -> str:
    match block:
        case PageTitle():
            return " ".join(filter(None, (block.text, block.note)))
        case PageLine():
            return block.text
        case PageTable():
            table = _used(block)
            rows = [table.columns, *table.rows] if table.rows and table.columns else []
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            return "\n".join(_aligned(row, widths) for row in rows)


def _used(table: PageTable) -> PageTable:
    kept = [at for at in range(len(table.columns)) if any(row[at] for row in table.rows)]
    return PageTable(
        tuple(table.columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in table.rows)
    )


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]).rstrip()


def _escaped(text: str) -> str:
    """The text as it stands; as code, where something in it would be markup: many editors show backslashes."""
    if not _SPECIAL.search(text):
        return text
    return f"`{text}`" if not re.search(r"[`|\n]", text) else _SPECIAL.sub(r"\\\g<0>", text)


SPARKS = 24
"""Medians in the small chart of a shape, the last ones."""

COMPARED = ("previous", "baseline", "library")

SHOWN_IMPORTED = 20
"""Lines about what others measured."""

SHOWN_OF_SWEEP = 10
"""Units of a sweep that are listed, the best first."""


@dataclass(frozen=True, slots=True)
class UnitHistory:
    """Data that is fetched when a unit is shown: medians by shape and cache state, the oldest first, in microseconds,
    and predictions."""

    medians: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    predictions: Sequence[ShapePrediction] = ()


NO_HISTORY = UnitHistory()


def about_unit(unit: Unit, past: UnitHistory = NO_HISTORY, imported: Sequence[ImportedTiming] = ()) -> list[PageBlock]:
    """The page about a unit: its timings, their history, what its code object shows, and why something is missing."""
    blocks: list[PageBlock] = [PageTitle(unit.id, _state(unit)), *_verification(unit)]
    if unit.timings:
        blocks.append(timing_table(unit))
        blocks += [
            PageLine(f"{each.shape}: {_failure(each)}") for each in unit.timings if not figures_text.is_figure(each)
        ]
    blocks += _history(past)
    if unit.figures is not None:
        blocks += _resources(unit, unit.figures)
    blocks += _predictions(past)
    blocks += _imported(imported, unit.arch, unit.instance)
    if unit.measuring is not None:
        blocks.append(PageLine(f"{unit.measuring} is being timed"))
    elif unit.to_measure:
        blocks.append(PageLine(f"{', '.join(unit.to_measure)}: waiting to be timed"))
    elif unit.unmeasured:
        blocks.append(PageLine(f"not timed: {unit.unmeasured}"))
    if unit.cause:
        blocks.append(PageLine(f"last change: {unit.cause[-1].what}"))
    return blocks


def _verification(unit: Unit) -> list[PageBlock]:
    """Describe the unit's verification by an emulator: never a time."""
    words, found = figures_text.verification_words(unit), unit.verification
    if not words:
        return [PageLine(f"not verified: {unit.unverified}")] if unit.unverified else []
    tried = "" if found is None or unit.verifying else f": {count(found.problems, 'shape')} tried"
    more = "" if found is None or not found.findings else f", {count(found.findings, 'finding')}"
    return [PageLine(f"{words}{tried}{more}")]


def about_sweep(
    name: str, briefs: Sequence[UnitBrief], shape: str = "", imported: Sequence[ImportedTiming] = ()
) -> list[PageBlock]:
    """The page about a sweep: its best units."""
    timed = [brief for brief in briefs if brief.timing is not None]
    listed = [brief.unit for brief in nsmallest(SHOWN_OF_SWEEP, timed, key=lambda brief: brief.median_us)]
    if len(listed) < SHOWN_OF_SWEEP:
        others = (brief.unit for brief in briefs if brief.timing is None)
        listed += islice(others, SHOWN_OF_SWEEP - len(listed))
    note = f"({len(briefs)} instances, {len(timed)} timed{f' on {shape}' if shape else ''})"
    rows = tuple((unit.instance, unit_label(unit, shape)) for unit in listed)
    blocks: list[PageBlock] = [PageTitle(name, note), PageTable(("instance", "figures"), rows)]
    if len(briefs) > len(listed):
        blocks.append(PageLine(f"and {len(briefs) - len(listed)} more"))
    return [*blocks, *_imported(imported, briefs[0].unit.arch)]


def about_shape(kernel: str, shape: str, archs: Sequence[str], imported: Sequence[ImportedTiming]) -> list[PageBlock]:
    """The page about a shape: what others measured on it, nothing where there is none."""
    blocks = [block for arch in archs for block in _imported(imported, arch)]
    return [PageTitle(kernel, f"on {shape}"), *blocks] if blocks else []


def _imported(imported: Sequence[ImportedTiming], arch: str, instance: str = "") -> list[PageBlock]:
    """For each shape the fastest that others measured, and what they measured of an instance."""
    lines = []
    for shape in dict.fromkeys(one.shape for one in imported):
        here = figures_text.imported_on(imported, shape, arch)
        found = figures_text.best_imported(here)
        found += [
            one
            for one in figures_text.best_imported(one for one in here if instance in one.instances)
            if one not in found
        ]
        lines += [f"{shape}: {figures_text.imported_words(one, instance)}" for one in found]
    if len(lines) > SHOWN_IMPORTED:
        lines[SHOWN_IMPORTED:] = [f"and {len(lines) - SHOWN_IMPORTED} more"]
    return [PageLine("\n".join([f"measured by others on {arch}:", *lines]))] if lines else []


def timing_table(unit: Unit) -> PageTable:
    """A row for each timing that has figures."""
    rows = []
    shown = [each for each in unit.timings if figures_text.is_figure(each)]
    several = len({each.cache for each in shown}) > 1
    for each in shown:
        freshness = timing_freshness(unit, each)
        rows.append(
            (
                each.shape + (f", {each.cache} cache" if several else ""),
                time_of(each.median_us),
                figures_text.error_of(each),
                figures_text.clock_of(each),
                figures_text.rate_of(each),
                "" if each.bound_us is None else time_of(each.bound_us),
                _percent(each),
                *(_compared(each, kind) for kind in COMPARED),
                "" if freshness == "fresh" else freshness,
            )
        )
    return PageTable(("shape", "time", "error", "clock", "rate", "bound", "of bound", *COMPARED, " "), tuple(rows))


def resource_words(figures: Figures) -> str:
    """The code object in one line; the daemon's own where it has one."""
    return figures.headline or f"{figures.vgprs} VGPR, {figures.lds_bytes} B LDS"


def _state(unit: Unit) -> str:
    words = state_words(unit)
    if unit.outcome == "built" and unit.fresh and unit.phase in ("idle", "done"):
        words = "built, from the store" if unit.from_store else f"built in {duration(unit.seconds)}"
    elif unit.phase == "idle" and not unit.fresh and unit.outcome is not None:
        words = "changed since it was built"
    return f"({words})"


def _failure(timing: Timing) -> str:
    if timing.failure is None:
        return figures_text.NO_FIGURES
    return f"{timing.failure}: {timing.message}" if timing.message else timing.failure


def _percent(timing: Timing) -> str:
    if timing.bound_percent is None:
        return ""
    observed = "" if timing.observed_percent is None else f" ({timing.observed_percent:.0f} % at the observed clock)"
    return f"{timing.bound_percent:.0f} %{observed}"


def _compared(timing: Timing, kind: str) -> str:
    found = figures_text.comparison_with(timing.comparisons, kind)
    return "" if found is None else f"{change(found.ratio)} {found.verdict}"


def _history(past: UnitHistory) -> list[PageBlock]:
    lines = []
    several = len({cache for _, cache in past.medians}) > 1
    for (shape, cache), medians in past.medians.items():
        if len(medians) > 1:
            name = f"{shape}, {cache} cache" if several else shape
            span = f"{time_of(min(medians))} to {time_of(max(medians))}"
            lines.append(f"{name}: {sparkline(medians[-SPARKS:])} {len(medians)} timings, {span}")
    return [PageLine("\n".join(lines))] if lines else []


def _resources(unit: Unit, figures: Figures) -> list[PageBlock]:
    spills = f"{figures.vgpr_spills} VGPR, {figures.sgpr_spills} SGPR" if figures.sgpr_spills else figures.vgpr_spills
    freshness = figures_freshness(unit)
    cells = {
        "resources": "" if freshness == "fresh" else freshness,
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
    blocks: list[PageBlock] = [PageTable(tuple(cells), (tuple(cells.values()),))]
    lines = []
    if figures.next_step:
        lines.append(f"next step: {figures.next_step}")
    if figures.loop_clocks is not None:
        lines.append(f"main loop: {digits(figures.loop_clocks)} clocks an iteration, predicted for one wave")
    if figures.changes:
        lines.append(f"since the previous build: {', '.join(figures.changes)}")
    if figures.baseline_changes:
        lines.append(f"since the baseline: {', '.join(figures.baseline_changes)}")
    return [*blocks, PageLine("\n".join(lines))] if lines else blocks


def _predictions(past: UnitHistory) -> list[PageBlock]:
    rows = tuple(
        (
            each.shape,
            f"{time_of(each.prediction.time_us)} on {each.prediction.part}",
            "" if each.measured_us is None else time_of(each.measured_us),
        )
        for each in past.predictions
        if each.prediction.time_us is not None
    )
    return [PageTable(("shape", "predicted", "measured"), rows)] if rows else []
