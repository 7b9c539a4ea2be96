"""Completes what is written at a position of a template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from lsprotocol import types

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range
from ckwatch.wire.language import Word
from ckwatch_lsp.protocol.text_parts import CompletionCandidate
from ckwatch_lsp.templates.language.index import TemplateFile, TemplateIndex, Variable
from ckwatch_lsp.templates.language.names import BoundName
from ckwatch_lsp.templates.language.signatures import callables, called_at
from ckwatch_lsp.templates.language.syntax import TemplateTag, comment_above
from ckwatch_lsp.templates.language.tags import BRANCHES, CONSTANTS, RESERVED, STATEMENTS, Role

Kind = types.CompletionItemKind


LOOP_ATTRIBUTES = (
    *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
    *("previtem", "nextitem", "cycle", "changed"),
)
TENSOR_ATTRIBUTES = ("name", "dtype", "layout", "sizes", "strides", "buffer")
TENSORS = frozenset(("X", "W", "inv_scale_x", "inv_scale_w", "Bias", "Y", "tensor"))
OPERATION_ATTRIBUTES = ("kind", "accumulator", "settings", "size_arguments", "runtime_arguments")
MAPPING_ATTRIBUTES = ("get", "items", "keys", "values")


def name_candidates(
    index: TemplateIndex, file: TemplateFile, offset: int, parameters: Iterable[tuple[str, str]]
) -> Iterator[CompletionCandidate]:
    """All names that an expression at `offset` can use."""
    for name, symbol in file.names.visible(offset).items():
        yield symbol_candidate(index, file, name, symbol)
    for user, name, symbol in from_outside(index, file.path):
        yield symbol_candidate(index, user, name, symbol)
    for name, detail in parameters:
        yield CompletionCandidate(name, Kind.Constant, detail)
    yield from word_candidates(index.words.hooks.values(), Kind.Function)
    yield from word_candidates(index.words.globals.values(), Kind.Variable)


def from_outside(index: TemplateIndex, path: str) -> Iterator[tuple[TemplateFile, str, BoundName]]:
    """The names that the template at `path` sees of templates that include, import or extend it."""
    seen: set[str] = {path}
    waiting = [path]
    while waiting:
        for user, link in index.users(waiting.pop()):
            if not link.with_context:
                continue
            at = len(user.template.text) if link.keyword == "extends" else user.template.tags[link.tag].start
            for name, symbol in user.names.visible(at).items():
                if symbol.bindings:
                    yield user, name, symbol
            if user.path not in seen:
                seen.add(user.path)
                waiting.append(user.path)


def symbol_candidate(index: TemplateIndex, file: TemplateFile, name: str, symbol: BoundName) -> CompletionCandidate:
    """A name of a template."""
    if not symbol.bindings:
        return CompletionCandidate(name, Kind.Variable, "Jinja2")
    binding = symbol.bindings[0]
    variable = Variable(file.path, symbol.scope.index, name)
    if binding.role is Role.IMPORTED:
        found = index.entities(file, binding)
        called = callables(index, found)
        return CompletionCandidate(
            name, Kind.Function, called[0].label if called else "imported", called[0].doc if called else ""
        )
    if binding.role is Role.MACRO:
        called = callables(index, (variable,))
        return CompletionCandidate(name, Kind.Function, called[0].label, called[0].doc)
    if binding.role is Role.MODULE:
        link = file.names.link_of(binding.tag)
        return CompletionCandidate(name, Kind.Module, link.name if link is not None else "")
    return CompletionCandidate(
        name, Kind.Variable, _source_line(file, symbol), comment_above(file.template, binding.tag), order=0
    )


def _source_line(file: TemplateFile, symbol: BoundName) -> str:
    """The tag that binds a variable, on one line."""
    source = file.template.tags[symbol.bindings[0].tag].body.source
    shown = " ".join(source.strip("{}%-+ \n\t").split())
    return shown if len(shown) <= 80 else shown[:79] + "…"


def word_candidates(words: Iterable[Word], kind: Kind) -> list[CompletionCandidate]:
    """Words that are always there."""
    return [CompletionCandidate(word.name, kind, word.signature, word.doc, order=2) for word in words]


def keyword_candidates(keywords: Sequence[str]) -> list[CompletionCandidate]:
    """Words of the language."""
    return [CompletionCandidate(keyword, Kind.Keyword, "", order=3) for keyword in keywords]


def exported_candidates(index: TemplateIndex, file: TemplateFile, tag: TemplateTag) -> Iterator[CompletionCandidate]:
    """Yield the exports of the template that `tag` imports from."""
    for link in file.names.links:
        if file.template.tags[link.tag] is tag and (target := index.target(file, link)) is not None:
            for name, symbol in target.names.exported().items():
                yield symbol_candidate(index, target, name, symbol)


def attribute_candidates(
    index: TemplateIndex,
    file: TemplateFile,
    tag: TemplateTag,
    start: int,
    before: Sequence[str],
    parameters: Iterable[tuple[str, str]],
) -> Iterator[CompletionCandidate]:
    """Yield what can follow the `.` before offset `start` of `tag`; `before` are the texts of the tokens up to it."""
    base = before[-2] if len(before) > 1 else ""
    dotted = len(before) > 2 and before[-3] == "."
    number = next((at for at, each in enumerate(file.template.tags) if each is tag), -1)
    words = [(at, word) for at, word in enumerate(tag.body.words) if word.end < start and word.text == base]
    if not words or dotted:
        if base == "settings":
            yield from _attributes(("get",), base)
        return
    mention = file.names.mention_of_word(number, words[-1][0])
    symbol = mention.symbol if mention is not None else None
    if symbol is not None and symbol.bindings:
        module = index.module(file, symbol)
        if module is not None:
            for name, exported in module.names.exported().items():
                yield symbol_candidate(index, module, name, exported)
        return
    if base == "parameters":
        for name, detail in parameters:
            yield CompletionCandidate(name, Kind.Constant, detail, order=0)
    elif base == "kernel":
        yield from word_candidates(index.words.hooks.values(), Kind.Function)
    elif base == "self":
        names = {
            mention.name
            for path in index.family(file.path)
            for mention in index.files[path].names.mentions
            if mention.role is Role.BLOCK
        }
        yield from _attributes(sorted(names), "block")
    yield from _attributes(_ATTRIBUTES.get("tensor" if base in TENSORS else base, ()), base)
    if symbol is None and mention is not None:
        yield from _modules_outside(index, file, mention.name)


_ATTRIBUTES = {
    "loop": LOOP_ATTRIBUTES,
    "tensor": TENSOR_ATTRIBUTES,
    "operation": OPERATION_ATTRIBUTES,
    "parameters": MAPPING_ATTRIBUTES,
}


def _attributes(names: Iterable[str], of: str) -> Iterator[CompletionCandidate]:
    return (CompletionCandidate(name, Kind.Property, f"of {of}") for name in names)


def _modules_outside(index: TemplateIndex, file: TemplateFile, name: str) -> Iterator[CompletionCandidate]:
    for user, own, symbol in from_outside(index, file.path):
        if own == name and (module := index.module(user, symbol)) is not None:
            for exported, its in module.names.exported().items():
                yield symbol_candidate(index, module, exported, its)


def statement_candidates(index: TemplateIndex, file: TemplateFile, tag: TemplateTag) -> Iterator[CompletionCandidate]:
    """Statements that `tag` can be: first what ends or divides the block around it."""
    block = file.template.block_at(tag.start)
    if block.parent is not None and block.start == tag.start:
        block = block.parent
    if block.parent is not None:
        yield CompletionCandidate(f"end{block.keyword}", Kind.Keyword, f"ends {block.keyword}", order=0)
    docs = index.words.tags
    for name in dict.fromkeys((*STATEMENTS, *docs)):
        if name.startswith("end") or (name in ("else", "elif") and block.keyword not in BRANCHES[name]):
            continue
        word = docs.get(name)
        yield CompletionCandidate(name, Kind.Keyword, word.signature if word else "", word.doc if word else "", order=1)


Where = Literal[
    "text",
    "statement",
    "expression",
    "attribute",
    "filter",
    "test",
    "template",
    "family",
    "parameter",
    "import",
    "operator",
    "nothing",
]
"""`family`: the argument of `header` and `globals`; `parameter`: a string that names one; `operator`: after a value."""


@dataclass(frozen=True, slots=True)
class TemplateCompletion:
    """Candidates, best first; each replaces `range`."""

    where: Where
    range: Range
    candidates: tuple[CompletionCandidate, ...]


@dataclass(frozen=True, slots=True)
class CompletionContext:
    """Facts beyond the index: parameters of the instances with their values, and names of templates."""

    parameters: tuple[tuple[str, str], ...] = ()
    templates: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A cursor in a tag, offsets in the tag: the word [start, end) it is in, and texts of the tokens before."""

    tag: TemplateTag
    offset: int
    start: int
    end: int
    before: tuple[str, ...]
    string: str | None


def completion(index: TemplateIndex, path: str, position: Position, around: CompletionContext) -> TemplateCompletion:
    """The completion at `position` of the template at `path`."""
    file = index.files[path]
    lines = file.template.lines
    offset = lines.offset(position)
    tag = file.template.tag_at(offset)
    nothing = Range(position, position)
    if tag is None:
        return TemplateCompletion("text", nothing, ())
    if tag.body.kind in ("comment", "raw"):
        return TemplateCompletion("nothing", nothing, ())
    place = _place(tag, offset)
    where, candidates = _complete(index, file, place, around)
    reach = lines.range(tag.start + place.start, tag.start + place.end)
    return TemplateCompletion(where, reach, tuple(_distinct(candidates)))


def _place(tag: TemplateTag, offset: int) -> _Place:
    body, at = tag.body, offset - tag.start
    before: list[str] = []
    string: str | None = None
    start = end = at
    for token in body.tokens:
        if token.kind == "end" or token.start >= at:
            break
        if token.kind == "begin":
            continue
        text = body.text(token)
        if token.end > at or (token.end == at and token.kind in ("name", "integer")):
            start, end = (token.start, token.end) if token.kind in ("name", "integer") else (at, at)
            if token.kind == "string":
                string, start, end = text, token.start + 1, token.end - (len(text) > 1 and text[-1] == text[0])
            break
        if token.end == at and token.kind == "string" and (len(text) == 1 or text[-1] != text[0]):
            string, start, end = text, token.start + 1, token.end
            break
        before.append(text)
    return _Place(tag, offset, start, end, tuple(before), string)


def _complete(
    index: TemplateIndex, file: TemplateFile, place: _Place, around: CompletionContext
) -> tuple[Where, Iterable[CompletionCandidate]]:
    before, body = place.before, place.tag.body
    if place.string is not None:
        return _in_string(place, around)
    if body.kind == "statement" and not before:
        return "statement", statement_candidates(index, file, place.tag)
    last = before[-1] if before else ""
    keyword = before[0] if body.kind == "statement" and before else ""
    if last == ".":
        return "attribute", attribute_candidates(index, file, place.tag, place.start, before, around.parameters)
    if last == "|" or (keyword == "filter" and len(before) == 1):
        return "filter", word_candidates(index.words.filters.values(), Kind.Function)
    if last == "is" or before[-2:] == ("is", "not"):
        negation = [] if last == "not" else [CompletionCandidate("not", Kind.Keyword, "")]
        return "test", [*word_candidates(index.words.tests.values(), Kind.Function), *negation]
    special = _of_statement(index, file, place, keyword, before)
    if special is not None:
        return special
    if _is_value(last):
        return "operator", keyword_candidates(_OPERATORS)
    named = [
        CompletionCandidate(argument.name, Kind.Field, f"of {called.name}", text=f"{argument.name}=", order=0)
        for called in (called_at(index, file, place.offset) if last in ("(", ",") else ())
        for argument in called.arguments
    ]
    names = name_candidates(index, file, place.offset, around.parameters)
    return "expression", [*named, *names, *keyword_candidates(_VALUE_WORDS)]


_OPERATORS = ("and", "or", "if", "else", "is", "in", "not in")
_VALUE_WORDS = ("not", "true", "false", "none")


def _of_statement(
    index: TemplateIndex, file: TemplateFile, place: _Place, keyword: str, before: tuple[str, ...]
) -> tuple[Where, Iterable[CompletionCandidate]] | None:
    """Return the completions of a statement at a place that takes no expression."""
    last = before[-1] if before else ""
    depth = sum(text in ("(", "[", "{") for text in before) - sum(text in (")", "]", "}") for text in before)
    names = keyword in ("macro", "block", "set", "endblock") and len(before) == 1
    if names or (keyword == "macro" and last in ("(", ",") and depth == 1):
        return "nothing", ()
    if keyword == "for" and "in" not in before:
        return ("nothing", ()) if last in ("for", ",", "(") else ("operator", keyword_candidates(("in",)))
    if keyword == "for" and _is_value(last) and depth == 0:
        return "operator", keyword_candidates(("if", "recursive", *_OPERATORS))
    if keyword in ("include", "import", "from") and len(before) > 1 and depth == 0:
        if keyword == "from" and "import" in before:
            if last in ("import", ","):
                return "import", exported_candidates(index, file, place.tag)
            return "operator", keyword_candidates(("as", "with context", "without context"))
        if last in ("as", "context"):
            return "nothing", ()
        if _is_value(last):
            return "operator", keyword_candidates(_AFTER_TEMPLATE[keyword])
    return None


_AFTER_TEMPLATE = {
    "include": ("ignore missing", "with context", "without context"),
    "import": ("as", "with context", "without context"),
    "from": ("import",),
}


def _in_string(place: _Place, around: CompletionContext) -> tuple[Where, Iterable[CompletionCandidate]]:
    before = place.before
    keyword = before[0] if place.tag.body.kind == "statement" and before else ""
    if keyword in ("include", "import", "from", "extends"):
        return "template", [CompletionCandidate(name, Kind.File, "") for name in around.templates]
    if before[-2:-1] in (("header",), ("globals",)) and before[-1] == "(":
        return "family", [CompletionCandidate(name, Kind.Value, "") for name in around.families]
    if before[-2:] in (("template_argument", "("), ("parameters", "["), ("get", "(")):
        return "parameter", [CompletionCandidate(name, Kind.Constant, detail) for name, detail in around.parameters]
    return "nothing", ()


def _is_value(text: str) -> bool:
    if not text:
        return False
    if text in CONSTANTS:
        return True
    return text[0] in "\"')]}" or ((text[0].isalnum() or text[0] == "_") and text not in RESERVED | _BEFORE_VALUES)


_BEFORE_VALUES = frozenset(
    ("if", "elif", "set", "for", "call", "do", "with", "include", "import", "from", "extends", "filter", "autoescape")
)


def _distinct(candidates: Iterable[CompletionCandidate]) -> Iterator[CompletionCandidate]:
    seen: set[str] = set()
    for candidate in sorted(candidates, key=lambda candidate: (candidate.order, candidate.label.casefold())):
        if candidate.label not in seen:
            seen.add(candidate.label)
            yield candidate
