"""The call around a place, and what it may be given: macros, hooks, filters and tests."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from ckwatch_lsp.jinja.comments import comment_above
from ckwatch_lsp.jinja.entities import Entity, KnownWord
from ckwatch_lsp.jinja.index import File, Index
from ckwatch_lsp.jinja.syntax import Tag
from ckwatch_lsp.jinja.tags import Call
from ckwatch_lsp.text import Position


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of something that is called; `default` as written, None where there must be an argument.

    `*names` and `**names` take any number.
    """

    name: str
    default: str | None = None

    def __str__(self) -> str:
        return self.name if not self.default else f"{self.name}={self.default}"


@dataclass(frozen=True, slots=True)
class Callable:
    """Something that can be called. `doc` is text in Markdown."""

    name: str
    arguments: tuple[Argument, ...]
    doc: str = ""

    @property
    def label(self) -> str:
        """The name with its parameters, as one writes them."""
        return f"{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Signature:
    """What is being called, and which of its parameters the argument at the place is for, if for one."""

    callable: Callable
    active: int | None


def callables(index: Index, entities: tuple[Entity, ...]) -> list[Callable]:
    """Those of `entities` that can be called."""
    found: list[Callable] = []
    for entity in entities:
        if isinstance(entity, KnownWord):
            word = index.words.of(entity.kind).get(entity.name)
            if word is not None and "(" in word.signature:
                arguments = tuple(Argument(parameter.name, parameter.default) for parameter in word.parameters)
                found.append(Callable(word.name, arguments, word.doc))
            continue
        macro = index.macro(entity)
        if macro is not None:
            file, mention = macro
            body = file.template.tags[mention.tag].body
            arguments = tuple(Argument(body.words[each.word].text, each.default) for each in body.parameters)
            found.append(Callable(mention.name, arguments, comment_above(file.template, mention.tag)))
    return found


def call_at(tag: Tag, offset: int) -> Call | None:
    """The innermost call of `tag` whose parentheses hold `offset`."""
    at = offset - tag.start
    inner: Call | None = None
    for call in tag.body.calls:
        if call.open < at and (call.close < 0 or at <= call.close) and (inner is None or call.open > inner.open):
            inner = call
    return inner


def signatures(index: Index, path: str, position: Position) -> list[Signature]:
    """What is called around `position`; several where one name has several meanings."""
    file = index.files[path]
    offset = file.template.lines.offset(position)
    number = file.template.tag_index_at(offset)
    if number < 0:
        return []
    tag = file.template.tags[number]
    call = call_at(tag, offset)
    if call is None or call.callee < 0:
        return []
    found = callables(index, index.callee(file, number, call.callee))
    return [Signature(each, _active(each, tag, call, offset - tag.start)) for each in found]


def called_at(index: Index, file: File, offset: int) -> list[Callable]:
    """What the innermost call around `offset` calls."""
    number = file.template.tag_index_at(offset)
    call = call_at(file.template.tags[number], offset) if number >= 0 else None
    if call is None or call.callee < 0:
        return []
    return callables(index, index.callee(file, number, call.callee))


def _active(called: Callable, tag: Tag, call: Call, at: int) -> int | None:
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
