"""One clangd: what it is told in which order, what it answers, and its end. A stand-in says what clangd would."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.cpp.clangd import TEXTS_KEPT, Clangd, ClangdEndedError, MemoryText, OvertakenError
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch.system.processes import ProcessStartError
from fakes.clangd_stand_in import ClangdStandIn
from fakes.patience import PATIENCE_S

HOVER = "textDocument/hover"
AT = {"position": {"line": 0, "character": 0}}


@pytest.fixture
def stand_in(tmp_path: Path) -> ClangdStandIn:
    return ClangdStandIn(tmp_path / "clangd")


def lent(text: str = "one two\n", path: str = "/lent/k.cpp", *arguments: str, generation: int = 0) -> MemoryText:
    return MemoryText(path, text, ("clang++", *arguments), Path("/"), generation)


@asynccontextmanager
async def running(stand_in: ClangdStandIn) -> AsyncIterator[Clangd]:
    clangd = await Clangd.start(stand_in.path, dict(os.environ), stand_in.folder, settings=stand_in.folder / "settings")
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clangd.run)
            await clangd.initialize()
            yield clangd
            tasks.cancel_scope.cancel()
    assert stand_in.alive == []


async def hover(clangd: Clangd, text: MemoryText, character: int = 0) -> str:
    found = await clangd.ask(text, HOVER, {"position": {"line": 0, "character": character}})
    return str(found["contents"]["value"])


async def test_a_text_is_told_before_it_is_asked_about(stand_in: ClangdStandIn) -> None:
    async with running(stand_in) as clangd:
        assert clangd.token_types == ["variable"]
        assert await hover(clangd, lent()) == "Type: `one`"
        assert await hover(clangd, lent("three\n")) == "Type: `three`"
        assert await hover(clangd, lent("three\n")) == "Type: `three`"
        assert await hover(clangd, lent("three\n", "/lent/k.cpp", "-DX")) == "Type: `three`"
        assert await hover(clangd, lent("three\n", "/lent/k.cpp", "-DX", generation=1)) == "Type: `three`"
    told = [one["method"].rpartition("/")[2] for one in stand_in.received if one["method"] != HOVER]
    configure, changed = "didChangeConfiguration", "didChange"
    assert told == ["initialize", "initialized", configure, "didOpen", changed, configure, changed, changed]
    versions = [one["params"]["textDocument"]["version"] for one in stand_in.of("textDocument/didChange")]
    assert versions == [1, 2, 3]
    [_, command] = stand_in.of("workspace/didChangeConfiguration")
    [given] = command["params"]["settings"]["compilationDatabaseChanges"].values()
    assert given == {"workingDirectory": "/", "compilationCommand": ["clang++", "-DX", "/lent/k.cpp"]}


async def test_texts_that_were_not_asked_about_for_long_are_closed(stand_in: ClangdStandIn) -> None:
    async with running(stand_in) as clangd:
        for number in range(TEXTS_KEPT):
            await hover(clangd, lent(path=f"/lent/{number}.cpp"))
        await hover(clangd, lent(path="/lent/0.cpp"))
        await hover(clangd, lent(path="/lent/new.cpp"))
        closed = [one["params"]["textDocument"]["uri"] for one in stand_in.of("textDocument/didClose")]
        assert closed == ["file:///lent/1.cpp"]
        assert await hover(clangd, lent(path="/lent/1.cpp")) == "Type: `one`"


async def test_answers_out_of_order(stand_in: ClangdStandIn) -> None:
    stand_in.will("later", HOVER, "once")
    found: dict[int, str] = {}
    async with running(stand_in) as clangd:

        async def ask(character: int) -> None:
            found[character] = await hover(clangd, lent(), character)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 0)
            await stand_in.got(HOVER)
            tasks.start_soon(ask, 5)
    assert list(found.items()) == [(5, "Type: `two`"), (0, "Type: `one`")]


async def test_messages_in_pieces(stand_in: ClangdStandIn) -> None:
    stand_in.will("pieces", HOVER)
    async with running(stand_in) as clangd:
        assert await hover(clangd, lent("é😀\n")) == "Type: `é`"


async def test_full_pipes(stand_in: ClangdStandIn) -> None:
    """It writes a megabyte before it reads on, while a megabyte is written to it."""
    stand_in.will("flood", "textDocument/didOpen", "1000000")
    text = "one" + " two" * 250_000 + "\n"
    async with running(stand_in) as clangd, anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(hover, clangd, lent(text, f"/lent/{number}.cpp"))
    assert [one["size"] for one in stand_in.of(HOVER)] == [len(text)] * 4


async def test_refusals(stand_in: ClangdStandIn) -> None:
    async with running(stand_in) as clangd:
        stand_in.will("refuse", HOVER, "-32801")
        with pytest.raises(OvertakenError):
            await hover(clangd, lent())
        stand_in.will("refuse", HOVER, "-32001")
        with pytest.raises(CkwatchError, match="cannot textDocument/hover"):
            await hover(clangd, lent())
        stand_in.will_not("refuse")
        assert await hover(clangd, lent()) == "Type: `one`"


async def test_what_is_given_up_is_cancelled(stand_in: ClangdStandIn) -> None:
    stand_in.will("hang", HOVER)
    async with running(stand_in) as clangd:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hover, clangd, lent())
            await stand_in.got(HOVER)
            tasks.cancel_scope.cancel()
        await stand_in.got("$/cancelRequest")
        assert stand_in.of("$/cancelRequest")[0]["params"]["id"] == stand_in.of(HOVER)[0]["id"]


async def test_who_asks_the_same_shares_the_answer_and_the_last_one_gives_it_up(stand_in: ClangdStandIn) -> None:
    stand_in.will("hang", HOVER)
    async with running(stand_in) as clangd:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hover, clangd, lent())
            await stand_in.got(HOVER)
            with anyio.move_on_after(0.01):
                await hover(clangd, lent())
            tasks.start_soon(hover, clangd, lent(), 5)
            tasks.start_soon(hover, clangd, lent("three\n"))
            await stand_in.got(HOVER, 3)
            assert stand_in.of("$/cancelRequest") == []
            tasks.cancel_scope.cancel()
        await stand_in.got("$/cancelRequest", 3)
        assert len(stand_in.of(HOVER)) == 3
        stand_in.will_not("hang")
        answers: list[str] = []

        async def ask() -> None:
            answers.append(await hover(clangd, lent()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        assert answers == ["Type: `one`"] * 2
        assert len(stand_in.of(HOVER)) == 4


async def test_giving_up_does_not_wait_for_one_that_does_not_read(stand_in: ClangdStandIn) -> None:
    stand_in.will("deaf", "textDocument/didOpen")
    async with running(stand_in) as clangd:
        for number in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hover, clangd, lent("x" * 1_000_000, f"/lent/{number}.cpp"))
                await stand_in.got("textDocument/didOpen")
                tasks.cancel_scope.cancel()
        assert clangd.unread_length >= 2_000_000


@pytest.mark.parametrize(
    ("order", "how"),
    [("crash", "was ended by SIGSEGV"), ("exit", "ended with status 3")],
)
async def test_its_end_is_that_of_all_questions(order: str, how: str, stand_in: ClangdStandIn) -> None:
    stand_in.will("hang", HOVER)
    stand_in.will(order, "textDocument/documentSymbol")
    ends: list[str] = []
    async with running(stand_in) as clangd:

        async def ask(method: str) -> None:
            with pytest.raises(ClangdEndedError) as ended:
                await clangd.ask(lent(), method, AT)
            ends.append(ended.value.message)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, HOVER)
            await stand_in.got(HOVER)
            tasks.start_soon(ask, "textDocument/documentSymbol")
        assert ends == [f"clangd {how}"] * 2
        with pytest.raises(ClangdEndedError):
            await hover(clangd, lent())


@pytest.mark.parametrize(
    "garbage",
    [
        "no message at all" * 1000,
        "X: y\\r\\n\\r\\n",
        "Content-Length: many\\r\\n\\r\\n",
        "Content-Length: -1\\r\\n\\r\\n",
        "Content-Length: 99999999999\\r\\n\\r\\n",
        "Content-Length: 3\\r\\n\\r\\n{]}",
        "Content-Length: 2\\r\\n\\r\\n[]",
        "Content-Length: 4\\r\\n\\r\\nnull",
        f"Content-Length: 100000\\r\\n\\r\\n{'[' * 100000}",
        'Content-Length: 51\\r\\n\\r\\n{"method":"textDocument/inactiveRegions","params":1}',
        'Content-Length: 39\\r\\n\\r\\n{"id":1,"method":"workspace/applyEdit" }',
    ],
)
async def test_what_is_no_message_is_its_end(garbage: str, stand_in: ClangdStandIn) -> None:
    stand_in.will("garbage", HOVER, garbage)
    stand_in.will("hang", HOVER)
    async with running(stand_in) as clangd:
        with pytest.raises(ClangdEndedError, match="clangd wrote something other than a message"):
            await hover(clangd, lent())


async def test_half_a_message_at_its_end(stand_in: ClangdStandIn) -> None:
    stand_in.will("garbage", HOVER, "Content-Length: 100\\r\\n\\r\\n{")
    stand_in.will("exit", "textDocument/documentSymbol")
    stand_in.will("hang", HOVER)
    async with running(stand_in) as clangd, anyio.create_task_group() as tasks:

        async def ask(method: str) -> None:
            with pytest.raises(ClangdEndedError, match="ended with status 3"):
                await clangd.ask(lent(), method, AT)

        tasks.start_soon(ask, HOVER)
        tasks.start_soon(ask, "textDocument/documentSymbol")


@pytest.mark.parametrize("answer", [None, {}, {"capabilities": []}, []])
async def test_one_that_does_not_say_what_it_can_do(answer: object, stand_in: ClangdStandIn) -> None:
    stand_in.answers("initialize", answer)
    with pytest.RaisesGroup(pytest.RaisesExc(CkwatchError, match="does not say what it can do")):
        async with running(stand_in):
            pass


async def test_one_that_cannot_be_started(stand_in: ClangdStandIn) -> None:
    settings = stand_in.folder / "settings"
    with pytest.raises(ProcessStartError):
        await Clangd.start(stand_in.folder / "none", {}, stand_in.folder, settings=settings)
    with pytest.raises(CkwatchError, match="clangd's settings cannot be written"):
        await Clangd.start(stand_in.path, {}, stand_in.folder, settings=stand_in.path)
    assert stand_in.pids == []


def command(name: str) -> dict[str, Any]:
    return {"command": "clangd.applyTweak", "arguments": [{"changes": {name: []}}]}


async def test_edits_of_commands(stand_in: ClangdStandIn) -> None:
    async with running(stand_in) as clangd:
        assert await clangd.edits_of(lent(), command("a")) == {"changes": {"a": []}}
        stand_in.answers("workspace/executeCommand", None)
        assert await clangd.edits_of(lent(), command("b")) is None
    [reply] = [one for one in stand_in.received if one.get("id") == "edit"]
    assert reply["result"] == {"applied": True}


async def test_edits_of_a_command_that_was_given_up_are_not_the_next_ones(stand_in: ClangdStandIn) -> None:
    stand_in.will("later", "workspace/executeCommand", "once")
    async with running(stand_in) as clangd:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clangd.edits_of, lent(), command("given up"))
            await stand_in.got("workspace/executeCommand")
            tasks.cancel_scope.cancel()
        found: list[object] = []

        async def ask() -> None:
            found.append(await clangd.edits_of(lent(), command("next")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert len(stand_in.of("workspace/executeCommand")) == 1
            await hover(clangd, lent())  # the one that was kept is answered, too
    assert found == [{"changes": {"next": []}}]


async def test_what_the_preprocessor_skips(stand_in: ClangdStandIn) -> None:
    region = '[{"start":{"line":0,"character":1},"end":{"line":0,"character":3}}]'
    stand_in.will("skip", HOVER, region)
    async with running(stand_in) as clangd:
        await hover(clangd, lent())
        assert clangd.skipped == {lent().uri: [Range(Position(0, 1), Position(0, 3))]}
        for number in range(TEXTS_KEPT):
            await hover(clangd, lent(path=f"/lent/{number}.cpp"))
        assert lent().uri not in clangd.skipped
