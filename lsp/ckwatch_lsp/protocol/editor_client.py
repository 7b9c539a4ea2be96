"""Requests of features to the editor: show messages, publish, refresh, report progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

from lsprotocol import types

from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities

CommandHandler = Callable[[dict[str, Any]], Awaitable[Any]]
"""Runs a command with its one argument, an object. Raises CkwatchError with the reason where it cannot."""

RequestHandler = Callable[[Any], Any]

Kind = TypeVar("Kind")

Refreshed = Literal["diagnostics", "hints", "lenses", "tokens"]


class EditorClient(Protocol):
    """The editor, as features see it. What it refuses is logged and never raised."""

    capabilities: EditorCapabilities

    def add_command(self, name: str, run: CommandHandler) -> None:
        """Offer a command."""

    def add_request(
        self, method: str, answer: RequestHandler, options: object = None, files: Sequence[str] = ()
    ) -> None:
        """Answer requests of a method, or take its notifications.

        `files`: patterns of the documents that it is about, for editors that offer it there only.
        """

    def show_message(self, kind: types.MessageType, text: str) -> None:
        """Show a message."""

    async def choose(self, kind: types.MessageType, text: str, titles: Sequence[str]) -> str | None:
        """Show a message with actions; the chosen one's title, None where the user chose none or the editor refuses."""

    async def show_document(self, uri: str, *, take_focus: bool, selection: types.Range | None = None) -> bool:
        """Show a document, or a place in it; whether the editor can and did."""

    def publish(self, uri: str, version: int | None, diagnostics: Sequence[types.Diagnostic]) -> None:
        """Replace the diagnostics that are shown for a document."""

    async def refresh(self, what: Refreshed) -> None:
        """Have the editor request again what it shows of all documents."""

    def refresh_content(self, uri: str) -> None:
        """Have the editor request the text of a virtual document again."""

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""

    async def create_progress(self, token: str) -> bool:
        """Announce progress; whether the editor shows it."""

    def begin_progress(self, token: str, value: types.WorkDoneProgressBegin, cancel: Callable[[], None]) -> None:
        """Show announced progress. `cancel` is called when the user wants the task to end."""

    def report_progress(self, token: str, value: types.WorkDoneProgressReport | types.WorkDoneProgressEnd) -> None:
        """Go on or end; the token means nothing after the end."""

    async def configuration(self, section: str) -> Any:
        """A section of the user's settings; None where the editor reports none."""

    async def register_capability(self, registration: types.Registration) -> None:
        """Ask for notifications that are not sent otherwise."""

    def plain(self, value: object) -> Any:
        """A value of the protocol as JSON, for answers that lsprotocol does not know."""

    def structured(self, value: object, kind: type[Kind]) -> Kind:
        """A value of the protocol from its JSON."""


def sentence_of(error: CkwatchError) -> str:
    """Return the error and its remedy, as sentences in one line."""
    parts = [part.strip() for part in (error.message, error.hint or "") if part.strip()]
    return " ".join(part if part.endswith((".", "!", "?", ":")) else f"{part}." for part in parts)
