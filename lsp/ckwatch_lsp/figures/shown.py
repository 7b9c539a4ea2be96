"""The texts of figures as they are shown in documents, worked out once for each state of a unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document
from ckwatch_lsp.figures.about import about_sweep, about_unit
from ckwatch_lsp.figures.anchors import Anchor, Anchors
from ckwatch_lsp.figures.labels import sweep_label, unit_label
from ckwatch_lsp.figures.looked_at import LookedAt
from ckwatch_lsp.figures.page import markdown, plain
from ckwatch_lsp.parts import Part

if TYPE_CHECKING:
    from ckwatch_lsp.folder import Folder
    from ckwatch_lsp.session import Session


class Shown(Part):
    """Labels and pages. A unit's state is a value that is replaced as a whole, so its label is kept with it."""

    def __init__(self, session: Session, anchors: Anchors, looked_at: LookedAt) -> None:
        self.anchors = anchors
        self._session = session
        self._looked_at = looked_at
        self._labels: dict[str, tuple[Unit, str]] = {}
        self._sweeps: dict[tuple[str, str], str] = {}

    def labels(self, document: Document) -> list[tuple[Anchor, str]]:
        """The label of each anchor that has units."""
        found = []
        for anchor in self.anchors.of(document):
            units = self.anchors.units(document, anchor)
            if units:
                found.append(
                    (anchor, self._sweep_label(document, anchor, units) if anchor.sweep else self.label(units[0]))
                )
        return found

    def label(self, unit: Unit) -> str:
        """A unit's hint."""
        kept = self._labels.get(unit.id)
        if kept is None or kept[0] is not unit:
            kept = self._labels[unit.id] = (unit, unit_label(unit, self._session.settings.shape))
        return kept[1]

    def page(self, document: Document, anchor: Anchor) -> str:
        """The hover's text, as the editor shows such texts."""
        folder, units = self._session.folder_for(document), self.anchors.units(document, anchor)
        if folder is None or not units:
            return ""
        if anchor.sweep:
            blocks = about_sweep(f"{units[0].kernel}/{anchor.sweep}", units, self._session.settings.shape)
        else:
            blocks = about_unit(units[0], self._looked_at.past(folder, units[0]))
        return markdown(blocks) if self._session.abilities.markdown else plain(blocks)

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Sweeps hold units that are others now; of units that have gone nothing is kept."""
        self._sweeps.clear()
        for topic in topics:
            kind, _, name = topic.partition("/")
            if kind == "unit" and name not in folder.units:
                self._labels.pop(name, None)

    def configured(self) -> None:
        """It may be another shape."""
        self._labels.clear()
        self._sweeps.clear()

    def _sweep_label(self, document: Document, anchor: Anchor, units: list[Unit]) -> str:
        kept = self._sweeps.get((document.uri, anchor.sweep))
        if kept is None:
            kept = self._sweeps[document.uri, anchor.sweep] = sweep_label(units, self._session.settings.shape)
        return kept
