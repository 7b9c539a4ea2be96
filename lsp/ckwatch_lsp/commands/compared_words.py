"""Comparisons as a page."""

from __future__ import annotations

from collections.abc import Sequence

from ckwatch.wire.compared import Compared
from ckwatch.wire.timing_words import NO_FIGURES, is_figure, time_of
from ckwatch_lsp.figures.labels import change_cell
from ckwatch_lsp.figures.page import Block, Line, Table, Title


def comparison_page(unit: str, rows: Sequence[Compared]) -> list[Block]:
    """A unit against others, shape by shape; below the table why some rows have no verdict."""
    several = len({row.cache for row in rows}) > 1
    cells = tuple(_cells(row, several=several) for row in rows if _is_comparable(row))
    missing = dict.fromkeys(
        f"{row.shape}, against {row.theirs}: {row.why_not or NO_FIGURES}" for row in rows if not _is_comparable(row)
    )
    columns = ("shape", "against", "time", "other", "change", "verdict")
    blocks: list[Block] = [Title(unit, "compared"), Table(columns, cells)]
    return [*blocks, Line("\n".join(missing))] if missing else blocks


def _is_comparable(row: Compared) -> bool:
    return row.comparison is not None and all(
        is_figure(timing) for timing in (row.timing, row.other) if timing is not None
    )


def _cells(row: Compared, *, several: bool) -> tuple[str, ...]:
    assert row.comparison is not None  # noqa: S101  # `_is_comparable`
    found = row.comparison
    return (
        row.shape + (f", {row.cache} cache" if several else ""),
        row.theirs,
        "" if row.timing is None else time_of(row.timing.median_us),
        time_of(found.other_median_us),
        change_cell(found.ratio),
        found.verdict + (", in turns" if found.interleaved else ""),
    )
