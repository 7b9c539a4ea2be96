"""The launch of a kernel in a code object, which has no C function that knows how: grid, block, arguments in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ArgumentKind(StrEnum):
    """The value that a kernel gets for an argument: the address of a buffer, a value, or a null pointer."""

    BUFFER = "buffer"
    VALUE = "value"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchArgument:
    """An argument of a kernel, of `size_bytes`. `text` is the name of a buffer, or the expression of a value, whose C
    type is `c_type` where it is a runtime argument; empty: an integer of this size."""

    kind: ArgumentKind
    size_bytes: int
    text: str = ""
    c_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleLaunch:
    """The launch of the kernel `symbol`. `grid` (in workgroups), `block` and `dynamic_lds` (in bytes) are expressions
    of sizes, integral runtime arguments and `constants`; axes that are left out are 1."""

    symbol: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    dynamic_lds: str
    arguments: tuple[LaunchArgument, ...]
    constants: tuple[tuple[str, int], ...] = ()
