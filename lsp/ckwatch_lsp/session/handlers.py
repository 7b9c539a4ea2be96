"""Answers requests about documents: asks the providers of the document's kind and joins their answers.

`REQUESTS` says of each method what a provider is asked and what the editor gets of the answers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from lsprotocol import types

from ckwatch.model.delays import CPP_ALONE, CPP_BESIDE
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.names import in_message
from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.client_capabilities import sent
from ckwatch_lsp.protocol.position_encoding import PositionCodec
from ckwatch_lsp.protocol.server import CkwatchServer, ContentModifiedError, RequestFailedError
from ckwatch_lsp.protocol.text_parts import TOKEN_MODIFIERS, TOKEN_TYPES, SemanticToken
from ckwatch_lsp.session.documents import WORKSPACE_KINDS, TextDocument
from ckwatch_lsp.session.given_tokens import changed_tokens
from ckwatch_lsp.session.joining import joined_outline, merged_tokens
from ckwatch_lsp.session.providers import LanguageProvider, NoAnswerError, OutdatedError, RefusedError
from ckwatch_lsp.session.session import Session

_log = logging.getLogger(__name__)

TOKENS_AT_ONCE = 200
"""Tokens that are encoded on the event loop; more take more than a millisecond or two."""

FORMATTED = ("**/*.kernel.toml", "**/ckwatch.toml")
"""Files that can be formatted."""

_TYPES = {name: at for at, name in enumerate(TOKEN_TYPES)}
_MODIFIERS = {name: 1 << at for at, name in enumerate(TOKEN_MODIFIERS)}


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of a document's providers, in their order."""

    session: Session
    document: TextDocument
    params: Any
    given: list[Any]


async def _joined(answers: _Answers) -> list[Any] | None:
    return [each for one in answers.given for each in one] or None


async def _actions(answers: _Answers) -> list[types.CodeAction] | None:
    """One of those that make the same edit, by the title of the last, which knows what is edited: `Set K to 2` for
    `Replace '3' by '2'`; and one that is preferred."""
    found: list[types.CodeAction] = []
    for one in await _joined(answers) or ():
        same = next((known for known in found if one.edit is not None and known.edit == one.edit), None)
        if same is not None:
            same.title = one.title
            continue
        if any(known.is_preferred for known in found):
            one.is_preferred = None
        found.append(one)
    return found or None


async def _first(answers: _Answers) -> Any:
    return next((one for one in answers.given if one), None)


async def _first_list(answers: _Answers) -> list[Any] | None:
    return list(await _first(answers) or ()) or None


async def _completion(answers: _Answers) -> types.CompletionList | None:
    lists = [one for one in answers.given if one is not None]
    items = [item for one in lists for item in one.items]
    incomplete = any(one.is_incomplete for one in lists)
    return types.CompletionList(is_incomplete=incomplete, items=items) if items or incomplete else None


async def _hover(answers: _Answers) -> types.Hover | None:
    found = [one for one in answers.given if one is not None]
    if not found:
        return None
    text = in_message("\n\n---\n\n".join(one.text for one in found))
    about = next((one.range for one in found if one.range is not None), None)
    kind = types.MarkupKind.Markdown if answers.session.capabilities.markdown else types.MarkupKind.PlainText
    shown = None if about is None else answers.document.codec.encode_range(about)
    return types.Hover(types.MarkupContent(kind, text), shown)


async def _calls(answers: _Answers) -> list[types.CallHierarchyItem] | None:
    """Names at the place come before those around it."""
    at, found = answers.params.position, await _joined(answers)
    return found and sorted(found, key=lambda item: not item.selection_range.start <= at <= item.selection_range.end)


async def _rename(answers: _Answers) -> types.WorkspaceEdit | None:
    """Find the edits; without any a message says so, but for files that are not a workspace's."""
    found: types.WorkspaceEdit | None = await _first(answers)
    if not found and answers.document.kind in WORKSPACE_KINDS and answers.session.folder_for(answers.document):
        raise RequestFailedError.of_error(RefusedError("there is nothing here that can be renamed"))
    return found


async def _prepare_rename(answers: _Answers) -> types.PrepareRenamePlaceholder | None:
    one: Any = await _rename(answers)
    return one and types.PrepareRenamePlaceholder(answers.document.codec.encode_range(one[0]), one[1])


async def _linked(answers: _Answers) -> types.LinkedEditingRanges | None:
    found = await _first(answers)
    return found and types.LinkedEditingRanges([answers.document.codec.encode_range(one) for one in found], r"\w+")


async def _symbols(answers: _Answers) -> list[types.DocumentSymbol] | list[types.SymbolInformation] | None:
    found = await to_thread.run_sync(joined_outline, [one for one in answers.given if one]) or None
    if found is None or answers.session.capabilities.nested_symbols:
        return found
    return list(_flat(found, answers.params.text_document.uri, None))


def _flat(
    symbols: Iterable[types.DocumentSymbol], uri: str, container: str | None
) -> Iterable[types.SymbolInformation]:
    for symbol in symbols:
        yield types.SymbolInformation(
            location=types.Location(uri, symbol.range), name=symbol.name, kind=symbol.kind, container_name=container
        )
        yield from _flat(symbol.children or (), uri, symbol.name)


async def _tokens(answers: _Answers) -> types.SemanticTokens:
    found = answers.given
    if sum(map(len, found)) <= TOKENS_AT_ONCE:
        data = encoded(answers.document.codec, merged_tokens(found))
    else:
        codec = answers.document.codec.copy()
        data = await to_thread.run_sync(lambda: encoded(codec, merged_tokens(found)))
    return types.SemanticTokens(data=data)


async def _whole_tokens(answers: _Answers) -> types.SemanticTokens:
    """Tokens of a document, from which the next ones may differ."""
    tokens, uri = await _tokens(answers), answers.params.text_document.uri
    if answers.session.capabilities.token_deltas:
        tokens.result_id = answers.session.given_tokens.keep(uri, tokens.data)
    return tokens


async def _changed_tokens(answers: _Answers) -> types.SemanticTokens | types.SemanticTokensDelta:
    before = answers.session.given_tokens.known(answers.params.text_document.uri, answers.params.previous_result_id)
    tokens = await _whole_tokens(answers)
    if before is None:
        return tokens
    return types.SemanticTokensDelta(edits=changed_tokens(before, tokens.data), result_id=tokens.result_id)


def _is_triggered(language: LanguageProvider, params: types.CompletionParams) -> bool:
    typed = None if params.context is None else params.context.trigger_character
    return not typed or typed in language.triggers


FIRST = (_first, _first_list, _prepare_rename, _rename)
"""Of these answers one is enough."""


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """A question about a document, the method `ask` of the providers that have it: at the position or in the range if
    the request has one, and with `more` arguments; and what becomes of the answers.

    Slow providers get `beside_s` if another one has an answer, none if one is enough and another's comes before theirs.
    `explicit`: the user sees the error where no provider has an answer. `able`: what the editor must be able to do.
    """

    ask: str
    join: Callable[[_Answers], Awaitable[Any]] = _joined
    more: Callable[[Any], Mapping[str, Any]] = lambda _params: {}
    explicit: bool = False
    among: Callable[[LanguageProvider, Any], bool] = lambda _language, _params: True
    beside_s: float = CPP_BESIDE.seconds
    options: object = None
    able: str = ""
    files: tuple[str, ...] = ()


_COLOURS = types.SemanticTokensLegend(list(TOKEN_TYPES), list(TOKEN_MODIFIERS))
_ACTIONS = [types.CodeActionKind.QuickFix, types.CodeActionKind.Refactor, types.CodeActionKind.RefactorRewrite]
_SIGNATURES = types.SignatureHelpOptions(trigger_characters=["(", ",", "<", "{"])


def _context(params: types.CompletionParams | types.CodeActionParams) -> Mapping[str, Any]:
    return {"context": params.context}


_R = DocumentRequest
_WHOLE: Callable[[Any], Mapping[str, Any]] = lambda _params: {"within": None}  # noqa: E731  # as in the rows

REQUESTS: Mapping[str, DocumentRequest] = {
    types.TEXT_DOCUMENT_COMPLETION: _R("completion", _completion, _context, among=_is_triggered),
    types.TEXT_DOCUMENT_HOVER: _R("hover", _hover),
    types.TEXT_DOCUMENT_SIGNATURE_HELP: _R("signature_help", _first, options=_SIGNATURES),
    types.TEXT_DOCUMENT_DEFINITION: _R("definition", _first_list),
    types.TEXT_DOCUMENT_DECLARATION: _R("definition", _first_list),  # templates and kernel files declare nothing apart
    types.TEXT_DOCUMENT_TYPE_DEFINITION: _R("type_definition", _first_list),
    types.TEXT_DOCUMENT_IMPLEMENTATION: _R("implementation", _first_list),
    types.TEXT_DOCUMENT_REFERENCES: _R(
        "references", _first_list, lambda given: {"declaration": given.context.include_declaration}
    ),
    types.TEXT_DOCUMENT_PREPARE_CALL_HIERARCHY: _R("prepare_calls", _calls, able="calls"),
    types.TEXT_DOCUMENT_RENAME: _R("rename", _rename, lambda given: {"name": given.new_name}, explicit=True),
    types.TEXT_DOCUMENT_PREPARE_RENAME: _R("prepare_rename", _prepare_rename, explicit=True, able="rename_prepares"),
    types.TEXT_DOCUMENT_DOCUMENT_LINK: _R("links"),
    # an editor keeps an outline until the text changes, so this one is waited for
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: _R("symbols", _symbols, beside_s=CPP_ALONE.seconds),
    types.TEXT_DOCUMENT_FOLDING_RANGE: _R("folds"),
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: _R("highlights", _first_list),
    types.TEXT_DOCUMENT_LINKED_EDITING_RANGE: _R("linked_names", _linked),
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: _R("tokens", _whole_tokens, _WHOLE, options=_COLOURS),
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA: _R("tokens", _changed_tokens, _WHOLE, options=_COLOURS),
    types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE: _R("tokens", _tokens, options=_COLOURS),
    types.TEXT_DOCUMENT_FORMATTING: _R("formatted", _joined, _WHOLE, files=FORMATTED),
    types.TEXT_DOCUMENT_RANGE_FORMATTING: _R(
        "formatted", options=types.DocumentRangeFormattingOptions(ranges_support=True), files=FORMATTED
    ),
    types.TEXT_DOCUMENT_ON_TYPE_FORMATTING: _R(
        "formatted_as_typed", options=types.DocumentOnTypeFormattingOptions("\n"), files=FORMATTED
    ),
    types.TEXT_DOCUMENT_INLINE_COMPLETION: _R(
        "inline_completion", options=types.InlineCompletionOptions(), able="inline_completion"
    ),
    types.TEXT_DOCUMENT_CODE_ACTION: _R(
        "actions", _actions, _context, options=types.CodeActionOptions(_ACTIONS), able="action_literals"
    ),
    types.TEXT_DOCUMENT_CODE_LENS: _R("lenses", able="lenses"),
    types.TEXT_DOCUMENT_INLAY_HINT: _R("hints", able="hints"),
}

SELECTIONS = _R("selections")

CURSOR = "ckwatch/cursor"

FOLLOWS_CURSOR = frozenset(
    (
        types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT,
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.TEXT_DOCUMENT_COMPLETION,
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
    )
)
"""Requests that editors make about the place of the cursor."""


class RequestHandlers:
    """Finds the document of a request, asks its languages, and joins what they say."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def register(self, editor: CkwatchServer) -> None:
        """Answer the requests that the editor can make use of."""
        able = editor.capabilities
        triggers = list(dict.fromkeys(each for language in self._languages() for each in language.triggers))
        own = {
            types.TEXT_DOCUMENT_COMPLETION: types.CompletionOptions(trigger_characters=triggers),
            types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=able.rename_prepares or None),
        }
        for method, request in REQUESTS.items():
            if not request.able or getattr(able, request.able):
                options = own.get(method, request.options)
                editor.add_request(method, partial(self.answer, method), options, request.files)
        if able.calls:
            editor.add_request(types.CALL_HIERARCHY_INCOMING_CALLS, partial(self.calls, "incoming_calls"))
            editor.add_request(types.CALL_HIERARCHY_OUTGOING_CALLS, partial(self.calls, "outgoing_calls"))
        editor.add_request(types.TEXT_DOCUMENT_RANGES_FORMATTING, self.format_ranges)
        editor.add_request(types.TEXT_DOCUMENT_SELECTION_RANGE, self.selections)
        editor.add_request(CURSOR, self.cursor_moved)
        editor.add_request(types.WORKSPACE_SYMBOL, partial(self.ask_all, "workspace_symbols", "query"))

    def cursor_moved(self, params: Any) -> None:
        """ckwatch/cursor: the line of the cursor, from an editor that asks nothing about its place."""
        document = self._session.documents.get(str(sent(params, "uri")))
        line = sent(sent(params, "position"), "line")
        if document is not None and isinstance(line, int) and line >= 0:
            self._session.point(document, line)

    async def answer(self, method: str, params: Any) -> Any:
        """The answer to a request of `REQUESTS`."""
        request = REQUESTS[method]
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return None
        where: dict[str, Position | Range] = {}
        if hasattr(params, "position"):
            where["position"] = document.codec.decode(params.position)
        elif hasattr(params, "range"):
            where["within"] = document.codec.decode_range(params.range)
        if method in FOLLOWS_CURSOR:
            place = next(iter(where.values()))
            self._session.point(document, (place.start if isinstance(place, Range) else place).line)
        given = await self._ask(request, document, where, params)
        return await request.join(_Answers(self._session, document, params, given))

    async def format_ranges(self, params: types.DocumentRangesFormattingParams) -> list[types.TextEdit] | None:
        """textDocument/rangesFormatting: each range by itself, and each edit once."""
        found: list[types.TextEdit] = []
        for each in params.ranges:
            one = types.DocumentRangeFormattingParams(params.text_document, each, params.options)
            made = await self.answer(types.TEXT_DOCUMENT_RANGE_FORMATTING, one) or ()
            found += [edit for edit in made if edit not in found]
        return found or None

    async def selections(self, params: types.SelectionRangeParams) -> list[types.SelectionRange] | None:
        """textDocument/selectionRange: one for each position, as the protocol wants it"""
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return None
        return [await self._selection(document, document.codec.decode(place), params) for place in params.positions]

    async def _selection(self, document: TextDocument, position: Position, params: Any) -> types.SelectionRange:
        asked = await self._ask(SELECTIONS, document, {"position": position}, params)
        around = [each for one in asked for each in one] or [Range(position, position)]
        found = types.SelectionRange(document.codec.encode_range(around[-1]))
        for each in reversed(around[:-1]):
            found = types.SelectionRange(document.codec.encode_range(each), found)
        return found

    async def _ask(
        self, request: DocumentRequest, document: TextDocument, where: Mapping[str, Position | Range], params: Any
    ) -> list[Any]:
        """The answers of the providers in order, asked all at once."""
        known = self._session.providers.get(document.kind, ())
        languages = [one for one in known if hasattr(one, request.ask) and request.among(one, params)]
        more = {**where, **request.more(params)}
        asked = _Asked(document, lambda language: getattr(language, request.ask)(document, **more))
        slow = [one for one in languages if one.slow]
        others = [one for one in languages if not one.slow]
        async with anyio.create_task_group() as tasks:
            for language in slow:
                tasks.start_soon(asked.one, language)
            if len(others) == 1:
                await asked.one(others[0])
            else:
                async with anyio.create_task_group() as quick:
                    for language in others:
                        quick.start_soon(asked.one, language)
            answered = [at for at, one in enumerate(languages) if asked.answers.get(one)]
            if slow and answered:
                at_once = request.join in FIRST and answered[0] < languages.index(slow[0])
                tasks.cancel_scope.deadline = anyio.current_time() + (0.0 if at_once else request.beside_s)
        found = [asked.answers[one] for one in languages if one in asked.answers]
        if not any(found):
            asked.raise_errors(languages, explicit=request.explicit)
        return found

    async def calls(self, ask: str, params: Any) -> list[Any] | None:
        """callHierarchy/incomingCalls and outgoingCalls"""
        return await self.ask_all(ask, "item", params) or None

    async def ask_all(self, ask: str, about: str, params: Any) -> list[Any]:
        """The answers of all providers that have the method `ask`, to the field `about` of the request."""
        asked = [
            await _safely(getattr(one, ask)(getattr(params, about))) for one in self._languages() if hasattr(one, ask)
        ]
        return [each for one in asked for each in one]

    def _languages(self) -> Iterable[LanguageProvider]:
        """The providers of all kinds of documents, each once."""
        return dict.fromkeys(one for each in self._session.providers.values() for one in each)


class _Asked:
    """A request to several providers, and their answers."""

    def __init__(self, document: TextDocument, ask: Callable[[LanguageProvider], Awaitable[Any]]) -> None:
        self.answers: dict[LanguageProvider, Any] = {}
        self._errors: dict[LanguageProvider, Exception] = {}
        self._document = document
        self._ask = ask

    async def one(self, language: LanguageProvider) -> None:
        """Ask one of them."""
        try:
            self.answers[language] = await self._ask(language)
        except NoAnswerError:
            pass
        except CkwatchError as error:
            _log.info("%s: %s", self._document.uri, error)
            self._errors[language] = error
        except Exception as error:  # noqa: BLE001  # one language's mistake must not silence the others
            _log.exception("unexpected, for %s", self._document.uri)
            self._errors[language] = error

    def raise_errors(self, languages: Iterable[LanguageProvider], *, explicit: bool) -> None:
        """For what no provider has answered: the last error, if it is meant for the user or `explicit`."""
        errors = [self._errors[one] for one in languages if one in self._errors]
        for error in reversed(errors):
            if isinstance(error, OutdatedError):
                raise ContentModifiedError.of_error(error) from None
            if isinstance(error, RefusedError) or (explicit and isinstance(error, CkwatchError)):
                raise RequestFailedError.of_error(error) from None
            if explicit:
                raise error


async def _safely(asked: Awaitable[Sequence[Any] | None]) -> Sequence[Any]:
    try:
        return await asked or ()
    except CkwatchError as error:
        _log.info("%s", error)
    except Exception:  # noqa: BLE001  # as above
        _log.exception("unexpected")
    return ()


def encoded(codec: PositionCodec, tokens: Iterable[SemanticToken]) -> list[int]:
    """Tokens as the protocol writes them: each in relation to the one before, in the editor's units."""
    data: list[int] = []
    line = column = 0
    for token in tokens:
        shown = codec.encode_range(token.range)
        length = shown.end.character - shown.start.character
        if shown.start.line != shown.end.line or length <= 0:
            continue
        same = shown.start.line == line
        data += (
            shown.start.line - line,
            shown.start.character - (column if same else 0),
            length,
            _TYPES[token.type],
            sum(_MODIFIERS[name] for name in token.modifiers),
        )
        line, column = shown.start.line, shown.start.character
    return data
