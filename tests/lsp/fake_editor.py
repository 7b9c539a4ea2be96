"""An editor without a wire: it remembers what features ask of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from lsprotocol import types
from lsprotocol.converters import get_converter

from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.server import CkwatchServer, CommandHandler, Kind, Refreshed, RequestHandler

converter = cache(get_converter)


class FakeEditor(CkwatchServer):
    """Accepts everything. `commands` and `requests` are what was registered, `calls` the rest, in order.

    `choices` are what the user chooses, one after the other; afterwards it is the first of what is offered.
    """

    def __init__(self, capabilities: EditorCapabilities | None = None) -> None:
        self.capabilities = capabilities or EditorCapabilities()
        self.commands: dict[str, CommandHandler] = {}
        self.requests: dict[str, tuple[RequestHandler, object]] = {}
        self.calls: list[tuple[object, ...]] = []
        self.choices: list[str | None] = []

    def add_command(self, name: str, run: CommandHandler) -> None:
        self.commands[name] = run

    def add_request(
        self,
        method: str,
        answer: RequestHandler,
        options: object = None,
        files: Sequence[str] = (),  # noqa: ARG002  # only an editor on a wire has files of its own
    ) -> None:
        self.requests[method] = (answer, options)

    def show_message(self, kind: types.MessageType, text: str) -> None:
        self.calls.append(("show_message", kind, text))

    async def choose(self, kind: types.MessageType, text: str, titles: Sequence[str]) -> str | None:
        self.calls.append(("choose", kind, text, titles))
        if self.choices:
            return self.choices.pop(0)
        return titles[0] if titles else None

    async def show_document(self, uri: str, *, take_focus: bool, selection: types.Range | None = None) -> bool:
        self.calls.append(("show_document", uri, take_focus, *([] if selection is None else [selection])))
        return self.capabilities.shows_documents

    def publish(self, uri: str, version: int | None, diagnostics: Sequence[types.Diagnostic]) -> None:
        self.calls.append(("publish", uri, version, diagnostics))

    async def refresh(self, what: Refreshed) -> None:
        self.calls.append(("refresh", what))

    def refresh_content(self, uri: str) -> None:
        self.calls.append(("refresh_content", uri))

    def notify(self, method: str, params: object) -> None:
        self.calls.append(("notify", method, params))

    async def create_progress(self, token: str) -> bool:
        self.calls.append(("create_progress", token))
        return self.capabilities.progress

    def begin_progress(self, token: str | int, value: types.WorkDoneProgressBegin, cancel: Callable[[], None]) -> None:
        self.calls.append(("begin_progress", token, value, cancel))

    def report_progress(
        self, token: str | int, value: types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        self.calls.append(("report_progress", token, value))

    async def configuration(self, section: str) -> Any:
        self.calls.append(("configuration", section))

    async def register_capability(self, registration: types.Registration) -> None:
        self.calls.append(("register_capability", registration))

    def plain(self, value: object) -> Any:
        return value

    def structured(self, value: object, kind: type[Kind]) -> Kind:
        return converter().structure(value, kind)
