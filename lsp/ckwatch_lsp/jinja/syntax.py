"""A template's tags and the structure of blocks that they make. Every text has one, however broken."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from ckwatch_lsp.jinja.lines import Lines
from ckwatch_lsp.jinja.reading import tag_body
from ckwatch_lsp.jinja.scanning import extents
from ckwatch_lsp.jinja.tags import BRANCHES, TagBody

DEPTH_LIMIT = 100
"""Blocks within one another; what is opened within that many is no block. Jinja2 itself gives up not much later."""


class Tag(NamedTuple):
    """A tag at [start, end) of the text."""

    start: int
    end: int
    body: TagBody


class Block:
    """What a statement with a body encloses; the outermost has no statement and encloses the text.

    `opener`, `branches` (`else`, `elif`) and `closer` are indices of tags, −1 where there is none. `end` is where the
    closer begins, or what ended a block without one.
    """

    __slots__ = ("branches", "children", "closer", "end", "keyword", "opener", "parent", "start")

    def __init__(self, keyword: str, opener: int, start: int, parent: Block | None) -> None:
        self.keyword = keyword
        self.opener = opener
        self.start = start
        self.end = start
        self.closer = -1
        self.branches: list[int] = []
        self.children: list[Block] = []
        self.parent = parent


class Template:
    """A text read as a template."""

    __slots__ = ("_starts", "blocks", "lines", "root", "tags", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        self.tags = [
            Tag(start, end, tag_body(text[start:end], kind, closed)) for kind, start, end, closed in extents(text)
        ]
        self.root = Block("", -1, 0, None)
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

    def tag_at(self, offset: int) -> Tag | None:
        """The tag of `tag_index_at`."""
        index = self.tag_index_at(offset)
        return self.tags[index] if index >= 0 else None

    def block_at(self, offset: int) -> Block:
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

    def end_of(self, block: Block) -> int:
        """Where `block` ends, its closing tag included."""
        return self.tags[block.closer].end if block.closer >= 0 else block.end

    def _nest(self) -> None:
        open_blocks = [self.root]
        for index, tag in enumerate(self.tags):
            keyword = tag.body.keyword
            if not keyword:
                continue
            if tag.body.opens and len(open_blocks) < DEPTH_LIMIT:
                block = Block(keyword, index, tag.start, open_blocks[-1])
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


def _end_inner(open_blocks: list[Block], block: Block, end: int) -> None:
    """End the blocks inside `block` at `end`: nothing closes them. A `set` without a body ends at its tag."""
    while open_blocks[-1] is not block:
        open_blocks.pop().end = end
