"""Input and output of a render, and source maps packed as bytes.

Free of Jinja2, so that the daemon, which renders in worker processes, need not load it.

Most source maps are never queried. Workers send them, and the cache keeps them, packed
(`ckwatch.render.packed_map`); the first query unpacks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

import msgpack

from ckwatch.headers.searched_headers import SearchedHeaders
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import ParameterDeclaration
from ckwatch.model.source_map import Site, SourceMap
from ckwatch.render.mapped_text import MappedText
from ckwatch.render.packed_map import Packed, pack, unpack

LENGTH_BYTES = 8
"""A message to or from a render worker is its length, big-endian, and a pickle. An answer is any number of `Lookups`,
each with all until then, and a `RenderOutcome`."""


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Seconds and characters that one render may use."""

    time_limit_s: float = 10.0
    output_limit: int = 16 * 1024 * 1024


@dataclass(slots=True)
class Lookups:
    """The files that one render read (absolute path → SHA-256 of the bytes), did not find, or could not read."""

    read: dict[str, str] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered unit.

    `symbol` is the exported function, `token_key` the hash of the text's tokens before the function was named.
    `mentioned` are the names and string constants in the templates that were read, `folders` where these lie, that of
    the kernel's template first.
    """

    text: str
    source_map: SourceMap
    symbol: str
    token_key: str
    mentioned: frozenset[str]
    folders: tuple[str, ...] = ()


def folders_of(files: Iterable[str]) -> tuple[str, ...]:
    """The folders of `files`, each once."""
    return tuple(dict.fromkeys(file.rpartition("/")[0] for file in files))


@dataclass(frozen=True, slots=True)
class RenderOutcome:
    """`rendered` is None when `diagnostics` holds an error. `read` maps absolute paths to content hashes.

    `declared` is what the templates that were read declare of their parameters, `mentions` which parameters of the
    instance each of them mentions, by path: all where it looks at `parameters` as a whole. `skipped`: a sweep makes the
    unit, and an instance rule refuses it. `headers` are those in `read` that are no templates.
    """

    rendered: Rendered | None
    diagnostics: tuple[Diagnostic, ...]
    read: Mapping[str, str]
    missed: frozenset[str]
    declared: tuple[ParameterDeclaration, ...] = ()
    mentions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    skipped: bool = False
    headers: frozenset[str] = frozenset()

    def with_headers(self, headers: SearchedHeaders) -> RenderOutcome:
        """The outcome, which depends on what was read of `headers` too."""
        if not headers.read and not headers.missed:
            return self
        return replace(
            self,
            read={**self.read, **headers.read},
            missed=self.missed | headers.missed,
            headers=self.headers | headers.read.keys(),
        )

    @property
    def templates(self) -> dict[str, str]:
        """The part of `read` that is templates."""
        return {path: digest for path, digest in self.read.items() if path not in self.headers}

    @property
    def ok(self) -> bool:
        """Return True if there is something to compile."""
        errors = any(one.severity is Severity.ERROR for one in self.diagnostics)
        return self.rendered is not None and not errors and not self.skipped


def packed_bytes(values: object) -> bytes:
    """Plain values as MessagePack; strings may hold the lone surrogates of names that are not UTF-8."""
    packed: bytes = msgpack.packb(values, unicode_errors="surrogatepass")
    return packed


def plain_values(data: bytes) -> Any:
    """The inverse of `packed_bytes`, sequences as tuples. Nothing in `data` is executed. Raises ValueError."""
    return msgpack.unpackb(data, use_list=False, unicode_errors="surrogatepass", strict_map_key=True)


class PackedSourceMap(SourceMap):
    """A `SourceMap` that is unpacked by the first question."""

    def __init__(self, text: str, packed: bytes | Packed) -> None:
        self.text = text
        self._packed = packed

    @property
    def packed(self) -> bytes:
        """The segments and frames as bytes (`packed_bytes`)."""
        return self._packed if isinstance(self._packed, bytes) else packed_bytes(self._packed)

    def __getattr__(self, name: str) -> Any:
        if name not in ("segments", "frames", "_starts", "_lines"):
            raise AttributeError(name)
        packed = self._packed
        segments, frames = unpack(plain_values(packed) if isinstance(packed, bytes) else packed, len(self.text))
        super().__init__(self.text, segments, frames)
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return (PackedSourceMap, (self.text, self.packed))


def map_of(text: MappedText, fallback: Site) -> PackedSourceMap:
    """The map of `text`; `fallback` is the site of characters that no site printed."""
    return PackedSourceMap(str.__str__(text), pack(text, fallback))
