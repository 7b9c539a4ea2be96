"""Outlines and signatures of templates as the protocol has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lsprotocol import types

from ckwatch_lsp.jinja.calls import Signature
from ckwatch_lsp.jinja.outline import Outline, outline
from ckwatch_lsp.places import Places
from ckwatch_lsp.templates.files import Shelf
from ckwatch_lsp.text import Range

KINDS = {
    "macro": types.SymbolKind.Function,
    "block": types.SymbolKind.Class,
    "variable": types.SymbolKind.Variable,
    "module": types.SymbolKind.Module,
    "include": types.SymbolKind.File,
}

SYMBOL_LIMIT = 200
"""Symbols of one answer."""


def document_symbols(places: Places, entries: Sequence[Outline]) -> list[types.DocumentSymbol]:
    """An outline."""
    return [
        types.DocumentSymbol(
            name=entry.name or "?",
            kind=KINDS[entry.kind],
            range=places.their_range(entry.range),
            selection_range=places.their_range(entry.selection),
            detail=entry.detail or None,
            children=document_symbols(places, entry.children),
        )
        for entry in entries
    ]


def matching_symbols(shelf: Shelf, query: str, root: str) -> list[tuple[str, types.SymbolKind, str, str, Range]]:
    """Macros, blocks and outermost variables with `query` in their names: name, kind, template, path, place.

    Those of the workspace at `root` come before built-in ones; at most `SYMBOL_LIMIT`.
    """
    found: list[tuple[str, types.SymbolKind, str, str, Range]] = []
    wanted = query.casefold()
    for path in sorted(shelf.index.files, key=lambda path: (not path.startswith(f"{root}/"), path)):
        name = shelf.name_of(path)
        for entry in _all(outline(shelf.index.files[path])):
            if entry.kind in ("macro", "block", "variable") and wanted in entry.name.casefold():
                found.append((entry.name, KINDS[entry.kind], name, path, entry.selection))
                if len(found) >= SYMBOL_LIMIT:
                    return found
    return found


def signature_information(found: Sequence[Signature]) -> types.SignatureHelp:
    """What is called, with the parameter that is being written."""
    infos = []
    for each in found:
        called = each.callable
        doc = types.MarkupContent(types.MarkupKind.Markdown, called.doc) if called.doc else None
        parameters = [types.ParameterInformation(str(argument)) for argument in called.arguments]
        infos.append(
            types.SignatureInformation(
                label=called.label,
                documentation=doc,
                parameters=parameters,
                active_parameter=_active(each),
            )
        )
    return types.SignatureHelp(signatures=infos, active_signature=0, active_parameter=_active(found[0]))


def _active(signature: Signature) -> int | None:
    """A number past the last parameter says that it is none of them."""
    return len(signature.callable.arguments) if signature.active is None else signature.active


def _all(entries: Sequence[Outline]) -> Iterator[Outline]:
    for entry in entries:
        yield entry
        if entry.kind == "block":
            yield from _all(entry.children)
