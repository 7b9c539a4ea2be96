"""Interfaces of a session's features.

Listeners follow documents and daemons, providers answer requests about documents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lsprotocol import types

from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.text_parts import SemanticToken
from ckwatch_lsp.session.documents import TextChange, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder


class SessionListener:
    """Follows the session. Every method is called on the event loop and must return at once."""

    state_key: ClassVar[str] = ""
    """Under which the state goes to the next version of the server; other versions know the same keys."""

    def opened(self, document: TextDocument) -> None:
        """The editor has opened a document."""

    def changed(self, document: TextDocument, edits: Sequence[TextChange]) -> None:
        """The editor has changed a document by these edits, in this order."""

    def saved(self, document: TextDocument) -> None:
        """The editor has saved a document."""

    def closed(self, document: TextDocument) -> None:
        """The editor has closed a document."""

    def on_daemon_change(self, folder: WorkspaceFolder, topics: frozenset[str]) -> None:
        """The daemon of `folder` has reported changes: `unit/ID`, `file/PATH`, `workspace`, `connection`."""

    def configured(self) -> None:
        """The user has changed the settings."""

    def state_to_hand_over(self) -> dict[str, Any]:
        """Return the state for the listener of the next version, as JSON; nothing without `state_key`."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take the state of the previous version's listener; no document is open yet."""


@dataclass(frozen=True, slots=True)
class HoverText:
    """Text in Markdown for a hover, about `range` if that can be said."""

    text: str
    range: Range | None = None


class LanguageProvider:
    """Answers for documents of one kind. Positions are ours, answers the protocol's; None or nothing where there is no
    answer, or NoAnswerError. Another CkwatchError is shown to those who asked for something explicitly."""

    slow: ClassVar[bool] = False
    """True if an answer may take seconds: others do not wait for it."""

    triggers: ClassVar[Collection[str]] = (".", "|", '"', "'", "=", " ")
    """Characters behind which something could be completed."""

    async def completion(
        self, document: TextDocument, position: Position, context: types.CompletionContext | None
    ) -> types.CompletionList | None:
        """Return completions at `position`."""
        return None

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """Describe the thing at `position`."""
        return None

    async def signature_help(self, document: TextDocument, position: Position) -> types.SignatureHelp | None:
        """The call around `position`."""
        return None

    async def definition(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """Return the definitions of the thing at `position`."""
        return ()

    async def type_definition(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """Return the definitions of its type."""
        return ()

    async def implementation(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """Return what overrides or derives from it."""
        return ()

    async def references(
        self, document: TextDocument, position: Position, *, declaration: bool
    ) -> Sequence[types.Location]:
        """Return the places where it is used; `declaration`: and where it is defined."""
        return ()

    async def prepare_calls(self, document: TextDocument, position: Position) -> Sequence[types.CallHierarchyItem]:
        """Return the items at `position` that call or are called. The `data` of an item says whose it is."""
        return ()

    async def incoming_calls(self, item: types.CallHierarchyItem) -> Sequence[types.CallHierarchyIncomingCall] | None:
        """Who calls `item`. None for another provider's item."""
        return None

    async def outgoing_calls(self, item: types.CallHierarchyItem) -> Sequence[types.CallHierarchyOutgoingCall] | None:
        """Return the calls of `item`. None for another provider's item."""
        return None

    async def prepare_rename(self, document: TextDocument, position: Position) -> tuple[Range, str] | None:
        """Return the name to rename. None if there is none."""
        return None

    async def rename(self, document: TextDocument, position: Position, name: str) -> types.WorkspaceEdit | None:
        """Rename it everywhere. Raises CkwatchError for a name that cannot be taken."""
        return None

    async def links(self, document: TextDocument) -> Sequence[types.DocumentLink]:
        """Names of other files."""
        return ()

    async def symbols(self, document: TextDocument) -> Sequence[types.DocumentSymbol]:
        """Return the symbols of the document."""
        return ()

    async def workspace_symbols(self, query: str) -> Sequence[types.WorkspaceSymbol]:
        """Return the symbols of any file of this kind whose names contain `query`."""
        return ()

    async def folds(self, document: TextDocument) -> Sequence[types.FoldingRange]:
        """Return the foldable ranges."""
        return ()

    async def selections(self, document: TextDocument, position: Position) -> Sequence[Range]:
        """Ranges around `position`, the smallest first."""
        return ()

    async def highlights(self, document: TextDocument, position: Position) -> Sequence[types.DocumentHighlight]:
        """The other places of what stands at `position`."""
        return ()

    async def tokens(self, document: TextDocument, within: Range | None) -> Sequence[SemanticToken]:
        """Return the tokens of the text, in order."""
        return ()

    async def actions(
        self, document: TextDocument, within: Range, context: types.CodeActionContext
    ) -> Sequence[types.CodeAction]:
        """Edits that are offered."""
        return ()

    async def formatted(self, document: TextDocument, within: Range | None) -> Sequence[types.TextEdit]:
        """Edits that format the text, or the lines of it that `within` holds."""
        return ()

    async def lenses(self, document: TextDocument) -> Sequence[types.CodeLens]:
        """Commands above lines."""
        return ()

    async def hints(self, document: TextDocument, within: Range) -> Sequence[types.InlayHint]:
        """Short texts within lines."""
        return ()


class NoAnswerError(CkwatchError):
    """The provider has nothing to say about the document or the place; nobody is told."""

    def __init__(self) -> None:
        super().__init__("there is no answer")


class OutdatedError(CkwatchError):
    """The text changes faster than it can be asked about."""


class RefusedError(CkwatchError):
    """The request cannot be done; the user sees the reason, also if an editor only asks if it could be."""


def is_requested(only: Sequence[types.CodeActionKind | str] | None, kind: types.CodeActionKind) -> bool:
    """Return True if an editor that requests only these kinds of code actions requests `kind`; an empty one is all of
    them."""
    names = [each.value if isinstance(each, types.CodeActionKind) else each for each in only or ()]
    return not names or any(not name or kind.value == name or kind.value.startswith(f"{name}.") for name in names)
