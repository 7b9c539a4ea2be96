"""Definitions, hovers and folds in virtual documents."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from ckwatch.model.isa import IsaLine
from ckwatch.model.text import Position, Range, Span
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.providers import HoverText, LanguageProvider
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.virtual_documents.store import VirtualDocuments
from ckwatch_lsp.virtual_documents.texts import VirtualText


class VirtualDocumentProvider(LanguageProvider):
    """Rendered source and ISA."""

    def __init__(self, session: Session, documents: VirtualDocuments) -> None:
        self._session = session
        self._documents = documents

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """Of ISA what the instruction does and where it came from, of source the chain that produced the place."""
        shown = self._documents.of(document)
        if shown is None:
            return None
        virtual, text = shown
        if virtual.view in ("isa", "code"):
            return self._instruction(document, text, position)
        segment = None if text.links is None else text.links.origin(position)
        if segment is None:
            return None
        lines = [f"from {self._place(segment.span)}"]
        lines += [f"- {link.label or link.kind}: {self._place(link.span)}" for link in segment.chain]
        return HoverText("\n".join(lines))

    async def definition(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """The place in the template, or the line of a header."""
        shown = self._documents.of(document)
        if shown is None:
            return ()
        virtual, text = shown
        span = template_place(virtual.view, text, position)
        return () if span is None else (await self._session.location(span),)

    async def folds(self, document: TextDocument) -> Sequence[types.FoldingRange]:
        """Functions, loops and blocks of ISA."""
        shown = self._documents.of(document)
        if shown is None:
            return ()
        last = document.line_count - 1
        return [
            types.FoldingRange(fold.start, min(fold.end, last), collapsed_text=fold.label)
            for fold in shown[1].folds
            if fold.start < min(fold.end, last)
        ]

    def _instruction(self, document: TextDocument, text: VirtualText, position: Position) -> HoverText | None:
        known = text.lines.get(position.line)
        if known is None:
            return None
        meaning = known.explanation or text.mnemonics.get(known.mnemonic, "")
        parts = [f"**`{known.mnemonic}`** {meaning}".rstrip()] if known.mnemonic else []
        if known.span is not None:
            parts.append(f"from {self._place(known.span)}")
        if known.header and (known.span is None or known.header != f"{known.span.path}:{known.span.start.line + 1}"):
            parts.append(f"in {known.header}")
        start = document.line(position.line).find(known.mnemonic) if known.mnemonic else -1
        about = None
        if start >= 0:
            about = Range(Position(position.line, start), Position(position.line, start + len(known.mnemonic)))
        return HoverText("\n\n".join(parts), about) if parts else None

    def _place(self, span: Span) -> str:
        return f"`{span.path}:{span.start.line + 1}:{span.start.column + 1}`"


def template_place(view: str, text: VirtualText, position: Position) -> Span | None:
    """Return the place in a template behind `position`; of ISA also a place in a header."""
    if view == "source":
        return None if text.links is None else text.links.template_place(position)
    line = _nearest(text, position.line)
    if line is None:
        return None
    if line.span is not None:
        return line.span
    if line.rendered is not None and text.links is not None:
        return text.links.template_place(Position(line.rendered, 0))
    return None


def _nearest(text: VirtualText, number: int) -> IsaLine | None:
    """Return the known source of the line, else of the last one above that has one."""
    for at in range(number, max(number - 20, -1), -1):
        line = text.lines.get(at)
        if line is not None and (line.span is not None or line.rendered is not None):
            return line
    return None
