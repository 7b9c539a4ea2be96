"""A template as an editor shows it: outline, folds, selection ranges and highlights."""

from __future__ import annotations

from itertools import pairwise

from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.text_parts import TextSymbol, line_runs, nested
from ckwatch_lsp.templates.language.index import TemplateFile, TemplateIndex, TemplatePlace, TemplateTarget
from ckwatch_lsp.templates.language.names import Mention
from ckwatch_lsp.templates.language.syntax import TemplateBlock, TemplateTag, TemplateTree, bracket_pairs
from ckwatch_lsp.templates.language.tags import Role

_KINDS = {
    Role.MACRO: types.SymbolKind.Function,
    Role.BLOCK: types.SymbolKind.Class,
    Role.SET: types.SymbolKind.Variable,
    Role.MODULE: types.SymbolKind.Module,
    Role.IMPORTED: types.SymbolKind.Module,
}


def outline(file: TemplateFile) -> tuple[TextSymbol, ...]:
    """The outline of `file`, in the order of the text. A variable appears where it is first set."""
    template, names = file.template, file.names
    blocks = {block.opener: block for block in template.blocks[1:]}
    entries: list[tuple[int, int, str, types.SymbolKind, str, Mention | None]] = []
    for mention in names.mentions:
        kind = _KINDS.get(mention.role)
        if kind is None or (mention.role is Role.BLOCK and mention.tag not in blocks):
            continue
        if kind is types.SymbolKind.Variable and (mention.scope.kind in _HIDING or _first(mention) is not mention):
            continue
        tag = template.tags[mention.tag]
        block = blocks.get(mention.tag)
        has_body = block is not None and (block.keyword != "set" or block.closer >= 0)
        end = template.end_of(block) if block is not None and has_body else tag.end
        detail = signature(file, mention) if kind is types.SymbolKind.Function else ""
        entries.append((tag.start, end, mention.name, kind, detail, mention))
    for link in names.links:
        if link.keyword in ("include", "extends"):
            tag = template.tags[link.tag]
            entries.append((tag.start, tag.end, link.name, types.SymbolKind.File, link.keyword, None))
    entries.sort(key=lambda entry: (entry[0], -entry[1]))
    return _nested(file, entries, 0, len(template.text))[0]


def signature(file: TemplateFile, macro: Mention) -> str:
    """The parameters of a macro as written: `(a, b=1)`."""
    body = file.template.tags[macro.tag].body
    parameters = (
        body.words[word].text if default is None else f"{body.words[word].text}={default}"
        for word, default in body.parameters
    )
    return f"({', '.join(parameters)})"


_HIDING = frozenset(("for", "call", "filter", "set", "with"))


def _first(mention: Mention) -> Mention:
    return mention.symbol.bindings[0] if mention.symbol is not None else mention


def _nested(
    file: TemplateFile, entries: list[tuple[int, int, str, types.SymbolKind, str, Mention | None]], first: int, end: int
) -> tuple[tuple[TextSymbol, ...], int]:
    lines = file.template.lines
    found: list[TextSymbol] = []
    at = first
    while at < len(entries) and entries[at][0] < end:
        start, stop, name, kind, detail, mention = entries[at]
        children: tuple[TextSymbol, ...] = ()
        following = at + 1
        if kind in (types.SymbolKind.Function, types.SymbolKind.Class):
            opener_end = file.template.tags[mention.tag].end if mention is not None else stop
            while following < len(entries) and entries[following][0] < opener_end:
                following += 1
            children, following = _nested(file, entries, following, stop)
        selection = lines.range(mention.start, mention.end) if mention is not None else lines.range(start, stop)
        found.append(TextSymbol(name, kind, detail, lines.range(start, stop), selection, children))
        at = following
    return tuple(found), at


def folds(template: TemplateTree) -> list[types.FoldingRange]:
    """All folds of more than one line, in order. The line that closes something stays visible."""
    lines = template.lines
    found: set[tuple[int, int, str]] = set()

    def add(start: int, end: int, kind: str = "region", *, keep_last: bool = True) -> None:
        first, last = lines.line(start), lines.line(end) - keep_last
        if last > first:
            found.add((first, last, kind))

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
    for pair in bracket_pairs(template):
        if pair.kind == "/*":
            add(pair.start, pair.end, "comment", keep_last=False)
        else:
            add(pair.start, pair.end)
    imports = (tag for tag in template.tags if tag.body.keyword in ("import", "from", "include") and tag.body.templates)
    numbers = sorted({lines.line(tag.start) for tag in imports})
    found.update((first, last, "imports") for first, last in line_runs(numbers))
    outermost = {first: types.FoldingRange(first, last, kind=kind) for first, last, kind in sorted(found)}
    return list(outermost.values())


def selection(template: TemplateTree, position: Position) -> list[Range]:
    """Ranges around `position`, the smallest first; the last is the whole text."""
    offset = template.lines.offset(position)
    found: set[tuple[int, int]] = {(0, len(template.text))}
    tag = _tag_touching(template, offset)
    if tag is not None:
        found |= _within_tag(tag, offset)
    else:
        found |= _within_text(template, offset)
    for pair in bracket_pairs(template):
        if pair.start <= offset <= pair.end:
            found.add((pair.start, pair.end))
            if pair.kind in "([{":
                found.add((pair.start + 1, pair.end - 1))
    for block in template.blocks[1:]:
        found |= _of_block(template, block, offset)
    chain = nested((each for each in found if each[0] < each[1]), offset)
    return [template.lines.range(start, end) for start, end in chain or [(0, len(template.text))]]


def _tag_touching(template: TemplateTree, offset: int) -> TemplateTag | None:
    for probe in (offset, offset - 1, offset + 1):
        tag = template.tag_at(probe)
        if tag is not None and tag.start <= offset <= tag.end:
            return tag
    return None


def _within_tag(tag: TemplateTag, offset: int) -> set[tuple[int, int]]:
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


def _within_text(template: TemplateTree, offset: int) -> set[tuple[int, int]]:
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


def _of_block(template: TemplateTree, block: TemplateBlock, offset: int) -> set[tuple[int, int]]:
    opener = template.tags[block.opener]
    whole = (opener.start, template.end_of(block))
    found = {whole}
    edges = [opener, *(template.tags[branch] for branch in block.branches)]
    ends = [*(template.tags[branch].start for branch in block.branches), block.end]
    for edge, end in zip(edges, ends, strict=True):
        if edge.end <= offset <= end:
            found.add((edge.end, end))
    return found


def highlights(index: TemplateIndex, path: str, position: Position) -> list[tuple[Range, types.DocumentHighlightKind]]:
    """The places in the template at `path`, in order."""
    meaning = index.meaning(path, position)
    if meaning is not None:
        places: dict[TemplatePlace, None] = {}
        for entity in meaning.entities:
            if not isinstance(entity, TemplateTarget):
                places.update(dict.fromkeys(index.places_in(path, entity)))
        kinds = (types.DocumentHighlightKind.Read, types.DocumentHighlightKind.Write)
        return sorted((place.range, kinds[place.binds]) for place in places)
    template = index.files[path].template
    reached = _tags_of_block(template, template.lines.offset(position))
    return [(reach, types.DocumentHighlightKind.Text) for reach in reached]


def _tags_of_block(template: TemplateTree, offset: int) -> list[Range]:
    """The keywords of the block whose opening, dividing or closing keyword is at `offset`."""
    tag = template.tag_index_at(offset)
    if tag < 0 or not template.tags[tag].body.keyword:
        return []
    keyword = template.tags[tag].body.words[0]
    start = template.tags[tag].start
    if not start + keyword.start <= offset <= start + keyword.end:
        return []
    for block in template.blocks[1:]:
        tags = [block.opener, *block.branches, *([block.closer] if block.closer >= 0 else [])]
        if tag in tags:
            return [
                template.lines.range(
                    template.tags[each].start + template.tags[each].body.words[0].start,
                    template.tags[each].start + template.tags[each].body.words[0].end,
                )
                for each in tags
            ]
    return []


def linked_names(template: TemplateTree, position: Position) -> list[Range]:
    """The name of a block and the same name behind its `endblock`, if `position` is in one of them; else nothing."""
    offset = template.lines.offset(position)
    tag = template.tag_index_at(offset)
    block = next((one for one in template.blocks[1:] if tag in (one.opener, one.closer)), None)
    if tag < 0 or block is None or block.keyword != "block" or block.closer < 0:
        return []
    found = [
        (template.tags[each].start + name.start, template.tags[each].start + name.end)
        for each in (block.opener, block.closer)
        for name in template.tags[each].body.words[1:2]
    ]
    texts = {template.text[start:end] for start, end in found}
    if len(found) != len(texts) + 1 or not any(start <= offset <= end for start, end in found):
        return []
    return [template.lines.range(start, end) for start, end in found]
