"""A workspace of 1,000 templates, 1,000 kernel files and 5,000 units, all built, for the benchmarks of the daemon.

Building it takes a minute or two. So it is kept in the temporary folder, and made anew when what makes it has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import anyio

from benchmarks.quick_compiler import HEADERS, PROGRAM, QuickCompiler
from benchmarks.saving import save as save
from ckwatch.core import events
from ckwatch.core.state import State
from ckwatch.engine.answers import Daemon
from ckwatch.engine.bootstrap import open_engine
from ckwatch.engine.loop import EngineLoop
from ckwatch.server.daemon import SWITCH_S
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.workspace.trust import trust

TEMPLATES = 1000
INSTANCES = 5
UNITS = TEMPLATES * INSTANCES
MACROS = 20
OTHERS = 8000
DIFFERENT = 5000
"""Files in which the branches `MAIN` and `OTHER` differ: all templates, all kernel files, and some of the others."""

MAIN, OTHER = "main", "other"

_TEMPLATE = """\
{{% import "macros/m{macro:02}.j2" as tile %}}
{{% include "macros/common.j2" %}}
constexpr int number = {number};
constexpr int edited = 0;
constexpr int per_block = {{{{ tile.checked(MPerBlock) }}}} * {{{{ NPerBlock }}}};
extern "C" PT_EXPORT int {{{{ KERNEL_NAME }}}}(const void* a, const void* b, void* c)
{{
    {{% for step in range(4) %}}
    static_assert(per_block % {{{{ KPerBlock }}}} == 0, "step {{{{ step }}}}");
    {{% endfor %}}
    return number + edited + shared;
}}
"""

_MACRO = """\
{{% macro checked(value) %}}({{{{ value }}}} /* {number} */){{% endmacro %}}
"""

_COMMON = "constexpr int shared = 0;\n"

_KERNEL = """\
template = "t{number:04}.hip.j2"
[operation]
kind = "gemm"
a = {{ dtype = "f16", layout = "row" }}
b = {{ dtype = "f16", layout = "col" }}
c = {{ dtype = "f16", layout = "row" }}
[defaults]
NPerBlock = 128
KPerBlock = 32
"""

_SETTINGS = """\
[verify]
automatic = "off"  # what stands in for artifacts cannot be executed
"""

_INSTANCE = """\
[[instance]]
name = "tile_{size}"
MPerBlock = {size}
"""


class LargeWorkspace:
    """Files under `folder`: `root` is the workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.history = folder / "history.sqlite"
        self.compiler = QuickCompiler(folder / "compiler")

    def make(self) -> None:
        """Write all files; nothing is built."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.compiler.make()
        for name in ("templates/macros", "kernels", "data"):
            (self.root / name).mkdir(parents=True)
        store = json.dumps(str(self.folder / "store"))
        (self.root / "ckwatch.toml").write_text(f"[store]\nfolder = {store}\n{_SETTINGS}")
        for number in range(MACROS):
            (self.root / f"templates/macros/m{number:02}.j2").write_text(_MACRO.format(number=number))
        self.common.write_text(_COMMON)
        for number in range(TEMPLATES):
            self.template(number).write_text(_TEMPLATE.format(number=number, macro=number % MACROS))
            instances = "".join(_INSTANCE.format(size=32 * (size + 1)) for size in range(INSTANCES))
            self.kernel_file(number).write_text(_KERNEL.format(number=number) + instances)
        for number in range(OTHERS):
            path = self.other(number)
            path.parent.mkdir(exist_ok=True)
            path.write_text("0\n")
        self._commit()

    def _commit(self) -> None:
        """Put the files into a repository, on two branches; `MAIN` is checked out."""
        self.git("init", "--quiet", "--initial-branch", MAIN)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", MAIN)
        self.git("checkout", "--quiet", "-b", OTHER)
        for number in range(TEMPLATES):
            template, kernel_file = self.template(number), self.kernel_file(number)
            template.write_text(template.read_text().replace("number = ", f"number = {TEMPLATES} + "))
            kernel_file.write_text(f"# on the other branch\n{kernel_file.read_text()}")
        for number in range(DIFFERENT - 2 * TEMPLATES):
            self.other(number).write_text("1\n")
        self.git("commit", "--quiet", "--all", "--message", OTHER)
        self.git("checkout", "--quiet", MAIN)

    def git(self, *arguments: str) -> None:
        """Run git on the workspace, without the user's settings."""
        git_in(self.root, *arguments)

    def template(self, number: int) -> Path:
        """A template with five units."""
        return self.root / f"templates/t{number:04}.hip.j2"

    def kernel_file(self, number: int) -> Path:
        """The kernel file of that template."""
        return self.root / f"kernels/k{number:04}.kernel.toml"

    def other(self, number: int) -> Path:
        """A file that is nobody's business."""
        return self.root / f"data/{number % 80:02}/{number:04}.txt"

    @property
    def common(self) -> Path:
        """A file that every template includes."""
        return self.root / "templates/macros/common.j2"

    @asynccontextmanager
    async def open(self, launch: Launcher = run_process) -> AsyncIterator[Daemon]:
        """A daemon in this process, without its socket."""
        sys.setswitchinterval(SWITCH_S)  # as in a daemon's own process
        find = self.compiler.find_toolchain
        trust(self.root)
        async with open_engine(
            self.root, environment={}, find_toolchain=find, launch=launch, history=self.history
        ) as daemon:
            yield daemon

    async def build(self) -> None:
        """Fill the store."""
        with mock.patch("os.fsync"):  # what is half-written after a crash is made anew
            async with self.open(self.compiler.inside()) as daemon:
                async with daemon.builds.build(events.MAIN, None, force=False, check_only=False) as lines:
                    async for _ in lines:
                        pass
                await until_at_rest(daemon)


def git_in(folder: Path, *arguments: str) -> None:
    """Run git, without the user's settings. Raises CalledProcessError."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    people = {f"GIT_{who}_{what}": "benchmark" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], cwd=folder, env=os.environ | settings | people, check=True, capture_output=True)


def machine_of(daemon: Daemon) -> State:
    """The state of the daemon. Asking for its status takes longer: it counts."""
    return runtime_of(daemon).state


def runtime_of(daemon: Daemon) -> EngineLoop:
    """The loop that runs the machine."""
    return daemon.loop


async def until_at_rest(daemon: Daemon, quiet_s: float = 0.2) -> float:
    """Return when nothing is left to do, and nothing came for a while; when that was, by the monotonic clock."""
    rested_s = time.monotonic()
    while time.monotonic() - rested_s < quiet_s:
        await anyio.sleep(0.005)
        if machine_of(daemon).busy:
            rested_s = time.monotonic()
    return rested_s


def large_workspace() -> LargeWorkspace:
    """The one that is kept, built if need be."""
    texts = (_TEMPLATE, _MACRO, _COMMON, _SETTINGS, _KERNEL, _INSTANCE, PROGRAM)
    made_of = repr((texts, HEADERS, TEMPLATES, INSTANCES, MACROS, OTHERS, DIFFERENT))
    name = f"ckwatch-benchmark-{os.getuid()}-{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"
    workspace = LargeWorkspace(Path(tempfile.gettempdir()).resolve() / name)
    done = workspace.folder / "built"
    if not done.exists():
        print(f"making a workspace of {UNITS} units; it is kept for other benchmarks in {workspace.folder}")
        workspace.make()
        began_s = time.monotonic()
        anyio.run(partial(workspace.build))
        print(f"built in {time.monotonic() - began_s:.0f} s")
        done.touch()
    return workspace


if __name__ == "__main__":
    large_workspace()
