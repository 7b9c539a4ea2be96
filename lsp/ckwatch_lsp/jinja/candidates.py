"""What completion can offer, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ckwatch.wire.language import Word
from ckwatch_lsp.jinja.calls import callables
from ckwatch_lsp.jinja.comments import comment_above
from ckwatch_lsp.jinja.entities import Variable
from ckwatch_lsp.jinja.index import File, Index
from ckwatch_lsp.jinja.names import Symbol
from ckwatch_lsp.jinja.syntax import Tag
from ckwatch_lsp.jinja.tags import BRANCHES, STATEMENTS, Role

CandidateKind = Literal[
    "variable",
    "parameter",
    "macro",
    "module",
    "filter",
    "test",
    "hook",
    "global",
    "keyword",
    "statement",
    "attribute",
    "argument",
    "template",
    "value",
]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something to write. `insert` is what is written where that is not `label`; lower ranks come first."""

    label: str
    kind: CandidateKind
    detail: str
    doc: str = ""
    insert: str = ""
    rank: int = 1


LOOP_ATTRIBUTES = (
    *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"),
    *("previtem", "nextitem", "cycle", "changed"),
)
TENSOR_ATTRIBUTES = ("name", "dtype", "layout", "sizes", "strides", "buffer")
TENSORS = frozenset(("X", "W", "inv_scale_x", "inv_scale_w", "Bias", "Y", "tensor"))
OPERATION_ATTRIBUTES = ("kind", "accumulator", "settings", "size_arguments", "runtime_arguments")
MAPPING_ATTRIBUTES = ("get", "items", "keys", "values")


def name_candidates(
    index: Index, file: File, offset: int, parameters: Iterable[tuple[str, str]]
) -> Iterator[Candidate]:
    """All names that an expression at `offset` can use."""
    for name, symbol in file.names.visible(offset).items():
        yield symbol_candidate(index, file, name, symbol)
    for user, name, symbol in from_outside(index, file.path):
        yield symbol_candidate(index, user, name, symbol)
    for name, detail in parameters:
        yield Candidate(name, "parameter", detail)
    yield from word_candidates(index.words.hooks.values(), "hook")
    yield from word_candidates(index.words.globals.values(), "global")


def from_outside(index: Index, path: str) -> Iterator[tuple[File, str, Symbol]]:
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


def symbol_candidate(index: Index, file: File, name: str, symbol: Symbol) -> Candidate:
    """A name of a template."""
    if not symbol.bindings:
        return Candidate(name, "variable", "Jinja2")
    binding = symbol.bindings[0]
    variable = Variable(file.path, symbol.scope.index, name)
    if binding.role is Role.IMPORTED:
        found = index.entities(file, binding)
        called = callables(index, found)
        return Candidate(name, "macro", called[0].label if called else "imported", called[0].doc if called else "")
    if binding.role is Role.MACRO:
        called = callables(index, (variable,))
        return Candidate(name, "macro", called[0].label, called[0].doc)
    if binding.role is Role.MODULE:
        link = file.names.link_of(binding.tag)
        return Candidate(name, "module", link.name if link is not None else "")
    return Candidate(name, "variable", _source_line(file, symbol), comment_above(file.template, binding.tag), rank=0)


def _source_line(file: File, symbol: Symbol) -> str:
    """The tag that binds a variable, on one line."""
    source = file.template.tags[symbol.bindings[0].tag].body.source
    shown = " ".join(source.strip("{}%-+ \n\t").split())
    return shown if len(shown) <= 80 else shown[:79] + "…"


def word_candidates(words: Iterable[Word], kind: CandidateKind) -> list[Candidate]:
    """Words that are always there."""
    return [Candidate(word.name, kind, word.signature, word.doc, rank=2) for word in words]


def keyword_candidates(keywords: Sequence[str]) -> list[Candidate]:
    """Words of the language."""
    return [Candidate(keyword, "keyword", "", rank=3) for keyword in keywords]


def exported_candidates(index: Index, file: File, tag: Tag) -> Iterator[Candidate]:
    """What the template that `tag` imports from has."""
    for link in file.names.links:
        if file.template.tags[link.tag] is tag and (target := index.target(file, link)) is not None:
            for name, symbol in target.names.exported().items():
                yield symbol_candidate(index, target, name, symbol)


def attribute_candidates(
    index: Index, file: File, tag: Tag, start: int, before: Sequence[str], parameters: Iterable[tuple[str, str]]
) -> Iterator[Candidate]:
    """What can follow the `.` before offset `start` of `tag`; `before` are the texts of the tokens up to it."""
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
            yield Candidate(name, "parameter", detail, rank=0)
    elif base == "kernel":
        yield from word_candidates(index.words.hooks.values(), "hook")
    elif base == "self":
        names = {
            mention.name
            for path in index.family(file.path)
            for mention in index.files[path].names.mentions
            if mention.role is Role.BLOCK
        }
        yield from _attributes(sorted(names), "block")
    yield from _attributes(_ATTRIBUTES.get("tensor" if base in TENSORS else base, ()), base)
    if symbol is None and mention is not None and _is_module_outside(index, file, mention.name):
        yield from _modules_outside(index, file, mention.name)


_ATTRIBUTES = {
    "loop": LOOP_ATTRIBUTES,
    "tensor": TENSOR_ATTRIBUTES,
    "operation": OPERATION_ATTRIBUTES,
    "parameters": MAPPING_ATTRIBUTES,
}


def _attributes(names: Iterable[str], of: str) -> Iterator[Candidate]:
    return (Candidate(name, "attribute", f"of {of}") for name in names)


def _is_module_outside(index: Index, file: File, name: str) -> bool:
    return any(symbol.role is Role.MODULE for _, own, symbol in from_outside(index, file.path) if own == name)


def _modules_outside(index: Index, file: File, name: str) -> Iterator[Candidate]:
    for user, own, symbol in from_outside(index, file.path):
        if own == name and (module := index.module(user, symbol)) is not None:
            for exported, its in module.names.exported().items():
                yield symbol_candidate(index, module, exported, its)


def statement_candidates(index: Index, file: File, tag: Tag) -> Iterator[Candidate]:
    """Statements that `tag` can be: first what ends or divides the block around it."""
    block = file.template.block_at(tag.start)
    if block.parent is not None and block.start == tag.start:
        block = block.parent
    if block.parent is not None:
        yield Candidate(f"end{block.keyword}", "statement", f"ends {block.keyword}", rank=0)
    docs = index.words.tags
    for name in dict.fromkeys((*STATEMENTS, *docs)):
        if name.startswith("end") or (name in ("else", "elif") and block.keyword not in BRANCHES[name]):
            continue
        word = docs.get(name)
        yield Candidate(name, "statement", word.signature if word else "", word.doc if word else "", rank=1)
