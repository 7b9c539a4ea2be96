"""A workspace, a compiler that is a shell script, and the real daemon (without its socket) at work on them."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import anyio

from ckwatch.client import Client, connect
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.engine.bootstrap import open_engine
from ckwatch.model.topics import Topic
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.wire.state import BuildLine, Change, File, Unit, Workspace
from ckwatch.workspace.trust import trust
from fakes.fake_compiler import OBJECT, FakeToolchain, dynamic_symbols, elf
from fakes.fake_verifications import FakeEmulator
from fakes.patience import PATIENCE_S
from helpers.running_processes import runs
from helpers.workspaces import gemm_kernel

KERNEL = gemm_kernel("k.hip.j2", {"one": {"Tile": 1}, "two": {"Tile": 2}})
TEMPLATE = '{% include "macros.j2" %}\nint tile = {{ Tile }};\nint {{ KERNEL_NAME }}();\n'
MACROS = "// nothing yet\n"
PLACEHOLDER = "k_" + "x" * 12
SECONDS = PATIENCE_S

# Counts its runs and does what the files beside it ask for; a shared object exports what `exports.map` names. What the
# shell can do by itself starts no process: hundreds of compiles do nothing else.
COMPILER = """#!/bin/sh
for last; do :; done
case "$*" in
*-shared*)
    read -r map < exports.map
    name=${{map#*global: }}
    LC_ALL=C exec sed "s/{placeholder}/${{name%%;*}}/" "{folder}/so" > "$last" ;;
*)
    number=0 broken=
    while IFS= read -r line || [ -n "$line" ]; do
        number=$((number + 1))
        case $line in "int tile = "*) line=${{line#int tile = }}; tile=${{line%%;*}} ;; esac
        case $line in *BROKEN*) broken=${{broken:-$number}} ;; esac
    done < kernel.hip
    echo "$tile" >> "{folder}/runs"
    if [ -e "{folder}/slow" ]; then echo $$ >> "{folder}/pids"; sleep 1000; fi
    echo "{folder}/include/h.h" >> "$CC_PRINT_HEADERS_FILE"
    if [ -n "$broken" ]; then
        echo "$PWD/kernel.hip:$broken:1:{{$broken:1-$broken:7}}: error: BROKEN is no type [Semantic Issue]" >&2; exit 1
    fi
    cp "{folder}/object" "$last" ;;
esac
"""


@dataclass(frozen=True)
class BenchToolchain(FakeToolchain):
    """Fits what the daemon asks of a toolchain."""

    clang_version: str = "0 (fake)"
    hip_version: str = "0"
    rocm_version: str = "1.0"


class Bench:
    """The workspace in `root`; `open` starts a daemon on it. Without `make` all files are there already.

    `others` are toolchains by their folders: each has a `bin`.
    """

    def __init__(self, folder: Path, *, make: bool = True) -> None:
        self.folder = folder
        self.root = folder / "ws ü"
        self.header = folder / "include/h.h"
        self.store = folder / "store"
        self.history = folder / "history.sqlite"
        self.emulator = FakeEmulator()
        self.others: dict[Path | None, BenchToolchain] = {}
        """Toolchains that are found where their folders are named."""
        script = folder / "hipcc"
        self.toolchain = BenchToolchain(
            script, script, roots={"fake": self.header.parent}, include_folders=(self.header.parent,)
        )
        if make:
            self._make(script)

    def _make(self, script: Path) -> None:
        for path in (self.root / "templates", self.header.parent):
            path.mkdir(parents=True)
        self.header.write_text("int h;\n")
        settings = f"[store]\nfolder = {json.dumps(str(self.store))}\n[compile]\njobs = 2\n"
        self.write("ckwatch.toml", settings + '[daemon]\nbuild = "edited"\n')
        self.write("k.kernel.toml", KERNEL)
        self.write("templates/k.hip.j2", TEMPLATE)
        self.write("templates/macros.j2", MACROS)
        script.write_text(COMPILER.format(folder=self.folder, placeholder=PLACEHOLDER))
        script.chmod(0o755)
        (self.folder / "object").write_bytes(OBJECT)
        (self.folder / "so").write_bytes(elf(dynamic_symbols((PLACEHOLDER, 1, 0, 5))))

    @asynccontextmanager
    async def connected(self, _options: argparse.Namespace, start: Path) -> AsyncIterator[Client]:
        """As `ckwatch.cli.session.connected`, to a private daemon with this compiler."""
        async with connect(start, private=True, open_engine=lambda _root: self.open()) as client:
            yield client

    def write(self, name: str, text: str) -> str:
        """Save a file of the workspace as most editors do; its absolute path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + "~")
        temporary.write_text(text)
        temporary.rename(path)
        return str(path)

    @property
    def runs(self) -> list[str]:
        """The tile of each compile so far."""
        path = self.folder / "runs"
        return path.read_text().split() if path.exists() else []

    @property
    def pids(self) -> list[int]:
        """The processes of slow compiles."""
        path = self.folder / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    @property
    def alive(self) -> list[int]:
        """Slow compilers that still run."""
        return [pid for pid in self.pids if runs(pid)]

    async def started(self, count: int) -> None:
        """Return when so many slow compiles have begun."""
        with anyio.fail_after(SECONDS):
            while len(self.pids) < count:  # noqa: ASYNC110  # another process says so, in a file
                await anyio.sleep(0.01)

    def will(self, what: str, *, now: bool = True) -> None:
        """Make the compiler do `what` (`slow`), or no longer."""
        path = self.folder / what
        path.touch() if now else path.unlink()

    @asynccontextmanager
    async def open(self, launch: Launcher = run_process) -> AsyncIterator[Daemon]:
        """A daemon on the workspace, with one process that renders; `launch` starts its compilers."""
        await anyio.to_thread.run_sync(trust, self.root)
        find = cast("Callable[..., Toolchain]", lambda choice, _: self.others.get(choice.rocm, self.toolchain))
        async with open_engine(
            self.root, environment={}, launch=launch, find_toolchain=find, history=self.history, emulate=self.emulator,
            render_workers=1,
        ) as daemon:  # fmt: skip
            yield daemon


async def build(daemon: Daemon, *patterns: str, client: str = MAIN, force: bool = False) -> dict[str, BuildLine]:
    """Build and wait; the line of each unit by its instance's name."""
    found = {}
    with anyio.fail_after(SECONDS):
        async with daemon.builds.build(client, patterns or None, force=force, check_only=False) as lines:
            async for line in lines:
                if line.event == "unit" and line.id is not None:
                    found[line.id.partition("/")[2].partition("@")[0]] = line
    return found


class Follower:
    """A client's view of the daemon, kept up to date."""

    def __init__(self, daemon: Daemon, client: str = MAIN, after: int | None = None) -> None:
        self._daemon = daemon
        self._client = client
        self._after = after
        self._news = anyio.Event()
        self.units: dict[str, Unit] = {}
        self.files: dict[str, File] = {}
        self.workspace = Workspace(root="", loaded=False, busy=False, unit_count=0, jobs=0, compiling=0)
        self.seen: list[Change] = []

    async def run(self) -> None:
        """Follow until cancelled: a snapshot, unless `after` is given, then what changes."""
        after = self._after
        if after is None:
            snapshot = await self._daemon.snapshots.snapshot(self._client)
            for topic, state in snapshot.states.items():
                self._take(Change(seq=snapshot.seq, topic=Topic(topic), state=state))
            after = snapshot.seq
        while True:
            for change in await self._daemon.changes(self._client, after):
                after = change.seq
                self.seen.append(change)
                self._take(change)
            self._news.set()
            self._news = anyio.Event()

    def _take(self, change: Change) -> None:
        kind, _, name = change.topic.partition("/")
        match change.state:
            case Unit():
                self.units[name.partition("/")[2].partition("@")[0]] = change.state
            case File():
                self.files[name] = change.state
            case Workspace():
                self.workspace = change.state
            case None if kind == "unit":
                self.units.pop(name.partition("/")[2].partition("@")[0], None)

    async def until(self, holds: Callable[[Follower], bool]) -> None:
        """Return when `holds`; fails after a while."""
        with anyio.move_on_after(SECONDS) as in_time:
            while not holds(self):
                await self._news.wait()
        units = {name: (unit.phase, unit.outcome, unit.cause) for name, unit in self.units.items()}
        assert not in_time.cancelled_caught, units


@asynccontextmanager
async def following(daemon: Daemon, client: str = MAIN, *, after: int | None = None) -> AsyncIterator[Follower]:
    """Follow as `client` while the body runs; `after` a number that was given out before, if there is one."""
    follower = Follower(daemon, client, after)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run)
        yield follower
        tasks.cancel_scope.cancel()
