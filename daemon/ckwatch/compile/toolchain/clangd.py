"""clangd: finding one that fits the compiler, and fetching one where there is none.

`ckwatch.toml` may name it. Else it is looked for beside the compiler's clang, among what was fetched before, and on
PATH, always of the clang's major version: it reads the headers that the clang brings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from ckwatch.compile.toolchain import debian, installations
from ckwatch.compile.toolchain.debian_programs import DebianProgram, fetch_program, find_trees
from ckwatch.compile.toolchain.install_steps import OnProgress
from ckwatch.compile.toolchain.model import Toolchain, clang_major
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.compile.toolchain.probe import ProbeCache, ask_program
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass

CLANGD_INSTALL_COMMAND = "ckwatch toolchain install --clangd"
OLDEST_FOR_CUDA = 16
FETCHED_FOR_CUDA = 22

# Measured: the tree of clangd 22 takes 0.31 GB.
_TREE_BYTES = 350_000_000


@dataclass(frozen=True, slots=True)
class ClangdProgram:
    """A clangd that runs. `version` is the first line of `--version`.

    `resource_folder` is for `--resource-dir`: the folder of the compiler's own builtin headers; None where clangd is of
    another version and must use those that it brings.
    """

    path: Path
    version: str
    major: int
    resource_folder: Path | None


def major_to_fetch(toolchain: Toolchain | NvccToolchain) -> int:
    """The major version of clangd that fits a compiler. Raises `ToolchainError` when the compiler does not say."""
    return clang_major(toolchain) if isinstance(toolchain, Toolchain) else FETCHED_FOR_CUDA


def require_clangd_can_be_fetched(major: int) -> None:
    """Raise `ToolchainError` on a system without apt."""
    debian.require_tools(_own(major))


def find_clangd(
    toolchain: Toolchain | NvccToolchain, environment: Mapping[str, str], configured: Path | None = None
) -> ClangdProgram | None:
    """The clangd for a compiler, or None; `configured` is what the workspace names, which is taken as it is.

    It may start programs, as long as their answers are not known (`probe`). Raises `ToolchainError` when what the
    workspace names is no clangd that runs.
    """
    cache = ProbeCache(installations.cache_folder(environment) / "probes.json")
    try:
        if configured is not None:
            return _configured(toolchain, environment, configured, cache)
        for path in _candidates(toolchain, environment):
            try:
                found = _examine(path, toolchain, environment, cache)
            except ToolchainError:
                continue
            if found is not None and _fits(found.major, toolchain):
                return found
    finally:
        cache.save()
    return None


async def fetch_clangd(
    major: int,
    progress: OnProgress = lambda _: None,
    *,
    mirror: str | None = None,
    force: bool = False,
    fetch: Callable[..., Awaitable[Path]] = fetch_program,
) -> Path:
    """Fetch clangd from Debian into the cache folder, unless that was done before and no `force`; returns the program.

    Raises `ToolchainError` for everything that a user can fix: no apt, no mirror, no network, a version that no suite
    has, a wrong signature or hash, a full disk.
    """
    require_clangd_can_be_fetched(major)
    llvm = f"usr/lib/llvm-{major}"
    kept = rf"{llvm}/bin/clangd|{llvm}/lib/clang/\d+/include/.+|usr/lib/clang/.+"
    wanted = DebianProgram(f"clangd-{major}", f"{llvm}/bin/clangd", kept, _TREE_BYTES)
    try:
        return await fetch(_folder(os.environ), wanted, progress, mirror=mirror, force=force)
    except ToolchainError as error:
        hint = f"{error.hint}\nOr: {_own(major)}" if error.hint else _own(major)
        raise ToolchainError(f"cannot fetch clangd {major}: {error.message}", hint) from error


def _folder(environment: Mapping[str, str]) -> Path:
    return installations.cache_folder(environment) / "clangd"


def _own(major: int) -> str:
    return f"Install clangd {major} and put it on PATH, or name it: `clangd` in [toolchain] of ckwatch.toml."


def _fits(major: int, toolchain: Toolchain | NvccToolchain) -> bool:
    return major == clang_major(toolchain) if isinstance(toolchain, Toolchain) else major >= OLDEST_FOR_CUDA


def _candidates(toolchain: Toolchain | NvccToolchain, environment: Mapping[str, str]) -> Iterator[Path]:
    wanted = "*"
    if isinstance(toolchain, Toolchain):
        yield toolchain.clang.with_name("clangd")
        wanted = str(clang_major(toolchain))
    for tree in find_trees(_folder(environment), f"clangd-{wanted}"):
        yield from tree.glob("usr/lib/llvm-*/bin/clangd")
    folders = [Path(folder) for folder in environment.get("PATH", os.defpath).split(os.pathsep)]
    for name in (f"clangd-{wanted}", "clangd"):
        for folder in filter(Path.is_absolute, folders):
            yield from sorted(folder.glob(name), key=_number, reverse=True)


def _number(path: Path) -> int:
    """`clangd-19` → 19."""
    found = re.fullmatch(r"\D*(\d+)", path.name)
    return int(found[1]) if found else 0


def _configured(
    toolchain: Toolchain | NvccToolchain, environment: Mapping[str, str], path: Path, cache: ProbeCache
) -> ClangdProgram:
    named = f"[toolchain] clangd = {path}"
    hint = "Name the program clangd, or leave the setting out: ckwatch then finds or fetches one."
    try:
        found = _examine(path, toolchain, environment, cache)
    except ToolchainError as error:
        raise ToolchainError(f"{named}: {error.message}", hint) from error
    if found is None:
        raise ToolchainError(f"{named}: this is not clangd, according to its --version", hint)
    return found


def _examine(
    path: Path, toolchain: Toolchain | NvccToolchain, environment: Mapping[str, str], cache: ProbeCache
) -> ClangdProgram | None:
    """Examine a program; None if it is not clangd. Raises `ToolchainError` when it does not run."""
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise ToolchainError(f"there is no program {path}")
    version_text = _ask(path, "--version", environment, cache)
    found = re.search(r"\bclangd version (\d+)\.", version_text)
    if found is None:
        return None
    major = int(found[1])
    resources = None
    if isinstance(toolchain, Toolchain) and major == clang_major(toolchain):
        printed = _ask(toolchain.clang, "-print-resource-dir", toolchain.environment, cache).strip()
        resources = Path(printed) if printed else None
    return ClangdProgram(path, version_text.partition("\n")[0].strip(), major, resources)


def _ask(program: Path, question: str, environment: Mapping[str, str], cache: ProbeCache) -> str:
    return cache.ask(
        f"{program.name} {question}", [program.resolve()], lambda: ask_program([str(program), question], environment)
    )
