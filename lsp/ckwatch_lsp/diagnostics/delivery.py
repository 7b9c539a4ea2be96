"""Delivers diagnostics: publishes them, or answers the editor's pulls and asks it to pull again."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

import anyio
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch.model.delays import DIAGNOSTIC_REFRESH, OTHER_FILES, PUBLISH, PULL, PULL_RENDERS
from ckwatch_lsp.diagnostics.reports import FileReport, FileReports, looks_of
from ckwatch_lsp.diagnostics.store import DiagnosticStore
from ckwatch_lsp.protocol.uris import path_of, uri_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import TextChange, TextDocument
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics


class PushDiagnostics(SessionListener):
    """Publishes changed diagnostics of every file, open or not."""

    state_key: ClassVar[str] = "Diagnostics"

    def __init__(self, session: Session, reports: FileReports) -> None:
        self._session = session
        self._reports = reports
        self._published: dict[str, dict[str, tuple[types.Diagnostic, ...]]] = {}
        self.inherited: dict[str, list[str]] = {}
        """By path the URIs for which the editor shows what the previous version has published."""

    def state_to_hand_over(self) -> dict[str, Any]:
        """By path the URIs for which the editor shows something."""
        shown = {path: [uri for uri, items in known.items() if items] for path, known in self._published.items()}
        return {"shown": {**self.inherited, **shown}}

    def restore(self, state: dict[str, Any]) -> None:
        """The editor shows what the previous version has published, until more is known."""
        self.inherited.update(state.get("shown", {}))

    async def update(self, paths: Iterable[str]) -> None:
        """These files may have other diagnostics."""
        for path in paths:
            self._publish(path, await self._reports.report(path))

    def _publish(self, path: str, report: FileReport) -> None:
        if path in self.inherited and not report.items and self._is_to_come(path):
            return
        for uri in self.inherited.pop(path, ()):
            if not report.items or uri not in self._session.documents:
                self._session.editor.publish(uri, None, ())
        documents = self._session.documents.at(path)
        known = self._published.setdefault(path, {})
        versions = {each.uri: each.version for each in documents} or {uri_of(path): None}
        for uri in [uri for uri in known if uri not in versions]:
            if known.pop(uri):
                self._session.editor.publish(uri, None, ())
        for uri, version in versions.items():
            if known.get(uri, ()) != report.items:
                known[uri] = report.items
                self._session.editor.publish(uri, version, report.items)
        if not any(known.values()):
            del self._published[path]

    def _is_to_come(self, path: str) -> bool:
        """Return True if the daemon has more to report."""
        folder = self._session.folder_of(path)
        if folder is None or folder.connection not in (ConnectionState.STARTING, ConnectionState.READY):
            return False
        return folder.workspace is None or not folder.workspace.loaded or folder.workspace.busy or folder.is_rendering


_log = logging.getLogger(__name__)

RELATED = 50
"""Other files whose diagnostics go with those of a document."""


class AskAgainError(JsonRpcException):
    """The text that was asked about has been replaced, or the daemon knows nothing of it yet: the editor asks again."""

    CODE = types.LSPErrorCodes.ServerCancelled.value
    MESSAGE = "there are no diagnostics of this text yet"

    def __init__(self) -> None:
        super().__init__(data=types.DiagnosticServerCancellationData(retrigger_request=True))


UnchangedReport = types.UnchangedDocumentDiagnosticReport
FullReport = types.FullDocumentDiagnosticReport


class PullDiagnostics:
    """Answers requests."""

    def __init__(self, session: Session, active: ActiveUnits, reports: FileReports, store: DiagnosticStore) -> None:
        self._session = session
        self._active = active
        self._reports = reports
        self._store = store
        self._news = anyio.Event()
        self._polled = False
        self._refreshing = False
        self._refresh_again = False
        self._sent: dict[str, dict[str, str]] = {}
        self._waiting: dict[str, set[anyio.CancelScope]] = {}
        """Requests about documents, by path."""
        options = types.DiagnosticOptions(
            inter_file_dependencies=True, workspace_diagnostics=True, identifier="ckwatch"
        )
        session.editor.add_request(types.TEXT_DOCUMENT_DIAGNOSTIC, self.document, options)
        session.editor.add_request(types.WORKSPACE_DIAGNOSTIC, self.workspace)

    async def document(
        self, params: types.DocumentDiagnosticParams
    ) -> types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport:
        """textDocument/diagnostic"""
        uri = params.text_document.uri
        path = path_of(uri)
        if path is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        document = self._session.open_at(path)
        asked = None if document is None else document.revision
        is_present = await self._wait_for_present(path)
        report = await self._reports.report(path)
        related = await self._related(uri, path)
        if not is_present or (document is not None and document.revision != asked):
            raise AskAgainError
        if params.previous_result_id == report.id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=report.id, related_documents=related)
        return types.RelatedFullDocumentDiagnosticReport(
            items=report.items, result_id=report.id, related_documents=related
        )

    async def workspace(self, params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        """workspace/diagnostic: answered when there is something that the editor does not have."""
        known = {each.uri: each.value for each in params.previous_result_ids}
        self._polled = True
        while True:
            news = self._news
            await self._reports.caught_up()
            items, changed = await self._all(known)
            if changed or not known:
                return types.WorkspaceDiagnosticReport(items)
            await news.wait()

    async def _wait_for_present(self, path: str) -> bool:
        """Wait until what is wrong in the file's present text is known, but for what compilers will find.

        False where the daemon takes too long, or the text is edited meanwhile.
        """
        last = self._reports.last(path)
        before = [] if last is None else [looks_of(item) for item in last.items]
        renders_s = anyio.current_time() + PULL_RENDERS.seconds
        is_present = False
        waiting = self._waiting.setdefault(path, set())
        with anyio.move_on_after(PULL.seconds) as scope:
            waiting.add(scope)
            try:
                while True:
                    progressed = [folder.progressed for folder in self._session.folders.values()]
                    folders = await self._reports.caught_up(path)
                    rendering = any(folder.is_rendering for folder in folders)
                    if not folders or not (rendering or self._store.is_awaited(path)):
                        return True
                    found = (await self._reports.report(path, keep=False)).items
                    is_new = any(looks_of(item) not in before for item in found)
                    is_present = is_new or not rendering
                    if is_new and (not rendering or anyio.current_time() >= renders_s):
                        return True
                    with anyio.CancelScope(deadline=renders_s if is_new else math.inf):
                        await _any(progressed)
                    is_present = False
            finally:
                waiting.discard(scope)
        return is_present

    def edited(self, path: str) -> None:
        """Who has asked about the text before is to ask again."""
        for scope in self._waiting.get(path, ()):
            scope.cancel()

    async def _all(
        self, known: dict[str, str]
    ) -> tuple[
        list[types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport], bool
    ]:
        session = self._session
        uris = dict.fromkeys((*map(session.uri_at, self._reports.paths()), *known))
        found: list[types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport] = []
        changed = False
        for uri in uris:
            path = path_of(uri)
            report = FileReport("", None, ()) if path is None else await self._reports.report(path)
            if known.get(uri) == report.id:
                found.append(types.WorkspaceUnchangedDocumentDiagnosticReport(uri, report.id, report.version))
            elif report.items or known.get(uri):
                changed = True
                found.append(
                    types.WorkspaceFullDocumentDiagnosticReport(uri, report.items, report.version, result_id=report.id)
                )
        return found, changed

    async def _related(self, uri: str, path: str) -> dict[str, FullReport | UnchangedReport] | None:
        """The diagnostics of other files that this document's units have, for editors that do not ask for all."""
        if not self._session.capabilities.related_documents or self._polled:
            return None
        session = self._session
        sent = self._sent.setdefault(uri, {})
        found: dict[str, FullReport | UnchangedReport] = {}
        document = session.open_at(path)
        units = set() if document is None else {unit.id for unit in self._active.units(document)}
        open_paths = session.documents.paths()
        others = [
            other
            for other in self._store.paths()
            if other != path and other not in open_paths and self._store.concerns(other, units)
        ]
        for other in dict.fromkeys([*others[:RELATED], *sent]):
            report = await self._reports.report(other)
            if sent.get(other) != report.id:
                found[session.uri_at(other)] = FullReport(items=report.items, result_id=report.id)
            if report.items:
                sent[other] = report.id
            else:
                sent.pop(other, None)
        return found or None

    # News.

    async def update(self, paths: Iterable[str]) -> None:
        """These files may have other diagnostics, for another reason than an edit of theirs."""
        changed = False
        for path in paths:
            before = self._reports.last(path)
            report = await self._reports.report(path)
            changed = changed or (bool(report.items) if before is None else before.id != report.id)
        self._news.set()  # what is asked about all files has not seen what was answered about one
        self._news = anyio.Event()
        if not changed:
            return
        self._refresh_again = True
        if not self._refreshing:
            self._refreshing = True
            self._session.start(self._refresh)

    async def _refresh(self) -> None:
        """One request at a time."""
        try:
            while self._refresh_again:
                self._refresh_again = False
                with anyio.move_on_after(DIAGNOSTIC_REFRESH.seconds):
                    await self._session.editor.refresh("diagnostics")
        finally:
            self._refreshing = False


async def _any(events: Iterable[anyio.Event]) -> None:
    """Wait until one of them is set."""
    async with anyio.create_task_group() as tasks:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        for event in events:
            tasks.start_soon(wait, event)


class DiagnosticsDelivery(SessionListener):
    """Follows the session: publishes changed diagnostics, or has the editor pull again."""

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self.store = DiagnosticStore(session)
        # who cannot be asked to look again would not hear of what is found after an edit
        pulls = session.capabilities.pulls_diagnostics and session.capabilities.refreshes_diagnostics
        self.reports = FileReports(session, self.store, holding=pulls)
        self._dirty: set[str] = set()
        self._shifted: set[str] = set()
        self._has_news = anyio.Event()
        self._is_reported = anyio.Event()
        """Some of the news come from the daemon."""
        self._pulls = PullDiagnostics(session, active, self.reports, self.store) if pulls else None
        self._pushes = None if pulls else PushDiagnostics(session, self.reports)
        session.listeners += [] if self._pushes is None else [self._pushes]
        self._others: set[str] = set()
        """Files with news that are not open: they wait for each other, and nothing waits for them."""
        self._has_others = anyio.Event()
        session.information_changed = self._mark
        session.start(self._run, self._deliver)
        session.start(self._run, self._deliver_others)

    def opened(self, document: TextDocument) -> None:
        """Report what is known of it."""
        self._mark([document.path] if document.path is not None else [])

    def changed(self, document: TextDocument, edits: Sequence[TextChange]) -> None:
        """Move the known diagnostics with the text."""
        self._shifted |= self.store.changed(document, edits)
        if self._pulls is not None and document.path is not None:
            self._pulls.edited(document.path)
        self._has_news.set()

    def closed(self, document: TextDocument) -> None:
        """The file counts."""
        self.store.closed(document)
        self._mark([document.path] if document.path is not None else [])

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Take the daemon's diagnostics."""
        self.store.on_daemon_change(folder, topics)
        self._mark(self._session.documents.paths() & {folder.units.path(name) for name in topics.named("unit")})
        self._mark(path for path in topics.named("elsewhere") if self._session.documents.at(path))
        if self._pushes is not None and topics.any_of("connection", "workspace"):
            self._mark(self._pushes.inherited)
        if self._dirty or self.store.pending:
            self._has_news.set()
            self._is_reported.set()

    def configured(self) -> None:
        """Sources may report something else."""
        self._mark(self.reports.paths())

    def _mark(self, paths: Iterable[str]) -> None:
        self._dirty.update(paths)
        if self._dirty:
            self._has_news.set()

    async def _run(self, deliver: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await deliver()
            except Exception:  # noqa: BLE001  # one report that cannot be made must not end all others
                _log.exception("unexpected")

    async def _deliver(self) -> None:
        await self._has_news.wait()
        with anyio.move_on_after(PUBLISH.seconds):
            await self._is_reported.wait()
        self._has_news, self._is_reported = anyio.Event(), anyio.Event()
        dirty, self._dirty = self._dirty | self.store.take(), set()
        if self.store.pending:
            self._has_news.set()
        if self._pushes is not None:  # who pulls does so after an edit
            dirty |= self._shifted
        self._shifted.clear()
        here = self._session.documents.paths() & dirty
        self._others |= dirty - here
        if self._others:
            self._has_others.set()
        await self._update(here)

    async def _deliver_others(self) -> None:
        await self._has_others.wait()
        self._has_others = anyio.Event()
        others, self._others = self._others, set()
        await self._update(others)
        await anyio.sleep(OTHER_FILES.seconds)

    async def _update(self, paths: Collection[str]) -> None:
        for each in (self._pushes, self._pulls):
            if each is not None:
                await each.update(sorted(paths))
