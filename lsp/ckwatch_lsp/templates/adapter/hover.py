"""Hovers over templates: what a name is, and its value in the active instance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from anyio import to_thread

from ckwatch.model.text import Position, Range
from ckwatch.wire.language import Word
from ckwatch.wire.state import Unit
from ckwatch.workspace.toml import toml_value
from ckwatch_lsp.kernel_files.adapter.conversion import parameter_text
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import HoverText, LanguageProvider
from ckwatch_lsp.templates.adapter.library import TemplateLibrary, TemplateSet
from ckwatch_lsp.templates.adapter.rendered_values import SHOWN_VALUES, RenderedValues, up_to_date
from ckwatch_lsp.templates.language.index import (
    BlockName,
    BuiltinName,
    Entity,
    InstanceParameter,
    Meaning,
    TemplateFile,
    TemplateTarget,
    Variable,
    printing_tags,
)
from ckwatch_lsp.templates.language.signatures import callables
from ckwatch_lsp.templates.language.syntax import comment_above
from ckwatch_lsp.templates.language.tags import Role

SHOWN_PLACES = 4
TENSOR_ATTRIBUTES = "It has `name`, `dtype`, `layout`, `sizes`, `strides` and `buffer`."
TEXT_LIMIT = 400
"""Characters of a rendered text that are shown."""


def described(templates: TemplateSet, entity: Entity) -> str:
    """Describe `entity` and its origin. Nothing for parameters: `parameter_text` describes them."""
    index = templates.index
    match entity:
        case Variable():
            return _variable(templates, entity)
        case BlockName():
            places = [place for place in index.definitions(entity) if place.path]
            return f"block `{entity.name}`\n\n" + _places(
                templates, [(each.path, each.range.start.line) for each in places]
            )
        case TemplateTarget(name, path):
            return (
                f"template `{name}`\n\n[{path}]({_uri(path)})" if path is not None else f"there is no template `{name}`"
            )
        case BuiltinName(kind, name):
            return word_text(index.words.of(kind).get(name))
        case InstanceParameter():
            return ""


def word_text(word: Word | None) -> str:
    """A hook, filter, test or global."""
    if word is None:
        return ""
    return "\n\n".join(part for part in (_code(word.signature), word.doc) if part)


def printed_text(texts: Sequence[str], unit: str) -> str:
    """Return the output of an expression."""
    if not texts:
        return f"gives no text in `{unit}`"
    shown = [_code(_short(text), "cpp") if "\n" in text else f"`{_short(text)}`" for text in texts[:SHOWN_VALUES]]
    more = f" and {len(texts) - SHOWN_VALUES} others" if len(texts) > SHOWN_VALUES else ""
    if any("\n" in text for text in texts[:SHOWN_VALUES]):
        return f"in `{unit}`:\n\n" + "\n\n".join(shown) + more
    return f"{', '.join(shown)}{more} in `{unit}`"


def _variable(templates: TemplateSet, variable: Variable) -> str:
    index = templates.index
    symbol = index.symbol(variable)
    if symbol is None:
        return ""
    file = index.files[variable.path]
    lines = file.template.lines
    binding = symbol.bindings[0]
    places = [(variable.path, lines.line(each.start)) for each in symbol.bindings]
    called = callables(index, (variable,))
    if called:
        return "\n\n".join(
            part for part in (_code(f"macro {called[0].label}"), called[0].doc, _places(templates, places)) if part
        )
    source = file.template.tags[binding.tag].body.source
    shown = _code(_short(source), "jinja")
    what = _WHAT.get(binding.role, "")
    comment = comment_above(file.template, binding.tag) if binding.role is Role.SET else ""
    return "\n\n".join(
        part for part in (f"{what} `{variable.name}`".strip(), shown, comment, _places(templates, places)) if part
    )


_WHAT = {
    Role.MACRO_PARAMETER: "parameter of a macro",
    Role.CALL_PARAMETER: "parameter of a call",
    Role.FOR: "loop variable",
    Role.SET: "variable",
    Role.WITH: "variable",
    Role.MODULE: "module",
    Role.IMPORTED: "imported",
}


def _places(templates: TemplateSet, places: Iterable[tuple[str, int]]) -> str:
    found = list(dict.fromkeys(places))
    shown = [f"[{templates.name_of(path)}:{line + 1}]({_uri(path)}#L{line + 1})" for path, line in found[:SHOWN_PLACES]]
    more = f" and {len(found) - SHOWN_PLACES} more" if len(found) > SHOWN_PLACES else ""
    return ", ".join(shown) + more


def _uri(path: str) -> str:
    return Path(path).as_uri() if path.startswith("/") else path


def _code(text: str, language: str = "jinja") -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}"


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}…"


class TemplateHovers(LanguageProvider):
    """Joins what the templates say and what the daemon knows."""

    def __init__(self, active: ActiveUnits, library: TemplateLibrary, values: RenderedValues) -> None:
        self._active = active
        self._library = library
        self._values = values

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """Describe a name, and its value or that of the expression around it in the active instance."""
        folder, templates, file = await self._library.of(document)
        unit = self._active.unit(document)
        meaning = await to_thread.run_sync(templates.index.meaning, file.path, position)
        texts: list[str] = []
        for entity in meaning.entities if meaning is not None else ():
            tensor = await self._tensor(folder, entity, unit)
            if tensor:
                texts.append(tensor)
            elif isinstance(entity, InstanceParameter):
                texts.append(await self._parameter(folder, templates, file, entity, unit))
            else:
                texts.append(await to_thread.run_sync(described, templates, entity))
        reach = meaning.range if meaning is not None else None
        if meaning is None and (keyword := _keyword(file, templates, position)) is not None:
            reach, text = keyword
            texts.append(text)
        if unit is not None and up_to_date(folder, document):
            printed = await to_thread.run_sync(_printed_places, templates, file, position, meaning)
            found = await self._values.printed(folder, unit, file.path, printed) if printed else []
            text = printed_text(found, unit.id) if found else ""
            if text and not any(text in each for each in texts):
                texts.append(text)
                reach = reach or printed[0]
        together = "\n\n---\n\n".join(text for text in texts if text)
        return HoverText(together, reach) if together else None

    async def _tensor(self, folder: WorkspaceFolder, entity: Entity, unit: Unit | None) -> str:
        """A tensor of the active unit's operation; empty for anything else."""
        if unit is None or not isinstance(entity, InstanceParameter | BuiltinName):
            return ""
        detail = await self._values.detail(folder, unit)
        found = None if detail is None else detail.tensors.get(entity.name)
        if found is None:
            return ""
        return f"tensor `{entity.name}`: {found} in `{unit.id}`\n\n{TENSOR_ATTRIBUTES}"

    async def _parameter(
        self,
        folder: WorkspaceFolder,
        templates: TemplateSet,
        file: TemplateFile,
        parameter: InstanceParameter,
        unit: Unit | None,
    ) -> str:
        detail = await self._values.detail(folder, unit) if unit is not None else None
        value = detail.parameters.get(parameter.name) if detail is not None else None
        top = min(parameter.templates, default=file.path)
        if detail is not None and templates.names.get(detail.template) in parameter.templates:
            top = templates.names[detail.template]
        known = None
        if folder.client is not None:
            known = await self._values.template(folder, top, unit.generation if unit is not None else None)
        meaning = next((each for each in known.parameters if each.name == parameter.name), None) if known else None
        facts = []
        if detail is not None and unit is not None:
            facts = [f"`{unit.id}` does not set it" if value is None else f"`{toml_value(value)}` in `{unit.id}`"]
        return parameter_text(parameter.name, meaning, facts)


def _keyword(file: TemplateFile, templates: TemplateSet, position: Position) -> tuple[Range, str] | None:
    """The statement whose keyword is at `position`."""
    template = file.template
    offset = template.lines.offset(position)
    tag = template.tag_at(offset)
    if tag is None or not tag.body.keyword:
        return None
    start, end = tag.start + tag.body.words[0].start, tag.start + tag.body.words[0].end
    text = word_text(templates.index.words.tags.get(tag.body.keyword.removeprefix("end")))
    return (template.lines.range(start, end), text) if start <= offset <= end else None


def _printed_places(
    templates: TemplateSet, file: TemplateFile, position: Position, meaning: Meaning | None
) -> list[Range]:
    """The `{{ … }}` at `position`, else those that print the variable there as it is."""
    template = file.template
    tag = template.tag_at(template.lines.offset(position))
    if tag is not None and tag.body.kind == "variable":
        return [template.lines.range(tag.start, tag.end)]
    found: list[Range] = []
    for entity in meaning.entities if meaning is not None else ():
        if isinstance(entity, Variable) and templates.index.macro(entity) is None:
            found += printing_tags(templates.index, file.path, entity)
    return found
