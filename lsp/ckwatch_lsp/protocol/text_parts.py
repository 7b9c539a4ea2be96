"""Parts of a text, at places in code points: symbols with what is below them, and coloured pieces."""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Range
from ckwatch_lsp.protocol.position_encoding import PositionCodec


@dataclass(frozen=True, slots=True)
class TextSymbol:
    """Something with a name. `range` is all of it, `selection` its name, `detail` says more in a few words."""

    name: str
    kind: types.SymbolKind
    detail: str
    range: Range
    selection: Range
    children: tuple[TextSymbol, ...] = ()


def document_symbols(codec: PositionCodec, symbols: Iterable[TextSymbol]) -> list[types.DocumentSymbol]:
    """An outline in the editor's units."""
    return [
        types.DocumentSymbol(
            name=one.name or "?",
            kind=one.kind,
            range=codec.encode_range(one.range),
            selection_range=codec.encode_range(one.selection),
            detail=one.detail or None,
            children=document_symbols(codec, one.children),
        )
        for one in symbols
    ]


def line_runs(lines: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of two or more successive lines, as the first and the last of each."""
    found: list[tuple[int, int]] = []
    for line in lines:
        goes_on = found and found[-1][1] == line - 1
        found.append((found.pop()[0] if goes_on else line, line))
    return [run for run in found if run[1] > run[0]]


def nested(extents: Iterable[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
    """The extents that hold an offset, the smallest first, each within the next."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(set(extents), key=lambda one: (one[1] - one[0], one[0])):
        if start <= offset <= end and (not found or (start <= found[-1][0] and found[-1][1] <= end)):
            found.append((start, end))
    return found


@dataclass(frozen=True, slots=True)
class SemanticToken:
    """A piece of text with one of `TOKEN_TYPES`, on one line, and some of `TOKEN_MODIFIERS`."""

    range: Range
    type: str
    modifiers: tuple[str, ...] = ()


TOKEN_TYPES = (
    *("keyword", "variable", "parameter", "property", "function", "macro", "namespace", "class", "type"),
    *("string", "number", "comment", "operator", "decorator", "enumMember", "method", "typeParameter", "enum"),
)
TOKEN_MODIFIERS = (
    *("declaration", "definition", "readonly", "modification", "documentation", "defaultLibrary"),
    *("deprecated", "static", "abstract"),
)


@dataclass(frozen=True, slots=True)
class CompletionCandidate:
    """Something that could be written: `text`, where that is not `label`. Those of lower `order` come first.

    It replaces what is at `range`, if it has a range of its own. `filter` is what an editor compares with what is
    written so far. `refused`: a rule speaks against it, as `doc` says.
    """

    label: str
    kind: types.CompletionItemKind
    detail: str = ""
    doc: str = ""
    text: str = ""
    order: int = 1
    range: Range | None = None
    filter: str = ""
    refused: bool = False


def completion_item(one: CompletionCandidate, reach: types.Range, order: int) -> types.CompletionItem:
    """A candidate that replaces `reach`; what is refused is struck through."""
    return types.CompletionItem(
        label=one.label,
        kind=one.kind,
        detail=one.detail or None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, one.doc) if one.doc else None,
        sort_text=f"{order:05}",
        filter_text=one.filter or None,
        text_edit=types.TextEdit(reach, one.text or one.label),
        tags=[types.CompletionItemTag.Deprecated] if one.refused else None,
    )
