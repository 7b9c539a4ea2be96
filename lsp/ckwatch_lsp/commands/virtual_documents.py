"""`ckwatch.openSource`, `openIsa`, `openProfile`, `document`, `toGenerated`, `toTemplate`: virtual documents, and the
way there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lsprotocol import types

from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range, Span
from ckwatch_lsp.commands.arguments import CommandTargets, position_in, string_in
from ckwatch_lsp.protocol.uris import VirtualUri, VirtualView, parse_virtual_uri, uri_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.virtual_documents.provider import template_place
from ckwatch_lsp.virtual_documents.store import VirtualDocuments
from ckwatch_lsp.virtual_documents.texts import VirtualText, rendered_lines

LANGUAGES = {"hip": "cpp", "cu": "cuda-cpp", "cpp": "cpp", "s": "asm", "txt": "plaintext"}


class VirtualDocumentCommands:
    """`ckwatch.openSource`, `openIsa`, `openProfile`, `document`, `toGenerated`, `toTemplate`."""

    def __init__(
        self, session: Session, active: ActiveUnits, targets: CommandTargets, documents: VirtualDocuments
    ) -> None:
        self._session = session
        self._active = active
        self._targets = targets
        self._documents = documents
        session.editor.add_command("ckwatch.openSource", self.open_source)
        session.editor.add_command("ckwatch.openIsa", self.open_isa)
        session.editor.add_command("ckwatch.openProfile", self.open_profile)
        session.editor.add_command("ckwatch.document", self.document)
        session.editor.add_command("ckwatch.toGenerated", self.to_generated)
        session.editor.add_command("ckwatch.toTemplate", self.to_template)
        if session.capabilities.shows_virtual_documents:
            session.editor.add_request(types.WORKSPACE_TEXT_DOCUMENT_CONTENT, self.content)

    async def content(self, params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
        """workspace/textDocumentContent"""
        return types.TextDocumentContentResult((await self._documents.text(_virtual_uri(params.uri))).text)

    async def open_source(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Show the rendered source of a unit."""
        return await self._open("source", argument)

    async def open_isa(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Show the disassembly of a unit."""
        return await self._open("isa", argument)

    async def open_profile(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Show where the work of a unit goes."""
        return await self._open("profile", argument)

    async def document(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """The text of a generated document, for editors that do not ask for it otherwise."""
        virtual = _virtual_uri(string_in(argument, "uri"))
        text = await self._documents.text(virtual)
        suffix = virtual.file_name.rpartition(".")[2]
        path = await self._documents.files.show(virtual, text.text) if argument.get("file") else None
        return {
            "text": text.text,
            "languageId": LANGUAGES[suffix],
            "stale": text.stale,
            "fileUri": None if path is None else uri_of(path),
        }

    async def to_generated(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the place in the rendered source or the ISA of a place of a template; null if there is none."""
        uri = string_in(argument, "uri")
        document = await self._session.document(uri)
        view = argument.get("kind", "source")
        if view not in ("source", "isa"):
            raise CkwatchError(f"`kind` is {view!r}; it must be 'source' or 'isa'")
        if document is None:
            raise CkwatchError(f"there is no document {uri}")
        virtual = await self._unit_view(view, argument, document)
        text = await self._documents.text(virtual)
        position = document.codec.decode(position_in(argument))
        if document.path is None or text.links is None:
            return None
        found = _found(view, text, document.path, position)
        if found is None:
            return None
        shown = TextDocument(virtual.uri, text.text, None, self._session.capabilities.encoding)
        there = shown.codec.encode_range(found)
        return {"uri": virtual.uri, "range": self._session.editor.plain(there), "stale": text.stale}

    async def to_template(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the origin of a place of a generated document; null if it is unknown."""
        uri = string_in(argument, "uri")
        known = self._session.documents.get(uri)
        virtual = known.virtual if known is not None and known.virtual is not None else _virtual_uri(uri)
        text = await self._documents.text(virtual)
        shown = TextDocument(virtual.uri, text.text, None, self._session.capabilities.encoding)
        span = template_place(virtual.view, text, shown.codec.decode(position_in(argument)))
        return None if span is None else await self._location(span)

    async def _location(self, span: Span) -> dict[str, Any]:
        location = await self._session.location(span)
        return {"uri": location.uri, "range": self._session.editor.plain(location.range)}

    async def _unit_view(
        self, view: VirtualView, argument: Mapping[str, Any], document: TextDocument | None
    ) -> VirtualUri:
        if argument.get("unit") is None:
            for each in list(self._session.documents.values()) if document is None else [document]:
                with suppress(CkwatchError):
                    await self._active.find_units(each)
        folder, unit = self._targets.unit(argument, document)
        return VirtualUri(view, unit.id, folder.root)

    async def _open(self, view: VirtualView, argument: Mapping[str, Any]) -> dict[str, Any]:
        uri = argument.get("uri")
        document = await self._session.document(uri) if isinstance(uri, str) else None
        virtual = await self._unit_view(view, argument, document)
        text = await self._documents.text(virtual)
        shown = virtual.uri
        if not self._session.capabilities.shows_virtual_documents:
            shown = uri_of(await self._documents.files.show(virtual, text.text))
        if not await self._session.editor.show_document(shown, take_focus=False):
            self._session.editor.show_message(types.MessageType.Info, f"{virtual.unit}: {shown}")
        return {"uri": shown}


def _virtual_uri(uri: str) -> VirtualUri:
    found = parse_virtual_uri(uri)
    if found is None:
        raise CkwatchError(
            f"{uri} is not a generated document", "They look like ckwatch://source/KERNEL/INSTANCE@ARCH.hip"
        )
    return found


def _found(view: str, text: VirtualText, path: str, position: Position) -> Range | None:
    assert text.links is not None  # noqa: S101  # the caller has looked
    ranges = text.links.places(path, position)
    if view == "source" or not ranges:
        return ranges[0] if ranges else None
    wanted = set(rendered_lines(ranges, 0))
    for number, line in sorted(text.lines.items()):
        same = line.span is not None and line.span.path == path and line.span.start.line == position.line
        if line.rendered in wanted or same:
            return Range(Position(number, 0), Position(number, 0))
    return None
