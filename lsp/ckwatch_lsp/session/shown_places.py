"""Shows the places in files that other clients of the daemon ask for."""

from __future__ import annotations

from ckwatch.model.text import Position, Range
from ckwatch.wire.state import ShownPlace
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics


class ShownPlaces(SessionListener):
    """Has the editor show each place once; of several at a time, the last."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: ShownPlace | None = None

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Show what is asked for."""
        place = folder.take_shown() if topics.any_of("show") else None
        if place is not None:
            self._last = place
            self._session.start(self._show, place)

    async def _show(self, place: ShownPlace) -> None:
        position = Position(place.line, place.column)
        selection = await self._session.encode_range(place.path, Range(position, position))
        if place is self._last:
            uri = self._session.uri_at(place.path)
            await self._session.editor.show_document(uri, take_focus=True, selection=selection)
