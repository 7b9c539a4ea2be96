"""Who calls a macro and who includes a template, and what these call and include.

Who calls is the innermost macro around the call, or the template where there is none: the body of a `{% call %}` block
belongs to what is around it, and what `caller()` runs is no macro.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range
from ckwatch_lsp.templates.language.index import Entity, TemplateFile, TemplateIndex, TemplateTarget, Variable
from ckwatch_lsp.templates.language.names import Mention
from ckwatch_lsp.templates.language.tags import Role


@dataclass(frozen=True, slots=True)
class CallItem:
    """A macro; where `macro` is None, the template at `path`, outside of its macros."""

    path: str
    macro: Variable | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls and includes between `item` and another one: their names, at `ranges` of the file of who calls."""

    item: CallItem
    ranges: tuple[Range, ...]


def items_at(index: TemplateIndex, path: str, position: Position) -> tuple[CallItem, ...]:
    """The macro or the template that is named at `position`, else what is around it.

    Several where the name has several meanings; none where it names a template that is not there.
    """
    file = index.files[path]
    meaning = index.meaning(path, position)
    entities = meaning.entities if meaning is not None else ()
    found = dict.fromkeys(item for entity in entities for item in _items_of(index, entity))
    if found or any(isinstance(entity, TemplateTarget) for entity in entities):
        return tuple(found)
    return (_around(file, file.template.lines.offset(position)),)


def extent(index: TemplateIndex, item: CallItem) -> tuple[Range, Range] | None:
    """All of `item`, and its name: for a template its beginning. None for what is not there any more."""
    file = index.files.get(item.path)
    if file is None:
        return None
    lines = file.template.lines
    if item.macro is None:
        return lines.range(0, len(file.template.text)), lines.range(0, 0)
    defined = index.macro(item.macro)
    if defined is None:
        return None
    _, name = defined
    block = next(block for block in file.template.blocks[1:] if block.opener == name.tag)
    return lines.range(block.start, file.template.end_of(block)), lines.range(name.start, name.end)


def incoming(index: TemplateIndex, item: CallItem) -> list[Calls]:
    """Who calls the macro, or includes, imports or extends the template, file by file."""
    found: dict[CallItem, list[Range]] = {}
    if item.macro is None:
        for user, link in index.users(item.path):
            found.setdefault(_around(user, link.start), []).append(user.template.lines.range(link.start, link.end))
    else:
        names = {item.macro.name, *_renamed(index, item.macro)}
        for file in index.files.values():
            for mention, macros in _calls(index, file, names):
                if item.macro in macros:
                    reach = file.template.lines.range(mention.start, mention.end)
                    found.setdefault(_around(file, mention.start), []).append(reach)
    return _joined(found)


def outgoing(index: TemplateIndex, item: CallItem) -> list[Calls]:
    """Return the calls, includes, imports and bases of `item`, in the order of the text."""
    file = index.files.get(item.path)
    if file is None:
        return []
    uses: list[tuple[int, int, CallItem]] = []
    for mention, macros in _calls(index, file):
        uses += [(mention.start, mention.end, CallItem(macro.path, macro)) for macro in macros]
    for link in file.names.links:
        if (named := index.target(file, link)) is not None:
            uses.append((link.start, link.end, CallItem(named.path)))
    found: dict[CallItem, list[Range]] = {}
    for start, end, called in sorted(uses, key=lambda use: use[0]):
        if _around(file, start) == item:
            found.setdefault(called, []).append(file.template.lines.range(start, end))
    return _joined(found)


def _joined(found: dict[CallItem, list[Range]]) -> list[Calls]:
    return [Calls(item, tuple(sorted(ranges))) for item, ranges in found.items()]


def _calls(
    index: TemplateIndex, file: TemplateFile, names: Collection[str] | None = None
) -> Iterator[tuple[Mention, Collection[Variable]]]:
    """The words of `file` by which macros are called, with these; `names`: only these words."""
    for number, tag in enumerate(file.template.tags):
        for call in tag.body.calls:
            if call.callee < 0 or (names is not None and tag.body.words[call.callee].text not in names):
                continue
            mention = file.names.mention_of_word(number, call.callee)
            if mention is not None and (macros := dict.fromkeys(_macros(index, index.entities(file, mention)))):
                yield mention, macros


def _around(file: TemplateFile, offset: int) -> CallItem:
    """The innermost macro that holds `offset`, its tags included; else the template."""
    block = file.template.block_at(offset)
    while block.parent is not None:
        if block.keyword == "macro":
            for mention in file.names.mentions_of(block.opener):
                if mention.role is Role.MACRO:
                    return CallItem(file.path, Variable(file.path, mention.scope.index, mention.name))
        block = block.parent
    return CallItem(file.path)


def _items_of(index: TemplateIndex, entity: Entity) -> Iterator[CallItem]:
    if isinstance(entity, TemplateTarget):
        if entity.path is not None and entity.path in index.files:
            yield CallItem(entity.path)
        return
    for macro in _macros(index, (entity,)):
        yield CallItem(macro.path, macro)
    if isinstance(entity, Variable) and (symbol := index.symbol(entity)) is not None:
        module = index.module(index.files[entity.path], symbol)
        if module is not None:
            yield CallItem(module.path)


def _macros(index: TemplateIndex, entities: Iterable[Entity]) -> Iterator[Variable]:
    """The macros among `entities`, and those that were imported under other names."""
    for entity in entities:
        if not isinstance(entity, Variable) or (symbol := index.symbol(entity)) is None:
            continue
        if symbol.first(Role.MACRO) is not None:
            yield entity
        file = index.files[entity.path]
        for binding in symbol.bindings:
            for source, here in _import_pairs(file, binding.tag) if binding.role is Role.IMPORTED else ():
                if here is binding and source is not binding:
                    for origin in index.entities(file, source):
                        if isinstance(origin, Variable) and index.macro(origin) is not None:
                            yield origin


def _renamed(index: TemplateIndex, macro: Variable) -> Iterator[str]:
    """The other names under which templates import `macro`."""
    for file in index.files.values():
        for mention in file.names.by_name.get(macro.name, ()):
            if mention.role is Role.SOURCE and macro in index.entities(file, mention):
                yield from (here.name for source, here in _import_pairs(file, mention.tag) if source is mention)


def _import_pairs(file: TemplateFile, tag: int) -> Iterator[tuple[Mention, Mention]]:
    """The names of a `from … import`: in the other template, and here."""
    for there, here in file.template.tags[tag].body.imports:
        source, own = file.names.mention_of_word(tag, there), file.names.mention_of_word(tag, here)
        if source is not None and own is not None:
            yield source, own
