"""Sends the daemon the text of open documents that differ from the saved files."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.client import Client, DaemonGoneError
from ckwatch.client.overlays import pauses
from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.session.documents import TextDocument, is_saved

_log = logging.getLogger(__name__)


class _OverlaidDocument:
    """A document's text. `given` is the revision that the daemon has, `sent` the one that it has or is about to have,
    -1 for none."""

    def __init__(self, document: TextDocument) -> None:
        self.document = document
        self.given = self.sent = -1
        self.changed = anyio.Event()
        self.saved = False
        self.closed = False
        self.scope: anyio.CancelScope | None = None


class OverlaySync:
    """Sends one workspace's unsaved texts to its daemon. Of texts that follow one another quickly only the last one is
    sent."""

    def __init__(self) -> None:
        self._synced: dict[str, _OverlaidDocument] = {}
        self._sent: dict[str, int] | None = None
        """The cached result of `sent`: with many texts it is requested far more often than it changes."""
        self._client: Client | None = None
        self._tasks: TaskGroup | None = None
        self._progressed = anyio.Event()
        self.changes = 0
        """Counts what makes the daemon's texts others than they were."""

    async def run(self, client: Client) -> None:
        """Send to this daemon; to be cancelled when it has gone."""
        async with anyio.create_task_group() as tasks:
            self._client, self._tasks = client, tasks
            try:
                for synced in list(self._synced.values()):
                    self._start(synced)
                await anyio.sleep_forever()
            finally:
                self._client = self._tasks = None
                self._progress()

    def given(self, path: str) -> int:
        """The revision of the document that the daemon has; -1 where it reads the file."""
        synced = self._synced.get(path)
        return -1 if synced is None else synced.given

    def sent(self) -> Mapping[str, int]:
        """The revisions that the daemon has, or is about to have, by path; files that it reads are not there."""
        if self._sent is None:
            self._sent = {path: synced.sent for path, synced in self._synced.items() if synced.sent != -1}
        return self._sent

    async def settled(self, document: TextDocument) -> None:
        """Return when the daemon has the document as it is, or reads the file."""
        while (synced := self._synced.get(document.path or "")) is not None and synced.given != document.revision:
            await self._progressed.wait()

    async def all_settled(self) -> None:
        """Return when the daemon has all documents as they are, or there is none."""
        while self._tasks is not None and any(one.given != one.document.revision for one in self._synced.values()):
            await self._progressed.wait()

    def changed(self, document: TextDocument) -> None:
        """The document was opened or has changed: send it if it differs from the file."""
        if document.path is None:
            return
        synced = self._synced.get(document.path)
        if synced is None or synced.document is not document:
            self.closed(document)
            synced = self._synced[document.path] = _OverlaidDocument(document)
            self._start(synced)
        synced.saved = False
        synced.changed.set()
        self.changes += 1

    def saved(self, document: TextDocument) -> None:
        """The file has the document's text: the overlay ends once the daemon has read it."""
        synced = self._synced.get(document.path or "")
        if synced is not None:
            synced.saved = True
            synced.changed.set()

    def closed(self, document: TextDocument) -> None:
        """The document was closed."""
        synced = self._synced.pop(document.path or "", None)
        self._sent = None
        if synced is not None:
            synced.closed = True
            self._set_given(synced, -1)
            if synced.scope is not None:
                synced.scope.cancel()

    def _set_given(self, synced: _OverlaidDocument, revision: int) -> None:
        synced.given = synced.sent = revision
        self._sent = None
        self._progress()

    def _progress(self) -> None:
        self.changes += 1
        self._progressed.set()
        self._progressed = anyio.Event()

    def _start(self, synced: _OverlaidDocument) -> None:
        if self._tasks is not None and self._client is not None:
            synced.changed.set()
            self._tasks.start_soon(self._sync, self._client, synced)

    async def _sync(self, client: Client, synced: _OverlaidDocument) -> None:
        path = synced.document.path
        assert path is not None  # noqa: S101  # only documents with a path are sent
        with anyio.CancelScope() as scope:
            synced.scope = scope
            settled = -1
            waits = pauses()
            while synced.document.revision != settled:  # it may be edited while it is found to be as it is saved
                settled = synced.document.revision
                try:
                    if not await to_thread.run_sync(is_saved, path, synced.document.text):
                        settled = await self._sync_until_saved(client, synced, path)
                except CkwatchError as error:
                    _log.warning("the unsaved text of %s is not sent: %s", path, error)
                    if isinstance(error, DaemonGoneError):  # there may be another one soon; else this is cancelled
                        settled = -1
                        await anyio.sleep(next(waits))
            self._set_given(synced, -1)
        if not synced.closed and self._synced.get(path) is synced and not scope.cancel_called:
            del self._synced[path]
            self._set_given(synced, -1)

    async def _sync_until_saved(self, client: Client, synced: _OverlaidDocument, path: str) -> int:
        """Send changes until the file has the same text; that revision."""
        revision = synced.document.revision
        synced.changed = anyio.Event()
        synced.sent = revision
        self._sent = None
        async with client.overlay(path, synced.document.text) as overlay:
            self._set_given(synced, revision)
            while True:
                if synced.document.revision == synced.given and not synced.saved:
                    await synced.changed.wait()
                synced.changed = anyio.Event()
                if synced.document.revision != synced.given:
                    synced.sent = revision = synced.document.revision
                    self._sent = None
                    await overlay.change(synced.document.text)
                    self._set_given(synced, revision)
                elif synced.saved:
                    await client.sync()  # what is on disk now; else the old text would be back for a moment
                    if synced.saved and synced.document.revision == synced.given:
                        return synced.given
