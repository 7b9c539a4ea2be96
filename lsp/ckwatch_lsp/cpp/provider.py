"""Answers requests about C++."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio
from anyio import to_thread
from lsprotocol import types

from ckwatch.model.delays import CODE_ACTIONS, CPP_ALONE, CPP_BESIDE, CPP_COMPLETION, CPP_USES, Delay
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch.wire.cpp import CppAnswer, CppCall, CppHint, CppHover, CppLocation, CppQuestion
from ckwatch.wire.state import Fix
from ckwatch_lsp.cpp.conversion import (
    action_kind,
    completion_list,
    document_symbols,
    hover_text,
    inlay_hint,
    place_in,
    range_in,
    semantic_tokens,
    signature_help,
)
from ckwatch_lsp.cpp.headers import Headers
from ckwatch_lsp.cpp.kept import KeptPieces
from ckwatch_lsp.cpp.questions import Asked, CppFound, CppQuestions, problem_of
from ckwatch_lsp.protocol.editor_client import EditorClient
from ckwatch_lsp.protocol.position_encoding import range_of
from ckwatch_lsp.protocol.uris import VirtualUri, uri_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.providers import HoverText, LanguageProvider, RefusedError, SemanticToken, is_requested
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from ckwatch_lsp.virtual_documents.store import VirtualDocuments

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
        editor: EditorClient,
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
        self._questions = questions
        self._tokens: KeptPieces[SemanticToken] = KeptPieces(session, editor, questions, "tokens", _tokens)
        self._hints: KeptPieces[CppHint] = KeptPieces(session, editor, questions, "hints", _hints)
        session.listeners += [questions, self._tokens, self._hints]

    async def completion(
        self, document: TextDocument, position: Position, context: types.CompletionContext | None
    ) -> types.CompletionList | None:
        """What could be written, outside of Jinja's tags; an unfinished list while clangd is not ready."""
        if document.kind in (DocumentKind.HEADER, DocumentKind.VIRTUAL) or await self._is_beside_cpp(
            document, position
        ):
            return None
        trigger = "" if context is None else context.trigger_character or ""
        found: CppFound | None = None
        late = True
        with anyio.move_on_after(CPP_COMPLETION.seconds):
            found = await self._questions.ask(document, "completion", position, trigger=trigger)
            late = False
        if late:
            return types.CompletionList(is_incomplete=True, items=[])
        if found is None or found.answer.completions is None:
            return None
        codec = document.codec.copy()
        return await to_thread.run_sync(
            completion_list, found.answer.completions, found.about, codec, self._session.capabilities
        )

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """Type, value and documentation, and where they differ in other instances."""
        if await self._is_beside_cpp(document, position, writing=False):
            return None
        found = await self._patiently(self._questions.ask(document, "hover", position))
        hover = None if found is None else found.answer.hover
        if found is None or hover is None:
            return None
        name = found.answer.unit or found.about.unit
        several = document.kind is DocumentKind.TEMPLATE and len(self._active.units(document)) != 1
        if several:
            hover = await self._compared(document, position, hover)
        about = None if hover.range is None else range_in(found.about, hover.range)
        return HoverText(hover_text(hover, name, several=several or document.kind is DocumentKind.HEADER), about)

    async def _compared(self, document: TextDocument, position: Position, hover: CppHover) -> CppHover:
        """The hover with other instances, as far as they are known soon enough; the daemon goes on comparing for the
        next hover there."""
        compared = self._questions.ask(document, "hover", position, others=True, patience_s=CPP_BESIDE.seconds)
        try:
            found = await self._patiently(compared, 2 * CPP_BESIDE.seconds)
        except CkwatchError:
            return hover
        return hover if found is None or found.answer.hover is None else found.answer.hover

    async def signature_help(self, document: TextDocument, position: Position) -> types.SignatureHelp | None:
        """The call around a place, outside of Jinja's tags."""
        if document.kind is DocumentKind.HEADER or await self._is_beside_cpp(document, position):
            return None
        found = await self._patiently(self._questions.ask(document, "signatures", position))
        if found is None or found.answer.signatures is None:
            return None
        return signature_help(found.answer.signatures, self._session.capabilities)

    async def definition(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """In a template, a header, or the rendered source."""
        return await self._places(document, "definition", position)

    async def type_definition(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """Of its type."""
        return await self._places(document, "type-definition", position)

    async def implementation(self, document: TextDocument, position: Position) -> Sequence[types.Location]:
        """What overrides or derives from it."""
        return await self._places(document, "implementation", position)

    async def references(
        self, document: TextDocument, position: Position, *, declaration: bool
    ) -> Sequence[types.Location]:
        """In the unit's text and what it includes."""
        found = await self._places(document, "references", position, CPP_USES)
        if declaration or not found:
            return found
        defined = await self._places(document, "definition", position)
        places = {_place(one) for one in defined}
        return [one for one in found if _place(one) not in places]

    async def highlights(self, document: TextDocument, position: Position) -> Sequence[types.DocumentHighlight]:
        """Its other places in the document."""
        found = await self._patiently(self._questions.ask(document, "highlights", position))
        if found is None:
            return ()
        return [
            types.DocumentHighlight(
                document.codec.encode_range(range_in(found.about, one.range)), types.DocumentHighlightKind(one.kind)
            )
            for one in found.answer.highlights
        ]

    async def symbols(self, document: TextDocument) -> Sequence[types.DocumentSymbol]:
        """What is declared."""
        if document.kind is DocumentKind.KERNEL_FILE:
            return ()
        found = await self._patiently(self._questions.ask(document, "symbols"))
        if found is None:
            return ()
        codec = document.codec.copy()
        return await to_thread.run_sync(document_symbols, found.answer.symbols, found.about, codec)

    async def tokens(self, document: TextDocument, within: Range | None) -> Sequence[SemanticToken]:
        """What names are, as far as that is known."""
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
            inlay_hint(hint, reach.start, document.codec)
            for reach, hint in await self._hints.of(document)
            if within.start <= reach.start <= within.end and (wanted == "all" or hint.kind == PARAMETER_HINT)
        ]

    async def prepare_rename(self, document: TextDocument, position: Position) -> tuple[Range, str] | None:
        """The name. Raises RefusedError where it cannot be changed."""
        if not await self._renames(document, position):
            return None
        found = await self._questions.ask_now(document, "prepare-rename", position, CPP_ALONE)
        name = None if found is None else found.answer.name
        if found is None or name is None:
            raise problem_of(found) or RefusedError("there is no name here")
        return range_in(found.about, name.range), name.text

    async def rename(self, document: TextDocument, position: Position, name: str) -> types.WorkspaceEdit | None:
        """In the templates that the text is made of. Raises RefusedError."""
        if not await self._renames(document, position):
            return None
        for other in list(self._session.documents.values()):
            folder = self._session.folder_of(other.path)
            if folder is not None and folder.client is not None:
                await folder.overlays.settled(other)
        found = await self._questions.ask_now(document, "rename", position, CPP_USES, name=name)
        if found is None or not found.answer.edits:
            raise problem_of(found) or RefusedError("nothing would change")
        return await self._workspace_edit(found.answer.edits)

    async def actions(
        self, document: TextDocument, within: Range, context: types.CodeActionContext
    ) -> Sequence[types.CodeAction]:
        """clangd's refactorings and fixes; those that cannot be made say why, where the editor shows that."""
        kinds = [
            each for each in (types.CodeActionKind.Refactor, types.CodeActionKind.QuickFix) if _wanted(context, each)
        ]
        if not kinds or document.kind in (DocumentKind.HEADER, DocumentKind.VIRTUAL, DocumentKind.SETTINGS):
            return ()
        if await self._is_beside_cpp(document, within.start):
            return ()
        found = await self._patiently(
            self._questions.ask(document, "actions", within.start, end=within.end), CODE_ACTIONS.seconds
        )
        made = []
        for action in () if found is None else found.answer.actions:
            if action_kind(action) not in kinds:
                continue
            if not action.refused:
                edit = await self._workspace_edit(action.edits)
                made.append(types.CodeAction(action.title, kind=action_kind(action), edit=edit))
            elif self._session.capabilities.disabled_actions:
                why = types.CodeActionDisabled(action.refused)
                made.append(types.CodeAction(action.title, kind=action_kind(action), disabled=why))
        return made

    async def prepare_calls(self, document: TextDocument, position: Position) -> Sequence[types.CallHierarchyItem]:
        """The function at a place, outside of Jinja's tags."""
        if await self._is_beside_cpp(document, position):
            return ()
        found = await self._patiently(self._questions.ask(document, "prepare-calls", position))
        if found is None:
            return ()
        items = [await self._call_item(each, found.about, document) for each in found.answer.calls]
        return [item for item in items if item is not None]

    async def incoming_calls(self, item: types.CallHierarchyItem) -> Sequence[types.CallHierarchyIncomingCall] | None:
        """Who calls it, in the unit's text."""
        found = await self._calls(item, "incoming-calls")
        if found is None:
            return None
        made = []
        for caller, call, about in found:
            inside = [(await self._location(_at(call.location, each), about)).range for each in call.ranges]
            made.append(types.CallHierarchyIncomingCall(caller, inside))
        return made

    async def outgoing_calls(self, item: types.CallHierarchyItem) -> Sequence[types.CallHierarchyOutgoingCall] | None:
        """What it calls."""
        found = await self._calls(item, "outgoing-calls")
        if found is None:
            return None
        document = await self._session.document(item.uri)
        codec = None if document is None else document.codec
        made = []
        for called, call, _ in found:
            ours = [range_in(Asked(self._session.folders[_root(item)], "", None), each) for each in call.ranges]
            inside = [item.selection_range if codec is None else codec.encode_range(each) for each in ours]
            made.append(types.CallHierarchyOutgoingCall(called, inside))
        return made

    async def _calls(
        self, item: types.CallHierarchyItem, question: CppQuestion
    ) -> list[tuple[types.CallHierarchyItem, CppCall, Asked]] | None:
        match item.data:
            case {"language": "cpp", "root": str(root), "call": str(call)}:
                folder = self._session.folders.get(Path(root))
            case _:
                return None
        if folder is None:
            return []
        answer: CppAnswer | None = None
        with anyio.move_on_after(CPP_USES.seconds):
            answer = await self._questions.ask_about_call(folder, question, call)
        found = []
        for each in () if answer is None else answer.calls:
            about = Asked(folder, "" if answer is None else answer.unit, None)
            made = await self._call_item(each, about, None)
            if made is not None:
                found.append((made, each, about))
        return found

    async def _call_item(
        self, call: CppCall, about: Asked, document: TextDocument | None
    ) -> types.CallHierarchyItem | None:
        whole = await self._location(call.location, about, document)
        name = await self._location(_at(call.location, call.name_range), about, document)
        return types.CallHierarchyItem(
            name=call.name,
            kind=types.SymbolKind(call.kind),
            uri=whole.uri,
            range=whole.range,
            selection_range=name.range,
            detail=call.detail or None,
            data={"language": "cpp", "root": str(about.folder.root), "call": call.data},
        )

    async def _renames(self, document: TextDocument, position: Position) -> bool:
        """Whether names are changed there, and are those of C++."""
        kinds = (DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE)
        if document.kind not in kinds or await self._is_beside_cpp(document, position):
            return False
        return await self._questions.about(document) is not None

    async def _places(
        self, document: TextDocument, question: CppQuestion, position: Position, limit: Delay = CPP_ALONE
    ) -> list[types.Location]:
        if await self._is_beside_cpp(document, position, writing=False):
            return []
        found = await self._patiently(self._questions.ask(document, question, position), limit.seconds)
        if found is None:
            return []
        return [await self._location(each, found.about, document) for each in found.answer.locations]

    async def _location(self, given: CppLocation, about: Asked, document: TextDocument | None = None) -> types.Location:
        """Where a place is for the editor; one of the rendered source stays in `document` if that shows it."""
        if not given.unit:
            self._headers.reached(given.path, about.folder, about.unit)
            reach = range_in(Asked(about.folder, about.unit, given.path), given.range)
            return types.Location(self._session.uri_at(given.path), await self._session.encode_range(given.path, reach))
        virtual = VirtualUri("source", given.unit, about.folder.root)
        if document is not None and document.virtual == virtual:
            return types.Location(document.uri, document.codec.encode_range(range_in(about, given.range)))
        text = await self._documents.text(virtual)
        shown = TextDocument(virtual.uri, text.text, None, self._session.capabilities.encoding)
        reach = range_in(Asked(about.folder, given.unit, None, text.below), given.range)
        uri = virtual.uri
        if not self._session.capabilities.shows_virtual_documents:
            uri = uri_of(await self._documents.files.show(virtual, text.text))
        return types.Location(uri, shown.codec.encode_range(reach))

    async def _workspace_edit(self, fixes: Sequence[Fix]) -> types.WorkspaceEdit:
        edits: dict[str, list[types.TextEdit]] = {}
        for fix in fixes:
            reach = await self._session.encode_range(fix.span.path, range_of(fix.span))
            edits.setdefault(self._session.uri_at(fix.span.path), []).append(types.TextEdit(reach, fix.text))
        return self._session.workspace_edit(edits)

    async def _is_beside_cpp(self, document: TextDocument, position: Position, *, writing: bool = True) -> bool:
        """Whether Jinja stands there, or a kernel file's own words: what is typed is no C++. Without `writing`, of
        Jinja's tags only those that write nothing."""
        if document.kind is DocumentKind.KERNEL_FILE:
            return _is_beside_values(document, position)
        if document.kind is not DocumentKind.TEMPLATE or not _may_be_in_tag(document, position):
            return False
        found = await self._library.of(document)
        if found is None:
            return False
        template = found[2].template
        tag = template.tag_at(template.lines.offset(position))
        if tag is None or tag.body.kind == "raw":
            return False
        return writing or not template.text.startswith("{{", tag.start)

    async def _patiently(
        self, asked: Awaitable[CppFound | None], limit_s: float = CPP_ALONE.seconds
    ) -> CppFound | None:
        with anyio.move_on_after(limit_s):
            return await asked
        return None


def _may_be_in_tag(document: TextDocument, position: Position) -> bool:
    """Whether the last thing before a place that could be Jinja's opens a tag: only then is the text looked at closely,
    which takes some ten milliseconds after an edit. (Where a tag holds `}}` in a string, the daemon has no answer.)"""
    for number in range(position.line, -1, -1):
        line = document.line(number)
        before = line[: position.column] if number == position.line else line
        opened, closed = max(map(before.rfind, OPENS)), max(map(before.rfind, CLOSES))
        if opened >= 0 or closed >= 0:
            return opened > closed
    return False


def _is_beside_values(document: TextDocument, position: Position) -> bool:
    """Whether a place of a kernel file is in a header, a key, a comment's or an empty line: names of C++ are values.
    (Where this does not tell, the daemon has no answer.)"""
    line = document.line(position.line)
    words = _NO_VALUE.match(line) or _KEY.match(line)
    return words is not None and position.column <= words.end()


def _tokens(found: CppFound) -> list[tuple[Range, SemanticToken]]:
    return [(token.range, token) for token in semantic_tokens(found.answer.tokens, found.about)]


def _hints(found: CppFound) -> list[tuple[Range, CppHint]]:
    at = [(place_in(found.about, hint.position), hint) for hint in found.answer.hints]
    return [(Range(place, place), hint) for place, hint in at]


def _wanted(context: types.CodeActionContext, kind: types.CodeActionKind) -> bool:
    return is_requested(context.only, kind)


def _place(location: types.Location) -> tuple[str, int, int]:
    return location.uri, location.range.start.line, location.range.start.character


def _at(location: CppLocation, reach: Any) -> CppLocation:
    """Another place of the same file."""
    return location.model_copy(update={"range": reach})


def _root(item: types.CallHierarchyItem) -> Path:
    data: Any = item.data
    return Path(data["root"])
