"""Answers of the daemon, read without pydantic, which takes longer to load than most commands take.

`decoder` makes the values of a type. Quick commands do without the wire types, too: objects are records, whose fields
are attributes, and diagnostics are values of the model, which commands print. Nothing is lost: the daemon's address
names the code that it runs (`ckwatch.wire.endpoint`), so what it sends has the very types that its client knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from ckwatch.model.diagnostics import Diagnostic

if TYPE_CHECKING:  # loading the wire types takes as long as a check
    from ckwatch.wire.state import BuildLine, Status, WorkspaceDetail

Decoder: TypeAlias = Callable[[Any], Any]


class Record(dict[str, Any]):
    """A JSON object that is read like the wire type whose place it takes; its lists are in the place of tuples."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def build_line(data: bytes) -> BuildLine:
    """A line of a build's answer. Raises ValueError for what is none; so do the others."""
    return cast("BuildLine", _with_diagnostics(data))


def workspace_detail(data: bytes) -> WorkspaceDetail:
    """The workspace itself."""
    return cast("WorkspaceDetail", _with_diagnostics(data))


def status(data: bytes) -> Status:
    """The daemon itself."""
    return cast("Status", json.loads(data, object_hook=Record))


def _with_diagnostics(data: bytes) -> Record:
    found = json.loads(data, object_hook=Record)
    try:
        return Record(found | {"diagnostics": decoder(tuple[Diagnostic, ...])(found["diagnostics"])})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no answer: {error}") from None


@cache
def decoder(kind: Any) -> Decoder:
    """The function from what JSON has to values of an answer's type, or of a part's. It raises ValueError for others.

    It takes what pydantic takes of the types that answers have: unknown fields are ignored, and an `int` is no `str`.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(origin or kind):
        return _dataclass(origin or kind, arguments)
    if origin is Annotated:
        return decoder(arguments[0])
    if origin is Literal:
        return _choice(arguments)
    if origin in (Union, UnionType):
        return _union([decoder(one) for one in arguments])
    if origin in (tuple, list):
        return _sequence(origin, arguments)
    if origin in (dict, Mapping):
        return _mapping(*arguments)
    if hasattr(kind, "_make"):  # a NamedTuple
        values = _sequence(tuple, tuple(get_type_hints(kind).values()))
        return lambda value: kind._make(values(value))
    found: Decoder = _SCALARS.get(kind, kind)  # else an enumeration, or a topic
    return found


def _dataclass(kind: Any, arguments: tuple[Any, ...]) -> Decoder:
    hints = get_type_hints(kind)
    names = {one.name for one in fields(kind) if one.init}
    hints = {name: hint[arguments] if getattr(hint, "__parameters__", ()) else hint for name, hint in hints.items()}
    decoders = {name: decoder(hint) for name, hint in hints.items() if name in names}

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"expected an object for {kind.__name__}")  # as for other contents
        try:
            return kind(**{name: decoders[name](one) for name, one in value.items() if name in decoders})
        except TypeError as error:
            raise ValueError(str(error)) from None

    return decode


def _choice(values: tuple[Any, ...]) -> Decoder:
    def decode(value: Any) -> Any:
        if value not in values:
            raise ValueError(f"expected one of {values}")
        return value

    return decode


def _union(choices: Sequence[Decoder]) -> Decoder:
    def decode(value: Any) -> Any:
        for choice in choices:
            with suppress(ValueError):
                return choice(value)
        raise ValueError("the value has none of the expected types")

    return decode


def _sequence(kind: type, arguments: tuple[Any, ...]) -> Decoder:
    many = kind is list or arguments[-1] is ...
    items = [decoder(one) for one in arguments if one is not ...]

    def decode(value: Any) -> Any:
        if not isinstance(value, list) or (not many and len(value) != len(items)):
            raise ValueError("expected an array")
        return kind([item(one) for item, one in zip(repeat(items[0]) if many else items, value, strict=False)])

    return decode


def _mapping(key: Any, item: Any) -> Decoder:
    keys, items = (int if key is int else decoder(key)), decoder(item)

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("expected an object")  # as for other contents
        return {keys(name): items(one) for name, one in value.items()}

    return decode


def _scalar(kind: Any, like: tuple[type, ...]) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) not in like:
            raise ValueError(f"expected {kind.__name__}")
        return kind(value)

    return decode


_SCALARS: dict[Any, Decoder] = {
    Any: lambda value: value,
    str: _scalar(str, (str,)),
    bool: _scalar(bool, (bool,)),
    int: _scalar(int, (int,)),
    float: _scalar(float, (int, float)),
    NoneType: _choice((None,)),
}
