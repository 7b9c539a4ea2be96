"""Parses a template into tags and the structure of their blocks, however broken the text is.

Also what the text around the tags says: comments above a definition, and the brackets of the C++.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

from ckwatch.model.text import LineIndex, Position
from ckwatch_lsp.templates.language.lexer import extents
from ckwatch_lsp.templates.language.tags import BRANCHES, TagBody, tag_body


class TextLines(LineIndex):
    """Beginnings and ends of a text's lines. Here `\r\n` ends a line, and no position is between the two."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._text = text

    @property
    def count(self) -> int:
        """The number of lines, at least one."""
        return len(self.starts)

    def line(self, offset: int) -> int:
        """The line that `offset` is on."""
        return bisect_right(self.starts, offset) - 1

    def start(self, line: int) -> int:
        """The offset at which `line` begins; the text's end after the last line."""
        return self.starts[line] if line < len(self.starts) else self.length

    def end(self, line: int) -> int:
        """The offset at which `line` ends, before its newline."""
        if line + 1 >= len(self.starts):
            return self.length
        end = self.starts[line + 1] - 1
        return end - 1 if end > self.starts[line] and self._text[end - 1] == "\r" else end

    def offset(self, position: Position) -> int:
        """The offset of `position`; past the end of a line that is the line's end."""
        found = super().offset(position)
        return min(found, self.end(position.line)) if 0 <= position.line < self.count else found


DEPTH_LIMIT = 100
"""Blocks within one another; what is opened within that many is no block. Jinja2 itself gives up not much later."""


class TemplateTag(NamedTuple):
    """A tag at [start, end) of the text."""

    start: int
    end: int
    body: TagBody


class TemplateBlock:
    """The content of a statement with a body; the outermost has no statement and encloses the text.

    `opener`, `branches` (`else`, `elif`) and `closer` are indices of tags, −1 where there is none. `end` is where the
    closer begins, or what ended a block without one.
    """

    __slots__ = ("branches", "children", "closer", "end", "keyword", "opener", "parent", "start")

    def __init__(self, keyword: str, opener: int, start: int, parent: TemplateBlock | None) -> None:
        self.keyword = keyword
        self.opener = opener
        self.start = start
        self.end = start
        self.closer = -1
        self.branches: list[int] = []
        self.children: list[TemplateBlock] = []
        self.parent = parent


class TemplateTree:
    """A text read as a template."""

    __slots__ = ("_starts", "blocks", "lines", "root", "tags", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = TextLines(text)
        self.tags = [
            TemplateTag(start, end, tag_body(text[start:end], kind, closed))
            for kind, start, end, closed in extents(text)
        ]
        self.root = TemplateBlock("", -1, 0, None)
        self.blocks = [self.root]
        self._starts = [tag.start for tag in self.tags]
        self._nest()

    def tag_index_at(self, offset: int) -> int:
        """The index of the tag that a cursor at `offset` is in: behind its first character, before its last. Else −1.

        An unfinished tag also holds a cursor at its end.
        """
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return -1
        tag = self.tags[index]
        if tag.start < offset < tag.end or (offset == tag.end and not tag.body.closed):
            return index
        return -1

    def tag_at(self, offset: int) -> TemplateTag | None:
        """The tag of `tag_index_at`."""
        index = self.tag_index_at(offset)
        return self.tags[index] if index >= 0 else None

    def block_at(self, offset: int) -> TemplateBlock:
        """The innermost block whose body, or opening or closing tag, holds `offset`."""
        block = self.root
        while True:
            starts = [child.start for child in block.children]
            index = bisect_right(starts, offset) - 1
            if index < 0:
                return block
            child = block.children[index]
            if offset >= self.end_of(child):
                return block
            block = child

    def end_of(self, block: TemplateBlock) -> int:
        """Return the end of `block`, its closing tag included."""
        return self.tags[block.closer].end if block.closer >= 0 else block.end

    def _nest(self) -> None:
        open_blocks = [self.root]
        for index, tag in enumerate(self.tags):
            keyword = tag.body.keyword
            if not keyword:
                continue
            if tag.body.opens and len(open_blocks) < DEPTH_LIMIT:
                block = TemplateBlock(keyword, index, tag.start, open_blocks[-1])
                open_blocks[-1].children.append(block)
                open_blocks.append(block)
                self.blocks.append(block)
            elif keyword in BRANCHES:
                for block in reversed(open_blocks):
                    if block.keyword in BRANCHES[keyword]:
                        _end_inner(open_blocks, block, tag.start)
                        block.branches.append(index)
                        break
                    if block.keyword in ("macro", "block", "call"):
                        break
            elif keyword.startswith("end"):
                opener = keyword[3:]
                for block in reversed(open_blocks[1:]):
                    if block.keyword == opener:
                        _end_inner(open_blocks, block, tag.start)
                        open_blocks.pop()
                        block.closer = index
                        block.end = tag.start
                        break
        _end_inner(open_blocks, self.root, len(self.text))
        self.root.end = len(self.text)


def _end_inner(open_blocks: list[TemplateBlock], block: TemplateBlock, end: int) -> None:
    """End the blocks inside `block` at `end`: nothing closes them. A `set` without a body ends at its tag."""
    while open_blocks[-1] is not block:
        open_blocks.pop().end = end


def comment_above(template: TemplateTree, tag: int) -> str:
    """The text of the comment that ends right above a tag, or on its line; empty where there is none."""
    start = template.tags[tag].start
    if tag == 0:
        return ""
    before = template.tags[tag - 1]
    between = template.text[before.end : start]
    if before.body.kind != "comment" or between.strip() or between.count("\n") > 1:
        return ""
    inner = before.body.source.removeprefix("{#").removesuffix("#}").strip("-+")
    first, newline, rest = inner.partition("\n")
    return (first.strip() + newline + dedent(rest)).strip()


_PIECE = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.){1,8}'"""
    r"""|^[ \t]*\#[ \t]*(?:if|ifdef|ifndef|elif|else|endif)\b[^\n]*|[()\[\]{}]""",
    re.DOTALL | re.MULTILINE,
)
_OPENERS = {")": "(", "]": "[", "}": "{"}


class BracketPair(NamedTuple):
    """A bracket at `start` and the one that closes it at `end`, a comment, or a branch of `#if` with its directives."""

    kind: str
    start: int
    end: int


def bracket_pairs(template: TemplateTree) -> list[BracketPair]:
    """Brackets (`(`, `[`, `{`), comments of several lines (`/*`) and branches of `#if` that are closed, by their ends.

    Where branches of Jinja or of the preprocessor hold unequal brackets, those that do not fit are passed over.
    """
    found: list[BracketPair] = []
    brackets: list[tuple[str, int]] = []
    directives: list[int] = []
    for start, end in _pieces_of_text(template):
        for match in _PIECE.finditer(template.text, start, end):
            piece, at = match.group(), match.start()
            if piece.startswith("/*"):
                found.append(BracketPair("/*", at, match.end()))
            elif piece in "([{":
                brackets.append((piece, at))
            elif piece in _OPENERS:
                for index in range(len(brackets) - 1, max(len(brackets) - 9, -1), -1):
                    if brackets[index][0] == _OPENERS[piece]:
                        found.append(BracketPair(_OPENERS[piece], brackets[index][1], at + 1))
                        del brackets[index:]
                        break
            elif piece.lstrip().startswith("#"):
                directive = piece.lstrip()[1:].lstrip()
                if not directive.startswith("if") and directives:
                    found.append(BracketPair("#", directives.pop(), at))
                if not directive.startswith("endif"):
                    directives.append(match.end())
    return found


def _pieces_of_text(template: TemplateTree) -> Iterator[tuple[int, int]]:
    at = 0
    for tag in template.tags:
        if tag.start > at:
            yield at, tag.start
        at = tag.end
    if at < len(template.text):
        yield at, len(template.text)
