"""Definitions, references and renames between kernel files and templates."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from lsprotocol import types

from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch_lsp.kernel_files.adapter.cache import DaemonAnswers, ParsedKernelFiles
from ckwatch_lsp.kernel_files.adapter.conversion import text_edits
from ckwatch_lsp.kernel_files.language.document import (
    KernelFileText,
    NamedPlaces,
    NameKind,
    instance_places,
    places_at,
    why_no_instance_name,
    why_no_parameter_name,
)
from ckwatch_lsp.kernel_files.language.edits import KernelFileEdit, string_text
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import LanguageProvider, NoAnswerError
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.templates.adapter.provider import TemplateProvider
from ckwatch_lsp.templates.language.index import may_be_parameter

START = types.Range(types.Position(0, 0), types.Position(0, 0))


class KernelFileNames(LanguageProvider):
    """Names of kernel files. What a parameter is in templates, the template language says."""

    def __init__(
        self,
        session: Session,
        files: ParsedKernelFiles,
        answers: DaemonAnswers,
        library: TemplateLibrary,
        templates: TemplateProvider,
    ) -> None:
        self._session = session
        self._files = files
        self._answers = answers
        self._library = library
        self._templates = templates

    async def named(self, document: TextDocument, position: Position) -> tuple[KernelFileText, NamedPlaces]:
        """The name at a place. Raises NoAnswerError."""
        file = await self._files.of(document)
        found = places_at(file, position) if document.kind is DocumentKind.KERNEL_FILE else None
        if found is None:
            raise NoAnswerError
        return file, found

    async def definition(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """The template's file, the instance, the parameter's first mention in templates."""
        file, name = await self.named(document, position)
        folder = self._session.folder_for(document)
        if name.kind is NameKind.INSTANCE:
            return self._here(document, [place.range for place in instance_places(file, name.name) if place.defines])
        if folder is None:
            return ()
        if name.kind is NameKind.TEMPLATE:
            path = (await self._answers.templates(folder)).get(name.name)
            return () if path is None else [types.Location(self._session.uri_at(path), START)]
        mentioned = await self._mention(folder, file, name.name)
        if mentioned is None:
            return ()
        path, reach = mentioned
        return [types.Location(self._session.uri_at(path), await self._session.encode_range(path, reach))]

    async def references(
        self, document: TextDocument, position: Position, *, declaration: bool
    ) -> Sequence[types.Location]:
        """All places of the name, a parameter's in templates and in other kernel files too."""
        file, name = await self.named(document, position)
        if name.kind is NameKind.TEMPLATE:
            return ()
        places = [place.range for place in name.places if declaration or not place.defines]
        here = self._here(document, places)
        if name.kind is not NameKind.PARAMETER:
            return here
        elsewhere: list[types.Location] = []
        folder = self._session.folder_for(document)
        mentioned = None if folder is None else await self._mention(folder, file, name.name)
        if mentioned is not None:
            path, reach = mentioned
            template = await self._session.text_at(path)
            if template is not None:
                with suppress(NoAnswerError):
                    elsewhere += await self._templates.references(template, reach.start, declaration=declaration)
        return [*here, *(each for each in elsewhere if each not in here)]

    async def prepare_rename(self, document: TextDocument, position: Position) -> tuple[Range, str]:
        """Return the name to rename: an instance or a parameter."""
        file, found = await self.named(document, position)
        if found.kind is NameKind.TEMPLATE:
            raise CkwatchError("rename a template by renaming its file")
        folder = self._session.folder_for(document)
        if found.kind is NameKind.PARAMETER and folder is not None:
            mentioned = await self._mention(folder, file, found.name)
            template = None if mentioned is None else await self._session.text_at(mentioned[0])
            if mentioned is not None and template is not None:
                await self._templates.prepare_rename(template, mentioned[1].start)
        return found.range, found.name

    async def rename(self, document: TextDocument, position: Position, name: str) -> types.WorkspaceEdit:
        """An instance in this file; a parameter in templates and kernel files. Raises CkwatchError."""
        file, old = await self.named(document, position)
        if old.kind is NameKind.TEMPLATE:
            raise CkwatchError("rename a template by renaming its file")
        if old.kind is NameKind.INSTANCE:
            refused = why_no_instance_name(file, name, old.name)
            if refused is not None:
                raise CkwatchError(refused)
            return self._session.workspace_edit(text_edits(document, _instance_edits(file, old.name, name)))
        refused = why_no_parameter_name(name)
        if refused is not None:
            raise CkwatchError(refused)
        folder = self._session.folder_for(document)
        mentioned = None if folder is None else await self._mention(folder, file, old.name)
        if mentioned is not None:
            template = await self._session.text_at(mentioned[0])
            if template is not None:
                return await self._templates.rename(template, mentioned[1].start, name)
        if any(True for _ in file.parameter_values(name)):
            raise CkwatchError(f"the file already has a parameter `{name}`")
        return self._session.workspace_edit(
            text_edits(document, [KernelFileEdit(place.range, name) for place in old.places])
        )

    async def _mention(self, folder: WorkspaceFolder, file: KernelFileText, name: str) -> tuple[str, Range] | None:
        """The first place in the template, or in what it is made of, that reads the parameter `name`."""
        template = None if file.template is None else file.template.read()
        if not isinstance(template, str):
            return None
        detail = await self._answers.template(folder, template)
        if detail is None and folder.client is not None:  # a user waits: other answers would be wrong
            with suppress(CkwatchError):
                detail = await folder.ready.template(template)
        files = (await self._library.templates(folder)).index.files
        for path in () if detail is None else detail.files.values():
            for mention in files[path].names.by_name.get(name, ()) if path in files else ():
                if may_be_parameter(mention):
                    return path, files[path].template.lines.range(mention.start, mention.end)
        return None

    def _here(self, document: TextDocument, places: Sequence[Range]) -> list[types.Location]:
        return [types.Location(document.uri, document.codec.encode_range(each)) for each in places]


def _instance_edits(file: KernelFileText, old: str, new: str) -> list[KernelFileEdit]:
    values = [instance.name_value for instance in file.instances if instance.name == old]
    values += [sweep.table.value("base") for sweep in file.sweeps if sweep.base == old]
    return [string_text(file, value, new) for value in values if value is not None]
