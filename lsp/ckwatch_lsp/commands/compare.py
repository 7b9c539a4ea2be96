"""`ckwatch.compare`, `rank` and `setBaseline`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lsprotocol import types

from ckwatch.client import Client
from ckwatch.model.amounts import change, time_of
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.analysis import PredictedRanking
from ckwatch.wire.benchmarks import Compared, RankedTiming
from ckwatch.wire.figures_text import NO_FIGURES, how_compared, is_figure
from ckwatch_lsp.commands.arguments import CommandTargets, text_in, units_named
from ckwatch_lsp.figures.pages import PageBlock, PageLine, PageTable, PageTitle, markdown, plain
from ckwatch_lsp.protocol.server import CkwatchServer
from ckwatch_lsp.session.folders import WorkspaceFolder


def comparison_page(unit: str, rows: Sequence[Compared]) -> list[PageBlock]:
    """A unit against others, shape by shape; below the table why some rows have no verdict."""
    several = len({row.cache for row in rows}) > 1
    cells = tuple(_cells(row, several=several) for row in rows if _is_comparable(row))
    missing = dict.fromkeys(
        f"{row.shape}, against {row.theirs}: {row.why_not or NO_FIGURES}" for row in rows if not _is_comparable(row)
    )
    columns = ("shape", "against", "time", "other", "change", "verdict")
    blocks: list[PageBlock] = [PageTitle(unit, "compared"), PageTable(columns, cells)]
    return [*blocks, PageLine("\n".join(missing))] if missing else blocks


def ranking_page(
    kernel: str, shape: str, measured: Sequence[RankedTiming], predicted: PredictedRanking | None
) -> list[PageBlock]:
    """The instances of a kernel on a shape: those that were timed by time, then the others as predicted."""
    guessed = {} if predicted is None else {row.name: row.prediction.time_us for row in predicted.rows}
    timed = sorted((row for row in measured if row.rank is not None), key=lambda row: row.rank or 0)
    names = dict.fromkeys((*(row.instance for row in timed), *guessed, *(row.instance for row in measured)))
    times = {row.instance: row for row in measured}
    cells = tuple((name, *_ranked_cells(times.get(name), guessed.get(name))) for name in names)
    note = f"on {shape}" if predicted is None else f"on {shape}; predicted for {predicted.part}"
    return [PageTitle(kernel, note), PageTable(("instance", "time", "predicted", ""), cells)]


def _ranked_cells(row: RankedTiming | None, predicted_us: float | None) -> tuple[str, str, str]:
    """Its time, the predicted one, and why there is neither."""
    timing = None if row is None or row.rank is None else row.timing
    time = "" if timing is None else time_of(timing.median_us)
    why = "" if row is None or time or predicted_us is not None else row.why_not
    return time, "" if predicted_us is None else time_of(predicted_us), why


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
        change(found.ratio),
        found.verdict + how_compared(found),
    )


NAME = "editor"
"""The baseline that is set without a name."""

KEPT = ("previous", "baseline", "library")


class CompareCommands:
    """One unit against something, and something to compare with."""

    def __init__(self, editor: CkwatchServer, targets: CommandTargets) -> None:
        self._editor = editor
        self._targets = targets
        editor.add_command("ckwatch.compare", self.compare)
        editor.add_command("ckwatch.rank", self.rank)
        editor.add_command("ckwatch.setBaseline", self.set_baseline)

    async def compare(self, argument: Mapping[str, Any]) -> str:
        """The comparison as text, also shown; as Markdown, and not shown, where `format` is "markdown".

        Without `against`: with the artifact before, the baseline and the library, as far as there are any.
        """
        against, form = text_in(argument, "against"), text_in(argument, "format")
        if form not in (None, "markdown", "text"):
            raise CkwatchError(f"`format` is '{form}'; it must be 'text' or 'markdown'")
        document = await self._targets.document(argument)
        if text_in(argument, "unit") is None and document is None:
            folder, units = await self._targets.units(argument)
            unit = units[0]
        else:
            folder, unit = self._targets.unit(argument, document)
        rows = await self._rows(folder, unit.id, against)
        page = comparison_page(unit.id, rows)
        if form == "markdown":
            return markdown(page)
        text = plain(page)
        self._editor.show_message(types.MessageType.Info, text)
        return text

    async def rank(self, argument: Mapping[str, Any]) -> str:
        """The instances of a kernel by measured and predicted times on a shape, as text, also shown.

        Without `shape`: on the one of the settings, else the kernel file's first.
        """
        folder, units = await self._targets.units(argument)
        kernel = units[0].kernel
        measured = await folder.ready.best(kernel)
        shapes = [*dict.fromkeys(row.shape for row in measured)]
        wanted = text_in(argument, "shape") or self._targets.shape
        if not shapes:
            raise CkwatchError(f"`{kernel}` has no [[shape]] to rank its instances on")
        if wanted not in shapes and text_in(argument, "shape") is not None:
            raise CkwatchError(f"`{kernel}` has no shape `{wanted}`; there are: {', '.join(shapes)}")
        shape = wanted if wanted in shapes else shapes[0]
        predicted = None
        with suppress(CkwatchError):  # none for what is not compiled for a GPU
            predicted = await folder.ready.predicted(kernel, shape)
        text = plain(ranking_page(kernel, shape, [row for row in measured if row.shape == shape], predicted))
        self._editor.show_message(types.MessageType.Info, text)
        return text

    async def set_baseline(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Let a name mean the latest timings of units: which have any."""
        name = text_in(argument, "name") or NAME
        folder, units = await self._targets.units(argument)
        found = await folder.ready.set_baseline(name, *(unit.id for unit in units))
        if not found:
            raise CkwatchError("there are no timings to keep as a baseline", "`ckwatch.run` takes some.")
        about = found[0] if len(found) == 1 else f"{len(found)} units"
        text = f"baseline '{name}' is set for {about}"
        self._editor.show_message(types.MessageType.Info, text)
        return {"name": name, "units": found}

    async def _rows(self, folder: WorkspaceFolder, unit: str, against: str | None) -> Sequence[Compared]:
        client = folder.ready
        if against is None:
            return await _all_rows(client, unit)
        if against.partition(":")[0] in KEPT:
            return await client.compare(unit, against)
        return await client.compare(unit, units_named([folder], against)[1][0].id)


async def _all_rows(client: Client, unit: str) -> Sequence[Compared]:
    rows: list[Compared] = []
    problem: CkwatchError | None = None
    for kind in KEPT:
        try:
            rows += await client.compare(unit, kind)
        except CkwatchError as error:  # there is none
            problem = problem or error
    if not rows and problem is not None:
        raise problem
    return rows
