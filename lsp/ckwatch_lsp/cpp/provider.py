"""Answers requests about C++: forwards them to the daemon, and its answers to the editor."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import anyio
from anyio import to_thread
from lsprotocol import types

from ckwatch.model.delays import CODE_ACTIONS, CPP_ALONE, CPP_BESIDE, CPP_COMPARED, CPP_COMPLETION, CPP_USES, Delay
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch.wire.cpp import RENDERED, CppQuestion
from ckwatch_lsp.cpp.conversion import (
    TOKEN_TYPES,
    Json,
    ShownText,
    completion_list,
    hover_text,
    in_editor,
    signature,
    uris_in,
)
from ckwatch_lsp.cpp.headers import Headers
from ckwatch_lsp.cpp.kept import KeptPieces
from ckwatch_lsp.cpp.questions import Asked, CppFound, CppQuestions, NotYetError, problem_of
from ckwatch_lsp.protocol.server import sentence_of
from ckwatch_lsp.protocol.text_parts import TOKEN_MODIFIERS, SemanticToken
from ckwatch_lsp.protocol.uris import VirtualUri, path_of, uri_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.providers import HoverText, LanguageProvider, NoAnswerError, RefusedError, is_requested
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.virtual_documents.store import VirtualDocuments

Answer = TypeVar("Answer")

TRIGGERS = (".", ">", ":", "<", "/", '"')

OPENS, CLOSES = ("{{", "{%", "{#"), ("}}", "%}", "#}")

PARAMETER_HINT = 2

_NO_VALUE = re.compile(r"\s*(?:\[\[?\s*[A-Za-z_][\w.-]*\s*\]\]?\s*)?(?:#.*)?$")
_KEY = re.compile(r"\s*[\w.-]+\s*=")


class CppProvider(LanguageProvider):
    """C++ by the daemon's clangd, in the text of the active unit."""

    slow: ClassVar[bool] = True
    triggers = TRIGGERS

    def __init__(
        self,
        session: Session,
        active: ActiveUnits,
        library: TemplateLibrary,
        documents: VirtualDocuments,
        headers: Headers,
        questions: CppQuestions,
    ) -> None:
        self._session = session
        self._active = active
        self._library = library
        self._documents = documents
        self._headers = headers
        self.questions = questions
        self._tokens: KeptPieces[SemanticToken] = KeptPieces(session, questions, "tokens", _tokens)
        self._hints: KeptPieces[Json] = KeptPieces(session, questions, "hints", _hints)
        session.listeners += [self._tokens, self._hints]

    async def completion(
        self, document: TextDocument, position: Position, context: types.CompletionContext | None
    ) -> types.CompletionList | None:
        """Completions outside of Jinja's tags; an unfinished list while clangd is not ready."""
        if document.kind in (DocumentKind.HEADER, DocumentKind.VIRTUAL) or await self._is_beside_cpp(
            document, position
        ):
            return None
        trigger = "" if context is None else context.trigger_character or ""
        found: CppFound | None = None
        late = True
        with anyio.move_on_after(CPP_COMPLETION.seconds):
            found = await self.questions.ask(document, "completion", position, trigger=trigger)
            late = False
        if late:
            return types.CompletionList(is_incomplete=True, items=[])
        if found is None or found.result is None:
            return None
        return await to_thread.run_sync(completion_list, found.result, found.text, self._session.capabilities)

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """Type, value and documentation, and where they differ in other instances."""
        if await self._is_beside_cpp(document, position, writing=False):
            return None
        found = late = None
        try:
            found = await self._asked_for(document, self.questions.ask(document, "hover", position), CPP_ALONE)
        except NotYetError as error:
            late = HoverText(sentence_of(error))
        if found is None or found.result is None:
            return late
        several = document.kind is DocumentKind.TEMPLATE and len(self._active.units(document)) != 1
        hover = await self._compared(document, position, found) if several else found.result
        about = found.text.range(hover["range"]) if "range" in hover else None
        return HoverText(
            hover_text(hover, found.about.unit, several=several or document.kind is DocumentKind.HEADER), about
        )

    async def _compared(self, document: TextDocument, position: Position, found: CppFound) -> Any:
        """The hover with other instances, as far as they are known soon enough; the daemon goes on comparing for the
        next hover there."""
        asked = self.questions.ask(document, "hover", position, others=True, patience_s=CPP_BESIDE.seconds)
        try:
            compared = await self._patiently(asked, CPP_COMPARED)
        except CkwatchError:
            compared = None
        return found.result if compared is None or compared.result is None else compared.result

    async def signature_help(self, document: TextDocument, position: Position) -> types.SignatureHelp | None:
        """The call around a place, outside of Jinja's tags."""
        if document.kind is DocumentKind.HEADER or await self._is_beside_cpp(document, position):
            return None
        found = await self._patiently(self.questions.ask(document, "signatures", position))
        if found is None or found.result is None:
            return None
        shown = [signature(each, self._session.capabilities) for each in found.result["signatures"]]
        return self._session.editor.structured({**found.result, "signatures": shown}, types.SignatureHelp)

    async def references(
        self, document: TextDocument, position: Position, *, declaration: bool
    ) -> Sequence[types.Location]:
        """In the unit's text and what it includes."""
        return await self._places(document, position, "references", declaration=declaration)

    async def highlights(self, document: TextDocument, position: Position) -> Sequence[types.DocumentHighlight]:
        """Its other places in the document."""
        found = await self._patiently(self.questions.ask(document, "highlights", position))
        return await self._shown(found, document, list[types.DocumentHighlight]) or ()

    async def symbols(self, document: TextDocument) -> Sequence[types.DocumentSymbol]:
        """The outline of the C++."""
        if document.kind is DocumentKind.KERNEL_FILE:
            return ()
        found = await self._patiently(self.questions.ask(document, "symbols"))
        return await self._shown(found, document, list[types.DocumentSymbol]) or ()

    async def tokens(self, document: TextDocument, within: Range | None) -> Sequence[SemanticToken]:
        """Kinds of names, as far as they are known."""
        found = await self._tokens.of(document)
        return [
            token if token.range == reach else SemanticToken(reach, token.type, token.modifiers)
            for reach, token in found
            if within is None or within.start.line <= reach.start.line <= within.end.line
        ]

    async def hints(self, document: TextDocument, within: Range) -> Sequence[types.InlayHint]:
        """Names of parameters, and types, if the user wants them."""
        wanted = self._session.settings.cpp_hints
        if not wanted or document.kind is DocumentKind.KERNEL_FILE:
            return ()
        return [
            types.InlayHint(
                position=document.codec.encode(reach.start),
                label=hint["label"],
                kind=types.InlayHintKind(hint["kind"]) if hint.get("kind") in (1, 2) else None,
                padding_left=hint.get("paddingLeft") or None,
                padding_right=hint.get("paddingRight") or None,
            )
            for reach, hint in await self._hints.of(document)
            if within.start <= reach.start <= within.end and (wanted == "all" or hint.get("kind") == PARAMETER_HINT)
        ]

    async def prepare_rename(self, document: TextDocument, position: Position) -> tuple[Range, str] | None:
        """The name. Raises RefusedError where it cannot be changed."""
        if not await self._renames(document, position):
            return None
        found = await self.questions.ask_now(document, "prepare-rename", position, CPP_USES)
        if found is None or found.result is None:
            raise problem_of(found) or RefusedError("there is no name here")
        return found.text.range(found.result["range"]), found.result["placeholder"]

    async def rename(self, document: TextDocument, position: Position, name: str) -> types.WorkspaceEdit | None:
        """In the templates that the text is made of. Raises RefusedError."""
        if not await self._renames(document, position):
            return None
        for other in list(self._session.documents.values()):
            folder = self._session.folder_of(other.path)
            if folder is not None and folder.client is not None:
                await folder.overlays.settled(other)
        found = await self.questions.ask_now(document, "rename", position, CPP_USES, name=name)
        edit = await self._shown(found, document, types.WorkspaceEdit)
        if edit is None:
            raise problem_of(found) or RefusedError("nothing would change")
        return self._session.workspace_edit(edit.changes or {})

    async def actions(
        self, document: TextDocument, within: Range, context: types.CodeActionContext
    ) -> Sequence[types.CodeAction]:
        """clangd's refactorings and fixes; those that cannot be made say why, where the editor shows that."""
        offered = (types.CodeActionKind.Refactor, types.CodeActionKind.QuickFix)
        kinds = [each for each in offered if is_requested(context.only, each)]
        if not kinds or document.kind in (DocumentKind.HEADER, DocumentKind.VIRTUAL, DocumentKind.SETTINGS):
            return ()
        if await self._is_beside_cpp(document, within.start):
            return ()
        asked = self.questions.ask(document, "actions", within.start, end=within.end)
        found = await self._patiently(asked, CODE_ACTIONS)
        made = []
        for action in await self._shown(found, document, list[types.CodeAction]) or ():
            quick = str(action.kind).startswith(types.CodeActionKind.QuickFix.value)
            action.kind = types.CodeActionKind.QuickFix if quick else types.CodeActionKind.Refactor
            if action.edit is not None:
                action.edit = self._session.workspace_edit(action.edit.changes or {})
            if action.kind in kinds and (action.disabled is None or self._session.capabilities.disabled_actions):
                made.append(action)
        return made

    async def prepare_calls(self, document: TextDocument, position: Position) -> Sequence[types.CallHierarchyItem]:
        """The function at a place, outside of Jinja's tags."""
        if await self._is_beside_cpp(document, position):
            return ()
        found = await self._asked_for(document, self.questions.ask(document, "prepare-calls", position))
        return await self._shown(found, document, list[types.CallHierarchyItem]) or ()

    async def _calls(
        self, item: types.CallHierarchyItem, question: CppQuestion, kind: type[list[Answer]]
    ) -> list[Answer] | None:
        """Return the callers or callees of a function in the unit's text; None for another provider's item."""
        match item.data:
            case {"language": "cpp", "root": str(root), "uri": str(uri), "call": dict(call)}:
                folder = self._session.folders.get(Path(root))
            case _:
                return None
        with anyio.move_on_after(CPP_USES.seconds):
            if folder is not None:
                answer = await self.questions.ask_about_call(folder, question, call)
                about = Asked(folder, answer.unit, None)
                return await self._in_editor(answer.result or [], await self._text(uri, about, None), about, kind)
        return []

    incoming_calls = partialmethod(_calls, question="incoming-calls", kind=list[types.CallHierarchyIncomingCall])
    outgoing_calls = partialmethod(_calls, question="outgoing-calls", kind=list[types.CallHierarchyOutgoingCall])

    async def _renames(self, document: TextDocument, position: Position) -> bool:
        """Return True if the place renames names of C++."""
        kinds = (DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE)
        if document.kind not in kinds or await self._is_beside_cpp(document, position):
            return False
        return await self.questions.about(document) is not None

    async def _places(
        self, document: TextDocument, position: Position, question: CppQuestion, **more: Any
    ) -> list[types.Location]:
        """Return places in templates, headers, or the rendered source."""
        if await self._is_beside_cpp(document, position, writing=False):
            return []
        found = await self._asked_for(document, self.questions.ask(document, question, position, **more))
        return await self._shown(found, document, list[types.Location]) or []

    definition = partialmethod(_places, question="definition")
    type_definition = partialmethod(_places, question="type-definition")
    implementation = partialmethod(_places, question="implementation")

    async def _shown(self, found: CppFound | None, document: TextDocument, kind: type[Answer]) -> Answer | None:
        """The answer as the editor gets it; None where there is none."""
        if found is None or not found.result:
            return None
        return await self._in_editor(found.result, found.text, found.about, kind, document)

    async def _in_editor(
        self, result: Any, text: ShownText, about: Asked, kind: type[Answer], document: TextDocument | None = None
    ) -> Answer:
        texts = {uri: await self._text(uri, about, document) for uri in dict.fromkeys(uris_in(result))}
        root = str(about.folder.root)
        return await to_thread.run_sync(
            lambda: self._session.editor.structured(in_editor(result, text, texts, root), kind)
        )

    async def _text(self, uri: str, about: Asked, document: TextDocument | None) -> ShownText:
        """The text that an answer names; the rendered source stays in `document` if that shows it."""
        if not uri.startswith(RENDERED):
            path = path_of(uri) or ""
            self._headers.reached(path, about.folder, about.unit)
            shown = await self._session.text_at(path)
            return ShownText(self._session.uri_at(path), None if shown is None else shown.codec.copy())
        virtual = VirtualUri("source", uri.removeprefix(RENDERED), about.folder.root)
        if document is not None and document.virtual == virtual:
            return ShownText(document.uri, document.codec.copy(), about.below)
        text = await self._documents.text(virtual)
        codec = TextDocument(virtual.uri, text.text, None, self._session.capabilities.encoding).codec
        is_file = not self._session.capabilities.shows_virtual_documents
        shown_uri = uri_of(await self._documents.files.show(virtual, text.text)) if is_file else virtual.uri
        return ShownText(shown_uri, codec, text.below)

    async def _is_beside_cpp(self, document: TextDocument, position: Position, *, writing: bool = True) -> bool:
        """Return True for Jinja or a kernel file's own words, which are not C++. Without `writing`, of
        Jinja's tags only those that write nothing."""
        if document.kind is DocumentKind.KERNEL_FILE:
            return _is_beside_values(document, position)
        if document.kind is not DocumentKind.TEMPLATE or not _may_be_in_tag(document, position):
            return False
        try:
            _, _, file = await self._library.of(document)
        except NoAnswerError:
            return False
        template = file.template
        tag = template.tag_at(template.lines.offset(position))
        if tag is None or tag.body.kind == "raw":
            return False
        return writing or not template.text.startswith("{{", tag.start)

    async def _patiently(self, asked: Awaitable[CppFound | None], limit: Delay | None = None) -> CppFound | None:
        with anyio.move_on_after((limit or CPP_ALONE).seconds):
            return await asked
        return None

    async def _asked_for(
        self, document: TextDocument, asked: Awaitable[CppFound | None], limit: Delay | None = None
    ) -> CppFound | None:
        """The same for what a user waits for. Raises NotYetError, which says what clangd does."""
        with anyio.move_on_after((limit or CPP_USES).seconds):
            return await asked
        raise await self.questions.not_yet(document)


def _may_be_in_tag(document: TextDocument, position: Position) -> bool:
    """Return True if the last thing before a place that could be Jinja's opens a tag: only then is the text read
    closely, which takes some ten milliseconds after an edit. (Where a tag holds `}}` in a string, the daemon has no
    answer.)"""
    for number in range(position.line, -1, -1):
        line = document.line(number)
        before = line[: position.column] if number == position.line else line
        opened, closed = max(map(before.rfind, OPENS)), max(map(before.rfind, CLOSES))
        if opened >= 0 or closed >= 0:
            return opened > closed
    return False


def _is_beside_values(document: TextDocument, position: Position) -> bool:
    """Return True if a place of a kernel file is in a header, a key, a comment or an empty line: names of C++ are
    values. (Where this does not tell, the daemon has no answer.)"""
    line = document.line(position.line)
    words = _NO_VALUE.match(line) or _KEY.match(line)
    return words is not None and position.column <= words.end()


def _tokens(found: CppFound) -> list[tuple[Range, SemanticToken]]:
    made = []
    for line, column, length, kind, modifiers in found.result or ():
        start = Position(line + found.text.below, column)
        place, shown = Range(start, Position(start.line, column + length)), TOKEN_TYPES.get(kind)
        if shown is not None:
            made.append((place, SemanticToken(place, shown, tuple(one for one in modifiers if one in TOKEN_MODIFIERS))))
    return made


def _hints(found: CppFound) -> list[tuple[Range, Json]]:
    at = [(found.text.position(hint["position"]), hint) for hint in found.result or ()]
    return [(Range(place, place), hint) for place, hint in at]
