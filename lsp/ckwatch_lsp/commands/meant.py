"""Which units and workspaces a command is about. Whatever cannot be is a CkwatchError with a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckwatch.errors import CkwatchError
from ckwatch.wire.values import Unit
from ckwatch_lsp.arguments import text_in, units_named
from ckwatch_lsp.documents import Document, path_of
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.generated.uri import parse_generated

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session


def flag_in(argument: Mapping[str, Any], name: str) -> bool:
    """A boolean that may be left out."""
    value = argument.get(name)
    if value is not None and not isinstance(value, bool):
        raise CkwatchError(f"`{name}` must be true or false")
    return bool(value)


async def document_meant(session: Session, argument: Mapping[str, Any]) -> Document | None:
    """The document at `uri`; None where none is given."""
    uri = text_in(argument, "uri")
    if uri is None:
        return None
    document = await session.document(uri)
    if document is None and parse_generated(uri) is not None:
        return Document(uri, "", None, session.abilities.encoding)
    if document is None:
        raise CkwatchError(f"there is no document {uri}")
    if document.path is not None and session.folder_of(document.path) is None:
        await session.find_folder(document.path)
    return document


async def units_meant(session: Session, argument: Mapping[str, Any]) -> tuple[Folder, list[Unit]]:
    """The units that `unit` names, else those of the document at `uri`, else the active one; at least one."""
    document = await document_meant(session, argument)
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


async def units_of(session: Session, document: Document) -> list[Unit]:
    """The units that are made of a document; the daemon is asked for those of a template."""
    await session.active.find(document)
    return session.active.units(document)


async def folders_meant(session: Session, argument: Mapping[str, Any]) -> list[Folder]:
    """The workspace of the document at `uri`, or at `folder` (a path or URI); all where neither is given."""
    given = text_in(argument, "folder")
    if given is not None:
        path = Path(path_of(given) or given)
        if path not in session.folders:
            raise CkwatchError(f"{given} is no workspace that is open")
        return [session.folders[path]]
    document = await document_meant(session, argument)
    if document is not None:
        folder = session.folder_for(document)
        if folder is None:
            raise CkwatchError(f"{document.uri} belongs to no workspace", "A workspace is a folder with ckwatch.toml.")
        return [folder]
    if not session.folders:
        raise CkwatchError("no workspace is open", "A workspace is a folder with ckwatch.toml.")
    return list(session.folders.values())
