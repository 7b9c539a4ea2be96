"""`ckwatch.units` and `chooseInstance`: all units with their figures in a line, and the active one of a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch.model.errors import CkwatchError
from ckwatch.wire.state import Unit
from ckwatch_lsp.commands.arguments import requested_document, text_in, units_named, units_of
from ckwatch_lsp.figures.freshness import figures_freshness, is_running, shown_timing, timing_freshness
from ckwatch_lsp.figures.labels import figures_cells, timing_cells, trimmed
from ckwatch_lsp.protocol.position_encoding import range_of
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.providers import SessionListener

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer
    from ckwatch_lsp.session.documents import TextDocument
    from ckwatch_lsp.session.folders import WorkspaceFolder

CHOICES = 30
"""How many units a message offers."""


class ChooseInstanceCommand:
    """Which instance a document's figures, values and generated text are shown of."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._session = server.session
        server.add_command("ckwatch.chooseInstance", self.choose)

    async def choose(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make the unit the active one of the document; null where the user chose none."""
        document = await requested_document(self._session, argument)
        name = text_in(argument, "unit")
        active = self._session.active
        if document is None:
            if name is None:
                raise CkwatchError("`uri` must be given, as a string")
            _, units = units_named(list(self._session.folders.values()), name)
            active.choose(None, units[0])
            return {"unit": units[0].id}
        folder = self._session.folder_for(document)
        units = [] if folder is None else await units_of(self._session, document)
        if folder is None or not units:
            raise CkwatchError("no unit is made of this document")
        if name is not None:
            known = {unit.id for unit in units}
            units = [unit for unit in units_named([folder], name)[1] if unit.id in known]
            if not units:
                raise CkwatchError(f"'{name}' is not made of this document")
            chosen: Unit | None = units[0]
        else:
            chosen = await self._ask(units, active.unit(document))
        if chosen is None:
            return None
        active.choose(document, chosen)
        return {"unit": chosen.id}

    async def _ask(self, units: Sequence[Unit], active: Unit | None) -> Unit | None:
        names = titles(units)
        offered = dict(list(names.items())[:CHOICES])
        more = f" (the first {CHOICES} of {len(units)})" if len(units) > CHOICES else ""
        now = "" if active is None else f" It is {active.id} now."
        message = f"Which instance shall be shown?{more}{now}"
        actions = [types.MessageActionItem(title) for title in offered]
        params = types.ShowMessageRequestParams(types.MessageType.Info, message, actions)
        try:
            answer = await self._server.window_show_message_request_async(params)
        except JsonRpcException:
            return None
        return None if answer is None else offered.get(answer.title)


def titles(units: Sequence[Unit]) -> dict[str, Unit]:
    """Each unit by the shortest name that tells it from the others."""
    kernels, archs = {unit.kernel for unit in units}, {unit.arch for unit in units}
    found = {}
    for unit in units:
        name = unit.instance if len(kernels) == 1 else f"{unit.kernel}/{unit.instance}"
        found[name if len(archs) == 1 else f"{name}@{unit.arch}"] = unit
    return found


CHANGED = "ckwatch/unitsChanged"


class UnitsCommand(SessionListener):
    """Follows the folders for the editors that want to know."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._session = server.session
        self._changed: dict[WorkspaceFolder, None] = {}
        self._soon = Debouncer(self._session, self._tell)
        server.add_command("ckwatch.units", self.units)

    async def units(self, argument: Mapping[str, Any]) -> list[dict[str, Any]]:  # noqa: ARG002  # there is nothing to say
        """The units of all folders, in the order of the kernel files."""
        active = {unit.id for each in self._session.documents.values() if (unit := self._session.active.unit(each))}
        documents: dict[str, TextDocument | None] = {}
        found = []
        for folder in list(self._session.folders.values()):
            for unit in list(folder.units.values()):
                path = unit.place.path
                if path not in documents:
                    documents[path] = await self._session.text_at(path)
                found.append(self._row(folder, unit, documents[path], active=unit.id in active))
        return found

    def told(self, folder: WorkspaceFolder, topics: frozenset[str]) -> None:
        """Some of them are others."""
        if any(topic.startswith("unit/") or topic in ("standing", "active", "readers") for topic in topics):
            self._note(folder)

    def opened(self, document: TextDocument) -> None:
        """There may be another active one."""
        self._note(self._session.folder_for(document))

    def closed(self, document: TextDocument) -> None:
        """As above."""
        self._note(self._session.folder_for(document))

    def configured(self) -> None:
        """Another shape may be shown."""
        for folder in self._session.folders.values():
            self._note(folder)

    def _note(self, folder: WorkspaceFolder | None) -> None:
        if folder is not None and self._session.abilities.units_changed:
            self._changed[folder] = None
            self._soon()

    async def _tell(self) -> None:
        changed, self._changed = self._changed, {}
        for folder in changed:
            self._server.protocol.notify(CHANGED, {"folder": uri_of(folder.root)})

    def _row(
        self, folder: WorkspaceFolder, unit: Unit, document: TextDocument | None, *, active: bool
    ) -> dict[str, Any]:
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
        return trimmed(timing_cells(timing)), timing_freshness(unit, timing)
    if unit.figures is not None:
        return trimmed(figures_cells(unit.figures)), figures_freshness(unit)
    return "", "running" if is_running(unit) else None
