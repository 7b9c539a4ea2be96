"""The language server as pygls has it, with an answer or an error for every request whatever the editor sends."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Literal, TypeVar

import anyio
from anyio.abc import TaskGroup
from lsprotocol import converters, types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

from ckwatch.model.errors import CkwatchError
from ckwatch.model.version import __version__
from ckwatch.system.processes import is_running
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities, capabilities_of
from ckwatch_lsp.protocol.uris import SCHEME

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Kind = TypeVar("Kind")

CommandHandler = Callable[[dict[str, Any]], Awaitable[Any]]
"""Runs a command with its one argument, an object. Raises CkwatchError with the reason where it cannot."""

RequestHandler = Callable[[Any], Any]

Refreshed = Literal["diagnostics", "hints", "lenses", "tokens"]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NOT_INITIALIZED = -32002
REQUEST_FAILED = -32803
SERVER_CANCELLED = -32802
CONTENT_MODIFIED = -32801

PARENT_CHECK_S = 5.0
"""How often the server checks that the editor's process still runs."""

REPLAYED_ID = "replayed"
"""The id of a request that the previous version has answered."""

REPLAYED_METHODS = (types.INITIALIZE, types.INITIALIZED, types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
"""Messages that the next version must handle too."""

OWN_METHODS = (
    *(types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE, types.TEXT_DOCUMENT_DID_CLOSE),
    types.WORKSPACE_EXECUTE_COMMAND,
)
"""Methods that pygls does not answer: it would keep each text a second time, and what a command runs would go on when
the request is cancelled."""


def sentence_of(error: CkwatchError) -> str:
    """Return the error and its remedy, as sentences in one line."""
    parts = [part.strip() for part in (error.message, error.hint or "") if part.strip()]
    return " ".join(part if part.endswith((".", "!", "?", ":")) else f"{part}." for part in parts)


class RequestFailedError(JsonRpcException):
    """A request that cannot be fulfilled; `message` says why, in words for the user."""

    CODE = REQUEST_FAILED
    MESSAGE = "the request failed"

    @classmethod
    def of_error(cls, error: CkwatchError) -> RequestFailedError:
        """The same for an error of the daemon or its client."""
        return cls(message=sentence_of(error))


class ContentModifiedError(RequestFailedError):
    """The document has changed meanwhile; editors show nothing, and ask again."""

    CODE = CONTENT_MODIFIED


class CkwatchProtocol(LanguageServerProtocol):
    """Takes messages that have been decoded."""

    _server: CkwatchServer  # which is below: each knows the other

    def __init__(self, server: CkwatchServer, converter: Any) -> None:
        self._initialized = False
        self._open: dict[str | int, None] = {}
        self._none_open = anyio.Event()
        self._lasting: list[dict[str, Any]] = []
        self._configuration: dict[str, Any] | None = None
        super().__init__(server, converter)  # which looks at every attribute

    @property
    def lasting(self) -> list[dict[str, Any]]:
        """Messages of the editor that count as long as it lives, but for its documents."""
        return [*self._lasting, *([] if self._configuration is None else [self._configuration])]

    def open_requests(self) -> list[str | int]:
        """The editor's requests that have no answer yet."""
        return list(self._open)

    async def answered_all(self) -> None:
        """Wait until every request has its answer."""
        while self._open:
            self._none_open = anyio.Event()
            await self._none_open.wait()

    async def take_again(self, message: dict[str, Any]) -> None:
        """Handle a message that the previous version has answered."""
        is_request = "id" in message
        self.take({**message, "id": REPLAYED_ID} if is_request else message)
        await self.answered_all()

    def take(self, message: dict[str, Any]) -> None:
        """Handle one message. A request that cannot be understood is answered with an error."""
        method, number = message.get("method"), message.get("id")
        is_request = "method" in message and "id" in message
        problem = next((row for row in self._problems(message) if row[0]), None)
        if problem is not None:
            _, code, text, is_answered = problem
            if is_answered or is_request:
                self.refuse(number if _is_id(number) else None, code, text)
            return
        try:
            structured = self.structure_message(message)
        except JsonRpcException as error:
            if is_request:
                self.refuse(number, error.code, f"invalid parameters of {method}")
            else:
                _log.warning("invalid parameters of %s", method)
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

    def _problems(self, message: dict[str, Any]) -> Iterator[tuple[bool, int, str, bool]]:
        """Each mistake that a message may have: whether it is there, the error, and whether no request gets it, too."""
        method, number = message.get("method"), message.get("id")
        is_request = "method" in message and "id" in message
        is_foreign = message.get("jsonrpc") != "2.0" or ("method" in message and not isinstance(method, str))
        is_second = method == types.INITIALIZE and self._initialized and is_request
        is_early = not self._initialized and method not in (types.INITIALIZE, types.EXIT)
        no_id = "the id of a request must be a string or an integer"
        yield number is not None and not _is_id(number), INVALID_REQUEST, no_id, True
        yield is_foreign, INVALID_REQUEST, "not a JSON-RPC 2.0 message", True
        yield is_request and number is None, INVALID_REQUEST, no_id, True
        yield self._shutdown and method != types.EXIT, INVALID_REQUEST, "the server is shutting down", False
        yield is_early, NOT_INITIALIZED, "the first request must be `initialize`", False
        yield is_second, INVALID_REQUEST, "the server is already initialized", False

    def _handle_response(self, msg_id: str | int, result: Any = None, error: types.ResponseError | None = None) -> None:
        asked = self._request_futures.get(msg_id)
        if asked is not None and asked.done():  # what wanted to know it has been cancelled
            del self._request_futures[msg_id]
            return
        super()._handle_response(msg_id, result, error)

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

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """As pygls does, with the capabilities that it does not know."""
        result = yield from super().lsp_initialize(params)
        if self._server.capabilities.shows_virtual_documents:
            space = result.capabilities.workspace or types.WorkspaceOptions()
            space.text_document_content = types.TextDocumentContentOptions([SCHEME])
            result.capabilities.workspace = space
        return result

    @lsp_method(types.INITIALIZED)
    def lsp_initialized(self, *arguments: object) -> Generator[Any, Any, None]:
        """As pygls does, and announce what the capabilities do not say."""
        self._server.announce()
        yield from super().lsp_initialized(*arguments)  # type: ignore[no-untyped-call]  # pygls has no annotation there

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_arguments: object) -> None:  # type: ignore[override]  # pygls ends the process here
        """End; the exit status says whether the editor had asked for that before."""
        self._server.end(0 if self._shutdown else 1)


_REGISTRATIONS: Mapping[str, Callable[..., object]] = {
    types.TEXT_DOCUMENT_RANGE_FORMATTING: partial(
        types.DocumentRangeFormattingRegistrationOptions, ranges_support=True
    ),
    types.TEXT_DOCUMENT_ON_TYPE_FORMATTING: partial(
        types.DocumentOnTypeFormattingRegistrationOptions, first_trigger_character="\n"
    ),
}
"""Options of methods that are answered for some files only, but for the files."""

client_token: ContextVar[str | int | None] = ContextVar("client_token", default=None)
"""Names the progress that the editor shows of the command that runs, if it has one for it."""


class CkwatchServer(LanguageServer):
    """pygls' server, and the editor for the features that `initialize` sets up: what it refuses is logged and never
    raised."""

    protocol: CkwatchProtocol

    def __init__(self, initialize: Callable[[CkwatchServer, types.InitializeParams], None], tasks: TaskGroup) -> None:
        super().__init__(
            "ckwatch", __version__, protocol_cls=CkwatchProtocol, converter_factory=converters.get_converter
        )
        for method in OWN_METHODS:
            del self.protocol.fm.builtin_features[method]
        self.capabilities = EditorCapabilities()
        self.commands: dict[str, CommandHandler] = {}
        self._announced_later: list[tuple[str, RequestHandler, Sequence[str]]] = []
        self.ended = anyio.Event()
        self.last_message_s = time.monotonic()
        self.status = 1
        self._set_up = initialize
        self._tasks = tasks
        self.add_request(types.INITIALIZE, self._initialize)
        self.add_request(types.WORKSPACE_EXECUTE_COMMAND, self._run_command)

    def end(self, status: int) -> None:
        """End the process with this status."""
        self.status = status
        self.ended.set()

    async def _run_command(self, params: types.ExecuteCommandParams) -> Any:
        """Run a command with its one argument. Raises CkwatchError with the reason where it cannot."""
        name, arguments = params.command, params.arguments or []
        run = self.commands.get(name)
        if run is None:
            raise CkwatchError(f"there is no command {name}")
        given: Any = arguments[0] if arguments else {}
        if len(arguments) > 1 or not isinstance(given, dict):
            raise CkwatchError(f"{name} takes one object")
        client_token.set(params.work_done_token)
        return await run(given)

    def report_server_error(self, error: Exception, source: Any) -> None:  # noqa: ARG002  # pygls' signature
        """Log the error; the answer reports it to the editor."""
        _log.debug("%s", error)

    def _initialize(self, params: types.InitializeParams) -> None:
        self.capabilities = capabilities_of(
            params.capabilities,
            self.workspace.position_encoding or types.PositionEncodingKind.Utf16,
            params.client_info.name if params.client_info is not None else "",
        )
        self._set_up(self, params)
        if params.process_id is not None:
            self._tasks.start_soon(self._watch, params.process_id)

    async def _watch(self, editor: int) -> None:
        while is_running(editor):  # noqa: ASYNC110  # nothing reports the end of a process that is not a child
            await anyio.sleep(PARENT_CHECK_S)
        self.end(1)

    # The editor.

    def add_command(self, name: str, run: CommandHandler) -> None:
        """Offer a command."""
        self.commands[name] = run
        self.command(name)(partial(run))

    def add_request(
        self, method: str, answer: RequestHandler, options: object = None, files: Sequence[str] = ()
    ) -> None:
        """Answer requests of a method, or take its notifications.

        `files`: patterns of the documents that it is about. It is announced for these only, after the capabilities,
        where the editor can be notified.
        """
        if files and method in self.capabilities.registers:
            self._announced_later.append((method, answer, files))
            return
        # pygls marks what it is given; a bound method cannot be marked
        self.feature(method, options)(_in_words(answer) if iscoroutinefunction(answer) else partial(answer))

    def announce(self) -> None:
        """Tell the editor which methods are answered for some files only. Call it once, when it is initialized."""
        for method, answer, files in self._announced_later:
            self.add_request(method, answer)
            make: Any = _REGISTRATIONS.get(method, types.TextDocumentRegistrationOptions)
            chosen = make(document_selector=[types.TextDocumentFilterPattern(each) for each in files])
            self._tasks.start_soon(self.register_capability, types.Registration(method, method, chosen))

    def show_message(self, kind: types.MessageType, text: str) -> None:
        """Show a message."""
        self.window_show_message(types.ShowMessageParams(kind, text))

    async def choose(self, kind: types.MessageType, text: str, titles: Sequence[str]) -> str | None:
        """Show a message with actions; the chosen one's title, None where the user chose none or the editor refuses."""
        actions = [types.MessageActionItem(title) for title in titles]
        params = types.ShowMessageRequestParams(kind, text, actions)
        chosen: types.MessageActionItem | None = await _unless_refused(self.window_show_message_request_async(params))
        return None if chosen is None else chosen.title

    async def show_document(self, uri: str, *, take_focus: bool, selection: types.Range | None = None) -> bool:
        """Show a document, or a place in it; True if the editor can and did."""
        if not self.capabilities.shows_documents:
            return False
        params = types.ShowDocumentParams(uri, take_focus=take_focus, selection=selection)
        return await _unless_refused(self.window_show_document_async(params)) is not None

    def publish(self, uri: str, version: int | None, diagnostics: Sequence[types.Diagnostic]) -> None:
        """Replace the diagnostics that are shown for a document."""
        shown = version if self.capabilities.versions else None
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=shown)
        )

    async def refresh(self, what: Refreshed) -> None:
        """Have the editor request again what it shows of all documents."""
        requests: dict[Refreshed, Callable[[None], Awaitable[None]]] = {
            "diagnostics": self.workspace_diagnostic_refresh_async,
            "hints": self.workspace_inlay_hint_refresh_async,
            "lenses": self.workspace_code_lens_refresh_async,
            "tokens": self.workspace_semantic_tokens_refresh_async,
        }
        await _unless_refused(requests[what](None))

    def refresh_content(self, uri: str) -> None:
        """Have the editor request the text of a virtual document again."""
        self.workspace_text_document_content_refresh(types.TextDocumentContentRefreshParams(uri))

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self.protocol.notify(method, params)

    async def create_progress(self, token: str) -> bool:
        """Announce progress; True if the editor shows it."""
        params = types.WorkDoneProgressCreateParams(token)
        return await _unless_refused(self.window_work_done_progress_create_async(params), refused=False) is not False

    def begin_progress(self, token: str | int, value: types.WorkDoneProgressBegin, cancel: Callable[[], None]) -> None:
        """Show announced progress. `cancel` is called when the user wants the task to end."""
        future: Future[None] = Future()  # pygls cancels it
        future.add_done_callback(lambda future: cancel() if future.cancelled() else None)
        self.protocol.progress.tokens[token] = future
        self.progress(types.ProgressParams(token, value))

    def report_progress(
        self, token: str | int, value: types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        """Go on or end; the token means nothing after the end."""
        self.progress(types.ProgressParams(token, value))
        if isinstance(value, types.WorkDoneProgressEnd):
            self.protocol.progress.tokens.pop(token, None)

    async def configuration(self, section: str) -> Any:
        """A section of the user's settings; None where the editor reports none."""
        params = types.ConfigurationParams([types.ConfigurationItem(section=section)])
        found = await _unless_refused(self.workspace_configuration_async(params))
        return found[0] if found else None

    async def register_capability(self, registration: types.Registration) -> None:
        """Ask for notifications that are not sent otherwise."""
        await _unless_refused(self.client_register_capability_async(types.RegistrationParams([registration])))

    def plain(self, value: object) -> Any:
        """A value of the protocol as JSON, for answers that lsprotocol does not know."""
        return self.protocol._converter.unstructure(value)

    def structured(self, value: object, kind: type[Kind]) -> Kind:
        """A value of the protocol from its JSON."""
        return self.protocol._converter.structure(value, kind)


def _is_id(number: object) -> bool:
    return isinstance(number, str | int) and not isinstance(number, bool)


def _in_words(answer: RequestHandler) -> RequestHandler:
    """The same, with the error of a request that cannot be fulfilled as a sentence for the user."""

    async def run(params: Any) -> Any:
        try:
            return await answer(params)
        except CkwatchError as error:
            raise RequestFailedError.of_error(error) from None

    return run


async def _unless_refused(request: Awaitable[Answer], refused: Kind | None = None) -> Answer | Kind | None:
    try:
        return await request
    except JsonRpcException as error:
        _log.info("the editor refuses: %s", error)
        return refused
