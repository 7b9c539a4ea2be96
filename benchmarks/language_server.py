"""The language server while every core compiles: from a keystroke to diagnostics, answers, memory; against clangd.

Goals: a mistake in a template until its diagnostics, by lint and render, in a median of under 150 ms; hover, hints,
lenses and completion with a 99th percentile under 20 ms in a workspace of 5,000 units; under 120 MB of memory. clangd
has a C++ file of as many lines, without any include, and answers the same kinds of request in the same run, each in its
turn. Compilers run all the while, one for each core, as the daemon runs them, on a file of the standard library's.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks import references
from benchmarks.choosing import alone, asked_runs
from benchmarks.idle import memory_mb
from benchmarks.large_workspace import LargeWorkspace, large_workspace
from benchmarks.lsp_peer import Peer, peer
from benchmarks.quick_daemon import INSIDE, apart, daemon_of
from benchmarks.reporting import Row, row
from ckwatch.client import connect
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.system.async_processes import run_process
from ckwatch.wire.state import Workspace
from ckwatch.workspace.settings import CompileSection

ROUNDS = 250
"""Of each kind of request in a run."""

EDITS = 12
"""Keystrokes in a run, half of which make a mistake."""

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


@dataclass
class Times:
    """Seconds of both servers, by what was asked."""

    ours: dict[str, list[float]] = field(default_factory=dict)
    clangd: dict[str, list[float]] = field(default_factory=dict)
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
        await stack.enter_async_context(busy_cores(command, folder))
        await keystrokes(ours, template, found.ours, "{{ Undefined }}", (0, 0))
        await keystrokes(theirs, cpp, found.clangd, "undefined ", (0, 0))
        asked: Sequence[tuple[str, str, dict[str, Any], dict[str, Any]]] = (
            ("hover", "hover", {"position": at(instance_line, 4)}, {"position": at(0, 6)}),
            ("hints", "inlayHint", {"range": whole(kernel_text)}, {"range": whole(text)}),
            ("lenses, against clangd's symbols", "codeLens", {}, {}),
            ("completion", "completion", {"position": at(instance_line + 2, 0)}, {"position": at(1, 0)}),
        )
        for _ in range(ROUNDS):
            for name, method, mine, other in asked:
                document = {"textDocument": {"uri": kernel_file.as_uri()}}
                seconds = await ours.timed(f"textDocument/{method}", document | mine)
                found.ours.setdefault(name, []).append(seconds)
                method = "documentSymbol" if method == "codeLens" else method
                seconds = await theirs.timed(f"textDocument/{method}", {"textDocument": {"uri": cpp.as_uri()}} | other)
                found.clangd.setdefault(name, []).append(seconds)
        found.memory_mb.append(memory_mb(ours.pid)[0])
        found.clangd_mb.append(memory_mb(theirs.pid)[0])


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


async def keystrokes(
    server: Peer, path: Path, found: dict[str, list[float]], mistake: str, place: tuple[int, int]
) -> None:
    """Write a mistake, wait until it is shown, take it back, wait until it is not."""
    start, end = at(*place), at(place[0], place[1] + len(mistake))
    for _ in range(EDITS // 2):
        edit = {"range": {"start": start, "end": start}, "text": mistake}
        found.setdefault("keystroke", []).append(await server.change(path, edit, errors_in))
        edit = {"range": {"start": start, "end": end}, "text": ""}
        found["keystroke"].append(await server.change(path, edit, lambda told: not errors_in(told)))


def errors_in(diagnostics: list[dict[str, Any]]) -> bool:
    """Whether there is an error."""
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
    """Six rows."""
    found = anyio.run(_measured)
    rows = [
        row(
            "a keystroke in a template → lint and render diagnostics, every core compiling",
            [1e3 * seconds for seconds in found.ours.pop("keystroke")],
            [1e3 * seconds for seconds in found.clangd.pop("keystroke")],
            reference_name="clangd on a C++ file of as many lines",
            unit="ms",
            goal="median under 150 ms",
            met=lambda ms, _ratio: ms < 150,
        )
    ]
    rows += [
        row(
            f"{name}, 99th percentile of {len(times)}, every core compiling",
            [1e3 * percentile_99(times)],
            [1e3 * percentile_99(found.clangd[name])],
            reference_name="clangd",
            unit="ms",
            goal="under 20 ms",
            met=lambda ms, _ratio: ms < 20,
        )
        for name, times in found.ours.items()
    ]
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
