"""The daemon's diagnostics as the protocol writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types

from ckwatch.wire.values import Diagnostic, Span
from ckwatch_lsp.abilities import Abilities
from ckwatch_lsp.diagnostics.documentation import page_of
from ckwatch_lsp.diagnostics.known import range_in
from ckwatch_lsp.diagnostics.wording import explained, message
from ckwatch_lsp.documents import Document, uri_of

SOURCE = "ckwatch"

UNITS = 100
"""Units that are named in a diagnostic's data."""

SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}

UNNECESSARY = ("kernel-file/unused-parameter", "clang/unused-", "clang/unreachable-code")
DEPRECATED = ("clang/deprecated",)

Texts = Mapping[str, Document]
"""Files, open or not, by path; what is not there has the places that the daemon tells."""


class Converter:
    """Writes diagnostics for an editor with these abilities. `pages` is the folder of the documentation."""

    def __init__(self, abilities: Abilities, pages: Path | None, uri_at: Callable[[str], str] = uri_of) -> None:
        self._abilities = abilities
        self._pages = pages
        self._uri_at = uri_at

    def diagnostic(self, given: Diagnostic, texts: Texts, here: Collection[str] = ()) -> types.Diagnostic:
        """The same for the editor. `here`: the units whose instance it stands at."""
        able = self._abilities
        found = types.Diagnostic(
            range=their_range(given.span, texts),
            message=message(given, here, related=able.related),
            severity=SEVERITIES[given.severity],
            code=given.code,
            source=SOURCE,
        )
        if able.code_description and (href := self._href(given.code)) is not None:
            found.code_description = types.CodeDescription(href)
        if able.tags:
            found.tags = _tags(given.code) or None
        if able.related:
            found.related_information = [
                types.DiagnosticRelatedInformation(self._location(one.span or given.span, texts), one.message)
                for one in explained(given)
            ] or None
        if able.diagnostic_data:
            found.data = self._data(given, texts)
        return found

    def edits(self, given: Diagnostic, texts: Texts) -> dict[str, list[types.TextEdit]]:
        """What its fixes change, by path."""
        found: dict[str, list[types.TextEdit]] = {}
        for fix in given.fixes:
            found.setdefault(fix.span.path, []).append(types.TextEdit(their_range(fix.span, texts), fix.text))
        return found

    def _location(self, span: Span, texts: Texts) -> types.Location:
        return types.Location(self._uri_at(span.path), their_range(span, texts))

    def _href(self, code: str) -> str | None:
        page = page_of(code)
        if page is None or self._pages is None:
            return None
        name, _, section = page.partition("#")
        return uri_of(self._pages / name) + (f"#{section}" if section else "")

    def _data(self, given: Diagnostic, texts: Texts) -> dict[str, Any]:
        fixes = [
            {"uri": self._uri_at(path), "range": _plain(edit.range), "newText": edit.new_text}
            for path, edits in self.edits(given, texts).items()
            for edit in edits
        ]
        return {"units": list(given.units[:UNITS]), "unitCount": given.unit_count, "fixes": fixes}


def their_range(span: Span, texts: Texts) -> types.Range:
    """The place in the editor's units."""
    document = texts.get(span.path)
    if document is not None:
        return document.places.their_range(range_in(span))
    start, end = span.start, span.end
    return types.Range(types.Position(start.line, start.column), types.Position(end.line, end.column))


def _tags(code: str) -> list[types.DiagnosticTag]:
    found = [types.DiagnosticTag.Unnecessary] if code.startswith(UNNECESSARY) else []
    return [*found, types.DiagnosticTag.Deprecated] if code.startswith(DEPRECATED) else found


def _plain(given: types.Range) -> dict[str, dict[str, int]]:
    start, end = given.start, given.end
    return {
        "start": {"line": start.line, "character": start.character},
        "end": {"line": end.line, "character": end.character},
    }
