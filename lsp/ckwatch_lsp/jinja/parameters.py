"""Which parameters of the instance templates ask for, and where names are printed as they are."""

from __future__ import annotations

from collections.abc import Iterator

from ckwatch_lsp.jinja.entities import Entity, InstanceParameter
from ckwatch_lsp.jinja.index import File, Index
from ckwatch_lsp.jinja.names import Mention
from ckwatch_lsp.jinja.tags import Role
from ckwatch_lsp.text import Range


def parameters_of(index: Index, path: str, *, besides: int = -1) -> list[str]:
    """The names of parameters in the template at `path` and in those that lead to it or that it leads to, sorted.

    A mention that ends at the offset `besides` of the template does not count: somebody is writing it.
    """
    tops = index.tops(path)
    found: set[str] = set()
    for own, file in index.files.items():
        if not index.tops(own).isdisjoint(tops):
            found.update(_parameters_in(index, file))
    written = index.files[path].names.mention_at(besides) if besides >= 0 else None
    if written is not None and written.name in found and not _has_another(index, written, tops):
        found.discard(written.name)
    return sorted(found)


def _parameters_in(index: Index, file: File) -> Iterator[str]:
    for name, mentions in file.names.by_name.items():
        first = next((mention for mention in mentions if _is_outside(mention)), None)
        if first is not None and any(isinstance(each, InstanceParameter) for each in index.entities(file, first)):
            yield name


def _has_another(index: Index, written: Mention, tops: frozenset[str]) -> bool:
    """Whether the name of `written` is mentioned elsewhere, too."""
    return any(
        mention is not written and _is_outside(mention)
        for own, file in index.files.items()
        if not index.tops(own).isdisjoint(tops)
        for mention in file.names.by_name.get(written.name, ())
    )


def _is_outside(mention: Mention) -> bool:
    """Whether it may be a parameter: nothing in its template binds it."""
    return mention.role is Role.PARAMETER or (mention.role is Role.LOAD and mention.symbol is None)


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
