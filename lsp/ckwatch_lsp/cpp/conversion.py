"""Converts the daemon's answers about C++ to the protocol's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch.wire.cpp import (
    CppAction,
    CppCompletion,
    CppCompletions,
    CppHint,
    CppHover,
    CppSignature,
    CppSignatures,
    CppSymbol,
    CppToken,
    OtherValue,
)
from ckwatch.wire.cpp import Range as WireRange
from ckwatch.wire.state import Position as WirePosition
from ckwatch_lsp.cpp.questions import Asked
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.position_encoding import PositionCodec
from ckwatch_lsp.session.providers import TOKEN_MODIFIERS, SemanticToken

TOKEN_TYPES = {
    **{name: name for name in ("variable", "parameter", "function", "method", "property", "class", "enum")},
    **{name: name for name in ("enumMember", "type", "namespace", "typeParameter", "macro")},
    "struct": "class",
    "interface": "class",
    "concept": "type",
}
"""What clangd calls a name, and what it is shown as. Brackets, operators, labels, comments and what clangd does not
know are left to the editor."""

_PLACEHOLDER = re.compile(r"(\$\{\d+)")
_ESCAPED = re.compile(r"\\([$}\\])")

SHOWN_UNITS = 1
"""Other instances that are named."""


def place_in(about: Asked, given: WirePosition) -> Position:
    """A place of the document."""
    return about.to_document(Position(given.line, given.column))


def range_in(about: Asked, given: WireRange) -> Range:
    """A range of the document."""
    return Range(place_in(about, given.start), place_in(about, given.end))


def hover_text(hover: CppHover, unit: str, *, several: bool) -> str:
    """What stands there, and in which instance if there are `several`; then where it is something else."""
    parts = [hover.markdown.strip()]
    if hover.produced:
        parts.append(f"in `{unit}`: {_quoted(hover.produced)}")
    elif several:
        parts.append(f"in `{unit}`")
    elsewhere = [_quoted(_said(each.text)) for each in hover.others if not each.units]
    others = [_other(each) for each in hover.others if each.units]
    if elsewhere:
        parts.append(f"where it stands again: {', '.join(elsewhere)}")
    if others:
        parts.append(f"other instances: {', '.join(others)}")
    return "\n\n".join(part for part in parts if part)


def _other(other: OtherValue) -> str:
    shown = [f"`{name}`" for name in other.units[:SHOWN_UNITS]]
    more = len(other.units) - len(shown)
    return f"{_quoted(_said(other.text))} ({', '.join(shown)}{f', and {more} more' if more else ''})"


def _said(text: str) -> str:
    """Type and value in one line."""
    return ", ".join(line.strip() for line in text.removeprefix("Type: ").splitlines())


def _quoted(text: str) -> str:
    if "\n" in text.strip():
        fence = "````" if "```" in text else "```"
        return f"\n\n{fence}cpp\n{text.strip()}\n{fence}\n\n"
    return text if "`" in text else f"`{text.strip()}`"


def completion_list(
    found: CppCompletions, about: Asked, codec: PositionCodec, able: EditorCapabilities
) -> types.CompletionList:
    """What could be written."""
    items = [_item(item, about, codec, able) for item in found.items]
    return types.CompletionList(is_incomplete=found.incomplete, items=items)


def _item(item: CppCompletion, about: Asked, codec: PositionCodec, able: EditorCapabilities) -> types.CompletionItem:
    snippet = item.snippet and able.snippets
    text = plain_text(item.text) if item.snippet and not snippet else item.text
    markdown = types.MarkupKind.Markdown if able.completion_markdown else types.MarkupKind.PlainText
    return types.CompletionItem(
        label=item.label,
        kind=types.CompletionItemKind(item.kind),
        detail=item.detail or None,
        documentation=types.MarkupContent(markdown, item.documentation) if item.documentation else None,
        deprecated=item.deprecated or None,
        filter_text=item.filter_text or None,
        sort_text=item.sort_text or None,
        insert_text_format=types.InsertTextFormat.Snippet if snippet else None,
        text_edit=types.TextEdit(codec.encode_range(range_in(about, item.range)), text),
    )


def plain_text(snippet: str) -> str:
    """A snippet for editors that have none: up to its first placeholder."""
    before, placeholder, _ = (
        _PLACEHOLDER.split(snippet, maxsplit=1) if _PLACEHOLDER.search(snippet) else (snippet, "", "")
    )
    text = before.rstrip("(<{ ") if placeholder else before
    return _ESCAPED.sub(r"\1", text.removesuffix("$0"))


def signature_help(found: CppSignatures, able: EditorCapabilities) -> types.SignatureHelp:
    """What a call takes."""
    return types.SignatureHelp(
        signatures=[_signature(each, able) for each in found.signatures],
        active_signature=found.active,
        active_parameter=found.active_parameter,
    )


def _signature(given: CppSignature, able: EditorCapabilities) -> types.SignatureInformation:
    doc = types.MarkupContent(types.MarkupKind.Markdown, given.documentation) if given.documentation else None
    codec = PositionCodec([given.label], able.encoding)
    labels = [
        (codec.encode(Position(0, start)).character, codec.encode(Position(0, end)).character)
        if able.signature_offsets
        else given.label[start:end]
        for start, end in given.parameters
    ]
    return types.SignatureInformation(
        label=given.label, documentation=doc, parameters=[types.ParameterInformation(label) for label in labels]
    )


def document_symbols(found: Sequence[CppSymbol], about: Asked, codec: PositionCodec) -> list[types.DocumentSymbol]:
    """An outline."""
    return [
        types.DocumentSymbol(
            name=each.name or "?",
            kind=types.SymbolKind(each.kind),
            range=codec.encode_range(range_in(about, each.range)),
            selection_range=codec.encode_range(range_in(about, each.name_range)),
            detail=each.detail or None,
            children=document_symbols(each.children, about, codec),
        )
        for each in found
    ]


def semantic_tokens(found: Sequence[CppToken], about: Asked) -> list[SemanticToken]:
    """What names are, in the words of our legend."""
    tokens = []
    for line, column, length, kind, modifiers in found:
        shown = TOKEN_TYPES.get(kind)
        if shown is not None:
            start = about.to_document(Position(line, column))
            reach = Range(start, Position(start.line, start.column + length))
            tokens.append(SemanticToken(reach, shown, tuple(one for one in modifiers if one in TOKEN_MODIFIERS)))
    return tokens


def inlay_hint(hint: CppHint, at: Position, codec: PositionCodec) -> types.InlayHint:
    """A parameter's name or a type."""
    return types.InlayHint(
        position=codec.encode(at),
        label=hint.label,
        kind=types.InlayHintKind(hint.kind) if hint.kind in (1, 2) else None,
        padding_left=hint.space_before or None,
        padding_right=hint.space_after or None,
    )


def action_kind(action: CppAction) -> types.CodeActionKind:
    """As the server announces kinds."""
    quick = types.CodeActionKind.QuickFix
    return quick if action.kind.startswith(quick.value) else types.CodeActionKind.Refactor
