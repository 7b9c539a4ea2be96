"""From a kernel file to what it names, and back: templates, instances, parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyio import to_thread
from lsprotocol import types

from ckwatch.errors import CkwatchError
from ckwatch_lsp.documents import Document, Kind
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.kernel_file.document import KernelFile
from ckwatch_lsp.kernel_file.editing import Edit, string_text
from ckwatch_lsp.kernel_file.names import (
    Named,
    NameKind,
    instance_places,
    places_at,
    why_no_instance_name,
    why_no_parameter_name,
)
from ckwatch_lsp.kernels.converting import workspace_edit
from ckwatch_lsp.kernels.files import KernelFiles
from ckwatch_lsp.kernels.knowledge import Knowledge
from ckwatch_lsp.kernels.mentions import first_mention
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

START = Range(Position(0, 0), Position(0, 0))


class Navigation:
    """Names of kernel files. What a parameter is in templates, the template language says."""

    def __init__(self, session: Session, files: KernelFiles, knowledge: Knowledge) -> None:
        self._session = session
        self._files = files
        self._knowledge = knowledge

    async def named(self, document: Document, position: Position) -> tuple[KernelFile, Named] | None:
        """The name at a place."""
        if document.kind is not Kind.KERNEL_FILE:
            return None
        file = await self._files.of(document)
        found = places_at(file, position)
        return None if found is None else (file, found)

    async def definition(self, document: Document, position: Position) -> Sequence[types.Location]:
        """The template's file, the instance, the parameter's first mention in templates."""
        found = await self.named(document, position)
        folder = self._session.folder_for(document)
        if found is None:
            return ()
        file, name = found
        if name.kind is NameKind.INSTANCE:
            return self._here(document, [place.range for place in instance_places(file, name.name) if place.defines])
        if folder is None:
            return ()
        if name.kind is NameKind.TEMPLATE:
            path = (await self._knowledge.templates(folder)).get(name.name)
            return () if path is None else [types.Location(self._session.uri_at(path), _place(START))]
        mentioned = await self._mention(folder, file, name.name)
        if mentioned is None:
            return ()
        path, reach = mentioned
        return [types.Location(self._session.uri_at(path), await self._session.their_range(path, reach))]

    async def references(
        self, document: Document, position: Position, *, declaration: bool
    ) -> Sequence[types.Location]:
        """All places of the name, a parameter's in templates and in other kernel files too."""
        found = await self.named(document, position)
        if found is None or found[1].kind is NameKind.TEMPLATE:
            return ()
        file, name = found
        places = [place.range for place in name.places if declaration or not place.defines]
        here = self._here(document, places)
        if name.kind is not NameKind.PARAMETER:
            return here
        seen = {(each.uri, _key(each.range)) for each in here}
        elsewhere: list[types.Location] = []
        folder = self._session.folder_for(document)
        mentioned = None if folder is None else await self._mention(folder, file, name.name)
        if mentioned is not None:
            path, reach = mentioned
            template = await self._session.text_at(path)
            if template is not None:
                for language in self._session.languages_for(template):
                    elsewhere += await language.references(template, reach.start, declaration=declaration)
        return [*here, *(each for each in elsewhere if (each.uri, _key(each.range)) not in seen)]

    async def prepare_rename(self, document: Document, position: Position) -> tuple[Range, str] | None:
        """What would be renamed: an instance or a parameter."""
        found = await self.named(document, position)
        if found is None:
            return None
        if found[1].kind is NameKind.TEMPLATE:
            raise CkwatchError("a template is renamed by renaming its file")
        return found[1].range, found[1].name

    async def rename(self, document: Document, position: Position, name: str) -> types.WorkspaceEdit | None:
        """An instance in this file; a parameter in templates and kernel files. Raises CkwatchError."""
        found = await self.named(document, position)
        if found is None:
            return None
        file, old = found
        if old.kind is NameKind.TEMPLATE:
            raise CkwatchError("a template is renamed by renaming its file")
        if old.kind is NameKind.INSTANCE:
            refused = why_no_instance_name(file, name, old.name)
            if refused is not None:
                raise CkwatchError(refused)
            return workspace_edit(self._session, document, _instance_edits(file, old.name, name))
        refused = why_no_parameter_name(name)
        if refused is not None:
            raise CkwatchError(refused)
        folder = self._session.folder_for(document)
        mentioned = None if folder is None else await self._mention(folder, file, old.name)
        if mentioned is not None:
            template = await self._session.text_at(mentioned[0])
            if template is not None:
                for language in self._session.languages_for(template):
                    edit = await language.rename(template, mentioned[1].start, name)
                    if edit is not None:
                        return edit
        if any(True for _ in file.parameter_values(name)):
            raise CkwatchError(f"the file has a parameter `{name}` already")
        return workspace_edit(self._session, document, [Edit(place.range, name) for place in old.places])

    async def _mention(self, folder: Folder, file: KernelFile, name: str) -> tuple[str, Range] | None:
        template = None if file.template is None else file.template.read()
        if not isinstance(template, str):
            return None
        detail = await self._knowledge.template(folder, template)
        texts = []
        for path in () if detail is None else detail.files.values():
            document = await self._session.text_at(path)
            if document is not None:
                texts.append((path, document.text))
        return await to_thread.run_sync(first_mention, texts, name)

    def _here(self, document: Document, places: Sequence[Range]) -> list[types.Location]:
        return [types.Location(document.uri, document.places.their_range(each)) for each in places]


def _instance_edits(file: KernelFile, old: str, new: str) -> list[Edit]:
    values = [instance.name_value for instance in file.instances if instance.name == old]
    values += [sweep.table.value("base") for sweep in file.sweeps if sweep.base == old]
    return [string_text(file, value, new) for value in values if value is not None]


def _place(given: Range) -> types.Range:
    start = types.Position(given.start.line, given.start.column)
    return types.Range(start, start)


def _key(given: types.Range) -> tuple[int, int]:
    return given.start.line, given.start.character
