"""Reads a file that is being typed: tables that are broken are as they were last read, all others as they stand.

A text without errors is remembered. In a text with errors, each table that has one is replaced by what the remembered
text has for it: the table of the same name (`[[instance]]` and the like by their `name`, with the tables below them),
or, where a header or a name cannot be read, the one that is missing at this place. What the remembered text does not
have is left out. Every place is one of the text as it stands: of the key if it is there, else of the table's header.

The text that was put together is the next one to be remembered: a table that is deleted is not back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position
from ckwatch.workspace import toml
from ckwatch.workspace.toml_document import ARRAYS, TomlDocument, parse_values

_ROUNDS = 4
"""Readings of one text: a table that was put back may be an error beside those that were edited."""


@dataclass(frozen=True, slots=True)
class _Group:
    """A table and those below it: `[operation]` and `[operation.x]`, one `[[sweep]]` and its `[sweep.parameters]`.

    `name` is None where an array's table has none that can be read, or the header has none.
    """

    root: str
    name: str | None
    tables: tuple[toml.TomlTable, ...]

    @property
    def start(self) -> int:
        return self.tables[0].start

    @property
    def end(self) -> int:
        return self.tables[-1].next

    @property
    def key(self) -> tuple[str, str] | None:
        return None if self.name is None else (self.root, self.name)


class MendedDocument(TomlDocument):
    """The document of `text` in which each of the tables that `broken` names is as in `kept`.

    `at_kept` tells places of those tables from others.
    """

    def __init__(self, document: TomlDocument, kept: str, broken: Collection[int]) -> None:
        self.path, self.text, self.source = document.path, document.text, document.source
        self._lines = LineIndex(self.text)
        here, there = _groups(self.text), _groups(kept)
        broken = _with_torn(here, set(broken), {one.key for one in there})
        claims = _claims(here, there, broken)
        pieces: list[str] = []
        tables: list[toml.TomlTable] = []
        for at, group in enumerate(here):
            if at not in broken:
                pieces.append(self.text[group.start : group.end])
                tables += group.tables
            elif (found := claims.get(at)) is not None:
                pieces.append(kept[found.start : found.end])
                tables += _placed(found, group)
        self.mended = "".join(piece if piece.endswith("\n") else f"{piece}\n" for piece in pieces if piece)
        parsed = parse_values(self.mended)
        self.values = parsed.values
        self.diagnostics = ()
        self.is_whole = not parsed.problems
        left_out = [here[at] for at in broken if at not in claims]
        self.left_out = bool(left_out)
        # without the defaults or the operation that could not be read, the other tables mean something else
        self.is_whole &= bool(kept) or all(group.root in ARRAYS for group in left_out)
        self._begin()
        for table in tables:
            self._add_table(table)
        self._kept = [(here[at].start, here[at].end) for at in sorted(broken)]

    def at_kept(self, position: Position) -> bool:
        """Return True if a place is in a table that was replaced."""
        offset = self._lines.offset(position)
        return any(start <= offset < end for start, end in self._kept)


def _groups(text: str) -> list[_Group]:
    found: list[list[toml.TomlTable]] = []
    for table in toml.parse_toml(text).tables:
        path = table.path
        if found and len(path) > 1 and found[-1][0].path[:1] == path[:1]:
            found[-1].append(table)
        else:
            found.append([table])
    return [_group(tables, at == 0) for at, tables in enumerate(found)]


def _group(tables: Sequence[toml.TomlTable], is_top: bool) -> _Group:
    first = tables[0]
    root = first.path[0] if first.path else ""
    name: str | None = "" if is_top or root else None
    if root in ARRAYS:
        written = first.value("name")
        value = written.read() if written is not None and written.closed else None
        name = value if isinstance(value, str) else None
    return _Group(root, name, tuple(tables))


def _with_torn(here: Sequence[_Group], broken: set[int], known: Collection[tuple[str, str] | None]) -> set[int]:
    """`broken`, and each table before a new header that is being typed: keys below that may be its own."""
    new = (at for at in broken if here[at].name is None or (here[at].root not in ARRAYS and here[at].key not in known))
    return broken | {at - 1 for at in new if at and here[at - 1].key in known}


def _claims(here: Sequence[_Group], there: Sequence[_Group], broken: set[int]) -> dict[int, _Group]:
    """The remembered tables of those that are broken, by index."""
    by_key = {one.key: at for at, one in reversed(list(enumerate(there)))}
    taken = {by_key[one.key]: at for at, one in enumerate(here) if at not in broken and one.key in by_key}
    found: dict[int, int] = {}
    for at in sorted(broken):
        known = by_key.get(here[at].key)
        if here[at].key is not None and known is not None and known not in taken:
            taken[known] = at
            found[at] = known
    for at in sorted(broken - found.keys()):
        group = here[at]
        if group.root in ARRAYS and group.name is not None:
            continue  # another name that is new
        before = max((old for old, new in taken.items() if new < at), default=-1)
        after = min((old for old, new in taken.items() if new > at), default=len(there))
        free = [old for old in range(before + 1, after) if old not in taken and old > 0]
        same = [old for old in free if there[old].root == group.root]
        if same or free:
            chosen = (same or free)[0]
            taken[chosen] = at
            found[at] = chosen
    return {at: there[old] for at, old in found.items()}


def _placed(kept: _Group, group: _Group) -> Iterator[toml.TomlTable]:
    """The tables of `kept` with the places that they have in `group`."""
    left = list(group.tables)
    for table in kept.tables:
        found = next((one for one in left if one.path == table.path), None)
        if found is not None:
            left.remove(found)
        place = found or group.tables[0]
        start, end = (place.start, place.header_end) if table.block.keys else (0, 0)
        keys = tuple(toml.KeyPart(part.name, start, end) for part in table.block.keys)
        pairs = tuple(_with_value(pair) for pair in place.pairs) if found is not None else ()
        block = toml.TomlBlock(keys, pairs, start, end, place.end, double=table.block.double)
        yield toml.TomlTable(block, 0, None, place.next)


def _with_value(pair: toml.TomlPair) -> toml.TomlPair:
    """A pair whose value is missing has the place of its key."""
    if pair.value is not None:
        return pair
    return pair._replace(value=toml.TomlValue(toml.TomlKind.OTHER, pair.start, pair.key_end, ""))


@dataclass(frozen=True, slots=True)
class HalfTyped:
    """A text with errors, completed by `kept`: `shown` are its diagnostics, `document` the one to use; `kept` the text
    to remember."""

    document: TomlDocument
    shown: tuple[Diagnostic, ...]
    kept: str


def completed(
    document: TomlDocument,
    diagnostics: Sequence[Diagnostic],
    kept: str,
    read: Callable[[TomlDocument], Sequence[Diagnostic]],
) -> HalfTyped | None:
    """`document`, which has these diagnostics, with broken tables as in `kept`; None where that leaves errors.

    `read` returns the diagnostics of a document.
    """
    shown: tuple[Diagnostic, ...] | None = None
    broken: set[int] = set()
    groups = _groups(document.text)
    errors: Iterable[Diagnostic] = document.diagnostics or diagnostics
    if not document.diagnostics:
        shown = tuple(diagnostics)
    lines = LineIndex(document.text)
    for _ in range(_ROUNDS):
        at = {_index_at(groups, lines.offset(one.span.start)) for one in errors if _has_place(one, document.path)}
        if at <= broken:
            return None
        broken |= at
        mended = MendedDocument(document, kept, broken)
        if not mended.is_whole:
            return None
        found = read(mended)
        if shown is None:
            beside = [one for one in found if one.span.path != document.path or not mended.at_kept(one.span.start)]
            shown = (*document.diagnostics, *(diagnostics if mended.left_out else beside))
            shown = tuple(dict.fromkeys(shown))
        errors = [one for one in found if one.severity is Severity.ERROR]
        if not errors:
            return HalfTyped(mended, shown, mended.mended)
    return None


def _has_place(one: Diagnostic, path: str) -> bool:
    return one.severity is Severity.ERROR and one.span.path == path and not one.code.endswith("/no-instance")


def _index_at(groups: Sequence[_Group], offset: int) -> int:
    return max((at for at, group in enumerate(groups) if at == 0 or group.start <= offset), default=0)
