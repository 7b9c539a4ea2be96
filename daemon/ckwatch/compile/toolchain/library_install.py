"""Adds headers of ROCm's libraries to a private toolchain, from the same archive, verified in the same way.

Of a package only its headers are taken, and of its dependencies those that are in the table. All come from one release:
with a library that is added, those that are there are fetched again where the archive has newer ones.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import anyio
import anyio.from_thread
import anyio.to_thread

from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.debian import SUITES, AptSources, PrivateApt
from ckwatch.compile.toolchain.install_steps import (
    USUAL_TOOLS,
    InstallStep,
    InstallTools,
    OnProgress,
    archive,
    check_space,
    download,
    sweep,
    unpack,
    writing,
)
from ckwatch.compile.toolchain.rocm_libraries import (
    MANIFEST,
    LibraryPackage,
    include_folder,
    installed_packages,
    libraries_folder,
    packages_to_json,
)
from ckwatch.compile.toolchain.unpack import unpack_sources
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.rocm_libraries import LIBRARIES, RocmLibrary
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import read_file

TREE_BYTES = 60_000_000
"""All libraries of ROCm 7.2.4 take 30 MB."""

_LACKING_INCLUDES = {"rocprim/iterator/texture_cache_iterator.hpp": ("memset", "<cstring>")}
"""Headers that use a function and do not include what declares it, which not every C++ library does for them."""

_KEPT = re.compile(r"usr/include/.+|usr/share/doc/[^/]+/copyright")


@dataclass(frozen=True, slots=True)
class AddedLibraries:
    """Headers that are in the tree now: those that were `fetched`, others were there."""

    folder: Path
    fetched: tuple[str, ...]


async def install_libraries(
    wanted: Sequence[RocmLibrary],
    *,
    mirror: str | None = None,
    force: bool = False,
    progress: OnProgress = lambda _: None,
    tools: InstallTools = USUAL_TOOLS,
) -> AddedLibraries:
    """Add the headers of libraries to the private toolchain in use; where all are there and no `force`, do nothing.

    Raises `ToolchainError` for everything that a user can fix, as `install` does, and where there is no toolchain.
    """
    folder = installations.toolchains_folder(os.environ)
    tree = _tree(folder)
    if not force and not _lacking(tree, wanted):
        return AddedLibraries(include_folder(tree), ())
    sources = await archive(mirror, tools)
    async with writing(folder, progress):
        tree = _tree(folder)
        if not force and not _lacking(tree, wanted):  # the one that held the lock may have added them
            return AddedLibraries(include_folder(tree), ())
        return await _add(folder, tree, wanted, sources, progress, tools, force=force)


def _tree(folder: Path) -> Path:
    manifest = installations.current(folder)
    if manifest is None:
        raise ToolchainError(
            "headers of ROCm's libraries are added to a private toolchain, and none is installed",
            "Run `ckwatch toolchain install`.",
        )
    return manifest.root


def _lacking(tree: Path, wanted: Sequence[RocmLibrary]) -> list[str]:
    there = {package.name for package in installed_packages(tree)}
    return [library.name for library in wanted if not there.issuperset(library.packages)]


async def _add(
    folder: Path,
    tree: Path,
    wanted: Sequence[RocmLibrary],
    sources: AptSources,
    progress: OnProgress,
    tools: InstallTools,
    *,
    force: bool,
) -> AddedLibraries:
    downloads = folder / ".downloads" / "libraries"
    apt = tools.open_apt(downloads, sources)
    progress(InstallStep("Reading the package indexes"))
    await apt.update()
    progress(InstallStep("Choosing packages"))
    there = {one.name: one for one in installed_packages(tree)}
    asked = {library.name for library in wanted} | {one.library for one in there.values()}
    libraries = [library for library in LIBRARIES.values() if library.name in asked]
    await _require_packages(apt, libraries, sources.mirror)
    owners = {package: library.name for library in libraries for package in library.packages}
    located = await apt.locate([(name, None) for name in owners], SUITES[0])
    renewed = {name for library in wanted for name in library.packages} if force else set()
    new = [
        one for one in located if one.name in renewed or one.name not in there or there[one.name].sha256 != one.sha256
    ]
    check_space(folder, new, apt.archives, TREE_BYTES)
    await download(apt, new, progress)
    listed = [LibraryPackage(owners[one.name], one.name, one.version, one.sha256) for one in located]
    await anyio.to_thread.run_sync(sweep, folder, "rocm-*", installations.MANIFEST)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
    incomplete: dict[str, ToolchainError] = {}
    try:
        await unpack(work, [apt.archives / one.file_name for one in new], progress, _KEPT.fullmatch)
        for library in libraries:
            if library.source and any(owners[one.name] == library.name for one in new):
                try:
                    await _complete(work / "usr/include", library, apt, progress)
                except ToolchainError as error:
                    incomplete[library.name] = error
                    await anyio.to_thread.run_sync(shutil.rmtree, work / "usr/include" / library.folders[0])
        await anyio.to_thread.run_sync(_mend, work / "usr/include")
        listed = [one for one in listed if one.library not in incomplete]
        await anyio.to_thread.run_sync(_move_in, work, tree, listed)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(work, ignore_errors=True))
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(downloads, ignore_errors=True))
    for problem in incomplete.values():  # the others are there
        raise problem
    fetched = {owners[one.name] for one in new}
    return AddedLibraries(include_folder(tree), tuple(library.name for library in libraries if library.name in fetched))


async def _require_packages(apt: PrivateApt, libraries: Sequence[RocmLibrary], mirror: str) -> None:
    for library in libraries:
        for package in library.packages:
            if await apt.version(package) is None:
                raise ToolchainError(
                    f"{mirror} has no package {package}, where the headers of {library.name} are",
                    "Leave the library out, or choose a full Debian mirror with --mirror URL or CKWATCH_DEBIAN_MIRROR.",
                )


async def _complete(include: Path, library: RocmLibrary, apt: PrivateApt, progress: OnProgress) -> None:
    """Add headers that Debian's package lacks from its source package, whose index is signed with the same key.

    Raises `ToolchainError` where some are lacking after all.
    """
    (folder,) = library.folders
    lacking = await anyio.to_thread.run_sync(_lacks_own_headers, include / folder)
    if not lacking:
        return
    progress(InstallStep(f"Fetching the sources of {library.name}"))
    what = f"Debian's package {library.packages[0]} lacks {folder}/{lacking}"
    hint = f"Get {library.name} from AMD, and give the folder of its headers with -I in `[compile] flags`."
    try:
        fetched = await apt.fetch_source(library.name, SUITES[0])
    except ToolchainError as error:
        raise ToolchainError(f"{library.name} is left out: {what}; {error.message}", hint) from error

    def place(path: str) -> str | None:
        inside = PurePosixPath(path)
        if not inside.is_relative_to(library.source) or inside.suffix not in (".h", ".hpp"):
            return None
        target = f"{folder}/{inside.relative_to(library.source)}"
        return None if (include / target).exists() else target

    await anyio.to_thread.run_sync(
        lambda: unpack_sources(fetched, place, include, checkpoint=anyio.from_thread.check_cancelled)
    )
    lacking = await anyio.to_thread.run_sync(_lacks_own_headers, include / folder)
    if lacking:
        raise ToolchainError(f"{library.name} is left out: {what}, and so do its sources", hint)


def _lacks_own_headers(folder: Path) -> str:
    """Return the first header of a folder's own that is included there and is not there; empty if there is none."""
    for path in sorted(folder.rglob("*.h*")):
        for name in re.findall(
            r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', read_file(path).decode("utf-8", "replace"), re.MULTILINE
        ):
            if not (path.parent / name).exists():
                return str(name)
    return ""


def _mend(include: Path) -> None:
    for name, (function, header) in _LACKING_INCLUDES.items():
        path = include / name
        text = read_file(path).decode() if path.exists() else ""
        if re.search(rf"\b{function}\(", text) and f"#include {header}" not in text:
            path.write_text(f"#include {header}\n{text}", "utf-8")


def _move_in(work: Path, tree: Path, listed: Sequence[LibraryPackage]) -> None:
    """Put new headers in the place of older ones, a library's folder at a time, and list them."""
    libraries = libraries_folder(tree)
    for source, target in ((work / "usr/include", include_folder(tree)), (work / "usr/share/doc", libraries / "doc")):
        target.mkdir(parents=True, exist_ok=True)
        for entry in [*source.iterdir()] if source.is_dir() else []:
            place = target / entry.name
            if place.is_dir():
                place.rename(work / f"{source.name}-{entry.name}")
            entry.rename(place)
    replace_file(libraries / MANIFEST, packages_to_json(listed).encode())
