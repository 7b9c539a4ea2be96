"""Ranges around a place, each within the next: word, brackets, tag, line, block, file."""

from __future__ import annotations

from itertools import pairwise

from ckwatch_lsp.jinja.cpp import pairs
from ckwatch_lsp.jinja.syntax import Block, Tag, Template
from ckwatch_lsp.text import Position, Range


def selection(template: Template, position: Position) -> list[Range]:
    """Ranges around `position`, the smallest first; the last is the whole text."""
    offset = template.lines.offset(position)
    found: set[tuple[int, int]] = {(0, len(template.text))}
    tag = _tag_touching(template, offset)
    if tag is not None:
        found |= _within_tag(tag, offset)
    else:
        found |= _within_text(template, offset)
    for pair in pairs(template):
        if pair.start <= offset <= pair.end:
            found.add((pair.start, pair.end))
            if pair.kind in "([{":
                found.add((pair.start + 1, pair.end - 1))
    for block in template.blocks[1:]:
        found |= _of_block(template, block, offset)
    ordered = sorted((each for each in found if each[0] <= offset <= each[1] and each[0] < each[1]), key=_length)
    chain: list[tuple[int, int]] = []
    for start, end in ordered:
        if not chain or (start <= chain[-1][0] and end >= chain[-1][1]):
            chain.append((start, end))
    return [template.lines.range(start, end) for start, end in chain or [(0, len(template.text))]]


def _length(extent: tuple[int, int]) -> tuple[int, int]:
    return extent[1] - extent[0], extent[0]


def _tag_touching(template: Template, offset: int) -> Tag | None:
    for probe in (offset, offset - 1, offset + 1):
        tag = template.tag_at(probe)
        if tag is not None and tag.start <= offset <= tag.end:
            return tag
    return None


def _within_tag(tag: Tag, offset: int) -> set[tuple[int, int]]:
    body, base = tag.body, tag.start
    found = {(tag.start, tag.end)}
    inner = [token for token in body.tokens if token.kind not in ("begin", "end")]
    if inner and body.kind not in ("comment", "raw"):
        found.add((base + inner[0].start, base + inner[-1].end))
    for token in inner:
        if base + token.start <= offset <= base + token.end and token.kind != "operator":
            found.add((base + token.start, base + token.end))
            if token.kind == "string":
                found.add((base + token.start + 1, base + token.end - 1))
    for start, end in body.brackets:
        if base + start <= offset <= base + end:
            found |= {(base + start, base + end), (base + start + 1, base + end - 1)}
    for call in body.calls:
        close = call.close if call.close >= 0 else len(body.source)
        if call.callee >= 0 and base + body.words[call.callee].start <= offset <= base + close + 1:
            found.add((base + body.words[call.callee].start, base + min(close + 1, len(body.source))))
        if call.close >= 0 and base + call.open < offset <= base + call.close:
            edges = [call.open, *call.commas, call.close]
            for left, right in pairwise(edges):
                if base + left < offset <= base + right:
                    piece = body.source[left + 1 : right]
                    start = left + 1 + len(piece) - len(piece.lstrip())
                    found.add((base + start, base + start + len(piece.strip())))
    return found


def _within_text(template: Template, offset: int) -> set[tuple[int, int]]:
    text = template.text
    start = end = offset
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    line = template.lines.line(offset)
    first, last = template.lines.start(line), template.lines.end(line)
    shown = text[first:last]
    indent = len(shown) - len(shown.lstrip())
    return {(start, end), (first + indent, first + len(shown.rstrip())), (first, last)}


def _of_block(template: Template, block: Block, offset: int) -> set[tuple[int, int]]:
    opener = template.tags[block.opener]
    whole = (opener.start, template.end_of(block))
    found = {whole}
    edges = [opener, *(template.tags[branch] for branch in block.branches)]
    ends = [*(template.tags[branch].start for branch in block.branches), block.end]
    for edge, end in zip(edges, ends, strict=True):
        if edge.end <= offset <= end:
            found.add((edge.end, end))
    return found
