"""Commands that show generated documents, and that go to and fro between them and templates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from ckwatch.errors import CkwatchError
from ckwatch.wire.values import Span
from ckwatch_lsp.arguments import position_in, string_in, unit_in
from ckwatch_lsp.documents import Document, uri_of
from ckwatch_lsp.generated.documents import GeneratedDocuments
from ckwatch_lsp.generated.language import template_place
from ckwatch_lsp.generated.links import rendered_lines
from ckwatch_lsp.generated.texts import Text
from ckwatch_lsp.generated.uri import Generated, View, parse_generated
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

LANGUAGES = {"hip": "cpp", "cu": "cuda-cpp", "cpp": "cpp", "s": "asm"}


class GeneratedCommands:
    """`ckwatch.openSource`, `openIsa`, `document`, `toGenerated`, `toTemplate`."""

    def __init__(self, server: CkwatchServer, documents: GeneratedDocuments) -> None:
        self._server = server
        self._session = server.session
        self._documents = documents
        server.add_command("ckwatch.openSource", self.open_source)
        server.add_command("ckwatch.openIsa", self.open_isa)
        server.add_command("ckwatch.document", self.document)
        server.add_command("ckwatch.toGenerated", self.to_generated)
        server.add_command("ckwatch.toTemplate", self.to_template)
        server.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT)(self.content)

    async def content(self, params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
        """workspace/textDocumentContent"""
        return types.TextDocumentContentResult((await self._documents.text(_generated(params.uri))).text)

    async def open_source(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Show the rendered source of a unit."""
        return await self._open("source", argument)

    async def open_isa(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Show the disassembly of a unit."""
        return await self._open("isa", argument)

    async def document(self, argument: Mapping[str, Any]) -> dict[str, Any]:
        """The text of a generated document, for editors that do not ask for it otherwise."""
        generated = _generated(string_in(argument, "uri"))
        text = await self._documents.text(generated)
        suffix = generated.file_name.rpartition(".")[2]
        path = await self._documents.files.show(generated, text.text) if argument.get("file") else None
        return {
            "text": text.text,
            "languageId": LANGUAGES[suffix],
            "stale": text.stale,
            "fileUri": None if path is None else uri_of(path),
        }

    async def to_generated(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """Where a place of a template is in the rendered source or the ISA; null where it is nowhere."""
        uri = string_in(argument, "uri")
        document = await self._session.document(uri)
        view = argument.get("kind", "source")
        if view not in ("source", "isa"):
            raise CkwatchError(f"`kind` is {view!r}; it must be 'source' or 'isa'")
        if document is None:
            raise CkwatchError(f"there is no document {uri}")
        generated = await self._unit_view(view, argument, document)
        text = await self._documents.text(generated)
        position = document.places.ours(position_in(argument))
        if document.path is None or text.links is None:
            return None
        found = _found(view, text, document.path, position)
        if found is None:
            return None
        shown = Document(generated.uri, text.text, None, self._session.abilities.encoding)
        there = shown.places.their_range(found)
        return {"uri": generated.uri, "range": self._plain(there), "stale": text.stale}

    async def to_template(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """Where a place of a generated document came from; null where that is not known."""
        uri = string_in(argument, "uri")
        known = self._session.documents.get(uri)
        generated = known.generated if known is not None and known.generated is not None else _generated(uri)
        text = await self._documents.text(generated)
        shown = Document(generated.uri, text.text, None, self._session.abilities.encoding)
        span = template_place(generated.view, text, shown.places.ours(position_in(argument)))
        return None if span is None else await self._location(span)

    async def _location(self, span: Span) -> dict[str, Any]:
        location = await self._session.location(span)
        return {"uri": location.uri, "range": self._plain(location.range)}

    def _plain(self, given: types.Range) -> dict[str, Any]:
        plain: dict[str, Any] = self._server.protocol.plain(given)
        return plain

    async def _unit_view(self, view: View, argument: Mapping[str, Any], document: Document | None) -> Generated:
        if argument.get("unit") is None:
            for each in list(self._session.documents.values()) if document is None else [document]:
                with suppress(CkwatchError):
                    await self._session.active.find(each)
        folder, unit = unit_in(self._session, argument, document)
        return Generated(view, unit.id, folder.root)

    async def _open(self, view: View, argument: Mapping[str, Any]) -> dict[str, Any]:
        uri = argument.get("uri")
        document = await self._session.document(uri) if isinstance(uri, str) else None
        generated = await self._unit_view(view, argument, document)
        text = await self._documents.text(generated)
        shown = generated.uri
        if not self._session.abilities.shows_generated:
            shown = uri_of(await self._documents.files.show(generated, text.text))
        await self._show(shown, generated)
        return {"uri": shown}

    async def _show(self, uri: str, generated: Generated) -> None:
        if self._session.abilities.shows_documents:
            try:
                await self._server.window_show_document_async(types.ShowDocumentParams(uri, take_focus=False))
            except JsonRpcException:
                pass
            else:
                return
        text = f"{generated.unit}: {uri}"
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))


def _generated(uri: str) -> Generated:
    found = parse_generated(uri)
    if found is None:
        raise CkwatchError(
            f"{uri} is no generated document", "They look like ckwatch://source/KERNEL/INSTANCE@ARCH.hip"
        )
    return found


def _found(view: str, text: Text, path: str, position: Position) -> Range | None:
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
