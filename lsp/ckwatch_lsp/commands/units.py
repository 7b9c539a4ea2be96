"""`ckwatch.units` and `chooseInstance`: all units with their figures in a line, and the active one of a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lsprotocol import types

from ckwatch.model.delays import REFRESH
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.figures_text import shown_timing
from ckwatch.wire.state import Unit
from ckwatch_lsp.commands.arguments import CommandTargets, text_in, units_named
from ckwatch_lsp.diagnostics.conversion import plain_range, short_names
from ckwatch_lsp.figures.freshness import figures_freshness, is_running, timing_freshness
from ckwatch_lsp.figures.labels import figures_cells, timing_cells
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import TextDocument, editor_range
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

CHOICES = 30
"""How many units a message offers."""


class ChooseInstanceCommand:
    """Which instance a document's figures, values and generated text are shown of."""

    def __init__(self, session: Session, active: ActiveUnits, targets: CommandTargets) -> None:
        self._session = session
        self._active = active
        self._targets = targets
        session.editor.add_command("ckwatch.chooseInstance", self.choose)

    async def choose(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make the unit the active one of the document; null where the user chose none."""
        document = await self._targets.document(argument)
        name = text_in(argument, "unit")
        if document is None:
            if name is None:
                raise CkwatchError("`uri` must be given, as a string")
            _, units = units_named(list(self._session.folders.values()), name)
            self._active.choose(None, units[0])
            return {"unit": units[0].id}
        folder = self._session.folder_for(document)
        units = [] if folder is None else await self._active.find_units(document)
        if folder is None or not units:
            raise CkwatchError("no unit is made of this document")
        if name is not None:
            known = {unit.id for unit in units}
            units = [unit for unit in units_named([folder], name)[1] if unit.id in known]
            if not units:
                raise CkwatchError(f"'{name}' is not made of this document")
            chosen: Unit | None = units[0]
        else:
            chosen = await self._ask(units, self._active.unit(document))
        if chosen is None:
            return None
        self._active.choose(document, chosen)
        return {"unit": chosen.id}

    async def _ask(self, units: Sequence[Unit], active: Unit | None) -> Unit | None:
        names = dict(zip(short_names([unit.id for unit in units]), units, strict=True))
        offered = dict(list(names.items())[:CHOICES])
        more = f" (the first {CHOICES} of {len(units)})" if len(units) > CHOICES else ""
        now = "" if active is None else f" It is {active.id} now."
        message = f"Which instance should be shown?{more}{now}"
        chosen = await self._session.editor.choose(types.MessageType.Info, message, tuple(offered))
        return None if chosen is None else offered.get(chosen)


CHANGED = "ckwatch/unitsChanged"


class UnitsCommand(SessionListener):
    """Lists the units, and notifies the editors that asked for it of changes."""

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self._active = active
        self._notify_soon = Debouncer(session.start, self._notify, REFRESH)
        session.editor.add_command("ckwatch.units", self.units)

    async def units(self, argument: Mapping[str, Any]) -> list[dict[str, Any]]:  # noqa: ARG002  # there is nothing to say
        """The units of all folders, in the order of the kernel files."""
        documents: dict[str, TextDocument | None] = {}
        found = []
        for folder in list(self._session.folders.values()):
            active = self._active.of_documents(folder)
            for unit in await folder.units_in_order():
                path = unit.place.path
                if path not in documents:
                    documents[path] = await self._session.text_at(path)
                found.append(self._row(folder, unit, documents[path], active=unit.id in active))
        return found

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Units may have changed."""
        if topics.named("unit") or topics.named("readers") or topics.any_of("connection", "active"):
            self._note(folder)

    def opened(self, document: TextDocument) -> None:
        """Another unit may be active."""
        self._note(self._session.folder_for(document))

    def closed(self, document: TextDocument) -> None:
        """Another unit may be active."""
        self._note(self._session.folder_for(document))

    def configured(self) -> None:
        """Figures of another shape may be shown."""
        for folder in self._session.folders.values():
            self._note(folder)

    def _note(self, folder: WorkspaceFolder | None) -> None:
        if folder is not None and self._session.capabilities.units_changed:
            self._notify_soon(folder)

    async def _notify(self, *changed: WorkspaceFolder) -> None:
        for folder in changed:
            self._session.editor.notify(CHANGED, {"folder": uri_of(folder.root)})

    def _row(
        self, folder: WorkspaceFolder, unit: Unit, document: TextDocument | None, *, active: bool
    ) -> dict[str, Any]:
        uri = self._session.uri_at(unit.place.path)
        text, freshness = line_of(unit, self._session.settings.shape)
        return {
            "folder": uri_of(folder.root), "kernel": unit.kernel, "kernelUri": uri, "instance": unit.instance,
            "arch": unit.arch, "id": unit.id, "uri": uri,
            "range": plain_range(editor_range(document, unit.place.range)),
            "phase": unit.phase, "outcome": unit.outcome, "fresh": unit.fresh, "text": text, "standing": freshness,
            "errors": unit.errors, "warnings": unit.warnings, "active": active,
        }  # fmt: skip


def line_of(unit: Unit, shape: str = "") -> tuple[str, str | None]:
    """A unit's figures in a line, and how they stand; empty and None (or running) where there are none."""
    timing = shown_timing(unit, shape)
    if timing is not None:
        return timing_cells(timing), timing_freshness(unit, timing)
    if unit.figures is not None:
        return figures_cells(unit.figures), figures_freshness(unit)
    return "", "running" if is_running(unit) else None
