"""Single programs of Debian, unpacked and relocated like a toolchain; nothing is installed into the system.

<folder>/<package>-<hash>/       one complete tree; `ckwatch-program.json` is written last and marks it so
<folder>/.downloads/             packages that are being fetched, kept when that is interrupted
<folder>/.lock                   held by the one that fetches
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile.toolchain.debian import AptPackage, AptSources
from ckwatch.compile.toolchain.install_steps import (
    USUAL_TOOLS,
    InstallStep,
    InstallTools,
    OnProgress,
    archive,
    check_space,
    download,
    find_suite,
    move_in,
    sweep,
    tree_name,
    try_program,
    unpack,
    writing,
)
from ckwatch.compile.toolchain.installations import remove_tree
from ckwatch.compile.toolchain.relocate import settle
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import read_file

_MANIFEST = "ckwatch-program.json"
_LAYOUT = 1
_HASH = "[0-9a-f]" * 8
_SUITES = (("sid",), ("experimental", "sid"), ("stable",), ("oldstable",))
"""The suites to look in, one after the other: old releases have what was dropped from new ones."""

_LIBRARIES = (
    r"usr/lib/llvm-\d+/lib/lib[^/]+\.so[^/]*|(usr/)?lib(64)?/([^/]+-linux-gnu/)?[^/]+\.so(\.[^/]+)?|"
    r"usr/share/doc/[^/]+/copyright"
)


@dataclass(frozen=True, slots=True)
class DebianProgram:
    """A program of a Debian package: `path` in the tree, `kept` a pattern of what belongs to it beside the libraries
    that it needs, `tree_bytes` all of it unpacked. With `packages` it is a folder, and these are all that it needs."""

    package: str
    path: str
    kept: str
    tree_bytes: int
    packages: tuple[str, ...] = ()


def find_trees(folder: Path, package: str) -> tuple[Path, ...]:
    """The complete trees of a package in `folder`, the newest first; in `package`, `*` stands for anything.

    Blocks; call from a worker thread.
    """
    found = [tree for tree in folder.glob(f"{package}-{_HASH}") if _is_complete(tree)]
    return tuple(sorted(found, key=lambda tree: (tree / _MANIFEST).stat().st_mtime, reverse=True))


async def fetch_program(
    folder: Path,
    wanted: DebianProgram,
    progress: OnProgress = lambda _: None,
    *,
    mirror: str | None = None,
    force: bool = False,
    tools: InstallTools = USUAL_TOOLS,
) -> Path:
    """Fetch a program into `folder`, unless it is there and no `force`; returns where the program is.

    Raises `ToolchainError` for everything that a user can fix, as `install` does.
    """
    present = None if force else _present(folder, wanted)
    if present is not None:
        return present
    sources = await archive(mirror, tools)
    async with writing(folder, progress):
        present = None if force else _present(folder, wanted)  # the one that held the lock may have fetched it
        return present or await _build(folder, wanted, sources, progress, tools)


def _present(folder: Path, wanted: DebianProgram) -> Path | None:
    return next((tree / wanted.path for tree in find_trees(folder, wanted.package)), None)


def _is_complete(tree: Path) -> bool:
    """Tell whether a tree has its manifest and runs where it lies, which it is made to do if it was moved there."""
    try:
        if json.loads(read_file(tree / _MANIFEST))["layout"] != _LAYOUT:
            return False
        settle(tree, _MANIFEST)
    except (OSError, ValueError, KeyError, TypeError, ToolchainError):
        return False
    return True


async def _build(
    folder: Path, wanted: DebianProgram, sources: AptSources, progress: OnProgress, tools: InstallTools
) -> Path:
    downloads = folder / ".downloads"
    found = await find_suite(wanted.package, _SUITES, sources, downloads, progress, tools)
    if found.apt is None:
        raise ToolchainError(f"{sources.mirror} has no package {wanted.package}\n{found.listed}", found.hint)
    apt, suite = found.apt, found.suite
    progress(InstallStep("Choosing packages"))
    named = [(name, await apt.version(name, suite)) for name in wanted.packages]
    packages = await apt.locate(named or await apt.resolve([wanted.package], suite))
    check_space(folder, packages, apt.archives, wanted.tree_bytes)
    await download(apt, packages, progress)
    await anyio.to_thread.run_sync(sweep, folder, f"{wanted.package}-{_HASH}", _MANIFEST)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
    final = folder / tree_name(wanted.package, _LAYOUT, packages)
    older = find_trees(folder, wanted.package)
    try:
        keep = re.compile(f"{wanted.kept}|{_LIBRARIES}").fullmatch
        await unpack(work, [apt.archives / package.file_name for package in packages], progress, keep)
        if not wanted.packages:
            progress(InstallStep("Relocating"))
            await anyio.to_thread.run_sync(tools.relocate, work, final)
        await anyio.to_thread.run_sync(move_in, work, final, _MANIFEST)
        program = final / wanted.path
        if not wanted.packages:
            progress(InstallStep(f"Trying {program.name}"))
            await try_program(program, program.name, "Please report this.")
        await anyio.to_thread.run_sync(_complete, final, packages)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_tidy, work, final)
    for tree in older:
        if tree != final:
            await anyio.to_thread.run_sync(remove_tree, tree, _MANIFEST)
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(downloads, ignore_errors=True))
    return final / wanted.path


def _complete(final: Path, packages: Sequence[AptPackage]) -> None:
    """Write the manifest."""
    made_of = [{"name": package.name, "version": package.version, "sha256": package.sha256} for package in packages]
    manifest = {"layout": _LAYOUT, "root": str(final), "packages": made_of}
    replace_file(final / _MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())


def _tidy(work: Path, final: Path) -> None:
    """Leave a complete tree or none."""
    shutil.rmtree(work, ignore_errors=True)
    if not (final / _MANIFEST).exists():
        shutil.rmtree(final, ignore_errors=True)
