"""The server: tools that are commands of the command line, resources and prompts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from ckwatch.cli.command_words import KERNEL_END
from ckwatch.cli.mcp.answers import Answer, AnswerBook
from ckwatch.cli.mcp.budget import SessionBudget
from ckwatch.cli.mcp.commands import Line, run_command
from ckwatch.cli.mcp.documents import add_documents
from ckwatch.cli.mcp.edits import Edits, Replacement
from ckwatch.cli.mcp.exact_tool import exact_tool
from ckwatch.client import Client
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.version import __version__
from ckwatch.workspace.discovery import FILE_NAME

INSTRUCTIONS = """\
ckwatch checks, compiles, verifies and profiles GPU kernels of AMD's Composable Kernel and HIP, written as Jinja
templates with kernel files (NAME.kernel.toml). A unit is KERNEL/INSTANCE@ARCH. Go from cheap to dear: `workspace`,
`edit` (seen by all tools, not written to disk), `check` (milliseconds), `build` (seconds to a minute for each unit that
is new), `verify` (right or wrong, on an emulator), `profile` and `inspect` (what it costs, without a GPU), `rank`.
A prediction or a count is no measurement. Answers are cut to some 1,500 tokens; `cut` says how to read on."""

Patterns = Annotated[
    list[str],
    Field(description="KERNEL, KERNEL/INSTANCE or KERNEL/INSTANCE@ARCH, with * and ?, or paths; none means all"),
]
Unit = Annotated[str, Field(description="KERNEL/INSTANCE@ARCH, or enough of it to name one unit")]
Kernel = Annotated[str, Field(description="a kernel's name")]
Shape = Annotated[str | None, Field(description="a shape's name in the kernel file, or sizes: M=64,N=64,K=128")]
More = Annotated[str | None, Field(description="`more` of a part that an earlier answer has cut; the rest is ignored")]

Reply = Annotated[CallToolResult, Answer]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
EDITS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
WORKS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


class AgentSession:
    """The limits of one assistant in a workspace, and what it has asked so far."""

    def __init__(self, client: Client, budget: SessionBudget, *, allow_changes: bool) -> None:
        self.client = client
        self.budget = budget
        self.book = AnswerBook()
        self.edits = Edits(client, allow_changes=allow_changes)

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[None]:
        """Take the editors' texts over, and turn mistakes into answers of a tool; its time counts."""
        begun = time.monotonic()
        try:
            self.budget.require()
            await self.edits.follow_editors()
            yield
        except CkwatchError as error:
            raise ToolError(f"{error.message}. {error.hint}" if error.hint else error.message) from None
        finally:
            self.budget.spend(seconds=time.monotonic() - begun)

    async def run(
        self,
        context: Context,
        more: str | None,
        *commands: tuple[str, Sequence[str], Sequence[str]],
        first: Sequence[Line] = (),
    ) -> Reply:
        """The lines `first` and the answer of commands (name, options, words), or what an earlier one has left out."""
        async with self.asked():
            if more is not None:
                return _reply(self.book.more(more))
            status, lines = 0, [*first]
            for name, options, words in commands:
                try:
                    ran = await self._reported(context, name, options, words)
                except CkwatchError as error:
                    if not lines:
                        raise
                    lines.append({"note": f"{name}: {error.message}"})
                else:
                    status, lines = max(status, ran[0]), [*lines, *ran[1]]
            return _reply(self.book.answer(status, lines))

    async def edited(
        self, name: str, replacements: Sequence[Replacement], text: str | None, then: str
    ) -> tuple[Line, Sequence[str] | None]:
        """Edit, save or drop, as asked; a line about it, and the words of the check that follows, if any does."""
        path = await self.edits.path_of(name)
        if then == "keep" and not await self._is_rendered(path):
            raise CkwatchError(
                f"{path} is not a template: compilers and references read it from disk, without this session's edits",
                '`then="save"` writes it, where `ckwatch mcp --allow-changes` permits that',
            )
        changes = "" if text is None and not replacements else await self.edits.apply(name, text, replacements)
        if then == "discard":
            await self.edits.discard(path)
        if then == "save":
            await self.edits.save(path)
        line = {"event": "edit", "path": path, "changes": changes, "unsaved": self.edits.unsaved()}
        await self.client.sync()
        if Path(path).name == FILE_NAME:
            return line, ()
        if path.endswith(KERNEL_END) and then != "discard":
            return line, (path,)
        return line, await self.client.readers(path) or None

    async def _is_rendered(self, path: str) -> bool:
        """Return whether the daemon takes the text of a file from this session."""
        if path.endswith((KERNEL_END, ".j2", FILE_NAME)):
            return True
        readers = await self.client.readers(path)
        return bool(readers) and path in (await self.client.unit(readers[0])).reads

    async def _reported(
        self, context: Context, name: str, options: Sequence[str], words: Sequence[str]
    ) -> tuple[int, Sequence[Line]]:
        """Run a command within the budget, with its progress as notifications."""
        judges = name == "judge"
        await self._afford("verify" if judges else name, (*words, options[1]) if judges else words)
        send, receive = anyio.create_memory_object_stream[Line](1000)

        def hear(line: Line) -> None:
            if send.statistics().current_buffer_used < 1000:
                send.send_nowait(line)

        async with plain_errors(), anyio.create_task_group() as tasks, send:
            tasks.start_soon(_report, context, receive)
            ran = await run_command(self.client, name, options, words, hear)
            send.close()
        compiled = sum(name == "build" and _was_compiled(line) for line in ran.lines)
        executed = sum(name == "verify" and line.get("event") == "unit" and not line["known"] for line in ran.lines)
        executed += 2 if judges else 0
        self.budget.spend(compiles=compiled, verifications=executed)
        return ran.status, ran.lines

    async def _afford(self, name: str, words: Sequence[str]) -> None:
        if name not in ("build", "verify"):
            return
        await self.client.sync()
        planned = await self.client.plan(*words)
        compiles = sum(one.step == "compile" for one in planned)
        self.budget.require(compiles=compiles, verifications=len(planned) if name == "verify" else 0)


def _was_compiled(line: Line) -> bool:
    return line.get("event") == "unit" and line["outcome"] in ("built", "failed") and not line["from_store"]


async def _report(context: Context, lines: anyio.abc.ObjectReceiveStream[Line]) -> None:
    total, done = 0, 0
    async with lines:
        async for line in lines:
            event = line.get("event")
            if event == "start":
                total = line["units"] if isinstance(line.get("units"), int) else len(line.get("units", ()))
            elif event == "unit":
                done += 1
                await context.report_progress(done, total or None, f"{line['unit']}: {line['outcome']}")
            elif event in ("stage", "result") and line.get("text"):
                await context.report_progress(done, total or None, f"{line['unit']}: {line['text']}")


class Tools:
    """The tools of a session."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    async def workspace(self, context: Context, patterns: Patterns = [], more: More = None) -> Reply:  # noqa: B006
        """List units with their state: what was built, what has errors, figures and timings (`ckwatch list`)."""
        return await self._session.run(context, more, ("list", (), patterns))

    async def check(self, context: Context, patterns: Patterns = [], more: More = None) -> Reply:  # noqa: B006
        """Render units and report every mistake that shows without a compiler, with fixes as edits (`ckwatch check`).

        Takes milliseconds. Lines and columns count from zero; `fixes` are what `edit` takes as replacements.
        """
        return await self._session.run(context, more, ("check", (), patterns))

    async def build(self, context: Context, patterns: Patterns = [], more: More = None) -> Reply:  # noqa: B006
        """Compile units; unchanged ones come from the store (`ckwatch build`). Errors are at lines of the template."""
        return await self._session.run(context, more, ("build", (), patterns))

    async def verify(
        self,
        context: Context,
        patterns: Patterns = [],  # noqa: B006
        shapes: Annotated[list[str], Field(description="only these shapes: names, or sizes (M=64,N=64,K=128)")] = [],  # noqa: B006
        against: Annotated[
            str | None, Field(description="judge the one unit of `patterns` by this one, which it would replace")
        ] = None,
        more: More = None,
    ) -> Reply:
        """Build units and find out if they are right, on an emulator with every access checked (`ckwatch verify`).

        No GPU is needed. Exit status 3: right as far as is known, but compared with no reference. With `against`: right
        on inputs drawn now, faster, and no cheat (`ckwatch judge`); exit status 0 accepted, 1 refused, 2 not judged.
        """
        if against is not None and more is None:
            if len(patterns) != 1 or shapes:
                raise ToolError("`against` judges one unit, on shapes that are drawn: one pattern, and no shapes")
            return await self._session.run(context, more, ("judge", ("--against", against), patterns))
        options = [word for shape in shapes for word in ("--shape", shape)]
        return await self._session.run(context, more, ("verify", options, patterns))

    async def profile(
        self,
        context: Context,
        unit: Unit,
        shape: Shape = None,
        against: Annotated[str | None, Field(description="another unit, `previous` or `baseline`")] = None,
        more: More = None,
    ) -> Reply:
        """Count on an emulator where the work of a built unit goes, line by line: issues, lanes, cache lines per
        request, LDS conflicts, and what is clearly lost (`ckwatch profile`). Counts are exact; cycles are estimates."""
        options = [*_given("--shape", shape), *_given("--against", against)]
        return await self._session.run(context, more, ("profile", options, (unit,)))

    async def inspect(
        self,
        context: Context,
        unit: Unit,
        isa: Annotated[bool, Field(description="the instructions instead, with source lines")] = False,
        against: Annotated[
            str | None, Field(description="also this unit, and which of both was measured faster; or `previous`")
        ] = None,
        more: More = None,
    ) -> Reply:
        """Show a built unit's registers, spills, LDS, occupancy, main loop, bounds and predicted times, and what
        changed since its last build (`ckwatch inspect`, `ckwatch compare`)."""
        commands: list[tuple[str, Sequence[str], Sequence[str]]] = [("inspect", ("--isa",) if isa else (), (unit,))]
        if against is not None:
            named = against.partition(":")[0] in ("previous", "library", "baseline")
            commands += [] if named else [("inspect", (), (against,))]
            commands.append(("compare", (), (unit, against)))
        return await self._session.run(context, more, *commands)

    async def rank(
        self,
        context: Context,
        kernel: Kernel,
        shape: Shape = None,
        by: Annotated[Literal["predicted", "measured"], Field(description="predictions need a shape")] = "predicted",
        more: More = None,
    ) -> Reply:
        """Rank the built instances of a kernel: by predicted time without a GPU (`ckwatch rank`), or by measured time
        (`ckwatch best`)."""
        name = "rank" if by == "predicted" else "best"
        return await self._session.run(context, more, (name, _given("--shape", shape), (kernel,)))

    async def tune(
        self,
        context: Context,
        kernel: Kernel,
        minutes: Annotated[float, Field(gt=0, le=240, description="end after this time")],
        measurements: Annotated[int, Field(gt=0, description="end after so many measurements")] = 50,
        shapes: Annotated[list[str], Field(description="for these shapes; none means all")] = [],  # noqa: B006
        more: More = None,
    ) -> Reply:
        """Search the fastest instance of a kernel for each shape, on a device (`ckwatch tune`). Needs a GPU."""
        seconds = min(minutes * 60, self._session.budget.seconds)
        options = ["--budget", f"{max(seconds, 1):.0f}s", "--measurements", str(measurements)]
        options += [word for shape in shapes for word in ("--shape", shape)]
        return await self._session.run(context, more, ("tune", options, (kernel,)))

    async def explain(
        self,
        context: Context,
        unit: Annotated[str | None, Field(description="what a unit depends on, and why it is in its state")] = None,
        code: Annotated[str | None, Field(description="a diagnostic's code, such as rule/m-per-block")] = None,
        more: More = None,
    ) -> Reply:
        """Explain a diagnostic or an instance rule, with the place in Composable Kernel's headers that demands it; or a
        unit (`ckwatch explain`)."""
        if more is None and (unit is None) is (code is None):
            raise ToolError("give `unit` or `code`")
        return await self._session.run(context, more, ("explain", (), (code or unit or "",)))

    async def edit(
        self,
        context: Context,
        path: Annotated[str, Field(description="a file of the workspace; relative paths start there")],
        replacements: Annotated[list[Replacement], Field(description="changes of the text as it is now")] = [],  # noqa: B006
        text: Annotated[str | None, Field(description="the whole text instead; for a new file")] = None,
        then: Annotated[
            Literal["keep", "save", "discard"],
            Field(description="keep it in this session; write it to disk, where that is allowed; drop it"),
        ] = "keep",
        more: More = None,
    ) -> Reply:
        """Change a file as all tools see it, without writing to disk, and check the units that read it. `then` alone
        saves or drops earlier changes of the file."""
        if more is not None:
            return await self._session.run(context, more)
        async with self._session.asked():
            line, words = await self._session.edited(path, replacements, text, then)
        return await self._session.run(context, None, *([] if words is None else [("check", (), words)]), first=[line])


def make_server(session: AgentSession) -> MCPServer:
    """A server for one assistant."""
    tools = Tools(session)
    reading: tuple[Callable[..., Any], ...] = (tools.workspace, tools.check, tools.inspect, tools.rank, tools.explain)
    working: tuple[Callable[..., Any], ...] = (tools.build, tools.verify, tools.profile, tools.tune)
    kinds = ((READS, reading), (WORKS, working), (EDITS, (tools.edit,)))
    exact = [exact_tool(tool, hints) for hints, of_a_kind in kinds for tool in of_a_kind]
    server: MCPServer = MCPServer(
        "ckwatch", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR", tools=exact
    )
    add_documents(server, session.client)
    return server


def _reply(answer: Answer) -> CallToolResult:
    """The answer as data, and as text for assistants that read no data."""
    text = TextContent(type="text", text=answer.text())
    return CallToolResult(content=[text], structured_content=answer.model_dump())


def _given(option: str, value: str | None) -> list[str]:
    return [] if value is None else [f"{option}={value}"]


async def serve(client: Client, budget: SessionBudget, *, allow_changes: bool) -> None:
    """Serve one assistant on standard input and output, until it leaves."""
    session = AgentSession(client, budget, allow_changes=allow_changes)
    try:
        await make_server(session).run_stdio_async()
    finally:
        with anyio.CancelScope(shield=True):
            await session.edits.close()
