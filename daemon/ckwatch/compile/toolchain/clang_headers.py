"""The C++ headers of the compiler's clang and its LLVM: finding them, and fetching them where there are none.

With them ckwatch compiles a plugin for that clang (`compile/kept_clang.py`). A ROCm brings them where its package of
LLVM's development files is installed. Those of Debian's clang are 80 MB to download: they come with a private
toolchain where they can be had.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.debian_programs import DebianProgram, fetch_program, find_trees
from ckwatch.compile.toolchain.install_steps import OnProgress
from ckwatch.compile.toolchain.model import Toolchain, clang_major
from ckwatch.model.errors import ToolchainError
from ckwatch.system.user_files import read_file

CLANG_HEADERS_INSTALL_COMMAND = "ckwatch toolchain install --clang-headers"

_VERSION = re.compile(r"\bversion (\S+)")
_DECLARED = re.compile(r'#define CLANG_VERSION_STRING "(.+)"')
_DEBIAN = "Debian clang"

# Measured: 74 MB for LLVM 22.
_TREE_BYTES = 80_000_000


def find_clang_headers(toolchain: Toolchain, environment: Mapping[str, str]) -> Path | None:
    """The folder with `clang/` and `llvm/` of the very version of the compiler's clang. Blocks; call from a worker
    thread."""
    version = _VERSION.search(toolchain.clang_version)
    for folder in _candidates(toolchain, environment):
        try:
            declared = _DECLARED.search(read_file(folder / "clang/Basic/Version.inc").decode(errors="replace"))
        except OSError:
            continue
        has_llvm = (folder / "llvm/ADT/StringRef.h").is_file()
        if has_llvm and declared is not None and version is not None and declared[1] == version[1]:
            return folder
    return None


def can_fetch_headers(toolchain: Toolchain) -> bool:
    """Return True if the compiler's clang is one of Debian's."""
    return _DEBIAN in toolchain.clang_version


async def fetch_clang_headers(
    toolchain: Toolchain,
    progress: OnProgress = lambda _: None,
    *,
    mirror: str | None = None,
    force: bool = False,
    fetch: Callable[..., Awaitable[Path]] = fetch_program,
) -> Path:
    """Fetch them from Debian into the cache folder, unless they are there and no `force`; returns the folder.

    Raises `ToolchainError` for everything that a user can fix, and where the compiler's clang is not Debian's, or a
    version that Debian has no longer.
    """
    if not can_fetch_headers(toolchain):
        raise ToolchainError(
            f"the headers of {toolchain.clang_version} are not in Debian",
            f"Install the package of LLVM's development files that belongs to {toolchain.title}.",
        )
    major = clang_major(toolchain)
    path = f"usr/lib/llvm-{major}/include"
    kept = rf"{path}/(clang(-c)?/.+|llvm|llvm-c)|usr/include/llvm(-c)?-{major}/.+"
    package = f"libclang-{major}-dev"
    wanted = DebianProgram(package, path, kept, _TREE_BYTES, (package, f"llvm-{major}-dev"))
    found = find_clang_headers(toolchain, os.environ)
    if found is not None and not force:
        return found
    folder = await fetch(_folder(os.environ), wanted, progress, mirror=mirror, force=True)
    if find_clang_headers(toolchain, os.environ) is None:
        raise ToolchainError(
            f"Debian has the headers of another version than {toolchain.clang_version}",
            "Run `ckwatch toolchain install all` for the newest compiler, then this again.",
        )
    return folder


def _folder(environment: Mapping[str, str]) -> Path:
    return installations.cache_folder(environment) / "clang-headers"


def _candidates(toolchain: Toolchain, environment: Mapping[str, str]) -> Iterator[Path]:
    yield toolchain.clang.parent.parent / "include"
    yield toolchain.clang.resolve().parent.parent / "include"
    if can_fetch_headers(toolchain):
        major = clang_major(toolchain)
        for tree in find_trees(_folder(environment), f"libclang-{major}-dev"):
            yield tree / f"usr/lib/llvm-{major}/include"
