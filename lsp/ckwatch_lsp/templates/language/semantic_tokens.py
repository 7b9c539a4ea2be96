"""Semantic tokens of a template: Jinja's only, the editor colours the C++ around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.text_parts import SemanticToken
from ckwatch_lsp.templates.language.index import BuiltinName, InstanceParameter, TemplateFile, TemplateIndex, Variable
from ckwatch_lsp.templates.language.names import Mention
from ckwatch_lsp.templates.language.syntax import TemplateTag, TextLines
from ckwatch_lsp.templates.language.tags import Role

_KINDS = {
    "begin": "macro",
    "end": "macro",
    "integer": "number",
    "float": "number",
    "string": "string",
    "operator": "operator",
    "comment": "comment",
}
_ROLES: dict[Role, str] = {
    Role.MACRO: "function",
    Role.MODULE: "namespace",
    Role.MACRO_PARAMETER: "parameter",
    Role.CALL_PARAMETER: "parameter",
}
_DELIMITERS_OF_RAW = re.compile(r"\A\{%[^%]*%\}|\{%[-+]?\s*endraw\s*[-+]?%\}\Z")


def semantic_tokens(
    index: TemplateIndex, path: str, first_line: int = 0, last_line: int | None = None
) -> list[SemanticToken]:
    """The tokens of the template at `path`, in order, without overlaps; of the lines up to `last_line` inclusive."""
    file = index.files[path]
    template = file.template
    lines = template.lines
    begin = lines.start(first_line)
    end = len(template.text) if last_line is None else lines.start(last_line + 1)
    found: list[SemanticToken] = []
    for number, tag in enumerate(template.tags):
        if tag.end <= begin:
            continue
        if tag.start >= end:
            break
        for start, stop, kind, modifiers in _pieces(index, file, number, tag):
            found.extend(_by_line(lines, start, stop, kind, modifiers))
    if first_line or last_line is not None:
        last = lines.count if last_line is None else last_line
        found = [token for token in found if first_line <= token.range.start.line <= last]
    return found


def _pieces(
    index: TemplateIndex, file: TemplateFile, number: int, tag: TemplateTag
) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
    body, base = tag.body, tag.start
    if body.kind == "raw":
        for match in _DELIMITERS_OF_RAW.finditer(body.source):
            yield base + match.start(), base + match.end(), "macro", ()
        return
    mentions = {mention.start: mention for mention in file.names.mentions_of(number)}
    keywords = {word.start for word in body.words if word.role is Role.KEYWORD}
    inside = {word.start - 1: word for word in body.words if word.role is Role.PARAMETER}
    for token in body.tokens:
        start, end = base + token.start, base + token.end
        if token.kind == "name":
            mention = mentions.get(start)
            if mention is not None:
                kind, modifiers = _of_mention(index, file, mention)
                yield start, end, kind, modifiers
            elif token.start in keywords:
                yield start, end, "keyword", ()
        elif token.kind == "string" and (word := inside.get(token.start)) is not None:
            yield start, base + word.start, "string", ()
            yield base + word.start, base + word.end, "parameter", ("readonly",)
            yield base + word.end, end, "string", ()
        elif token.kind in _KINDS:
            yield start, end, _KINDS[token.kind], ()


def _of_mention(index: TemplateIndex, file: TemplateFile, mention: Mention) -> tuple[str, tuple[str, ...]]:
    role = mention.role
    if role is Role.FILTER or role is Role.TEST:
        return "function", ("defaultLibrary",)
    if role is Role.BLOCK:
        return "class", ("declaration",)
    if role is Role.ARGUMENT:
        return "parameter", ()
    if role is Role.PARAMETER:
        return "parameter", ("readonly",)
    if role.binds and mention.symbol is not None:
        again = role is Role.SET and mention.symbol.bindings[0] is not mention
        modifier = "modification" if again else "declaration"
        if role is Role.IMPORTED:
            return _of_entity(index, file, mention)[0], (modifier,)
        return _ROLES.get(role, "variable"), (modifier,)
    return _of_entity(index, file, mention)


def _of_entity(index: TemplateIndex, file: TemplateFile, mention: Mention) -> tuple[str, tuple[str, ...]]:
    entities = index.entities(file, mention)
    match entities[0] if entities else None:
        case InstanceParameter():
            return "parameter", ("readonly",)
        case BuiltinName(kind, _):
            return ("function" if kind == "hook" else "variable"), ("defaultLibrary",)
        case Variable() as variable:
            symbol = index.symbol(variable)
            role = symbol.role if symbol is not None else None
            return (_ROLES.get(role, "variable") if role is not None else "variable"), ()
        case _:
            return ("property" if mention.role is Role.ATTRIBUTE else "variable"), ()


def _by_line(lines: TextLines, start: int, end: int, kind: str, modifiers: tuple[str, ...]) -> Iterator[SemanticToken]:
    line = lines.line(start)
    while start < end:
        line_end = min(lines.end(line), end)
        if line_end > start:
            first = Position(line, start - lines.start(line))
            reach = Range(first, Position(line, first.column + line_end - start))
            yield SemanticToken(reach, kind, modifiers)
        line += 1
        start = lines.start(line)
        if line >= lines.count:
            return
