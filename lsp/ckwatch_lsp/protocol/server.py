"""The language server as pygls has it, with an answer or an error for every request whatever the editor sends."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import anyio
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.protocol.editor_client import sentence_of
from ckwatch_lsp.protocol.uris import SCHEME

if TYPE_CHECKING:
    from ckwatch_lsp.main import CkwatchServer

_log = logging.getLogger(__name__)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NOT_INITIALIZED = -32002
REQUEST_FAILED = -32803
SERVER_CANCELLED = -32802

REPLAYED_ID = "said again"
"""The id of a request that the editor has had an answer to, from the version before."""

REPLAYED_METHODS = (types.INITIALIZE, types.INITIALIZED, types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
"""Messages that whoever takes the place of this process must hear too."""


class RequestFailedError(JsonRpcException):
    """A request that cannot be fulfilled; `message` says why, in words for the user."""

    CODE = REQUEST_FAILED
    MESSAGE = "the request failed"

    @classmethod
    def of_error(cls, error: CkwatchError) -> RequestFailedError:
        """The same for what the daemon or its client says."""
        return cls(message=sentence_of(error))


class CkwatchProtocol(LanguageServerProtocol):
    """Takes messages that have been decoded."""

    _server: CkwatchServer

    def __init__(self, server: CkwatchServer, converter: Any) -> None:
        self._initialized = False
        self._open: dict[str | int, None] = {}
        self._none_open = anyio.Event()
        self._lasting: list[dict[str, Any]] = []
        self._configuration: dict[str, Any] | None = None
        super().__init__(server, converter)  # which looks at every attribute

    @property
    def lasting(self) -> list[dict[str, Any]]:
        """What the editor has said that counts as long as it lives, but for its documents."""
        return [*self._lasting, *([] if self._configuration is None else [self._configuration])]

    def open_requests(self) -> list[str | int]:
        """The editor's requests that have no answer yet."""
        return list(self._open)

    async def answered_all(self) -> None:
        """Wait until there is no such request."""
        while self._open:
            self._none_open = anyio.Event()
            await self._none_open.wait()

    async def take_again(self, message: dict[str, Any]) -> None:
        """Handle what was said to the version before, which has answered it."""
        is_request = "id" in message
        self.take({**message, "id": REPLAYED_ID} if is_request else message)
        await self.answered_all()

    def take(self, message: dict[str, Any]) -> None:
        """Handle one message. A request that cannot be understood is answered with an error."""
        method, number = message.get("method"), message.get("id")
        is_request = "method" in message and "id" in message
        if number is not None and (isinstance(number, bool) or not isinstance(number, str | int)):
            self.refuse(None, INVALID_REQUEST, "the id of a request must be a string or an integer")
            return
        if message.get("jsonrpc") != "2.0" or ("method" in message and not isinstance(method, str)):
            self.refuse(number, INVALID_REQUEST, "this is no JSON-RPC 2.0 message")
            return
        if is_request and number is None:
            self.refuse(None, INVALID_REQUEST, "the id of a request must be a string or an integer")
            return
        if self._shutdown and method != types.EXIT:
            if is_request:
                self.refuse(number, INVALID_REQUEST, "the server is shutting down")
            return
        if not self._initialized and method not in (types.INITIALIZE, types.EXIT):
            if is_request:
                self.refuse(number, NOT_INITIALIZED, "the first request must be `initialize`")
            return
        if method == types.INITIALIZE and self._initialized and is_request:
            self.refuse(number, INVALID_REQUEST, "the server is initialized")
            return
        try:
            structured = self.structure_message(message)
        except JsonRpcException as error:
            if is_request:
                self.refuse(number, error.code, f"the parameters of {method} are not understood")
            else:
                _log.warning("the parameters of %s are not understood", method)
            return
        if method == types.INITIALIZE:
            self._initialized = True
        if method in REPLAYED_METHODS:
            self._lasting.append(message)
        elif method == types.WORKSPACE_DID_CHANGE_CONFIGURATION:
            self._configuration = message
        if is_request and number is not None:
            self._open[number] = None
        self.handle_message(structured)

    def refuse(self, number: str | int | None, code: int, message: str) -> None:
        """Answer a request with an error."""
        self._answered(number)
        # not by way of lsprotocol, which leaves out an id that is null
        self._send_data({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def _send_response(self, msg_id: str | int, result: Any = None, error: types.ResponseError | None = None) -> None:
        self._answered(msg_id)
        if msg_id != REPLAYED_ID:
            super()._send_response(msg_id, result, error)

    def _answered(self, number: str | int | None) -> None:
        if number is not None:
            self._open.pop(number, None)
        if not self._open:
            self._none_open.set()

    def plain(self, value: object) -> Any:
        """A value of the protocol as it is written, for answers that lsprotocol does not know."""
        return self._converter.unstructure(value)

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """As pygls does it, and what it does not tell."""
        result = yield from super().lsp_initialize(params)
        if self._server.session.abilities.shows_generated:
            space = result.capabilities.workspace or types.WorkspaceOptions()
            space.text_document_content = types.TextDocumentContentOptions([SCHEME])
            result.capabilities.workspace = space
        return result

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_arguments: object) -> None:  # type: ignore[override]  # pygls ends the process here
        """End; the exit status says whether the editor had asked for that before."""
        self._server.end(0 if self._shutdown else 1)

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """A document is open."""
        self._server.session.opened(params.text_document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """A document has another text."""
        document = params.text_document
        self._server.session.changed(document.uri, document.version, list(params.content_changes))

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """A document is not open any more."""
        self._server.session.closed(params.text_document.uri)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Generator[Any, Any, Any]:
        """Run a command with its one argument."""
        result = yield self._server.run_command, (params.command, params.arguments or []), {}
        return result
