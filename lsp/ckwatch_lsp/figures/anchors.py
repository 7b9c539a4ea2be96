"""Which units' figures stand on which line of an open document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckwatch.wire.values import Unit
from ckwatch_lsp.active import MEMBERS
from ckwatch_lsp.documents import Document, Kind
from ckwatch_lsp.figures.headers import Header, Macro, defines_kernel, definition_line, headers, macros, units_by_header
from ckwatch_lsp.parts import Part
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.documents import Edit
    from ckwatch_lsp.folder import Folder
    from ckwatch_lsp.session import Session

TOP_LEVEL = (".hip.j2", ".cu.j2", ".cpp.j2")
"""Ends of the names of templates that kernel files name."""


OTHERS = MEMBERS | {"active"}
"""Topics after which other units may stand somewhere."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line that figures belong to, from its first column to `end`, and the ids of the units: one, or a sweep's.

    `sweep` is the sweep's name, else empty; `name` is where the instance's or sweep's name is written.
    """

    end: Position
    units: tuple[str, ...]
    sweep: str = ""
    name: Range | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """A template as far as figures are concerned: where its kernel is defined, and its macros."""

    definition: Position
    defines: bool
    macros: tuple[Macro, ...]


class Anchors(Part):
    """Finds them, and keeps what it has found until the text or the units are others."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._headers: dict[str, tuple[int, list[Header]]] = {}
        self._shapes: dict[str, tuple[int, Shape]] = {}
        self._anchors: dict[str, tuple[int, tuple[Anchor, ...]]] = {}

    def of(self, document: Document) -> tuple[Anchor, ...]:
        """The anchors of a kernel file or a template, from top to bottom."""
        kept = self._anchors.get(document.uri)
        if kept is not None and kept[0] == document.revision:
            return kept[1]
        if document.kind is Kind.KERNEL_FILE:
            found = tuple(self._in_kernel_file(document))
        elif document.kind is Kind.TEMPLATE and self.shows_kernel(document):
            unit = self._session.active.unit(document)
            found = () if unit is None else (Anchor(self.shape(document).definition, (unit.id,)),)
        else:
            found = ()
        if document.uri in self._session.documents:
            self._anchors[document.uri] = (document.revision, found)
        return found

    def at(self, document: Document, position: Position) -> Anchor | None:
        """The anchor on whose line, or on whose name, a cursor is."""
        for anchor in self.of(document):
            if anchor.end.line == position.line or (anchor.name is not None and anchor.name.holds(position)):
                return anchor
        return None

    def units(self, document: Document, anchor: Anchor) -> list[Unit]:
        """The units as they are now."""
        folder = self._session.folder_for(document)
        if folder is None:
            return []
        known = folder.units
        return [known[name] for name in anchor.units if name in known]

    def shape(self, document: Document) -> Shape:
        """Where things are defined in a template."""
        kept = self._shapes.get(document.uri)
        if kept is None or kept[0] != document.revision:
            text = document.text
            line = definition_line(text)
            shape = Shape(Position(line, len(document.line(line))), defines_kernel(text), tuple(macros(text)))
            if document.uri not in self._session.documents:
                return shape
            kept = self._shapes[document.uri] = (document.revision, shape)
        return kept[1]

    def shows_kernel(self, document: Document) -> bool:
        """Whether a template is what kernel files name, and not only included."""
        return (document.path or "").endswith(TOP_LEVEL) or self.shape(document).defines

    def changed(self, document: Document, edits: Sequence[Edit]) -> None:  # noqa: ARG002  # the revision tells
        """What was found in the text before is of no use."""
        self._forget(document)

    def closed(self, document: Document) -> None:
        """Nobody asks any more."""
        self._forget(document)
        self._headers.pop(document.uri, None)
        self._shapes.pop(document.uri, None)

    def told(self, folder: Folder, topics: frozenset[str]) -> None:  # noqa: ARG002  # whose they are does not matter
        """There are other units, or another one is active."""
        if topics & OTHERS:
            self._anchors.clear()

    def configured(self) -> None:
        """Other files may be recognised."""
        self._anchors.clear()

    def _forget(self, document: Document) -> None:
        self._anchors.pop(document.uri, None)

    def _in_kernel_file(self, document: Document) -> list[Anchor]:
        kept = self._headers.get(document.uri)
        if kept is None or kept[0] != document.revision:
            kept = self._headers[document.uri] = (document.revision, headers(document.text))
        folder = self._session.folder_for(document)
        units = [] if folder is None else folder.units_at(document.path or "")
        arch = self._arch(document, units)
        anchors = []
        for header, here in units_by_header(kept[1], units):
            chosen = [unit for unit in here if unit.arch == arch] or here[:1]
            if chosen:
                names = tuple(unit.id for unit in chosen)
                sweep = header.name if header.kind == "sweep" else ""
                start = Position(header.name_line, header.name_start)
                name = Range(start, Position(header.name_line, header.name_end))
                anchors.append(Anchor(Position(header.line, header.column), names, sweep, name))
        return anchors

    def _arch(self, document: Document, units: Sequence[Unit]) -> str:
        """That of the active instance; of several the one for which there are timings comes first."""
        active = self._session.active.unit(document)
        if active is None or self._session.active.is_chosen(document):
            return "" if active is None else active.arch
        return next((unit.arch for unit in units if unit.timings), active.arch)
