"""Reads commands' arguments: which units, documents and workspaces they mean. What is wrong is a CkwatchError."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.wire.state import Unit
from ckwatch_lsp.protocol.uris import parse_virtual_uri, path_of
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder

if TYPE_CHECKING:
    from ckwatch_lsp.session.session import Session

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


def unit_in(
    session: Session, argument: Mapping[str, Any], document: TextDocument | None
) -> tuple[WorkspaceFolder, Unit]:
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


def units_named(folders: list[WorkspaceFolder], name: str) -> tuple[WorkspaceFolder, list[Unit]]:
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


def flag_in(argument: Mapping[str, Any], name: str) -> bool:
    """A boolean that may be left out."""
    value = argument.get(name)
    if value is not None and not isinstance(value, bool):
        raise CkwatchError(f"`{name}` must be true or false")
    return bool(value)


async def requested_document(session: Session, argument: Mapping[str, Any]) -> TextDocument | None:
    """The document at `uri`; None where none is given."""
    uri = text_in(argument, "uri")
    if uri is None:
        return None
    document = await session.document(uri)
    if document is None and parse_virtual_uri(uri) is not None:
        return TextDocument(uri, "", None, session.abilities.encoding)
    if document is None:
        raise CkwatchError(f"there is no document {uri}")
    if document.path is not None and session.folder_of(document.path) is None:
        await session.find_folder(document.path)
    return document


async def requested_units(session: Session, argument: Mapping[str, Any]) -> tuple[WorkspaceFolder, list[Unit]]:
    """The units that `unit` names, else those of the document at `uri`, else the active one; at least one."""
    document = await requested_document(session, argument)
    name = text_in(argument, "unit")
    if name is not None:
        chosen = None if document is None else session.folder_for(document)
        return units_named(list(session.folders.values()) if chosen is None else [chosen], name)
    if document is None:
        current = session.active.current()
        if current is None:
            raise CkwatchError("no unit is active", "Name one as `unit`: KERNEL/INSTANCE@ARCH.")
        return current[0], [current[1]]
    folder = session.folder_for(document)
    if folder is None:
        raise CkwatchError(f"{document.uri} belongs to no workspace", "A workspace is a folder with ckwatch.toml.")
    units = await units_of(session, document)
    if not units:
        raise CkwatchError(f"no unit is made of {Path(document.path or document.uri).name}")
    return folder, units


async def units_of(session: Session, document: TextDocument) -> list[Unit]:
    """The units that are made of a document; the daemon is asked for those of a template."""
    await session.active.find(document)
    return session.active.units(document)


async def requested_folders(session: Session, argument: Mapping[str, Any]) -> list[WorkspaceFolder]:
    """The workspace of the document at `uri`, or at `folder` (a path or URI); all where neither is given."""
    given = text_in(argument, "folder")
    if given is not None:
        path = Path(path_of(given) or given)
        if path not in session.folders:
            raise CkwatchError(f"{given} is no workspace that is open")
        return [session.folders[path]]
    document = await requested_document(session, argument)
    if document is not None:
        folder = session.folder_for(document)
        if folder is None:
            raise CkwatchError(f"{document.uri} belongs to no workspace", "A workspace is a folder with ckwatch.toml.")
        return [folder]
    if not session.folders:
        raise CkwatchError("no workspace is open", "A workspace is a folder with ckwatch.toml.")
    return list(session.folders.values())
