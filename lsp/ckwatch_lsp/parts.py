"""What the session consists of: parts that hear what happens, and languages that answer for documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.documents import Document, Edit
    from ckwatch_lsp.folder import Folder


class Part:
    """Something that follows the session. Every method is called on the event loop and must return at once."""

    def opened(self, document: Document) -> None:
        """The editor has opened a document."""

    def changed(self, document: Document, edits: Sequence[Edit]) -> None:
        """A document's text is another by these edits, in this order."""

    def saved(self, document: Document) -> None:
        """A document was saved."""

    def closed(self, document: Document) -> None:
        """The editor has closed a document."""

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """The daemon of `folder` has told something: `unit/ID`, `file/PATH`, `workspace`, `standing`."""

    def configured(self) -> None:
        """The settings are others."""

    def remains(self) -> dict[str, Any]:
        """What the part of another version that takes the place of this one must know, as JSON."""
        return {}

    def resume(self, remains: dict[str, Any]) -> None:
        """Go on where the part of the version before was; nothing is open yet."""


@dataclass(frozen=True, slots=True)
class Told:
    """Text in Markdown for a hover, about `range` if that can be said."""

    text: str
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text with one of `TOKEN_TYPES`, on one line, and some of `TOKEN_MODIFIERS`."""

    range: Range
    type: str
    modifiers: tuple[str, ...] = ()


TOKEN_TYPES = (
    *("keyword", "variable", "parameter", "property", "function", "macro", "namespace", "class", "type"),
    *("string", "number", "comment", "operator", "decorator", "enumMember"),
)
TOKEN_MODIFIERS = ("declaration", "definition", "readonly", "modification", "documentation", "defaultLibrary")


class Language:
    """Answers for documents of one kind. Positions are ours, answers the protocol's; None or nothing where there is no
    answer. A CkwatchError that is raised is shown to those who asked for something explicitly."""

    async def completion(
        self, document: Document, position: Position, context: types.CompletionContext | None
    ) -> types.CompletionList | None:
        """What could be written at `position`."""
        return None

    async def hover(self, document: Document, position: Position) -> Told | None:
        """What stands at `position`."""
        return None

    async def signature_help(self, document: Document, position: Position) -> types.SignatureHelp | None:
        """The call around `position`."""
        return None

    async def definition(self, document: Document, position: Position) -> Sequence[types.Location]:
        """Where what stands at `position` is defined."""
        return ()

    async def references(
        self, document: Document, position: Position, *, declaration: bool
    ) -> Sequence[types.Location]:
        """Where it is used; `declaration`: and where it is defined."""
        return ()

    async def prepare_rename(self, document: Document, position: Position) -> tuple[Range, str] | None:
        """What would be renamed. None where nothing can be."""
        return None

    async def rename(self, document: Document, position: Position, name: str) -> types.WorkspaceEdit | None:
        """Rename it everywhere. Raises CkwatchError for a name that cannot be taken."""
        return None

    async def links(self, document: Document) -> Sequence[types.DocumentLink]:
        """Names of other files."""
        return ()

    async def symbols(self, document: Document) -> Sequence[types.DocumentSymbol]:
        """What is defined in the document."""
        return ()

    async def workspace_symbols(self, query: str) -> Sequence[types.WorkspaceSymbol]:
        """What is defined in any file of this kind, where `query` occurs in its name."""
        return ()

    async def folds(self, document: Document) -> Sequence[types.FoldingRange]:
        """What can be folded."""
        return ()

    async def selections(self, document: Document, position: Position) -> Sequence[Range]:
        """Ranges around `position`, the smallest first."""
        return ()

    async def highlights(self, document: Document, position: Position) -> Sequence[types.DocumentHighlight]:
        """The other places of what stands at `position`."""
        return ()

    async def tokens(self, document: Document, within: Range | None) -> Sequence[Token]:
        """What the pieces of the text are, in order."""
        return ()

    async def actions(
        self, document: Document, within: Range, context: types.CodeActionContext
    ) -> Sequence[types.CodeAction]:
        """Edits that are offered."""
        return ()

    async def lenses(self, document: Document) -> Sequence[types.CodeLens]:
        """Commands above lines."""
        return ()

    async def hints(self, document: Document, within: Range) -> Sequence[types.InlayHint]:
        """Short texts within lines."""
        return ()
