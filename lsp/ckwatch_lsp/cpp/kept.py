"""Tokens and hints of C++: what is known is shown at once, moved with the edits since; the rest when it comes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Generic, Literal, TypeVar

import anyio
from anyio import to_thread

from ckwatch.model.delays import CPP_BESIDE, REFRESH
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Range
from ckwatch_lsp.cpp.questions import CppFound, CppQuestions
from ckwatch_lsp.diagnostics.edit_tracking import shifted
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import TextChange, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import OutdatedError, SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

_log = logging.getLogger(__name__)

Piece = TypeVar("Piece")


@dataclass(slots=True)
class _Kept(Generic[Piece]):
    """`pieces` are at places of the text of `revision`. They are up to date if `about` is what the document and its
    unit are. `wanted` is the revision that the editor has asked about last."""

    pieces: list[tuple[Range, Piece]] = field(default_factory=list)
    revision: int = 0
    wanted: int = 0
    about: tuple[int, str, int] | None = None
    unit: str = ""
    fetching: anyio.Event | None = None


class KeptPieces(SessionListener, Generic[Piece]):
    """The pieces of open documents by URI. `convert` makes them of an answer; it runs in a thread."""

    def __init__(
        self,
        session: Session,
        questions: CppQuestions,
        question: Literal["tokens", "hints"],
        convert: Callable[[CppFound], list[tuple[Range, Piece]]],
    ) -> None:
        self._session = session
        self._questions = questions
        self._question = question
        self._convert = convert
        self._kept: dict[str, _Kept[Piece]] = {}
        self._refresh_soon = Debouncer(session.start, self._refresh, REFRESH)

    async def of(self, document: TextDocument) -> Sequence[tuple[Range, Piece]]:
        """Kept answers of a document, at places of its current text. Where the editor cannot be notified of more, it is
        waited for, for a short while."""
        if document.uri not in self._session.documents:
            return ()
        kept = self._kept.setdefault(document.uri, _Kept())
        kept.wanted = document.revision
        if kept.about != self._now(document):
            fetching = self._fetch_soon(document, kept)
            if not self._can_refresh:
                with anyio.move_on_after(CPP_BESIDE.seconds):
                    await fetching.wait()
        edits = document.edits_since(kept.revision)
        if edits and kept.pieces:
            revision, pieces = document.revision, kept.pieces
            moved = await to_thread.run_sync(_moved, pieces, edits)
            if kept.pieces is pieces:
                kept.pieces, kept.revision = moved, revision
        return kept.pieces

    def closed(self, document: TextDocument) -> None:
        """Nobody asks any more."""
        self._kept.pop(document.uri, None)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Another text of the unit, another unit, or another daemon may say something else."""
        other_units = topics.moves_units or topics.any_of("active") or topics.named("readers")
        for uri, kept in self._kept.items():
            document = self._session.documents.get(uri)
            if document is None or not (other_units or f"unit/{kept.unit}" in topics):
                continue
            if (not kept.unit or kept.unit in folder.units) and kept.about != self._now(document):
                self._fetch_soon(document, kept)

    def configured(self) -> None:
        """They may be wanted now, or not any more."""
        if self._kept and self._can_refresh:
            self._kept.clear()
            self._refresh_soon()

    @property
    def _can_refresh(self) -> bool:
        able = self._session.capabilities
        return able.refreshes_tokens if self._question == "tokens" else able.refreshes_hints

    def _now(self, document: TextDocument) -> tuple[int, str, int]:
        name = self._questions.unit_name(document)
        folders = self._session.folders.values()
        generation = next((each.units[name].generation for each in folders if name in each.units), -1)
        return document.revision, name, generation

    def _fetch_soon(self, document: TextDocument, kept: _Kept[Piece]) -> anyio.Event:
        if kept.fetching is None:
            kept.fetching = anyio.Event()
            self._session.start(self._fetch, document, kept, kept.fetching)
        return kept.fetching

    async def _fetch(self, document: TextDocument, kept: _Kept[Piece], fetching: anyio.Event) -> None:
        revision = -1
        try:
            while revision < kept.wanted and self._kept.get(document.uri) is kept:
                now = self._now(document)
                revision = document.revision
                try:
                    found = await self._questions.ask(document, self._question)
                except OutdatedError:
                    continue
                await self._take(document, kept, found, (revision if found is None else found.revision, *now[1:]))
        except CkwatchError as error:
            _log.info("%s: %s", document.uri, error)
        finally:
            kept.fetching = None
            fetching.set()

    async def _take(
        self, document: TextDocument, kept: _Kept[Piece], found: CppFound | None, about: tuple[int, str, int]
    ) -> None:
        pieces = [] if found is None else await to_thread.run_sync(self._convert, found)
        edits = document.edits_since(kept.revision)
        before = await to_thread.run_sync(_moved, kept.pieces, edits)
        kept.pieces, kept.revision, kept.about, kept.unit = pieces, about[0], about, about[1]
        if before != pieces:
            self._refresh_soon()

    async def _refresh(self) -> None:
        if self._can_refresh:
            await self._session.editor.refresh(self._question)


def _moved(pieces: Sequence[tuple[Range, Piece]], edits: Sequence[TextChange]) -> list[tuple[Range, Piece]]:
    """Pieces at their places after the edits, without those that were deleted."""
    if not edits:
        return list(pieces)
    moved = ((shifted(reach, edits), piece) for reach, piece in pieces)
    return [(reach, piece) for reach, piece in moved if reach is not None]
