"""Results that are computed once per artifact and kept on disk with it."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from ckwatch.engine.build_tools import BuildTools
from ckwatch.model.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class DerivedFile(Generic[T]):
    """A file `name` beside an artifact's: a header line, and a value of class `of` as JSON.

    The header has what the value depends on; where something else is wanted, or the file is damaged, it is not read.
    """

    name: str
    of: type[T]

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(self.of)

    def content(self, value: T, /, **made_by: Any) -> bytes:
        """The content that is written."""
        body = self._adapter.dump_json(value)
        return json.dumps({**made_by, "sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n" + body

    def value(self, content: bytes, /, **made_by: Any) -> T | None:
        """Return the stored content if it was made this way; None matches anything."""
        head, _, body = content.partition(b"\n")
        try:
            found = json.loads(head)
            wanted = {name: found[name] if one is None else one for name, one in made_by.items()}
            if found != {**wanted, "sha256": hashlib.sha256(body).hexdigest()}:
                return None
            return self._adapter.validate_json(body)
        except (ValueError, KeyError, TypeError):
            return None

    def read(self, tools: BuildTools, artifact: str) -> bytes:
        """The file's content; empty without one. Blocks, as `keep` does."""
        return (tools.store and tools.store.derived(*store_keys(artifact), self.name)) or b""

    def keep(self, tools: BuildTools, artifact: str, value: T, /, **made_by: Any) -> None:
        """Keep what was made so, as long as the artifact is kept."""
        if tools.store is not None:
            tools.store.keep_derived(*store_keys(artifact), self.name, self.content(value, **made_by))


def store_keys(artifact: str) -> tuple[str, str]:
    """The keys of what was compiled and of the headers."""
    key, _, headers = artifact.partition(".")
    return key, headers
