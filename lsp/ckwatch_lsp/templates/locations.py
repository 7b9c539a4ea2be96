"""Places of templates and kernel files as the editor counts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lsprotocol import types

from ckwatch_lsp.text import Range

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session


async def locations(session: Session, places: Iterable[tuple[str, Range]]) -> list[types.Location]:
    """Where places (path, range) are for the editor, each once, file by file."""
    found: list[types.Location] = []
    by_path: dict[str, dict[Range, None]] = {}
    for path, reach in places:
        by_path.setdefault(path, {})[reach] = None
    for path, ranges in by_path.items():
        document = await session.text_at(path)
        if document is not None:
            uri = session.uri_at(path)
            found += [types.Location(uri, document.places.their_range(reach)) for reach in sorted(ranges)]
    return found


async def workspace_edit(session: Session, places: Iterable[tuple[str, Range]], text: str) -> types.WorkspaceEdit:
    """Put `text` at each place; with versions of open documents where the editor takes them."""
    edits: dict[str, list[types.TextEdit]] = {}
    for location in await locations(session, places):
        edits.setdefault(location.uri, []).append(types.TextEdit(location.range, text))
    if not session.abilities.versioned_edits:
        return types.WorkspaceEdit(changes=dict(edits))
    changes = [
        types.TextDocumentEdit(
            types.OptionalVersionedTextDocumentIdentifier(
                uri=uri, version=session.documents[uri].version if uri in session.documents else None
            ),
            list(own),
        )
        for uri, own in edits.items()
    ]
    return types.WorkspaceEdit(document_changes=list(changes))
