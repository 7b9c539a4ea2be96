"""Hovers over templates: what a name is, and what it or the expression around it is in the active instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.jinja.entities import InstanceParameter, Meaning, Variable
from ckwatch_lsp.jinja.index import File
from ckwatch_lsp.jinja.parameters import printing_tags
from ckwatch_lsp.parts import Told
from ckwatch_lsp.templates.files import Shelf
from ckwatch_lsp.templates.hovering import described, parameter_text, printed_text, word_text
from ckwatch_lsp.templates.values import Values, shown_value, up_to_date
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session


class Hovers:
    """Joins what the templates say and what the daemon knows."""

    def __init__(self, session: Session, values: Values) -> None:
        self._session = session
        self._values = values

    async def told(
        self, document: Document, folder: Folder, shelf: Shelf, file: File, position: Position
    ) -> Told | None:
        """What stands at `position`."""
        unit = self._session.active.unit(document)
        meaning = await to_thread.run_sync(shelf.index.meaning, file.path, position)
        texts: list[str] = []
        for entity in meaning.entities if meaning is not None else ():
            if isinstance(entity, InstanceParameter):
                texts.append(await self._parameter(folder, shelf, file, entity, unit))
            else:
                texts.append(await to_thread.run_sync(described, shelf, entity))
        reach = meaning.range if meaning is not None else None
        if meaning is None and (keyword := _keyword(file, shelf, position)) is not None:
            reach, text = keyword
            texts.append(text)
        if unit is not None and up_to_date(folder, document):
            printed = await to_thread.run_sync(_printed_places, shelf, file, position, meaning)
            found = await self._values.printed(folder, unit, file.path, printed) if printed else []
            text = printed_text(found, unit.id) if found else ""
            if text and not any(text in each for each in texts):
                texts.append(text)
                reach = reach or printed[0]
        together = "\n\n---\n\n".join(text for text in texts if text)
        return Told(together, reach) if together else None

    async def _parameter(
        self, folder: Folder, shelf: Shelf, file: File, parameter: InstanceParameter, unit: Unit | None
    ) -> str:
        detail = await self._values.detail(folder, unit) if unit is not None else None
        value = detail.parameters.get(parameter.name) if detail is not None else None
        top = min(parameter.templates, default=file.path)
        if detail is not None and shelf.names.get(detail.template) in parameter.templates:
            top = shelf.names[detail.template]
        known = None
        if folder.client is not None:
            known = await self._values.template(folder, top, unit.generation if unit is not None else None)
        told = next((each for each in known.parameters if each.name == parameter.name), None) if known else None
        shown = shown_value(value) if value is not None else None
        return parameter_text(parameter.name, told, shown, unit.id if detail is not None and unit is not None else None)


def _keyword(file: File, shelf: Shelf, position: Position) -> tuple[Range, str] | None:
    """The statement whose keyword is at `position`."""
    template = file.template
    offset = template.lines.offset(position)
    tag = template.tag_at(offset)
    if tag is None or not tag.body.keyword:
        return None
    start, end = tag.start + tag.body.words[0].start, tag.start + tag.body.words[0].end
    text = word_text(shelf.index.words.tags.get(tag.body.keyword.removeprefix("end")))
    return (template.lines.range(start, end), text) if start <= offset <= end else None


def _printed_places(shelf: Shelf, file: File, position: Position, meaning: Meaning | None) -> list[Range]:
    """The `{{ … }}` at `position`, else those that print the variable there as it is."""
    template = file.template
    tag = template.tag_at(template.lines.offset(position))
    if tag is not None and tag.body.kind == "variable":
        return [template.lines.range(tag.start, tag.end)]
    found: list[Range] = []
    for entity in meaning.entities if meaning is not None else ():
        if isinstance(entity, Variable) and shelf.index.macro(entity) is None:
            found += printing_tags(shelf.index, file.path, entity)
    return found
