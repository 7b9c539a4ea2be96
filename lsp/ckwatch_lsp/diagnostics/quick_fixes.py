"""Quick fixes: code actions for the fixes that the daemon's diagnostics carry."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

import anyio
from lsprotocol import types

from ckwatch.model.delays import CODE_ACTIONS
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.text import Range
from ckwatch_lsp.diagnostics.conversion import DiagnosticConverter, Texts, fix_title
from ckwatch_lsp.diagnostics.reports import FileReports
from ckwatch_lsp.diagnostics.store import DiagnosticStore, paths_of
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.providers import LanguageProvider, is_requested
from ckwatch_lsp.session.session import Session

Edits = dict[str, list[types.TextEdit]]
"""By path."""


class QuickFixes(LanguageProvider):
    """Offers the daemon's fixes for what stands in the range, and for everything of the same kind in the file."""

    def __init__(self, session: Session, store: DiagnosticStore, reports: FileReports) -> None:
        self._session = session
        self._store = store
        self._reports = reports

    async def actions(
        self, document: TextDocument, within: Range, context: types.CodeActionContext
    ) -> Sequence[types.CodeAction]:
        """Quick fixes."""
        if document.path is None or not is_requested(context.only, types.CodeActionKind.QuickFix):
            return ()
        converter = await self._reports.converter()
        with anyio.move_on_after(CODE_ACTIONS.seconds) as waited:
            await self._reports.caught_up(document.path)
        if waited.cancelled_caught:
            return ()
        fixable = self._fixable(document.path)
        touched = [one for one in fixable if within.meets(one.span.range)]
        if not touched:
            return ()
        texts = await self._reports.texts(set[str]().union(*map(paths_of, fixable)))
        # what was waited for may have taken long enough for another edit: then there is nothing to offer
        if fixable != self._fixable(document.path):
            return ()
        found = [self._action(one, converter, texts) for one in touched]
        for code in dict.fromkeys(one.code for one in touched):
            alike = [one for one in fixable if one.code == code]
            if len(alike) > 1:
                found.append(self._all(code, alike, converter, texts))
        return found

    def _fixable(self, path: str) -> list[Diagnostic]:
        return [one for one in self._store.at(path, holding=True) if one.fixes]

    def _action(self, one: Diagnostic, converter: DiagnosticConverter, texts: Texts) -> types.CodeAction:
        edits, written = converter.edits(one, texts), [fix.text for fix in one.fixes]
        replaced = [_text(texts, fix.span.path, fix.span.range) for fix in one.fixes]
        files = {posixpath.basename(path) for path in edits} if edits.keys() != {one.span.path} else set()
        return types.CodeAction(
            title=fix_title(replaced, written, files),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[converter.diagnostic(one, texts, self._reports.here(one))],
            is_preferred=True,
            edit=self._edit(edits),
        )

    def _edit(self, edits: Edits) -> types.WorkspaceEdit:
        return self._session.workspace_edit({self._session.uri_at(path): made for path, made in edits.items()})

    def _all(
        self, code: str, alike: Sequence[Diagnostic], converter: DiagnosticConverter, texts: Texts
    ) -> types.CodeAction:
        edits: Edits = {}
        fixed = []
        for one in alike:
            more = converter.edits(one, texts)
            if any(_clash(edit, other) for path in more for edit in more[path] for other in edits.get(path, ())):
                continue
            fixed.append(converter.diagnostic(one, texts, self._reports.here(one)))
            for path, new in more.items():
                edits.setdefault(path, []).extend(new)
        return types.CodeAction(
            title=f"Fix all {len(fixed)} of {code} in this file",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=fixed,
            edit=self._edit(edits),
        )


def _text(texts: Texts, path: str, place: Range) -> str:
    """Return the text at a place; of several lines the first."""
    document = texts.get(path)
    if document is None:
        return ""
    line = document.line(place.start.line)
    end = place.end.column if place.end.line == place.start.line else len(line)
    return line[place.start.column : end]


def _clash(one: types.TextEdit, other: types.TextEdit) -> bool:
    first, second = sorted((one.range, other.range), key=lambda each: (each.start, each.end))
    return second.start < first.end or first == second
