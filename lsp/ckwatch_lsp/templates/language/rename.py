"""Renames across templates. The edited templates are parsed and compared, so that a rename changes nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range
from ckwatch_lsp.templates.language.index import (
    BuiltinName,
    Entity,
    InstanceParameter,
    Meaning,
    TemplateFile,
    TemplateIndex,
    TemplatePlace,
    TemplateTarget,
)
from ckwatch_lsp.templates.language.names import SPECIAL_NAMES
from ckwatch_lsp.templates.language.syntax import TextLines
from ckwatch_lsp.templates.language.tags import RESERVED, Role

_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Renaming:
    """The places of the new name: all of the old name's places; and the parameters that kernel files must rename
    too."""

    places: tuple[TemplatePlace, ...]
    parameters: tuple[InstanceParameter, ...]


def renamable(index: TemplateIndex, path: str, position: Position) -> Meaning:
    """Return the meaning of `position`. Raises CkwatchError if it cannot have another name."""
    meaning = index.meaning(path, position)
    if meaning is None:
        raise CkwatchError("there is nothing here that can be renamed")
    for entity in meaning.entities:
        if isinstance(entity, TemplateTarget):
            raise CkwatchError("rename a template by renaming its file")
        if isinstance(entity, BuiltinName):
            kind = "a variable of Jinja2" if entity.kind == "special" else f"a {entity.kind}"
            raise CkwatchError(f"'{entity.name}' is {kind}, which has this name everywhere")
    return meaning


def rename(index: TemplateIndex, path: str, position: Position, new_name: str) -> Renaming:
    """All places of what is at `position`, of which none would mean something else under `new_name`.

    Raises CkwatchError with the reason where that is not so.
    """
    meaning = renamable(index, path, position)
    if new_name != meaning.name:
        _check_name(index, new_name)
    entities, places = _all_that_goes_with(index, meaning.entities)
    parameters = tuple(entity for entity in entities if isinstance(entity, InstanceParameter))
    if new_name != meaning.name:
        _check_edited(index, places, new_name)
    places += (place for parameter in parameters for place in _descriptions(index, parameter))
    return Renaming(tuple(sorted(places, key=lambda place: (place.path, place.range))), parameters)


def _descriptions(index: TemplateIndex, parameter: InstanceParameter) -> Iterator[TemplatePlace]:
    """Yield the places in comments that describe a parameter, in lines `NAME: text` or `NAME (TYPE): text`."""
    line = re.compile(
        rf"(?:^|{{#-?)[ \t]*({re.escape(parameter.name)})[ \t]*(?:\([^()\n]*\)[ \t]*)?:[ \t]+\S", re.MULTILINE
    )
    for path, file in index.files.items():
        if parameter.name in file.template.text and not index.tops(path).isdisjoint(parameter.templates):
            for tag in file.template.tags:
                for found in line.finditer(tag.body.source) if tag.body.kind == "comment" else ():
                    start, end = tag.start + found.start(1), tag.start + found.end(1)
                    yield TemplatePlace(path, file.template.lines.range(start, end), Role.PARAMETER)


def _check_name(index: TemplateIndex, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise CkwatchError(f"'{name}' is not a name: letters, digits and underscores, no digit first")
    if name in RESERVED or name in SPECIAL_NAMES:
        raise CkwatchError(f"'{name}' is a word of Jinja2")
    if name in index.words.hooks or name in index.words.globals:
        raise CkwatchError(f"'{name}' is a name that every template has")


def _all_that_goes_with(index: TemplateIndex, entities: tuple[Entity, ...]) -> tuple[set[Entity], list[TemplatePlace]]:
    """Return all entities that share a mention with `entities`, and so on: an include in two templates ties their
    variables together."""
    found: set[Entity] = set()
    places: dict[TemplatePlace, None] = {}
    waiting = list(entities)
    while waiting:
        entity = waiting.pop()
        if entity in found:
            continue
        found.add(entity)
        for place in index.places(entity):
            places[place] = None
            meaning = index.meaning(place.path, place.range.start)
            waiting += meaning.entities if meaning is not None else ()
    return found, sorted(places, key=lambda place: (place.path, place.range))


def _check_edited(index: TemplateIndex, places: list[TemplatePlace], new_name: str) -> None:
    files = dict(index.files)
    expected: set[tuple[str, Range]] = set()
    for path, group in groupby(places, key=lambda place: place.path):
        file = index.files[path]
        text, ranges = _edited(file, [place.range for place in group], new_name)
        files[path] = TemplateFile(path, text)
        expected.update((path, reach) for reach in ranges)
    edited = TemplateIndex(files, index.path_of, index.words)
    found: set[tuple[str, Range]] = set()
    for path, reach in expected:
        meaning = edited.meaning(path, reach.start)
        for entity in meaning.entities if meaning is not None else ():
            found.update((place.path, place.range) for place in edited.places(entity))
    if found != expected:
        path, reach = min(found ^ expected)
        name = path.rpartition("/")[2]
        raise CkwatchError(f"'{new_name}' means something else in {name}, line {reach.start.line + 1}")


def _edited(file: TemplateFile, ranges: list[Range], new_name: str) -> tuple[str, list[Range]]:
    """The text of `file` with `new_name` at `ranges`, and where it then is."""
    lines = file.template.lines
    pieces: list[str] = []
    starts: list[int] = []
    at = length = 0
    for reach in ranges:
        start = lines.offset(reach.start)
        pieces += [file.template.text[at:start], new_name]
        length += start - at
        starts.append(length)
        length += len(new_name)
        at = lines.offset(reach.end)
    pieces.append(file.template.text[at:])
    text = "".join(pieces)
    new_lines = TextLines(text)
    return text, [new_lines.range(start, start + len(new_name)) for start in starts]
