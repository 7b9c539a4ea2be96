"""Answers to quick commands, read without pydantic and the wire types, which take longer to load than a check takes.

Objects are records, whose fields are attributes; diagnostics are values of the model, which commands print. Nothing is
lost: the daemon's address names the code that it runs (`ckwatch.wire.endpoint`), so what it sends has the very types
that its client knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin, get_type_hints

from ckwatch.model.diagnostics import Diagnostic

if TYPE_CHECKING:  # loading the wire types takes as long as a check
    from ckwatch.wire.state import BuildLine, Status, WorkspaceDetail


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
        return Record(found | {"diagnostics": _decoder(tuple[Diagnostic, ...])(found["diagnostics"])})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no answer: {error}") from None


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """The function from JSON to a dataclass, an enumeration, a tuple of such, one of them or None, or what JSON has."""
    make: Callable[..., Any] = kind
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        decoders = {one.name: _decoder(hints[one.name]) for one in fields(kind)}
        return lambda value: make(**{name: decoders[name](one) for name, one in value.items() if name in decoders})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        item = _decoder(arguments[0])
        return lambda value: tuple(map(item, value))
    if type(None) in arguments:
        item = _decoder(arguments[0])
        return lambda value: None if value is None else item(value)
    return lambda value: value
