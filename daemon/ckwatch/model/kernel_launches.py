"""The launch of a kernel in a code object, which has no C function that knows how: grid, block, arguments in order."""

from __future__ import annotations

from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass


class ArgumentKind(StrEnum):
    """The value that a kernel gets for an argument: an address, that of a buffer or of the workspace, a value, a null
    pointer, or a structure of these."""

    BUFFER = "buffer"
    VALUE = "value"
    NULL = "null"
    WORKSPACE = "workspace"
    STRUCTURE = "structure"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchArgument:
    """An argument of a kernel, or a field of one, of `size_bytes`. `text` is the name of a buffer, or the expression of
    a value, whose C type is `c_type` where it is a runtime argument or a field; empty: an integer of this size.
    `fields` of a structure with their offsets; what is between them is 0."""

    kind: ArgumentKind
    size_bytes: int
    text: str = ""
    c_type: str = ""
    fields: tuple[tuple[int, LaunchArgument], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleLaunch:
    """The launch of the kernel `symbol`. `grid` (in workgroups), `block`, `dynamic_lds` and `workspace` (in bytes) are
    expressions of sizes, integral runtime arguments and `constants`; axes that are left out are 1."""

    symbol: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    dynamic_lds: str
    arguments: tuple[LaunchArgument, ...]
    constants: tuple[tuple[str, int], ...] = ()
    workspace: str = "0"
