"""Which parameters of the instance templates ask for, and where names are printed as they are."""

from __future__ import annotations

from ckwatch_lsp.jinja.entities import Entity, InstanceParameter
from ckwatch_lsp.jinja.index import Index
from ckwatch_lsp.jinja.tags import Role
from ckwatch_lsp.text import Range


def parameters_of(index: Index, path: str, *, besides: int = -1) -> list[str]:
    """The names of parameters in the template at `path` and in those that lead to it or that it leads to, sorted.

    A mention that ends at the offset `besides` of the template does not count: somebody is writing it.
    """
    tops = index.tops(path)
    found: set[str] = set()
    for own, file in index.files.items():
        if index.tops(own).isdisjoint(tops):
            continue
        for name, mentions in file.names.by_name.items():
            if name in found:
                continue
            for mention in mentions:
                if own == path and mention.start <= besides <= mention.end:
                    continue
                if mention.role is Role.PARAMETER or (mention.role is Role.LOAD and mention.symbol is None):
                    if any(isinstance(entity, InstanceParameter) for entity in index.entities(file, mention)):
                        found.add(name)
                    break
    return sorted(found)


def printing_tags(index: Index, path: str, entity: Entity) -> list[Range]:
    """The `{{ name }}` of `entity` in the template at `path`, with nothing but the name in them."""
    file = index.files[path]
    found: list[Range] = []
    for mention in file.names.by_name.get(entity.name, ()):
        tag = file.template.tags[mention.tag]
        alone = tag.body.kind == "variable" and [token.kind for token in tag.body.tokens] == ["begin", "name", "end"]
        if alone and entity in index.entities(file, mention):
            found.append(file.template.lines.range(tag.start, tag.end))
    return found
