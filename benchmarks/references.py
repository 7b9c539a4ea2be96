"""The programs that ckwatch is measured against beside hipcc: ninja, ccache and a clangd as old as the compiler.

One that the machine has is used as it is. Else ninja comes from the package index that pip is configured with, clangd
as ckwatch itself fetches it, and ccache from Debian in the same way, into a folder of the benchmarks' own beside the
toolchains; nothing is installed into the system.

    python -m benchmarks.references     fetches them and says where they are
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Awaitable, Sequence
from pathlib import Path

import anyio

from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.clangd import fetch_clangd, find_clangd, major_to_fetch
from ckwatch.compile.toolchain.debian_programs import DebianProgram, fetch_program
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.install_steps import InstallStep
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import CkwatchError, ToolchainError

CCACHE = DebianProgram("ccache", "usr/bin/ccache", "usr/bin/ccache", 40_000_000)
NINJA = "ninja>=1.11,<2"
FETCH_LIMIT_S = 900.0
ASK_LIMIT_S = 60.0


class UnavailableError(CkwatchError):
    """A program to measure against cannot be had here; says why."""


def folder() -> Path:
    """Folder of fetched files."""
    return installations.cache_folder(os.environ) / "benchmarks"


def ninja() -> Path:
    """Raises UnavailableError."""
    beside = Path(sysconfig.get_path("scripts")) / "ninja"
    found = str(beside) if beside.is_file() else shutil.which("ninja")
    if found is not None:
        return Path(found)
    place = folder() / "ninja"
    program = place / "bin" / "ninja"
    if not program.is_file():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _ask([*command, "--target", str(place), NINJA], "ninja cannot be had from the package index", FETCH_LIMIT_S)
    return program


async def ccache() -> Path:
    """Raises UnavailableError."""
    found = shutil.which("ccache")
    return Path(found) if found is not None else await _fetched(fetch_program(folder(), CCACHE, _show))


async def clangd(toolchain: Toolchain) -> Path:
    """The clangd of the compiler's major version. Raises UnavailableError."""
    return await _fetched(_clangd(toolchain))


async def _clangd(toolchain: Toolchain) -> Path:
    found = find_clangd(toolchain, os.environ)
    return found.path if found is not None else await fetch_clangd(major_to_fetch(toolchain), _show)


def version_of(program: str | Path) -> str:
    """The first line that `--version` prints. Raises UnavailableError when it does not run."""
    return _ask([str(program), "--version"], f"{program} does not run", ASK_LIMIT_S).partition("\n")[0]


async def _fetched(program: Awaitable[Path]) -> Path:
    try:
        with anyio.fail_after(FETCH_LIMIT_S):
            return await program
    except TimeoutError:
        raise UnavailableError(f"fetching it took over {FETCH_LIMIT_S:.0f} s") from None
    except ToolchainError as error:
        raise UnavailableError(str(error)) from error


def _show(step: InstallStep) -> None:
    if not step.done:
        print(step.title)


def _ask(command: Sequence[str], problem: str, limit_s: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{problem}: {error}") from error
    if done.returncode:
        raise UnavailableError(f"{problem}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


async def main() -> int:
    """Fetch everything, and say what it is."""
    toolchain = discover()
    status = 0
    for name, found in (("ccache", ccache()), ("clangd", clangd(toolchain))):
        try:
            program = await found
            print(f"{name}: {program}: {version_of(program)}")
        except UnavailableError as error:
            print(f"{name}: {error}")
            status = 1
    try:
        print(f"ninja: {ninja()}: {version_of(ninja())}")
    except UnavailableError as error:
        print(f"ninja: {error}")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(anyio.run(main))
