"""A kernel file as its parts: instances, sweeps, shapes and defaults, what is at a cursor, and where names stand."""

from __future__ import annotations

import enum
import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.names import why_no_name, why_too_long
from ckwatch.model.text import Position, Range
from ckwatch.workspace.toml import TomlFile, TomlKind, TomlPair, TomlTable, TomlValue, parse_toml

DERIVED = ("sweep", "derived")

SWEEP_TABLES = (("sweep", "parameters"), DERIVED)

PARAMETER_TABLES = (("defaults",), ("instance",), *SWEEP_TABLES)
"""Tables of template parameters; in the last one they are expressions."""

OWN_KEYS: Mapping[tuple[str, ...], tuple[str, ...]] = {("instance",): ("name",)}
"""Keys of such tables that are no parameters."""


@dataclass(frozen=True, slots=True)
class InstanceTable:
    """An `[[instance]]`; `name` is empty where it has none."""

    table: TomlTable
    name: str

    @property
    def parameters(self) -> Mapping[str, TomlPair]:
        """Its own, by name."""
        pairs = self.table.pairs
        return {pair.name: pair for pair in pairs if pair.keys and is_parameter(("instance",), pair.name)}

    @property
    def name_value(self) -> TomlValue | None:
        """The place of its name."""
        return self.table.value("name")


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """A `[[sweep]]` with its `[sweep.parameters]` and `[sweep.derived]`, where these have headers of their own."""

    table: TomlTable
    parameter_table: TomlTable | None
    name: str
    base: str | None
    parameters: Mapping[str, TomlPair]
    derived: Mapping[str, TomlPair]
    derived_table: TomlTable | None = None

    @property
    def tables(self) -> tuple[TomlTable, ...]:
        """Its own and those below it."""
        found = (self.table, self.parameter_table, self.derived_table)
        return tuple(table for table in found if table is not None)

    @property
    def has_conditions(self) -> bool:
        """True if `where` leaves something out."""
        where = self.table.value("where")
        return where is not None and where.read() not in (None, "", [])

    @property
    def end(self) -> int:
        """The end of its last part."""
        return max(table.end for table in self.tables)


class KernelFileText:
    """A kernel file's text and what it says, worked out when it is asked for."""

    def __init__(self, text: str) -> None:
        self.toml: TomlFile = parse_toml(text)

    @property
    def text(self) -> str:
        """The whole text."""
        return self.toml.text

    @cached_property
    def template(self) -> TomlValue | None:
        """The string that names the template."""
        value = self.toml.tables[0].value("template")
        return value if value is not None and value.kind is TomlKind.STRING else None

    @cached_property
    def kind(self) -> str:
        """The operation's kind; the default is `gemm`."""
        return str(self.setting(("operation", "kind")) or "gemm")

    @cached_property
    def defaults(self) -> Mapping[str, TomlPair]:
        """The parameters of `[defaults]`."""
        return {pair.name: pair for table in self.tables(("defaults",)) for pair in table.pairs if pair.keys}

    @cached_property
    def instances(self) -> tuple[InstanceTable, ...]:
        """In their order."""
        return tuple(InstanceTable(table, _string(table, "name") or "") for table in self.tables(("instance",)))

    @cached_property
    def sweeps(self) -> tuple[SweepEntry, ...]:
        """In their order."""
        found = []
        for at, table in enumerate(self.toml.tables):
            if table.path != ("sweep",):
                continue
            below = {one.path[1:]: one for one in self._below(at)}
            swept, derived = below.get(("parameters",)), below.get(("derived",))
            found.append(
                SweepEntry(
                    *(table, swept, _string(table, "name") or "", _string(table, "base")),
                    *(_pairs_below(table, "parameters", swept), _pairs_below(table, "derived", derived), derived),
                )
            )
        return tuple(found)

    def _below(self, at: int) -> Iterator[TomlTable]:
        """The tables of a sweep that follow its own."""
        return itertools.takewhile(lambda table: table.path in SWEEP_TABLES, self.toml.tables[at + 1 :])

    @cached_property
    def instance_names(self) -> tuple[str, ...]:
        """The names of instances that are written out."""
        return tuple(dict.fromkeys(one.name for one in self.instances if one.name))

    def tables(self, path: tuple[str, ...]) -> Iterator[TomlTable]:
        """The tables with this path."""
        return (table for table in self.toml.tables if table.path == path and table.has_header)

    def setting(self, path: tuple[str, ...]) -> Any:
        """The value at a path through tables and inline tables; None if there is none."""
        for table in self.toml.tables:
            depth = len(table.path)
            if table.path == path[:depth] and table.index is None:
                found = _within(table.pairs, path[depth:])
                if found is not None:
                    return found.read()
        return None

    def instance_at(self, position: Position) -> InstanceTable | None:
        """The instance whose table a place is in."""
        table = self.toml.table_at(self.toml.offset(position))
        if table.path != ("instance",) or table.index is None:
            return None
        return InstanceTable(table, _string(table, "name") or "")

    def sweep_at(self, position: Position) -> SweepEntry | None:
        """The sweep whose tables a place is in."""
        start = self.toml.table_at(self.toml.offset(position)).start
        return next(
            (one for one in self.sweeps if any(start == table.start for table in one.tables)),
            None,
        )

    def instance(self, name: str) -> InstanceTable | None:
        """The first instance with this name."""
        return next((one for one in self.instances if one.name == name), None)

    def effective(self, instance: InstanceTable) -> dict[str, Any]:
        """All parameters of an instance: the defaults, and its own over them. What cannot be read is left out."""
        return values_of(self.defaults) | values_of(instance.parameters)

    def parameter_pairs(self, name: str | None = None) -> Iterator[tuple[TomlTable, TomlPair]]:
        """Every place where a template parameter, or that called `name`, gets a value."""
        for table in self.toml.tables:
            if name is None:
                yield from ((table, pair) for pair in _parameter_pairs(table, table.pairs))
                continue
            pairs = tuple(pair for one in (name, "parameters") if (pair := table.pair(one)) is not None)
            yield from ((table, pair) for pair in _parameter_pairs(table, pairs) if pair.name == name)

    def parameter_values(self, name: str) -> Iterator[tuple[TomlTable, TomlValue]]:
        """The values that the parameter `name` gets; their offsets are not those of the file."""
        for table in self.toml.tables:
            pairs = tuple(pair for one in (name, "parameters") if (pair := table.unplaced(one)) is not None)
            for pair in _parameter_pairs(table, pairs) if pairs and table.path != DERIVED else ():
                if pair.name == name and pair.value is not None:
                    yield table, pair.value


def _parameter_pairs(table: TomlTable, pairs: tuple[TomlPair, ...]) -> Iterator[TomlPair]:
    if table.path in PARAMETER_TABLES:
        yield from (pair for pair in pairs if pair.keys and is_parameter(table.path, pair.name))
    elif table.path == ("sweep",):
        inline = next((pair.value for pair in pairs if pair.name == "parameters"), None)
        yield from (pair for pair in (() if inline is None else inline.pairs) if pair.keys)


def _pairs_below(table: TomlTable, name: str, own: TomlTable | None) -> dict[str, TomlPair]:
    """Return the pairs that a sweep's table gives as `name`: below a header of its own, inline, or with dotted keys."""
    inline = table.value(name)
    pairs = own.pairs if own is not None else inline.pairs if inline is not None else ()
    dotted = {pair.keys[1].name: pair for pair in table.pairs if pair.name.startswith(f"{name}.")}
    return dotted | {pair.name: pair for pair in pairs if pair.keys}


def is_parameter(path: tuple[str, ...], name: str) -> bool:
    """Return True if the key `name` of the table at `path` is a template parameter."""
    return path in PARAMETER_TABLES and name not in OWN_KEYS.get(path, ())


def values_of(pairs: Mapping[str, TomlPair]) -> dict[str, Any]:
    """Return the values of pairs; pairs without a value are left out."""
    read = ((name, pair.value.read()) for name, pair in pairs.items() if pair.value is not None)
    return {name: value for name, value in read if value is not None}


def _string(table: TomlTable, name: str) -> str | None:
    pair = table.unplaced(name)
    value = None if pair is None else pair.value
    read = value.read() if value is not None and value.kind is TomlKind.STRING else None
    return read if isinstance(read, str) else None


def _within(pairs: tuple[TomlPair, ...], path: tuple[str, ...]) -> TomlValue | None:
    """The value at a path in pairs, dotted keys and inline tables."""
    if not path:
        return None
    for pair in pairs:
        names = tuple(part.name for part in pair.keys)
        if not names or path[: len(names)] != names or pair.value is None:
            continue
        rest = path[len(names) :]
        if not rest:
            return pair.value
        if pair.value.kind is TomlKind.INLINE_TABLE:
            return _within(pair.value.pairs, rest)
    return None


class CursorContextKind(enum.Enum):
    """The thing that a cursor is on."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"
    COMMENT = "comment"
    NOTHING = "nothing"
    """A place where no key, value or header can be written as it is: behind a value, or in a text without meaning."""


@dataclass(frozen=True, slots=True)
class CursorContext:
    """The thing that a cursor is on.

    `path` is the table that a key belongs to, inline tables included, and for a value its key's whole path, which is
    never empty: a cursor on a value without a key is on nothing. `range` is what would be replaced: the
    whole key, value, element of an array, or header. `value` is the value or element, `inside` whether the cursor is
    within quotes, `element` whether it is an array's. `siblings` are the keys that are there already.
    """

    kind: CursorContextKind
    table: TomlTable
    path: tuple[str, ...]
    range: Range
    pair: TomlPair | None = None
    value: TomlValue | None = None
    inside: bool = False
    element: bool = False
    siblings: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """The whole path of the key that is there, or whose value is; empty where none is written."""
        if self.kind is CursorContextKind.VALUE:
            return self.path
        written = self.kind is CursorContextKind.KEY and self.pair is not None and self.pair.keys
        return (*self.path, written[-1].name) if written else ()


def cursor_context(file: TomlFile, position: Position) -> CursorContext:
    """Return the context of a cursor at `position`."""
    return _Cursor(file, position).context()


class _Cursor:
    """Finds what is at a place of a file, from the table inwards."""

    def __init__(self, file: TomlFile, position: Position) -> None:
        self.file = file
        self.offset = file.offset(position)
        self.table = file.table_at(self.offset)

    def context(self) -> CursorContext:
        table = self.table
        if self._is_in_comment():
            return self._spot(CursorContextKind.COMMENT, table.path)
        if table.start <= self.offset <= table.header_end and table.header_end > table.start:
            return self._spot(CursorContextKind.HEADER, table.path, table.start, table.header_end)
        return self._in_pairs(table.pairs, table.path)

    def _is_in_comment(self) -> bool:
        comments = self.file.comments
        at = bisect_left(comments, self.offset, key=lambda comment: comment.start) - 1
        return at >= 0 and comments[at].start < self.offset <= comments[at].end

    def _in_pairs(self, pairs: tuple[TomlPair, ...], path: tuple[str, ...]) -> CursorContext:
        offset = self.offset
        siblings = tuple(pair.name for pair in pairs if not pair.start <= offset <= pair.key_end)
        pair = next((pair for pair in pairs if pair.start <= offset <= self._reach(pair)), None)
        if pair is None:
            return self._between(path, siblings)
        names = tuple(part.name for part in pair.keys)
        if offset <= pair.key_end:
            outer = names[:-1] if "." in self.file.text[pair.start : pair.key_end] else ()
            start = pair.keys[-1].start if pair.keys and outer and offset >= pair.keys[-1].start else pair.start
            path += outer
            return self._spot(CursorContextKind.KEY, path, start, pair.key_end, pair=pair, siblings=siblings)
        if pair.equals is None:
            return self._spot(CursorContextKind.NOTHING, path, siblings=siblings)
        if offset <= pair.equals or not names:
            return self._spot(CursorContextKind.NOTHING, path, pair=pair)
        return self._in_value(pair, pair.value, path + names)

    def _reach(self, pair: TomlPair) -> int:
        """Up to where a cursor still is on a pair: without a whole value, to the end of the line or what follows it."""
        file = self.file
        whole = pair.value is None or pair.value.closed or pair.value.kind is TomlKind.STRING
        if not whole and not file.text[pair.end :].strip():
            return len(file.text)
        if pair.equals is None or (pair.value is not None and whole):
            return pair.end
        end = file.line_end(file.line_of(pair.end))
        stops = [at for mark in "#,}" if (at := file.text.find(mark, pair.end, end)) >= 0]
        return min([end, *stops])

    def _in_value(
        self, pair: TomlPair, value: TomlValue | None, path: tuple[str, ...], *, element: bool = False
    ) -> CursorContext:
        offset = self.offset
        if value is None:
            return self._spot(CursorContextKind.VALUE, path, pair=pair)
        if offset < value.start:
            if self.file.text[offset : value.start].strip():
                return self._spot(CursorContextKind.NOTHING, path, pair=pair)
            return self._spot(CursorContextKind.VALUE, path, value.start, value.end, pair=pair, value=value)
        inside = value.start < offset and (offset < value.end or not value.closed)
        if value.kind is TomlKind.INLINE_TABLE and inside:
            return self._in_pairs(value.pairs, path)
        if value.kind is TomlKind.ARRAY and inside:
            for item in value.items:
                goes_on = not item.closed and item.kind in (TomlKind.ARRAY, TomlKind.INLINE_TABLE)
                if item.start <= offset and (goes_on or offset <= item.end):
                    return self._in_value(pair, item, path, element=True)
            return self._spot(CursorContextKind.VALUE, path, pair=pair, element=True)
        quoted = value.kind is TomlKind.STRING and inside
        found = {"pair": pair, "value": value, "inside": quoted, "element": element}
        return self._spot(CursorContextKind.VALUE, path, value.start, value.end, **found)

    def _between(self, path: tuple[str, ...], siblings: tuple[str, ...]) -> CursorContext:
        """No pair is there. A key can be written where nothing but blanks stand before it, or a mark of an inline
        table."""
        before = self.file.text[self.file.line_start(self.file.line_of(self.offset)) : self.offset]
        can = path != self.table.path or not before.strip()
        return self._spot(CursorContextKind.KEY if can else CursorContextKind.NOTHING, path, siblings=siblings)

    def _spot(
        self, kind: CursorContextKind, path: tuple[str, ...], start: int = -1, end: int = -1, **more: Any
    ) -> CursorContext:
        """From `start` to `end`; without them the cursor alone."""
        first, last = (self.offset, self.offset) if start < 0 else (start, end)
        return CursorContext(kind, self.table, path, self.file.range(first, last), **more)


IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = frozenset(("and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"))
_FUNCTIONS = frozenset(("abs", "len", "max", "min", "sum", "first", "int", "last", "length"))


class NameKind(enum.Enum):
    """The kind of a named thing."""

    INSTANCE = "instance"
    PARAMETER = "parameter"
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class NamePlace:
    """The place of a name, without quotes. `defines`: it is given there, not only mentioned."""

    range: Range
    defines: bool


@dataclass(frozen=True, slots=True)
class NamedPlaces:
    """A name, where the cursor touches it, and all its places in the file."""

    kind: NameKind
    name: str
    range: Range
    places: tuple[NamePlace, ...]


def places_at(document: KernelFileText, position: Position) -> NamedPlaces | None:
    """The name that a cursor at `position` is on."""
    spot = cursor_context(document.toml, position)
    found = name_at(document, spot, position)
    if found is None:
        return None
    kind, name, reach = found
    if kind is NameKind.INSTANCE:
        return NamedPlaces(kind, name, reach, tuple(instance_places(document, name)))
    if kind is NameKind.PARAMETER:
        return NamedPlaces(kind, name, reach, tuple(parameter_places(document, name)))
    return NamedPlaces(kind, name, reach, (NamePlace(reach, defines=False),))


def name_at(document: KernelFileText, spot: CursorContext, position: Position) -> tuple[NameKind, str, Range] | None:
    """Return the kind of name at a spot, the name, and its range."""
    if spot.kind is CursorContextKind.KEY and spot.pair is not None and spot.pair.keys:
        if is_parameter(spot.path, spot.pair.name):
            return NameKind.PARAMETER, spot.pair.name, spot.range
        return None
    value = spot.value
    if spot.kind is not CursorContextKind.VALUE or value is None or value.kind is not TomlKind.STRING:
        return None
    read = value.read()
    if not isinstance(read, str):
        return None
    match spot.path:
        case ("instance", "name") | ("sweep", "base"):
            return NameKind.INSTANCE, read, inner_range(document, value)
        case ("template",):
            return NameKind.TEMPLATE, read, inner_range(document, value)
        case ("sweep", "where") | ("sweep", "derived", _):
            offset = document.toml.offset(position)
            for name, start, end in words_of(value):
                if start <= offset <= end:
                    return NameKind.PARAMETER, name, document.toml.range(start, end)
    return None


def instance_places(document: KernelFileText, name: str) -> Iterator[NamePlace]:
    """Yield the places where an instance is defined, and where sweeps stand on it."""
    for instance in document.instances:
        value = instance.name_value
        if instance.name == name and value is not None:
            yield NamePlace(inner_range(document, value), defines=True)
    for sweep in document.sweeps:
        value = sweep.table.value("base")
        if sweep.base == name and value is not None:
            yield NamePlace(inner_range(document, value), defines=False)


def parameter_places(document: KernelFileText, name: str) -> Iterator[NamePlace]:
    """Yield the places where a parameter gets a value, and where conditions and expressions of sweeps mention it."""
    for _, pair in document.parameter_pairs(name):
        part = pair.keys[-1]
        quoted = document.text[part.start] in "\"'"
        yield NamePlace(document.toml.range(part.start + quoted, part.end - quoted), defines=True)
    for sweep in document.sweeps:
        where = sweep.table.value("where")
        expressions = [pair.value for pair in sweep.derived.values() if pair.value is not None]
        for text in (*(() if where is None else (where, *where.items)), *expressions):
            if text.kind is TomlKind.STRING:
                for word, start, end in words_of(text):
                    if word == name:
                        yield NamePlace(document.toml.range(start, end), defines=False)


def words_of(value: TomlValue) -> Iterator[tuple[str, int, int]]:
    """The parameters that a condition or expression mentions, with their offsets. Strings within it are no names."""
    if "\\" in value.text:
        return
    quotes = 3 if value.text.startswith(('"""', "'''")) else 1
    text = value.text[quotes : -quotes if value.closed else None]
    blank = re.sub(r"'[^']*'|\"[^\"]*\"", lambda found: " " * len(found[0]), text)
    for found in IDENTIFIER.finditer(blank):
        called = blank[found.end() :].lstrip().startswith("(") or blank[: found.start()].rstrip().endswith("|")
        if found[0] not in _KEYWORDS and not (called and found[0] in _FUNCTIONS):
            start = value.start + quotes + found.start()
            yield found[0], start, start + len(found[0])


def inner_range(document: KernelFileText, value: TomlValue) -> Range:
    """Return the range of a string's text, without its quotes."""
    quotes = 3 if value.text.startswith(('"""', "'''")) else 1
    return document.toml.range(value.start + quotes, max(value.start + quotes, value.end - quotes * value.closed))


def why_no_instance_name(document: KernelFileText, name: str, old: str) -> str | None:
    """Why an instance cannot be called so; None if it can."""
    refused = why_no_name(name)
    if refused is not None:
        return refused
    if name != old and name in document.instance_names:
        return f"there is an instance `{name}` already"
    return None


def why_no_parameter_name(name: str) -> str | None:
    """Why a parameter cannot be called so; None if it can."""
    if not IDENTIFIER.fullmatch(name) or name in _KEYWORDS:
        return f"`{name}` cannot be a template parameter: it is not an identifier"
    return why_too_long(name)
