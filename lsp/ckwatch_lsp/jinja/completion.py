"""What can be written at a place in a template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ckwatch_lsp.jinja.calls import called_at
from ckwatch_lsp.jinja.candidates import (
    Candidate,
    attribute_candidates,
    exported_candidates,
    keyword_candidates,
    name_candidates,
    statement_candidates,
    word_candidates,
)
from ckwatch_lsp.jinja.index import File, Index
from ckwatch_lsp.jinja.syntax import Tag
from ckwatch_lsp.jinja.tags import CONSTANTS, RESERVED
from ckwatch_lsp.text import Position, Range

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
class Completion:
    """Candidates, best first; each replaces `range`."""

    where: Where
    range: Range
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the index does not know: parameters of the instances with what to tell of each, and names of templates."""

    parameters: tuple[tuple[str, str], ...] = ()
    templates: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A cursor in a tag, offsets in the tag: the word [start, end) it is in, and texts of the tokens before."""

    tag: Tag
    offset: int
    start: int
    end: int
    before: tuple[str, ...]
    string: str | None


def completion(index: Index, path: str, position: Position, around: Surroundings) -> Completion:
    """The completion at `position` of the template at `path`."""
    file = index.files[path]
    lines = file.template.lines
    offset = lines.offset(position)
    tag = file.template.tag_at(offset)
    nothing = Range(position, position)
    if tag is None:
        return Completion("text", nothing, ())
    if tag.body.kind in ("comment", "raw"):
        return Completion("nothing", nothing, ())
    place = _place(tag, offset)
    where, candidates = _complete(index, file, place, around)
    reach = lines.range(tag.start + place.start, tag.start + place.end)
    return Completion(where, reach, tuple(_distinct(candidates)))


def _place(tag: Tag, offset: int) -> _Place:
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


def _complete(index: Index, file: File, place: _Place, around: Surroundings) -> tuple[Where, Iterable[Candidate]]:
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
        return "filter", word_candidates(index.words.filters.values(), "filter")
    if last == "is" or before[-2:] == ("is", "not"):
        negation = [] if last == "not" else [Candidate("not", "keyword", "")]
        return "test", [*word_candidates(index.words.tests.values(), "test"), *negation]
    special = _of_statement(index, file, place, keyword, before)
    if special is not None:
        return special
    if _is_value(last):
        return "operator", keyword_candidates(_OPERATORS)
    named = [
        Candidate(argument.name, "argument", f"of {called.name}", insert=f"{argument.name}=", rank=0)
        for called in (called_at(index, file, place.offset) if last in ("(", ",") else ())
        for argument in called.arguments
    ]
    names = name_candidates(index, file, place.offset, around.parameters)
    return "expression", [*named, *names, *keyword_candidates(_VALUE_WORDS)]


_OPERATORS = ("and", "or", "if", "else", "is", "in", "not in")
_VALUE_WORDS = ("not", "true", "false", "none")


def _of_statement(
    index: Index, file: File, place: _Place, keyword: str, before: tuple[str, ...]
) -> tuple[Where, Iterable[Candidate]] | None:
    """What a statement wants where it wants no expression."""
    last = before[-1] if before else ""
    depth = sum(text in ("(", "[", "{") for text in before) - sum(text in (")", "]", "}") for text in before)
    if keyword in ("macro", "block") and len(before) == 1:
        return "nothing", ()
    if keyword == "macro" and last in ("(", ",") and depth == 1:
        return "nothing", ()
    if keyword == "set" and len(before) == 1:
        return "nothing", ()
    if keyword == "for" and "in" not in before:
        return ("nothing", ()) if last in ("for", ",", "(") else ("operator", keyword_candidates(("in",)))
    if keyword == "for" and _is_value(last) and depth == 0:
        return "operator", keyword_candidates(("if", "recursive", *_OPERATORS))
    if keyword == "endblock" and len(before) == 1:
        return "nothing", ()
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


def _in_string(place: _Place, around: Surroundings) -> tuple[Where, Iterable[Candidate]]:
    before = place.before
    keyword = before[0] if place.tag.body.kind == "statement" and before else ""
    if keyword in ("include", "import", "from", "extends"):
        return "template", [Candidate(name, "template", "") for name in around.templates]
    if before[-2:-1] in (("header",), ("globals",)) and before[-1] == "(":
        return "family", [Candidate(name, "value", "") for name in around.families]
    if before[-2:] in (("template_argument", "("), ("parameters", "["), ("get", "(")):
        return "parameter", [Candidate(name, "parameter", detail) for name, detail in around.parameters]
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


def _distinct(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    seen: set[str] = set()
    for candidate in sorted(candidates, key=lambda candidate: (candidate.rank, candidate.label.casefold())):
        if candidate.label not in seen:
            seen.add(candidate.label)
            yield candidate
