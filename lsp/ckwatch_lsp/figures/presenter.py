"""Labels and pages of figures, made once for each state of a unit, with the history of units that are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import anyio
from anyio import to_thread

from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError
from ckwatch.model.timings import Timing
from ckwatch.wire.analysis import ShapePrediction
from ckwatch.wire.figures_text import is_figure
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures import pages
from ckwatch_lsp.figures.anchors import FigureAnchor, FigureAnchors
from ckwatch_lsp.figures.freshness import UnitBrief, brief_of
from ckwatch_lsp.figures.imported import ImportedTimingsCache, shape_at
from ckwatch_lsp.figures.labels import sweep_label, unit_label
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import TextChange, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.kept_answers import KeptAnswers
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

KEPT = 256
"""Units whose past is kept."""

LIMIT = 50
"""Timings of a unit that are asked for."""


class UnitHistories(SessionListener):
    """The history of units that were shown, those of open documents among them."""

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self._active = active
        self._kept = KeptAnswers[pages.UnitHistory](session, KEPT)
        self._turns = anyio.CapacityLimiter(2)

    def history(self, folder: WorkspaceFolder, unit: Unit) -> pages.UnitHistory:
        """Return the known history; if it is not of the unit as it is, it is requested, and known the next time."""
        if not (unit.timings or unit.figures):
            return pages.NO_HISTORY
        return self._kept.known((folder, unit.id), _stamp(unit), lambda: self._ask(folder, unit)) or pages.NO_HISTORY

    def opened(self, document: TextDocument) -> None:
        """Fetch the history of its active unit."""
        folder, unit = self._session.folder_for(document), self._active.unit(document)
        if folder is not None and unit is not None:
            self.history(folder, unit)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Active units may have got other figures."""
        active = self._active.of_documents(folder)
        for name in topics.named("unit"):
            if name in active and name in folder.units:
                self.history(folder, folder.units[name])

    async def _ask(self, folder: WorkspaceFolder, unit: Unit) -> pages.UnitHistory:
        async with self._turns:
            client = folder.ready
            medians = medians_of(await client.timings(unit, limit=LIMIT)) if unit.timings else {}
            predictions = await _predictions(client, unit)
        folder.mark_changed("history")
        return pages.UnitHistory(medians, predictions)


def medians_of(timings: Iterable[Timing]) -> dict[tuple[str, str], list[float]]:
    """Medians by shape and cache state, the oldest first."""
    found: dict[tuple[str, str], list[float]] = {}
    for timing in sorted(timings, key=lambda each: each.taken_at):
        if is_figure(timing):
            found.setdefault((timing.shape, timing.cache), []).append(timing.median_us)
    return found


async def _predictions(client: Client, unit: Unit) -> Sequence[ShapePrediction]:
    if unit.figures is None:
        return ()
    try:
        return (await client.analysis(unit)).shapes
    except CkwatchError:
        return ()  # nothing is built, or it cannot be read; the figures say what there is


def _stamp(unit: Unit) -> tuple[object, ...]:
    """Differs when there are other timings or figures."""
    return (tuple(timing.id for timing in unit.timings), unit.figures and unit.figures.artifact_key)


class FigurePresenter(SessionListener):
    """Labels and pages. A unit's state is a value that is replaced as a whole, so what it led to is kept with it."""

    def __init__(
        self, session: Session, anchors: FigureAnchors, histories: UnitHistories, imported: ImportedTimingsCache
    ) -> None:
        self.anchors = anchors
        self._imported = imported
        self._session = session
        self._histories = histories
        self._labels: dict[str, tuple[Unit, str]] = {}
        self._briefs: dict[str, UnitBrief] = {}
        self._sweeps: dict[tuple[str, str], str] = {}
        self._pages: dict[tuple[str, str], str] = {}

    def labels(self, document: TextDocument, first: int = 0, last: float = math.inf) -> list[tuple[FigureAnchor, str]]:
        """The label of each anchor that has units, on lines `first` to `last`."""
        folder = self._session.folder_for(document)
        if folder is None:
            return []
        found = []
        for anchor in self.anchors.of(document):
            if first <= anchor.end.line <= last:
                label = self._label(document, folder, anchor)
                if label is not None:
                    found.append((anchor, label))
        return found

    def brief(self, unit: Unit) -> UnitBrief:
        """Return the brief of a unit, of which thousands are summed up."""
        kept = self._briefs.get(unit.id)
        if kept is None or kept.unit is not unit:
            kept = self._briefs[unit.id] = brief_of(unit, self._session.settings.shape)
        return kept

    def page(self, document: TextDocument, anchor: FigureAnchor) -> str:
        """The hover's text, as the editor shows such texts."""
        folder, units = self._session.folder_for(document), self.anchors.units(document, anchor)
        if folder is None or not units:
            return ""
        imported = self._imported.of(folder, units[0].kernel)
        if anchor.sweep:
            kept = self._pages.get((document.uri, anchor.sweep))
            if kept is not None:
                return kept
            briefs = [self.brief(unit) for unit in units]
            blocks = pages.about_sweep(
                f"{units[0].kernel}/{anchor.sweep}", briefs, self._session.settings.shape, imported
            )
        else:
            blocks = pages.about_unit(units[0], self._histories.history(folder, units[0]), imported)
        text = self._written(blocks)
        if anchor.sweep:
            self._pages[document.uri, anchor.sweep] = text
        return text

    async def shape_page(self, document: TextDocument, line: int) -> str:
        """The hover's text about the shape whose header or name stands on a line; empty where there is nothing."""
        folder = self._session.folder_for(document)
        shape = await to_thread.run_sync(shape_at, document.text, line)
        units = [] if folder is None or shape is None else folder.units_at(document.path or "")
        if folder is None or shape is None or not units:
            return ""
        imported = [one for one in self._imported.of(folder, units[0].kernel) if shape.has(one)]
        if not imported:
            return ""
        archs = tuple(dict.fromkeys(unit.arch for unit in units))
        return self._written(pages.about_shape(units[0].kernel, imported[0].shape, archs, imported))

    def _written(self, blocks: Sequence[pages.PageBlock]) -> str:
        return pages.markdown(blocks) if self._session.capabilities.markdown else pages.plain(blocks)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Forget sweeps, which may have changed, and removed units."""
        self._forget_sweeps()
        for name in topics.named("unit"):
            if name not in folder.units:
                self._labels.pop(name, None)
                self._briefs.pop(name, None)

    def changed(self, document: TextDocument, edits: Sequence[TextChange]) -> None:  # noqa: ARG002  # any may concern a sweep
        """It may have other sweeps."""
        self._forget_sweeps()

    def configured(self) -> None:
        """It may be another shape."""
        self._labels.clear()
        self._briefs.clear()
        self._forget_sweeps()

    def _forget_sweeps(self) -> None:
        self._sweeps.clear()
        self._pages.clear()

    def _label(self, document: TextDocument, folder: WorkspaceFolder, anchor: FigureAnchor) -> str | None:
        if anchor.sweep:
            key = (document.uri, anchor.sweep)
            label = self._sweeps.get(key)
            if label is None and (units := self.anchors.units(document, anchor)):
                label = self._sweeps[key] = sweep_label([self.brief(unit) for unit in units])
            return label
        unit = folder.units.get(anchor.units[0])
        if unit is None:
            return None
        kept = self._labels.get(unit.id)
        if kept is None or kept[0] is not unit:
            kept = self._labels[unit.id] = (unit, unit_label(unit, self._session.settings.shape))
        return kept[1]
