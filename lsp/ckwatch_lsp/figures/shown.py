"""The texts of figures as they are shown in documents, worked out once for each state of a unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document
from ckwatch_lsp.figures.about import about_sweep, about_unit
from ckwatch_lsp.figures.anchors import Anchor, Anchors
from ckwatch_lsp.figures.labels import sweep_label, unit_label
from ckwatch_lsp.figures.looked_at import LookedAt
from ckwatch_lsp.figures.page import markdown, plain
from ckwatch_lsp.figures.standing import Brief, brief_of
from ckwatch_lsp.parts import Part

if TYPE_CHECKING:
    from ckwatch_lsp.documents import Edit
    from ckwatch_lsp.folder import Folder
    from ckwatch_lsp.session import Session


class Shown(Part):
    """Labels and pages. A unit's state is a value that is replaced as a whole, so what it led to is kept with it."""

    def __init__(self, session: Session, anchors: Anchors, looked_at: LookedAt) -> None:
        self.anchors = anchors
        self._session = session
        self._looked_at = looked_at
        self._labels: dict[str, tuple[Unit, str]] = {}
        self._briefs: dict[str, Brief] = {}
        self._sweeps: dict[tuple[str, str], str] = {}
        self._pages: dict[tuple[str, str], str] = {}

    def labels(self, document: Document, first: int = 0, last: float = math.inf) -> list[tuple[Anchor, str]]:
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

    def brief(self, unit: Unit) -> Brief:
        """What thousands of which are summed up."""
        kept = self._briefs.get(unit.id)
        if kept is None or kept.unit is not unit:
            kept = self._briefs[unit.id] = brief_of(unit, self._session.settings.shape)
        return kept

    def page(self, document: Document, anchor: Anchor) -> str:
        """The hover's text, as the editor shows such texts."""
        folder, units = self._session.folder_for(document), self.anchors.units(document, anchor)
        if folder is None or not units:
            return ""
        if anchor.sweep:
            kept = self._pages.get((document.uri, anchor.sweep))
            if kept is not None:
                return kept
            briefs = [self.brief(unit) for unit in units]
            blocks = about_sweep(f"{units[0].kernel}/{anchor.sweep}", briefs, self._session.settings.shape)
        else:
            blocks = about_unit(units[0], self._looked_at.past(folder, units[0]))
        text = markdown(blocks) if self._session.abilities.markdown else plain(blocks)
        if anchor.sweep:
            self._pages[document.uri, anchor.sweep] = text
        return text

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Sweeps may hold units that are others now; of units that have gone nothing is kept."""
        self._forget_sweeps()
        for topic in topics:
            kind, _, name = topic.partition("/")
            if kind == "unit" and name not in folder.units:
                self._labels.pop(name, None)
                self._briefs.pop(name, None)

    def changed(self, document: Document, edits: Sequence[Edit]) -> None:  # noqa: ARG002  # any may concern a sweep
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

    def _label(self, document: Document, folder: Folder, anchor: Anchor) -> str | None:
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
