"""A kernel file as its parts: which tables are instances, sweeps, shapes and defaults, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ckwatch_lsp.kernel_file.scanning import parse
from ckwatch_lsp.kernel_file.syntax import Kind, Pair, Table, TomlFile, Value
from ckwatch_lsp.text import Position

PARAMETER_TABLES = (("defaults",), ("instance",), ("sweep", "parameters"))
"""Where template parameters are given."""

OWN_KEYS: Mapping[tuple[str, ...], tuple[str, ...]] = {("instance",): ("name",)}
"""Keys of such tables that are no parameters."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An `[[instance]]`; `name` is empty where it has none."""

    table: Table
    name: str

    @property
    def parameters(self) -> Mapping[str, Pair]:
        """Its own, by name."""
        pairs = self.table.pairs
        return {pair.name: pair for pair in pairs if pair.keys and is_parameter(("instance",), pair.name)}

    @property
    def name_value(self) -> Value | None:
        """Where its name stands."""
        return self.table.value("name")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A `[[sweep]]` with its `[sweep.parameters]`, if that has a header of its own."""

    table: Table
    parameter_table: Table | None
    name: str
    base: str | None
    parameters: Mapping[str, Pair]

    @property
    def has_conditions(self) -> bool:
        """Whether `where` leaves something out."""
        where = self.table.value("where")
        return where is not None and where.read() not in (None, "", [])

    @property
    def end(self) -> int:
        """Where the last of it ends."""
        return self.table.end if self.parameter_table is None else max(self.table.end, self.parameter_table.end)


class KernelFile:
    """A kernel file's text and what it says, worked out when it is asked for."""

    def __init__(self, text: str) -> None:
        self.toml: TomlFile = parse(text)

    @property
    def text(self) -> str:
        """The whole text."""
        return self.toml.text

    @property
    def top(self) -> Table:
        """The keys above the first table."""
        return self.toml.tables[0]

    @cached_property
    def template(self) -> Value | None:
        """The string that names the template."""
        value = self.top.value("template")
        return value if value is not None and value.kind is Kind.STRING else None

    @cached_property
    def kind(self) -> str:
        """The operation's kind; `gemm` where it is not told."""
        return str(self.setting(("operation", "kind")) or "gemm")

    @cached_property
    def defaults(self) -> Mapping[str, Pair]:
        """The parameters of `[defaults]`."""
        return {pair.name: pair for table in self.tables(("defaults",)) for pair in table.pairs if pair.keys}

    @cached_property
    def instances(self) -> tuple[Instance, ...]:
        """In their order."""
        return tuple(Instance(table, _string(table, "name") or "") for table in self.tables(("instance",)))

    @cached_property
    def sweeps(self) -> tuple[Sweep, ...]:
        """In their order."""
        found = []
        for at, table in enumerate(self.toml.tables):
            if table.path != ("sweep",):
                continue
            below = self.toml.tables[at + 1] if at + 1 < len(self.toml.tables) else None
            own = below if below is not None and below.path == ("sweep", "parameters") else None
            pairs = own.pairs if own is not None else ()
            inline = table.value("parameters")
            if own is None and inline is not None:
                pairs = inline.pairs
            dotted = {pair.keys[1].name: pair for pair in table.pairs if pair.name.startswith("parameters.")}
            parameters = dotted | {pair.name: pair for pair in pairs if pair.keys}
            found.append(Sweep(table, own, _string(table, "name") or "", _string(table, "base"), parameters))
        return tuple(found)

    @cached_property
    def instance_names(self) -> tuple[str, ...]:
        """The names of instances that are written out."""
        return tuple(dict.fromkeys(one.name for one in self.instances if one.name))

    def tables(self, path: tuple[str, ...]) -> Iterator[Table]:
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

    def instance_at(self, position: Position) -> Instance | None:
        """The instance whose table a place is in."""
        table = self.toml.table_at(self.toml.offset(position))
        if table.path != ("instance",) or table.index is None:
            return None
        return Instance(table, _string(table, "name") or "")

    def sweep_at(self, position: Position) -> Sweep | None:
        """The sweep whose tables a place is in."""
        start = self.toml.table_at(self.toml.offset(position)).start
        return next(
            (
                one
                for one in self.sweeps
                if start == one.table.start or (one.parameter_table is not None and start == one.parameter_table.start)
            ),
            None,
        )

    def instance(self, name: str) -> Instance | None:
        """The first instance with this name."""
        return next((one for one in self.instances if one.name == name), None)

    def effective(self, instance: Instance) -> dict[str, Any]:
        """All parameters of an instance: the defaults, and its own over them. What cannot be read is left out."""
        return values_of(self.defaults) | values_of(instance.parameters)

    def parameter_pairs(self, name: str | None = None) -> Iterator[tuple[Table, Pair]]:
        """Every place where a template parameter, or that called `name`, gets a value."""
        for table in self.toml.tables:
            if name is None:
                yield from ((table, pair) for pair in _parameter_pairs(table, table.pairs))
                continue
            pairs = tuple(pair for one in (name, "parameters") if (pair := table.pair(one)) is not None)
            yield from ((table, pair) for pair in _parameter_pairs(table, pairs) if pair.name == name)

    def parameter_values(self, name: str) -> Iterator[tuple[Table, Value]]:
        """The values that the parameter `name` gets; their offsets are not those of the file."""
        for table in self.toml.tables:
            pairs = tuple(pair for one in (name, "parameters") if (pair := table.unplaced(one)) is not None)
            for pair in _parameter_pairs(table, pairs) if pairs else ():
                if pair.name == name and pair.value is not None:
                    yield table, pair.value


def _parameter_pairs(table: Table, pairs: tuple[Pair, ...]) -> Iterator[Pair]:
    if table.path in PARAMETER_TABLES:
        yield from (pair for pair in pairs if pair.keys and is_parameter(table.path, pair.name))
    elif table.path == ("sweep",):
        inline = next((pair.value for pair in pairs if pair.name == "parameters"), None)
        yield from (pair for pair in (() if inline is None else inline.pairs) if pair.keys)


def is_parameter(path: tuple[str, ...], name: str) -> bool:
    """Whether the key `name` of the table at `path` is a template parameter."""
    return path in PARAMETER_TABLES and name not in OWN_KEYS.get(path, ())


def values_of(pairs: Mapping[str, Pair]) -> dict[str, Any]:
    """What pairs say; those that say nothing are left out."""
    read = ((name, pair.value.read()) for name, pair in pairs.items() if pair.value is not None)
    return {name: value for name, value in read if value is not None}


def _string(table: Table, name: str) -> str | None:
    pair = table.unplaced(name)
    value = None if pair is None else pair.value
    read = value.read() if value is not None and value.kind is Kind.STRING else None
    return read if isinstance(read, str) else None


def _within(pairs: tuple[Pair, ...], path: tuple[str, ...]) -> Value | None:
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
        if pair.value.kind is Kind.INLINE_TABLE:
            return _within(pair.value.pairs, rest)
    return None
