"""Interfaces of a session's features.

Listeners follow documents and daemons, providers answer requests about documents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from lsprotocol import types

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Range
from ckwatch_lsp.session.documents import TextChange, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.topics import Topics


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

    def pointed(self, document: TextDocument) -> None:
        """The cursor is on another line of a document (`Session.cursors`)."""

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """The daemon of `folder` has reported changes."""

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
    """Answers for documents of one kind: its methods are some of those that `REQUESTS` of `handlers` names, and those
    about calls and workspace symbols. Positions are ours, answers the protocol's; None or nothing where there is no
    answer, or NoAnswerError. Another CkwatchError is shown to those who asked for something explicitly."""

    slow: ClassVar[bool] = False
    """True if an answer may take seconds: others do not wait for it."""

    triggers: ClassVar[Collection[str]] = (".", "|", '"', "'", "=", " ")
    """Characters behind which something could be completed."""


class NoAnswerError(CkwatchError):
    """The provider has nothing to say about the document or the place; no message is shown."""

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
