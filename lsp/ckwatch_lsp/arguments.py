"""What commands are given. Whatever is wrong is a CkwatchError with a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ckwatch.errors import CkwatchError, UnknownUnitError
from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document
from ckwatch_lsp.folder import Folder

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

PLACE_LIMIT = 2**31 - 1


def string_in(argument: Mapping[str, Any], name: str) -> str:
    """A string that must be there."""
    value = argument.get(name)
    if not isinstance(value, str) or not value:
        raise CkwatchError(f"`{name}` must be given, as a string")
    return value


def position_in(argument: Mapping[str, Any]) -> types.Position:
    """`position` as editors write it."""
    value = argument.get("position")
    if not isinstance(value, Mapping):
        raise CkwatchError("`position` must be given, with `line` and `character`")
    numbers = [value.get(name) for name in ("line", "character")]
    if not all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each <= PLACE_LIMIT for each in numbers):
        raise CkwatchError("`line` and `character` of `position` must be numbers from 0 on")
    return types.Position(numbers[0] or 0, numbers[1] or 0)


def unit_in(session: Session, argument: Mapping[str, Any], document: Document | None) -> tuple[Folder, Unit]:
    """The one unit that `unit` names, else the active one of the document."""
    given = argument.get("unit")
    if given is None:
        active = None if document is None else session.active.unit(document)
        folder = None if document is None else session.folder_for(document)
        current = session.active.current() if document is None else None
        if current is not None:
            return current
        if active is None or folder is None:
            raise CkwatchError("no unit is made of this document", "Name one as `unit`: KERNEL/INSTANCE@ARCH.")
        return folder, active
    if not isinstance(given, str):
        raise CkwatchError("`unit` must be a string")
    chosen = None if document is None else session.folder_for(document)
    for folder in [chosen] if chosen is not None else session.folders.values():
        unit = next((each for each in folder.units.values() if is_named(each, given)), None)
        if unit is not None:
            return folder, unit
    raise UnknownUnitError(f"no unit is called '{given}'")


def is_named(unit: Unit, pattern: str) -> bool:
    """Whether a pattern of the command line names the unit."""
    names = (unit.kernel, f"{unit.kernel}/{unit.instance}", unit.id)
    return pattern == unit.id or any(fnmatchcase(name, pattern) for name in names)
