"""`ckwatch.chooseInstance`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch.errors import CkwatchError
from ckwatch.wire.values import Unit
from ckwatch_lsp.arguments import text_in, units_named
from ckwatch_lsp.commands.meant import document_meant, units_of

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

CHOICES = 30
"""How many units a message offers."""


class ChooseCommand:
    """Which instance a document's figures, values and generated text are shown of."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._session = server.session
        server.add_command("ckwatch.chooseInstance", self.choose)

    async def choose(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make the unit the active one of the document; null where the user chose none."""
        document = await document_meant(self._session, argument)
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
