"""Asks the daemon about the C++ of a document, for the text that the document has when the answer comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
from anyio import to_thread

from ckwatch.model.delays import CPP_AGAIN, CPP_STATUS, CPP_UNREADY, Delay
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range, text_digest
from ckwatch.wire.cpp import CppAnswer, CppQuestion
from ckwatch_lsp.commands.running_tasks import TaskProgress
from ckwatch_lsp.cpp.conversion import ShownText
from ckwatch_lsp.cpp.headers import Headers
from ckwatch_lsp.diagnostics.edit_tracking import shifted
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import WORKSPACE_KINDS, DocumentKind, TextDocument, is_saved
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import OutdatedError, RefusedError
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.virtual_documents.store import VirtualDocuments

ATTEMPTS = 4
"""Times that a question is asked because the answer is about another text."""

HASHED_AT_ONCE = 500_000
"""Characters of a text whose digest takes less than a millisecond or two."""


AskAgain = Callable[[float], Awaitable[CppAnswer]]
"""Asks the same for at most so many seconds."""

LONGEST_STATUS_S = 8.0
"""A question that is asked again and again gets more time each time, up to this."""

TITLE = "C++"


class Readiness:
    """Asks on behalf of questions that are not awaited any more, and shows clangd's progress until it can answer: one
    for each workspace."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._watched: dict[WorkspaceFolder, str] = {}

    def reason(self, folder: WorkspaceFolder) -> str:
        """Why there is no answer yet; empty where that is not known."""
        return self._watched.get(folder, "")

    def watch(self, folder: WorkspaceFolder, ask: AskAgain) -> None:
        """Show what clangd does until this question has an answer."""
        if folder not in self._watched:
            self._watched[folder] = ""
            self._session.start(self._watch, folder, ask)

    async def _watch(self, folder: WorkspaceFolder, ask: AskAgain) -> None:
        progress: TaskProgress | None = None
        scope = anyio.CancelScope()
        patience_s = CPP_STATUS.seconds
        try:
            with scope:
                while not (answer := await ask(patience_s)).ready:
                    self._watched[folder] = answer.reason
                    if progress is None:
                        title = TITLE if len(self._session.folders) == 1 else f"{TITLE}, {folder.root.name}"
                        progress = TaskProgress(self._session, title, scope.cancel, endless=True)
                    progress.report(answer.reason, 0, 0)
                    patience_s = min(patience_s * 1.5, LONGEST_STATUS_S)
        except CkwatchError:
            pass  # the daemon's warnings say why, and so does each answer
        finally:
            del self._watched[folder]
            if progress is not None:
                progress.end()


@dataclass(frozen=True, slots=True)
class Asked:
    """A document's text in the eyes of the daemon: `path` of its file, or None for the rendered source of `unit`, which
    begins `below` lines down in the document. An empty `unit` is the first that is made of the file."""

    folder: WorkspaceFolder
    unit: str
    path: str | None
    below: int = 0


@dataclass(frozen=True, slots=True)
class CppFound:
    """An answer about the present text, which is that at `revision` of the document."""

    answer: CppAnswer
    about: Asked
    text: ShownText
    revision: int

    @property
    def result(self) -> Any:
        """The answer in the daemon's terms."""
        return self.answer.result


class NotYetError(RefusedError):
    """An answer is not there soon enough."""


class CppQuestions:
    """Nothing is asked that cannot be answered: without a unit, in the first lines of an old text, of a text that the
    daemon does not have."""

    def __init__(self, session: Session, active: ActiveUnits, headers: Headers, documents: VirtualDocuments) -> None:
        self._session = session
        self._active = active
        self._headers = headers
        self._documents = documents
        self._readiness = Readiness(session)

    async def ask(
        self,
        document: TextDocument,
        question: CppQuestion,
        position: Position | None = None,
        *,
        end: Position | None = None,
        **more: Any,
    ) -> CppFound | None:
        """The answer about the document as it is now; None where there is nothing to ask. `more` is as that of the
        daemon's client.

        A position moves with the edits that come meanwhile. Raises OutdatedError where there are too many of them, and
        CkwatchError.
        """
        asked_at = document.revision
        for attempt in range(ATTEMPTS):
            if attempt:
                await anyio.sleep(CPP_AGAIN.seconds)
            about = await self.about(document)
            if about is None:
                return None
            await about.folder.overlays.settled(document)
            places = self._moved(document, asked_at, position, end)
            if places is None:
                break
            if any(each.line < about.below for each in places):
                return None
            revision = document.revision
            ours = [Position(each.line - about.below, each.column) for each in places]
            answer = await self._answer(about, question, ours, **more)
            if answer.ready and await self._is_present(document, about, revision, answer.digest):
                about = replace(about, unit=answer.unit or about.unit)
                text = ShownText(document.uri, document.codec.copy(), about.below)
                return CppFound(answer, about, text, document.revision)
            if self._session.documents.get(document.uri) is not document and document.version is not None:
                return None  # it was closed
        raise OutdatedError("the text has changed meanwhile", "Ask again.")

    async def ask_now(
        self, document: TextDocument, question: CppQuestion, position: Position, limit: Delay, **more: Any
    ) -> CppFound | None:
        """The same for what the user waits for. Raises RefusedError where there is no answer, or not soon enough."""
        try:
            with anyio.move_on_after(limit.seconds):
                return await self.ask(document, question, position, **more)
        except OutdatedError:
            raise
        except CkwatchError as error:
            raise RefusedError(error.message, error.hint) from None
        raise await self.not_yet(document)

    async def not_yet(self, document: TextDocument) -> NotYetError:
        """Say that there is no answer, and what clangd does."""
        about = await self.about(document)
        why = "" if about is None else self._readiness.reason(about.folder)
        return NotYetError(
            "There is no answer about the C++ yet" + (f": {why}" if why else ""), "Try again in a moment."
        )

    async def ask_about_call(self, folder: WorkspaceFolder, question: CppQuestion, call: Any) -> CppAnswer:
        """About a function of a call hierarchy."""
        return await self._asked(Asked(folder, "", None), question, [], call=call)

    async def about(self, document: TextDocument) -> Asked | None:
        """The subject of a question to the daemon."""
        if not self._session.settings.cpp:
            return None
        found: tuple[WorkspaceFolder, str] | None = None
        if document.kind is DocumentKind.VIRTUAL:
            return self._about_source(document)
        if document.kind in (DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE):
            folder = self._session.folder_for(document)
            if folder is not None and folder.client is not None:
                unit = self._active.unit(document) or next(iter(await self._active.find_units(document)), None)
                if unit is not None:
                    found = (folder, unit.id)
                elif folder.workspace is None or not folder.workspace.loaded or folder.is_rendering:
                    found = (folder, "")  # the daemon waits until it knows what is made of the document
            elif document.kind is DocumentKind.TEMPLATE:
                found = self._headers.origin(document)
        elif document.kind is DocumentKind.HEADER:
            found = self._headers.origin(document)
        if found is None or found[0].client is None or not await self._has_text(document, found[0]):
            return None
        return Asked(found[0], found[1], document.path)

    def unit_name(self, document: TextDocument) -> str:
        """The unit whose text would answer, as far as is known; empty where there is none."""
        if document.virtual is not None:
            return document.virtual.unit
        unit = self._active.unit(document)
        if unit is not None:
            return unit.id
        outside = document.kind is DocumentKind.TEMPLATE and self._session.folder_for(document) is None
        found = self._headers.origin(document) if outside or document.kind is DocumentKind.HEADER else None
        return "" if found is None else found[1]

    def _about_source(self, document: TextDocument) -> Asked | None:
        shown = self._documents.of(document)
        folder = self._session.folder_for(document)
        if shown is None or folder is None or folder.client is None or shown[0].view != "source":
            return None
        virtual, text = shown
        return Asked(folder, virtual.unit, None, text.below) if virtual.unit in folder.units else None

    async def _has_text(self, document: TextDocument, folder: WorkspaceFolder) -> bool:
        """Return True if the daemon has the text, or the file is the same."""
        if document.version is None or document.path is None:
            return True
        sent = self._session.settings.check_on_type and document.kind in WORKSPACE_KINDS
        if sent and self._session.folder_of(document.path) is folder:
            return True
        return await to_thread.run_sync(is_saved, document.path, document.text)

    async def _answer(self, about: Asked, question: CppQuestion, places: Sequence[Position], **more: Any) -> CppAnswer:
        """Raises CkwatchError."""

        async def again(patience_s: float) -> CppAnswer:
            return await self._asked(about, question, places, **{**more, "others": False, "patience_s": patience_s})

        async def watch() -> None:
            await anyio.sleep(CPP_UNREADY.seconds)
            self._readiness.watch(about.folder, again)

        async with plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            answer = await self._asked(about, question, places, **more)
            tasks.cancel_scope.cancel()
        return answer

    async def _asked(self, about: Asked, question: CppQuestion, places: Sequence[Position], **more: Any) -> CppAnswer:
        line, column = (places[0].line, places[0].column) if places else (None, 0)
        if len(places) > 1:
            more["end"] = (places[1].line, places[1].column)
        return await about.folder.ready.cpp.ask(question, about.path, line, column, unit=about.unit or None, **more)

    def _moved(
        self, document: TextDocument, revision: int, position: Position | None, end: Position | None
    ) -> list[Position] | None:
        """The places after the edits since `revision`; None where they were deleted."""
        if position is None:
            return []
        reach = Range(position, position if end is None else end)
        moved = shifted(reach, document.edits_since(revision))
        if moved is None:
            return None
        return [moved.start] if end is None else [moved.start, moved.end]

    async def _is_present(self, document: TextDocument, about: Asked, revision: int, digest: str) -> bool:
        """Return True if an answer is about the document's text; without a digest, if that has not changed."""
        if not digest:
            return document.revision == revision
        text = document.text
        if about.below:
            text = text.split("\n", about.below)[-1]
        if len(text) < HASHED_AT_ONCE:
            return text_digest(text) == digest
        revision = document.revision
        return await to_thread.run_sync(text_digest, text) == digest and document.revision == revision


def problem_of(found: CppFound | None) -> RefusedError | None:
    """Why there is nothing, if the daemon says so."""
    return RefusedError(found.answer.reason) if found is not None and found.answer.reason else None
