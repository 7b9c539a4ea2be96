"""What goes into a render and what comes out; free of Jinja2, so that a caller of the worker need not load it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.model.diagnostic import Diagnostic
from ckwatch.sourcemap import SourceMap


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Seconds and characters that one render may use."""

    time_limit_s: float = 10.0
    output_limit: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered unit.

    `symbol` is the exported function, `token_key` the hash of the text's tokens before the function was named.
    `mentioned` are the names and string constants in the templates that were read.
    """

    text: str
    source_map: SourceMap
    symbol: str
    token_key: str
    mentioned: frozenset[str]


@dataclass(frozen=True, slots=True)
class RenderOutcome:
    """`rendered` is None when `diagnostics` holds an error. `read` maps absolute paths to content hashes."""

    rendered: Rendered | None
    diagnostics: tuple[Diagnostic, ...]
    read: Mapping[str, str]
    missed: frozenset[str]
