"""Reads commands' arguments: which units, documents and workspaces they mean. Errors are CkwatchErrors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types

from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.unit_patterns import UnitPattern, nearest_name, unit_names
from ckwatch.wire.state import Unit
from ckwatch_lsp.protocol.uris import parse_virtual_uri, path_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
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


def units_named(folders: list[WorkspaceFolder], name: str) -> tuple[WorkspaceFolder, list[Unit]]:
    """The units that a pattern of the command line means, of the first workspace that has any. Raises UnknownUnitError
    with what may have been meant."""
    pattern = UnitPattern(name)
    for folder in folders:
        if name in folder.units:
            return folder, [folder.units[name]]
    for folder in folders:
        units = [
            unit
            for unit in folder.units.values()
            if pattern.matches(unit.kernel, unit.instance, unit.id, unit.place.path)
        ]
        if units:
            return folder, units
    known = [unit for folder in folders for unit in folder.units.values()]
    near = nearest_name((each for unit in known for each in unit_names(unit.kernel, unit.instance, unit.id)), name)
    raise UnknownUnitError(f"no unit is called '{name}'", None if near is None else f"did you mean '{near}'?")


def flag_in(argument: Mapping[str, Any], name: str) -> bool:
    """A boolean that may be left out."""
    value = argument.get(name)
    if value is not None and not isinstance(value, bool):
        raise CkwatchError(f"`{name}` must be true or false")
    return bool(value)


NO_WORKSPACE_HINT = "A workspace is a folder with ckwatch.toml."
NO_UNIT_HINT = "Name one as `unit`: KERNEL/INSTANCE@ARCH."


class CommandTargets:
    """The target of a command's argument. Every method raises CkwatchError if there is none."""

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self._active = active

    @property
    def shape(self) -> str:
        """The shape of the settings; empty for the first."""
        return self._session.settings.shape

    async def document(self, argument: Mapping[str, Any]) -> TextDocument | None:
        """The document at `uri`; None without one."""
        session = self._session
        uri = text_in(argument, "uri")
        if uri is None:
            return None
        document = await session.document(uri)
        if document is None and parse_virtual_uri(uri) is not None:
            return TextDocument(uri, "", None, session.capabilities.encoding)
        if document is None:
            raise CkwatchError(f"there is no document {uri}")
        if document.path is not None and session.folder_of(document.path) is None:
            await session.find_folder(document.path)
        return document

    def unit(self, argument: Mapping[str, Any], document: TextDocument | None) -> tuple[WorkspaceFolder, Unit]:
        """The unit that `unit` names, else the active one of the document, else the active one."""
        if text_in(argument, "unit") is not None:
            folder, units = self._named(argument, document)
            return folder, units[0]
        found = self._active.current()
        if document is not None:
            active, of_document = self._active.unit(document), self._session.folder_for(document)
            found = None if active is None or of_document is None else (of_document, active)
        if found is None:
            raise CkwatchError("no unit is made of this document", NO_UNIT_HINT)
        return found

    async def units(self, argument: Mapping[str, Any]) -> tuple[WorkspaceFolder, list[Unit]]:
        """The units that `unit` names, else those of the document at `uri`, else the active one; at least one."""
        document = await self.document(argument)
        if text_in(argument, "unit") is not None:
            return self._named(argument, document)
        if document is None:
            current = self._active.current()
            if current is None:
                raise CkwatchError("no unit is active", NO_UNIT_HINT)
            return current[0], [current[1]]
        folder = self._folder(document)
        units = await self._active.find_units(document)
        if not units:
            raise CkwatchError(f"no unit is made of {Path(document.path or document.uri).name}")
        return folder, units

    async def kernel_file(self, argument: Mapping[str, Any]) -> tuple[WorkspaceFolder, str, str | None]:
        """The path of the kernel file at `uri`, which may have no units, else of the unit's; and the unit's arch."""
        document = await self.document(argument)
        if document is None or document.kind is not DocumentKind.KERNEL_FILE or text_in(argument, "unit") is not None:
            folder, unit = self.unit(argument, document)
            return folder, unit.place.path, unit.arch
        active = self._active.unit(document)
        return self._folder(document), document.path or "", None if active is None else active.arch

    def _named(self, argument: Mapping[str, Any], document: TextDocument | None) -> tuple[WorkspaceFolder, list[Unit]]:
        """The units that `unit` names, of the document's workspace if it has one."""
        folder = None if document is None else self._session.folder_for(document)
        folders = list(self._session.folders.values()) if folder is None else [folder]
        return units_named(folders, string_in(argument, "unit"))

    def _folder(self, document: TextDocument) -> WorkspaceFolder:
        folder = self._session.folder_for(document)
        if folder is None:
            raise CkwatchError(f"{document.uri} belongs to no workspace", NO_WORKSPACE_HINT)
        return folder

    async def folders(self, argument: Mapping[str, Any]) -> list[WorkspaceFolder]:
        """The workspace of the document at `uri`, or at `folder` (a path or URI); all where neither is given."""
        session = self._session
        given = text_in(argument, "folder")
        if given is not None:
            path = Path(path_of(given) or given)
            if path not in session.folders:
                raise CkwatchError(f"{given} is not an open workspace")
            return [session.folders[path]]
        document = await self.document(argument)
        if document is not None:
            return [self._folder(document)]
        if not session.folders:
            raise CkwatchError("no workspace is open", NO_WORKSPACE_HINT)
        return list(session.folders.values())
