"""Converts the daemon's diagnostics to the protocol's: message, instances, related information, documentation link."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from ckwatch.model.diagnostics import Diagnostic, Related
from ckwatch.model.documentation import page_of
from ckwatch.model.text import Span
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.documents import TextDocument, editor_range

NAMED = 3
"""Instances that are named before it is said how many more there are."""

EXPLAINED = 400
"""Characters of an explanation that is shown with the message."""


def instances(diagnostic: Diagnostic, here: Collection[str]) -> str:
    """`in 3 of 24 instances: a, b, c`; empty where there is no other instance. `here`: the units whose instance the
    diagnostic stands at; it is not named when it is the only one."""
    units = diagnostic.units
    if not units or diagnostic.unit_count <= 1 or (len(units) == 1 and units[0] in here):
        return ""
    if len(units) >= diagnostic.unit_count:
        return f"in all {diagnostic.unit_count} instances"
    names = short_names(units)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"in {len(units)} of {diagnostic.unit_count} instances: {', '.join(names[:NAMED])}{more}"


def short_names(units: Sequence[str]) -> list[str]:
    """Units without what all of them share: the kernel, the arch."""
    kernels = {unit.partition("/")[0] for unit in units}
    archs = {unit.rpartition("@")[2] for unit in units}
    found = []
    for unit in units:
        kernel, _, rest = unit.partition("/")
        instance, _, arch = rest.rpartition("@")
        name = instance if len(kernels) == 1 else f"{kernel}/{instance}"
        found.append(name if len(archs) == 1 else f"{name}@{arch}")
    return found


def explained(diagnostic: Diagnostic) -> tuple[Related, ...]:
    """Everything that explains it: what it is related to, and a rule's own words; of a wrong value of an instance the
    other parameters of the rule."""
    if diagnostic.code.startswith(ABOUT_PARAMETERS):
        placed = [one for one in diagnostic.related if one.span is not None and one.span.path == diagnostic.span.path]
        terms = tuple(one for one in placed if one.message.partition(" = ")[0].isidentifier())
        if terms:
            return terms
    detail = diagnostic.detail
    if diagnostic.source == "rule" and detail and len(detail) <= EXPLAINED:
        return (*diagnostic.related, Related(detail, None))
    return diagnostic.related


def message_of(diagnostic: Diagnostic, here: Collection[str], *, related: bool) -> str:
    """The whole message. `related`: what explains it is shown apart, else the most important of it is in here."""
    counted = instances(diagnostic, here)
    first, end, formula = diagnostic.message.partition("\n")
    text = f"{first} ({counted}){end}{formula}" if counted else diagnostic.message
    if related:
        return text
    everything = explained(diagnostic)
    hint = next((one.message for one in (*diagnostic.related, *everything) if one.span is None), None)
    place = next((_placed(one) for one in everything if one.span is not None and one.span != diagnostic.span), None)
    return "\n".join(line for line in (text, hint, place) if line)


def _placed(one: Related) -> str:
    assert one.span is not None  # noqa: S101  # the caller looked
    return f"{one.span.path.rpartition('/')[2]}:{one.span.start.line + 1}: {one.message}"


def fix_title(replaced: Sequence[str], texts: Sequence[str], files: Collection[str] = ()) -> str:
    """Return the title of a fix: `Replace 'a' by 'b'`; `files` are the names of those that it changes, if it changes
    others than the one that is looked at."""
    where = f" in {', '.join(sorted(files))}" if files else ""
    if len(texts) == 1:
        old, new = _quoted(replaced[0]), _quoted(texts[0])
        if not replaced[0]:
            return f"Insert {new}{where}"
        return f"Replace {old} by {new}{where}" if texts[0] else f"Remove {old}{where}"
    return f"Fix it in {len(texts)} places{where}"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    shown = line if len(line) <= 40 else line[:39] + "…"
    return f"'{shown}'" if "'" not in shown else f"“{shown}”"


ABOUT_PARAMETERS = ("rule/", "ck/", "clang/static-assertion")
"""Codes of what is wrong with parameters: a formula that has values for its names."""

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

Texts = Mapping[str, TextDocument]
"""Files, open or not, by path; for others the daemon's places are used as they are."""


class DiagnosticConverter:
    """Writes diagnostics for an editor with these capabilities. `pages` is the folder of the documentation."""

    def __init__(
        self, capabilities: EditorCapabilities, pages: Path | None, uri_at: Callable[[str], str] = uri_of
    ) -> None:
        self._capabilities = capabilities
        self._pages = pages
        self._uri_at = uri_at

    def diagnostic(self, given: Diagnostic, texts: Texts, here: Collection[str] = ()) -> types.Diagnostic:
        """The same for the editor. `here`: the units whose instance it stands at."""
        able = self._capabilities
        found = types.Diagnostic(
            range=editor_range(texts.get(given.span.path), given.span.range),
            message=message_of(given, here, related=able.related),
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
        """Return the edits of its fixes, by path."""
        found: dict[str, list[types.TextEdit]] = {}
        for fix in given.fixes:
            found.setdefault(fix.span.path, []).append(
                types.TextEdit(editor_range(texts.get(fix.span.path), fix.span.range), fix.text)
            )
        return found

    def _location(self, span: Span, texts: Texts) -> types.Location:
        return types.Location(self._uri_at(span.path), editor_range(texts.get(span.path), span.range))

    def _href(self, code: str) -> str | None:
        page = page_of(code)
        if page is None or self._pages is None:
            return None
        name, _, section = page.partition("#")
        return uri_of(self._pages / name) + (f"#{section}" if section else "")

    def _data(self, given: Diagnostic, texts: Texts) -> dict[str, Any]:
        fixes = [
            {"uri": self._uri_at(path), "range": plain_range(edit.range), "newText": edit.new_text}
            for path, edits in self.edits(given, texts).items()
            for edit in edits
        ]
        return {"units": list(given.units[:UNITS]), "unitCount": given.unit_count, "fixes": fixes}


def _tags(code: str) -> list[types.DiagnosticTag]:
    found = [types.DiagnosticTag.Unnecessary] if code.startswith(UNNECESSARY) else []
    return [*found, types.DiagnosticTag.Deprecated] if code.startswith(DEPRECATED) else found


def plain_range(given: types.Range) -> dict[str, dict[str, int]]:
    """The range as JSON."""
    start, end = given.start, given.end
    return {
        "start": {"line": start.line, "character": start.character},
        "end": {"line": end.line, "character": end.character},
    }
