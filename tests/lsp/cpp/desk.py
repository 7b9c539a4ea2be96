"""A session with all features, documents, and a daemon whose answers about C++ are what a test says."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
from lsprotocol import types

from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Span
from ckwatch.model.topics import Topic
from ckwatch.wire.cpp import CppAnswer
from ckwatch.wire.messages import RenderedText, Segment
from ckwatch.wire.state import Change, Unit, WorkspaceDetail
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.setup import set_up
from ckwatch_lsp.virtual_documents.store import VirtualFiles
from fakes.patience import PATIENCE_S
from lsp.editing import place
from lsp.fake_editor import FakeEditor
from lsp.figures.made_up import unit

ROOT = Path("/ws")
ONE, TWO = "k/one@gfx942", "k/two@gfx942"

ABLE = EditorCapabilities(
    hints=True, refreshes_hints=True, refreshes_tokens=True, markdown=True, action_literals=True, nested_symbols=True,
    progress=True, rename_prepares=True, calls=True, snippets=True, disabled_actions=True, signature_offsets=True,
    completion_markdown=True, shows_virtual_documents=True, encoding=types.PositionEncodingKind.Utf16,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """A question as the daemon got it."""

    question: str
    path: str | None
    place: tuple[int, int] | None
    unit: str | None
    more: Mapping[str, Any]


Script = CppAnswer | CkwatchError | Callable[[Question], Awaitable[CppAnswer]]


class ScriptedCpp:
    """`script` has what each question is answered, one after the other, the last for ever; without one the answer is
    empty. What has no `digest` gets that of the text that the daemon has. While `waits` is an event, whoever is not
    patient enough gets the next of `reasons`, and all others wait for it."""

    def __init__(self, daemon: ScriptedDaemon) -> None:
        self.daemon = daemon
        self.script: dict[str, list[Script]] = {}
        self.asked: list[Question] = []
        self.cancelled: list[Question] = []
        self.waits: anyio.Event | None = None
        self.reasons = asyncio.Queue[str]()

    async def ask(
        self,
        question: str,
        path: str | None,
        line: int | None = None,
        column: int = 0,
        *,
        unit: str | None = None,
        patience_s: float | None = None,
        **more: Any,
    ) -> CppAnswer:
        asked = Question(question, path, None if line is None else (line, column), unit, more)
        self.asked.append(asked)
        try:
            if self.waits is not None and patience_s is not None:
                return CppAnswer(ready=False, reason=await self.reasons.get())
            if self.waits is not None:
                await self.waits.wait()
            return await self._answer(asked)
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(asked)
            raise

    async def _answer(self, asked: Question) -> CppAnswer:
        answers = self.script.get(asked.question, [CppAnswer()])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, CkwatchError):
            raise answer
        if not isinstance(answer, CppAnswer):
            answer = await answer(asked)
        return answer if answer.digest else replace(answer, digest=self.daemon.digest(asked))

    def questions(self, *kinds: str) -> list[Question]:
        """Those that were asked, of these kinds."""
        return [one for one in self.asked if one.question in kinds]


class ScriptedDaemon:
    """Files, overlays over them, and rendered texts."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.overlays: dict[str, str] = {}
        self.rendered_texts: dict[str, str] = {}
        self.map: tuple[Segment, ...] = ()
        self.readers: tuple[str, ...] = (ONE,)
        self.header_folder = "/rocm/include"
        self.cpp = ScriptedCpp(self)

    def digest(self, asked: Question) -> str:
        path = asked.path
        if path is None:
            text = self.rendered_texts.get(asked.unit or "")
        else:
            text = self.overlays.get(path, self.files.get(path)) if path.endswith(".j2") else None
        return "" if text is None else hashlib.sha256(text.encode()).hexdigest()

    async def workspace(self) -> WorkspaceDetail:
        return WorkspaceDetail(
            root=str(ROOT), problem=None, diagnostics=(), files=(), template_folders=(str(ROOT / "templates"),),
            toolchain=None, toolchain_problem=None, header_folders=(self.header_folder,),
        )  # fmt: skip

    async def readers_of(self, paths: Iterable[str]) -> dict[str, list[str]]:
        return {path: list(self.readers) for path in paths}

    async def rendered(self, name: str, *, with_map: bool) -> RenderedText:  # noqa: ARG002  # it is given anyway
        return RenderedText(unit=name, text=self.rendered_texts.get(name), diagnostics=(), map=self.map)

    @asynccontextmanager
    async def overlay(self, path: str, text: str) -> AsyncIterator[Any]:
        async def change(new: str) -> None:
            self.overlays[path] = new

        self.overlays[path] = text
        yield SimpleNamespace(change=change)

    def __getattr__(self, name: str) -> Any:
        async def refuse(*_arguments: object, **_named: object) -> None:
            raise CkwatchError(f"{name} is not known")

        return refuse


class Desk:
    """Requests of an editor and their answers; places are those of the first mention of a text."""

    def __init__(self, session: Session, editor: FakeEditor, folder: WorkspaceFolder, daemon: ScriptedDaemon) -> None:
        self.session = session
        self.editor = editor
        self.folder = folder
        self.daemon = daemon
        self.cpp = daemon.cpp

    def open(self, path: str, text: str) -> str:
        """Open a document that is saved, by its path or name in the workspace; its URI."""
        path = path if path.startswith(("/", "ckwatch:")) else str(ROOT / path)
        uri = uri_of(path) if path.startswith("/") else path
        self.daemon.files[path] = text
        self.session.opened(types.TextDocumentItem(uri, "cpp", 1, text))
        return uri

    def change(self, uri: str, old: str, new: str) -> None:
        """Replace the first `old`."""
        document = self.session.documents[uri]
        start = document.text.index(old)
        reach = types.Range(_place(document.text, start), _place(document.text, start + len(old)))
        change = types.TextDocumentContentChangePartial(reach, new)
        self.session.changed(uri, (document.version or 0) + 1, [change])

    async def at(self, method: str, uri: str, before: str, **more: Any) -> Any:
        """Ask about the place right before the first `before`."""
        position = _place(self.session.documents[uri].text, self.session.documents[uri].text.index(before))
        more = {"context": None, **more}
        return await self.ask(method, text_document=types.TextDocumentIdentifier(uri), position=position, **more)

    async def of(self, method: str, uri: str, **more: Any) -> Any:
        """Ask about a document."""
        return await self.ask(method, text_document=types.TextDocumentIdentifier(uri), **more)

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.editor.requests[method][0](SimpleNamespace(**params))

    async def until(self, what: Callable[[], Any]) -> None:
        """Wait until `what()` is true."""
        with anyio.fail_after(PATIENCE_S):
            while not what():  # noqa: ASYNC110  # nothing tells of what the server does by itself
                await anyio.sleep(0.005)

    def set(self, **settings: Any) -> None:
        """The user's settings."""
        self.session.settings = replace(self.session.settings, **settings)
        for listener in self.session.listeners:
            listener.configured()

    def report(self, *units: Unit) -> None:
        """The daemon has these units."""
        for one in units:
            self.folder._take(Change(seq=0, topic=Topic(f"unit/{one.id}"), state=one))
        topics = Topics({*(f"unit/{one.id}" for one in units), "units", "connection"})
        self.session.on_daemon_change(self.folder, topics)

    def calls(self, kind: str) -> list[tuple[object, ...]]:
        """Requests to the editor."""
        return [one for one in self.editor.calls if one[0] == kind]


def _place(text: str, offset: int) -> types.Position:
    return types.Position(**place(text, offset))


def span(text: str, piece: str, path: str = "/ws/templates/k.hip.j2") -> Span:
    """Return the range of the first `piece` in the file."""
    start = text.index(piece)
    return Span(path=path, start=_wire(text, start), end=_wire(text, start + len(piece)))


def around(text: str, piece: str, after: int = 0) -> dict[str, Any]:
    """Return the range of the first `piece` behind `after`, in code points."""
    start = text.index(piece, after)
    ends = (_wire(text, start), _wire(text, start + len(piece)))
    first, last = ({"line": one.line, "character": one.column} for one in ends)
    return {"start": first, "end": last}


def _wire(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(line=before.count("\n"), column=offset - before.rfind("\n") - 1)


def fix(text: str, piece: str, new: str) -> dict[str, Any]:
    """Replace the first `piece` of the template."""
    edit = {"range": around(text, piece), "newText": new}
    return {"changes": {"file:///ws/templates/k.hip.j2": [edit]}}


def location(text: str, piece: str, path: str = "/ws/templates/k.hip.j2", unit: str = "") -> dict[str, Any]:
    """Return the range of the first `piece`, in a file or in the text of `unit`."""
    return {"uri": f"rendered:{unit}" if unit else uri_of(path), "range": around(text, piece)}


def hover(text: str, **more: Any) -> CppAnswer:
    """A hover in Markdown."""
    made = {"contents": {"kind": "markdown", "value": text}, "produced": "", "others": [], **more}
    return CppAnswer(unit=more.pop("unit", ONE), result=made)


def texts_at(text: str, ranges: Sequence[types.Range]) -> list[str]:
    """Return the texts of ranges that are each on one line."""
    lines = text.split("\n")
    return [lines[one.start.line][one.start.character : one.end.character] for one in ranges]


@asynccontextmanager
async def desk(able: EditorCapabilities = ABLE, *, header_folder: Path | None = None) -> AsyncIterator[Desk]:
    """A session that ends with the context; the daemon has two units, of which one is made of each template."""
    async with anyio.create_task_group() as tasks:
        editor, daemon = FakeEditor(able), ScriptedDaemon()
        daemon.header_folder = str(header_folder or "/rocm/include")
        session = Session(tasks, lambda _path: None)
        set_up(session, VirtualFiles(), editor, types.InitializeParams(types.ClientCapabilities()))
        folder = session.folders[ROOT] = WorkspaceFolder(ROOT, session.on_daemon_change)
        folder.client = cast("Client", daemon)
        tasks.start_soon(folder.overlays.run, folder.client)
        made = Desk(session, editor, folder, daemon)
        made.report(unit("one"), unit("two", line=4))
        await made.until(lambda: session.is_header(f"{daemon.header_folder}/x.h"))
        yield made
        tasks.cancel_scope.cancel()
