"""A template's outline: macros, blocks, outermost variables, imports and includes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ckwatch_lsp.jinja.index import File
from ckwatch_lsp.jinja.names import Mention
from ckwatch_lsp.jinja.syntax import Block
from ckwatch_lsp.jinja.tags import Role
from ckwatch_lsp.text import Range

OutlineKind = Literal["macro", "block", "variable", "module", "include"]


@dataclass(frozen=True, slots=True)
class Outline:
    """One entry: `range` is all of it, `selection` its name."""

    name: str
    kind: OutlineKind
    detail: str
    range: Range
    selection: Range
    children: tuple[Outline, ...] = ()


_KINDS: dict[Role, OutlineKind] = {
    Role.MACRO: "macro",
    Role.BLOCK: "block",
    Role.SET: "variable",
    Role.MODULE: "module",
    Role.IMPORTED: "module",
}


def outline(file: File) -> tuple[Outline, ...]:
    """The outline of `file`, in the order of the text. A variable appears where it is first set."""
    template, names = file.template, file.names
    blocks = {block.opener: block for block in template.blocks[1:]}
    entries: list[tuple[int, int, str, OutlineKind, str, Mention | None]] = []
    for mention in names.mentions:
        kind = _KINDS.get(mention.role)
        if kind is None or (mention.role is Role.BLOCK and mention.tag not in blocks):
            continue
        if kind == "variable" and (mention.scope.kind in _HIDING or _first(mention) is not mention):
            continue
        tag = template.tags[mention.tag]
        block = blocks.get(mention.tag)
        end = template.end_of(block) if block is not None and _has_body(block) else tag.end
        detail = signature(file, mention) if kind == "macro" else ""
        entries.append((tag.start, end, mention.name, kind, detail, mention))
    for link in names.links:
        if link.keyword in ("include", "extends"):
            tag = template.tags[link.tag]
            entries.append((tag.start, tag.end, link.name, "include", link.keyword, None))
    entries.sort(key=lambda entry: (entry[0], -entry[1]))
    return _nested(file, entries, 0, len(template.text))[0]


def signature(file: File, macro: Mention) -> str:
    """The parameters of a macro as written: `(a, b=1)`."""
    body = file.template.tags[macro.tag].body
    parameters = (
        body.words[word].text if default is None else f"{body.words[word].text}={default}"
        for word, default in body.parameters
    )
    return f"({', '.join(parameters)})"


_HIDING = frozenset(("for", "call", "filter", "set", "with"))


def _has_body(block: Block) -> bool:
    return block.keyword != "set" or block.closer >= 0


def _first(mention: Mention) -> Mention:
    return mention.symbol.bindings[0] if mention.symbol is not None else mention


def _nested(
    file: File, entries: list[tuple[int, int, str, OutlineKind, str, Mention | None]], first: int, end: int
) -> tuple[tuple[Outline, ...], int]:
    lines = file.template.lines
    found: list[Outline] = []
    at = first
    while at < len(entries) and entries[at][0] < end:
        start, stop, name, kind, detail, mention = entries[at]
        children: tuple[Outline, ...] = ()
        following = at + 1
        if kind in ("macro", "block"):
            opener_end = file.template.tags[mention.tag].end if mention is not None else stop
            while following < len(entries) and entries[following][0] < opener_end:
                following += 1
            children, following = _nested(file, entries, following, stop)
        selection = lines.range(mention.start, mention.end) if mention is not None else lines.range(start, stop)
        found.append(Outline(name, kind, detail, lines.range(start, stop), selection, children))
        at = following
    return tuple(found), at
