"""Converts locations, edits, symbols, signatures and completions of templates to the protocol's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.text_parts import CompletionCandidate, TextSymbol, completion_item
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter.library import TemplateSet
from ckwatch_lsp.templates.language.completion import (
    CompletionContext,
    TemplateCompletion,
    completion,
)
from ckwatch_lsp.templates.language.index import TemplateFile, parameters_of
from ckwatch_lsp.templates.language.outline import outline
from ckwatch_lsp.templates.language.signatures import CallSignature, written


async def locations(session: Session, places: Iterable[tuple[str, Range]]) -> list[types.Location]:
    """Convert places (path, range) for the editor, each once, file by file."""
    found: list[types.Location] = []
    by_path: dict[str, dict[Range, None]] = {}
    for path, reach in places:
        by_path.setdefault(path, {})[reach] = None
    for path, ranges in by_path.items():
        document = await session.text_at(path)
        if document is not None:
            uri = session.uri_at(path)
            found += [types.Location(uri, document.codec.encode_range(reach)) for reach in sorted(ranges)]
    return found


async def replacements(
    session: Session, places: Iterable[tuple[str, Range]], text: str
) -> dict[str, list[types.TextEdit]]:
    """Edits that put `text` at each place, by URI."""
    edits: dict[str, list[types.TextEdit]] = {}
    for location in await locations(session, places):
        edits.setdefault(location.uri, []).append(types.TextEdit(location.range, text))
    return edits


SYMBOL_LIMIT = 200
"""Symbols of one answer."""


_NAMED = (types.SymbolKind.Function, types.SymbolKind.Class, types.SymbolKind.Variable)


def matching_symbols(
    templates: TemplateSet, query: str, root: str
) -> list[tuple[str, types.SymbolKind, str, str, Range]]:
    """Macros, blocks and outermost variables with `query` in their names: name, kind, template, path, place.

    Those of the workspace at `root` come before built-in ones; at most `SYMBOL_LIMIT`.
    """
    found: list[tuple[str, types.SymbolKind, str, str, Range]] = []
    wanted = query.casefold()
    for path in sorted(templates.index.files, key=lambda path: (not path.startswith(f"{root}/"), path)):
        name = templates.name_of(path)
        for entry in _all(outline(templates.index.files[path])):
            if entry.kind in _NAMED and wanted in entry.name.casefold():
                found.append((entry.name, entry.kind, name, path, entry.selection))
                if len(found) >= SYMBOL_LIMIT:
                    return found
    return found


def signature_information(found: Sequence[CallSignature]) -> types.SignatureHelp:
    """Return the signature of a call, with the parameter that is being written."""
    infos = []
    for each in found:
        called = each.callable
        doc = types.MarkupContent(types.MarkupKind.Markdown, called.doc) if called.doc else None
        parameters = [types.ParameterInformation(written(argument)) for argument in called.arguments]
        infos.append(
            types.SignatureInformation(
                label=called.label,
                documentation=doc,
                parameters=parameters,
                active_parameter=_active(each),
            )
        )
    return types.SignatureHelp(signatures=infos, active_signature=0, active_parameter=_active(found[0]))


def _active(signature: CallSignature) -> int | None:
    """A number past the last parameter says that it is none of them."""
    return len(signature.callable.arguments) if signature.active is None else signature.active


def _all(entries: Sequence[TextSymbol]) -> Iterator[TextSymbol]:
    for entry in entries:
        yield entry
        if entry.kind is types.SymbolKind.Class:
            yield from _all(entry.children)


WORTH_A_SPACE = frozenset(("statement", "filter", "test", "import", "expression", "template"))
"""Contexts in which a typed space triggers a completion."""


def complete(
    document: TextDocument,
    templates: TemplateSet,
    file: TemplateFile,
    position: Position,
    parameters: dict[str, str],
    context: types.CompletionContext | None,
) -> types.CompletionList | None:
    """Return completions at `position`. `parameters`: the active instance's, as they are shown. Runs in a thread."""
    offset = file.template.lines.offset(position)
    if file.template.tag_at(offset) is None:
        return None
    names = parameters_of(templates.index, file.path, besides=offset)
    known = {name: parameters.get(name, "") for name in names} | parameters
    around = CompletionContext(tuple(known.items()), tuple(sorted(templates.names)), _families(templates))
    found = completion(templates.index, file.path, position, around)
    typed = context.trigger_character if context is not None else None
    if not found.candidates or (typed in (" ", "=") and found.where not in WORTH_A_SPACE):
        return None
    reach = document.codec.encode_range(found.range)
    shown = (replace(one, doc=one.doc.partition("\n\n")[0]) for one in _ordered(found))
    items = [completion_item(one, reach, number) for number, one in enumerate(shown)]
    return types.CompletionList(is_incomplete=False, items=items)


def _ordered(found: TemplateCompletion) -> list[CompletionCandidate]:
    """Among names, what is the instance's own comes right behind the template's variables, and globals come last."""
    argument, variable = types.CompletionItemKind.Field, types.CompletionItemKind.Variable
    return sorted(
        found.candidates,
        key=lambda each: (each.order, each.kind is not argument, each.order > 1 and each.kind is variable),
    )


def _families(templates: TemplateSet) -> tuple[str, ...]:
    before, after = "hooks/header_", ".j2"
    return tuple(
        name.removeprefix(before).removesuffix(after) for name in sorted(templates.names) if name.startswith(before)
    )
