"""Answers requests about templates."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from anyio import to_thread
from lsprotocol import types

from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch.workspace.toml import toml_value
from ckwatch_lsp.kernel_files.language.document import KernelFileText, NamePlace, parameter_places
from ckwatch_lsp.kernel_files.language.reference_names import argument_places, reference_of
from ckwatch_lsp.protocol.text_parts import SemanticToken, document_symbols
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import LanguageProvider, NoAnswerError
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter import conversion
from ckwatch_lsp.templates.adapter.library import TemplateLibrary, TemplateSet
from ckwatch_lsp.templates.adapter.rendered_values import RenderedValues
from ckwatch_lsp.templates.language.index import InstanceParameter, Meaning, TemplateTarget
from ckwatch_lsp.templates.language.outline import folds, highlights, linked_names, outline, selection
from ckwatch_lsp.templates.language.rename import renamable, rename
from ckwatch_lsp.templates.language.semantic_tokens import semantic_tokens
from ckwatch_lsp.templates.language.signatures import signatures
from ckwatch_templates import ROOT


async def kernel_places(
    session: Session, folder: WorkspaceFolder, templates: TemplateSet, name: str, paths: Collection[str]
) -> list[tuple[str, NamePlace]]:
    """The places of the parameter `name` in kernel files of the templates at these paths, and in the references that
    these name, with the files' paths."""
    texts = await texts_of(session, folder)
    found = await to_thread.run_sync(_places_in, texts, templates.names, name, paths)
    for path, function in await to_thread.run_sync(_references_in, texts, templates.names, paths):
        module = await session.text_at(path)
        for place in () if module is None else argument_places(module.text, function, name):
            found.append((path, NamePlace(place, defines=False)))
    return list(dict.fromkeys(found))


async def texts_of(session: Session, folder: WorkspaceFolder) -> dict[str, str]:
    """The texts of a workspace's kernel files, by path."""
    texts: dict[str, str] = {}
    for path in kernel_files(session, folder):
        document = await session.text_at(path)
        if document is not None:
            texts[path] = document.text
    return texts


def kernel_files(session: Session, folder: WorkspaceFolder) -> list[str]:
    """The kernel files of a workspace, as far as they have units or are open."""
    paths = dict.fromkeys(folder.kernel_files())
    paths.update(dict.fromkeys(path for path in folder.files if path.endswith(".kernel.toml")))
    for document in session.documents.values():
        if (
            document.kind is DocumentKind.KERNEL_FILE
            and document.path is not None
            and session.folder_for(document) is folder
        ):
            paths[document.path] = None
    return list(paths)


def _places_in(
    texts: Mapping[str, str], names: Mapping[str, str], name: str, templates: Collection[str]
) -> list[tuple[str, NamePlace]]:
    found: list[tuple[str, NamePlace]] = []
    for path, text in texts.items():
        if name not in text:
            continue
        file = KernelFileText(text)
        template = file.template.read() if file.template is not None else None
        if isinstance(template, str) and names.get(template) in templates:
            found += [(path, place) for place in parameter_places(file, name)]
    return found


def _references_in(
    texts: Mapping[str, str], names: Mapping[str, str], templates: Collection[str]
) -> list[tuple[str, str]]:
    """The modules and functions of the references of these templates' kernel files."""
    found: dict[tuple[str, str], None] = {}
    for path, text in texts.items():
        file = KernelFileText(text) if "reference" in text else None
        reference = None if file is None else reference_of(file)
        template = file.template.read() if file is not None and file.template is not None else None
        if reference is not None and isinstance(template, str) and names.get(template) in templates:
            found[posixpath.normpath(posixpath.join(posixpath.dirname(path), reference.file)), reference.function] = (
                None
            )
    return list(found)


def _refuse_built_in(templates: TemplateSet, paths: Iterable[str]) -> None:
    built_in = next((path for path in paths if Path(path).is_relative_to(ROOT)), None)
    if built_in is not None:
        raise CkwatchError(f"the built-in template '{templates.name_of(built_in)}' uses this name too")


COLOURED = 512 * 1024
"""Characters of a document that is coloured as a whole; an editor may ask for the tokens of what it shows."""

START = Range(Position(0, 0), Position(0, 0))


class TemplateProvider(LanguageProvider):
    """C++ in Jinja2."""

    def __init__(self, session: Session, active: ActiveUnits, library: TemplateLibrary, values: RenderedValues) -> None:
        self._session = session
        self._active = active
        self._library = library
        self._values = values

    async def completion(
        self, document: TextDocument, position: Position, context: types.CompletionContext | None
    ) -> types.CompletionList | None:
        """Names in scope, words, keywords, other templates."""
        folder, templates, file = await self._library.of(document)
        parameters: dict[str, str] = {}
        unit = self._active.unit(document)
        if unit is not None and (detail := await self._values.detail(folder, unit)) is not None:
            parameters = {name: toml_value(value) for name, value in detail.parameters.items()}
        return await to_thread.run_sync(conversion.complete, document, templates, file, position, parameters, context)

    async def signature_help(self, document: TextDocument, position: Position) -> types.SignatureHelp | None:
        """The macro, hook or filter that is being called."""
        _, templates, file = await self._library.of(document)
        calls = await to_thread.run_sync(signatures, templates.index, file.path, position)
        return conversion.signature_information(calls) if calls else None

    async def definition(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """Return the places that give a name its value: in templates, or for a parameter in the kernel file."""
        folder, templates, meaning = await self._meaning(document, position)
        places: list[tuple[str, Range]] = []
        for entity in meaning.entities:
            if isinstance(entity, TemplateTarget):
                if entity.path is not None:
                    places.append((entity.path, START))
            elif isinstance(entity, InstanceParameter):
                places += await self._given(document, folder, templates, entity)
            else:
                places += [(each.path, each.range) for each in templates.index.definitions(entity)]
        return await conversion.locations(self._session, places)

    async def references(
        self, document: TextDocument, position: Position, *, declaration: bool
    ) -> Sequence[types.Location]:
        """All mentions, in kernel files too for parameters."""
        folder, templates, meaning = await self._meaning(document, position)
        places: list[tuple[str, Range]] = []
        for entity in meaning.entities:
            own = await to_thread.run_sync(lambda entity=entity: list(templates.index.places(entity)))  # type: ignore[misc]
            places += [(each.path, each.range) for each in own if declaration or not each.binds]
            if isinstance(entity, InstanceParameter):
                in_files = await kernel_places(self._session, folder, templates, entity.name, entity.templates)
                places += [(path, each.range) for path, each in in_files if declaration or not each.defines]
        return await conversion.locations(self._session, places)

    async def prepare_rename(self, document: TextDocument, position: Position) -> tuple[Range, str] | None:
        """Return the name to rename. Raises CkwatchError where no other name would do."""
        _, templates, file = await self._library.of(document)
        meaning = await to_thread.run_sync(renamable, templates.index, file.path, position)
        renaming = await to_thread.run_sync(rename, templates.index, file.path, position, meaning.name)
        _refuse_built_in(templates, (place.path for place in renaming.places))
        return meaning.range, meaning.name

    async def rename(self, document: TextDocument, position: Position, name: str) -> types.WorkspaceEdit:
        """In all templates, and for parameters in kernel files. Raises CkwatchError where that cannot be."""
        folder, templates, file = await self._library.of(document)
        renaming = await to_thread.run_sync(rename, templates.index, file.path, position, name)
        places = [(place.path, place.range) for place in renaming.places]
        for parameter in renaming.parameters:
            own = await kernel_places(self._session, folder, templates, parameter.name, parameter.templates)
            taken = await kernel_places(self._session, folder, templates, name, parameter.templates)
            if own and any(place.defines for _, place in taken):
                raise CkwatchError(f"a kernel file already has a parameter '{name}'")
            await self._check_references(folder, templates, parameter, name)
            places += [(path, place.range) for path, place in own]
        _refuse_built_in(templates, (path for path, _ in places))
        return self._session.workspace_edit(await conversion.replacements(self._session, places, name))

    async def _check_references(
        self, folder: WorkspaceFolder, templates: TemplateSet, parameter: InstanceParameter, name: str
    ) -> None:
        """Raise CkwatchError if a reference that takes the parameter uses the new name."""
        texts = await texts_of(self._session, folder)
        for path, function in await to_thread.run_sync(_references_in, texts, templates.names, parameter.templates):
            module = await self._session.text_at(path)
            if module is None or next(argument_places(module.text, function, parameter.name), None) is None:
                continue
            for place in argument_places(module.text, function, name, taken=True):
                where = f"{posixpath.basename(path)}, line {place.start.line + 1}"
                raise CkwatchError(f"'{name}' means something else in {where}")

    async def links(self, document: TextDocument) -> Sequence[types.DocumentLink]:
        """Names of other templates."""
        _, templates, file = await self._library.of(document)
        return [
            types.DocumentLink(
                document.codec.encode_range(file.template.lines.range(link.start, link.end)),
                target=self._session.uri_at(templates.names[link.name]),
                tooltip=templates.names[link.name],
            )
            for link in sorted(file.names.links, key=lambda link: link.start)
            if link.name in templates.names
        ]

    async def symbols(self, document: TextDocument) -> Sequence[types.DocumentSymbol]:
        """Macros, blocks, variables, imports."""
        _, _, file = await self._library.of(document)
        return await to_thread.run_sync(lambda: document_symbols(document.codec, outline(file)))

    async def workspace_symbols(self, query: str) -> Sequence[types.WorkspaceSymbol]:
        """Macros, blocks and outermost variables of the workspaces' templates."""
        found: list[types.WorkspaceSymbol] = []
        documents: dict[str, TextDocument | None] = {}
        for folder in list(self._session.folders.values()):
            templates = await self._library.templates(folder)
            for name, kind, container, path, reach in await to_thread.run_sync(
                conversion.matching_symbols, templates, query, str(folder.root)
            ):
                if path not in documents:
                    documents[path] = await self._session.text_at(path)
                document = documents[path]
                if document is not None:
                    location = types.Location(document.uri, document.codec.encode_range(reach))
                    found.append(types.WorkspaceSymbol(location, name, kind, container_name=container))
        return found

    async def folds(self, document: TextDocument) -> Sequence[types.FoldingRange]:
        """Blocks, comments, long tags, and the C++ around them."""
        _, _, file = await self._library.of(document)
        return await to_thread.run_sync(folds, file.template)

    async def selections(self, document: TextDocument, position: Position) -> Sequence[Range]:
        """Words, arguments, brackets, tags, blocks."""
        _, _, file = await self._library.of(document)
        return await to_thread.run_sync(selection, file.template, position)

    async def highlights(self, document: TextDocument, position: Position) -> Sequence[types.DocumentHighlight]:
        """The same name, or the tags of one block."""
        _, templates, file = await self._library.of(document)
        return [
            types.DocumentHighlight(document.codec.encode_range(reach), kind)
            for reach, kind in await to_thread.run_sync(highlights, templates.index, file.path, position)
        ]

    async def linked_names(self, document: TextDocument, position: Position) -> Sequence[Range]:
        """The names of a block, which change together."""
        _, _, file = await self._library.of(document)
        return linked_names(file.template, position)

    async def tokens(self, document: TextDocument, within: Range | None) -> Sequence[SemanticToken]:
        """Of the tags; C++ is coloured by the editor."""
        _, templates, file = await self._library.of(document)
        if within is None and len(file.template.text) > COLOURED:
            return ()
        first, last = (0, None) if within is None else (within.start.line, within.end.line)
        return await to_thread.run_sync(semantic_tokens, templates.index, file.path, first, last)

    async def _meaning(
        self, document: TextDocument, position: Position
    ) -> tuple[WorkspaceFolder, TemplateSet, Meaning]:
        folder, templates, file = await self._library.of(document)
        meaning = await to_thread.run_sync(templates.index.meaning, file.path, position)
        if meaning is None:
            raise NoAnswerError
        return folder, templates, meaning

    async def _given(
        self, document: TextDocument, folder: WorkspaceFolder, templates: TemplateSet, parameter: InstanceParameter
    ) -> list[tuple[str, Range]]:
        """Return the place where the active instance gets the parameter; else all places where a kernel file gives
        it."""
        unit = self._active.unit(document)
        detail = await self._values.detail(folder, unit) if unit is not None else None
        span = detail.parameter_places.get(parameter.name) if detail is not None else None
        if span is not None:
            return [(span.path, span.range)]
        found = await kernel_places(self._session, folder, templates, parameter.name, parameter.templates)
        return [(path, place.range) for path, place in found if place.defines]
