"""C++ in a template as an editor sees it, against clangd by itself on the rendered file, while every core compiles.

Goals, the preamble warm: hover in a median of at most 100 ms and 1.3 × clangd; completion at most 1.3 × clangd; the
first answer after opening in at most 8 s, with clangd's start and the headers; from a keystroke to diagnostics as
without C++.

Ours is `ckwatch lsp` with the daemon of the GEMM example, whose template is edited. clangd by itself has the text that
it renders to, the same options, settings and command, and the same edits at the same places, found by their text. Both
are asked in turns. Compilers of the example's instance run all the while, one for each core, at the daemon's priority.

At rest a hover takes clangd less than what two more processes take to hand it on, so the factor is out of reach there
and is reported. Behind an edit clangd parses the text again, which takes it longer than 100 ms by itself; so does a
completion behind what instantiates the operation.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks import references
from benchmarks.choosing import alone, asked_runs
from benchmarks.clangd import clangd_as_the_daemon_runs_it
from benchmarks.gemm_example import ONE, Example, example_daemon, until_idle
from benchmarks.hipcc import Hipcc
from benchmarks.idle import memory_mb
from benchmarks.language_server import at, busy_cores, errors_in, until_known, whole
from benchmarks.lsp_peer import Peer, peer
from benchmarks.process_tree import below
from benchmarks.reporting import Row, row
from ckwatch.client import Client
from ckwatch.compile.toolchain.clangd import ClangdProgram, find_clangd
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import CkwatchError

MEASURED_CODE = ("daemon/ckwatch/cpp", "daemon/ckwatch/engine/queries", "lsp/ckwatch_lsp")

HOVERS = 30
"""At rest, in a run."""

EDITS = 3
"""Hovers behind an edit in a run, and as many mistakes with and without questions about C++."""

COMPLETIONS = 1
"""Of each kind in a run."""

PAUSE_S = 0.3
"""Between a question and the next edit: what clangd publishes of the last one is over."""

AGAIN_S = 0.01

LIMIT_S = 30.0

EARLY = "// a comment before the operation's type"
EDITED = "const int edited = 1"
NAMED = "Gemm::MakeArgument("
JINJA = "set unit_namespace"

HOVER, DEFINITION, COMPLETION = "textDocument/hover", "textDocument/definition", "textDocument/completion"


@dataclass(frozen=True, slots=True)
class Typed:
    """A completion: what stands in a new line `behind` a text, the character that is typed then, and the name of one
    of the proposals."""

    title: str
    behind: str
    before: str
    character: str
    proposed: str


TYPED = (
    Typed("completion, few (`…::Dev`)", EARLY, "using early = ck::tensor_operation::device::De", "v", "Device"),
    Typed("completion, many (`ck::`)", EARLY, "using early = ck:", ":", "tensor_operation"),
    Typed(
        "completion behind the operation's instantiation (`…::Dev`)",
        f"{EDITED};",
        "ck::tensor_operation::device::De",
        "v",
        "Device",
    ),
)


Ask = Callable[["Editor"], Awaitable[None]]


@dataclass
class Times:
    """Seconds by what was measured, of ours and of the reference."""

    ours: dict[str, list[float]] = field(default_factory=dict)
    reference: dict[str, list[float]] = field(default_factory=dict)
    memory_mb: list[float] = field(default_factory=list)
    clangd_mb: list[float] = field(default_factory=list)


class Editor:
    """One document in one server. Places are named by the text that stands there."""

    def __init__(self, server: Peer, path: Path, text: str) -> None:
        self.server = server
        self.text = text
        self._path = path

    async def open(self, language: str) -> None:
        """Open it."""
        await self.server.open(self._path, self.text, language)

    async def insert(self, behind: str, text: str) -> None:
        """Type something."""
        offset = self._offset(behind, len(behind))
        await self._replace(offset, offset, text)

    async def remove(self, behind: str, text: str) -> None:
        """Take it back."""
        offset = self._offset(f"{behind}{text}", len(behind))
        await self._replace(offset, offset + len(text), "")

    async def ask(self, method: str, text: str, column: int = 0, **more: Any) -> Any:
        """The answer to a request about the place so many characters behind the begin of `text`."""
        document = {"textDocument": {"uri": self._path.as_uri()}}
        position = self._position(self._offset(text, column))
        return await self.server.ask(method, {**document, "position": position, **more})

    async def about_all(self, method: str) -> Any:
        """The answer to a request about the whole text."""
        document = {"textDocument": {"uri": self._path.as_uri()}}
        return await self.server.ask(method, {**document, "range": whole(self.text)})

    async def until_told(self, method: str, text: str, column: int, told: Callable[[Any], bool], **more: Any) -> None:
        """Ask until there is an answer that `told` takes, as an editor does that is told to ask again.

        Raises CkwatchError.
        """
        found: Any = None
        with anyio.move_on_after(LIMIT_S):
            while not told(found := await self.ask(method, text, column, **more)):
                await anyio.sleep(AGAIN_S)
            return
        raise CkwatchError(f"{self._path.name}: no such answer to {method} at `{text}`; the last: {str(found)[:300]}")

    async def hover(self) -> None:
        """A name of the device operation's."""
        await self.until_told(HOVER, NAMED, 0, lambda found: bool(found) and "Gemm" in str(found["contents"]))

    async def mistake(self, where: Callable[[list[dict[str, Any]]], object], begin: int, end: int, text: str) -> float:
        """Seconds from an edit at the begin of the first line to such diagnostics."""
        return await self.server.change(
            self._path, {"range": {"start": at(0, begin), "end": at(0, end)}, "text": text}, where
        )

    async def _replace(self, start: int, end: int, text: str) -> None:
        reach = {"start": self._position(start), "end": self._position(end)}
        self.text = self.text[:start] + text + self.text[end:]
        await self.server.edit(self._path, {"range": reach, "text": text})

    def _offset(self, text: str, column: int) -> int:
        if self.text.count(text) != 1:
            raise CkwatchError(f"{self._path.name} has `{text}` {self.text.count(text)} times")
        return self.text.index(text) + column

    def _position(self, offset: int) -> dict[str, int]:
        return at(self.text.count("\n", 0, offset), offset - self.text.rfind("\n", 0, offset) - 1)


def add_places(example: Example) -> None:
    """Write the places that are edited into the example's template."""
    text = example.template_text(f"{EDITED};")
    example.template.write_text(text.replace("\nconstexpr int edition", f"\n{EARLY}\nconstexpr int edition", 1))


class Comparison:
    """Both servers, asked in turns; which one comes first alternates."""

    def __init__(self, ours: Editor, theirs: Editor, found: Times) -> None:
        self.ours = ours
        self.theirs = theirs
        self.found = found
        self._turn = 0

    async def timed(self, name: str, ask: Ask, settle: Ask | None = None) -> None:
        """Measure `ask` with both, each after `settle`, which is not measured."""
        both = [(self.ours, self.found.ours), (self.theirs, self.found.reference)]
        self._turn += 1
        for editor, times in both if self._turn % 2 else reversed(both):
            if settle is not None:
                await settle(editor)
                await anyio.sleep(PAUSE_S)
            begun_s = time.perf_counter()
            await ask(editor)
            times.setdefault(name, []).append(time.perf_counter() - begun_s)
            if "rest" not in name and "definition" not in name:
                print(
                    f"{name}: {'ckwatch' if times is self.found.ours else 'clangd'} {times[name][-1]:.3f} s", flush=True
                )

    async def at_rest(self) -> None:
        """Hovers and definitions of a text that clangd has parsed."""
        for editor in (self.ours, self.theirs):
            await editor.hover()
        await anyio.sleep(PAUSE_S)
        for _ in range(HOVERS):
            await self.timed("hover at rest", Editor.hover)
            await self.timed("definition in a header of CK", _definition)

    async def behind_edits(self) -> None:
        """Hovers at once behind an edit."""

        async def edit_and_hover(editor: Editor) -> None:
            await editor.insert(EDITED, "0")
            await editor.hover()

        async def take_back(editor: Editor) -> None:
            if f"{EDITED}0" in editor.text:
                await editor.remove(EDITED, "0")
            await editor.hover()

        for _ in range(EDITS):
            await self.timed("hover at once behind an edit", edit_and_hover, take_back)
        for editor in (self.ours, self.theirs):
            await take_back(editor)

    async def completions(self) -> None:
        """Measure the proposals behind a character."""
        for typed in TYPED * COMPLETIONS:
            await self._completion(typed)

    async def _completion(self, typed: Typed) -> None:
        line = f"\n    {typed.before}"
        context = {"triggerKind": 1} if typed.character != ":" else {"triggerKind": 2, "triggerCharacter": ":"}

        async def write(editor: Editor) -> None:
            await editor.insert(typed.behind, line)
            await editor.ask(HOVER, NAMED)

        async def complete(editor: Editor) -> None:
            await editor.insert(f"{typed.behind}{line}", typed.character)
            whole_line = f"{typed.behind}{line}{typed.character}"
            await editor.until_told(
                COMPLETION,
                whole_line,
                len(whole_line),
                lambda found: typed.proposed in str([one["label"] for one in (found or {}).get("items", ())]),
                context=context,
            )

        await self.timed(typed.title, complete, write)
        for editor in (self.ours, self.theirs):
            await editor.remove(typed.behind, line + typed.character)
            await editor.hover()

    async def while_busy(self) -> None:
        """Measure answers that are not C++ while clangd parses, against the same at rest."""
        for number in range(EDITS):
            await self._of_jinja(self.found.reference)
            digit = (EDITED, "0")
            await (self.ours.insert(*digit) if number % 2 == 0 else self.ours.remove(*digit))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.ours.hover)
                await self._of_jinja(self.found.ours)
            await anyio.sleep(PAUSE_S)

    async def _of_jinja(self, times: dict[str, list[float]]) -> None:
        begun_s = time.perf_counter()
        await self.ours.ask(HOVER, JINJA, len("set "))
        hovered_s = time.perf_counter()
        await self.ours.about_all("textDocument/inlayHint")
        times.setdefault("hover of a Jinja name while clangd parses", []).append(hovered_s - begun_s)
        times.setdefault("hints while clangd parses", []).append(time.perf_counter() - hovered_s)

    async def keystrokes(self) -> None:
        """A mistake until it is shown, while clangd is asked all the time, and while it is not. Taking it back is not
        counted: its diagnostic goes with the text, without the daemon."""
        name, mistake = "keystroke → diagnostics, clangd asked all the time", "{{ Undefined }}"
        for _ in range(EDITS):
            for asking, times in ((True, self.found.ours), (False, self.found.reference)):
                async with _asked_all_the_time(self.ours) if asking else _not_asked():
                    seconds = await self.ours.mistake(errors_in, 0, 0, mistake)
                    await self.ours.mistake(lambda told: not errors_in(told), 0, len(mistake), "")
                times.setdefault(name, []).append(seconds)
                print(f"{name}: {'asked' if asking else 'not asked'} {seconds:.3f} s", flush=True)
                await self.ours.hover()
                await anyio.sleep(PAUSE_S)


async def _definition(editor: Editor) -> None:
    await editor.until_told(DEFINITION, NAMED, len("Gemm::"), lambda found: ".hpp" in str(found))


@asynccontextmanager
async def _asked_all_the_time(editor: Editor) -> AsyncIterator[None]:
    async def ask() -> None:
        while True:
            try:
                await editor.ask(HOVER, NAMED)
            except CkwatchError:  # there is no answer about a text that does not render
                await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        yield
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _not_asked() -> AsyncIterator[None]:
    yield


async def run(program: ClangdProgram, example: Example, client: Client, found: Times, *, ours_first: bool) -> None:
    """One run, with servers of its own and a daemon that has asked no clangd yet."""
    await until_idle(client)
    text = example.template.read_text()
    rendered = (await client.rendered(example.units[0])).text
    assert rendered is not None
    hipcc = Hipcc(discover(), example.root.parent / "hipcc")
    kernel_text = example.kernel_file.read_text()
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(peer([sys.executable, "-m", "ckwatch", "lsp"], example.root))
        await ours.start(example.root, {"buildFirst": "none"})
        await ours.open(example.kernel_file, kernel_text, "ckwatch-kernel")
        await until_known(ours, example.kernel_file, kernel_text.split("\n").index("[[instance]]"))
        busy = hipcc.compile_command(hipcc.write(rendered, "kernel", "busy"), "busy")[:-1]
        await stack.enter_async_context(busy_cores(busy, hipcc.folder))
        template = Editor(ours, example.template, text)

        async def open_ours() -> None:
            begun_s = time.perf_counter()
            await template.open("ckwatch-template")
            await template.hover()
            found.ours.setdefault("first answer", []).append(time.perf_counter() - begun_s)

        async def open_theirs() -> Editor:
            begun_s = time.perf_counter()
            started = clangd_as_the_daemon_runs_it(program, hipcc, hipcc.write(rendered, "kernel"))
            clangd, path = await stack.enter_async_context(started)
            source = Editor(clangd, path, rendered)
            await source.open("cpp")
            await source.hover()
            found.reference.setdefault("first answer", []).append(time.perf_counter() - begun_s)
            return source

        if ours_first:
            await open_ours()
        source = await open_theirs()
        if not ours_first:
            await open_ours()
        comparison = Comparison(template, source, found)
        await comparison.at_rest()
        await comparison.behind_edits()
        await comparison.completions()
        await comparison.while_busy()
        await comparison.keystrokes()
        found.memory_mb.append(memory_mb(_clangd_of((await client.status()).pid))[0])
        found.clangd_mb.append(memory_mb(source.server.pid)[0])


def _clangd_of(daemon: int) -> int:
    return next(process for process, name in below(daemon).items() if name.startswith("clangd"))


async def _measured() -> Times:
    toolchain = discover()
    await references.clangd(toolchain)
    program = find_clangd(toolchain, os.environ)
    assert program is not None
    found = Times()
    for number in range(asked_runs()):
        async with example_daemon(ONE, add_places) as (example, client):
            await run(program, example, client, found, ours_first=number % 2 == 0)
        print(f"run {number + 1} of {asked_runs()}", flush=True)
    return found


GOALS: Mapping[str, tuple[str, Callable[[float, float], bool] | None]] = {
    "first answer": ("at most 8 s", lambda ms, _: ms <= 8000),
    "hover at rest": ("at most 100 ms and 1.3 ×", lambda ms, ratio: ms <= 100 and ratio <= 1.3),
    "definition in a header of CK": ("reported", None),
}


def _row(name: str, found: Times) -> Row:
    ours = [1e3 * seconds for seconds in found.ours[name]]
    reference = [1e3 * seconds for seconds in found.reference[name]]
    goal, met = GOALS.get(name, ("at most 1.3 ×", lambda _, ratio: ratio <= 1.3))
    against = "clangd by itself"
    if "while clangd parses" in name:
        goal, met, against = "under 20 ms", lambda ms, _: ms < 20, "clangd at rest"
    elif "keystroke" in name:
        goal, met, against = "at most 1.1 ×", lambda _, ratio: ratio <= 1.1, "clangd not asked"
    title = f"C++ in a template: {name}, every core compiling"
    return row(title, ours, reference, reference_name=against, unit="ms", goal=goal, met=met)


def measure() -> list[Row]:
    """A row for each kind of question, and one for memory."""
    found = anyio.run(_measured)
    rows = [_row(name, found) for name in found.ours]
    rows.append(
        row(
            "C++ in a template: memory of the daemon's clangd",
            found.memory_mb,
            found.clangd_mb,
            reference_name="clangd by itself",
            unit="MB",
            goal="reported",
        )
    )
    return rows


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
