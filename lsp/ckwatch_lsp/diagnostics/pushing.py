"""Diagnostics for editors that do not ask for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ckwatch_lsp.diagnostics.reports import Report, Reports
from ckwatch_lsp.documents import uri_of
from ckwatch_lsp.folder import Standing

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session


class Pushing:
    """Publishes what is another, for every file, open or not."""

    def __init__(self, session: Session, reports: Reports) -> None:
        self._session = session
        self._reports = reports
        self._published: dict[str, dict[str, tuple[types.Diagnostic, ...]]] = {}
        self.inherited: dict[str, list[str]] = {}
        """By path the URIs for which the editor shows what another version has told it."""

    def remains(self) -> dict[str, Any]:
        """By path the URIs for which the editor shows something."""
        shown = {path: [uri for uri, items in known.items() if items] for path, known in self._published.items()}
        return {"shown": {**self.inherited, **shown}}

    def resume(self, remains: dict[str, Any]) -> None:
        """The editor shows what another version has told it, until more is known."""
        self.inherited.update(remains.get("shown", {}))

    async def tell(self, paths: Iterable[str]) -> None:
        """These files may have other diagnostics."""
        for path in paths:
            self._publish(path, await self._reports.of(path))

    def _publish(self, path: str, report: Report) -> None:
        if path in self.inherited and not report.items and self._is_to_come(path):
            return
        for uri in self.inherited.pop(path, ()):
            if not report.items or not any(each.uri == uri for each in self._session.documents.values()):
                self._send(uri, None, ())
        documents = [each for each in self._session.documents.values() if each.path == path]
        known = self._published.setdefault(path, {})
        versions = {each.uri: each.version for each in documents} or {uri_of(path): None}
        for uri in [uri for uri in known if uri not in versions]:
            if known.pop(uri):
                self._send(uri, None, ())
        for uri, version in versions.items():
            if known.get(uri, ()) != report.items:
                known[uri] = report.items
                self._send(uri, version, report.items)
        if not any(known.values()):
            del self._published[path]

    def _is_to_come(self, path: str) -> bool:
        """Whether the daemon has not yet told all that it will."""
        folder = self._session.folder_of(path)
        if folder is None or folder.standing not in (Standing.STARTING, Standing.READY):
            return False
        return folder.workspace is None or not folder.workspace.loaded or folder.workspace.busy or folder.renders

    def _send(self, uri: str, version: int | None, items: tuple[types.Diagnostic, ...]) -> None:
        shown = version if self._session.abilities.versions else None
        params = types.PublishDiagnosticsParams(uri=uri, diagnostics=items, version=shown)
        self._session.server.text_document_publish_diagnostics(params)
