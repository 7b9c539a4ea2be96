"""A session with an editor that can do everything, documents, and a workspace whose daemon is what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
from lsprotocol import types

from ckwatch.client import Client
from ckwatch.model.timings import Timing
from ckwatch.model.topics import Topic
from ckwatch.wire.imported_timings import ImportedTiming
from ckwatch.wire.state import Change, Unit
from ckwatch_lsp.figures.presenter import FigurePresenter
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.handlers import RequestHandlers
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.setup import add_figures
from ckwatch_lsp.templates.adapter.library import TemplateLibrary
from lsp.fake_editor import FakeEditor

ROOT = Path("/ws")

ABLE = EditorCapabilities(
    hints=True, refreshes_hints=True, lenses=True, refreshes_lenses=True, markdown=False, progress=True,
    encoding=types.PositionEncodingKind.Utf16,
)  # fmt: skip


class MadeUpClient:
    """Tells what a test has put in: who reads a file, and a unit's past. `asked` counts questions for a past,
    `asked_readers` are the files of each question for readers."""

    root = ROOT

    def __init__(self) -> None:
        self.reading: dict[str, list[str]] = {}
        self.past: list[Timing] = []
        self.imported: list[ImportedTiming] = []
        self.asked = 0
        self.asked_readers: list[set[str]] = []

    async def readers_of(self, paths: Iterable[str]) -> dict[str, list[str]]:
        self.asked_readers.append(set(paths))
        return {path: self.reading.get(path, []) for path in paths}

    async def imported_timings(self, _kernel: str) -> list[ImportedTiming]:
        return list(self.imported)

    async def timings(self, _unit: Unit, limit: int) -> list[Timing]:
        self.asked += 1
        return self.past[:limit]


class NoTemplates(TemplateLibrary):
    """Reads no files."""

    async def folder_of(self, _document: TextDocument) -> None:
        return None


class Desk:
    """`report` is what the daemon reports."""

    def __init__(self, session: Session, active: ActiveUnits, editor: FakeEditor, presenter: FigurePresenter) -> None:
        self.session = session
        self.active = active
        self.editor = editor
        self.presenter = presenter
        self.client = MadeUpClient()
        self.folder = WorkspaceFolder(ROOT, session.on_daemon_change)  # as the session makes it
        self.folder.client = cast("Client", self.client)
        self.session.folders[ROOT] = self.folder
        self.answers = RequestHandlers(self.session)

    def open(self, name: str, text: str) -> str:
        """Open a document; its URI."""
        uri = uri_of(ROOT / name)
        document = TextDocument(uri, text, 1, self.session.capabilities.encoding)
        self.session.documents[uri] = document
        for listener in self.session.listeners:
            listener.opened(document)
        return uri

    async def change(self, uri: str, text: str) -> None:
        """The document has another text."""
        self.session.changed(uri, 2, [types.TextDocumentContentChangeWholeDocument(text)])

    async def report(self, *units: Unit, gone: Sequence[str] = ()) -> None:
        """Have these units be so; everything that follows from it has been done after this."""
        for unit in units:
            self.folder._take(Change(seq=0, topic=Topic(f"unit/{unit.id}"), state=unit))  # what the daemon says
        for name in gone:
            self.folder._take(Change(seq=0, topic=Topic(f"unit/{name}")))  # as above
        await self.settle()

    async def settle(self) -> None:
        """Tell what was touched, and let answers come."""
        for _ in range(2):
            topics = Topics(self.folder._changed)  # nobody runs the folder here
            self.folder._changed.clear()  # as above
            if topics:
                self.session.on_daemon_change(self.folder, topics)
            await anyio.wait_all_tasks_blocked()

    def set(self, **settings: Any) -> None:
        """The user's settings."""
        self.session.settings = replace(self.session.settings, **settings)
        for listener in self.session.listeners:
            listener.configured()

    async def hints(self, uri: str, first: int = 0, last: int = 10_000) -> dict[int, str]:
        """Labels by line."""
        params = types.InlayHintParams(types.TextDocumentIdentifier(uri), lines(first, last))
        return {
            hint.position.line: str(hint.label)
            for hint in await self.answers.answer(types.TEXT_DOCUMENT_INLAY_HINT, params) or ()
        }

    async def lenses(self, uri: str) -> dict[int, list[str]]:
        """Titles by line."""
        found: dict[int, list[str]] = {}
        for lens in (
            await self.answers.answer(
                types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensParams(types.TextDocumentIdentifier(uri))
            )
            or ()
        ):
            assert lens.command is not None
            found.setdefault(lens.range.start.line, []).append(lens.command.title)
        return found

    async def arguments(self, uri: str, title: str) -> list[Mapping[str, Any]]:
        """Return the arguments of lenses with this title."""
        asked = await self.answers.answer(
            types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensParams(types.TextDocumentIdentifier(uri))
        )
        commands = [lens.command for lens in asked or () if lens.command is not None]
        return [
            cast("Mapping[str, Any]", each.arguments[0]) for each in commands if each.title == title and each.arguments
        ]

    async def hover(self, uri: str, line: int, column: int = 0) -> str:
        """The text; empty where there is none."""
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, column))
        found = await self.answers.answer(types.TEXT_DOCUMENT_HOVER, params)
        return "" if found is None else cast("types.MarkupContent", found.contents).value


def lines(first: int, last: int) -> types.Range:
    """Whole lines."""
    return types.Range(types.Position(first, 0), types.Position(last, 0))


@asynccontextmanager
async def desk(capabilities: EditorCapabilities = ABLE) -> AsyncIterator[Desk]:
    """A session that ends with the context."""
    async with anyio.create_task_group() as tasks:
        session = Session(tasks, lambda _path: None)
        session.capabilities = capabilities
        active, editor = ActiveUnits(session), FakeEditor(capabilities)
        session.listeners.append(active)
        session.editor = editor
        presenter = add_figures(session, active, NoTemplates(session))
        made = Desk(session, active, editor, presenter)
        yield made
        tasks.cancel_scope.cancel()
