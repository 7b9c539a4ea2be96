"""What the pure language says, as the protocol has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from ckwatch_lsp.documents import Document
from ckwatch_lsp.kernel_file.completion import Candidate, CandidateKind
from ckwatch_lsp.kernel_file.editing import Edit
from ckwatch_lsp.kernel_file.outline import Fold, Symbol, SymbolKind
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

_ITEMS = {
    CandidateKind.KEY: types.CompletionItemKind.Property,
    CandidateKind.PARAMETER: types.CompletionItemKind.Field,
    CandidateKind.TABLE: types.CompletionItemKind.Module,
    CandidateKind.VALUE: types.CompletionItemKind.Value,
    CandidateKind.TEMPLATE: types.CompletionItemKind.File,
    CandidateKind.INSTANCE: types.CompletionItemKind.Reference,
}
SYMBOLS = {
    SymbolKind.KERNEL: types.SymbolKind.File,
    SymbolKind.TABLE: types.SymbolKind.Namespace,
    SymbolKind.SHAPE: types.SymbolKind.Struct,
    SymbolKind.INSTANCE: types.SymbolKind.Object,
    SymbolKind.SWEEP: types.SymbolKind.Array,
    SymbolKind.KEY: types.SymbolKind.Property,
}


def item(document: Document, candidate: Candidate, position: Position) -> types.CompletionItem:
    """A candidate; what the rules refuse is struck through."""
    reach = candidate.range
    if reach.start.line != reach.end.line or not reach.holds(position):
        reach = Range(position, position)
    doc = types.MarkupContent(types.MarkupKind.Markdown, candidate.doc) if candidate.doc else None
    return types.CompletionItem(
        label=candidate.label,
        kind=_ITEMS[candidate.kind],
        detail=candidate.detail or None,
        documentation=doc,
        sort_text=f"{candidate.order:05}",
        filter_text=candidate.filter or None,
        text_edit=types.TextEdit(document.places.their_range(reach), candidate.text),
        tags=[types.CompletionItemTag.Deprecated] if candidate.refused else None,
    )


def symbol(document: Document, one: Symbol) -> types.DocumentSymbol:
    """A symbol with what is below it."""
    return types.DocumentSymbol(
        name=one.name,
        kind=SYMBOLS[one.kind],
        range=document.places.their_range(one.range),
        selection_range=document.places.their_range(one.selection),
        detail=one.detail or None,
        children=[symbol(document, child) for child in one.children],
    )


def fold(one: Fold) -> types.FoldingRange:
    """Lines that can be folded."""
    kind = types.FoldingRangeKind.Comment if one.comment else types.FoldingRangeKind.Region
    return types.FoldingRange(one.start, one.end, kind=kind)


def workspace_edit(session: Session, document: Document, edits: Iterable[Edit]) -> types.WorkspaceEdit:
    """Edits of one document; with its version where the editor takes that."""
    made: Sequence[types.TextEdit] = [types.TextEdit(document.places.their_range(one.range), one.text) for one in edits]
    if not session.abilities.versioned_edits:
        return types.WorkspaceEdit(changes={document.uri: made})
    named = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(named, list(made))])
