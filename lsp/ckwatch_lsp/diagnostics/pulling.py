"""Diagnostics for editors that ask for them, and are told when to ask again."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch_lsp.diagnostics.reports import Report, Reports
from ckwatch_lsp.diagnostics.tracking import Tracker
from ckwatch_lsp.documents import path_of

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

_log = logging.getLogger(__name__)

REFRESH_S = 5.0
"""After so long an editor that has not answered is asked again."""

RELATED = 50
"""Other files whose diagnostics go with those of a document."""

Unchanged = types.UnchangedDocumentDiagnosticReport
Full = types.FullDocumentDiagnosticReport


class Pulling:
    """Answers requests. `related_documents`: the editor takes those of other files with a document's."""

    def __init__(self, server: CkwatchServer, reports: Reports, tracker: Tracker, *, related_documents: bool) -> None:
        self._server = server
        self._reports = reports
        self._tracker = tracker
        self._related_documents = related_documents
        self._news = anyio.Event()
        self._polled = False
        self._refreshing = False
        self._refresh_again = False
        self._sent: dict[str, dict[str, str]] = {}
        options = types.DiagnosticOptions(
            inter_file_dependencies=True, workspace_diagnostics=True, identifier="ckwatch"
        )
        server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)(self.document)
        server.feature(types.WORKSPACE_DIAGNOSTIC)(self.workspace)

    async def document(
        self, params: types.DocumentDiagnosticParams
    ) -> types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport:
        """textDocument/diagnostic"""
        uri = params.text_document.uri
        path = path_of(uri)
        if path is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        report = await self._reports.of(path)
        related = await self._related(uri, path)
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
            items, changed = await self._all(known)
            if changed or not known:
                return types.WorkspaceDiagnosticReport(items)
            await news.wait()

    async def _all(
        self, known: dict[str, str]
    ) -> tuple[
        list[types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport], bool
    ]:
        session = self._server.session
        uris = dict.fromkeys((*map(session.uri_at, self._reports.paths()), *known))
        found: list[types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport] = []
        changed = False
        for uri in uris:
            path = path_of(uri)
            report = Report("", None, ()) if path is None else await self._reports.of(path)
            if known.get(uri) == report.id:
                found.append(types.WorkspaceUnchangedDocumentDiagnosticReport(uri, report.id, report.version))
            elif report.items or known.get(uri):
                changed = True
                found.append(
                    types.WorkspaceFullDocumentDiagnosticReport(uri, report.items, report.version, result_id=report.id)
                )
        return found, changed

    async def _related(self, uri: str, path: str) -> dict[str, Full | Unchanged] | None:
        """The diagnostics of other files that this document's units have, for editors that do not ask for all."""
        if not self._related_documents or self._polled:
            return None
        session = self._server.session
        sent = self._sent.setdefault(uri, {})
        found: dict[str, Full | Unchanged] = {}
        document = session.open_at(path)
        units = set() if document is None else {unit.id for unit in session.active.units(document)}
        others = [
            other
            for other in self._tracker.paths()
            if other != path and session.open_at(other) is None and self._tracker.concerns(other, units)
        ]
        for other in dict.fromkeys([*others[:RELATED], *sent]):
            report = await self._reports.of(other)
            if sent.get(other) != report.id:
                found[session.uri_at(other)] = Full(items=report.items, result_id=report.id)
            if report.items:
                sent[other] = report.id
            else:
                sent.pop(other, None)
        return found or None

    # News.

    async def tell(self, paths: Iterable[str]) -> None:
        """These files may have other diagnostics, for another reason than an edit of theirs."""
        changed = False
        for path in paths:
            before = self._reports.last(path)
            report = await self._reports.of(path)
            changed = changed or (bool(report.items) if before is None else before.id != report.id)
        if not changed:
            return
        self._news.set()
        self._news = anyio.Event()
        self._refresh_again = True
        if not self._refreshing:
            self._refreshing = True
            self._server.session.start(self._refresh)

    async def _refresh(self) -> None:
        """One request at a time."""
        try:
            while self._refresh_again:
                self._refresh_again = False
                with anyio.move_on_after(REFRESH_S):
                    await self._server.workspace_diagnostic_refresh_async(None)
        except JsonRpcException as error:
            _log.info("the editor does not ask for diagnostics again: %s", error)
        finally:
            self._refreshing = False
