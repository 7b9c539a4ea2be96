"""`ckwatch.units`: all units with their figures in a line, and word to the editor when they are others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import uri_of
from ckwatch_lsp.figures.labels import figures_cells, timing_cells, trimmed
from ckwatch_lsp.figures.standing import figures_standing, is_running, shown_timing, timing_standing
from ckwatch_lsp.parts import Part
from ckwatch_lsp.session import range_of
from ckwatch_lsp.soon import Soon

if TYPE_CHECKING:
    from ckwatch_lsp.documents import Document
    from ckwatch_lsp.folder import Folder
    from ckwatch_lsp.server import CkwatchServer

CHANGED = "ckwatch/unitsChanged"


class UnitsCommand(Part):
    """Follows the folders for the editors that want to know."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._session = server.session
        self._changed: dict[Folder, None] = {}
        self._soon = Soon(self._session, self._tell)
        server.add_command("ckwatch.units", self.units)

    async def units(self, argument: Mapping[str, Any]) -> list[dict[str, Any]]:  # noqa: ARG002  # there is nothing to say
        """The units of all folders, in the order of the kernel files."""
        active = {unit.id for each in self._session.documents.values() if (unit := self._session.active.unit(each))}
        documents: dict[str, Document | None] = {}
        found = []
        for folder in list(self._session.folders.values()):
            for unit in list(folder.units.values()):
                path = unit.place.path
                if path not in documents:
                    documents[path] = await self._session.text_at(path)
                found.append(self._row(folder, unit, documents[path], active=unit.id in active))
        return found

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Some of them are others."""
        if any(topic.startswith("unit/") or topic in ("standing", "active", "readers") for topic in topics):
            self._note(folder)

    def opened(self, document: Document) -> None:
        """There may be another active one."""
        self._note(self._session.folder_for(document))

    def closed(self, document: Document) -> None:
        """As above."""
        self._note(self._session.folder_for(document))

    def configured(self) -> None:
        """Another shape may be shown."""
        for folder in self._session.folders.values():
            self._note(folder)

    def _note(self, folder: Folder | None) -> None:
        if folder is not None and self._session.abilities.units_changed:
            self._changed[folder] = None
            self._soon()

    async def _tell(self) -> None:
        changed, self._changed = self._changed, {}
        for folder in changed:
            self._server.protocol.notify(CHANGED, {"folder": uri_of(folder.root)})

    def _row(self, folder: Folder, unit: Unit, document: Document | None, *, active: bool) -> dict[str, Any]:
        uri = self._session.uri_at(unit.place.path)
        given = range_of(unit.place)
        text, standing = line_of(unit, self._session.settings.shape)
        if document is not None:
            shown = document.places.their_range(given)
            start, end = shown.start, shown.end
            places = ((start.line, start.character), (end.line, end.character))
        else:
            places = ((given.start.line, given.start.column), (given.end.line, given.end.column))
        return {
            "folder": uri_of(folder.root), "kernel": unit.kernel, "kernelUri": uri, "instance": unit.instance,
            "arch": unit.arch, "id": unit.id, "uri": uri,
            "range": dict(zip(("start", "end"), ({"line": at[0], "character": at[1]} for at in places), strict=True)),
            "phase": unit.phase, "outcome": unit.outcome, "fresh": unit.fresh, "text": text, "standing": standing,
            "errors": unit.errors, "warnings": unit.warnings, "active": active,
        }  # fmt: skip


def line_of(unit: Unit, shape: str = "") -> tuple[str, str | None]:
    """A unit's figures in a line, and how they stand; empty and None (or running) where there are none."""
    timing = shown_timing(unit, shape)
    if timing is not None:
        return trimmed(timing_cells(timing)), timing_standing(unit, timing)
    if unit.figures is not None:
        return trimmed(figures_cells(unit.figures)), figures_standing(unit)
    return "", "running" if is_running(unit) else None
