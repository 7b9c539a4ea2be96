"""Values ↔ JSON, by pydantic: dataclasses, its own models, and lists of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Adapter that writes and validates values of this type. It ignores unknown fields."""
    return _adapter(kind)


def to_json(value: object) -> bytes:
    """The value as JSON. Raises PydanticSerializationError for text that is no Unicode."""
    return adapter(type(value)).dump_json(value)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
