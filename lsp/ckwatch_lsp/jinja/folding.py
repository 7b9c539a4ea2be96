"""What of a template can be folded: Jinja's blocks, comments and long tags, C++'s braces, comments and `#if`."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ckwatch_lsp.jinja.cpp import pairs
from ckwatch_lsp.jinja.syntax import Template

FoldKind = Literal["region", "comment", "imports"]


class Fold(NamedTuple):
    """Lines from `first` to `last`; `last` is folded away too."""

    first: int
    last: int
    kind: FoldKind


def folds(template: Template) -> list[Fold]:
    """All folds of more than one line, in order. The line that closes something stays visible."""
    lines = template.lines
    found: set[Fold] = set()

    def add(start: int, end: int, kind: FoldKind = "region", *, keep_last: bool = True) -> None:
        first, last = lines.line(start), lines.line(end) - keep_last
        if last > first:
            found.add(Fold(first, last, kind))

    for block in template.blocks[1:]:
        edges = [block.opener, *block.branches]
        ends = [*(template.tags[branch].start for branch in block.branches), block.end]
        for edge, end in zip(edges, ends, strict=True):
            add(template.tags[edge].start, end)
    for tag in template.tags:
        if tag.body.kind == "comment":
            add(tag.start, tag.end, "comment", keep_last=False)
        else:
            add(tag.start, tag.end)
    for pair in pairs(template):
        if pair.kind == "/*":
            add(pair.start, pair.end, "comment", keep_last=False)
        else:
            add(pair.start, pair.end)
    found.update(_imports(template))
    outermost: dict[int, Fold] = {}
    for fold in sorted(found, key=lambda fold: (fold.first, fold.last)):
        outermost[fold.first] = fold
    return list(outermost.values())


def _imports(template: Template) -> list[Fold]:
    """Runs of lines that only import or include."""
    numbers = sorted(
        {
            template.lines.line(tag.start)
            for tag in template.tags
            if tag.body.keyword in ("import", "from", "include") and tag.body.templates
        }
    )
    found: list[Fold] = []
    for number in numbers:
        if found and found[-1].last == number - 1:
            found[-1] = found[-1]._replace(last=number)
        else:
            found.append(Fold(number, number, "imports"))
    return [fold for fold in found if fold.last > fold.first]
