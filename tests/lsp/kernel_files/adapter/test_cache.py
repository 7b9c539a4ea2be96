"""Kernel files without a wire: what is kept of the daemon's answers, and what is offered from measured instances."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from lsprotocol import types

from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range, Span
from ckwatch.wire.benchmarks import RankedTiming
from ckwatch.wire.language import ParameterValue, TemplateDetail, TemplateName, Vocabulary
from ckwatch_lsp.kernel_files.adapter.cache import VALUES_KEPT, DaemonAnswers, ParsedKernelFiles, subject_of
from ckwatch_lsp.kernel_files.adapter.code_actions import KernelFileActions
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from fakes.fake_benchmarks import timing_of
from fakes.fake_engine import unit_of

PATH = "/w/k.kernel.toml"
URI = f"file://{PATH}"
TEXT = """\
template = "k.hip.j2"

[defaults]
Tile = 1

[[instance]]
name = "one"
Other = 2

[[instance]]
name = "two"
Tile = 4
Other = 3
"""


class FakeClient:
    """Answers at once, or when `gate` is opened; `asked` holds the calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.gate: anyio.Event | None = None
        self.fault: CkwatchError | None = None
        self.names = ["k.hip.j2"]
        self.ranking: list[RankedTiming] = []

    async def _ask(self, *call: Any) -> None:
        self.asked.append(call)
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault

    async def vocabulary(self) -> Vocabulary:
        await self._ask("vocabulary")
        return Vocabulary(hooks=(), filters=(), tests=(), globals=(), tags=(), kernel_file=(), settings=())

    async def templates(self) -> list[TemplateName]:
        await self._ask("templates")
        return [TemplateName(name=name, path=f"/w/templates/{name}") for name in self.names]

    async def template(self, name: str) -> TemplateDetail:
        await self._ask("template", name)
        return TemplateDetail(name=name, path=f"/w/templates/{name}", files={})

    async def values(self, unit: str, parameter: str, *, parameters: dict[str, Any]) -> list[ParameterValue]:
        await self._ask("values", unit, parameter, parameters)
        return [ParameterValue(value=1, accepted=True)]

    async def best(self, kernel: str) -> list[RankedTiming]:
        await self._ask("best", kernel)
        return self.ranking

    async def unit(self, unit: str) -> Any:
        await self._ask("unit", unit)
        return SimpleNamespace(parameters={"Tile": 4, "Other": 3})


class FakeFolder:
    """Fits what is used of a folder."""

    def __init__(self) -> None:
        self.ready = self.client = FakeClient()
        place = replace(unit_of().place, path=PATH)
        timed = (timing_of("k/two@gfx942"),)
        self.units = {
            f"k/{name}@gfx942": unit_of(f"k/{name}@gfx942", place=place, timings=timed if name == "two" else ())
            for name in ("one", "two")
        }

        self.told: list[Diagnostic] = []

    def diagnostics(self, path: str) -> list[Diagnostic]:
        return self.told if path == PATH else []

    def units_at(self, path: str) -> list[Any]:
        return [unit for unit in self.units.values() if unit.place.path == path]


@asynccontextmanager
async def session(folder: Any) -> AsyncIterator[Session]:
    """A session with one folder; what it starts ends with it."""
    async with anyio.create_task_group() as tasks:
        made = Session(tasks, lambda _path: None)
        made.capabilities = EditorCapabilities(versioned_edits=True)
        made.folders[Path("/w")] = folder
        yield made
        tasks.cancel_scope.cancel()


def parsed(folder: Any) -> ParsedKernelFiles:
    active: Any = SimpleNamespace(unit=lambda _document: folder.units["k/one@gfx942"])
    return ParsedKernelFiles(active)


def document(text: str = TEXT) -> TextDocument:
    return TextDocument(URI, text, 7, types.PositionEncodingKind.Utf16)


async def test_an_answer_is_kept_and_asked_for_again_when_there_is_news() -> None:
    folder: Any = FakeFolder()
    async with session(folder) as made:
        answers = DaemonAnswers(made, again_s=0.0)
        assert await answers.templates(folder) == {"k.hip.j2": "/w/templates/k.hip.j2"}
        await answers.templates(folder)
        assert folder.client.asked == [("templates",)]
        answers.on_daemon_change(folder, Topics({"file//w/x"}))
        await answers.templates(folder)
        assert folder.client.asked == [("templates",)]
        folder.client.names.append("new.hip.j2")
        answers.on_daemon_change(folder, Topics({"unit/k/one@gfx942"}))
        # the old one at once, and soon the new one
        assert len(await answers.templates(folder)) == 1
        await anyio.wait_all_tasks_blocked()
        assert len(await answers.templates(folder)) == 2
        assert folder.client.asked == [("templates",)] * 2


async def test_what_many_ask_for_is_asked_once() -> None:
    folder: Any = FakeFolder()
    folder.client.gate = anyio.Event()
    async with session(folder) as made, anyio.create_task_group() as tasks:
        answers = DaemonAnswers(made)
        for _ in range(3):
            tasks.start_soon(answers.keys, folder, DocumentKind.KERNEL_FILE)
        await anyio.wait_all_tasks_blocked()
        folder.client.gate.set()
    assert folder.client.asked == [("vocabulary",)]


async def test_without_a_daemon_there_is_nothing_and_later_there_is() -> None:
    folder: Any = FakeFolder()
    folder.client.fault = CkwatchError("gone")
    async with session(folder) as made:
        answers = DaemonAnswers(made)
        assert await answers.template(folder, "k.hip.j2") is None
        assert await answers.templates(folder) == {}
        assert (await answers.keys(folder, DocumentKind.SETTINGS)).headers({}) == []
        unit = folder.units["k/one@gfx942"]
        assert await answers.values(folder, unit, "Tile", {}, wait_s=5) == ((), False)
        folder.client.fault = None
        assert await answers.template(folder, "k.hip.j2") is not None
        assert (await answers.values(folder, unit, "Tile", {}, wait_s=5))[1]


async def test_values_come_when_they_are_there() -> None:
    folder: Any = FakeFolder()
    folder.client.gate = anyio.Event()
    unit = folder.units["k/one@gfx942"]
    async with session(folder) as made:
        answers = DaemonAnswers(made)
        assert await answers.values(folder, unit, "Tile", {"Other": 2}, wait_s=0) == ((), False)
        folder.client.gate.set()
        await anyio.wait_all_tasks_blocked()
        values, whole = await answers.values(folder, unit, "Tile", {"Other": 2}, wait_s=0)
        assert (len(values), whole) == (1, True)
        assert len(folder.client.asked) == 1
        # other parameters, other values
        assert (await answers.values(folder, unit, "Tile", {"Other": 3}, wait_s=5))[1]
        assert folder.client.asked[-1] == ("values", "k/one@gfx942", "Tile", {"Other": 3})
        for number in range(VALUES_KEPT + 10):
            await answers.values(folder, unit, "Tile", {"Other": number}, wait_s=5)
        assert len(answers._values) <= VALUES_KEPT
        answers.on_daemon_change(folder, Topics({"connection"}))
        assert len(answers._values) == 0


async def titles(text: str, within: Position, folder: Any, only: str = "refactor.rewrite") -> dict[str, Any]:
    async with session(folder) as made:
        actions = KernelFileActions(made, parsed(folder), DaemonAnswers(made))
        context = types.CodeActionContext(diagnostics=[], only=[only])
        opened = made.documents[URI] = document(text)
        return {one.title: one for one in await actions.actions(opened, Range(within, within), context)}


def text_after(text: str, action: types.CodeAction) -> str:
    assert action.edit is not None
    assert action.edit.document_changes is not None
    [change] = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document.version == 7
    made = document(text)
    edits = [edit for edit in change.edits if isinstance(edit, types.TextEdit)]
    for edit in sorted(edits, key=lambda one: (one.range.start.line, one.range.start.character), reverse=True):
        made.change([types.TextDocumentContentChangePartial(range=edit.range, text=edit.new_text)], 8)
    return made.text


BEST = RankedTiming(unit="k/two@gfx942", instance="two", shape="big", rank=1, timing=timing_of("k/two@gfx942"))


async def test_the_best_measured_instance_is_offered() -> None:
    folder: Any = FakeFolder()
    folder.client.ranking = [BEST]
    found = await titles(TEXT, Position(5, 3), folder)
    title = "Apply the parameters of two (10 µs on big)"
    assert title in found
    instances = tomllib.loads(text_after(TEXT, found[title]))["instance"]
    assert instances[0] == {"name": "one", "Other": 3, "Tile": 4}
    # not for itself, not on a parameter, and not where nothing was measured
    assert title not in await titles(TEXT, Position(9, 3), folder)
    assert title not in await titles(TEXT, Position(7, 3), folder)
    folder.client.ranking = []
    assert title not in await titles(TEXT, Position(5, 3), folder)
    folder.client.fault = CkwatchError("gone")
    assert list(await titles(TEXT, Position(5, 3), folder)) == ["Turn one into a sweep"]


async def test_a_refused_default_is_set_for_the_instance_in_which_it_is_refused() -> None:
    """Others may be content with it."""
    text = TEXT + '\n[[instance]]\nname = "three"\n'
    folder: Any = FakeFolder()
    unit = folder.units["k/one@gfx942"]
    folder.units["k/three@gfx942"] = replace(unit, id="k/three@gfx942", instance="three")
    start, end = Position(line=3, column=7), Position(line=3, column=8)
    folder.told.append(
        Diagnostic(
            severity=Severity.ERROR, source=Source.RULE, code="rule/x", message="", span=Span(path=PATH, start=start, end=end),
            units=("k/three@gfx942",), unit_count=3,
        )
    )  # fmt: skip
    reach = types.Range(types.Position(3, 7), types.Position(3, 8))
    shown = types.Diagnostic(reach, "1 is refused", code="rule/x")
    async with session(folder) as made:
        actions = KernelFileActions(made, parsed(folder), DaemonAnswers(made))
        context = types.CodeActionContext(diagnostics=[shown], only=["quickfix"])
        at = Position(3, 7)
        made.documents[URI] = document(text)
        [action] = await actions.actions(made.documents[URI], Range(at, at), context)
    assert (action.title, action.is_preferred, action.diagnostics) == ("Set Tile to 1", True, [shown])
    assert folder.client.asked == [("values", "k/three@gfx942", "Tile", {"Tile": 1})]
    assert tomllib.loads(text_after(text, action))["instance"][2] == {"name": "three", "Tile": 1}


@pytest.mark.parametrize(
    ("only", "found"),
    [("refactor", True), ("", True), ("refactor.rewrite", True), ("refactor.extract", False), ("quickfix", False)],
)
async def test_only_what_is_asked_for(only: str, found: bool) -> None:
    assert ("Turn one into a sweep" in await titles(TEXT, Position(5, 3), FakeFolder(), only)) is found


@pytest.mark.parametrize(
    ("line", "parameter", "name"),
    [(7, "Other", "one"), (3, "Tile", "one"), (3, "Other", None), (0, "New", "one"), (11, "Tile", "two")],
)
async def test_whose_parameter_it_is(line: int, parameter: str, name: str | None) -> None:
    file = await parsed(FakeFolder()).of(document())
    found = subject_of(file, Position(line, 0), parameter)
    assert (None if found is None else found.name) == name
