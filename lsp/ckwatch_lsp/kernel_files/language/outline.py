"""A kernel file as an editor shows it: symbols, folds, selection ranges and highlights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch.workspace.toml import TomlFile, TomlKind, TomlPair, TomlTable, TomlValue
from ckwatch_lsp.kernel_files.language.document import SWEEP_TABLES, KernelFileText, places_at
from ckwatch_lsp.protocol.text_parts import TextSymbol, line_runs, nested

HIGHLIGHT_LIMIT = 200
"""Places of one name that are shown at one time."""


Fold = tuple[int, int, types.FoldingRangeKind]
"""The first and the last line; the first is kept."""

_NAMED: Mapping[tuple[str, ...], types.SymbolKind] = {
    ("instance",): types.SymbolKind.Object,
    ("sweep",): types.SymbolKind.Array,
    ("shape",): types.SymbolKind.Struct,
}


def symbols(file: TomlFile) -> tuple[TextSymbol, ...]:
    """The tables with their keys; the tables of a sweep are below it."""
    found = [_of_pair(file, pair) for pair in file.tables[0].pairs if pair.keys]
    last_sweep: TextSymbol | None = None
    for table in file.tables[1:]:
        symbol = _of_table(file, table)
        if table.path in SWEEP_TABLES and last_sweep is not None:
            whole = Range(last_sweep.range.start, symbol.range.end)
            last_sweep = replace(last_sweep, range=whole, children=(*last_sweep.children, symbol))
            found[-1] = last_sweep
            continue
        found.append(symbol)
        last_sweep = symbol if symbol.kind is types.SymbolKind.Array else None
    return tuple(found)


def folds(file: TomlFile) -> list[types.FoldingRange]:
    """Tables, values over several lines, and runs of comments."""
    found: set[Fold] = set()
    for table in file.tables:
        if table.header_end > table.start:
            _add(found, file, table.start, table.end)
        for pair in table.pairs:
            _fold_value(found, file, pair.value)
    found.update(_comment_runs(file))
    ordered = sorted(found, key=lambda fold: (fold[0], -fold[1]))
    names = {file.line_of(table.start): _folded_text(file, table) for table in file.tables if table.value("name")}
    return [
        types.FoldingRange(first, last, kind=kind, collapsed_text=names.get(first)) for first, last, kind in ordered
    ]


def _folded_text(file: TomlFile, table: TomlTable) -> str:
    """The header and the name: `[[instance]] v3_128x128x64`."""
    name = table.value("name")
    return f"{file.text[table.start : table.header_end]} {'' if name is None else name.read() or name.text}"


def selections(file: TomlFile, position: Position) -> tuple[Range, ...]:
    """Ranges around `position`, the smallest first, each larger than the one before."""
    offset = file.offset(position)
    table = file.table_at(offset)
    around: list[tuple[int, int]] = []
    for _, chain in file.pairs_at(offset):
        for pair in reversed(chain):
            around += _in_pair(pair, offset)
            around.append((pair.start, pair.end))
    line = file.line_of(offset)
    around.append((file.line_start(line), file.line_end(line)))
    if table.header_end > table.start:
        if offset <= table.header_end:
            around.append((table.start, table.header_end))
        around.append((table.start, max(table.end, table.header_end)))
    around.append((0, len(file.text)))
    return tuple(file.range(start, end) for start, end in nested(around, offset))


def highlights(document: KernelFileText, position: Position) -> tuple[Range, ...]:
    """The places in this file of the instance's or parameter's name at `position`, the nearest ones."""
    found = places_at(document, position)
    ranges = [] if found is None else [place.range for place in found.places]
    if len(ranges) > HIGHLIGHT_LIMIT:
        ranges = sorted(ranges, key=lambda one: abs(one.start.line - position.line))[:HIGHLIGHT_LIMIT]
    return tuple(sorted(ranges))


def _of_table(file: TomlFile, table: TomlTable) -> TextSymbol:
    whole = file.range(table.start, max(table.end, table.header_end))
    header = file.range(table.start, table.header_end)
    kind = _NAMED.get(table.path, types.SymbolKind.Namespace)
    name_value = table.value("name")
    named = name_value.read() if name_value is not None and kind is not types.SymbolKind.Namespace else None
    children = tuple(_of_pair(file, pair) for pair in table.pairs if pair.keys and pair.value != name_value)
    path = ".".join(table.path) or "?"
    if isinstance(named, str) and named and name_value is not None:
        selection = file.range(name_value.start, name_value.end)
        return TextSymbol(named, kind, path, whole, selection, children)
    detail = "" if kind is types.SymbolKind.Namespace else path
    return TextSymbol(
        f"{path} {table.index + 1}" if table.index is not None else path, kind, detail, whole, header, children
    )


def _of_pair(file: TomlFile, pair: TomlPair) -> TextSymbol:
    detail = "" if pair.value is None else " ".join(pair.value.text.split())
    if len(detail) > 60:
        detail = detail[:59] + "…"
    inner = pair.value.pairs if pair.value is not None else ()
    children = tuple(_of_pair(file, one) for one in inner if one.keys)
    return TextSymbol(
        pair.name or "?",
        types.SymbolKind.Property,
        detail,
        file.range(pair.start, pair.end),
        file.range(pair.start, pair.key_end),
        children,
    )


def _in_pair(pair: TomlPair, offset: int) -> Iterator[tuple[int, int]]:
    for part in pair.keys:
        if part.start <= offset <= part.end:
            yield part.start, part.end
    if pair.keys and offset <= pair.key_end:
        yield pair.start, pair.key_end
    value = pair.value
    while value is not None and value.start <= offset <= value.end:
        yield value.start, value.end
        quoted = value.kind is TomlKind.STRING and value.closed and not value.text.startswith(('"""', "'''"))
        if quoted and value.start < offset < value.end:
            yield value.start + 1, value.end - 1
        if value.items and value.start < offset < value.end:
            yield value.items[0].start, value.items[-1].end
        value = next((item for item in value.items if item.start <= offset <= item.end), None)


def _fold_value(found: set[Fold], file: TomlFile, value: TomlValue | None) -> None:
    if value is None:
        return
    if "\n" in value.text:
        _add(found, file, value.start, value.end)
        for item in value.items:
            _fold_value(found, file, item)
    for pair in value.pairs:
        _fold_value(found, file, pair.value)


def _add(found: set[Fold], file: TomlFile, start: int, end: int) -> None:
    first, last = file.line_of(start), file.line_of(end)
    if last > first:
        found.add((first, last, types.FoldingRangeKind.Region))


def _comment_runs(file: TomlFile) -> Iterator[Fold]:
    """Whole lines of comments, two or more."""
    lines = ((comment.start, file.line_of(comment.start)) for comment in file.comments)
    whole = (line for start, line in lines if not file.text[file.line_start(line) : start].strip())
    yield from ((first, last, types.FoldingRangeKind.Comment) for first, last in line_runs(whole))
