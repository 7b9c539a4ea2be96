"""Completion of templates, as the protocol has it."""

from __future__ import annotations

from lsprotocol import types

from ckwatch_lsp.documents import Document
from ckwatch_lsp.jinja.candidates import Candidate
from ckwatch_lsp.jinja.completion import Completion, Surroundings, completion
from ckwatch_lsp.jinja.index import File
from ckwatch_lsp.jinja.parameters import parameters_of
from ckwatch_lsp.templates.files import Shelf
from ckwatch_lsp.text import Position

_KINDS = {
    "variable": types.CompletionItemKind.Variable,
    "parameter": types.CompletionItemKind.Constant,
    "macro": types.CompletionItemKind.Function,
    "module": types.CompletionItemKind.Module,
    "filter": types.CompletionItemKind.Function,
    "test": types.CompletionItemKind.Function,
    "hook": types.CompletionItemKind.Function,
    "global": types.CompletionItemKind.Variable,
    "keyword": types.CompletionItemKind.Keyword,
    "statement": types.CompletionItemKind.Keyword,
    "attribute": types.CompletionItemKind.Property,
    "argument": types.CompletionItemKind.Field,
    "template": types.CompletionItemKind.File,
    "value": types.CompletionItemKind.Value,
}

WORTH_A_SPACE = frozenset(("statement", "filter", "test", "import", "expression", "template"))
"""Where a space that was typed is worth a list."""


def complete(
    document: Document,
    shelf: Shelf,
    file: File,
    position: Position,
    parameters: dict[str, str],
    context: types.CompletionContext | None,
) -> types.CompletionList | None:
    """What can be written at `position`. `parameters`: the active instance's, as they are shown. In a thread."""
    offset = file.template.lines.offset(position)
    if file.template.tag_at(offset) is None:
        return None
    names = parameters_of(shelf.index, file.path, besides=offset)
    known = {name: parameters.get(name, "") for name in names} | parameters
    around = Surroundings(tuple(known.items()), tuple(sorted(shelf.names)), _families(shelf))
    found = completion(shelf.index, file.path, position, around)
    if not found.candidates or (_typed_space(context) and found.where not in WORTH_A_SPACE):
        return None
    reach = document.places.their_range(found.range)
    items = [_item(candidate, number, reach) for number, candidate in enumerate(_ordered(found))]
    return types.CompletionList(is_incomplete=False, items=items)


def _ordered(found: Completion) -> list[Candidate]:
    """Among names, what is the instance's own comes right behind the template's variables."""
    return sorted(found.candidates, key=lambda each: (each.rank, each.kind != "argument", each.kind == "global"))


def _typed_space(context: types.CompletionContext | None) -> bool:
    return context is not None and context.trigger_character in (" ", "=")


def _families(shelf: Shelf) -> tuple[str, ...]:
    before, after = "hooks/header_", ".j2"
    return tuple(
        name.removeprefix(before).removesuffix(after) for name in sorted(shelf.names) if name.startswith(before)
    )


def _item(candidate: Candidate, number: int, reach: types.Range) -> types.CompletionItem:
    text = candidate.insert or candidate.label
    first = candidate.doc.partition("\n\n")[0]
    doc = types.MarkupContent(types.MarkupKind.Markdown, first) if first else None
    return types.CompletionItem(
        label=candidate.label,
        kind=_KINDS[candidate.kind],
        detail=candidate.detail or None,
        documentation=doc,
        sort_text=f"{number:05}",
        text_edit=types.TextEdit(reach, text),
    )
