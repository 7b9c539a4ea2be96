"""Names within one kernel file: instances, which sweeps stand on, and template parameters."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ckwatch_lsp.kernel_file.document import KernelFile, is_parameter
from ckwatch_lsp.kernel_file.spots import Spot, SpotKind, spot_at
from ckwatch_lsp.kernel_file.syntax import Kind, Value
from ckwatch_lsp.text import Position, Range

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAME_LENGTH_LIMIT = 120
_NAME = re.compile(r"[^/@\x00-\x1f\x7f]+")
_KEYWORDS = frozenset(("and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"))
_FUNCTIONS = frozenset(("abs", "len", "max", "min", "sum", "first", "int", "last", "length"))


class NameKind(enum.Enum):
    """What a name is of."""

    INSTANCE = "instance"
    PARAMETER = "parameter"
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name stands, without quotes. `defines`: it is given there, not only mentioned."""

    range: Range
    defines: bool


@dataclass(frozen=True, slots=True)
class Named:
    """A name, where the cursor touches it, and all its places in the file."""

    kind: NameKind
    name: str
    range: Range
    places: tuple[Place, ...]


def places_at(document: KernelFile, position: Position) -> Named | None:
    """The name that a cursor at `position` is on."""
    spot = spot_at(document.toml, position)
    found = name_at(document, spot, position)
    if found is None:
        return None
    kind, name, reach = found
    if kind is NameKind.INSTANCE:
        return Named(kind, name, reach, tuple(instance_places(document, name)))
    if kind is NameKind.PARAMETER:
        return Named(kind, name, reach, tuple(parameter_places(document, name)))
    return Named(kind, name, reach, (Place(reach, defines=False),))


def name_at(document: KernelFile, spot: Spot, position: Position) -> tuple[NameKind, str, Range] | None:
    """What kind of name a spot is, the name, and where it stands."""
    if spot.kind is SpotKind.KEY and spot.pair is not None and spot.pair.keys:
        if is_parameter(spot.path, spot.pair.name):
            return NameKind.PARAMETER, spot.pair.name, spot.range
        return None
    value = spot.value
    if spot.kind is not SpotKind.VALUE or value is None or value.kind is not Kind.STRING:
        return None
    read = value.read()
    if not isinstance(read, str):
        return None
    match spot.path:
        case ("instance", "name") | ("sweep", "base"):
            return NameKind.INSTANCE, read, inner_range(document, value)
        case ("template",):
            return NameKind.TEMPLATE, read, inner_range(document, value)
        case ("sweep", "where"):
            offset = document.toml.offset(position)
            for name, start, end in words_of(value):
                if start <= offset <= end:
                    return NameKind.PARAMETER, name, document.toml.range(start, end)
    return None


def instance_places(document: KernelFile, name: str) -> Iterator[Place]:
    """Where an instance is defined, and where sweeps stand on it."""
    for instance in document.instances:
        value = instance.name_value
        if instance.name == name and value is not None:
            yield Place(inner_range(document, value), defines=True)
    for sweep in document.sweeps:
        value = sweep.table.value("base")
        if sweep.base == name and value is not None:
            yield Place(inner_range(document, value), defines=False)


def parameter_places(document: KernelFile, name: str) -> Iterator[Place]:
    """Where a parameter gets a value, and where conditions of sweeps mention it."""
    for _, pair in document.parameter_pairs(name):
        part = pair.keys[-1]
        quoted = document.text[part.start] in "\"'"
        yield Place(document.toml.range(part.start + quoted, part.end - quoted), defines=True)
    for sweep in document.sweeps:
        where = sweep.table.value("where")
        for text in () if where is None else (where, *where.items):
            if text.kind is Kind.STRING:
                for word, start, end in words_of(text):
                    if word == name:
                        yield Place(document.toml.range(start, end), defines=False)


def words_of(value: Value) -> Iterator[tuple[str, int, int]]:
    """The parameters that a condition mentions, with their offsets. Strings within it are no names."""
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


def inner_range(document: KernelFile, value: Value) -> Range:
    """Where a string's text stands, without its quotes."""
    quotes = 3 if value.text.startswith(('"""', "'''")) else 1
    return document.toml.range(value.start + quotes, max(value.start + quotes, value.end - quotes * value.closed))


def why_no_instance_name(document: KernelFile, name: str, old: str) -> str | None:
    """Why an instance cannot be called so; None if it can."""
    if not _NAME.fullmatch(name) or name != name.strip() or name in (".", ".."):
        return f"`{name}` is no name: a name is not empty and has no / @ or control characters"
    if len(name) > NAME_LENGTH_LIMIT:
        return f"the name has {len(name)} characters; at most {NAME_LENGTH_LIMIT} are allowed"
    if name != old and name in document.instance_names:
        return f"there is an instance `{name}` already"
    return None


def why_no_parameter_name(name: str) -> str | None:
    """Why a parameter cannot be called so; None if it can."""
    if not IDENTIFIER.fullmatch(name) or name in _KEYWORDS:
        return f"`{name}` cannot be a template parameter: it is no identifier"
    return None
