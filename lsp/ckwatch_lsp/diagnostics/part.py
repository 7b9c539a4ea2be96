"""Diagnostics as a part of the session: who hears what, and when the editor is told."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from lsprotocol import types

from ckwatch_lsp.diagnostics.elsewhere import is_outside
from ckwatch_lsp.diagnostics.pulling import Pulling
from ckwatch_lsp.diagnostics.pushing import Pushing
from ckwatch_lsp.diagnostics.reports import Reports
from ckwatch_lsp.diagnostics.tracking import Tracker
from ckwatch_lsp.documents import Document, Edit, Kind
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.parts import Part

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

_log = logging.getLogger(__name__)

DEBOUNCE_S = 0.02
"""What happens within so many seconds is told together."""


class Diagnostics(Part):
    """Follows the session, and tells the editor what is wrong: it is asked to look again, or it is told."""

    def __init__(self, server: CkwatchServer, params: types.InitializeParams) -> None:
        session = self._session = server.session
        self.tracker = Tracker(session)
        self.reports = Reports(session, self.tracker)
        self._dirty: set[str] = set()
        self._shifted: set[str] = set()
        self._has_news = anyio.Event()
        self._pulls: Pulling | None = None
        self._pushes: Pushing | None = None
        text = params.capabilities.text_document
        # who cannot be asked to look again would not hear of what is found after an edit
        if session.abilities.pulls_diagnostics and session.abilities.refreshes_diagnostics:
            pull = text.diagnostic if text else None
            related = bool(pull and pull.related_document_support)
            self._pulls = Pulling(server, self.reports, self.tracker, related_documents=related)
        else:
            self._pushes = Pushing(session, self.reports)
        session.diagnostics.listen(self._look_at)
        session.start(self._run)

    def opened(self, document: Document) -> None:
        """Its places are followed."""
        self.tracker.opened(document)
        self._look_at([document.path] if document.path is not None else [])

    def changed(self, document: Document, edits: Sequence[Edit]) -> None:
        """What is known moves with the text."""
        self._shifted |= self.tracker.changed(document, edits)
        self._has_news.set()

    def saved(self, document: Document) -> None:
        """The file has this text."""
        self.tracker.saved(document)

    def closed(self, document: Document) -> None:
        """The file counts."""
        self.tracker.closed(document)
        self._look_at([document.path] if document.path is not None else [])

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """The daemon has told something."""
        self.tracker.told(folder, topics)
        if self._session.diagnostics:
            self._look_at(self._of_units(folder, topics))
        if any(topic.startswith("file/") and is_outside(folder, topic.removeprefix("file/")) for topic in topics):
            files = [each.path for each in self._session.documents.values() if each.kind is Kind.KERNEL_FILE]
            self._look_at([path for path in files if path is not None and self._session.folder_of(path) is folder])
        if self._pushes is not None and topics & {"standing", "workspace"}:
            self._look_at(self._pushes.inherited)
        if self.tracker.pending:
            self._has_news.set()

    def remains(self) -> dict[str, Any]:
        """What the editor shows."""
        return {} if self._pushes is None else self._pushes.remains()

    def resume(self, remains: dict[str, Any]) -> None:
        """The editor shows what the version before has told it."""
        if self._pushes is not None:
            self._pushes.resume(remains)

    def configured(self) -> None:
        """Sources may have something else to tell."""
        if self._session.diagnostics:
            self._look_at(self.reports.paths())

    def _of_units(self, folder: Folder, topics: frozenset[str]) -> list[str]:
        """The files that other parts may have something to tell of when units are others."""
        names = [topic.removeprefix("unit/") for topic in topics if topic.startswith("unit/")]
        kernel_files = {folder.units[name].place.path for name in names if name in folder.units}
        documents = self._session.documents.values() if names else ()
        return [*kernel_files, *(each.path for each in documents if each.path is not None)]

    def _look_at(self, paths: Iterable[str]) -> None:
        self._dirty.update(paths)
        if self._dirty:
            self._has_news.set()

    async def _run(self) -> None:
        while True:
            await self._has_news.wait()
            await anyio.sleep(DEBOUNCE_S)
            self._has_news = anyio.Event()
            try:
                await self._tell()
            except Exception:  # noqa: BLE001  # one report that cannot be made must not end all others
                _log.exception("unexpected")

    async def _tell(self) -> None:
        dirty, self._dirty = self._dirty | self.tracker.take(), set()
        if self.tracker.pending:
            self._has_news.set()
        shifted, self._shifted = self._shifted, set()
        if self._pushes is not None:
            await self._pushes.tell(sorted(dirty | shifted))
        elif self._pulls is not None:
            await self._pulls.tell(sorted(dirty))
