"""The other places in a template of what is at a place: a name's mentions, or the tags of one block."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ckwatch_lsp.jinja.entities import Place, TemplateName
from ckwatch_lsp.jinja.index import Index
from ckwatch_lsp.jinja.syntax import Template
from ckwatch_lsp.text import Position, Range


class Highlight(NamedTuple):
    """One place; `write`: the name is given a value there."""

    range: Range
    kind: Literal["read", "write", "text"]


def highlights(index: Index, path: str, position: Position) -> list[Highlight]:
    """The places in the template at `path`, in order."""
    meaning = index.meaning(path, position)
    if meaning is not None:
        places: dict[Place, None] = {}
        for entity in meaning.entities:
            if not isinstance(entity, TemplateName):
                places.update(dict.fromkeys(index.places_in(path, entity)))
        found = [Highlight(place.range, "write" if place.binds else "read") for place in places]
        return sorted(found)
    template = index.files[path].template
    return [Highlight(reach, "text") for reach in _tags_of_block(template, template.lines.offset(position))]


def _tags_of_block(template: Template, offset: int) -> list[Range]:
    """The keywords of the block whose opening, dividing or closing keyword is at `offset`."""
    tag = template.tag_index_at(offset)
    if tag < 0 or not template.tags[tag].body.keyword:
        return []
    keyword = template.tags[tag].body.words[0]
    start = template.tags[tag].start
    if not start + keyword.start <= offset <= start + keyword.end:
        return []
    for block in template.blocks[1:]:
        tags = [block.opener, *block.branches, *([block.closer] if block.closer >= 0 else [])]
        if tag in tags:
            return [
                template.lines.range(
                    template.tags[each].start + template.tags[each].body.words[0].start,
                    template.tags[each].start + template.tags[each].body.words[0].end,
                )
                for each in tags
            ]
    return []
