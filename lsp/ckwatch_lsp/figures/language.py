"""Hints, lenses and hovers with figures, for kernel files and templates. All of them answer from memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ckwatch_lsp.documents import Document, Kind
from ckwatch_lsp.figures.affected import Affected
from ckwatch_lsp.figures.anchors import Anchor
from ckwatch_lsp.figures.lens_words import ROOM, Lens, affected_lens, sweep_lenses, unit_lenses
from ckwatch_lsp.figures.shown import Shown
from ckwatch_lsp.parts import Language, Told
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

TOOLTIPS = 64
"""Hints of one answer up to which they have their tooltips at once, for an editor that does not ask for them later."""


class FiguresLanguage(Language):
    """What is shown where. `resolves`: the editor asks for a hint's tooltip when it shows it."""

    def __init__(self, session: Session, shown: Shown, affected: Affected, *, resolves: bool) -> None:
        self._session = session
        self._shown = shown
        self._affected = affected
        self._resolves = resolves

    async def hints(self, document: Document, within: Range) -> Sequence[types.InlayHint]:
        """A label at the end of each line that has figures."""
        if not self._session.settings.hints or document.uri not in self._session.documents:
            return ()
        here = self._shown.labels(document, within.start.line, within.end.line)
        at_once = not self._resolves and len(here) <= TOOLTIPS
        return [self._hint(document, anchor, label, at_once=at_once) for anchor, label in here]

    async def resolve(self, hint: types.InlayHint) -> types.InlayHint:
        """inlayHint/resolve: the tooltip, which is the hover's page."""
        given: Any = hint.data
        uri = given.get("uri") if isinstance(given, dict) else None
        document = self._session.documents.get(uri) if isinstance(uri, str) else None
        if document is not None:
            anchor = self._shown.anchors.at(document, document.places.ours(hint.position))
            if anchor is not None:
                hint.tooltip = self._page(document, anchor)
        return hint

    async def lenses(self, document: Document) -> Sequence[types.CodeLens]:
        """What can be done about the units of each line."""
        if not self._session.settings.lenses or document.uri not in self._session.documents:
            return ()
        return [
            types.CodeLens(
                document.places.their_range(Range(Position(line, 0), Position(line, 0))),
                command=types.Command(lens.title, lens.command, arguments=[lens.argument]),
            )
            for line, lens in self.written_lenses(document)
        ]

    def written_lenses(self, document: Document) -> list[tuple[int, Lens]]:
        """The lenses by line."""
        found: list[tuple[int, Lens]] = []
        anchors = self._shown.anchors.of(document)
        active = self._session.active.unit(document)
        is_template = document.kind is Kind.TEMPLATE
        crowded = len(anchors) > ROOM
        for anchor in anchors:
            if crowded and active is not None and active.id not in anchor.units:
                continue
            briefs = [self._shown.brief(unit) for unit in self._shown.anchors.units(document, anchor)]
            if not briefs:
                continue
            if anchor.sweep:
                lenses = sweep_lenses(anchor.sweep, briefs, document.uri)
            else:
                lenses = unit_lenses(briefs[0], document.uri, choosable=is_template or crowded)
            found += [(anchor.end.line, lens) for lens in lenses]
        return found + self._affected_lenses(document) if is_template else found

    async def hover(self, document: Document, position: Position) -> Told | None:
        """The table, on a line that has figures."""
        if not self._session.settings.hovers:
            return None
        anchor = self._shown.anchors.at(document, position)
        if anchor is None or not self._is_on(document, anchor, position):
            return None
        text = self._shown.page(document, anchor)
        return Told(text) if text else None

    def _is_on(self, document: Document, anchor: Anchor, position: Position) -> bool:
        """In a template only on the word: the rest of that line is of other languages."""
        if document.kind is not Kind.TEMPLATE:
            return True
        column = document.line(anchor.end.line).find("def_kernel")
        return column <= position.column <= column + len("def_kernel") if column >= 0 else True

    def _affected_lenses(self, document: Document) -> list[tuple[int, Lens]]:
        units = len(self._session.active.units(document))
        if units == 0:
            return []
        macros = self._shown.anchors.shape(document).macros
        found = [
            (macro.line, affected_lens(self._affected.count(document, macro.name, units), document.uri))
            for macro in macros
        ]
        if self._shown.anchors.shows_kernel(document) or any(macro.line == 0 for macro in macros):
            return found
        return [(0, affected_lens(units, document.uri)), *found]

    def _hint(self, document: Document, anchor: Anchor, label: str, *, at_once: bool) -> types.InlayHint:
        return types.InlayHint(
            position=document.places.theirs(anchor.end),
            label=label,
            padding_left=True,
            tooltip=self._page(document, anchor) if at_once else None,
            data={"uri": document.uri} if self._resolves else None,
        )

    def _page(self, document: Document, anchor: Anchor) -> types.MarkupContent:
        abilities = self._session.abilities
        kind = types.MarkupKind.Markdown if abilities.markdown else types.MarkupKind.PlainText
        return types.MarkupContent(kind, self._shown.page(document, anchor))
