"""The language server against clangd, with every core busy: from a keystroke to diagnostics, answers, memory.

Goals: a mistake typed in a template until its diagnostic, which the daemon's lint or render gives, in a median of at
most 50 ms and 0.8 times what clangd takes; hover, hints, lenses and completion with a 99th percentile under 20 ms in a
workspace of 5,000 units, and hover under 10 ms while all of them are rendered again; under 120 MB of memory.

clangd has a C++ file of as many lines, without any include, and the same kinds of mistakes and requests in the same
run, each in its turn. A diagnostic counts when it was published of the very version that the edit has led to. Both
servers are at rest before each edit, so that neither still waits for further edits. Compilers run meanwhile, one for
each core, as the daemon runs them, on a file of the standard library's; while units are rendered it is the daemon that
keeps the cores busy.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks import references
from benchmarks.choosing import alone, asked_runs
from benchmarks.idle import memory_mb
from benchmarks.large_workspace import UNITS, LargeWorkspace, large_workspace, save
from benchmarks.lsp_peer import Diagnostics, Peer, peer
from benchmarks.quick_daemon import INSIDE, apart, daemon_of
from benchmarks.reporting import Row, row
from ckwatch.client import Client, connect
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import run_process
from ckwatch.wire.state import Workspace
from ckwatch.workspace.settings import CompileSection

ROUNDS = 250
"""Of each kind of request in a run."""

EDITS = 6
"""Mistakes of each kind in a run, each typed and taken back."""

REST_S = 0.8
"""Seconds in which a server has sent nothing before it gets an edit: clangd parses 50 to 500 ms after the last one."""

RENDERING_S = 30.0
"""Seconds after which the last hover is asked while units are rendered again, if they still are."""

STATUS_S = 2.0
"""How often the daemon is asked whether it is done: an answer counts all units."""

HOVER_PAUSE_S = 0.02
"""Between two hovers of the same server meanwhile: as someone who moves the mouse, not as another load."""

BUSY = """
#include <regex>
#include <map>
#include <algorithm>
#include <functional>
std::map<std::string, std::function<bool(std::smatch)>> all;
bool look(const std::string& text) {
    std::regex pattern("a+(b|c)*");
    std::smatch found;
    return std::regex_search(text, found, pattern) && all[found.str()](found);
}
"""


@dataclass(frozen=True)
class Mistake:
    """The same kind of mistake in both languages, in a line of its own. `{number}` makes each different. `codes` are
    those of the diagnostics, ours and clangd's."""

    kind: str
    template: str
    cpp: str
    codes: tuple[str, str]


MISTAKES = (
    Mistake(
        "an undeclared name, found by render",
        "{{{{ Missing{number} }}}}\n",
        "missing{number} other{number};\n",
        ("template/undefined", "unknown_typename"),
    ),
    Mistake(
        "a syntax error, found by lint",
        "{{% endmacro {number} %}}\n",
        "int wrong{number} = (;\n",
        ("template/syntax", "expected_expression"),
    ),
)

TAKEN_BACK = "a mistake taken back, which needs no daemon"
"""The diagnostic stands in text that is not there any more."""

PLACES = (0, 3)
"""Lines before which mistakes are typed, in turns."""


@dataclass
class Times:
    """Times of both servers, by what was asked: seconds of keystrokes; 99th percentiles, one for each run, of
    answers."""

    keystrokes: dict[str, list[float]] = field(default_factory=dict)
    clangd_keystrokes: dict[str, list[float]] = field(default_factory=dict)
    answers: dict[str, list[float]] = field(default_factory=dict)
    clangd_answers: dict[str, list[float]] = field(default_factory=dict)
    memory_mb: list[float] = field(default_factory=list)
    clangd_mb: list[float] = field(default_factory=list)


@asynccontextmanager
async def busy_cores(command: Sequence[str], folder: Path) -> AsyncIterator[None]:
    """A compiler on each core, one after the other, at the priority that the daemon gives them. The name of the output
    is put behind `command`."""

    async def compile_again_and_again(number: int) -> None:
        while True:
            finished = await run_process(
                [*command, str(folder / f"busy{number}.o")],
                environment=dict(os.environ),
                folder=folder,
                nice=CompileSection().nice,
                grace_s=0,
            )
            if finished.exit_status != 0:
                raise RuntimeError("the compiler that keeps a core busy has failed")

    async with anyio.create_task_group() as tasks:
        for number in range(os.cpu_count() or 1):
            tasks.start_soon(compile_again_and_again, number)
        yield
        tasks.cancel_scope.cancel()


def cpp_text(lines: int) -> str:
    """A C++ file of so many lines."""
    functions = "".join(
        f"int function_{number}(int value) {{ return value + {number}; }}\n" for number in range(max(lines - 3, 1))
    )
    return f"{functions}int last(int value) {{\n    return function_0(value);\n}}\n"


def at(line: int, column: int) -> dict[str, int]:
    """A position."""
    return {"line": line, "character": column}


async def run(large: LargeWorkspace, toolchain: Toolchain, clangd: Path, found: Times) -> None:
    """One run: both servers are started, warmed, and asked in turns."""
    template, kernel_file = large.template(7), large.kernel_file(7)
    template_text, kernel_text = template.read_text(), kernel_file.read_text()
    instance_line = kernel_text.split("\n").index("[[instance]]")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ckwatch-lsp-")))
        cpp, text = folder / "same.cpp", cpp_text(len(template_text.split("\n")))
        cpp.write_text(text)
        await stack.enter_async_context(daemon_of(large.root))
        ours = await stack.enter_async_context(peer([sys.executable, "-m", "ckwatch", "lsp"], large.root))
        options = ["--background-index=false", "--clang-tidy=false", "--log=error"]
        theirs = await stack.enter_async_context(peer([str(clangd), *options], folder))
        await ours.start(large.root, {"buildFirst": "none"})
        await theirs.start(folder)
        await ours.open(template, template_text, "ckwatch-template")
        await ours.open(kernel_file, kernel_text, "ckwatch-kernel")
        await theirs.open(cpp, text, "cpp")
        await theirs.published(cpp, lambda _found: True)
        await until_known(ours, kernel_file, instance_line)
        await until_at_rest(large.root)
        (folder / "busy.cpp").write_text(BUSY)
        command = [str(toolchain.clangxx), "-O2", "-c", str(folder / "busy.cpp"), "-o"]
        asked: Sequence[Request] = (
            Request("hover", "hover", {"position": at(instance_line, 4)}, {"position": at(0, 6)}),
            Request("hints", "inlayHint", {"range": whole(kernel_text)}, {"range": whole(text)}),
            Request("lenses, against clangd's symbols", "codeLens", {}, {}, "documentSymbol"),
            Request("completion", "completion", {"position": at(instance_line + 2, 0)}, {"position": at(1, 0)}),
        )
        both = Both(ours, theirs, {"uri": kernel_file.as_uri()}, {"uri": cpp.as_uri()})
        async with busy_cores(command, folder):
            await keystrokes((ours, template), (theirs, cpp), found)
            times = Answers()
            for _ in range(ROUNDS):
                for request in asked:
                    await both.time(request, f"{request.name}, every core compiling", times)
            times.into(found)
        found.memory_mb.append(memory_mb(ours.pid)[0])
        found.clangd_mb.append(memory_mb(theirs.pid)[0])
        await while_rendering(large, both, asked[0], found)


@dataclass(frozen=True)
class Request:
    """One kind of request, with the rest of its parameters, ours and clangd's. `method` follows `textDocument/`."""

    name: str
    method: str
    ours: Mapping[str, Any]
    clangd: Mapping[str, Any]
    clangd_method: str = ""


@dataclass
class Answers:
    """Seconds of a run's answers, by name, of both servers."""

    ours: dict[str, list[float]] = field(default_factory=dict)
    clangd: dict[str, list[float]] = field(default_factory=dict)

    def into(self, found: Times) -> None:
        """Add the 99th percentiles."""
        for name, times in self.ours.items():
            found.answers.setdefault(name, []).append(percentile_99(times))
            found.clangd_answers.setdefault(name, []).append(percentile_99(self.clangd[name]))


@dataclass(frozen=True)
class Both:
    """Both servers, and the document of each that is asked about."""

    ours: Peer
    clangd: Peer
    document: Mapping[str, str]
    clangd_document: Mapping[str, str]

    async def time(self, request: Request, name: str, times: Answers) -> None:
        """Ask both, one after the other."""
        params = {"textDocument": self.document, **request.ours}
        times.ours.setdefault(name, []).append(await self.ours.timed(f"textDocument/{request.method}", params))
        method = request.clangd_method or request.method
        params = {"textDocument": self.clangd_document, **request.clangd}
        times.clangd.setdefault(name, []).append(await self.clangd.timed(f"textDocument/{method}", params))


async def while_rendering(large: LargeWorkspace, both: Both, hover: Request, found: Times) -> None:
    """Save the file that all templates include, and ask for hovers until all units are rendered."""
    text = large.common.read_text()
    times, name = Answers(), f"hover, while {UNITS} units are rendered"
    async with connect(large.root, start=False) as client:
        try:
            save(large.common, f"constexpr int shared = {time.time_ns() % 1_000_000_000};\n")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_at_rest, client, tasks.cancel_scope)
                with anyio.move_on_after(RENDERING_S):
                    while True:
                        await both.time(hover, name, times)
                        await anyio.sleep(HOVER_PAUSE_S)
                tasks.cancel_scope.cancel()
        finally:
            save(large.common, text)
    times.into(found)


async def _cancel_at_rest(client: Client, scope: anyio.CancelScope) -> None:
    began = False
    while (busy := (await client.status()).busy) or not began:
        began = began or busy
        await anyio.sleep(STATUS_S)
    scope.cancel()


async def until_known(ours: Peer, kernel_file: Path, line: int) -> None:
    """Return when the units of the file have reached the server."""
    params = {"textDocument": {"uri": kernel_file.as_uri()}, "position": at(line, 4)}
    with anyio.fail_after(120):
        while not await ours.ask("textDocument/hover", params):
            await anyio.sleep(0.1)


async def until_at_rest(root: Path) -> None:
    """Return when the daemon has rendered all units: from then on it is compilers that keep the cores busy."""
    async with connect(root, start=False) as client, client.events() as changes:
        async for change in changes:
            if isinstance(change.state, Workspace) and change.state.loaded and not change.state.busy:
                return


async def keystrokes(ours: tuple[Peer, Path], clangd: tuple[Peer, Path], found: Times) -> None:
    """Write mistakes in both, wait until each is shown, take it back, wait until it is not; who is first alternates."""
    sides = [(ours, found.keystrokes, 0), (clangd, found.clangd_keystrokes, 1)]
    for number in range(EDITS):
        line = PLACES[number % len(PLACES)]
        for mistake in MISTAKES:
            texts = (mistake.template.format(number=number), mistake.cpp.format(number=number))
            sides.reverse()
            for (server, path), times, side in sides:
                await _typed(server, path, line, "", texts[side], times, mistake.kind, mistake.codes[side])
            for (server, path), times, side in sides:
                await _typed(server, path, line, texts[side], "", times, TAKEN_BACK, mistake.codes[side])


async def _typed(
    server: Peer, path: Path, line: int, old: str, new: str, times: dict[str, list[float]], name: str, code: str
) -> None:
    """Replace `old` at the begin of a line, and wait until there is such a diagnostic; without `new` until it is
    gone."""

    def as_expected(found: Diagnostics) -> bool:
        return bool(new) == any(one.get("code") == code and one["range"]["start"]["line"] == line for one in found)

    await server.rest(REST_S)
    edit = {"range": {"start": at(line, 0), "end": at(line + old.count("\n"), 0)}, "text": new}
    times.setdefault(name, []).append(await server.change(path, edit, as_expected))
    await server.rest(REST_S)
    if not as_expected(server.shown(path)):
        raise CkwatchError(f"{path.name}: without an edit {code} came or went: {server.shown(path)}")


def errors_in(diagnostics: Diagnostics) -> bool:
    """Return True if one of them is an error."""
    return any(one.get("severity") == 1 for one in diagnostics)


def whole(text: str) -> dict[str, Any]:
    """The range of all of it."""
    return {"start": at(0, 0), "end": at(text.count("\n"), 0)}


def percentile_99(times: Sequence[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(times, n=100, method="inclusive")[98]


async def _measured() -> Times:
    toolchain = discover()
    clangd = await references.clangd(toolchain)
    large, found = large_workspace(), Times()
    with apart(**{INSIDE: "1"}):
        for _ in range(asked_runs()):
            await run(large, toolchain, clangd, found)
    return found


def measure() -> list[Row]:
    """Nine rows."""
    found = anyio.run(_measured)
    rows = [
        row(
            f"keystroke → diagnostics of that text, every core compiling: {name}",
            [1e3 * seconds for seconds in times],
            [1e3 * seconds for seconds in found.clangd_keystrokes[name]],
            reference_name="clangd on a C++ file of as many lines",
            unit="ms",
            goal="reported" if name == TAKEN_BACK else "at most 50 ms and 0.8 ×",
            met=None if name == TAKEN_BACK else lambda ms, ratio: ms <= 50 and ratio <= 0.8,
        )
        for name, times in found.keystrokes.items()
    ]
    for name, times in found.answers.items():
        limit_ms = 10 if "rendered" in name else 20
        rows.append(
            row(
                f"{name}: 99th percentile of a run",
                [1e3 * seconds for seconds in times],
                [1e3 * seconds for seconds in found.clangd_answers[name]],
                reference_name="clangd",
                unit="ms",
                goal=f"under {limit_ms} ms",
                met=lambda ms, _ratio, limit_ms=limit_ms: ms < limit_ms,  # type: ignore[misc]
            )
        )
    rows.append(
        row(
            "memory of the language server, 5,000 units",
            found.memory_mb,
            found.clangd_mb,
            reference_name="clangd with one file",
            unit="MB",
            goal="under 120 MB",
            met=lambda mb, _ratio: mb < 120,
        )
    )
    return rows


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
