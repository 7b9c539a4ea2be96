"""Has the editor ask for hints and lenses again, and diagnostics sent, when what they say is another.

A refresh concerns all documents, so it waits until nothing more comes, and is left out where nothing that is shown has
changed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pygls.exceptions import JsonRpcException

from ckwatch_lsp.documents import Document
from ckwatch_lsp.figures.informing import information, is_wanted
from ckwatch_lsp.figures.language import FiguresLanguage
from ckwatch_lsp.figures.shown import Shown
from ckwatch_lsp.parts import Part
from ckwatch_lsp.soon import Soon

if TYPE_CHECKING:
    from ckwatch_lsp.folder import Folder
    from ckwatch_lsp.server import CkwatchServer

_log = logging.getLogger(__name__)


class Refreshing(Part):
    """Compares what the open documents show with what they showed."""

    def __init__(self, server: CkwatchServer, shown: Shown, language: FiguresLanguage) -> None:
        self._server = server
        self._session = server.session
        self._shown = shown
        self._language = language
        self._informed: dict[str, object] = {}
        self._hints: dict[str, object] = {}
        self._lenses: dict[str, object] = {}
        self._soon = Soon(self._session, self._refresh)

    def opened(self, document: Document) -> None:  # noqa: ARG002  # all of them are compared
        """What is known of it may come after the editor has asked."""
        self._soon()

    def closed(self, document: Document) -> None:
        """It shows nothing any more."""
        self._informed.pop(document.uri, None)
        self._hints.pop(document.uri, None)
        self._lenses.pop(document.uri, None)

    def told(self, folder: Folder, topics: frozenset[str]) -> None:  # noqa: ARG002  # as above
        """Something is another."""
        self._soon()

    def configured(self) -> None:
        """Something may be shown, or not any more."""
        self._soon()

    async def _refresh(self) -> None:
        abilities, settings = self._session.abilities, self._session.settings
        documents = list(self._session.documents.values())
        if is_wanted(self._session) or self._informed:
            told = self._of(documents, self._messages)
            self._informed, before = told, self._informed
            changed = [each for each in documents if told.get(each.uri) != before.get(each.uri)]
            self._session.diagnostics.changed([each.path for each in changed if each.path is not None])
        if abilities.refreshes_hints:
            hints = self._of(documents, lambda document: [label for _, label in self._shown.labels(document)])
            self._hints, before = hints if settings.hints else {}, self._hints
            if self._hints != before:
                await _told(self._server.workspace_inlay_hint_refresh_async(None))
        if abilities.refreshes_lenses:
            lenses = self._of(documents, self._language.written_lenses)
            self._lenses, before = lenses if settings.lenses else {}, self._lenses
            if self._lenses != before:
                await _told(self._server.workspace_code_lens_refresh_async(None))

    def _messages(self, document: Document) -> list[object]:
        found = information(self._session, self._shown, document.path or "")
        return [(each.code, each.message) for each in found]

    def _of(self, documents: Sequence[Document], texts: Callable[[Document], Sequence[object]]) -> dict[str, object]:
        return {each.uri: found for each in documents if (found := texts(each))}


async def _told(request: Awaitable[object]) -> None:
    try:
        await request
    except JsonRpcException as error:
        _log.info("the editor does not ask again: %s", error)
