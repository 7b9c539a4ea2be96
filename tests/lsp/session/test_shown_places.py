"""A place that another client of the daemon asks for: a real language server and daemon, an editor that can or cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.client import Client, connect
from ckwatch.client.events import BriefChange
from ckwatch.model import topics
from ckwatch.wire.state import ShownPlace, Workspace
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.shown_places import ShownPlaces
from ckwatch_lsp.session.topics import Topics
from fakes.patience import PATIENCE_S
from helpers.workspaces import gemm_kernel
from lsp.editing import capabilities, editor, lasting
from lsp.fake_editor import FakeEditor

TEMPLATE = "// nothing\n/* é😀 */ int tile = {{ Tile }};\n"
SHOW = "window/showDocument"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A trusted workspace in which nothing is built; its daemon outlives a test."""
    root = tmp_path_factory.mktemp("shown")
    (root / "ckwatch.toml").write_text("")
    (root / "k.kernel.toml").write_text(gemm_kernel("k.cpp.j2", {"one": {"Tile": 1}}))
    (root / "k.cpp.j2").write_text(TEMPLATE)
    with lasting(root):
        yield root


async def until_editors(page: Client, count: int) -> None:
    """Wait until the daemon has so many editors that show places."""
    with anyio.fail_after(PATIENCE_S):
        async with page.events() as changes:
            async for change in changes:
                if isinstance(change.state, Workspace) and change.state.editors == count:
                    return


def shown(path: Path, line: int, character: int) -> dict[str, Any]:
    position = {"line": line, "character": character}
    return {"uri": path.as_uri(), "takeFocus": True, "selection": {"start": position, "end": position}}


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 13), ("utf-16", 10), ("utf-32", 9)])
async def test_an_editor_shows_it_where_it_is(root: Path, tmp_path: Path, encoding: str, character: int) -> None:
    header, template = tmp_path / "ä b.hpp", root / "k.cpp.j2"
    header.write_text("int a;\n")
    able = capabilities(general__positionEncodings=[encoding])
    async with editor(root, able=able) as made, connect(root) as page:
        await made.open(root / "k.kernel.toml")
        await until_editors(page, 1)
        expected = []
        for path, place, seen in (
            ("k.cpp.j2", (1, 9), shown(template, 1, character)),
            (header, (7, 3), shown(header, 1, 0)),  # beyond the end of the text is its end
            ("k.cpp.j2", (1, 9), shown(template, 1, character)),
        ):
            assert await page.show(path, *place) == 1
            expected.append(seen)
            await made.until(lambda: len(made.all(SHOW)) == len(expected))
        assert made.all(SHOW) == expected
        await made.open(template, "// unsaved\n\n/* é😀 */ int tile;\n")
        assert await page.show(template, 2, 9) == 1
        await made.heard_of(SHOW, lambda params: params == shown(template, 2, character))


async def test_who_comes_later_or_again_is_not_shown_it(root: Path) -> None:
    async with connect(root) as page:
        async with editor(root) as made:
            await made.open(root / "k.kernel.toml")
            await until_editors(page, 1)
            assert await page.show("k.cpp.j2", 0) == 1
            await made.heard_of(SHOW)
            async with editor(root) as other:
                await other.open(root / "k.kernel.toml")
                await until_editors(page, 2)
                assert await page.show("k.cpp.j2", 1) == 2
                await other.heard_of(SHOW)
                await made.until(lambda: len(made.all(SHOW)) == 2)
                assert other.all(SHOW) == [shown(root / "k.cpp.j2", 1, 0)]
            await until_editors(page, 1)
            await made.command("ckwatch.restartDaemon")
            await until_editors(page, 1)
            assert await page.show("k.cpp.j2", 0) == 1
            await made.until(lambda: len(made.all(SHOW)) == 3)
        await until_editors(page, 0)
        assert await page.show("k.cpp.j2", 0) == 0


async def test_an_editor_that_cannot_is_not_counted(root: Path) -> None:
    async with editor(root, able=capabilities(window__showDocument=None)) as made, connect(root) as page:
        await made.open(root / "k.kernel.toml")
        await made.heard_of("ckwatch/unitsChanged")  # it follows the daemon
        assert await page.show("k.cpp.j2", 0) == 0
        await made.command("ckwatch.showLog")
        assert made.all(SHOW) == []


async def test_of_several_places_at_a_time_the_last_is_shown(root: Path) -> None:
    made = FakeEditor()
    async with anyio.create_task_group() as tasks:
        session = Session(tasks, lambda _path: None)
        session.editor = made
        listener = ShownPlaces(session)
        folder = WorkspaceFolder(root, listener.on_daemon_change)
        for line in range(3):
            folder._take(BriefChange(line, topics.SHOW, ShownPlace(path=str(root / "k.cpp.j2"), line=line, column=0)))
            if line:
                listener.on_daemon_change(folder, Topics({"show"}))
        folder._take(BriefChange(4, topics.SHOW))
        listener.on_daemon_change(folder, Topics({"show"}))
    assert [(call[0], call[3].start.line) for call in made.calls] == [("show_document", 2)]  # type: ignore[attr-defined]
