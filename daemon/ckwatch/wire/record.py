"""Answers as they come: JSON objects whose fields are attributes.

A command that is over in a tenth of a second does without pydantic, which takes half of that to load. Nothing is lost:
the daemon's address names the code that it runs (`ckwatch.wire.endpoint`), so what it sends has the very types that its
client knows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:  # they load pydantic
    from pydantic import BaseModel

    from ckwatch.wire.messages import BuildLine, Status, WorkspaceDetail

Model = TypeVar("Model", bound="BaseModel")


class Record(dict[str, Any]):
    """A JSON object that is read like the wire type whose place it takes; its lists are in the place of tuples."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def build_line(data: bytes) -> BuildLine:
    """A line of a build's answer. Raises ValueError for what is no JSON; so do the others."""
    return cast("BuildLine", _read(data))


def workspace_detail(data: bytes) -> WorkspaceDetail:
    """The workspace itself."""
    return cast("WorkspaceDetail", _read(data))


def status(data: bytes) -> Status:
    """The daemon itself."""
    return cast("Status", _read(data))


def record_of(value: Model) -> Model:
    """The record that takes the place of a wire type that is there already."""
    return cast("Model", _read(value.model_dump_json()))


def _read(data: bytes | str) -> object:
    return json.loads(data, object_hook=Record)
