"""An assistant's session: the official client of the protocol, in this process, on a workspace with a compiler that is a
script."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client as Assistant
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

from benches.daemon_bench import TEMPLATE, Bench
from ckwatch.cli import main
from ckwatch.cli.mcp.answers import TOKEN_LIMIT, compact, token_count
from ckwatch.cli.mcp.budget import SessionBudget
from ckwatch.cli.mcp.server import AgentSession, make_server
from ckwatch.client import connect
from ckwatch.engine.answers import Daemon

UNIT = "k/one@gfx942"


class Working:
    """An assistant at work. `progress` has what it was told of a tool's work."""

    def __init__(self, assistant: Assistant, daemon: Daemon) -> None:
        self.assistant, self.daemon = assistant, daemon
        self.progress: list[str] = []

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        async def hear(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(message or "")

        result = await self.assistant.call_tool(tool, arguments, progress_callback=hear)
        assert isinstance(result, CallToolResult)
        return result

    async def lines(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.content
        answer = result.structured_content
        assert answer is not None
        assert token_count(text_of(result)) <= TOKEN_LIMIT
        assert json.loads(text_of(result)) == compact(answer)
        lines: list[dict[str, Any]] = answer["lines"]
        return lines

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.call(tool, **arguments)
        assert result.is_error
        return text_of(result)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@asynccontextmanager
async def working(
    bench: Bench, *, budget: SessionBudget | None = None, allow_changes: bool = False
) -> AsyncIterator[Working]:
    daemons: list[Daemon] = []

    @asynccontextmanager
    async def opened(_root: Path) -> AsyncIterator[Daemon]:
        async with bench.open() as daemon:
            daemons.append(daemon)
            yield daemon

    async with connect(bench.root, private=True, open_engine=opened) as client:
        session = AgentSession(client, budget or SessionBudget(9, 9, 600.0), allow_changes=allow_changes)
        async with Assistant(make_server(session)) as assistant:
            yield Working(assistant, daemons[0])
        await session.edits.close()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_answers_are_the_command_lines(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole, but for the times and what is empty."""
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        f"build {UNIT}": ("build", {"patterns": [UNIT]}),
        "check": ("check", {}),
        "best k": ("rank", {"kernel": "k", "by": "measured"}),
    }

    async def answers() -> dict[str, list[dict[str, Any]]]:
        async with working(bench) as at_work:
            return {command: await at_work.lines(tool, **arguments) for command, (tool, arguments) in calls.items()}

    for command, lines in anyio.run(answers).items():
        capsys.readouterr()
        main([*command.split(), "--json", "-C", str(bench.root)], connected=bench.connected)
        printed = [compact(json.loads(line)) for line in capsys.readouterr().out.splitlines()]
        assert _timeless(lines) == _timeless(line for line in printed if line.get("event") != "start"), command


def _timeless(lines: Any) -> list[dict[str, Any]]:
    dropped = {"seconds", "schema", "from_store", "state", "cause"}  # what is done once is not done again
    found = [{name: value for name, value in line.items() if name not in dropped} for line in lines]
    return sorted(found, key=lambda line: json.dumps(line, sort_keys=True))


async def test_ten_tools_that_say_what_they_take(bench: Bench) -> None:
    async with working(bench) as at_work:
        tools = (await at_work.assistant.list_tools()).tools
        assert len(tools) == 10
        for tool in tools:
            assert tool.description
            assert tool.input_schema["properties"]
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None
        prompts = {prompt.name for prompt in (await at_work.assistant.list_prompts()).prompts}
        assert prompts == {"make_this_kernel_faster", "bring_this_kernel_in"}


async def test_an_edit_is_seen_by_every_tool_and_not_written(bench: Bench) -> None:
    path = bench.root / "k.kernel.toml"
    before = path.read_text()
    async with working(bench) as at_work:
        edit, summary, *_ = await at_work.lines(
            "edit", path="k.kernel.toml", replacements=[{"old": 'name = "one"', "text": 'name = "uno"'}]
        )
        assert edit["unsaved"] == [str(path)]
        assert '+name = "uno"' in edit["changes"]
        assert summary["failed"] == 0
        (listed,) = await at_work.lines("workspace", patterns=["k/uno"])
        assert [unit["instance"] for unit in listed["units"]] == ["uno"]
        assert "--allow-changes" in await at_work.refused("edit", path="k.kernel.toml", then="save")
        await at_work.lines("edit", path="k.kernel.toml", then="discard")
        assert "uno" in await at_work.refused("workspace", patterns=["k/uno"])
        assert "has no edit" in await at_work.refused("edit", path="k.kernel.toml", then="discard")
    assert path.read_text() == before


async def test_an_edit_is_written_where_that_is_allowed(bench: Bench) -> None:
    path = bench.root / "templates/k.hip.j2"
    async with working(bench, allow_changes=True) as at_work:
        await at_work.daemon.requests.editor("vim", shows=False)
        await at_work.daemon.requests.overlay("vim", str(path), TEMPLATE + "// typed\n")
        edited = {"path": "templates/k.hip.j2", "text": TEMPLATE + "// assistant\n", "then": "save"}
        assert "unsaved changes" in await at_work.refused("edit", **edited)
        await at_work.daemon.requests.overlay("vim", str(path), None)
        await at_work.lines("edit", **edited)
    assert path.read_text() == TEMPLATE + "// assistant\n"


async def test_what_an_editor_has_not_saved_is_seen(bench: Bench) -> None:
    path = str(bench.root / "k.kernel.toml")
    async with working(bench) as at_work:
        await at_work.daemon.requests.editor("vim", shows=False)
        text = (bench.root / "k.kernel.toml").read_text().replace('"one"', '"typed"')
        await at_work.daemon.requests.overlay("vim", path, text)
        (listed,) = await at_work.lines("workspace", patterns=["k/typed"])
        assert [unit["instance"] for unit in listed["units"]] == ["typed"]
        await at_work.daemon.requests.overlay("vim", path, None)
        assert "typed" in await at_work.refused("workspace", patterns=["k/typed"])


MISTAKES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("build", {"patterns": ["--force"]}, "--force"),
    ("build", {"patterns": ["none*"]}, "none"),
    ("inspect", {"unit": "k*"}, "k"),
    ("rank", {"kernel": "k"}, "--shape"),
    ("explain", {}, "give `unit` or `code`"),
    ("explain", {"code": "rule/none"}, "no page explains"),
    ("edit", {"path": "../outside", "text": ""}, "not in the workspace"),
    ("edit", {"path": "/etc/passwd", "text": ""}, "not in the workspace"),
    ("edit", {"path": ".", "text": ""}, "not in the workspace"),
    ("edit", {"path": "templates", "text": ""}, "is a folder"),
    ("edit", {"path": "a\0b", "text": ""}, "no file can be called"),
    ("edit", {"path": "k.kernel.toml", "then": "discard"}, "has no edit"),
    ("check", {"more": "7:/lines@0"}, "no answer has more"),
    ("check", {"patterns": "k"}, "valid list"),
    (
        "edit",
        {"path": "reference.py", "text": "1\n"},
        "reference.py is not a template: compilers and references read it",
    ),
    ("tune", {"kernel": "k", "minutes": 0}, "tune: minutes: input should be greater than 0"),
    ("tune", {"kernel": "k"}, "tune: minutes is missing"),
    (
        "verify",
        {"pattern": ["k"]},
        "there is no argument pattern. did you mean patterns? It takes patterns, shapes, against, more",
    ),
    ("build", {"patterns": "k"}, "build: patterns: input should be a valid list"),
    (
        "edit",
        {"path": "k.hip.j2", "replacements": [{"new": "x"}]},
        "replacements.0.new: extra inputs are not permitted",
    ),
    ("verify", {"against": "k/one"}, "`against` judges one unit, on shapes that are drawn"),
)


async def test_a_mistake_is_an_answer(bench: Bench) -> None:
    async with working(bench) as at_work:
        for tool, arguments, message in MISTAKES:
            assert message in await at_work.refused(tool, **arguments), arguments


async def test_links_out_of_the_workspace_are_not_followed(bench: Bench) -> None:
    (bench.root / "link").symlink_to(bench.folder)
    async with working(bench, allow_changes=True) as at_work:
        assert "not in the workspace" in await at_work.refused("edit", path="link/include/h.h", text="", then="save")


async def test_a_budget_ends(bench: Bench) -> None:
    async with working(bench, budget=SessionBudget(1, 0, 600.0)) as at_work:
        assert "2 compiles needed, 1 left" in await at_work.refused("build", patterns=["k"])
        await at_work.lines("build", patterns=["k/one"])
        assert "1 compile needed, 0 left" in await at_work.refused("build", patterns=["k/two"])
        assert "1 verification needed, 0 left" in await at_work.refused("verify", patterns=["k/one"])
        judging = {"patterns": ["k/one"], "against": "k/two"}
        assert "1 compile needed, 0 left" in await at_work.refused("verify", **judging)
    async with working(bench, budget=SessionBudget(1, 1, 0.0)) as at_work:
        assert "time is used up" in await at_work.refused("check")


async def test_progress_and_cancellation(bench: Bench) -> None:
    async with working(bench) as at_work:
        await at_work.lines("build")
        assert sorted(at_work.progress) == [f"{UNIT}: built", "k/two@gfx942: built"]
        bench.will("slow")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: at_work.call("build", patterns=[f"{UNIT}"], more=None))
            bench.write("templates/k.hip.j2", TEMPLATE + "int more;\n")
            tasks.cancel_scope.cancel()
        bench.will("slow", now=False)
        assert await at_work.lines("check")


async def test_resources(bench: Bench) -> None:
    async with working(bench) as at_work:
        for uri, text in {
            "ckwatch://docs": "ckwatch://docs/verifying",
            "ckwatch://docs/rules": "# Instance rules",
            "ckwatch://docs/verifying": "# ",
            "ckwatch://schema/build": "BuiltUnit",
            f"ckwatch://source/{UNIT}": "int tile = 1;",
        }.items():
            found = (await at_work.assistant.read_resource(uri)).contents[0]
            assert text in getattr(found, "text", "")
        for uri in (
            "ckwatch://docs/..%2FREADME",
            "ckwatch://docs/none",
            "ckwatch://schema/lsp",
            "ckwatch://source/none",
        ):
            with pytest.raises(Exception, match=r"there is no|not the id|Unknown resource"):
                await at_work.assistant.read_resource(uri)


async def test_the_command_speaks_on_standard_input_and_output(small: Path, daemons: Path) -> None:
    environment = {**os.environ, "CKWATCH_NO_DAEMON": "1"}
    command = ["-m", "ckwatch", "mcp", "-C", str(small), "--trust"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with Assistant(stdio_client(server)) as assistant:
        found = await assistant.call_tool("check", {"patterns": ["k"]})
    assert isinstance(found, CallToolResult)
    assert found.structured_content is not None
    assert found.structured_content["lines"][0]["checked"] == 1


def test_without_the_sdk_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ckwatch.cli.mcp import command

    options = argparse.Namespace(dependencies={"find_spec": lambda _name: None})
    with pytest.raises(Exception, match="package mcp"):
        anyio.run(command.run, options)
