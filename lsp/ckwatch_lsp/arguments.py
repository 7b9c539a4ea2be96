"""What commands are given. Whatever is wrong is a CkwatchError with a sentence."""

from __future__ import annotations

import difflib
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


def text_in(argument: Mapping[str, Any], name: str) -> str | None:
    """A string that may be left out."""
    value = argument.get(name)
    if value is not None and not isinstance(value, str):
        raise CkwatchError(f"`{name}` must be a string")
    return value or None


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
    """The one unit that `unit` names, else the active one of the document, else that which is active."""
    folder = None if document is None else session.folder_for(document)
    name = text_in(argument, "unit")
    if name is not None:
        found, units = units_named(list(session.folders.values()) if folder is None else [folder], name)
        return found, units[0]
    if document is None:
        current = session.active.current()
        if current is not None:
            return current
    else:
        active = session.active.unit(document)
        if active is not None and folder is not None:
            return folder, active
    raise CkwatchError("no unit is made of this document", "Name one as `unit`: KERNEL/INSTANCE@ARCH.")


def units_named(folders: list[Folder], name: str) -> tuple[Folder, list[Unit]]:
    """The units that a pattern of the command line means, of the first workspace that has any. Raises UnknownUnitError
    with what may have been meant."""
    for folder in folders:
        if name in folder.units:
            return folder, [folder.units[name]]
    for folder in folders:
        units = [unit for unit in folder.units.values() if is_named(unit, name)]
        if units:
            return folder, units
    known = dict.fromkeys(
        each
        for folder in folders
        for unit in folder.units.values()
        for each in (unit.kernel, f"{unit.kernel}/{unit.instance}", unit.id)
    )
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    raise UnknownUnitError(f"no unit is called '{name}'", f"did you mean '{near[0]}'?" if near else None)


def is_named(unit: Unit, pattern: str) -> bool:
    """Whether a pattern of the command line names the unit."""
    names = (unit.kernel, f"{unit.kernel}/{unit.instance}", unit.id)
    return pattern == unit.id or any(fnmatchcase(name, pattern) for name in names)
