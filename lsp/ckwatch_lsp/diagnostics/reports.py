"""Reports all diagnostics of a file in the protocol's terms: the daemon's and those of other features.

Errors in files outside the workspace, such as a template that ckwatch ships, are also shown at the instance that they
arise in.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from anyio import to_thread
from lsprotocol import types

from ckwatch.model.diagnostics import Diagnostic, Related
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.documentation_files import documentation_folder
from ckwatch_lsp.diagnostics.conversion import DiagnosticConverter
from ckwatch_lsp.diagnostics.store import DiagnosticStore, paths_of
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.session import Session

_log = logging.getLogger(__name__)

HERE = "this is where it was found"


def at_instances(folder: WorkspaceFolder, path: str) -> list[Diagnostic]:
    """The errors of files outside of the workspace at the first instance of the kernel file `path` that they are in."""
    return [
        replace(one, span=unit.place, related=(Related(HERE, one.span), *one.related), fixes=())
        for unit, one in folder.errors_elsewhere(path)
    ]


@dataclass(frozen=True, slots=True)
class FileReport:
    """All diagnostics of a file. `id` differs from that of every report with other diagnostics of the same file."""

    id: str
    version: int | None
    items: tuple[types.Diagnostic, ...]


class FileReports:
    """Makes reports, and remembers the last of each file. `holding`: without what was found in a replaced text."""

    def __init__(self, session: Session, store: DiagnosticStore, *, holding: bool = False) -> None:
        self._holding = holding
        self._session = session
        self._store = store
        self._last: dict[str, FileReport] = {}
        self._number = 0
        self._converter: DiagnosticConverter | None = None

    def last(self, path: str) -> FileReport | None:
        """The last report of a file."""
        return self._last.get(path)

    def paths(self) -> list[str]:
        """The files of which there is something to report, as far as is known."""
        reported = (path for path, report in self._last.items() if report.items)
        return list(dict.fromkeys((*self._store.paths(), *reported)))

    async def caught_up(self, path: str | None = None) -> list[WorkspaceFolder]:
        """Wait until what is known of a file (of all without `path`) is about the open texts as they are.

        Returns the workspaces that report it. Those without a daemon are not waited for.
        """
        for document in list(self._session.documents.values()):
            await self._session.introduced(document)
        own = self._session.folder_of(path)
        folders = [one for one in self._session.folders.values() if path is None or one is own or path in one.files]
        reporting = [one for one in folders if await one.caught_up()]
        for folder in reporting:
            self._store.settle(folder)
        return reporting

    async def converter(self) -> DiagnosticConverter:
        """Return the converter of diagnostics for this editor."""
        if self._converter is None:
            pages = await to_thread.run_sync(documentation_folder)
            self._converter = DiagnosticConverter(self._session.capabilities, pages, self._session.uri_at)
        return self._converter

    async def texts(self, paths: set[str]) -> dict[str, TextDocument]:
        """The files, those that can be read."""
        found = {path: await self._session.text_at(path) for path in sorted(paths)}
        return {path: document for path, document in found.items() if document is not None}

    async def report(self, path: str, *, keep: bool = True) -> FileReport:
        """Return the present diagnostics of a file; `keep` it as the last report, which the editor gets."""
        converter = await self.converter()
        texts: dict[str, TextDocument] = {}
        needed: set[str] = set()
        while True:
            present = [*self._store.at(path, holding=self._holding), *self._of_outside_files(path)]
            missing = set[str]().union(*(paths_of(one) for one in present)) - needed
            if not missing:
                return self._make(path, present, converter, texts, keep=keep)
            needed |= missing
            texts |= await self.texts(missing)

    def _make(
        self,
        path: str,
        present: Sequence[Diagnostic],
        converter: DiagnosticConverter,
        texts: dict[str, TextDocument],
        *,
        keep: bool,
    ) -> FileReport:
        """Nothing may be waited for here: the version and the places belong together."""
        document = self._session.open_at(path)
        for name in texts:
            open_one = self._session.open_at(name)
            if open_one is not None:
                texts[name] = open_one
        items = [converter.diagnostic(one, texts, self.here(one)) for one in present]
        found = (*items, *self._information(path))
        version = None if document is None else document.version
        last = self._last.get(path)
        if (
            last is not None
            and self._store.is_moving(path)
            and list(map(looks_of, last.items)) == list(map(looks_of, found))
        ):
            found = last.items  # which unit explains it is settled when all have been rendered
        if not keep:
            return FileReport("", version, found)
        if last is None or last.items != found:
            self._number += 1
            number = str(self._number)
        else:
            number = last.id
        report = self._last[path] = FileReport(number, version, found)
        return report

    def _information(self, path: str) -> Sequence[types.Diagnostic]:
        try:
            return self._session.information(path)
        except Exception:  # noqa: BLE001  # figures that cannot be shown must not hide what is wrong
            _log.exception("unexpected, for %s", path)
            return ()

    def _of_outside_files(self, path: str) -> list[Diagnostic]:
        folder = self._session.folder_of(path)
        found = [] if folder is None else at_instances(folder, path)
        return [one for one in found if not (self._holding and one.stale)]

    def here(self, diagnostic: Diagnostic) -> list[str]:
        """The units of the diagnostic whose kernel file it stands in."""
        path = diagnostic.span.path
        return [name for name in diagnostic.units[:1] if self._session.kernel_file(name) == path]


def looks_of(item: types.Diagnostic) -> tuple[object, ...]:
    """Return the properties of it that an editor shows."""
    return (item.range, item.message, item.severity, item.code)
