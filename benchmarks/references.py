"""The programs that ckwatch is measured against beside hipcc: ninja, ccache and a clangd as old as the compiler.

One that the machine has is used as it is. Else ninja comes from the package index that pip is configured with, ccache
and clangd from the Debian suite that the private toolchain takes its clang from, unpacked and relocated like that. All
of it goes into a folder of the benchmarks' own beside the toolchains; nothing is installed into the system.

    python -m benchmarks.references     fetches them and says where they are
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile.toolchain import debian, installations
from ckwatch.compile.toolchain.debian import AptPackage, AptSources, PrivateApt, find_keyring, require_tools
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.relocate import find_patchelf, relocate
from ckwatch.compile.toolchain.unpack import unpack_deb
from ckwatch.model.errors import CkwatchError, ToolchainError

SUITES = ("sid",)
NINJA = "ninja>=1.11,<2"
FETCH_LIMIT_S = 900.0
ASK_LIMIT_S = 60.0

_KEPT = re.compile(
    r"usr/lib/llvm-\d+/bin/clangd|usr/bin/ccache|usr/lib/llvm-\d+/lib/lib[^/]+\.so[^/]*|"
    r"(usr/)?lib(64)?/([^/]+-linux-gnu/)?[^/]+\.so(\.[^/]+)?|usr/share/doc/[^/]+/copyright"
)
_COMPLETE = "complete.json"
"""Written last: names and versions of the packages in a tree."""


class UnavailableError(CkwatchError):
    """A program to measure against cannot be had here; says why."""


def folder() -> Path:
    """Where what is fetched is kept."""
    return installations.cache_folder(os.environ) / "benchmarks"


def clang_major(toolchain: Toolchain) -> int:
    """The major version of the toolchain's clang. Raises UnavailableError when it does not say."""
    found = re.search(r"version (\d+)\.", toolchain.clang_version)
    if found is None:
        raise UnavailableError(f"the compiler does not tell its version: {toolchain.clang_version}")
    return int(found[1])


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


async def ccache(toolchain: Toolchain) -> Path:
    """Raises UnavailableError."""
    found = shutil.which("ccache")
    return Path(found) if found is not None else (await _debian_tree(clang_major(toolchain))) / "usr/bin/ccache"


async def clangd(toolchain: Toolchain) -> Path:
    """The clangd of the compiler's major version. Raises UnavailableError."""
    major = clang_major(toolchain)
    named = (shutil.which(name) for name in (f"clangd-{major}", "clangd"))
    for candidate in (str(toolchain.clang.with_name("clangd")), *named):
        if candidate is not None and os.access(candidate, os.X_OK) and f"version {major}." in version_of(candidate):
            return Path(candidate)
    return (await _debian_tree(major)) / f"usr/lib/llvm-{major}/bin/clangd"


def version_of(program: str | Path) -> str:
    """The first line that `--version` prints. Raises UnavailableError when it does not run."""
    return _ask([str(program), "--version"], f"{program} does not run", ASK_LIMIT_S).partition("\n")[0]


async def _debian_tree(major: int) -> Path:
    """The tree with ccache and clangd, fetched when it is not there."""
    final = folder() / f"debian-clang-{major}"
    if (final / _COMPLETE).exists():
        return final
    try:
        with anyio.fail_after(FETCH_LIMIT_S):
            await _fetch(final, ("ccache", f"clangd-{major}"))
    except TimeoutError:
        raise UnavailableError(f"fetching ccache and clangd took over {FETCH_LIMIT_S:.0f} s") from None
    except (ToolchainError, OSError) as error:
        raise UnavailableError(f"ccache and clangd cannot be had from Debian: {error}") from error
    return final


async def _fetch(final: Path, roots: Sequence[str]) -> None:
    require_tools()
    find_patchelf()
    mirror = debian.debian_mirror(await debian.configured_repositories(), debian.read_os_release(), os.environ)
    print(f"fetching {' and '.join(roots)} into {final}")
    final.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=final.parent))
    try:
        apt = PrivateApt(work / "apt", AptSources(mirror, find_keyring(), SUITES))
        await apt.update()
        packages = await apt.locate(await apt.resolve(roots, SUITES[0]))
        await apt.download(packages, on_bytes=lambda _: None)
        tree = work / "tree"
        await anyio.to_thread.run_sync(_unpack, apt, packages, tree)
        await relocate(tree, final)
        contents = {package.name: package.version for package in packages}
        (tree / _COMPLETE).write_text(json.dumps(contents, indent=1) + "\n")
        shutil.rmtree(final, ignore_errors=True)
        tree.rename(final)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(apt: PrivateApt, packages: Iterable[AptPackage], tree: Path) -> None:
    for package in packages:
        if not apt.is_intact(package):
            raise ToolchainError(f"{package.file_name} does not match its hash")
        unpack_deb(apt.archives / package.file_name, tree, keep=_KEPT.fullmatch)


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
    for name, find in (("ccache", ccache), ("clangd", clangd)):
        try:
            program = await find(toolchain)
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
