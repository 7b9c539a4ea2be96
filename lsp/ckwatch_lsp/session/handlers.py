"""Handles requests about documents: asks the providers of the document's kind and joins their answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import anyio
from anyio import to_thread
from lsprotocol import types

from ckwatch.model.delays import CPP_ALONE, CPP_BESIDE
from ckwatch.model.errors import CkwatchError
from ckwatch.model.names import in_message
from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.position_encoding import PositionCodec
from ckwatch_lsp.protocol.server import ContentModifiedError, RequestFailedError
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.joining import joined_outline, merged_tokens
from ckwatch_lsp.session.providers import (
    TOKEN_MODIFIERS,
    TOKEN_TYPES,
    LanguageProvider,
    OutdatedError,
    RefusedError,
    SemanticToken,
)
from ckwatch_lsp.session.session import Session

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

TOKENS_AT_ONCE = 200
"""Tokens that are encoded on the event loop; more take more than a millisecond or two."""

_TYPES = {name: at for at, name in enumerate(TOKEN_TYPES)}
_MODIFIERS = {name: 1 << at for at, name in enumerate(TOKEN_MODIFIERS)}


class RequestHandlers:
    """One method for each request: finds the document, asks its languages, and joins what they say."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def completion(self, params: types.CompletionParams) -> types.CompletionList | None:
        """textDocument/completion"""
        items: list[types.CompletionItem] = []
        incomplete = False
        typed = None if params.context is None else params.context.trigger_character
        for one in await self._at(
            params,
            lambda language, document, at: language.completion(document, at, params.context),
            among=lambda language: not typed or typed in language.triggers,
        ):
            if one is not None:
                items += one.items
                incomplete = incomplete or one.is_incomplete
        return types.CompletionList(is_incomplete=incomplete, items=items) if items or incomplete else None

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """textDocument/hover"""
        asked = await self._at(params, lambda language, document, at: language.hover(document, at))
        found = [one for one in asked if one is not None]
        if not found:
            return None
        document = await self._session.document(params.text_document.uri)
        text = in_message("\n\n---\n\n".join(one.text for one in found))
        about = next((one.range for one in found if one.range is not None), None)
        kind = types.MarkupKind.Markdown if self._session.capabilities.markdown else types.MarkupKind.PlainText
        shown = None if about is None or document is None else document.codec.encode_range(about)
        return types.Hover(types.MarkupContent(kind, text), shown)

    async def signature_help(self, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        """textDocument/signatureHelp"""
        return await self._first(params, lambda language, document, at: language.signature_help(document, at))

    async def definition(self, params: types.DefinitionParams) -> list[types.Location] | None:
        """textDocument/definition"""
        return _list(await self._first(params, lambda language, document, at: language.definition(document, at)))

    async def type_definition(self, params: types.TypeDefinitionParams) -> list[types.Location] | None:
        """textDocument/typeDefinition"""
        return _list(await self._first(params, lambda language, document, at: language.type_definition(document, at)))

    async def implementation(self, params: types.ImplementationParams) -> list[types.Location] | None:
        """textDocument/implementation"""
        return _list(await self._first(params, lambda language, document, at: language.implementation(document, at)))

    async def references(self, params: types.ReferenceParams) -> list[types.Location] | None:
        """textDocument/references"""
        wanted = params.context.include_declaration
        return _list(
            await self._first(
                params, lambda language, document, at: language.references(document, at, declaration=wanted)
            )
        )

    async def prepare_calls(self, params: types.CallHierarchyPrepareParams) -> list[types.CallHierarchyItem] | None:
        """textDocument/prepareCallHierarchy"""
        found = _joined(await self._at(params, lambda language, document, at: language.prepare_calls(document, at)))
        return None if found is None else sorted(found, key=lambda item: not _touches(item.selection_range, params))

    async def incoming_calls(
        self, params: types.CallHierarchyIncomingCallsParams
    ) -> list[types.CallHierarchyIncomingCall] | None:
        """callHierarchy/incomingCalls"""
        asked = [await _safely(language.incoming_calls(params.item), None) for language in self._languages()]
        return _joined(one for one in asked if one is not None)

    async def outgoing_calls(
        self, params: types.CallHierarchyOutgoingCallsParams
    ) -> list[types.CallHierarchyOutgoingCall] | None:
        """callHierarchy/outgoingCalls"""
        asked = [await _safely(language.outgoing_calls(params.item), None) for language in self._languages()]
        return _joined(one for one in asked if one is not None)

    async def prepare_rename(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
        """textDocument/prepareRename"""
        document = await self._session.document(params.text_document.uri)
        one = await self._first(params, lambda language, document, at: language.prepare_rename(document, at))
        if one is None or document is None:
            return None
        return types.PrepareRenamePlaceholder(document.codec.encode_range(one[0]), one[1])

    async def rename(self, params: types.RenameParams) -> types.WorkspaceEdit | None:
        """textDocument/rename"""
        return await self._first(
            params, lambda language, document, at: language.rename(document, at, params.new_name), explicit=True
        )

    async def links(self, params: types.DocumentLinkParams) -> list[types.DocumentLink] | None:
        """textDocument/documentLink"""
        return _joined(await self._of(params, lambda language, document: language.links(document)))

    async def symbols(
        self, params: types.DocumentSymbolParams
    ) -> list[types.DocumentSymbol] | list[types.SymbolInformation] | None:
        """textDocument/documentSymbol"""
        # an editor keeps an outline until the text changes, so this one is waited for
        outlines = await self._of(params, lambda language, document: language.symbols(document), CPP_ALONE.seconds)
        found = await to_thread.run_sync(joined_outline, [one for one in outlines if one]) or None
        if found is None or self._session.capabilities.nested_symbols:
            return found
        return list(_flat(found, params.text_document.uri, None))

    async def workspace_symbols(self, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        """workspace/symbol"""
        found: list[types.WorkspaceSymbol] = []
        for language in self._languages():
            found += await _safely(language.workspace_symbols(params.query), ())
        return found

    async def folds(self, params: types.FoldingRangeParams) -> list[types.FoldingRange] | None:
        """textDocument/foldingRange"""
        return _joined(await self._of(params, lambda language, document: language.folds(document)))

    async def selections(self, params: types.SelectionRangeParams) -> list[types.SelectionRange] | None:
        """textDocument/selectionRange: one for each position, as the protocol wants it"""
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return None
        return [await self._selection(document, document.codec.decode(place)) for place in params.positions]

    async def _selection(self, document: TextDocument, position: Position) -> types.SelectionRange:
        asked = await self._ask(document, lambda language: language.selections(document, position))
        around = [each for one in asked for each in one] or [Range(position, position)]
        found = types.SelectionRange(document.codec.encode_range(around[-1]))
        for each in reversed(around[:-1]):
            found = types.SelectionRange(document.codec.encode_range(each), found)
        return found

    async def highlights(self, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight] | None:
        """textDocument/documentHighlight"""
        return _list(await self._first(params, lambda language, document, at: language.highlights(document, at)))

    async def tokens(self, params: types.SemanticTokensParams) -> types.SemanticTokens | None:
        """textDocument/semanticTokens/full"""
        return await self._tokens(params.text_document.uri, None)

    async def range_tokens(self, params: types.SemanticTokensRangeParams) -> types.SemanticTokens | None:
        """textDocument/semanticTokens/range"""
        return await self._tokens(params.text_document.uri, params.range)

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction] | None:
        """textDocument/codeAction"""
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return None
        within = document.codec.decode_range(params.range)
        return _joined(await self._ask(document, lambda language: language.actions(document, within, params.context)))

    async def formatted(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        """textDocument/formatting"""
        return _joined(await self._of(params, lambda language, document: language.formatted(document, None)))

    async def formatted_range(self, params: types.DocumentRangeFormattingParams) -> list[types.TextEdit] | None:
        """textDocument/rangeFormatting"""
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return None
        within = document.codec.decode_range(params.range)
        return _joined(await self._ask(document, lambda language: language.formatted(document, within)))

    async def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens] | None:
        """textDocument/codeLens"""
        return _joined(await self._of(params, lambda language, document: language.lenses(document)))

    async def hints(self, params: types.InlayHintParams) -> list[types.InlayHint] | None:
        """textDocument/inlayHint"""
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return None
        within = document.codec.decode_range(params.range)
        return _joined(await self._ask(document, lambda language: language.hints(document, within)))

    async def _tokens(self, uri: str, within: types.Range | None) -> types.SemanticTokens | None:
        document = await self._session.document(uri)
        if document is None:
            return None
        ours = None if within is None else document.codec.decode_range(within)
        found = await self._ask(document, lambda language: language.tokens(document, ours))
        if sum(map(len, found)) <= TOKENS_AT_ONCE:
            return types.SemanticTokens(data=encoded(document.codec, merged_tokens(found)))
        codec = document.codec.copy()
        return types.SemanticTokens(data=await to_thread.run_sync(lambda: encoded(codec, merged_tokens(found))))

    def _languages(self) -> Iterable[LanguageProvider]:
        """The providers of all kinds of documents, each once."""
        return dict.fromkeys(one for each in self._session.providers.values() for one in each)

    async def _at(
        self,
        params: Any,
        ask: Callable[[LanguageProvider, TextDocument, Position], Awaitable[Answer]],
        *,
        among: Callable[[LanguageProvider], bool] = lambda _language: True,
    ) -> list[Answer]:
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return []
        position = document.codec.decode(params.position)
        return await self._ask(document, lambda language: ask(language, document, position), among=among)

    async def _first(
        self,
        params: Any,
        ask: Callable[[LanguageProvider, TextDocument, Position], Awaitable[Answer]],
        *,
        explicit: bool = False,
    ) -> Answer | None:
        """The answer of the first provider that has one."""
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return None
        position = document.codec.decode(params.position)
        found = await self._ask(
            document, lambda language: ask(language, document, position), explicit=explicit, first=True
        )
        return next((one for one in found if one), None)

    async def _of(
        self,
        params: Any,
        ask: Callable[[LanguageProvider, TextDocument], Awaitable[Answer]],
        beside_s: float = CPP_BESIDE.seconds,
    ) -> list[Answer]:
        document = await self._session.document(params.text_document.uri)
        if document is None:
            return []
        return await self._ask(document, lambda language: ask(language, document), beside_s=beside_s)

    async def _ask(
        self,
        document: TextDocument,
        ask: Callable[[LanguageProvider], Awaitable[Answer]],
        *,
        explicit: bool = False,
        first: bool = False,
        among: Callable[[LanguageProvider], bool] = lambda _language: True,
        beside_s: float = CPP_BESIDE.seconds,
    ) -> list[Answer]:
        """Ask all providers at once and return their answers in order. Slow ones get `beside_s` if another has an
        answer, none with `first` and an answer before theirs. `explicit`: raise the error of the last provider that has
        one, if nobody has an answer."""
        asked = _Asked(document, ask)
        languages = [one for one in self._session.providers_for(document) if among(one)]
        slow = [one for one in languages if one.slow]
        async with anyio.create_task_group() as tasks:
            for language in slow:
                tasks.start_soon(asked.one, language)
            if len(languages) - len(slow) == 1:
                await asked.one(next(one for one in languages if not one.slow))
            else:
                async with anyio.create_task_group() as others:
                    for language in languages:
                        if not language.slow:
                            others.start_soon(asked.one, language)
            answered = [at for at, one in enumerate(languages) if asked.answers.get(one)]
            if slow and answered:
                at_once = first and answered[0] < languages.index(slow[0])
                wait_s = 0.0 if at_once else beside_s
                tasks.cancel_scope.deadline = anyio.current_time() + wait_s
        found = [asked.answers[one] for one in languages if one in asked.answers]
        if not any(found):
            asked.raise_errors(languages, explicit=explicit)
        return found


class _Asked(Generic[Answer]):
    """A request to several providers, and their answers."""

    def __init__(self, document: TextDocument, ask: Callable[[LanguageProvider], Awaitable[Answer]]) -> None:
        self.answers: dict[LanguageProvider, Answer] = {}
        self._errors: dict[LanguageProvider, Exception] = {}
        self._document = document
        self._ask = ask

    async def one(self, language: LanguageProvider) -> None:
        """Ask one of them."""
        try:
            self.answers[language] = await self._ask(language)
        except CkwatchError as error:
            _log.info("%s: %s", self._document.uri, error)
            self._errors[language] = error
        except Exception as error:  # noqa: BLE001  # one language's mistake must not silence the others
            _log.exception("unexpected, for %s", self._document.uri)
            self._errors[language] = error

    def raise_errors(self, languages: Iterable[LanguageProvider], *, explicit: bool) -> None:
        """For what nobody has answered: the last error, if it is meant for the user or `explicit`."""
        errors = [self._errors[one] for one in languages if one in self._errors]
        for error in reversed(errors):
            if isinstance(error, OutdatedError):
                raise ContentModifiedError.of_error(error) from None
            if isinstance(error, RefusedError) or (explicit and isinstance(error, CkwatchError)):
                raise RequestFailedError.of_error(error) from None
            if explicit:
                raise error


async def _safely(asked: Awaitable[Answer], otherwise: Answer) -> Answer:
    try:
        return await asked
    except CkwatchError as error:
        _log.info("%s", error)
    except Exception:  # noqa: BLE001  # as above
        _log.exception("unexpected")
    return otherwise


def _touches(reach: types.Range, params: types.CallHierarchyPrepareParams) -> bool:
    """Return True if the requested place is named there; otherwise it is around it."""
    start, end, at = reach.start, reach.end, params.position
    return (start.line, start.character) <= (at.line, at.character) <= (end.line, end.character)


def _list(found: Sequence[Answer] | None) -> list[Answer] | None:
    return list(found or ()) or None


def _joined(found: Iterable[Sequence[Answer]]) -> list[Answer] | None:
    return [each for one in found for each in one] or None


def _flat(
    symbols: Iterable[types.DocumentSymbol], uri: str, container: str | None
) -> Iterable[types.SymbolInformation]:
    for symbol in symbols:
        yield types.SymbolInformation(
            location=types.Location(uri, symbol.range), name=symbol.name, kind=symbol.kind, container_name=container
        )
        yield from _flat(symbol.children or (), uri, symbol.name)


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
