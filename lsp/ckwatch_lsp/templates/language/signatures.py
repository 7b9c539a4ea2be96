"""The call around a position, and its parameters: macros, hooks, filters and tests."""

from __future__ import annotations

from bisect import bisect_left

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position
from ckwatch.wire.language import WordParameter
from ckwatch_lsp.templates.language.index import BuiltinName, Entity, TemplateFile, TemplateIndex
from ckwatch_lsp.templates.language.syntax import TemplateTag, comment_above
from ckwatch_lsp.templates.language.tags import TagCall


@dataclass(frozen=True, slots=True)
class CallableEntity:
    """Something that can be called. `doc` is text in Markdown."""

    name: str
    arguments: tuple[WordParameter, ...]
    doc: str = ""

    @property
    def label(self) -> str:
        """The name with its parameters, as one writes them."""
        return f"{self.name}({', '.join(map(written, self.arguments))})"


@dataclass(frozen=True, slots=True)
class CallSignature:
    """A call, and the parameter that the argument at the place is for, if there is one."""

    callable: CallableEntity
    active: int | None


def written(argument: WordParameter) -> str:
    """A parameter as it is written: `name=default`."""
    return f"{argument.name}={argument.default}" if argument.default else argument.name


def callables(index: TemplateIndex, entities: tuple[Entity, ...]) -> list[CallableEntity]:
    """Those of `entities` that can be called."""
    found: list[CallableEntity] = []
    for entity in entities:
        if isinstance(entity, BuiltinName):
            word = index.words.of(entity.kind).get(entity.name)
            if word is not None and "(" in word.signature:
                found.append(CallableEntity(word.name, word.parameters, word.doc))
            continue
        macro = index.macro(entity)
        if macro is not None:
            file, mention = macro
            body = file.template.tags[mention.tag].body
            named = ((body.words[each.word].text, each.default) for each in body.parameters)
            arguments = tuple(WordParameter(name=name, default=default) for name, default in named)
            found.append(CallableEntity(mention.name, arguments, comment_above(file.template, mention.tag)))
    return found


def call_at(tag: TemplateTag, offset: int) -> TagCall | None:
    """The innermost call of `tag` whose parentheses hold `offset`."""
    at = offset - tag.start
    inner: TagCall | None = None
    for call in tag.body.calls:
        if call.open < at and (call.close < 0 or at <= call.close) and (inner is None or call.open > inner.open):
            inner = call
    return inner


def signatures(index: TemplateIndex, path: str, position: Position) -> list[CallSignature]:
    """Return the signatures of the call around `position`; several if one name has several meanings."""
    offset = index.files[path].template.lines.offset(position)
    tag, call, found = _called_at(index, index.files[path], offset)
    if tag is None or call is None:
        return []
    return [CallSignature(each, _active(each, tag, call, offset - tag.start)) for each in found]


def called_at(index: TemplateIndex, file: TemplateFile, offset: int) -> list[CallableEntity]:
    """Return the callees of the innermost call around `offset`."""
    return _called_at(index, file, offset)[2]


def _called_at(
    index: TemplateIndex, file: TemplateFile, offset: int
) -> tuple[TemplateTag | None, TagCall | None, list[CallableEntity]]:
    number = file.template.tag_index_at(offset)
    tag = file.template.tags[number] if number >= 0 else None
    call = None if tag is None else call_at(tag, offset)
    found = [] if call is None or call.callee < 0 else callables(index, index.callee(file, number, call.callee))
    return tag, call, found


def _active(called: CallableEntity, tag: TemplateTag, call: TagCall, at: int) -> int | None:
    number = bisect_left(call.commas, at)
    begin = call.commas[number - 1] if number else call.open
    end = call.commas[number] if number < len(call.commas) else len(tag.body.source)
    keyword = next((name for name, start in call.keywords if begin < start < end), None)
    names = [argument.name for argument in called.arguments]
    if keyword is not None:
        return names.index(keyword) if keyword in names else None
    typed = tag.body.source[begin + 1 : at].strip()
    if typed.isidentifier() and number >= 1 and any(start < begin for _, start in call.keywords):
        return None  # behind a keyword argument only another keyword argument can come
    return number if number < len(names) else None
