"""Sends the daemon the text of open documents that differ from the saved files."""

from __future__ import annotations

import logging

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.session.documents import TextDocument, read_text

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
    """Lends one workspace's documents to whatever daemon there is. Of texts that follow one another quickly only the
    last one is sent."""

    def __init__(self) -> None:
        self._loans: dict[str, _OverlaidDocument] = {}
        self._client: Client | None = None
        self._tasks: TaskGroup | None = None
        self._moved = anyio.Event()

    async def run(self, client: Client) -> None:
        """Lend to this daemon; to be cancelled when it has gone."""
        async with anyio.create_task_group() as tasks:
            self._client, self._tasks = client, tasks
            try:
                for loan in list(self._loans.values()):
                    self._start(loan)
                await anyio.sleep_forever()
            finally:
                self._client = self._tasks = None

    def given(self, path: str) -> int:
        """The revision of the document that the daemon has; -1 where it reads the file."""
        loan = self._loans.get(path)
        return -1 if loan is None else loan.given

    def sent(self) -> dict[str, int]:
        """The revisions that the daemon has, or is about to have, by path; files that it reads are not there."""
        return {path: loan.sent for path, loan in self._loans.items() if loan.sent != -1}

    async def settled(self, document: TextDocument) -> None:
        """Return when the daemon has the document as it is, or reads the file."""
        while (loan := self._loans.get(document.path or "")) is not None and loan.given != document.revision:
            await self._moved.wait()

    def opened(self, document: TextDocument) -> None:
        """A document is open; it is lent if it is not what the file says."""
        self.changed(document)

    def changed(self, document: TextDocument) -> None:
        """The document has another text."""
        if document.path is None:
            return
        loan = self._loans.get(document.path)
        if loan is None or loan.document is not document:
            self.closed(document)
            loan = self._loans[document.path] = _OverlaidDocument(document)
            self._start(loan)
        loan.saved = False
        loan.changed.set()

    def saved(self, document: TextDocument) -> None:
        """The file says what the document says: the loan ends once the daemon has seen that."""
        loan = self._loans.get(document.path or "")
        if loan is not None:
            loan.saved = True
            loan.changed.set()

    def closed(self, document: TextDocument) -> None:
        """The document is not open any more."""
        loan = self._loans.pop(document.path or "", None)
        if loan is not None:
            loan.closed = True
            self._give(loan, -1)
            if loan.scope is not None:
                loan.scope.cancel()

    def _give(self, loan: _OverlaidDocument, revision: int) -> None:
        loan.given = loan.sent = revision
        self._moved.set()
        self._moved = anyio.Event()

    def _start(self, loan: _OverlaidDocument) -> None:
        if self._tasks is not None and self._client is not None:
            loan.changed.set()
            self._tasks.start_soon(self._lend, self._client, loan)

    async def _lend(self, client: Client, loan: _OverlaidDocument) -> None:
        path = loan.document.path
        assert path is not None  # noqa: S101  # only documents with a path are lent
        with anyio.CancelScope() as scope:
            loan.scope = scope
            settled = -1
            while loan.document.revision != settled:  # it may be edited while it is found to be as it is saved
                settled = loan.document.revision
                try:
                    if not await to_thread.run_sync(_is_saved, path, loan.document.text):
                        settled = await self._lend_until_saved(client, loan, path)
                except CkwatchError as error:
                    _log.warning("%s cannot be lent: %s", path, error)
            self._give(loan, -1)
        if not loan.closed and self._loans.get(path) is loan and not scope.cancel_called:
            del self._loans[path]
            self._give(loan, -1)

    async def _lend_until_saved(self, client: Client, loan: _OverlaidDocument, path: str) -> int:
        """Lend until the file says the same; the revision of which that is so."""
        revision = loan.document.revision
        loan.changed = anyio.Event()
        loan.sent = revision
        async with client.overlay(path, loan.document.text) as overlay:
            self._give(loan, revision)
            while True:
                if loan.document.revision == loan.given and not loan.saved:
                    await loan.changed.wait()
                loan.changed = anyio.Event()
                if loan.document.revision != loan.given:
                    loan.sent = revision = loan.document.revision
                    await overlay.change(loan.document.text)
                    self._give(loan, revision)
                elif loan.saved:
                    await client.sync()  # what is on disk now; else the old text would be back for a moment
                    if loan.saved and loan.document.revision == loan.given:
                        return loan.given


def _is_saved(path: str, text: str) -> bool:
    try:
        return read_text(path) == text
    except OSError:
        return False
