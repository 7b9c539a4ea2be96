"""Instances that are offered because their occupancy may be higher, by what a daemon says."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from lsprotocol import types
from lsprotocol.converters import get_converter

from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError
from ckwatch.model.topics import Topic
from ckwatch.wire.analysis import OccupancyChange, OccupancySteps, ParameterChange, ResourceEstimate
from ckwatch.wire.state import Change, Unit
from ckwatch_lsp.kernel_files.adapter.cache import DaemonAnswers
from ckwatch_lsp.protocol.client_capabilities import capabilities_of
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.setup import set_up
from ckwatch_lsp.virtual_documents.store import VirtualFiles
from lsp.editing import ALL, place
from lsp.fake_editor import FakeEditor
from lsp.figures.made_up import PATH, figures, unit

URI = f"file://{PATH}"
TEXT = """\
template = "k.hip.j2"

[[instance]]
name = "64x32"
MPerBlock = 64
KPerBlock = 32  # deep
"""
STEP = "20 VGPR and 16,384 bytes of LDS fewer → 3 waves"
HALF = OccupancyChange(
    parameters=(
        ParameterChange(name="KPerBlock", before=32, after=16),
        ParameterChange(name="Clusters", before=[8, 32, 1], after=[4, 64, 1]),
    ),
    estimates=(
        ResourceEstimate(resource="VGPR", present=188, estimated=150),
        ResourceEstimate(resource="LDS", present=65536, estimated=32768),
    ),
)
SMALL = OccupancyChange(
    parameters=(ParameterChange(name="MPerBlock", before=64, after=32),),
    estimates=(ResourceEstimate(resource="LDS", present=65536, estimated=49152),),
)
DEFAULTS = "[defaults]\nClusters = [8, 32, 1]\n\n[[instance]]"
WITH_DEFAULTS = TEXT.replace("[[instance]]", DEFAULTS)
ON_NAME = '"64x32"'


class StepsClient:
    """A daemon that knows what may help."""

    def __init__(self, *changes: OccupancyChange, **fields: Any) -> None:
        values: dict[str, Any] = {"artifact_key": "a1", "waves": 3, "workgroups": 3, "changes": changes}
        self.steps = OccupancySteps(unit="k/64x32@gfx942", **(values | fields))
        self.asked: list[Unit] = []

    async def occupancy_steps(self, unit: Unit) -> OccupancySteps:
        self.asked.append(unit)
        return self.steps

    def __getattr__(self, name: str) -> Any:
        async def refuse(*_arguments: object, **_named: object) -> None:
            raise CkwatchError(f"{name} is not known")

        return refuse


async def offered(
    client: StepsClient, text: str = TEXT, what: str = ON_NAME, only: str = "refactor", **changes: Any
) -> dict[str, str]:
    """By title the text after each action that adds an instance, offered where `what` stands; `changes` to the unit."""
    async with opened(text, client, **changes) as (session, editor):
        at = types.Position(**place(text, text.index(what)))
        asked = types.CodeActionParams(
            types.TextDocumentIdentifier(URI), types.Range(at, at), types.CodeActionContext([], only=[only])
        )
        answer, _ = editor.requests[types.TEXT_DOCUMENT_CODE_ACTION]
        actions: list[types.CodeAction] = await cast("Any", answer(asked)) or []
        added = [one for one in actions if one.title.startswith("Add ")]
        assert {one.kind for one in added} <= {types.CodeActionKind.Refactor}
        return {one.title: applied(session, text, one) for one in added}


@asynccontextmanager
async def opened(text: str, client: StepsClient, **changes: Any) -> AsyncIterator[tuple[Session, FakeEditor]]:
    """A language server with an open kernel file, and a daemon that has built its instance."""
    async with anyio.create_task_group() as tasks:
        able: types.ClientCapabilities = get_converter().structure(ALL, types.ClientCapabilities)
        editor = FakeEditor(capabilities_of(able, "utf-16"))
        session = Session(tasks, lambda _path: None)
        set_up(session, VirtualFiles(), editor, types.InitializeParams(able))
        folder = session.folders[Path(PATH).parent] = WorkspaceFolder(Path(PATH).parent, session.on_daemon_change)
        folder.client = cast("Client", client)
        one = unit("64x32", **{"figures": figures(next_step=STEP), **changes})
        folder._take(Change(seq=0, topic=Topic(f"unit/{one.id}"), state=one))
        session.opened(types.TextDocumentItem(URI, "", 1, text))
        yield session, editor
        tasks.cancel_scope.cancel()


def applied(session: Session, text: str, action: types.CodeAction) -> str:
    """The text after an action, whose edit is of the document as it is."""
    assert action.edit is not None
    assert action.edit.document_changes is not None
    [change] = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    assert (change.text_document.uri, change.text_document.version) == (URI, 1)
    [edit] = change.edits
    assert isinstance(edit, types.TextEdit)
    document = TextDocument(URI, text, 1, session.capabilities.encoding)
    document.change([types.TextDocumentContentChangePartial(edit.range, edit.new_text)], 2)
    return document.text


async def test_instances_by_the_next_step_of_the_occupancy() -> None:
    client = StepsClient(SMALL, HALF)
    found = await offered(client, WITH_DEFAULTS)
    assert list(found) == [
        "Add an instance that may reach 3 waves: MPerBlock 64 → 32",
        "Add an instance that may reach 3 waves: KPerBlock 32 → 16, Clusters [8, 32, 1] → [4, 64, 1]",
    ]
    assert [one.id for one in client.asked] == ["k/64x32@gfx942"]
    small, half = found.values()
    assert small == WITH_DEFAULTS + (
        "\n# meant to reach 3 waves/SIMD: LDS 64 → 48 KiB by estimate\n"
        '[[instance]]\nname = "32x32"\nMPerBlock = 32\nKPerBlock = 32\n'
    )
    assert "# meant to reach 3 waves/SIMD: VGPR 188 → 150, LDS 64 → 32 KiB by estimate\n" in half
    assert tomllib.loads(half)["instance"][1] == {
        "name": "64x16", "MPerBlock": 64, "KPerBlock": 16, "Clusters": [4, 64, 1]
    }  # fmt: skip


async def test_workgroups_where_the_fullest_simd_holds_as_many_waves() -> None:
    [(title, text)] = (await offered(StepsClient(SMALL, waves=None, workgroups=4))).items()
    assert title == "Add an instance that may reach 4 workgroups: MPerBlock 64 → 32"
    assert "# meant to reach 4 workgroups/CU: LDS 64 → 48 KiB by estimate\n" in text


async def test_a_name_that_another_instance_has() -> None:
    [text] = (await offered(StepsClient(SMALL), f'{TEXT}\n[[instance]]\nname = "32x32"\n')).values()
    assert [one["name"] for one in tomllib.loads(text)["instance"]] == ["64x32", "32x32_2", "32x32"]


@pytest.mark.parametrize(("only", "there"), [("refactor", True), ("", True), ("refactor.rewrite", False)])
async def test_only_where_refactorings_are_asked_for(only: str, there: bool) -> None:
    assert bool(await offered(StepsClient(SMALL), only=only)) is there


@pytest.mark.parametrize(
    "changes",
    [
        {"figures": None},
        {"figures": figures(next_step="")},
        {"figures": figures(next_step=STEP, standing="stale")},
        {"instance": "other", "id": "k/other@gfx942"},
    ],
)
async def test_a_unit_that_has_no_next_step_is_not_asked_about(changes: dict[str, Any]) -> None:
    client = StepsClient(SMALL)
    assert await offered(client, **changes) == {}
    assert client.asked == []


@pytest.mark.parametrize(
    ("client", "text", "what"),
    [
        (StepsClient(), TEXT, ON_NAME),
        # of another artifact, of another text, and not at the instance's name
        (StepsClient(SMALL, artifact_key="a2"), TEXT, ON_NAME),
        (StepsClient(SMALL), TEXT.replace("MPerBlock = 64", "MPerBlock = 128"), ON_NAME),
        (StepsClient(SMALL), TEXT, "KPerBlock"),
    ],
)
async def test_what_is_not_offered(client: StepsClient, text: str, what: str) -> None:
    assert await offered(client, text, what) == {}


async def test_an_artifact_is_asked_about_once() -> None:
    client = StepsClient(SMALL)
    async with opened(TEXT, client) as (session, _):
        [folder] = session.folders.values()
        answers = DaemonAnswers(session, again_s=0.0)
        one = folder.units["k/64x32@gfx942"]
        assert await answers.occupancy_steps(folder, one, "a1") == client.steps
        answers.on_daemon_change(folder, Topics({f"unit/{one.id}"}))
        assert await answers.occupancy_steps(folder, one, "a1") == client.steps
        assert len(client.asked) == 1
        # nothing of the earlier artifact, and soon that of the present one
        client.steps = replace(client.steps, artifact_key="a2")
        assert await answers.occupancy_steps(folder, one, "a2") is None
        await anyio.wait_all_tasks_blocked()
        assert await answers.occupancy_steps(folder, one, "a2") == client.steps
        assert len(client.asked) == 2
