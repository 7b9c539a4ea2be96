"""Costs of events with many open documents: questions and calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import FrameType
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup
from lsprotocol import types

from ckwatch.client import Client
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Span
from ckwatch.model.topics import Topic
from ckwatch.wire.state import Change, File, Unit, Workspace
from ckwatch_lsp.commands.daemon import STATUS_METHOD
from ckwatch_lsp.diagnostics.delivery import DiagnosticsDelivery
from ckwatch_lsp.figures.affected_units import AffectedUnits
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.documents import OpenDocuments, TextDocument
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.setup import set_up
from ckwatch_lsp.templates.adapter.library import TemplateLibrary, TemplateSet
from ckwatch_lsp.templates.language.index import TemplateIndex, builtin_words
from ckwatch_lsp.virtual_documents.store import VirtualFiles
from fakes.patience import PATIENCE_S
from lsp.fake_editor import FakeEditor
from lsp.figures.desk import ROOT, MadeUpClient, desk
from lsp.figures.made_up import unit

COUNT = 300
TEMPLATE = "{% macro kernel(a) %}{{ a }}{% endmacro %}\n{{ def_kernel('x') }}\n"


def document(uri: str) -> TextDocument:
    return TextDocument(uri, "", 1, "utf-16")


def test_documents_are_found_by_their_path() -> None:
    documents = OpenDocuments()
    first, other = document("file:///ws/a%62.j2"), document("file:///ws/ab.j2")
    for each in (first, other, document("file:///ws/c.j2"), document("untitled:x")):
        documents[each.uri] = each
    assert documents.at("/ws/ab.j2") == [first, other]
    documents.pop(first.uri)
    assert documents.at("/ws/ab.j2") == [other]
    again = documents[other.uri] = document(other.uri)
    assert documents.at("/ws/ab.j2") == [again]
    documents.pop(other.uri)
    assert documents.at("/ws/ab.j2") == []
    assert len(documents) == 2


async def test_the_readers_of_all_templates_are_one_question() -> None:
    async with desk() as made:
        one = unit("one")
        paths = [f"/ws/templates/{number}.hip.j2" for number in range(COUNT)]
        made.client.reading.update({path: [one.id] for path in paths})
        for path in paths:
            made.open(path.removeprefix("/ws/"), TEMPLATE)
        for generation in range(2):
            made.client.asked_readers.clear()
            await made.report(replace(one, generation=generation))
            while len(set[str]().union(*made.client.asked_readers)) < COUNT:
                await anyio.lowlevel.checkpoint()
            assert len(made.client.asked_readers) < 5


class CountedTemplates(TemplateLibrary):
    """Counts how often the templates of a workspace are asked for."""

    asked = 0

    async def folder_of(self, document: TextDocument) -> WorkspaceFolder | None:
        return self._session.folder_of(document.path)

    async def templates(self, _folder: WorkspaceFolder) -> TemplateSet:
        self.asked += 1
        return TemplateSet(TemplateIndex({}, lambda _name: None, builtin_words()), {})


async def test_a_save_has_the_callers_of_all_macros_counted_at_once() -> None:
    async with desk() as made:
        library = CountedTemplates(made.session)
        affected = AffectedUnits(made.session, made.presenter.anchors, library)
        uris = [made.open(f"templates/{number}.hip.j2", TEMPLATE) for number in range(COUNT)]
        made.client.asked_readers.clear()
        affected.saved(made.session.documents[uris[0]])
        while not library.asked:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert library.asked == 1


class HeardEditor(FakeEditor):
    """Waits for what features ask of it, without looking again and again."""

    def __init__(self) -> None:
        super().__init__(
            EditorCapabilities(hints=True, refreshes_hints=True, lenses=True, refreshes_lenses=True, server_status=True)
        )
        self.calls = self._heard_calls = HeardCalls()

    async def heard(self, *beginnings: tuple[object, ...]) -> None:
        """Wait until there has been a call that begins so, for each."""
        while not all(any(call[: len(one)] == one for call in self.calls) for one in beginnings):
            self._heard_calls.more = anyio.Event()
            await self._heard_calls.more.wait()


class HeardCalls(list[tuple[object, ...]]):
    more = anyio.Event()

    def append(self, call: tuple[object, ...]) -> None:
        super().append(call)
        self.more.set()


class SilentClient(MadeUpClient):
    """Knows who reads which file, and nothing else."""

    async def refuse(self, *_arguments: object, **_more: object) -> Any:
        raise CkwatchError("this daemon knows nothing of it")

    vocabulary = workspace = templates = template = focus = refuse


def error_at(path: str, unit: str, message: str = "'x' is undefined") -> File:
    """The state of a file with one diagnostic."""
    place = Span(path=path, start=Position(line=1, column=1), end=Position(line=1, column=3))
    one = Diagnostic(
        severity=Severity.ERROR,
        source=Source.JINJA,
        code="template/undefined",
        message=message,
        span=place,
        units=(unit,),
    )
    return File(path=path, diagnostics=(one,), generations={unit: 1})


class CountedTasks:
    """Knows how many of a session's tasks have not ended."""

    def __init__(self, group: TaskGroup) -> None:
        self.group = group
        self.running = 0

    def start_soon(self, run: Callable[..., Awaitable[object]], *arguments: object) -> None:
        self.running += 1
        self.group.start_soon(self._run, run, arguments)

    async def _run(self, run: Callable[..., Awaitable[object]], arguments: tuple[object, ...]) -> None:
        try:
            await run(*arguments)
        finally:
            self.running -= 1


LASTING_TASKS = 2
"""Number of tasks that deliver diagnostics and never end: of open files, and of others."""


class Crowd:
    """A session with all features, and a workspace of kernel files with four instances each and a template, all of them
    open and with a diagnostic."""

    def __init__(self, session: Session, editor: HeardEditor, tasks: CountedTasks, kernels: int) -> None:
        self.session = session
        self.editor = editor
        self.tasks = tasks
        self.folder = session.folders[ROOT] = WorkspaceFolder(ROOT, session.on_daemon_change)
        client = SilentClient()
        self.folder.client = cast("Client", client)
        self.take("workspace", self.workspace(busy=False))
        self.folder._set_connection(ConnectionState.READY)  # nothing is connected to here
        tasks.group.start_soon(self.folder._report_changes)  # as above
        for number in range(kernels):
            path, template = f"{ROOT}/k{number}.kernel.toml", f"{ROOT}/templates/t{number}.hip.j2"
            units = [self.unit(number, instance) for instance in range(4)]
            for one in units:
                self.take(f"unit/{one.id}", one)
            client.reading[template] = [one.id for one in units]
            tables = "".join(f'[[instance]]\nname = "i{instance}"\n' for instance in range(4))
            for name, text in ((path, f'template = "t{number}.hip.j2"\n{tables}'), (template, TEMPLATE)):
                opened = session.documents[uri_of(name)] = document(uri_of(name))
                opened.change([types.TextDocumentContentChangeWholeDocument(text)], 1)
                for listener in session.listeners:
                    listener.opened(opened)
                self.take(f"file/{name}", error_at(name, units[0].id))

    def unit(self, kernel: int, instance: int, **changes: Any) -> Unit:
        place = Position(line=2 + 2 * instance, column=7)
        return unit(
            f"i{instance}",
            id=f"k{kernel}/i{instance}@gfx942",
            kernel=f"k{kernel}",
            place=Span(path=f"{ROOT}/k{kernel}.kernel.toml", start=place, end=place),
            **changes,
        )

    def workspace(self, *, busy: bool) -> Workspace:
        return Workspace(root=str(ROOT), loaded=True, busy=busy, unit_count=0, jobs=2, compiling=0)

    def take(self, topic: str, state: Unit | File | Workspace) -> None:
        self.folder._take(Change(seq=0, topic=Topic(topic), state=state))  # what the daemon says

    async def settle(self) -> None:
        """Wait until the editor has heard of every file, and nothing is left to be reported or done."""
        await self.editor.heard(*(("publish", uri) for uri in self.session.documents))
        delivery = next(each for each in self.session.listeners if isinstance(each, DiagnosticsDelivery))
        while self.folder._changed or self.tasks.running > LASTING_TASKS or delivery._has_news.is_set():
            await anyio.lowlevel.checkpoint()


KERNEL_0, TEMPLATE_0, OUTSIDE = f"{ROOT}/k0.kernel.toml", f"{ROOT}/templates/t0.hip.j2", "/usr/shipped.hip.j2"
FIRST = "k0/i0@gfx942"


def typed(crowd: Crowd, path: str) -> None:
    start = types.Position(0, 0)
    edit = types.TextDocumentContentChangePartial(types.Range(start, start), "\n")
    crowd.session.changed(uri_of(path), 2, [edit])


EVENTS: dict[str, tuple[Callable[[Crowd], None], tuple[tuple[object, ...], ...]]] = {
    "a unit is compiled": (
        lambda crowd: crowd.take(f"unit/{FIRST}", crowd.unit(0, 0, phase="compiling", fresh=False)),
        (("notify", STATUS_METHOD), ("refresh", "hints"), ("refresh", "lenses")),
    ),
    "a file has other errors": (
        lambda crowd: crowd.take(f"file/{TEMPLATE_0}", error_at(TEMPLATE_0, FIRST, "other")),
        (("publish", uri_of(TEMPLATE_0)),),
    ),
    "a file outside has errors": (
        lambda crowd: crowd.take(f"file/{OUTSIDE}", error_at(OUTSIDE, FIRST)),
        (("publish", uri_of(OUTSIDE)), ("publish", uri_of(KERNEL_0))),
    ),
    "a template is edited": (lambda crowd: typed(crowd, TEMPLATE_0), (("publish", uri_of(TEMPLATE_0)),)),
    "a kernel file is edited": (lambda crowd: typed(crowd, KERNEL_0), (("publish", uri_of(KERNEL_0)),)),
    "the daemon is busy": (
        lambda crowd: crowd.take("workspace", crowd.workspace(busy=True)),
        (("notify", STATUS_METHOD),),
    ),
}


async def calls_of(event: str, kernels: int) -> int:
    """How many functions are called from this event until the editor has heard of it."""
    happen, heard = EVENTS[event]
    editor = HeardEditor()
    async with anyio.create_task_group() as group:
        tasks = CountedTasks(group)
        session = Session(cast("TaskGroup", tasks), lambda _path: None)
        set_up(session, VirtualFiles(), editor, types.InitializeParams(types.ClientCapabilities()))
        crowd = Crowd(session, editor, tasks, kernels)
        await crowd.settle()
        editor.calls.clear()
        found = await calls_until(lambda: happen(crowd), editor.heard(*heard))
        group.cancel_scope.cancel()
    return found


async def calls_until(happen: Callable[[], None], heard: Awaitable[None]) -> int:
    found = 0

    def count(_frame: FrameType, what: str, _argument: object) -> None:
        nonlocal found
        found += what == "call"

    sys.setprofile(count)
    try:
        happen()
        with anyio.fail_after(PATIENCE_S):
            await heard
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("event", EVENTS)
async def test_an_event_costs_the_same_with_many_documents_and_units(event: str) -> None:
    few, many = await calls_of(event, 5), await calls_of(event, 100)
    assert many < 2 * few, (few, many)
