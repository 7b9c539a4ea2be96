"""Labels of inlay hints and titles of lenses."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from ckwatch.model.amounts import change, count, time_of
from ckwatch.model.emulated_archs import emulated_device
from ckwatch.model.figures import Figures
from ckwatch.model.timings import Timing
from ckwatch.wire.figures_text import rate_of, shown_timing, spilled, verification_sum, verification_words
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures import freshness

MARKS: dict[freshness.Freshness, str] = {"fresh": "", "stale": "·", "running": "…"}

STATES = {
    "waiting": "waiting",
    "rendering": "rendering",
    "looking": "checking the store",
    "queued": "queued",
    "compiling": "compiling",
}
"""Phases that are shown instead of an outcome, in words."""

VERIFIED_WIDTH = 60
"""Characters of a verification's line; its end is cut off where it is longer."""


def unit_label(unit: Unit, shape: str = "") -> str:
    """The timing of `shape` (of the first with one if empty), else the code object's figures, else the state; behind it
    whether the unit is verified, if that is known."""
    label, verified = _figures_label(unit, shape), _shortened(verification_words(unit), VERIFIED_WIDTH)
    return f"{label}  {verified}" if verified else label


def _figures_label(unit: Unit, shape: str) -> str:
    timing = shown_timing(unit, shape)
    if timing is not None:
        return MARKS[freshness.timing_freshness(unit, timing)] + timing_cells(timing)
    if unit.figures is not None:
        return MARKS[freshness.figures_freshness(unit)] + figures_cells(unit.figures)
    return MARKS["running" if freshness.is_running(unit) else "fresh"] + state_words(unit, shape)


def sweep_label(briefs: Sequence[freshness.UnitBrief]) -> str:
    """The best and the worst time of a sweep's units, how many have one, and which is the best; behind it how many are
    verified, if that is known."""
    label, verified = _sweep_figures(briefs), verification_sum(brief.unit for brief in briefs)
    return f"{label}  {verified}" if verified else label


def _sweep_figures(briefs: Sequence[freshness.UnitBrief]) -> str:
    timed = [brief for brief in briefs if brief.timing is not None]
    total = len(briefs)
    if timed:
        return _best(timed, total)
    known = [brief for brief in briefs if brief.unit.figures is not None]
    if known:
        return _ranges(known)
    built = sum(brief.unit.fresh and brief.unit.outcome == "built" for brief in briefs)
    mark = MARKS["running" if any(brief.running for brief in briefs) else "fresh"]
    return f"{mark}{built} of {total} built"


def timing_cells(timing: Timing) -> str:
    """`41.57 µs ±0.02 %  413 TFLOP/s  39 %  −2.1 %`, without what is not known."""
    found = freshness.change_of(timing)
    cells = (
        f"{time_of(timing.median_us)} {error_cell(timing.relative_error)}",
        rate_of(timing, 3),
        "" if timing.bound_percent is None else f"{timing.bound_percent:.0f} %",
        "" if found is None else change(found.ratio),
    )
    return "  ".join(cell for cell in cells if cell)


def figures_cells(figures: Figures) -> str:
    """`occ 2  194 VGPR  64K LDS  0 spills  MFMA 92 %`: LDS in KiB; the last is llvm-mca's for one wave."""
    cells = (
        f"occ {'?' if figures.occupancy is None else figures.occupancy}",
        f"{figures.vgprs} VGPR",
        f"{kib(figures.lds_bytes)} LDS",
        f"{spilled(figures)} spills",
        "" if figures.matrix_use is None else f"MFMA {100 * figures.matrix_use:.0f} %",
    )
    return "  ".join(cell for cell in cells if cell)


def kib(size_bytes: int) -> str:
    """`64K`, rounded up; `0` for nothing."""
    return f"{-(-size_bytes // 1024)}K" if size_bytes else "0"


def state_words(unit: Unit, shape: str = "") -> str:
    """Describe the state of a unit without figures."""
    if unit.phase in STATES:
        return STATES[unit.phase]
    failure = freshness.failed_timing(unit, shape)
    if failure is not None:
        return f"not timed on {failure.shape}: {failure.failure}"
    if unit.outcome in ("failed", "faulted"):
        return count(unit.errors, "error") if unit.errors else str(unit.outcome)
    if unit.outcome == "skipped":
        return "skipped"
    if unit.measuring is not None:
        return "timing"
    return "built" if unit.fresh and unit.outcome == "built" else "not built"


def error_cell(relative: float) -> str:
    """`±0.02 %`, three digits."""
    percent = min(100 * relative, 999)
    places = 2 if percent < 9.995 else 1 if percent < 99.95 else 0
    return f"±{percent:.{places}f} %"


def _best(timed: Sequence[freshness.UnitBrief], total: int) -> str:
    best = min(timed, key=lambda brief: brief.median_us)
    worst = max(brief.median_us for brief in timed)
    mark = MARKS["running" if any(brief.freshness == "running" for brief in timed) else best.freshness]
    times = f"{time_of(best.median_us)} – {time_of(worst)}"
    return f"{mark}{times}  {len(timed)} of {total}  {best.unit.instance}"


def _ranges(known: Sequence[freshness.UnitBrief]) -> str:
    """Like a unit's, with the least and the most of each figure."""
    figures = [brief.unit.figures for brief in known if brief.unit.figures is not None]
    kinds = {brief.freshness for brief in known}
    mark = MARKS["running" if "running" in kinds else "stale" if "stale" in kinds else "fresh"]
    waves = [each.occupancy for each in figures if each.occupancy is not None]
    uses = [round(100 * each.matrix_use) for each in figures if each.matrix_use is not None]
    cells = [
        f"occ {_span(waves)}" if waves else "",
        f"{_span([each.vgprs for each in figures])} VGPR",
        f"{_span([-(-each.lds_bytes // 1024) for each in figures])}K LDS",
        f"{_span([spilled(each) for each in figures])} spills",
        f"MFMA {_span(uses)} %" if uses else "",
    ]
    return mark + "  ".join(cell for cell in cells if cell)


def _span(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least}–{most}"


def _shortened(label: str, width: int) -> str:
    return label if len(label) <= width else label[: width - 1] + "…"


LENSES_LIMIT = 64
"""Instances that run up to which each has its lenses: an editor asks for all of them whenever one changes."""


def _lens(title: str, command: str, **about: str) -> types.Command:
    return types.Command(title, f"ckwatch.{command}", arguments=[about])


def unit_lenses(brief: freshness.UnitBrief, uri: str, *, choosable: bool = False) -> list[types.Command]:
    """Those of one unit: only what can be done. `choosable`: there are more to choose from."""
    about = {"uri": uri, "unit": brief.unit.id}
    lenses = [_lens("run", "run", **about)]
    if brief.running or brief.unit.verifying:
        lenses.append(_lens("cancel", "cancel", **about))
    if brief.timing is not None:
        lenses.append(_lens("set baseline", "setBaseline", **about))
        lenses.append(_lens("compare", "compare", **about))
    if emulated_device(brief.unit.arch) is not None:
        words = _shortened(verification_words(brief.unit), VERIFIED_WIDTH)
        lenses.append(_lens(words or "verify", "verify", **about))
    lenses.append(_lens("source", "openSource", **about))
    if brief.unit.arch.startswith("gfx"):
        lenses.append(_lens("ISA", "openIsa", **about))
    if choosable:
        lenses.append(_lens("choose instance", "chooseInstance", uri=uri))
    return lenses


def sweep_lenses(sweep: str, briefs: Sequence[freshness.UnitBrief], uri: str) -> list[types.Command]:
    """Those of a sweep: they mean all of its units."""
    first = briefs[0].unit
    about = {"uri": uri, "unit": f"{first.kernel}/{_literal(sweep)}_*@{first.arch}" if len(briefs) > 1 else first.id}
    lenses = [_lens("run", "run", **about)]
    if any(brief.running for brief in briefs):
        lenses.append(_lens("cancel", "cancel", **about))
    if emulated_device(first.arch) is not None:
        words = verification_sum(brief.unit for brief in briefs)
        lenses.append(_lens(words or "verify", "verify", **about))
    return lenses


def profile_lens(summary: str, unit: str, uri: str) -> types.Command:
    """It opens the unit's profile."""
    return _lens(summary, "openProfile", uri=uri, unit=unit)


def file_lenses(units: Sequence[Unit], uri: str, *, tuned: bool) -> list[types.Command]:
    """Those of a whole kernel file."""
    lenses = [_lens("run all", "run", uri=uri, unit=f"{_literal(units[0].kernel)}/*")] if units else []
    if len(units) > 1:
        lenses.append(_lens("rank", "rank", uri=uri))
    return [*lenses, _lens("tune", "tune", uri=uri)] if tuned else lenses


def affected_lens(units: int, uri: str) -> types.Command:
    """How many units read a file, or call a macro; it asks which of them is to be the active one."""
    return _lens(f"affects {count(units, 'unit')}", "chooseInstance", uri=uri)


def _literal(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
