"""Answers requests about kernel files and `ckwatch.toml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch.wire.language import ParameterDetail, ParameterValue
from ckwatch.wire.state import Unit
from ckwatch.workspace.toml import toml_value
from ckwatch_lsp.kernel_files.adapter.cache import DaemonAnswers, ParsedKernelFiles, subject_of
from ckwatch_lsp.kernel_files.adapter.conversion import key_text, parameter_text, text_edits
from ckwatch_lsp.kernel_files.language.completion import CompletionFacts, complete, ghost_text, parameter_at
from ckwatch_lsp.kernel_files.language.document import (
    CursorContextKind,
    InstanceTable,
    KernelFileText,
    NameKind,
    cursor_context,
    inner_range,
    is_parameter,
    name_at,
    values_of,
)
from ckwatch_lsp.kernel_files.language.formatting import format_file, format_lines
from ckwatch_lsp.kernel_files.language.outline import folds, highlights, selections, symbols
from ckwatch_lsp.protocol.text_parts import SemanticToken, completion_item, document_symbols
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import HoverText, LanguageProvider
from ckwatch_lsp.session.session import Session

SYMBOL_LIMIT = 200
"""Symbols of one answer."""


class KernelFileProvider(LanguageProvider):
    """TOML with known keys."""

    def __init__(self, session: Session, files: ParsedKernelFiles, answers: DaemonAnswers) -> None:
        self._session = session
        self._files = files
        self._answers = answers

    async def completion(
        self, document: TextDocument, position: Position, context: types.CompletionContext | None
    ) -> types.CompletionList | None:
        """Keys that are not there yet, allowed values, and parameter values that the rules accept first."""
        folder = self._session.folder_for(document)
        if folder is None:
            return None
        file = await self._files.of(document)
        spot = cursor_context(file.toml, position)
        typed = context.trigger_character if context is not None else None
        if typed == " " and spot.kind is not CursorContextKind.VALUE:
            return None
        keys = await self._answers.keys(folder, document.kind)
        if document.kind is DocumentKind.SETTINGS:
            return _list(document, file, position, CompletionFacts(keys), whole=True)
        names = tuple(await self._answers.templates(folder)) if spot.path == ("template",) else ()
        parameters = await self._parameters(folder, file)
        values, whole = await self._values(folder, document, file, position)
        known = CompletionFacts(keys, names, parameters, values)
        make = partial(_list, document, file, position, known, whole=whole)
        return await self._files.run(document, make)

    async def inline_completion(self, document: TextDocument, position: Position) -> list[types.InlineCompletionItem]:
        """The value of a parameter that the rules accept and predictions prefer, as ghost text."""
        folder = self._session.folder_for(document)
        if folder is None or document.kind is not DocumentKind.KERNEL_FILE:
            return []
        file = await self._files.of(document)
        values, _ = await self._values(folder, document, file, position)
        text = ghost_text(file, position, values)
        place = document.codec.encode(position)
        return [] if text is None else [types.InlineCompletionItem(text, range=types.Range(place, place))]

    async def _values(
        self, folder: WorkspaceFolder, document: TextDocument, file: KernelFileText, position: Position
    ) -> tuple[Sequence[ParameterValue], bool]:
        """The judged values of the parameter whose value is being written, if one is; and True if they are complete."""
        name = parameter_at(file, position)
        subject = None if name is None else subject_of(file, position, name)
        unit = None if name is None else self._files.unit_of(folder, document, subject)
        if name is None or unit is None:
            return (), True
        instance = subject if isinstance(subject, InstanceTable) else file.instance(unit.instance)
        others = file.effective(instance) if instance is not None else values_of(file.defaults)
        return await self._answers.values(folder, unit, name, others)

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """Describe a key or parameter, and the rules that a parameter takes part in."""
        folder = self._session.folder_for(document)
        file = await self._files.of(document)
        spot = cursor_context(file.toml, position)
        if folder is None or not spot.key:
            return None
        if document.kind is DocumentKind.KERNEL_FILE:
            named = name_at(file, spot, position)
            of_value = spot.kind is CursorContextKind.VALUE and is_parameter(spot.path[:-1], spot.path[-1])
            if of_value or (named is not None and named[0] is NameKind.PARAMETER):
                name = spot.path[-1] if named is None else named[1]
                return await self._parameter(folder, file, name, spot.range if named is None else named[2])
        key = (await self._answers.keys(folder, document.kind)).key(spot.key, {"operation.kind": file.kind})
        return None if key is None else HoverText(key_text(key), spot.range)

    async def links(self, document: TextDocument) -> Sequence[types.DocumentLink]:
        """The template's file."""
        folder = self._session.folder_for(document)
        if folder is None or document.kind is not DocumentKind.KERNEL_FILE:
            return ()
        file = await self._files.of(document)
        name = None if file.template is None else file.template.read()
        if file.template is None or not isinstance(name, str):
            return ()
        path = (await self._answers.templates(folder)).get(name)
        if path is None:
            return ()
        reach = document.codec.encode_range(inner_range(file, file.template))
        return [types.DocumentLink(reach, target=self._session.uri_at(path), tooltip=path)]

    async def symbols(self, document: TextDocument) -> Sequence[types.DocumentSymbol]:
        """Tables with their keys."""
        file = await self._files.of(document)
        return await self._files.run(document, lambda: document_symbols(document.codec, symbols(file.toml)))

    async def workspace_symbols(self, query: str) -> Sequence[types.WorkspaceSymbol]:
        """Kernels, instances and sweeps."""
        wanted = query.casefold()
        found: list[types.WorkspaceSymbol] = []
        for folder in list(self._session.folders.values()):
            seen: set[tuple[str, str]] = set()
            texts: dict[str, TextDocument | None] = {}
            for unit in await folder.units_in_order():
                for name, kind in ((unit.kernel, types.SymbolKind.File), (unit.instance, types.SymbolKind.Object)):
                    key = (unit.kernel, "" if name is unit.kernel else name)
                    if key in seen or wanted not in name.casefold():
                        continue
                    seen.add(key)
                    location = await self._location(unit, texts, whole=not key[1])
                    found.append(
                        types.WorkspaceSymbol(location, name, kind, container_name=unit.kernel if key[1] else None)
                    )
                    if len(found) >= SYMBOL_LIMIT:
                        return found
        return found

    async def _location(self, unit: Unit, texts: dict[str, TextDocument | None], *, whole: bool) -> types.Location:
        """Return the place of an instance's name, or with `whole` its file."""
        path = unit.place.path
        if path not in texts:
            texts[path] = await self._session.text_at(path)
        document = texts[path]
        if whole or document is None:
            start = types.Position(0, 0)
            return types.Location(self._session.uri_at(path), types.Range(start, start))
        return types.Location(self._session.uri_at(path), document.codec.encode_range(unit.place.range))

    async def folds(self, document: TextDocument) -> Sequence[types.FoldingRange]:
        """Tables, long values, comments."""
        file = await self._files.of(document)
        return await self._files.run(document, lambda: folds(file.toml))

    async def selections(self, document: TextDocument, position: Position) -> Sequence[Range]:
        """Words, values, pairs, lines, tables."""
        return selections((await self._files.of(document)).toml, position)

    async def highlights(self, document: TextDocument, position: Position) -> Sequence[types.DocumentHighlight]:
        """The places of a name. An editor asks where the cursor stands: what will be completed there is asked for."""
        file = await self._files.of(document)
        if document.kind is not DocumentKind.KERNEL_FILE:
            return ()
        await self._prepare(document, file, position)
        return await self._files.run(document, partial(_highlights, document, file, position))

    async def tokens(self, document: TextDocument, within: Range | None) -> Sequence[SemanticToken]:
        """Parameters that the template reads."""
        folder = self._session.folder_for(document)
        if folder is None or document.kind is not DocumentKind.KERNEL_FILE:
            return ()
        file = await self._files.of(document)
        names = frozenset(one.name for one in await self._parameters(folder, file))
        return await self._files.run(document, partial(_tokens, file, names, within))

    async def formatted(self, document: TextDocument, within: Range | None) -> Sequence[types.TextEdit]:
        """Blanks and line ends between what stands there; nothing while the text is not TOML."""
        file = (await self._files.of(document)).toml
        edits = await self._files.run(
            document, lambda: format_file(file) if within is None else format_lines(file, within)
        )
        return text_edits(document, edits)[document.uri]

    async def formatted_as_typed(self, document: TextDocument, position: Position) -> Sequence[types.TextEdit]:
        """The line that was left by a line end; nothing on the one with the cursor."""
        above = position.line - 1
        if above < 0 or not document.line(above).strip():
            return ()
        end = Position(above, len(document.line(above)))
        edits = await self.formatted(document, Range(Position(above, 0), end))
        return [one for one in edits if one.range.start.line == one.range.end.line == above]

    async def _prepare(self, document: TextDocument, file: KernelFileText, position: Position) -> None:
        name, folder = parameter_at(file, position), self._session.folder_for(document)
        instance = file.instance_at(position)
        unit = None if folder is None else self._files.unit_of(folder, document, instance)
        if name is not None and folder is not None and unit is not None and instance is not None:
            await self._answers.values(folder, unit, name, file.effective(instance), wait_s=0)

    async def _parameters(self, folder: WorkspaceFolder, file: KernelFileText) -> Sequence[ParameterDetail]:
        template = None if file.template is None else file.template.read()
        detail = await self._answers.template(folder, template) if isinstance(template, str) else None
        return () if detail is None else detail.parameters

    async def _parameter(self, folder: WorkspaceFolder, file: KernelFileText, name: str, reach: Range) -> HoverText:
        parameters = await self._parameters(folder, file)
        detail = next((one for one in parameters if one.name == name), None)
        if detail is None:
            template = file.template if parameters else None
            facts = [] if template is None else [f"`{template.read()}` does not mention it."]
            return HoverText(parameter_text(name, None, facts), reach)
        default = values_of({name: file.defaults[name]}).get(name) if name in file.defaults else None
        facts = [] if default is None else [f"`{toml_value(default)}` in `[defaults]`."]
        texts = (value.text for _, value in file.parameter_values(name))
        others = Counter(" ".join(text.split()) for text in texts).most_common()
        if len(others) > 1:
            facts.append("In this file: " + ", ".join(f"`{text}` ({count})" for text, count in others[:8]))
        return HoverText(parameter_text(name, detail, facts), reach)


def _highlights(document: TextDocument, file: KernelFileText, position: Position) -> list[types.DocumentHighlight]:
    reached = (document.codec.encode_range(each) for each in highlights(file, position))
    return [types.DocumentHighlight(each, types.DocumentHighlightKind.Text) for each in reached]


def _tokens(file: KernelFileText, names: frozenset[str], within: Range | None) -> list[SemanticToken]:
    found = []
    for _, pair in file.parameter_pairs():
        reach = file.toml.range(pair.keys[-1].start, pair.keys[-1].end)
        inside = within is None or within.start.line <= reach.start.line <= within.end.line
        if pair.name in names and inside:
            found.append(SemanticToken(reach, "parameter"))
    return found


def _list(
    document: TextDocument, file: KernelFileText, position: Position, known: CompletionFacts, *, whole: bool
) -> types.CompletionList | None:
    items = []
    for one in complete(file, position, known):
        reach = one.range or Range(position, position)
        if reach.start.line != reach.end.line or not reach.holds(position):
            reach = Range(position, position)
        items.append(completion_item(one, document.codec.encode_range(reach), one.order))
    return types.CompletionList(is_incomplete=not whole, items=items) if items or not whole else None
