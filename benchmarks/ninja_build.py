"""The same sources built by ninja, one rule per command, with ccache before hipcc or without."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from benchmarks.hipcc import Hipcc
from benchmarks.process_memory import peak_below
from benchmarks.process_tree import end_tree
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import run_process

LIMIT_S = 3600.0
JOBS = len(os.sched_getaffinity(0))
"""As many as ckwatch runs compilers."""

_HEAD = """\
ninja_required_version = 1.3
rule run
  command = $command
rule compile
  command = $command
  depfile = $depfile
  deps = gcc
"""


@dataclass(frozen=True, slots=True)
class Built:
    """One call of ninja. `peak_mb`: all its children together, itself left out."""

    seconds: float
    peak_mb: float


class NinjaBuild:
    """Sources in `folder`, built by `ninja`; with `ccache`, its cache lies in the folder too."""

    def __init__(self, toolchain: Toolchain, folder: Path, ninja: Path, ccache: Path | None = None) -> None:
        self._hipcc = Hipcc(toolchain, folder)
        self._ninja = ninja
        self._ccache = ccache
        self._environment = {
            **self._hipcc.environment,
            "CCACHE_DIR": str(folder / "ccache"),
            "CCACHE_CONFIGPATH": str(folder / "ccache.conf"),
            # hipcc is no name that ccache knows
            "CCACHE_COMPILERTYPE": "clang",
        }

    def write(self, sources: Sequence[tuple[str, str]]) -> None:
        """Write the sources, each with its exported name, and the build file, as whoever renders them would."""
        lines = [_HEAD]
        for index, (text, symbol) in enumerate(sources):
            name = f"kernel{index}"
            request = self._hipcc.write(text, symbol, name)
            compiling = self._hipcc.compile_command(request, name)
            if self._ccache is not None:
                compiling = [str(self._ccache), *compiling]
            linking = self._hipcc.link_command(request, name)
            lines.append(
                f"build {name}.o: compile {name}.hip\n  command = {_quoted(compiling)}\n  depfile = {name}.d\n"
            )
            lines.append(f"build {name}.so: run {name}.o | {name}.map\n  command = {_quoted(linking)}\n")
        (self._hipcc.folder / "build.ninja").write_text("".join(lines))

    async def build(self) -> Built:
        """Run ninja. Raises CkwatchError when it fails, TimeoutError when it takes too long."""
        log = self._hipcc.folder / "ninja.log"
        begun_s = time.monotonic()
        with log.open("wb") as output:
            process = await anyio.open_process(
                [str(self._ninja), f"-j{JOBS}"],
                cwd=self._hipcc.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            with anyio.fail_after(LIMIT_S), peak_below(process.pid) as peak:
                status = await process.wait()
            seconds = time.monotonic() - begun_s
        finally:
            if process.returncode is None:
                end_tree(process.pid)
            with anyio.CancelScope(shield=True):
                await process.wait()
                await process.aclose()
        if status:
            raise CkwatchError(f"ninja ended with status {status}", log.read_text(errors="replace")[-2000:])
        return Built(seconds, peak.megabytes)

    async def hits(self) -> int:
        """How many compiles ccache has answered so far."""
        assert self._ccache is not None
        done = await run_process([self._ccache, "--print-stats"], environment=self._environment, timeout_s=60)
        counted = dict(line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 1)
        return int(counted.get("direct_cache_hit", 0)) + int(counted.get("preprocessed_cache_hit", 0))


def _quoted(command: Sequence[str]) -> str:
    return shlex.join(command).replace("$", "$$")
